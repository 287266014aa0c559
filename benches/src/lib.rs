//! What the benchmarks of the hot path measure: events of several sizes, expressions, and one closure for each case.

pub mod cases;
pub mod events;
pub mod store;
