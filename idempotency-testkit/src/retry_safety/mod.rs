//! Proves that a function is safe to retry, or shows where it is not.
//!
//! [`retry_safety()`] takes the handler, an event, and what shows the effects: a count, a table, a provider. It runs the handler
//! without faults and notes its points: each request to DynamoDB or to the provider, each statement of SQL, each lock of a [`Mutex`] of a fake, and each
//! place where the function waits.
//! Then it runs the handler once more for each point and each fault there, in a world of its own: a crash, a lost reply, a
//! second delivery, a takeover. After that it delivers the event again, as a sender does, and compares the world and the responses
//! with those of the faultless run. The [`SafetyReport`] is a table of all cases, and [`assert_safe`](SafetyReport::assert_safe)
//! ends the test with the case to fix first.
//!
//! Time is virtual: a sleep of an hour takes no time. Each process has a runtime of its own, so a crash ends its spawned tasks.
//!
//! # Examples
//!
//! A handler that mails a receipt. A crash after the mail makes a second run send it again:
//!
//! ```
//! use idempotency_lambda::{BoxError, Context, LambdaEvent, idempotent};
//! use idempotency_testkit::retry_safety::{Mutex, SafetyVerdict, World, retry_safety};
//! use serde_json::{Value, json};
//!
//! /// The mails that were sent.
//! #[derive(Default)]
//! struct Outbox(Mutex<Vec<String>>);
//!
//! async fn mail_receipt(world: &World, event: LambdaEvent<Value>) -> Result<Value, BoxError> {
//!     let outbox = world.fake::<Outbox>();
//!     let order = event.payload["order_id"].to_string();
//!     outbox.0.lock().unwrap().push(order);
//!     Ok(json!({ "mailed": true }))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let event = LambdaEvent::new(json!({ "order_id": 7 }), Context::default());
//! let report = retry_safety(event, async |world: World, event: LambdaEvent<Value>| {
//!     #[idempotent(payload = event.payload, key = "order_id", key_prefix = "shop.receipt")]
//!     async fn handler(event: LambdaEvent<Value>, world: &World) -> Result<Value, BoxError> {
//!         mail_receipt(world, event).await
//!     }
//!     handler(event, &world).await
//! })
//! .effect("mails", async |world| world.fake::<Outbox>().0.lock().unwrap().len())
//! .run()
//! .await;
//!
//! assert!(!report.is_safe());
//! let first = report.unsafe_rows()[0];
//! assert_eq!(first.fault, Some("crash after"));
//! assert_eq!(first.verdict, SafetyVerdict::EffectTwice);
//! assert_eq!(first.findings, ["`mails` is 2 instead of 1"]);
//! # }
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `check` | a check, and what its user sets |
//! | `plan` | what a check plays, without the types of its user |
//! | `play` | the run of a check: the faultless runs, then each fault at each point |
//! | `stage` | one scenario: a world, and the deliveries in it |
//! | `process` | one process: a thread, a runtime, virtual time |
//! | `gate` | the faults and points; notes the points of a process, and plays the fault |
//! | `connector`, `provider` | the requests to DynamoDB and to a provider; the DynamoDB of a scenario |
//! | `memory` | the records of a scenario without the feature `dynamodb` |
//! | `postgres` | a schema for each scenario, and the statements of its processes |
//! | `world` | what the function gets, and the uses of a fake |
//! | `effects`, `ending` | what differs from a faultless run: the world, the responses |
//! | `verdict` | the verdict on a scenario |
//! | `report` | the result, and its text |

// What requests to DynamoDB alone use.
#![cfg_attr(not(feature = "dynamodb"), allow(dead_code))]

mod check;
#[cfg(feature = "dynamodb")]
mod connector;
mod effects;
mod ending;
mod gate;
#[cfg(not(feature = "dynamodb"))]
mod memory;
mod plan;
mod play;
#[cfg(feature = "postgres")]
mod postgres;
mod process;
mod provider;
mod report;
mod stage;
mod verdict;
mod world;

pub use check::RetrySafety;
pub use provider::{Provider, ProviderRequest};
pub use report::{Row, SafetyReport, SafetyVerdict};
pub use world::{Mutex, World};

#[cfg(feature = "dynamodb")]
use connector::{Database, Server, store};
#[cfg(not(feature = "dynamodb"))]
use memory::{Database, Server, store};

use idempotency_lambda::BoxError;
use serde::Serialize;

/// The table of the framework in each scenario.
const RECORDS: &str = "idempotency";

/// Starts a check of a function: does each of its effects happen once, and does each sender get the same response, wherever it
/// fails?
///
/// `handler` gets the world of the delivery and the event, and makes the state of the function: each delivery is a new process. It
/// calls the annotated function, or the [`Operation`](idempotency_lambda::Operation), as it is: every operation inside uses the
/// scenario's table `idempotency`, in place of its own store. The event can be any type that can be cloned.
///
/// See the [module](self) for an example.
pub fn retry_safety<E, F, R, X>(event: E, handler: F) -> RetrySafety<E>
where
    E: Clone + Send + Sync + 'static,
    F: AsyncFn(World, E) -> Result<R, X> + Send + Sync + 'static,
    R: Serialize + 'static,
    X: Into<BoxError> + 'static,
{
    RetrySafety::new(event, handler)
}
