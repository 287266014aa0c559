//! Where the caller of a request comes from.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use idempotency_core::key::Expression;

/// Where the caller comes from: an expression `E` or a header `N`. Both are texts until the rule is checked.
pub(super) enum CallerRule<E = Expression, N = HeaderName> {
    Expression(E),
    Header(N),
    Function(Arc<CallerFunction>),
    /// All clients share their keys.
    Shared,
}

/// A user's function from the head of a request to its caller.
pub(super) type CallerFunction = dyn Fn(&Parts) -> Option<String> + Send + Sync;

impl CallerRule {
    /// Says where the caller was looked for, for the operator.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Expression(expression) => {
                format!(
                    "the expression `{expression}` finds no value, or not every part, or a header of it is repeated"
                )
            }
            Self::Header(name) => {
                format!("the header `{name}` is missing, empty, repeated or not text")
            }
            Self::Function(_) => "the function of `caller_from` returns none".to_owned(),
            Self::Shared => "all callers share their keys".to_owned(),
        }
    }
}

/// Returns the caller in a header; `None` if the header is missing, empty, repeated or not text.
///
/// A repeated header is no caller: a client may have sent the first value, and the proxy the second. The value is taken as it is, as
/// `header` takes it: `bob` with a blank of any kind behind it is not `bob`.
pub(super) fn caller_in(parts: &Parts, name: &HeaderName) -> Option<String> {
    let mut values = parts.headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let caller = std::str::from_utf8(value.as_bytes()).ok()?;
    // As `header` finds no value.
    let is_empty = caller.trim_matches([' ', '\t', ',']).is_empty();
    (!is_empty).then(|| caller.to_owned())
}

impl<E: fmt::Debug, N: fmt::Debug> fmt::Debug for CallerRule<E, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression(expression) => f.debug_tuple("Expression").field(expression).finish(),
            Self::Header(name) => f.debug_tuple("Header").field(name).finish(),
            Self::Function(_) => f.write_str("Function"),
            Self::Shared => f.write_str("Shared"),
        }
    }
}
