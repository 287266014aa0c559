//! Metrics for CloudWatch, in the embedded metric format: JSON lines on standard output, from which CloudWatch makes metrics.
//!
//! [`to_cloudwatch`] switches them on, in one line of `main`. `docs/guide/metrics.md` of the repository lists the metrics and what
//! to do about each. For another metrics system use [`observe`](crate::observe).

#[cfg(feature = "metrics")]
mod cloudwatch;

#[cfg(feature = "metrics")]
pub use cloudwatch::to_cloudwatch;

#[cfg(feature = "metrics")]
pub(crate) use cloudwatch::check;
#[cfg(not(feature = "metrics"))]
pub(crate) use off::check;

// Only batches count records that did not become a call.
#[cfg(all(feature = "batch", feature = "metrics"))]
pub(crate) use cloudwatch::count;
#[cfg(all(feature = "batch", not(feature = "metrics")))]
pub(crate) use off::count;

/// The interface of the metrics in a program without the feature `metrics`. Nothing here does anything.
#[cfg(not(feature = "metrics"))]
mod off {
    use idempotency_core::error::Error;

    /// Finds nothing wrong.
    pub(crate) fn check() -> Result<(), Error> {
        Ok(())
    }

    /// Counts nothing.
    #[cfg(feature = "batch")]
    pub(crate) fn count(_: &str, _: &'static str, _: u64) {}
}
