//! Idempotent calls without a database, a platform or an async runtime: keys, records, the protocol, the engine.
//!
//! A program uses the crate of its host, such as [`idempotency-lambda`](https://docs.rs/idempotency-lambda), which hands in the store,
//! the clock and the variables. A call passes through these modules:
//!
//! | module | what it holds |
//! |---|---|
//! | [`operation`] | the configuration of one protected function, the identity of its calls, and the call of a handler |
//! | [`config`] | settings, environment variables, defaults |
//! | [`store`] | the `Store` trait, and the store in memory that specifies it |
//! | [`record`], [`time`] | the attributes of a record, points in time, the clock |
//! | [`outcome`], [`error`] | the result that the caller gets |
//! | [`event`] | the outcome event and the span of every call, and observers |
//! | [`random`], [`future`] | the random source, and the future that the traits return |
//!
//! Time, randomness and environment variables are arguments. Only the module `system` reads the clock and random bytes from the
//! process.
//!
//! # Inside
//!
//! The other crates of this product also use the modules below. Their documentation is hidden, and no version number promises
//! anything about them: each release of the other crates asks for one version of this crate.
//!
//! | module | what it holds |
//! |---|---|
//! | `key` | a JSON payload becomes a digest: JMESPath, canonical JSON, hashes |
//! | `protocol` | every decision, without I/O |
//! | `engine` | the driver: performs the effects that the protocol asks for |
//! | `cache` | confirmed responses in the process's memory |
//! | `compression` | zstd for what a store keeps, if it is compiled in (feature `zstd`) |
//! | `typed` | a typed value from JSON text, with errors that name the field |
//! | `system` (feature `system`) | the clock and the random source of the operating system |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod cache;
#[doc(hidden)]
pub mod compression;
pub mod config;
#[doc(hidden)]
pub mod engine;
pub mod error;
pub mod event;
#[doc(hidden)]
pub mod example;
#[doc(hidden)]
pub mod future;
mod hex;
#[doc(hidden)]
pub mod key;
pub mod operation;
pub mod outcome;
#[doc(hidden)]
pub mod protocol;
pub mod random;
pub mod record;
pub mod store;
#[cfg(feature = "system")]
#[doc(hidden)]
pub mod system;
pub mod time;
#[doc(hidden)]
pub mod typed;

#[doc(hidden)]
pub use protocol::policy;
