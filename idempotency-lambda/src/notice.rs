//! What somebody must know at start-up.

/// Says it as a tracing event, or on standard error where nobody collects those.
pub(crate) fn warn(text: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{text}");
    } else {
        eprintln!("WARN {text}");
    }
}
