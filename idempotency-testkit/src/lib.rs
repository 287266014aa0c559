//! Tools to test idempotent functions without an AWS account, without Docker and without sleeps.
//!
//! | item | what it is |
//! |---|---|
//! | [`ManualClock`], [`SeededRandom`] | a clock and a random source controlled by the test |
//! | [`store`] | a store that counts its requests and injects faults |
//! | [`conformance`] | the suite that every store must pass |
//! | [`dynamodb`] | an in-process DynamoDB that counts requests and injects faults |
//! | [`events`] | the events that AWS sends: HTTP, queues, streams, buses |
//! | [`lambda`] | a local Lambda: starts the real process of a function, sends it events, kills it |
//! | [`retry_safety`] | a proof that a function of yours is safe to retry, or the point where it is not |
//!
//! `conformance`, `dynamodb`, `events` and `lambda` need the cargo feature of their name, `retry_safety` needs `retry-safety`, for SQL `postgres`. All but `postgres` are on by default.
//! `dynamodb` links SQLite: a program that links another version of SQLite leaves it out.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
#[cfg(feature = "events")]
pub mod events;
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub mod history;
#[cfg(feature = "lambda")]
pub mod lambda;
mod lock;
#[cfg(feature = "retry-safety")]
pub mod retry_safety;
pub mod store;
#[cfg(any(feature = "dynamodb", feature = "lambda", feature = "retry-safety"))]
// A provider of `retry_safety` needs a part of it.
#[cfg_attr(not(any(feature = "dynamodb", feature = "lambda")), allow(dead_code))]
mod wire;

pub use clock::{ManualClock, SeededRandom};

/// The guide's examples, compiled with the tests.
#[cfg(all(
    doctest,
    feature = "conformance",
    feature = "dynamodb",
    feature = "retry-safety"
))]
#[doc = include_str!("../../docs/guide/retry-safety.md")]
#[doc = include_str!("../../docs/guide/undo.md")]
#[doc = include_str!("../../docs/guide/stores.md")]
#[doc = include_str!("../../docs/guide/testing.md")]
struct Guide;
