//! The DynamoDB store of the idempotency framework: conditional writes on one item, and the meaning of each response of the SDK.
//!
//! Functions on AWS Lambda use [`idempotency-lambda`](https://docs.rs/idempotency-lambda), which is built on this crate.
//!
//! | item | what it is |
//! |---|---|
//! | [`DynamoDbStore`], [`DynamoDbStoreBuilder`] | the store and its settings |
//! | [`default_client`] | a DynamoDB client with timeouts and retries that suit a Lambda function |
//! | [`TableConfig`] | table and attribute names from environment variables |
//! | [`AttributeNames`] | the names of a record's attributes |
//!
//! | module | what it does |
//! |---|---|
//! | `store`, `builder` | send one request for each operation |
//! | `composite` | names the keys of a table with a sort key |
//! | `expression` | renders a condition or a change as DynamoDB's expressions |
//! | `item`, `number`, `json`, `size` | convert a record to an item, and back |
//! | `sends` | notes for each send whether it may have been applied |
//! | `failure`, `table_ref` | say what an error of the SDK means for which table, and what to do about it |

mod attribute_names;
mod builder;
mod client;
mod composite;
mod expression;
mod failure;
mod item;
mod json;
mod number;
mod sends;
mod size;
mod store;
mod table_config;
mod table_ref;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;

pub use attribute_names::AttributeNames;
pub use builder::DynamoDbStoreBuilder;
pub use client::default_client;
pub use store::DynamoDbStore;
pub use table_config::TableConfig;
