//! How long a store that deletes by itself keeps a record after its `expiration`.

use std::time::Duration;

/// How long it keeps a completed record: for a caller whose clock is late.
pub const KEPT_AFTER_EXPIRATION: Duration = Duration::from_secs(60 * 60);

/// How long it keeps every other one, so that the next run learns of the run that was killed: as long as a queue keeps an event.
pub const CLAIM_KEPT_AFTER_EXPIRATION: Duration = Duration::from_secs(14 * 24 * 60 * 60);
