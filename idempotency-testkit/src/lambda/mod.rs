//! A local Lambda: starts the real process of a function, sends events to it, and kills it.
//!
//! [`LocalLambda`] serves the Runtime API on loopback. Each [`FunctionProcess`] is one process of the function, with the
//! environment variables that Lambda sets. If the deadline of an invocation expires, its process is killed, as on Lambda.
//! A test needs no sleeps: [`FunctionProcess::wait_for_line`] waits for a point in the handler, and [`FunctionProcess::kill`] returns
//! when the process has ended.
//!
//! # Examples
//!
//! ```no_run
//! use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
//! use std::process::Command;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let function = FunctionSpec::new("payment", Command::new("target/debug/payment")).env("IDEMPOTENCY_TABLE", "idempotency");
//! let lambda = LocalLambda::start(function).await?;
//!
//! // One process is killed in its handler; another one responds.
//! let process = lambda.start_process().await?;
//! let pending = process.invoke(r#"{"order_id": 1}"#).start();
//! process.wait_for_line("charged").await?;
//! process.kill().await;
//! assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
//!
//! let reply = lambda.invoke(r#"{"order_id": 1}"#).await?;
//! println!("{}", reply.payload);
//! # Ok(())
//! # }
//! ```

// `function`, `invocation` and `local` refer to each other: a process and the Lambda create invocations, and an invocation keeps which
// of the two it is sent to.
mod api;
mod function;
mod invocation;
mod local;
mod log;
mod state;

pub use function::{FunctionProcess, FunctionSpec};
pub use invocation::{Invocation, InvokeError, Reply};
pub use local::LocalLambda;
pub use log::LogLine;
