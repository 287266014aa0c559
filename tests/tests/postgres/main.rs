//! The store on PostgreSQL against real servers, which `tests/scripts/postgres.sh` installs and starts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bank;
mod conformance;
mod crash;
mod hostile;
mod late;
mod operator;
mod pooler;
mod requests;
mod retry_safety;
mod soak;
mod start;
mod transactions;
