//! The errors that all writes share.

use std::error::Error as StdError;
use std::fmt;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use dynamodb_lean_client::sdk::{cause, is_about_size, not_from_dynamodb, quoted};

use crate::item::{Hidden, Item};

/// An expression, a placeholder, a key or a version is wrong. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidExpression {
    message: String,
}

impl InvalidExpression {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message }
    }
}

impl fmt::Display for InvalidExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; nothing was sent", self.message)
    }
}

impl StdError for InvalidExpression {}

/// The condition of the caller does not hold, and nothing else is in the way: the item does not have the key of the update, or it has the
/// version that the write expects.
///
/// `Debug` shows no attribute of the item.
#[derive(Debug)]
pub struct ConditionFailed {
    pub(crate) item: Hidden<Option<Item>>,
    pub(crate) may_still_arrive: bool,
}

impl ConditionFailed {
    /// Returns the current item, without what [`once`](crate::once) keeps in it. `None` if there is no item.
    pub fn item(&self) -> Option<&Item> {
        self.item.as_ref()
    }

    /// Returns true if an earlier send of this write got no reply. It was not applied until now. If it arrives later and the
    /// condition holds then, it will be.
    pub fn may_still_arrive(&self) -> bool {
        self.may_still_arrive
    }
}

/// A request to DynamoDB failed: it was refused for another reason than a condition, or there was no reply.
#[derive(Debug)]
pub struct RequestError {
    action: &'static str,
    table: String,
    code: Option<String>,
    message: String,
    is_too_large: bool,
    maybe_applied: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl RequestError {
    /// Returns the error of a call of the SDK, without the values that a response may quote.
    pub(crate) fn new<E>(
        action: &'static str,
        table: &str,
        error: SdkError<E>,
        maybe_applied: bool,
    ) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let meta = error.meta();
        let code = meta.code().map(str::to_owned);
        let message = match (&error, meta.message()) {
            (_, Some(message)) => quoted(Some(message)),
            (SdkError::TimeoutError(_), _) => "no response in time".to_owned(),
            (SdkError::DispatchFailure(failure), _) if failure.is_timeout() => {
                "no response in time".to_owned()
            }
            (SdkError::DispatchFailure(_), _) => "the connection failed or broke".to_owned(),
            (SdkError::ConstructionFailure(_), _) => "the request could not be prepared".to_owned(),
            _ if code.is_some() => quoted(None),
            (SdkError::ResponseError(failure), _) => {
                not_from_dynamodb(failure.raw().status().as_u16())
            }
            _ => "the response could not be read".to_owned(),
        };
        Self {
            action,
            table: table.to_owned(),
            is_too_large: code.as_deref() == Some("ValidationException")
                && meta.message().is_some_and(is_about_size),
            code,
            message,
            maybe_applied,
            source: cause(error),
        }
    }

    /// Returns true if the write may have been applied: there was no reply, or the reply does not prove that DynamoDB refused the write.
    pub fn maybe_applied(&self) -> bool {
        self.maybe_applied
    }

    /// Returns the error code of DynamoDB, such as `ThrottlingException`. `None` if there was no response with a code.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Returns this error for a write of several requests. `maybe_applied` is true if an earlier one may have applied the write.
    pub(crate) fn after_earlier(mut self, maybe_applied: bool) -> Self {
        self.maybe_applied |= maybe_applied;
        self
    }

    /// Returns true if the item would be larger than DynamoDB accepts.
    pub(crate) fn is_too_large(&self) -> bool {
        self.is_too_large
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on table `{}` failed: ", self.action, self.table)?;
        if let Some(code) = &self.code {
            write!(f, "{code}: ")?;
        }
        let applied = if self.maybe_applied {
            "may have been applied"
        } else {
            "was not applied"
        };
        write!(f, "{}; the write {applied}", self.message)
    }
}

impl StdError for RequestError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Returns the text of an error for a write that was not applied. `may_still_arrive` is true if an earlier send got no
/// reply.
pub(crate) fn not_applied(may_still_arrive: bool) -> &'static str {
    if may_still_arrive {
        "was not applied so far, and an earlier send that got no reply may still be applied"
    } else {
        "was not applied"
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::http::HttpResponse;
    use aws_sdk_dynamodb::error::ErrorMetadata;

    use super::*;

    #[test]
    fn an_error_has_the_code_and_the_message_of_dynamodb_as_far_as_there_are_any() {
        for (code, message, text) in [
            (
                Some("SerializationException"),
                None,
                "SerializationException: no message",
            ),
            (None, None, "the response could not be read"),
            (
                Some("ValidationException"),
                Some("the value is 4200"),
                "ValidationException: its message is left out, because it may quote an item",
            ),
        ] {
            let mut meta = ErrorMetadata::builder();
            if let Some(code) = code {
                meta = meta.code(code);
            }
            if let Some(message) = message {
                meta = meta.message(message);
            }
            let response = HttpResponse::new(400.try_into().unwrap(), "".into());
            let error = SdkError::service_error(meta.build(), response);
            let error = RequestError::new("dynamodb:UpdateItem", "usage", error, false);
            let expected = format!(
                "dynamodb:UpdateItem on table `usage` failed: {text}; the write was not applied"
            );
            assert_eq!(error.to_string(), expected);
        }
    }
}
