//! Metrics for CloudWatch, in the embedded metric format: JSON lines on standard output, from which CloudWatch makes metrics.
//!
//! [`to_cloudwatch`] switches them on, in one line of `main`. `docs/guide/metrics.md` of the repository lists the metrics and what
//! to do about each. For another metrics system use [`observe`](crate::observe).
//!
//! | file | what it holds |
//! |---|---|
//! | `cloudwatch` | the switch, and the way from the end of a call to standard output |
//! | `namespace` | the check of the namespace |
//! | `meter` | the metrics of one invocation, written at its end |
//! | `tally` | the metrics of one operation: what each end of a call counts |
//! | `emf` | the embedded metric format |
//! | `off` | the same interface without the feature `metrics`, which does nothing |

#[cfg(feature = "metrics")]
mod cloudwatch;
#[cfg(feature = "metrics")]
mod emf;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(feature = "metrics")]
mod namespace;
#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod tally;

#[cfg(feature = "metrics")]
pub use cloudwatch::to_cloudwatch;

#[cfg(feature = "metrics")]
pub(crate) use cloudwatch::check;
#[cfg(feature = "metrics")]
pub(crate) use meter::{InvocationMeter, Meter};
#[cfg(not(feature = "metrics"))]
pub(crate) use off::{InvocationMeter, Meter, check};

// Only batches count what is no call.
#[cfg(all(feature = "batch", feature = "metrics"))]
pub(crate) use cloudwatch::count;
#[cfg(all(feature = "batch", not(feature = "metrics")))]
pub(crate) use off::count;
