//! A function: its name, its settings and the command that starts its processes. One process of it: its start, its output, its end,
//! and its handle.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tokio::process::Child;
use tokio::runtime::Handle;

use super::api::Api;
use super::invocation::{Invocation, InvokeError, Target};
use super::log::{LogLine, LogSource};
use super::state::{Phase, State};
use crate::wire;

/// The variables of the test's own process that a function process inherits, because it needs them to run. All others are
/// removed: a function must not depend on the developer's shell, or find real credentials in it.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SystemRoot",
];

/// The version of every function.
pub(super) const VERSION: &str = "$LATEST";

/// A function: its name, its settings and the command that starts its processes.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::lambda::FunctionSpec;
/// use std::{process::Command, time::Duration};
///
/// let function = FunctionSpec::new("payment", Command::new("target/debug/payment"))
///     .env("IDEMPOTENCY_TABLE", "idempotency")
///     .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
///     .timeout(Duration::from_secs(10));
/// # let _ = function;
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `LocalLambda::start`"]
pub struct FunctionSpec {
    pub(super) name: String,
    pub(super) program: OsString,
    args: Vec<OsString>,
    directory: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    pub(super) timeout: Duration,
    pub(super) concurrency: usize,
}

impl FunctionSpec {
    /// Creates a function with this name, whose processes are started with this command.
    ///
    /// Uses the command's program, arguments, working directory and environment variables. A process has those variables, the
    /// ones that Lambda sets, and a few of the test's own that every program needs, such as `PATH`.
    pub fn new(name: impl Into<String>, command: Command) -> Self {
        let set = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Self {
            name: name.into(),
            program: command.get_program().to_owned(),
            args: command.get_args().map(OsStr::to_owned).collect(),
            directory: command.get_current_dir().map(Into::into),
            env: set.collect(),
            timeout: Duration::from_secs(30),
            concurrency: 1,
        }
    }

    /// Sets an environment variable. It overrides a variable that Lambda sets, except the Runtime API's address.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets several environment variables, such as those of `EmbeddedDynamoDb::environment`.
    pub fn envs<N, V>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        variables
            .into_iter()
            .fold(self, |function, (name, value)| function.env(name, value))
    }

    /// Sets the time after which an invocation without its own deadline is killed; 30 s by default (Lambda's default of 3 s
    /// would be too short on a busy test machine).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many invocations one process takes at a time, as on Lambda Managed Instances; 1 by default.
    pub fn concurrency(mut self, invocations: usize) -> Self {
        self.concurrency = invocations.max(1);
        self
    }

    pub(super) fn arn(&self) -> String {
        format!(
            "arn:aws:lambda:eu-central-1:123456789012:function:{}",
            self.name
        )
    }

    /// Returns the command for the process with this number. Its Runtime API listens at `api`.
    pub(super) fn command(&self, api: &str, number: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let log_group = format!("/aws/lambda/{}", self.name);
        let log_stream = format!("local/[{VERSION}]{number:032x}");
        command
            .env("AWS_LAMBDA_FUNCTION_NAME", &self.name)
            .env("AWS_LAMBDA_FUNCTION_VERSION", VERSION)
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", log_group)
            .env("AWS_LAMBDA_LOG_STREAM_NAME", log_stream)
            .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
            .env("AWS_REGION", "eu-central-1")
            .env("AWS_DEFAULT_REGION", "eu-central-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_SESSION_TOKEN", "test")
            .env("LAMBDA_TASK_ROOT", "/var/task")
            .env("LAMBDA_RUNTIME_DIR", "/var/runtime")
            .env("_HANDLER", "bootstrap")
            .env("TZ", ":UTC");
        if self.concurrency > 1 {
            command.env("AWS_LAMBDA_MAX_CONCURRENCY", self.concurrency.to_string());
        }
        command.envs(&self.env).env("AWS_LAMBDA_RUNTIME_API", api);
        command
    }
}

/// One process of the function.
///
/// Clones are handles of the same process. It ends with [`kill`](Self::kill), at a deadline, when the function itself
/// exits, or when its [`LocalLambda`](super::LocalLambda) is dropped.
#[derive(Clone)]
pub struct FunctionProcess {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) state: Arc<State>,
    pub(super) number: usize,
    pub(super) process_id: Option<u32>,
    pub(super) timeout: Duration,
}

