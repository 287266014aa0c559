//! The behaviour of protected functions: the attribute and the functional form, on a store in memory and a manual clock.
#![allow(clippy::unwrap_used)]

mod attribute;
mod cache;
mod deploys;
mod error_reporting;
mod hazards;
mod headers;
mod panics;
mod single_flight;
mod store_timeout;
