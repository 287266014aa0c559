//! The Python process (`tests/interop/handler.py`). It is controlled over its standard input and output, line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const HANDLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/interop/handler.py");

/// The exception while another call runs.
pub(crate) const IN_PROGRESS: &str = "IdempotencyAlreadyInProgressError";

/// The process. It is killed on drop, as Lambda kills it at a timeout.
pub(crate) struct Python {
    process: Child,
    input: ChildStdin,
    lines: UnboundedReceiver<String>,
}

/// A call with the settings of its operation and its table.
#[derive(Clone)]
pub(crate) struct Call {
    event: Value,
    remaining_ms: Value,
    key_prefix: String,
    config: Value,
    layer: Value,
}

/// What the process reported.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Report {
    /// The handler runs and waits for an instruction.
    Running,
    /// The call ended with this response.
    Returned(Value),
    /// The call ended with an exception of this class.
    Raised(String),
}

impl From<&Value> for Call {
    /// Returns a call with 30 s left, of the operation that `crate::rust` protects.
    fn from(event: &Value) -> Self {
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
}

impl Call {
    /// Sets the remaining time in milliseconds.
    pub(crate) fn remaining(mut self, milliseconds: u64) -> Self {
        self.remaining_ms = milliseconds.into();
        self
    }

    /// Calls a plain function, outside of an invocation.
    pub(crate) fn without_a_deadline(mut self) -> Self {
        self.remaining_ms = Value::Null;
        self
    }

    /// Sets an argument of `IdempotencyConfig`.
    pub(crate) fn config(mut self, name: &str, value: Value) -> Self {
        self.config[name] = value;
        self
    }

    /// Sets the arguments of `DynamoDBPersistenceLayer`.
    pub(crate) fn layer(mut self, layer: Value) -> Self {
        self.layer = layer;
        self
    }
}

impl Python {
    pub(crate) fn start(database: &EmbeddedDynamoDb) -> Self {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let environment = database.environment();
        let region = environment.iter().find(|(name, _)| name == "AWS_REGION");
        let mut process = Command::new(python)
            .arg(HANDLER)
            // Python's SDK reads this variable.
            .envs(region.map(|(_, region)| ("AWS_DEFAULT_REGION", region)))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            // A loopback address must not go through a proxy.
            .env("NO_PROXY", "127.0.0.1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // The library warns about the case without a deadline.
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = process.stdout.take().unwrap();
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            process,
            input,
            lines,
        }
    }

    /// Starts a call. Returns `Running`, or the result if the handler does not run.
    pub(crate) async fn begin(&mut self, call: impl Into<Call>) -> Report {
        let call = call.into();
        self.instruct(&json!({
            "event": call.event,
            "remaining_ms": call.remaining_ms,
            "key_prefix": call.key_prefix,
            "config": call.config,
            "layer": call.layer,
        }))
        .await
    }

    /// Starts a call and checks that its handler runs.
    pub(crate) async fn begins(&mut self, call: impl Into<Call>) {
        assert_eq!(self.begin(call).await, Report::Running);
    }

    /// Makes the running handler return this, and checks that it is the result of the call.
    pub(crate) async fn finishes(&mut self, response: &Value) {
        let said = self.instruct(&json!({ "return": response })).await;
        assert_eq!(said, Report::Returned(response.clone()));
    }

    /// Makes the running handler fail.
    pub(crate) async fn fails(&mut self) {
        let said = self.instruct(&json!({ "raise": "declined" })).await;
        assert_eq!(said, Report::Raised("Declined".to_owned()));
    }

    /// Makes a call and checks that it runs and returns this.
    pub(crate) async fn runs(&mut self, call: impl Into<Call>, response: &Value) {
        self.begins(call).await;
        self.finishes(response).await;
    }

    /// Makes a call and checks that it replays this.
    pub(crate) async fn replays(&mut self, call: impl Into<Call>, response: &Value) {
        assert_eq!(self.begin(call).await, Report::Returned(response.clone()));
    }

    /// Makes a call and checks that it raises an exception of this class without a run.
    pub(crate) async fn refuses(&mut self, call: impl Into<Call>, class: &str) {
        assert_eq!(self.begin(call).await, Report::Raised(class.to_owned()));
    }

    /// Sends an instruction to the process. Returns what it reports next.
    pub(crate) async fn instruct(&mut self, line: &Value) -> Report {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
        let line = self.lines.recv().await.expect("the Python process ended");
        let mut said: Value = serde_json::from_str(&line).unwrap();
        match said["raised"].as_str() {
            Some(class) => Report::Raised(class.to_owned()),
            None if said["running"] == true => Report::Running,
            None => Report::Returned(said["returned"].take()),
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
