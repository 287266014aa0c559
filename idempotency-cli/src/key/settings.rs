//! The settings with which the key of an event is made, and the result.

use idempotency_core::config::{ConfigurationError, KeyRequired, Settings, Variables};
use idempotency_core::key::{EvaluationError, Expression, HashAlgorithm, Json, Selector, Text};
use idempotency_core::record::RecordId;
use serde_json::Value;

use crate::arguments::{KeyArguments, checked_prefix};
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
    /// True if the function takes a key without some of its parts.
    pub(super) partial: bool,
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
        /// The texts in the key that a type can write in another way. The key of a function with this type is then another one.
        hints: Vec<String>,
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
            (None, Some(path)) => {
                known_application(variables)?;
                Some(settings.key_prefix(variables, path)?)
            }
            (None, None) => None,
        };
        Ok(Self {
            expression: compiled("expression", arguments.expression.as_deref())?,
            prefix,
            validate: compiled("validate", arguments.validate.as_deref())?,
            hash: settings.hash(variables)?,
            tenant: arguments.tenant.clone(),
            python_numbers: Settings::python_numbers(variables)?,
            partial: settings.key_required(variables)? != KeyRequired::All,
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
        let text = key.text();
        Ok(KeyResult::Key {
            key: id,
            hints: hints(&text),
            text: Some(text),
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
                hints,
            } => {
                let validation = validation.as_ref();
                let of = |texts: &[String]| {
                    let texts = texts.iter().map(json::text).collect();
                    (!Vec::is_empty(&texts)).then_some(Json::Array(texts))
                };
                let object = json::object()
                    .text("key", key)
                    .with("text", text.as_ref().map(json::text))
                    .with("validation", validation.map_or(Json::Null, json::text))
                    .with("missing", of(missing))
                    .with("hints", of(hints));
                object.into()
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

/// Refuses a default prefix whose first part is not known: under the prefix of another program every record would appear to be missing.
pub(super) fn known_application(variables: &Variables) -> Result<(), ConfigurationError> {
    let known = ["IDEMPOTENCY_KEY_PREFIX", "AWS_LAMBDA_FUNCTION_NAME"];
    if known.iter().any(|name| variables.value(name).is_some()) {
        return Ok(());
    }
    Err(ConfigurationError::new(
        "the prefix of `--operation` begins with a name that is not set: set IDEMPOTENCY_KEY_PREFIX as the function has it, or \
         AWS_LAMBDA_FUNCTION_NAME to the function's name; for a function that has neither, write `--prefix local.shop.charge`",
    ))
}

/// Returns a hint for each text of a key that a type can write in another way: the command reads the event as it is, and a function
/// whose payload has such a type takes the key from what the type writes.
fn hints(text: &str) -> Vec<String> {
    fn visit(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.extend(hint(text)),
            Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
            Value::Object(members) => members.values().for_each(|item| visit(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str(text) {
        visit(&value, &mut found);
    }
    found
}

/// Returns the hint for a UUID that is not in its usual form, and for a time that is not in UTC with `Z` and whole seconds.
fn hint(text: &str) -> Option<String> {
    let digits = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let digits: String = digits
        .chars()
        .filter(|each| !"{}-".contains(*each))
        .collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hyphens = |at: usize| text.as_bytes().get(at) == Some(&b'-');
    let is_usual = text.len() == 36
        && [8, 13, 18, 23].into_iter().all(hyphens)
        && !text.contains(|each: char| each.is_ascii_uppercase());
    let bytes = text.as_bytes();
    let is_time = bytes.len() >= 16
        && bytes.is_ascii()
        && [4, 7].into_iter().all(|at| bytes[at] == b'-')
        && bytes[13] == b':'
        && [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15]
            .into_iter()
            .all(|at| bytes[at].is_ascii_digit());
    let is_utc = bytes.len() == 20 && bytes.get(10) == Some(&b'T') && text.ends_with('Z');
    let what = match (is_uuid && !is_usual, is_time && !is_utc) {
        (true, _) => "a UUID that the type `Uuid` writes in lower case with hyphens",
        (_, true) => "a time that a type can write in another form",
        _ => return None,
    };
    Some(format!(
        "`{text}` is {what}: if the function's payload has such a type, write it in the event as the type does"
    ))
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
                hints: Vec::new(),
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
    fn a_text_that_a_type_writes_in_another_way_has_a_hint() {
        for text in [
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
            "2026-11-26T20:58:29Z",
            "2026-11-26",
            "42b7b4f2921788ea14dac5566e6f06d",
            "order-7",
            "",
        ] {
            assert_eq!(hint(text), None, "{text}");
        }
        for text in [
            "67E55044-10B1-426F-9247-BB680E5FE0C8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert!(hint(text).unwrap().contains("is a UUID"), "{text}");
        }
        for text in [
            "2026-11-26T20:58:29+01:00",
            "2026-11-26T20:58:29.500Z",
            "2026-11-26 20:58:29Z",
            "2026-11-26T20:58Z",
            "2026-11-26T20:58:29+00:00",
        ] {
            assert!(hint(text).unwrap().contains("is a time"), "{text}");
        }
        assert_eq!(hints("[\"u-1\", {\"a\": \"2026-11-26T20:58Z\"}]").len(), 1);
    }

    #[test]
    fn an_error_shows_its_place_in_the_expression() {
        let message = compiled("expression", "a.[b").unwrap_err().to_string();
        assert!(message.contains("\na.[b\n    ^ "), "{message}");
    }
}
