//! Notes each send of an SDK call: whether it may have been applied, and why it failed.
//!
//! The SDK sends again inside one call and reports only the last result. If the first send of a write is applied and its reply
//! is lost, the call ends with "the condition failed"; without these notes that would count as "not applied". If the engine
//! stops waiting during a call, the SDK reports nothing.

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

/// The shortest timeout of a send. A new connection and a response take some tens of milliseconds.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Returns the timeout of one send if the caller waits for `limit`: half of it, so that a second send is possible.
fn send_timeout(limit: Duration) -> Duration {
    (limit / 2).max(MIN_TIMEOUT)
}

/// Notes the sends of one SDK call. `E` is the error type of its operation.
pub(crate) struct Sends<E> {
    log: SendLog,
    table: Arc<TableRef>,
    /// The IAM action.
    action: &'static str,
    /// The number of sends before this call: one request can consist of a read and a write.
    before: u32,
    error: PhantomData<fn() -> E>,
}

impl<E> Sends<E> {
    /// Starts the notes of a call, before its first send.
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

    /// Returns true if a send may have been applied. Call it after the call has failed.
    pub(crate) fn maybe_applied(&self) -> bool {
        self.log.maybe_applied()
    }

    /// Returns true if this call sent a request. An error before that is local, such as missing credentials.
    pub(crate) fn sent(&self) -> bool {
        self.log.sends() > self.before
    }
}

impl<E> Clone for Sends<E> {
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

impl<E> fmt::Debug for Sends<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sends").field(&self.log).finish()
    }
}

impl<E: ProvideErrorMetadata + StdError + Send + Sync + 'static> Intercept for Sends<E> {
    fn name(&self) -> &'static str {
        "idempotency sends"
    }

    /// Shortens the timeout of each send, so that a send that hangs is repeated while the caller still waits.
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
        let timeout = send_timeout(limit);
        // A client without a timeout keeps none: that is the user's choice.
        if timeouts
            .operation_attempt_timeout()
            .is_some_and(|own| own > timeout)
        {
            let shortened = timeouts.to_builder().operation_attempt_timeout(timeout);
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
        self.table.note_endpoint(context.request().uri());
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
            // A read applies nothing, and a write can follow in the same request.
            Some(Ok(_)) if self.action == READ => (true, None),
            // Applied: the note "sending" stays, so that the write counts as maybe applied until the call returns.
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
                    (
                        not_applied(status, code),
                        self.send_error(status, code, message),
                    )
                }
            }
            None => (false, None),
        };
        self.log.ended(!known && self.action != READ, error);
        Ok(())
    }
}

impl<E> Sends<E> {
    /// Returns the error that an error response means. `None` if the condition failed: the call ends with that result.
    fn send_error(
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

/// The IAM action of a read, which never changes a record.
pub(crate) const READ: &str = "dynamodb:GetItem";

/// The error code of a write whose condition failed.
pub(crate) const CONDITION_FAILED: &str = "ConditionalCheckFailedException";

/// Returns true if an error response proves that the write was not applied: DynamoDB itself rejected it, as its error code
/// shows. After a 5xx the write may have been applied, and a response without a code can come from a proxy.
fn not_applied(status: Option<u16>, code: Option<&str>) -> bool {
    let timeout = |code: &str| code.starts_with("RequestTimeout");
    status.is_some_and(|status| (400..500).contains(&status))
        && code.is_some_and(|code| !timeout(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_with_a_code_of_dynamodb_proves_that_nothing_was_applied() {
        assert!(not_applied(
            Some(400),
            Some("ConditionalCheckFailedException")
        ));
        assert!(not_applied(Some(400), Some("ThrottlingException")));
        assert!(not_applied(Some(413), Some("RequestEntityTooLarge")));
        assert!(!not_applied(Some(400), None));
        assert!(!not_applied(Some(408), Some("RequestTimeoutException")));
        assert!(!not_applied(Some(500), Some("InternalServerError")));
        assert!(!not_applied(Some(503), Some("ThrottlingException")));
        assert!(!not_applied(
            Some(200),
            Some("ConditionalCheckFailedException")
        ));
        assert!(!not_applied(None, None));
    }
}
