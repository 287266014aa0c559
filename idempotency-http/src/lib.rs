//! Makes HTTP services safe to retry: a tower layer for the `Idempotency-Key` header.
//!
//! The layer knows nothing of AWS Lambda: an axum server in a container can share a table with functions.

mod host;

pub use host::{Host, Place};
