//! The metrics of the invocation around the running code.
//!
//! | file | what it holds |
//! |---|---|
//! | `invocation` | the metrics of one invocation, written at its end |
//! | `output` | the format of the process, and the way to standard output |
//! | `emf` | the embedded metric format |
//! | `tally` | the metrics of one operation: what each end of a call counts |
//! | `off`, in this file | the same interface without the feature `metrics`, which does nothing |

#[cfg(feature = "metrics")]
mod emf;
#[cfg(feature = "metrics")]
mod invocation;
#[cfg(feature = "metrics")]
mod output;
#[cfg(feature = "metrics")]
mod tally;

#[cfg(feature = "metrics")]
pub(crate) use emf::Format;
#[cfg(feature = "metrics")]
pub(crate) use invocation::{InvocationMeter, Meter};
#[cfg(not(feature = "metrics"))]
pub(crate) use off::{InvocationMeter, Meter};
#[cfg(feature = "metrics")]
pub(crate) use output::FORMAT;
#[cfg(all(feature = "batch", feature = "metrics"))]
pub(crate) use output::is_on;

/// The interface in a program without the feature `metrics`. Nothing here does anything.
#[cfg(not(feature = "metrics"))]
mod off {
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
}
