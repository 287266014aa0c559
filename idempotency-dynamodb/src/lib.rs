//! The store on DynamoDB: conditional writes on one item, and what each answer of the SDK means.
//!
//! Functions on AWS Lambda use [`idempotency-lambda`](https://docs.rs/idempotency-lambda), which is built on this crate.
//!
//! | module | what it holds |
//! |---|---|
//! | [`store`] | [`DynamoDbStore`]: one request an operation |
//! | [`builder`] | its settings |
//! | [`names`] | the names of the attributes |
//! | [`settings`] | table and names from environment variables |
//! | [`client`] | a DynamoDB client with timeouts that suit a Lambda function |
//! | `expression` | a condition or a change as DynamoDB's expressions |
//! | `item`, `number`, `json`, `size` | a record as an item, and back |
//! | `attempts` | whether a send of a call may have been applied without anybody hearing of it |
//! | `failure` | what an error of the SDK means, and what to do about it |

pub mod builder;
pub mod client;
pub mod names;
pub mod settings;
pub mod store;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;

mod attempts;
mod expression;
mod failure;
mod item;
mod json;
mod number;
mod size;

pub use store::DynamoDbStore;
