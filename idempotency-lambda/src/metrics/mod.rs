//! Metrics for CloudWatch, in the embedded metric format: JSON lines on standard output, from which CloudWatch makes metrics.
//!
//! [`to_cloudwatch`] switches them on, in one line of `main`. `docs/guide/metrics.md` of the repository lists the metrics and what
//! to do about each. For another metrics system use [`observe`](crate::observe).
//!
//! | file | what it holds |
//! |---|---|
//! | `cloudwatch` | the switch with its namespace, and the way from the end of a call to standard output |
//! | `meter` | the metrics of one invocation, written at its end, and what each end of a call counts |
//! | `emf` | the embedded metric format |
//! | `off`, in this file | the same interface without the feature `metrics`, which does nothing |

#[cfg(feature = "metrics")]
mod cloudwatch;
#[cfg(feature = "metrics")]
mod emf;
#[cfg(feature = "metrics")]
mod meter;

#[cfg(feature = "metrics")]
pub use cloudwatch::to_cloudwatch;

#[cfg(feature = "metrics")]
pub(crate) use cloudwatch::check;
#[cfg(feature = "metrics")]
pub(crate) use meter::{InvocationMeter, Meter};
#[cfg(not(feature = "metrics"))]
pub(crate) use off::{InvocationMeter, Meter, check};

// Only batches count records that did not become a call.
#[cfg(all(feature = "batch", feature = "metrics"))]
pub(crate) use cloudwatch::count;
#[cfg(all(feature = "batch", not(feature = "metrics")))]
pub(crate) use off::count;

/// The interface of the metrics in a program without the feature `metrics`. Nothing here does anything.
#[cfg(not(feature = "metrics"))]
mod off {
    use idempotency_core::error::Error;
    use lambda_runtime::Context;

    /// No meter.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Meter;

    /// No meter of an invocation.
    #[derive(Debug, Default)]
    pub(crate) struct InvocationMeter {}

    impl Meter {
        /// Returns this meter, because there is no other one.
        pub(crate) fn for_invocation(self, _: &InvocationMeter) -> Self {
            self
        }
    }

    impl InvocationMeter {
        /// Returns no meter.
        pub(crate) fn of(_: &Context) -> Self {
            Self {}
        }

        /// Does nothing.
        pub(crate) fn close(&self) {}
    }

    /// Finds nothing wrong.
    pub(crate) fn check() -> Result<(), Error> {
        Ok(())
    }

    /// Counts nothing.
    #[cfg(feature = "batch")]
    pub(crate) fn count(_: &str, _: &'static str, _: u64) {}
}
