//! Stable `errorType` names in Lambda's answers.

use std::error::Error as StdError;

use idempotency_core::error::Cause;
use lambda_runtime::Diagnostic;

use crate::BoxError;

/// What Lambda is told of a handler's error: this framework's own have stable names, however they are wrapped; others
/// are named by the last part of their type's name.
///
/// The message is the error's own text. It is for operators: it names operation, table and key. It goes to the function's log and to the
/// invoker, which is a service of yours (a queue, a step of a workflow), or API Gateway, which keeps it from its client. A response
/// that a client of yours sees is told [`Error::client_message`](crate::Error::client_message) instead:
///
/// ```
/// use idempotency_lambda::{BoxError, Error, ErrorKind};
/// /// What the client of an HTTP function is told.
/// fn body(error: &BoxError) -> &'static str {
///     match error.downcast_ref::<Error>() {
///         Some(error) => error.client_message(),
///         None => "the request could not be processed",
///     }
/// }
/// let error: BoxError = Error::new(ErrorKind::PayloadMismatch, "charge").into();
/// assert!(body(&error).starts_with("this idempotency key was used for another request"));
/// ```
///
/// ```
/// use idempotency_lambda::{BoxError, Error, ErrorKind, diagnostic};
/// let error: BoxError = Error::new(ErrorKind::AlreadyInProgress, "charge").into();
/// assert_eq!(diagnostic(error).error_type, "IdempotencyAlreadyInProgress");
/// ```
pub fn diagnostic<E: Into<BoxError>>(error: E) -> Diagnostic {
    let error: BoxError = error.into();
    let error_type = match kind_of(&*error) {
        Some(name) => name.to_owned(),
        None => type_name::<E>(),
    };
    Diagnostic {
        error_type,
        error_message: error.to_string(),
    }
}

/// The kind stands among the causes of every error of ours, so that no wrapping hides it.
fn kind_of(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(cause) = error.downcast_ref::<Cause>() {
            return Some(cause.kind().name());
        }
        cause = error.source();
    }
    None
}

/// `PaymentError` of `shop::payments::PaymentError`; `Error` of a boxed one, whose type is not known.
fn type_name<E>() -> String {
    let path = std::any::type_name::<E>();
    let path = path.split('<').next().unwrap_or(path);
    match path.rsplit("::").next().unwrap_or(path) {
        "Box" => "Error".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotency_core::error::{Error, ErrorKind};
    use std::fmt;

    #[derive(Debug)]
    struct Wrapped(Error);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    /// As `#[error(transparent)]` has it: the error's causes, but not the error itself.
    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.0.source()
        }
    }

    fn ours() -> Error {
        Error::new(ErrorKind::PayloadMismatch, "charge")
    }

    #[test]
    fn ours_are_named_however_they_are_wrapped() {
        for diagnosed in [
            diagnostic(ours()),
            diagnostic(Wrapped(ours())),
            diagnostic(BoxError::from(Wrapped(ours()))),
        ] {
            assert_eq!(diagnosed.error_type, "IdempotencyPayloadMismatch");
            assert!(
                diagnosed
                    .error_message
                    .starts_with("charge: this key was used")
            );
        }
    }

    #[test]
    fn others_keep_their_types_name() {
        assert_eq!(diagnostic(std::fmt::Error).error_type, "Error");
        assert_eq!(diagnostic(BoxError::from("no")).error_type, "Error");
        assert_eq!(
            diagnostic(std::num::ParseIntError::clone(
                &"x".parse::<i8>().unwrap_err()
            ))
            .error_type,
            "ParseIntError"
        );
    }
}
