//! What the store accepts, and how long it waits.

use std::time::Duration;

/// The largest text of a response, and of the results of all steps of a record, in bytes: 8 MiB. PostgreSQL would accept more, and compresses
/// long values itself.
pub(crate) const LARGEST_RESPONSE: usize = 8 * 1024 * 1024;

/// How long the test of a connection may take, or a statement that a handler gave up, before the connection is closed.
pub(crate) const TEST_WITHIN: Duration = Duration::from_secs(1);
