//! The settings with which the key of an event is made, and the result.

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::key::{EvaluationError, Expression, HashAlgorithm, Json, Selector, Text};
use idempotency_core::record::RecordId;

use crate::arguments::KeyArguments;
use crate::connection::chain;
use crate::exit::Exit;
use crate::json;

/// The settings with which an operation makes keys.
#[derive(Clone, Debug)]
pub(super) struct KeySettings {
    /// The key expression. `None`: the whole payload.
    pub(super) expression: Option<Expression>,
    /// The key prefix. `None`: only the digest.
    pub(super) prefix: Option<String>,
    /// The validated part. `None`: no validation.
    pub(super) validate: Option<Expression>,
    pub(super) hash: HashAlgorithm,
    pub(super) tenant: Option<String>,
    pub(super) python_numbers: bool,
}

/// What the command finds for one event: its key, or why it has none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyResult {
    Key {
        key: String,
        /// The canonical text that is hashed. `None` for an HTTP request.
        text: Option<String>,
        /// The validation digest.
        validation: Option<String>,
        /// The parts of the key that the event does not have, as written in the expression.
        missing: Vec<String>,
    },
    /// The event has no key. The text says why.
    NoKey(String),
    Error(String),
}

impl KeySettings {
    /// Creates the settings from the options, and from the variables for options that are not set.
    pub(super) fn new(
        arguments: &KeyArguments,
        variables: &Variables,
    ) -> Result<Self, ConfigurationError> {
        let settings = Settings {
            hash: arguments.hash,
            ..Settings::default()
        };
        let prefix = match (&arguments.prefix, &arguments.operation) {
            (Some(prefix), _) => checked_prefix(prefix)?,
            (None, Some(path)) => Some(settings.key_prefix(variables, path)?),
            (None, None) => None,
        };
        Ok(Self {
            expression: compiled("expression", arguments.expression.as_deref())?,
            prefix,
            validate: compiled("validate", arguments.validate.as_deref())?,
            hash: settings.hash(variables)?,
            tenant: arguments.tenant.clone(),
            python_numbers: Settings::python_numbers(variables)?,
        })
    }

    /// Computes the key of an event.
    pub(super) fn key_of(&self, event: &Text) -> KeyResult {
        self.identify(event).unwrap_or_else(KeyResult::Error)
    }

    /// Returns the key of an event, or the text of an error.
    fn identify(&self, event: &Text) -> Result<KeyResult, String> {
        let selector = Selector::new(self.expression.clone(), self.validate.clone(), self.hash)
            .with_python_numbers(self.python_numbers);
        let event = Json::parse_text(event).map_err(|error| format!("`event`: {error}"))?;
        let failed =
            |setting: &str, error: &EvaluationError| format!("`{setting}`: {}", chain(error));
        let key = selector.key(&event);
        let Some(key) = key.map_err(|error| failed("expression", &error))? else {
            let why = "the event has no key: the selected value is missing, null or empty, or has only nulls";
            return Ok(KeyResult::NoKey(why.to_owned()));
        };
        let validation = selector.validation(&event);
        let validation = validation.map_err(|error| failed("validate", &error))?;
        let digest = key.digest();
        let tenant = self.tenant.as_deref();
        let id = match &self.prefix {
            None => digest,
            Some(prefix) => RecordId::of(prefix, tenant, &digest).to_string(),
        };
        Ok(KeyResult::Key {
            key: id,
            text: Some(key.text()),
            validation,
            missing: key.missing_parts().map(str::to_owned).collect(),
        })
    }
}

impl KeyResult {
    /// Returns the JSON form.
    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Key {
                key,
                text,
                validation,
                missing,
            } => {
                let validation = validation.as_ref();
                let object = json::object()
                    .text("key", key)
                    .with("text", text.as_ref().map(json::text))
                    .with("validation", validation.map_or(Json::Null, json::text));
                match missing.is_empty() {
                    true => object.into(),
                    false => object
                        .array("missing", missing.iter().map(json::text))
                        .into(),
                }
            }
            Self::NoKey(_) => json::object().bool("no_key", true).into(),
            Self::Error(message) => json::error(message),
        }
    }

    /// Returns the exit code of this result.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Key { .. } => Exit::Done,
            Self::NoKey(_) => Exit::NoKey,
            Self::Error(_) => Exit::Failed,
        }
    }
}

