//! What the store accepts.

/// The largest text of a response, and of the results of all steps of a record, in bytes: 8 MiB. PostgreSQL would accept more, and compresses
/// long values itself.
pub(crate) const LARGEST_RESPONSE: usize = 8 * 1024 * 1024;
