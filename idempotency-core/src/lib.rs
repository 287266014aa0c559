//! Idempotent calls without AWS, Lambda or an async runtime: keys, records, the protocol, the engine.
//!
//! Functions on AWS Lambda use [`idempotency-lambda`](https://docs.rs/idempotency-lambda), which is built on this crate.
//! A call passes through these modules:
//!
//! | module | what it holds |
//! |---|---|
//! | [`key`] | a JSON payload becomes a digest: JMESPath, canonical JSON, hashes |
//! | [`operation`] | the configuration of one protected function, and the identity of its calls |
//! | [`config`] | settings, environment variables, defaults |
//! | [`protocol`] | every decision, without I/O |
//! | [`engine`] | the driver: performs the effects that the protocol asks for |
//! | [`store`] | the `Store` trait, and the store in memory that specifies it |
//! | [`cache`] | confirmed responses in the process's memory |
//! | [`record`], [`owner`], [`time`] | the attributes of a record, its owner token, points in time |
//! | [`outcome`], [`error`] | the result that the caller gets |
//! | [`event`] | the outcome event and the span of every call, and observers |
//! | [`typed`] | a typed value from JSON text, with errors that name the field |
//! | [`clock`], [`random`], [`future`] | the traits through which time and randomness are supplied |
//! | `system` (feature `system`) | the clock and the random source of the operating system |
//!
//! Time, randomness and environment variables are arguments. Only the module `system` reads the clock and random bytes from the
//! process.

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
#[cfg(feature = "system")]
pub mod system;
pub mod time;
pub mod typed;
