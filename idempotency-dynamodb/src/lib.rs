//! The DynamoDB store of the idempotency framework: conditional writes on one item, and the meaning of each response of the SDK.
//!
//! Functions on AWS Lambda use [`idempotency-lambda`](https://docs.rs/idempotency-lambda), which is built on this crate.
//!
//! | item | what it is |
//! |---|---|
//! | [`DynamoDbStore`], [`DynamoDbStoreBuilder`] | the store and its settings |
//! | [`default_client`], [`sdk_client`] | clients of the SDK with timeouts and retries that suit a Lambda function |
//! | [`LeanClient`] | the client that sends the requests unless the caller brings one: it needs less CPU than the SDK's |
//! | `http_client` | the HTTP client of that client, for other AWS clients of the process |
//! | [`TableConfig`] | table and attribute names from environment variables |
//! | [`transact`] | a handler's writes and the completion in one transaction |
//! | [`record_of_piece`] | the record of an item that is a piece of a large response |
//!
//! | module, the lowest first | what it does |
//! |---|---|
//! | `limits`, `names`, `value` | what DynamoDB accepts; the names of attributes and keys; their values, in our form and in the SDK's |
//! | `item` | converts a record to an item, and back; the size of an item |
//! | `large` | compresses large responses, and cuts what does not fit one item into pieces |
//! | `request` | a request as data; renders conditions and changes as DynamoDB's expressions |
//! | `client` | makes the SDK's client and its HTTP client, and the lean client, on the crate `dynamodb-lean-client` |
//! | `table`, `failure` | the table of a store; what an error of the SDK means for it, and what to do |
//! | `sends` | notes for each send whether it may have been applied |
//! | `transport` | the client that sends a request |
//! | `store` | decides the request of each operation, and what its reply means |
//! | `builder`, `config`, `kind` | builds the store; its settings from variables; its place among the kinds of stores |
//!
//! | feature | what it adds |
//! |---|---|
//! | `rustls-ring` (default) | an HTTP client whose TLS provider is `ring`: the shortest start of a process |
//! | `rustls-aws-lc` | one with AWS-LC, which also has a post-quantum key exchange. It takes precedence over `ring` |
//! | `profiles` | credentials of profiles with SSO, `aws login` or `credential_process`, for runs on your own machine |
//!
//! With neither, a client needs an HTTP client of the caller, or that of the SDK's feature `default-https-client`. A caller who needs
//! AWS-LC as it is validated for FIPS 140-3 sets an HTTP client of `aws-smithy-http-client` with its feature `rustls-aws-lc-fips`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod client;
mod config;
mod failure;
mod item;
mod kind;
mod large;
mod limits;
mod names;
mod request;
mod sends;
mod store;
mod table;
pub mod transact;
mod transport;
mod value;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;

pub use builder::DynamoDbStoreBuilder;
#[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
pub use client::http_client;
pub use client::{LeanClient, default_client, sdk_client};
pub use config::TableConfig;
pub use large::record_of_piece;
pub use store::DynamoDbStore;
