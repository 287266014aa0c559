//! Tests of the list, and a kind of store that tests of the command add to it.

#[cfg(test)]
mod list;
#[cfg(feature = "__shelf")]
pub(super) mod shelf;
