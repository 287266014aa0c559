//! What the tests of the protocol share: values, and the language of their tables.

pub(crate) mod fixtures;
pub(crate) mod script;