/// Checks a prefix as a function checks its `key_prefix`. An empty one counts as none.
pub(super) fn checked_prefix(prefix: &str) -> Result<Option<String>, ConfigurationError> {
    if prefix.is_empty() {
        return Ok(None);
    }
    let settings = Settings {
        key_prefix: Some(prefix.to_owned().into()),
        ..Settings::default()
    };
    settings.key_prefix(&Variables::default(), "").map(Some)
}

/// Compiles an expression. An empty one counts as none.
pub(super) fn compiled<'a>(
    setting: &str,
    text: impl Into<Option<&'a str>>,
) -> Result<Option<Expression>, ConfigurationError> {
    let text = text.into().filter(|text| !text.trim().is_empty());
    let compiled = text.map(Expression::compile).transpose();
    compiled.map_err(|error| ConfigurationError::new(format!("`{setting}`: {error}")))
}

#[cfg(test)]
mod tests {
    use idempotency_core::config::KeyRequired;
    use idempotency_core::operation::CompiledOperation;

    use super::*;

    fn key_settings(arguments: KeyArguments) -> KeySettings {
        KeySettings::new(&arguments, &Variables::default()).unwrap()
    }

    fn key(result: &KeyResult) -> &str {
        match result {
            KeyResult::Key { key, .. } => key,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_result_is_the_identity_that_a_function_computes() {
        let settings = Settings {
            key: Some("[user, body.order]".into()),
            key_required: Some(KeyRequired::Any),
            validate: Some("amount".into()),
            key_prefix: Some("shop".into()),
            hash: Some(HashAlgorithm::Sha256),
            ..Settings::default()
        };
        let operation = CompiledOperation::new("a::b", &settings, &Variables::default()).unwrap();
        let whole = r#"{"user": "u-1", "body": {"order": 42}, "amount": 1e400}"#;
        let partial = r#"{"user": "u-1", "body": {}, "amount": 1}"#;
        for (event, tenant, text, missing) in [
            (whole, None, r#"["u-1", 42]"#, vec![]),
            (whole, Some("a#b"), r#"["u-1", 42]"#, vec![]),
            (partial, None, r#"["u-1", null]"#, vec!["body.order"]),
        ] {
            let settings = key_settings(KeyArguments {
                expression: Some("[user, body.order]".to_owned()),
                validate: Some("amount".to_owned()),
                prefix: Some("shop".to_owned()),
                hash: Some(HashAlgorithm::Sha256),
                tenant: tenant.map(str::to_owned),
                ..KeyArguments::default()
            });
            let identity = operation.identify(event, tenant).unwrap();
            assert_eq!(identity.missing_parts().collect::<Vec<_>>(), missing);
            let expected = KeyResult::Key {
                key: identity.key().unwrap().to_string(),
                text: Some(text.to_owned()),
                validation: identity.validation().map(str::to_owned),
                missing: missing.into_iter().map(str::to_owned).collect(),
            };
            assert_eq!(settings.key_of(&event.into()), expected);
        }
    }

    #[test]
    fn without_a_prefix_only_the_digest_is_printed_and_an_operation_has_its_default_prefix() {
        let event = "{\"a\": 1}".into();
        let bare = key_settings(KeyArguments::default()).key_of(&event);
        assert_eq!(key(&bare), "42b7b4f2921788ea14dac5566e6f06d0");
        let variables =
            Variables::from_iter([("IDEMPOTENCY_KEY_PREFIX".to_owned(), "shop".to_owned())]);
        let bare = KeySettings::new(&KeyArguments::default(), &variables).unwrap();
        assert!(!key(&bare.key_of(&event)).contains('#'));
        let arguments = KeyArguments {
            operation: Some("orders::place".to_owned()),
            ..KeyArguments::default()
        };
        let result = KeySettings::new(&arguments, &variables)
            .unwrap()
            .key_of(&event);
        let expected = "shop.orders.place#42b7b4f2921788ea14dac5566e6f06d0";
        assert_eq!(key(&result), expected);
    }

    #[test]
    fn an_error_shows_its_place_in_the_expression() {
        let message = compiled("expression", "a.[b").unwrap_err().to_string();
        assert!(message.contains("\na.[b\n    ^ "), "{message}");
    }
}
