//! Writes to items of a DynamoDB table that are safe to send again: updates that count once for each key, and versioned items.
//!
//! Each write changes one item in the caller's own table, under a condition that is added to the caller's expression. It is one
//! request; an idle item with many old keys takes one more. No other table or item is needed.
//!
//! | module | what it does |
//! |---|---|
//! | [`once`] | updates that count once for each key |
//! | [`versioned`] | writes that expect the version that was read |
//! | `expression` | checks the caller's expressions and adds ours |
//! | `send` | sends one write, and notes whether it may have been applied |
//! | `error` | the errors that all writes share |
//! | `item` | an item of the user, and how it is kept out of `Debug` |
//!
//! Their staged form, as a part of a transaction: [`once::PreparedUpdate::transact_item`], [`versioned::PreparedWrite::transact_item`].
//!
//! # Examples
//!
//! ```no_run
//! use aws_sdk_dynamodb::types::AttributeValue;
//! use dynamodb_writes::once::{self, Once};
//! use std::time::Duration;
//!
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let once = Once::new(once::plan(0.1, Duration::from_secs(3600)))?;
//! let customer = [("id", AttributeValue::S("c-1".into()))];
//! let count = once.update("usage", customer, "evt-1").expression("ADD units :n").value(":n", AttributeValue::N("5".into()));
//! let outcome = count.send(&client).await?;
//! println!("counted now: {}", outcome.is_applied());
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod expression;
mod item;
pub mod once;
mod send;
pub mod versioned;

pub use error::{ConditionFailed, InvalidExpression, RequestError};
