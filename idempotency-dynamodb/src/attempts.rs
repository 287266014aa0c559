//! Notes each send of one call of the SDK: whether it may have been applied, and why it failed.
//!
//! The SDK sends again inside one call, and tells the last outcome alone. A write whose first send was applied while its
//! reply was lost ends as "the condition failed": without these notes that would be taken for "not applied". And where the
//! engine stops waiting in the middle of a call, the SDK tells nothing at all.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata};
use idempotency_core::store::{SendLog, StoreError};

use crate::failure;
use crate::table_ref::TableRef;

/// The shortest time of a send: a new connection and a response need some tens of milliseconds.
const SHORTEST: Duration = Duration::from_millis(100);

/// Returns how long one send may take at most, where the caller waits for `limit`: half of it, so that one more fits in.
fn share(limit: Duration) -> Duration {
    (limit / 2).max(SHORTEST)
}

/// Notes the sends of one call whose operation fails with `E`.
pub(crate) struct Attempts<E> {
    log: SendLog,
    table: Arc<TableRef>,
    /// The IAM action.
    action: &'static str,
    /// How many sends were noted before this call: a write can follow a read in one request.
    before: u32,
    error: PhantomData<fn() -> E>,
}

impl<E> Attempts<E> {
    /// Begins the notes of a call: nothing was sent yet.
    pub(crate) fn new(log: &SendLog, table: &Arc<TableRef>, action: &'static str) -> Self {
        log.preparing();
        Self {
            log: log.clone(),
            table: Arc::clone(table),
            action,
            before: log.sends(),
            error: PhantomData,
        }
    }

    /// Returns the IAM action of the call.
    pub(crate) fn action(&self) -> &'static str {
        self.action
    }

    /// Returns whether any send may have been applied. To be asked once the call has failed.
    pub(crate) fn maybe_applied(&self) -> bool {
        self.log.maybe_applied()
    }

    /// Returns whether anything was sent. What fails before that is ours: credentials, most of all.
    pub(crate) fn sent(&self) -> bool {
        self.log.sends() > self.before
    }
}

impl<E> Clone for Attempts<E> {
    fn clone(&self) -> Self {
        Self {
            log: self.log.clone(),
            table: Arc::clone(&self.table),
            action: self.action,
            before: self.before,
            error: PhantomData,
        }
    }
}

impl<E> fmt::Debug for Attempts<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attempts").field(&self.log).finish()
    }
}

impl<E: ProvideErrorMetadata + StdError + Send + Sync + 'static> Intercept for Attempts<E> {
    fn name(&self) -> &'static str {
        "idempotency attempts"
    }

    /// Shortens the time of each send, so that a send that hangs is repeated while the caller still waits.
    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let (Some(limit), Some(timeouts)) = (self.log.limit(), config.load::<TimeoutConfig>())
        else {
            return Ok(());
        };
        let share = share(limit);
        // A client that bounds no send is left so: that is the user's choice.
        if timeouts
            .operation_attempt_timeout()
            .is_some_and(|attempt| attempt > share)
        {
            let shortened = timeouts.to_builder().operation_attempt_timeout(share);
            let shortened = shortened.build();
            config.interceptor_state().store_put(shortened);
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.table.sends_to(context.request().uri());
        if self.action == READ {
            self.log.reading();
        } else {
            self.log.sending();
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if !self.log.is_sending() {
            return Ok(());
        }
        let (known, error) = match context.output_or_error() {
            // Nothing was applied, and a write can follow in the same request.
            Some(Ok(_)) if self.action == READ => (true, None),
            // It was applied: it stays noted as on its way, which is the safe side until the call returns.
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) => {
                if let Some(connector) = error.as_connector_error() {
                    let known = failure::never_connected(connector);
                    let error = self
                        .table
                        .send_without_response(known, connector.is_timeout());
                    (known, Some(error))
                } else if error.is_timeout_error() {
                    (false, Some(self.table.send_without_response(false, true)))
                } else {
                    let error = error
                        .as_operation_error()
                        .and_then(|error| error.downcast_ref::<E>());
                    let status = context
                        .response()
                        .map(|response| response.status().as_u16());
                    let code = error.and_then(ProvideErrorMetadata::code);
                    let message = error.and_then(ProvideErrorMetadata::message);
                    (refused(status, code), self.told(status, code, message))
                }
            }
            None => (false, None),
        };
        self.log.ended(!known && self.action != READ, error);
        Ok(())
    }
}

impl<E> Attempts<E> {
    /// What an error response means. `None` of a condition that failed: that is no trouble, and the call ends with it.
    fn told(
        &self,
        status: Option<u16>,
        code: Option<&str>,
        message: Option<&str>,
    ) -> Option<StoreError> {
        (code != Some(CONDITION_FAILED)).then(|| {
            let status = status.unwrap_or_default();
            self.table.send_error(self.action, status, code, message)
        })
    }
}

/// The action that changes nothing, however it ends.
pub(crate) const READ: &str = "dynamodb:GetItem";

/// The code of a refusal.
pub(crate) const CONDITION_FAILED: &str = "ConditionalCheckFailedException";

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
