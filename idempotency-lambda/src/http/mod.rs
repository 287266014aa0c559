//! HTTP on Lambda: tower services of HTTP requests, and handlers of HTTP events.
//!
//! | file | what it holds |
//! |---|---|
//! | `run` | the start of an HTTP function in one line |
//! | `service` | a tower service of HTTP requests as a service of Lambda events |
//!
//! The rules of HTTP (key, caller, responses) are in `idempotency-http`. What is here finds the request, its deadline and its
//! tenant.

mod run;
mod service;

pub use run::{run, run_concurrent};
pub use service::service;
