use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// What a process needs from the test's own surroundings to run at all. Nothing else passes: a function must not depend
/// on the developer's shell, nor find real credentials in it.
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

/// A function: its name, its settings and the command that starts its process.
///
/// ```
/// use idempotency_testkit::lambda::Function;
/// use std::{process::Command, time::Duration};
///
/// let function = Function::new("payment", Command::new("target/debug/payment"))
///     .env("IDEMPOTENCY_TABLE", "idempotency")
///     .memory_size(256)
///     .timeout(Duration::from_secs(10));
/// # let _ = function;
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `LocalLambda::start`"]
pub struct Function {
    pub(super) name: String,
    pub(super) program: OsString,
    args: Vec<OsString>,
    directory: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    version: String,
    memory_size: u32,
    pub(super) timeout: Duration,
    pub(super) concurrency: usize,
}

impl Function {
    /// A function with this name, whose processes are started with this command.
    ///
    /// Of the command count its program, arguments, directory and variables. Its process sees those variables, the ones
    /// that Lambda sets, and of the test's own only the few without which nothing runs (such as `PATH`).
    ///
    /// ```
    /// # use idempotency_testkit::lambda::Function;
    /// # use std::process::Command;
    /// let mut command = Command::new("target/debug/payment");
    /// command.env("RUST_LOG", "debug");
    /// let function = Function::new("payment", command);
    /// # let _ = function;
    /// ```
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
            version: "$LATEST".to_owned(),
            memory_size: 128,
            timeout: Duration::from_secs(30),
            concurrency: 1,
        }
    }

    /// Sets a variable of the function; it wins over what Lambda sets, except for the Runtime API's address.
    ///
    /// ```
    /// # use idempotency_testkit::lambda::Function;
    /// # use std::process::Command;
    /// let function = Function::new("payment", Command::new("target/debug/payment"))
    ///     .env("IDEMPOTENCY_TABLE", "idempotency");
    /// # let _ = function;
    /// ```
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets several variables, such as `EmbeddedDynamoDb::environment` gives.
    ///
    /// ```
    /// # use idempotency_testkit::lambda::Function;
    /// # use std::process::Command;
    /// let variables = [("IDEMPOTENCY_TABLE", "idempotency"), ("IDEMPOTENCY_ON_TIMEOUT", "hold")];
    /// let function = Function::new("payment", Command::new("target/debug/payment")).envs(variables);
    /// # let _ = function;
    /// ```
    pub fn envs<N, V>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        variables
            .into_iter()
            .fold(self, |function, (name, value)| function.env(name, value))
    }

    /// Sets the version, `$LATEST` by default.
    ///
    /// ```
    /// # use idempotency_testkit::lambda::Function;
    /// # use std::process::Command;
    /// let function = Function::new("payment", Command::new("target/debug/payment")).version("7");
    /// # let _ = function;
    /// ```
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the memory size that the function is told, in MB; 128 by default. It is not enforced.
    ///
    /// ```
    /// # use idempotency_testkit::lambda::Function;
    /// # use std::process::Command;
    /// let function = Function::new("payment", Command::new("target/debug/payment")).memory_size(512);
    /// # let _ = function;
    /// ```
    pub fn memory_size(mut self, megabytes: u32) -> Self {
        self.memory_size = megabytes;
        self
    }

    /// Sets the time after which an invocation without a deadline of its own is killed; 30 s by default (Lambda's own 3 s
    /// would fail on a busy test machine).
    ///
    /// ```
    /// # use idempotency_testkit::lambda::Function;
    /// # use std::{process::Command, time::Duration};
    /// let function = Function::new("payment", Command::new("target/debug/payment"))
    ///     .timeout(Duration::from_secs(60));
    /// # let _ = function;
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many invocations one process takes at a time, as Lambda Managed Instances allow; 1 by default.
    ///
    /// ```
    /// # use idempotency_testkit::lambda::Function;
    /// # use std::process::Command;
    /// let function = Function::new("payment", Command::new("target/debug/payment")).concurrency(8);
    /// # let _ = function;
    /// ```
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

    /// The command for the process with this number, whose Runtime API listens there.
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
        command
            .env("AWS_LAMBDA_FUNCTION_NAME", &self.name)
            .env("AWS_LAMBDA_FUNCTION_VERSION", &self.version)
            .env(
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
                self.memory_size.to_string(),
            )
            .env(
                "AWS_LAMBDA_LOG_GROUP_NAME",
                format!("/aws/lambda/{}", self.name),
            )
            .env(
                "AWS_LAMBDA_LOG_STREAM_NAME",
                format!("local/[{}]{number:032x}", self.version),
            )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_own_variables_win_over_lambdas() {
        let mut command = Command::new("payment");
        command.env("A", "1").env("AWS_REGION", "eu-north-1");
        let function = Function::new("payment", command).env("AWS_LAMBDA_RUNTIME_API", "elsewhere");
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