impl FunctionProcess {
    /// Prepares an invocation with this event. It is JSON text and is sent unchanged.
    ///
    /// Await the invocation, or [`start`](Invocation::start) it and await the outcome later. While the process is busy with
    /// another event, the invocation waits; a relative deadline starts when the process takes the event.
    pub fn invoke(&self, event: impl fmt::Display) -> Invocation<'_> {
        Invocation::new(Target::Process(self), event.to_string(), self.inner.timeout)
    }

    /// Waits until the process has asked for its first event.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub async fn ready(&self) -> Result<(), InvokeError> {
        let mut phase = self.inner.state.phase.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = phase.wait_for(|phase| *phase != Phase::Starting).await;
        self.inner.state.end_error().map_or(Ok(()), Err)
    }

    /// Waits until the process writes a line that contains this text, to standard output or standard error.
    ///
    /// Each call continues after the line that the previous call returned, so a second call waits for a second line. Lines
    /// that were written between two calls count.
    ///
    /// # Errors
    ///
    /// If the process ends without such a line. The error has its log.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// let pending = process.invoke(r#"{"order_id": 1}"#).start();
    /// process.wait_for_line("charged").await?;
    /// // The handler has charged, and has not responded yet.
    /// process.kill().await;
    /// assert!(pending.await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_for_line(&self, text: &str) -> Result<LogLine, InvokeError> {
        if let Some(line) = self.inner.state.log.wait_for(text).await {
            return Ok(line);
        }
        self.ended().await;
        let end = self.inner.state.end_error();
        Err(end.unwrap_or_else(|| InvokeError::exited(None).with_log(self.log())))
    }

    /// Kills the process, as `kill -9` does, and returns when it has ended.
    ///
    /// Pending invocations end with an error of the type `Runtime.ExitError`. Has no effect on a process that has ended.
    pub async fn kill(&self) {
        self.inner.state.kill();
        self.ended().await;
    }

    /// Waits until the process has ended.
    async fn ended(&self) {
        let mut phase = self.inner.state.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
    }

    /// Returns true if the process has not ended.
    pub fn is_alive(&self) -> bool {
        *self.inner.state.phase.borrow() != Phase::Ended
    }

    /// Returns everything that the process has written so far.
    pub fn log(&self) -> Vec<LogLine> {
        self.inner.state.log.drain();
        self.inner.state.log.since(0)
    }

    /// Returns the process id of the operating system.
    pub fn process_id(&self) -> Option<u32> {
        self.inner.process_id
    }
}

impl fmt::Debug for FunctionProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionProcess")
            .field("number", &self.inner.number)
            .field("process_id", &self.inner.process_id)
            .field("phase", &*self.inner.state.phase.borrow())
            .finish_non_exhaustive()
    }
}

/// Starts the process, and a task on `runtime` that serves and watches it. Returns its process id.
pub(super) fn start_process(
    runtime: &Handle,
    function: &FunctionSpec,
    number: usize,
    state: &Arc<State>,
) -> io::Result<Option<u32>> {
    let _context = runtime.enter();
    let (listener, address) = wire::bind()?;
    let mut command = tokio::process::Command::from(function.command(&address.to_string(), number));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let id = child.id();

    if let Some(stdout) = child.stdout.take() {
        #[cfg(unix)]
        state.log.tap(LogSource::Stdout, &stdout)?;
        let state = Arc::clone(state);
        runtime.spawn(async move { state.log.follow(LogSource::Stdout, stdout).await });
    }
    if let Some(stderr) = child.stderr.take() {
        #[cfg(unix)]
        state.log.tap(LogSource::Stderr, &stderr)?;
        let state = Arc::clone(state);
        runtime.spawn(async move { state.log.follow(LogSource::Stderr, stderr).await });
    }

    let api = Arc::new(Api {
        state: Arc::clone(state),
        function_arn: function.arn(),
    });
    let served = wire::serve(listener, move |request| Arc::clone(&api).handle(request));
    let watched = watch(child, Arc::clone(state));
    runtime.spawn(async move {
        tokio::select! {
            () = watched => {}
            () = served => {}
        }
    });
    Ok(id)
}

async fn watch(mut child: Child, state: Arc<State>) {
    // Its `drop` reports the end, also if the task is dropped with its runtime.
    let mut end = End {
        state,
        status: None,
    };
    end.status = loop {
        tokio::select! {
            status = child.wait() => break status.ok(),
            () = end.state.kill.notified() => {
                // Fails only if the process has ended, which `wait` then reports.
                let _ = child.start_kill();
            }
        }
    };
}

struct End {
    state: Arc<State>,
    status: Option<ExitStatus>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.state.ended(self.status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_the_function_override_those_of_lambda() {
        let mut command = Command::new("payment");
        command.env("A", "1").env("AWS_REGION", "eu-north-1");
        let function =
            FunctionSpec::new("payment", command).env("AWS_LAMBDA_RUNTIME_API", "elsewhere");
        let command = function.command("127.0.0.1:1", 1);
        let value = |name: &str| {
            let mut all = command.get_envs();
            all.find(|(found, _)| *found == name)
                .and_then(|(_, value)| value?.to_str())
        };
        assert_eq!(value("A"), Some("1"));
        assert_eq!(value("AWS_REGION"), Some("eu-north-1"));
        assert_eq!(value("AWS_LAMBDA_FUNCTION_NAME"), Some("payment"));
        assert_eq!(value("AWS_LAMBDA_RUNTIME_API"), Some("127.0.0.1:1"));
    }
}
