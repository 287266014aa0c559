//! Makes AWS Lambda functions safe to retry.
//!
//! One attribute over a handler is enough. It takes a key from the event and claims it in DynamoDB with one conditional
//! write. Then the handler runs and its response is stored. Every duplicate gets the stored response, and the handler does
//! not run again.
//!
//! # Examples
//!
//! ```
//! use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Payment {
//!     order_id: String,
//!     amount: u64,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Receipt {
//!     charged: u64,
//! }
//!
//! #[idempotent(key = "order_id", key_required = "all", validate = "amount", expires_after = "1h")]
//! async fn handler(event: LambdaEvent<Payment>) -> Result<Receipt, BoxError> {
//!     Ok(Receipt { charged: event.payload.amount })
//! }
//! ```
//!
//! # Where to look
//!
//! | task | items |
//! |---|---|
//! | protect a function | [`idempotent`], with every setting |
//! | start the function | [`run`]; with a `Runtime` of your own [`init`] and [`service`], or [`init`] and [`InvocationLayer`] |
//! | protect a service of events among other tower layers | [`IdempotencyLayer`] |
//! | call from a spawned task, or without an invocation | [`in_current_invocation`], [`with_invocation`] |
//! | stop before the deadline | [`time_left`] |
//! | see the key and the run inside a handler, repeat a request to another service safely | [`Call`], [`Run`], [`Token`] |
//! | take keys from the JSON text that was sent | [`Raw`] |
//! | protect an axum `Router`, a service of `lambda_http`, or a handler of HTTP events | the module `http`, feature `http` |
//! | protect a block of code and get the outcome of each call | [`Operation`], [`IdentifiedCall`], [`Outcome`], [`Deadline`] |
//! | handle the records of an SQS, Kinesis or DynamoDB stream event | the module `batch`, feature `batch` |
//! | count events in an item of your own, or update it under a version | the module `dynamodb` |
//! | write to DynamoDB together with the response, or not at all | [`Call`], the module `dynamodb` |
//! | handle errors | [`Error`], [`ErrorKind`], [`diagnostic()`] |
//! | use a client or a store of your own | [`set_global_backend`], [`backend_over`], [`DynamoDbStore`], [`store::Store`] |
//! | send metrics to CloudWatch | `metrics::to_cloudwatch`, feature `metrics` |
//! | count calls in a metrics system of your own | [`observe`], [`CallSummary`] |
//! | test | [`with_backend`], [`with_invocation`], and the crate `idempotency-testkit` |
//!
//! # Features
//!
//! - `dynamodb`, on by default: the store on DynamoDB. Without it (`default-features = false`) the AWS SDK is not compiled,
//!   and the program needs a [`store::Store`] of its own: for all operations with [`set_global_backend`], or for one with
//!   `store = ..`. If an operation has no store, and `IDEMPOTENCY_STORE` is not `memory`, [`init`] and [`run`] return an error that says
//!   what to do.
//! - `valkey`: the store on Valkey and Redis, the crate `idempotency-valkey` as the module `valkey`.
//! - `http`: the module `http`, for axum routers, services of `lambda_http` and handlers of HTTP events.
//! - `batch`: the module `batch`, for events of SQS, Kinesis and DynamoDB streams.
//! - `postgres`: the store on PostgreSQL, the crate `idempotency-postgres` as the module `postgres`.
//! - `profiles`: credentials of profiles with SSO, `aws login` or `credential_process`, for runs on your own machine.
//! - `metrics`: metrics for CloudWatch, with one line in `main` (`metrics::to_cloudwatch`).
//!
//! The promises and their limits are in `docs/reference/protocol.md` of the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[allow(missing_docs)]
pub mod __private;
#[cfg(feature = "batch")]
pub mod batch;
mod diagnostic;
mod event;
#[cfg(feature = "http")]
pub mod http;
mod init_phase;
mod invocation;
mod layer;
mod meter;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
mod metrics;
mod operation;
mod plain_event;
mod process;
mod raw;
mod start;
#[doc(hidden)]
pub mod stores;

pub use diagnostic::{BoxError, ServiceError, diagnostic};
pub use event::Payload;
pub use invocation::{
    Deadline, HasContext, InvocationLayer, InvocationService, in_current_invocation, time_left,
    with_backend, with_invocation,
};
pub use layer::{IdempotencyLayer, IdempotencyService};
pub use operation::{Handler, IdentifiedCall, Operation, OperationBuilder};
pub use process::{backend_over, set_global_backend};
pub use raw::Raw;
pub use start::{ClearCaches, init, run, service};

pub use idempotency_core::config::{ConfigurationError, KeyRequired, Variables};
pub use idempotency_core::engine::Backend;
pub use idempotency_core::error::{Error, ErrorKind};
pub use idempotency_core::event::{
    CallOutcome, CallSummary, CircuitChange, ClaimEnd, HandlerProgress, StagedEnd, observe,
};
pub use idempotency_core::key::HashAlgorithm;
pub use idempotency_core::operation::{Call, Run, Step, StepRetry, Token, UndoableStep};
pub use idempotency_core::outcome::{Bypass, KeyState, Outcome, OutcomeKind, Replay};
pub use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Steps,
};
pub use idempotency_core::protocol::{Circuit, Source};
pub use idempotency_core::store::MemoryStore;
pub use idempotency_core::system::{SystemClock, SystemRandom};
pub use idempotency_core::{random, record, store, time};
#[cfg(feature = "dynamodb")]
pub use idempotency_dynamodb::{DynamoDbStore, LeanClient};
pub use idempotency_macros::idempotent;
#[cfg(feature = "postgres")]
pub use idempotency_postgres as postgres;
#[cfg(feature = "valkey")]
pub use idempotency_valkey as valkey;
pub use lambda_runtime::{Context, LambdaEvent};

/// Writes to items of your own tables: in one transaction with the response of a call, updates that count once, versioned items.
#[cfg(feature = "dynamodb")]
pub mod dynamodb {
    pub use dynamodb_writes::{ConditionFailed, InvalidExpression, RequestError, once, versioned};
    pub use idempotency_core::operation::StageError;
    pub use idempotency_dynamodb::transact::{LimitError, Transaction, Transactional};
}

/// The README's own example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The examples of `#[idempotent]`, compiled here because a macro's own tests would compile this crate a second time.
#[cfg(doctest)]
#[doc = include_str!("../../idempotency-macros/src/idempotent.md")]
struct Attribute;

/// The guide's examples, compiled with the tests. Some pages need a feature, which is on in a test of the workspace.
#[cfg(doctest)]
#[cfg_attr(feature = "batch", doc = include_str!("../../docs/guide/batches.md"))]
#[cfg_attr(feature = "postgres", doc = include_str!("../../docs/guide/choose-a-store.md"))]
#[cfg_attr(feature = "dynamodb", doc = include_str!("../../docs/guide/counters.md"))]
#[doc = include_str!("../../docs/guide/effects.md")]
#[doc = include_str!("../../docs/guide/functions.md")]
#[cfg_attr(feature = "postgres", doc = include_str!("../../docs/guide/sql.md"))]
#[cfg_attr(feature = "dynamodb", doc = include_str!("../../docs/guide/transactions.md"))]
#[cfg_attr(feature = "http", doc = include_str!("../../docs/guide/http.md"))]
#[cfg_attr(feature = "metrics", doc = include_str!("../../docs/guide/metrics.md"))]
#[doc = include_str!("../../docs/guide/types.md")]
struct Guide;
