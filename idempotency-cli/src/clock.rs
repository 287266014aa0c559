//! The time of decisions: that of this machine, corrected by the clock of DynamoDB.
//!
//! The SDK corrects the time of its signatures, so a wrong clock does not show. But it would take a claim for one whose run has ended, or
//! write a window that has ended already for every function.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use idempotency_core::system::SystemClock;
use idempotency_core::time::{Clock as _, EpochMillis};

use crate::terminal::warn;

/// A difference up to this one is not corrected, in milliseconds: a date has whole seconds, and a response takes time.
const SMALL: i64 = 5_000;

/// By how many milliseconds the clock of DynamoDB is ahead of this machine's. 0 without a response of DynamoDB.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreClock(Arc<AtomicI64>);

impl StoreClock {
    /// Returns the time by DynamoDB's clock. Without a response of DynamoDB it is that of this machine.
    pub(crate) fn now(&self) -> EpochMillis {
        let ahead = self.0.load(Ordering::Relaxed);
        EpochMillis::new(SystemClock.now().get().saturating_add(ahead))
    }

    /// Notes the date of a response, and warns if the clock of this machine is wrong.
    fn measure(&self, date: DateTime) {
        let date = date.secs().saturating_mul(1_000);
        let ahead = date.saturating_sub(SystemClock.now().get());
        let ahead = if ahead.abs() > SMALL { ahead } else { 0 };
        let before = self.0.swap(ahead, Ordering::Relaxed);
        if before == 0 && ahead != 0 {
            let by = humantime::format_duration(Duration::from_secs(ahead.unsigned_abs() / 1_000));
            let behind = if ahead > 0 { "behind" } else { "ahead of" };
            warn(format_args!(
                "the clock of this machine is {by} {behind} DynamoDB's, which counts here: set it right"
            ));
        }
    }
}

impl Intercept for StoreClock {
    fn name(&self) -> &'static str {
        "the clock of DynamoDB"
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.response().headers();
        // A page of a proxy has no request id, and sets no clock.
        let date = headers
            .get("date")
            .filter(|_| headers.contains_key("x-amzn-requestid"));
        let date = date.and_then(|date| DateTime::from_str(date, DateTimeFormat::HttpDate).ok());
        if let Some(date) = date {
            self.measure(date);
        }
        Ok(())
    }
}
