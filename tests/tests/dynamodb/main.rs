//! The whole framework on the embedded DynamoDB, through the AWS SDK: requests, faults on the wire, crashes.
#![allow(clippy::unwrap_used)]

mod costs;
mod crash_matrix;
mod events;
mod faults;
mod large;
mod pieces;
mod resolved;
mod steps;
mod takeovers;
mod transactions;
