//! The effects that can be seen in the world, and how those of a scenario differ from those of a faultless run.
//!
//! | file | what it holds |
//! |---|---|
//! | `snapshot` | the world at one moment |
//! | `expectation` | what a faultless run changes, and what differs between two faultless runs |
//! | `agreement` | what a response and an item both say |
//! | `compare` | the differences of one number, attribute or item |

mod agreement;
mod compare;
mod expectation;
mod snapshot;

pub(super) use compare::{Difference, Kind};
pub(super) use expectation::Expectation;
pub(super) use snapshot::Snapshot;

#[cfg(test)]
mod tests;
