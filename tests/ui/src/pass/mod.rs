//! Functions that `#[idempotent]` accepts as they are.

pub mod batches;
pub mod call;
pub mod constants;
pub mod functions;
pub mod handlers;
pub mod http;
