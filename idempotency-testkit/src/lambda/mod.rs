//! A Lambda on loopback: starts a function's real process, invokes it, kills it.
//!
//! [`LocalLambda`] serves the Runtime API and starts execution environments. Each [`Environment`] is one process of the
//! function, with the variables that Lambda gives it; its deadline is enforced with a kill, as Lambda's is. What a test
//! needs to know it is told, not made to wait for: [`Environment::wait_for_line`] marks a place in the handler,
//! [`Environment::kill`] returns when the process is gone.
//!
//! ```no_run
//! use idempotency_testkit::lambda::{Function, InvokeError, LocalLambda};
//! use std::process::Command;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let function = Function::new("payment", Command::new("target/debug/payment")).env("IDEMPOTENCY_TABLE", "idempotency");
//! let lambda = LocalLambda::start(function).await?;
//!
//! // One environment is killed in the middle of its handler; another answers.
//! let environment = lambda.environment().await?;
//! let pending = environment.invoke(r#"{"order_id": 1}"#).start();
//! environment.wait_for_line("charged").await?;
//! environment.kill().await;
//! assert!(matches!(pending.await, Err(InvokeError::Exited { .. })));
//!
//! let reply = lambda.invoke(r#"{"order_id": 1}"#).await?;
//! println!("{}", reply.payload);
//! # Ok(())
//! # }
//! ```

mod api;
mod environment;
mod function;
mod invocation;
mod local;
mod log;
mod outcome;
mod process;
mod state;

pub use environment::Environment;
pub use function::Function;
pub use invocation::{Invocation, Pending};
pub use local::LocalLambda;
pub use log::{LogLine, LogSource};
pub use outcome::{InvokeError, Reply, StartError};
