//! The stable `errorType` names under which errors reach Lambda.

mod service_error;

pub use service_error::ServiceError;

use std::error::Error as StdError;

use idempotency_core::error::{Cause, ErrorKind};
use lambda_runtime::Diagnostic;

/// A boxed error: the one that `lambda_runtime` calls `Error`.
pub type BoxError = lambda_runtime::Error;

/// Returns the `errorType` and the message under which an error reaches Lambda.
///
/// An error of this framework has a stable name, also if another error wraps it. Any other error is named by the last part of
/// its type's name.
///
/// The message is the error's own text, which is for operators: it names operation, table and key. It goes to the function's
/// log and to the invoker. The invoker is a service of yours (a queue, a workflow), or API Gateway, which does not pass it to
/// its client. For a client of yours use [`Error::client_message`](crate::Error::client_message).
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{BoxError, Error, ErrorKind, diagnostic};
///
/// let error: BoxError = Error::new(ErrorKind::AlreadyInProgress, "charge").into();
/// assert_eq!(diagnostic(error).error_type, "IdempotencyAlreadyInProgress");
/// ```
///
/// The body of an HTTP response for a client:
///
/// ```
/// use idempotency_lambda::{BoxError, Error, ErrorKind};
///
/// fn body(error: &BoxError) -> &'static str {
///     match error.downcast_ref::<Error>() {
///         Some(error) => error.client_message(),
///         None => "the request could not be processed",
///     }
/// }
/// let error: BoxError = Error::new(ErrorKind::PayloadMismatch, "charge").into();
/// assert!(body(&error).starts_with("this idempotency key was used for another request"));
/// ```
pub fn diagnostic<E: Into<BoxError>>(error: E) -> Diagnostic {
    let (error, error_type) = named(error);
    Diagnostic {
        error_message: error.to_string(),
        error_type,
    }
}

/// Returns the error, boxed, with the `errorType` under which it reaches Lambda.
pub(crate) fn named<E: Into<BoxError>>(error: E) -> (BoxError, String) {
    let error: BoxError = error.into();
    let name = match kind_of(&*error) {
        Some(kind) => kind.name().to_owned(),
        None => name_inside(&*error).unwrap_or_else(type_name::<E>),
    };
    (error, name)
}

/// Returns the kind of an error of this framework, or `None` for any other error.
///
/// Each of our errors has its kind among its causes, so that a wrapper does not hide it.
pub(crate) fn kind_of(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    causes(error).find_map(|error| Some(error.downcast_ref::<Cause>()?.kind()))
}

/// Returns the name that the layer kept of a service's error. The type of that error is no longer known.
fn name_inside(error: &(dyn StdError + 'static)) -> Option<String> {
    causes(error).find_map(|error| {
        let inside = error.downcast_ref::<ServiceError>()?;
        Some(inside.error_type().to_owned())
    })
}

/// Returns the texts of an error and its causes. They may quote the payload.
#[cfg(feature = "batch")]
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut chain = String::new();
    for text in causes(error).map(ToString::to_string) {
        // Many errors end with the text of their cause.
        if chain.ends_with(&text) {
            continue;
        }
        if !chain.is_empty() {
            chain.push_str(": ");
        }
        chain.push_str(&text);
    }
    chain
}

/// Returns an error and its causes.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns the last part of a type's name, such as `PaymentError` for `shop::payments::PaymentError`, and `Error` for a
/// boxed error, whose type is not known.
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
    use std::fmt;

    use idempotency_core::error::Error;

    use super::*;

    #[derive(Debug)]
    struct Wrapper(Error);

    impl fmt::Display for Wrapper {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    /// Like `#[error(transparent)]`: it has the causes of the error, but not the error itself.
    impl StdError for Wrapper {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.0.source()
        }
    }

    fn ours() -> Error {
        Error::new(ErrorKind::PayloadMismatch, "charge")
    }

    #[test]
    fn an_error_of_this_framework_keeps_its_name_inside_a_wrapper() {
        for diagnosed in [
            diagnostic(ours()),
            diagnostic(Wrapper(ours())),
            diagnostic(BoxError::from(Wrapper(ours()))),
            diagnostic(ServiceError::of(ServiceError::from(ours()))),
            diagnostic(BoxError::from(ServiceError::from(ours()))),
        ] {
            assert_eq!(diagnosed.error_type, "IdempotencyPayloadMismatch");
            let message = diagnosed.error_message;
            assert!(message.starts_with("charge: this key was used"));
        }
    }

    #[test]
    fn any_other_error_has_the_name_of_its_type() {
        let number = || "x".parse::<i8>().unwrap_err();
        for (diagnosed, name) in [
            (diagnostic(fmt::Error), "Error"),
            (diagnostic(BoxError::from("no")), "Error"),
            (diagnostic(number()), "ParseIntError"),
            // A layer outside has boxed it.
            (
                diagnostic(BoxError::from(ServiceError::of(number()))),
                "ParseIntError",
            ),
        ] {
            assert_eq!(diagnosed.error_type, name);
        }
    }
}
