//! The two Lambdas: the testkit's, and the emulator that AWS publishes.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;

/// The time after which both kill an invocation.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The only name that the emulator knows.
const NAME: &str = "function";

pub(crate) enum Host {
    /// The testkit's.
    Local,
    /// The program `aws-lambda-rie` at this path.
    Emulator(PathBuf),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Local => "local",
            Self::Emulator(_) => "emulator",
        })
    }
}

/// A function that serves events. Its processes end when this is dropped.
pub(crate) struct Running {
    /// Where the Invoke API is.
    address: String,
    _host: (Option<LocalLambda>, Option<Child>),
}

impl Host {
    pub(crate) async fn start(&self, function: Command) -> Result<Running, BoxError> {
        let Self::Emulator(emulator) = self else {
            let spec = FunctionSpec::new(NAME, function).timeout(TIMEOUT);
            let lambda = LocalLambda::start(spec).await?;
            let endpoint = lambda.endpoint().await?;
            return Ok(Running {
                address: endpoint.trim_start_matches("http://").to_owned(),
                _host: (Some(lambda), None),
            });
        };
        let (address, runtime_api) = (free_address().await?, free_address().await?);
        let variables = function
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let emulator = tokio::process::Command::new(emulator)
            .args(["--runtime-interface-emulator-address", &address])
            .args(["--runtime-api-address", &runtime_api])
            .arg(function.get_program())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("AWS_LAMBDA_FUNCTION_NAME", NAME)
            .env("AWS_LAMBDA_FUNCTION_TIMEOUT", TIMEOUT.as_secs().to_string())
            .envs(variables)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        while TcpStream::connect(&address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Running {
            address,
            _host: (None, Some(emulator)),
        })
    }
}

async fn free_address() -> Result<String, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok(listener.local_addr()?.to_string())
}

impl Running {
    /// Returns the body of the answer to an event.
    pub(crate) async fn invoke(&self, event: &str) -> Result<String, BoxError> {
        // With HTTP/1.0 the body ends with the connection.
        let head = format!(
            "POST /2015-03-31/functions/{NAME}/invocations HTTP/1.0\r\ncontent-length: {}\r\n\r\n",
            event.len()
        );
        let mut connection = TcpStream::connect(&self.address).await?;
        connection.write_all(head.as_bytes()).await?;
        connection.write_all(event.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let body = answer.split_once("\r\n\r\n");
        Ok(body.ok_or("an answer without a body")?.1.to_owned())
    }
}
