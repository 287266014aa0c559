//! A function: its name, its settings and the command that starts its processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

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
///     .memory_size(256)
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
    pub(super) version: String,
    memory_size: u32,
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
            version: "$LATEST".to_owned(),
            memory_size: 128,
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

    /// Sets the version; `$LATEST` by default.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the memory size, in MB, that the function reads from its environment; 128 by default. It is not enforced.
    pub fn memory_size(mut self, megabytes: u32) -> Self {
        self.memory_size = megabytes;
        self
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
