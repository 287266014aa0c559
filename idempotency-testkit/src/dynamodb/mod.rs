//! A DynamoDB inside the test's own process, which counts requests and breaks them where it is told to.
//!
//! [`EmbeddedDynamoDb`] speaks DynamoDB's HTTP protocol on a loopback port, so the real SDK (and a function's real
//! process) talks to it. Between the port and the database stands a proxy that notes each [`Request`] and applies each
//! [`Fault`]; retries of the SDK are therefore real retries, and a lost reply is a connection that closes.
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
//! // The first write is applied, but its reply never arrives: the SDK sends it again.
//! db.inject(Fault::on("PutItem").drop_reply());
//! let put = db.client().put_item().table_name("orders");
//! put.item("id", AttributeValue::S("o-1".into())).send().await?;
//!
//! let attempts: Vec<_> = db.requests().iter().map(|r| r.attempt).collect();
//! assert_eq!(attempts, [Some(1), Some(2)]);
//! # Ok(())
//! # }
//! ```

mod control;
mod embedded;
mod error;
mod fault;
mod faults;
mod injected;
mod proxy;
mod request;
mod table;

pub use embedded::EmbeddedDynamoDb;
pub use error::Error;
pub use fault::{Fault, FaultBuilder};
pub use injected::Injected;
pub use request::Request;
pub use table::{Item, TableSpec};
