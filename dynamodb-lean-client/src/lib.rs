//! A client for DynamoDB requests to single items, which needs less CPU than the SDK's.
//!
//! It is made of AWS's own parts: the SDK prepares configuration, credentials and endpoint, `aws-sigv4` signs, and the SDK's
//! HTTP client sends. What it leaves out is the orchestration of a general client for each call. The caller writes the body of a
//! request as JSON, and gets a note of each send ([`SendNotes`]), so that it can distinguish a write whose reply was lost from a write
//! that was not applied.
//!
//! | module | what it does |
//! |---|---|
//! | `client` | a client for one table |
//! | `prepared` | takes HTTP client, credentials, endpoint rules, timeouts and retries from the SDK |
//! | `route` | an endpoint with the credentials for it |
//! | `sign` | signs requests |
//! | `clock` | corrects the clock that signs |
//! | `reply` | reads the body of a response |
//! | `send`, `retry` | send, wait, send again |
//! | `error` | what an error means: whether the send was applied, and what of it may be quoted |
//! | `sdk`, `recognise` | the same notes, and the same judgement of responses, for the SDK's client |
//!
//! # Examples
//!
//! ```no_run
//! use dynamodb_lean_client::{ItemReply, RetryQuota, TableClient};
//!
//! # async fn example(sdk: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let table = TableClient::new(sdk, "orders", RetryQuota::default(), "shop/1.0");
//! let body = br#"{"TableName":"orders","Key":{"id":{"S":"o-1"}}}"#.to_vec();
//! if let ItemReply::Success(Some(item)) = table.send("DynamoDB_20120810.GetItem", body, &()).await? {
//!     println!("{} attributes", item.len());
//! }
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod clock;
mod error;
mod prepared;
mod recognise;
mod reply;
mod retry;
mod route;
#[doc(hidden)]
pub mod sdk;
mod send;
mod sign;

pub use client::TableClient;
pub use retry::RetryQuota;
pub use send::{ItemReply, SendNotes, SendResult};
