//! The error of a service under the layer: it keeps its `errorType`, and it is an error for the layers outside.

use std::error::Error as StdError;
use std::fmt;

use idempotency_core::engine::Errors;
use idempotency_core::error::{Error, ErrorKind};
use lambda_runtime::Diagnostic;

use super::{BoxError, kind_of, named};

/// The error of a service under [`IdempotencyLayer`](crate::IdempotencyLayer): an error of this framework, or of the service
/// inside.
///
/// It converts into a [`Diagnostic`] with the `errorType` that [`diagnostic()`](crate::diagnostic()) gives to the error inside.
/// Unlike `Diagnostic` it is a [`std::error::Error`], so that layers such as tower's `Timeout` take it. Message and causes are
/// those of the error inside.
///
/// A service inside whose error is a `Diagnostic` needs `map_err(ServiceError::from)` between it and the layer, because
/// `Diagnostic` is no `std::error::Error`. Its `errorType` stays.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{Error, ErrorKind, ServiceError};
/// use lambda_runtime::Diagnostic;
///
/// let error = ServiceError::from(Error::new(ErrorKind::AlreadyInProgress, "charge"));
/// assert_eq!(error.kind(), Some(ErrorKind::AlreadyInProgress));
/// assert_eq!(Diagnostic::from(error).error_type, "IdempotencyAlreadyInProgress");
/// ```
pub struct ServiceError {
    error_type: String,
    error: BoxError,
    /// True if the handler itself says that it failed without an effect.
    is_report: bool,
}

impl ServiceError {
    /// Returns the error of a service inside, under the name of its type.
    pub(crate) fn of<E: Into<BoxError>>(error: E) -> Self {
        let (error, error_type) = named(error);
        let inside = error.downcast_ref::<Self>();
        Self {
            is_report: inside.is_some_and(|inside| inside.is_report),
            error_type,
            error,
        }
    }

    /// Returns the error of a handler that had no effect, for `on_timeout = "hold"`.
    ///
    /// The layer cannot distinguish an error of the handler from one of a layer inside, such as tower's `Timeout`. Under `hold`
    /// an error keeps the key for an operator, unless the handler returns this one: then the key is free. Under `rerun` it changes
    /// nothing. If a layer inside wraps this error in another one, the report is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_lambda::{BoxError, LambdaEvent, ServiceError};
    ///
    /// async fn handler(event: LambdaEvent<u64>) -> Result<u64, BoxError> {
    ///     if event.payload == 0 {
    ///         // Nothing was charged.
    ///         return Err(ServiceError::reported("the amount is 0").into());
    ///     }
    ///     Ok(event.payload)
    /// }
    /// ```
    #[must_use]
    pub fn reported<E: Into<BoxError>>(error: E) -> Self {
        Self {
            is_report: true,
            ..Self::of(error)
        }
    }

    /// Returns the rules for errors of a service inside.
    pub(crate) fn errors() -> Errors<Self> {
        Errors::new(Self::from).unreported(|error| (!error.is_report).then_some(UNREPORTED))
    }

    /// Returns the name under which the error reaches Lambda.
    pub(super) fn error_type(&self) -> &str {
        &self.error_type
    }

    /// Returns the kind of an error of this framework, or `None` for any other error.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        kind_of(&*self.error)
    }

    /// Returns the error of the service inside, or of this framework.
    #[must_use]
    pub fn into_inner(self) -> BoxError {
        self.error
    }
}

/// Why an error is no report of the handler.
const UNREPORTED: &str = "the error can be that of a layer inside, such as a timeout, so the key is held: if the handler itself fails \
                          and had no effect, return `ServiceError::reported`";

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        Self::of(error)
    }
}

/// Keeps the `errorType`.
impl From<Diagnostic> for ServiceError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            error_type: diagnostic.error_type,
            error: diagnostic.error_message.into(),
            is_report: false,
        }
    }
}

impl From<ServiceError> for Diagnostic {
    fn from(error: ServiceError) -> Self {
        Self {
            error_message: error.to_string(),
            error_type: error.error_type,
        }
    }
}

impl fmt::Debug for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for ServiceError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use idempotency_core::protocol::policy::OnTimeout;
    use idempotency_core::store::MemoryStore;
    use lambda_runtime::tower::{ServiceBuilder, ServiceExt};
    use lambda_runtime::{Context, LambdaEvent};
    use serde_json::{Value, json};

    use super::*;
    use crate::{IdempotencyLayer, Operation, diagnostic};

    fn ours() -> Error {
        Error::new(ErrorKind::PayloadMismatch, "charge")
    }

    #[test]
    fn an_error_inside_keeps_its_name_its_text_and_its_causes() {
        let error = ServiceError::of(BoxError::from(ours()));
        assert_eq!(error.kind(), Some(ErrorKind::PayloadMismatch));
        assert_eq!(error.to_string(), ours().to_string());
        assert!(error.source().is_some());
        assert!(error.into_inner().is::<Error>());
        let error = ServiceError::of(std::fmt::Error);
        assert_eq!((error.kind(), error.error_type()), (None, "Error"));
    }

    #[test]
    fn only_the_report_of_the_handler_itself_is_a_report() {
        let report = || ServiceError::reported(ours());
        assert_eq!(report().kind(), Some(ErrorKind::PayloadMismatch));
        let wrapped = std::io::Error::other(report());
        for (error, is_report) in [
            (ServiceError::of(report()), true),
            (ServiceError::of(BoxError::from(report())), true),
            (ServiceError::of(ours()), false),
            (ServiceError::of(wrapped), false),
            (ServiceError::of(ServiceError::from(ours())), false),
        ] {
            assert_eq!(error.is_report, is_report, "{error:?}");
            assert_eq!(error.error_type(), "IdempotencyPayloadMismatch");
        }
    }

    /// It says nothing of what the handler did before.
    #[tokio::test]
    async fn a_refusal_of_an_event_that_the_handler_sends_is_no_report_of_the_handler() {
        let layer = |path: &str, key: &'static str| {
            let operation = Operation::builder(path)
                .key(key)
                .store(Arc::new(MemoryStore::new()));
            IdempotencyLayer::new(operation.on_timeout(OnTimeout::Hold).build().unwrap())
        };
        let event = || LambdaEvent::new(json!({ "order_id": 1 }), Context::default());
        let inner = ServiceBuilder::new()
            .layer(layer("shop::inner", "payment_id"))
            .service_fn(async |_: LambdaEvent<Value>| Ok::<_, std::fmt::Error>(1));
        let charge = move |event: LambdaEvent<Value>| {
            let inner = inner.clone();
            // Here the order is charged.
            async { inner.oneshot(event).await }
        };
        let service = ServiceBuilder::new()
            .layer(layer("shop::outer", "order_id"))
            .service_fn(charge);
        for expected in [ErrorKind::KeyMissing, ErrorKind::Unresolved] {
            let error = service.clone().oneshot(event()).await.unwrap_err();
            assert_eq!(error.kind(), Some(expected));
        }
    }

    #[test]
    fn a_diagnostic_stays_as_it_is() {
        let sent = Diagnostic {
            error_type: "CardDeclined".to_owned(),
            error_message: "the card was declined".to_owned(),
        };
        let error = ServiceError::from(sent.clone());
        assert_eq!(diagnostic(ServiceError::of(error)), sent);
    }
}
