//! An in-process DynamoDB that counts requests and injects faults.
//!
//! [`EmbeddedDynamoDb`] speaks DynamoDB's HTTP protocol on a loopback port, so the real SDK, or the real process of a
//! function, connects to it. A proxy between the port and the database notes each [`Request`] and applies each [`Fault`].
//! Retries are therefore the SDK's own, and a lost reply is a connection that closes.
//!
//! # Examples
//!
//! ```
//! use aws_sdk_dynamodb::types::AttributeValue;
//! use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = EmbeddedDynamoDb::start().await?;
//! db.create_table(TableSpec::new("orders")).await?;
//!
//! // The first attempt is applied, but its reply is lost: the SDK sends it again.
//! db.inject(Fault::on("PutItem").drop_reply());
//! let put = db.client().put_item().table_name("orders");
//! put.item("id", AttributeValue::S("o-1".into())).send().await?;
//!
//! let attempts: Vec<_> = db.requests().iter().map(|r| r.attempt).collect();
//! assert_eq!(attempts, [Some(1), Some(2)]);
//! # Ok(())
//! # }
//! ```

mod embedded;
mod proxy;

#[cfg(feature = "retry-safety")]
pub(crate) use embedded::{Cause, open_database, serve_database};
pub use embedded::{DatabaseError, EmbeddedDynamoDb, TableSpec};
pub use proxy::{Fault, FaultBuilder, Injected, Request};
