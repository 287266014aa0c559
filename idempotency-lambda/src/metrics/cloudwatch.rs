//! The switch of the metrics, and the way from the end of a call to standard output.

use idempotency_core::config::{ConfigurationError, HostVariables};
use idempotency_core::error::Error;
use idempotency_core::event::{CallSummary, observe};

use crate::init_phase;
use crate::invocation::Scope;
#[cfg(feature = "batch")]
use crate::meter::is_on;
use crate::meter::{FORMAT, Format};
use crate::process::{self, configuration_error};

/// Sends metrics of all operations of this process to CloudWatch, in this namespace.
///
/// Call it at the start of `main`, before [`run`](crate::run), `http::run` or [`init`](crate::init). It also works under
/// `lambda_runtime::run` and `lambda_http::run`, with [`InvocationLayer`](crate::InvocationLayer) around the service or not.
///
/// The metrics are JSON lines in the embedded metric format on standard output, written once for each invocation, before its
/// response is sent. They need no permission and no request. A call outside any invocation writes its own line. The dimensions are
/// `Function` and `Operation`. `docs/guide/metrics.md` of the repository lists the metrics and their cost.
///
/// # Errors
///
/// If CloudWatch does not accept the namespace: this error is reported to Lambda, if it is the first of the start, and
/// [`init`](crate::init) and [`run`](crate::run) return it too. Also if this was called before: that error is only returned.
///
/// # Examples
///
/// ```no_run
/// # use idempotency_lambda::{BoxError, LambdaEvent};
/// # async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> { Ok(event.payload) }
/// #[tokio::main]
/// async fn main() -> Result<(), BoxError> {
///     idempotency_lambda::metrics::to_cloudwatch("Shop")?;
///     idempotency_lambda::run(handler).await
/// }
/// ```
pub fn to_cloudwatch(namespace: impl Into<String>) -> Result<(), Error> {
    let function = process::variables().value(HostVariables::LAMBDA.name);
    let format = checked_namespace(namespace.into()).map(|namespace| Format {
        namespace,
        function: function.unwrap_or("local").to_owned(),
    });
    let refused = format.as_ref().err().cloned();
    let is_on = refused.is_none();
    if FORMAT.set(format).is_err() {
        // The process works, so this mistake is not reported: Lambda would end it.
        return Err(configuration_error(&ConfigurationError::new(
            "`metrics::to_cloudwatch` was called before in this process: call it once, at the start of `main`",
        )));
    }
    if is_on {
        observe(ended);
    }
    refused.map_or(Ok(()), |error| {
        Err(init_phase::reported(configuration_error(&error)))
    })
}

/// Checks that the metrics, if `main` asked for them, are on.
///
/// # Errors
///
/// The error that [`to_cloudwatch`] returned.
pub(crate) fn check() -> Result<(), Error> {
    match FORMAT.get() {
        Some(Err(error)) => Err(configuration_error(error)),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Adds `n` to a count of `operation`, which is a key prefix, in the invocation around the running code.
///
/// It is for what does not become a call, such as a record of a batch that cannot be decoded.
#[cfg(feature = "batch")]
pub(crate) fn count(operation: &str, name: &'static str, n: u64) {
    if is_on() {
        let scope = Scope::current();
        scope.meter.change(operation, |tally| tally.count(name, n));
    }
}

/// Counts a call that has ended, in the invocation around it.
fn ended(call: &CallSummary<'_>) {
    let scope = Scope::current();
    scope
        .meter
        .change(call.operation(), |tally| tally.add(call));
}

// The check of a namespace against the rules of CloudWatch.

/// The longest namespace, in characters.
const LONGEST: usize = 255;

/// Checks a namespace of metrics.
///
/// # Errors
///
/// If CloudWatch would ignore metrics in this namespace. The function would not notice.
fn checked_namespace(namespace: String) -> Result<String, ConfigurationError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || " ._-/#:".contains(c);
    let remedy = if namespace.trim().is_empty() {
        "write a name, such as `Shop`"
    } else if namespace.chars().count() > LONGEST {
        "write at most 255 characters"
    } else if !namespace.chars().all(allowed) {
        "write letters without accents, digits, spaces and `.`, `-`, `_`, `/`, `#`, `:` only"
    } else if namespace.starts_with(':') {
        "write another first character than `:`"
    } else if namespace.starts_with("AWS/") {
        "write another name: `AWS/` is reserved for AWS"
    } else {
        return Ok(namespace);
    };
    Err(ConfigurationError::value(
        "the namespace of the metrics",
        &namespace,
        remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_cloudwatch_would_ignore_is_refused_with_the_rule() {
        for (namespace, says) in [
            ("", "write a name"),
            ("  ", "write a name"),
            ("Geschäft", "without accents"),
            ("Shop\n", "without accents"),
            (":Shop", "first character"),
            ("AWS/Lambda", "reserved"),
            (&"x".repeat(256), "at most 255"),
        ] {
            let error = checked_namespace(namespace.to_owned())
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("the namespace of the metrics is `"),
                "{error}"
            );
            assert!(error.contains(says), "{error}");
        }
        for namespace in [
            "Shop",
            "shop/payments-v2.1_#:",
            "Web Shop",
            &"x".repeat(255),
        ] {
            assert_eq!(
                checked_namespace(namespace.to_owned()).as_deref(),
                Ok(namespace)
            );
        }
    }

    #[test]
    fn a_namespace_that_main_goes_on_without_is_refused_at_the_start_too() {
        assert!(check().is_ok());
        let refused = to_cloudwatch("Geschäft").unwrap_err().to_string();
        assert_eq!(check().unwrap_err().to_string(), refused);
        let again = to_cloudwatch("Shop").unwrap_err().to_string();
        assert!(again.contains("was called before"), "{again}");
    }
}
