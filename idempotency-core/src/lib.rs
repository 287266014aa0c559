//! Idempotent calls without AWS, Lambda or an async runtime: keys, records, the protocol, the engine.
//!
//! Functions on AWS Lambda use [`idempotency-lambda`](https://docs.rs/idempotency-lambda), which is built on this crate.
//! The way of a call through it:
//!
//! | module | what it holds |
//! |---|---|
//! | [`key`] | from a JSON payload to a digest: JMESPath, canonical JSON, hashes |
//! | [`operation`] | one protected function's configuration, and the identity of its calls |
//! | [`config`] | settings, environment variables, defaults |
//! | [`protocol`] | every decision, without I/O |
//! | [`engine`] | the one driver: performs what the protocol asks for |
//! | [`store`] | the `Store` trait, and the store in memory that specifies it |
//! | [`cache`] | confirmed answers in the process's own memory |
//! | [`record`], [`owner`], [`time`] | what a record holds, whose it is, and when |
//! | [`outcome`], [`error`] | what a caller is told |
//! | [`event`] | what an operator is told: one event for every call |
//!
//! Time, randomness and environment variables are handed in; nothing here reads them by itself.

pub mod cache;
pub mod clock;
pub mod config;
pub mod engine;
pub mod error;
pub mod event;
#[doc(hidden)]
pub mod example;
pub mod future;
pub mod key;
pub mod operation;
pub mod outcome;
pub mod owner;
pub mod protocol;
pub mod random;
pub mod record;
pub mod store;
pub mod time;
