//! A process with the function in Python, called, watched and answered line by line (`tests/interop/handler.py`).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const HANDLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/interop/handler.py");

/// The process. Dropping it kills it, as Lambda does at a time-out.
pub(crate) struct Python {
    process: Child,
    input: ChildStdin,
    lines: UnboundedReceiver<String>,
}

/// A call, with the settings of its operation and of its table.
#[derive(Clone)]
pub(crate) struct Call {
    event: Value,
    remaining_ms: Value,
    key_prefix: String,
    config: Value,
    layer: Value,
}

/// What the process said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// The handler runs, and waits to be told what to do.
    Running,
    /// The call ended with this answer.
    Returned(Value),
    /// The call ended with an exception of this class.
    Raised(String),
}

impl Call {
    /// A call with 30 s left, of the operation that `crate::rust` protects.
    pub(crate) fn of(event: &Value) -> Self {
        Self {
            event: event.clone(),
            remaining_ms: json!(30_000),
            key_prefix: "shop.charge".to_owned(),
            config: json!({
                "event_key_jmespath": "[user_id, order_id]",
                "payload_validation_jmespath": "amount",
            }),
            layer: json!({ "table_name": "idempotency" }),
        }
    }

    /// With so many milliseconds left.
    pub(crate) fn remaining(mut self, milliseconds: u64) -> Self {
        self.remaining_ms = milliseconds.into();
        self
    }

    /// Of a plain function, outside of an invocation.
    pub(crate) fn without_a_deadline(mut self) -> Self {
        self.remaining_ms = Value::Null;
        self
    }

    /// With this argument of `IdempotencyConfig`.
    pub(crate) fn config(mut self, name: &str, value: Value) -> Self {
        self.config[name] = value;
        self
    }

    /// With these arguments of `DynamoDBPersistenceLayer`.
    pub(crate) fn layer(mut self, layer: Value) -> Self {
        self.layer = layer;
        self
    }
}

impl Python {
    pub(crate) fn start(database: &EmbeddedDynamoDb) -> Result<Self, BoxError> {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let environment = database.environment();
        let region = environment.iter().find(|(name, _)| name == "AWS_REGION");
        let mut process = Command::new(python)
            .arg(HANDLER)
            // Its SDK reads another variable than Lambda's.
            .envs(region.map(|(_, region)| ("AWS_DEFAULT_REGION", region)))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            // A proxy would be asked for a loopback address.
            .env("NO_PROXY", "127.0.0.1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // The case without a deadline is warned about.
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the process has no pipes".into());
        };
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            process,
            input,
            lines,
        })
    }

    /// Makes a call, and says how it began: the handler runs, or the call is over.
    pub(crate) async fn begin(&mut self, call: Call) -> Result<Said, BoxError> {
        self.tell(&json!({
            "event": call.event,
            "remaining_ms": call.remaining_ms,
            "key_prefix": call.key_prefix,
            "config": call.config,
            "layer": call.layer,
        }))
        .await
    }

    /// Tells the handler that runs to return this, and says how the call ended.
    pub(crate) async fn finish(&mut self, answer: &Value) -> Result<Said, BoxError> {
        self.tell(&json!({ "return": answer })).await
    }

    /// Tells the handler that runs something else than to return an answer.
    pub(crate) async fn tell(&mut self, line: &Value) -> Result<Said, BoxError> {
        writeln!(self.input, "{line}")?;
        self.input.flush()?;
        let line = self.lines.recv().await.ok_or("the Python process ended")?;
        let mut said: Value = serde_json::from_str(&line)?;
        Ok(match said["raised"].as_str() {
            Some(class) => Said::Raised(class.to_owned()),
            None if said["running"] == true => Said::Running,
            None => Said::Returned(said["returned"].take()),
        })
    }

    /// A call whose handler, if it runs, answers this. Says how it ended, and whether it ran.
    pub(crate) async fn call(
        &mut self,
        call: Call,
        answer: &Value,
    ) -> Result<(Said, bool), BoxError> {
        match self.begin(call).await? {
            Said::Running => Ok((self.finish(answer).await?, true)),
            ended => Ok((ended, false)),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
