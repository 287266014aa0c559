//! The lean client. It reports, sends and stores the same as the SDK's: the tests of `wire`, `connections` and `embedded` run with
//! it too, and its requests are compared with the SDK's.
//!
//! The files of those tests are compiled a second time, so that no test has to be written twice. They look at the name of the
//! program to choose the client.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

#[path = "../connections.rs"]
mod connections;
mod credentials;
#[path = "../embedded.rs"]
mod embedded;
mod environment;
mod recorder;
mod same_faults;
mod same_reply;
mod same_wire;
#[path = "../wire/main.rs"]
mod wire;
