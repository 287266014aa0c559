//! Checks if Lambda started this process. Inside Lambda a call that does not know its invocation is refused.

use std::sync::OnceLock;

use idempotency_core::error::{Error, ErrorKind};

static IN_LAMBDA: OnceLock<bool> = OnceLock::new();

/// Returns true if this process serves events of Lambda, or of another program that speaks the Runtime API.
pub(super) fn is_lambda() -> bool {
    *IN_LAMBDA.get_or_init(|| {
        std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some_and(|address| !address.is_empty())
    })
}

/// Makes this process behave as if Lambda had started it, for tests, which cannot set a variable of their own process.
///
/// Returns false if the variable was read before and has another meaning.
pub fn assume_lambda() -> bool {
    *IN_LAMBDA.get_or_init(|| true)
}

/// Returns the error of a call that does not know its invocation. It says what to write.
pub(super) fn unknown_invocation(operation: &str) -> Error {
    Error::new(ErrorKind::UnknownInvocation, operation).with_detail(
        "start the function with `idempotency_lambda::run`, put `InvocationLayer` around its service, or pass the \
         context (`context = event.context` in the attribute, `&event.context` to `Operation::run`); wrap a spawned task \
         with `idempotency_lambda::in_current_invocation`, and work without an invocation with `with_invocation(None, ..)`",
    )
}
