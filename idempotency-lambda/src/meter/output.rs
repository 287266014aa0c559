//! The lines of metrics on standard output.

use std::io::Write as _;
use std::sync::OnceLock;

use idempotency_core::config::ConfigurationError;
use idempotency_core::system::SystemClock;
use idempotency_core::time::Clock;

use super::emf::Format;
use super::tally::Tally;

/// The format of the process's metrics, if they are on, or why they cannot be.
pub(crate) static FORMAT: OnceLock<Result<Format, ConfigurationError>> = OnceLock::new();

/// Returns true if the metrics are on.
pub(crate) fn is_on() -> bool {
    matches!(FORMAT.get(), Some(Ok(_)))
}

/// Writes the metrics of these operations. Writes nothing if there are none.
pub(super) fn write(tallies: &[Tally], request_id: Option<&str>) {
    let Some(Ok(format)) = FORMAT.get() else {
        return;
    };
    if tallies.is_empty() {
        return;
    }
    let now = SystemClock.now();
    // The lock keeps the lines of concurrent invocations apart, and those of a subscriber that logs to standard output.
    let mut output = std::io::stdout().lock();
    for line in tallies
        .iter()
        .flat_map(|tally| format.lines(tally, request_id, now))
    {
        // A function whose output cannot be written must serve its events all the same.
        let _ = output.write_all(line.as_bytes());
    }
    let _ = output.flush();
}
