//! What the benchmarks of the hot path measure: events of several sizes, one closure for each case, and a store that does nothing.

pub mod cases;
pub mod events;
pub mod store;
