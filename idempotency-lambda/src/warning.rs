//! Warnings at start-up.

/// Logs a `tracing` warning, or writes it to standard error if no subscriber is set.
pub(crate) fn warn(text: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{text}");
    } else {
        eprintln!("WARN {text}");
    }
}
