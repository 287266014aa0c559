//! Whether a send within one call of the SDK may have been applied without anybody hearing of it.
//!
//! The SDK sends again inside one call, and tells the last outcome alone. A write whose first send was applied while its
//! reply was lost ends as "the condition failed": without this memory that would be taken for "not applied".

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata};

use crate::failure;

/// Watches the sends of one call whose operation fails with `E`.
pub(crate) struct Attempts<E> {
    seen: Arc<Seen>,
    error: PhantomData<fn() -> E>,
}

#[derive(Debug, Default)]
struct Seen {
    /// A send began, and its end has not been seen.
    in_flight: AtomicBool,
    /// A send ended without the certainty that it was not applied.
    lost: AtomicBool,
    /// A send began at all.
    sent: AtomicBool,
}

impl<E> Attempts<E> {
    pub(crate) fn new() -> Self {
        Self {
            seen: Arc::default(),
            error: PhantomData,
        }
    }

    /// Whether any send may have been applied. To be asked once the call has failed.
    pub(crate) fn lost(&self) -> bool {
        self.seen.lost.load(Ordering::SeqCst) || self.seen.in_flight.load(Ordering::SeqCst)
    }

    /// Whether anything was sent. What fails before that is ours: credentials, most of all.
    pub(crate) fn sent(&self) -> bool {
        self.seen.sent.load(Ordering::SeqCst)
    }
}

impl<E> Clone for Attempts<E> {
    fn clone(&self) -> Self {
        Self {
            seen: Arc::clone(&self.seen),
            error: PhantomData,
        }
    }
}

impl<E> fmt::Debug for Attempts<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attempts").field(&self.seen).finish()
    }
}

impl<E: ProvideErrorMetadata + StdError + Send + Sync + 'static> Intercept for Attempts<E> {
    fn name(&self) -> &'static str {
        "idempotency attempts"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.seen.sent.store(true, Ordering::SeqCst);
        self.seen.in_flight.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if !self.seen.in_flight.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let known = match context.output_or_error() {
            Some(Ok(_)) => true,
            Some(Err(error)) => {
                if let Some(connector) = error.as_connector_error() {
                    failure::never_connected(connector)
                } else {
                    let status = context
                        .response()
                        .map(|response| response.status().as_u16());
                    let error = error
                        .as_operation_error()
                        .and_then(|error| error.downcast_ref::<E>());
                    refused(status, error.and_then(ProvideErrorMetadata::code))
                }
            }
            None => false,
        };
        if !known {
            self.seen.lost.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Whether an answer says that the write was not applied: DynamoDB itself refused it, which its error code proves.
/// After a 5xx it may or may not have been applied, and an answer without a code came from something in between.
fn refused(status: Option<u16>, code: Option<&str>) -> bool {
    let timeout = |code: &str| code.starts_with("RequestTimeout");
    status.is_some_and(|status| (400..500).contains(&status))
        && code.is_some_and(|code| !timeout(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_dynamodb::operation::put_item::PutItemError;

    #[test]
    fn a_send_whose_end_was_never_seen_may_have_been_applied() {
        let attempts = Attempts::<PutItemError>::new();
        assert!(!attempts.lost(), "nothing was sent");
        attempts.seen.in_flight.store(true, Ordering::SeqCst);
        assert!(attempts.lost());
    }

    #[test]
    fn only_a_refusal_with_a_code_of_its_own_proves_that_nothing_was_applied() {
        assert!(refused(Some(400), Some("ConditionalCheckFailedException")));
        assert!(refused(Some(400), Some("ThrottlingException")));
        assert!(refused(Some(413), Some("RequestEntityTooLarge")));
        assert!(!refused(Some(400), None));
        assert!(!refused(Some(408), Some("RequestTimeoutException")));
        assert!(!refused(Some(500), Some("InternalServerError")));
        assert!(!refused(Some(503), Some("ThrottlingException")));
        assert!(!refused(Some(200), Some("ConditionalCheckFailedException")));
        assert!(!refused(None, None));
    }
}
