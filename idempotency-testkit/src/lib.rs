//! Tools to test idempotent functions without an AWS account, without Docker and without sleeps.
//!
//! | module | what it is |
//! |---|---|
//! | [`ManualClock`], [`SeededRandom`] | time and randomness that a test holds in its hands |
//! | [`store`] | stores that count, break and follow a script |
//! | [`conformance`] | the suite that every store must pass |
//! | [`dynamodb`] | a DynamoDB inside the test's process, which counts requests and breaks them where it is told to |
//! | [`lambda`] | a Lambda on loopback: starts the function's real process, invokes it, kills it |
//!
//! `dynamodb` and `lambda` are cargo features; both are on by default.

#[cfg(any(feature = "dynamodb", feature = "lambda"))]
mod background;
mod clock;
pub mod conformance;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
#[cfg(feature = "lambda")]
pub mod lambda;
pub mod store;
#[cfg(any(feature = "dynamodb", feature = "lambda"))]
mod wire;

pub use clock::{ManualClock, SeededRandom};
