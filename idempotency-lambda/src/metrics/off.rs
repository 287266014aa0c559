//! The interface of the metrics in a program without the feature `metrics`. Nothing here does anything.

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
    pub(crate) fn or_of(self, _: &InvocationMeter) -> Self {
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
