//! What is asked of an event, and the answer.

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::key::{EvaluationError, Expression, HashAlgorithm, Json, Selector, Text};
use idempotency_core::record::RecordId;

use crate::arguments::KeyArguments;
use crate::connection::chain;
use crate::exit::Exit;
use crate::json;

/// How an operation makes keys.
#[derive(Clone, Debug)]
pub(super) struct Query {
    /// Empty: the whole payload.
    pub(super) expression: String,
    /// `None`: the digest alone.
    pub(super) prefix: Option<String>,
    /// Empty: off.
    pub(super) validate: String,
    pub(super) hash: HashAlgorithm,
    pub(super) tenant: Option<String>,
}

/// What a query makes of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Key {
        key: String,
        text: String,
        validation: Option<String>,
        /// The parts of the key that the event does not have, as they stand in the expression.
        missing: Vec<String>,
    },
    NoKey,
    Error(String),
}

impl Query {
    /// The query that the options describe, and the variables where they say nothing.
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
            expression: arguments.expression.clone(),
            prefix,
            validate: arguments.validate.clone(),
            hash: settings.hash(variables)?,
            tenant: arguments.tenant.clone(),
        })
    }

    pub(super) fn answer(&self, event: &Text) -> Answer {
        self.identify(event).unwrap_or_else(Answer::Error)
    }

    fn identify(&self, event: &Text) -> Result<Answer, String> {
        let selector = Selector::new(
            compile("expression", &self.expression)?,
            compile("validate", &self.validate)?,
            self.hash,
        );
        let event = Json::parse_text(event).map_err(|error| format!("`event`: {error}"))?;
        let failed =
            |setting: &str, error: &EvaluationError| format!("`{setting}`: {}", chain(error));
        let key = selector
            .key(&event)
            .map_err(|error| failed("expression", &error))?;
        let Some(key) = key else {
            return Ok(Answer::NoKey);
        };
        let validation = selector
            .validation(&event)
            .map_err(|error| failed("validate", &error))?;
        let digest = key.digest();
        let tenant = self.tenant.as_deref();
        let id = match &self.prefix {
            None => digest,
            Some(prefix) => RecordId::of(prefix, tenant, &digest).to_string(),
        };
        Ok(Answer::Key {
            key: id,
            text: key.text(),
            validation,
            missing: key.missing_parts().map(str::to_owned).collect(),
        })
    }
}

impl Answer {
    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Key {
                key,
                text,
                validation,
                missing,
            } => json::object([
                ("key", Some(json::text(key))),
                ("text", Some(json::text(text))),
                (
                    "validation",
                    Some(validation.as_ref().map_or(Json::Null, json::text)),
                ),
                (
                    "missing",
                    (!missing.is_empty())
                        .then(|| Json::Array(missing.iter().map(json::text).collect())),
                ),
            ]),
            Self::NoKey => json::object([("no_key", Some(Json::Bool(true)))]),
            Self::Error(message) => json::error(message),
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Key { .. } => Exit::Done,
            Self::NoKey => Exit::NoKey,
            Self::Error(_) => Exit::Failed,
        }
    }
}

/// A prefix that a function could have; the empty one is none.
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

fn compile(setting: &str, text: &str) -> Result<Option<Expression>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    Expression::compile(text)
        .map(Some)
        .map_err(|error| format!("`{setting}`: {error}"))
}

#[cfg(test)]
mod tests {
    use idempotency_core::operation::CompiledOperation;

    use super::*;

    fn query(arguments: KeyArguments) -> Query {
        Query::new(&arguments, &Variables::default()).unwrap()
    }

    fn key(answer: &Answer) -> &str {
        match answer {
            Answer::Key { key, .. } => key,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_answer_is_the_identity_that_a_function_computes() {
        let settings = Settings {
            key: Some("[user, order]".into()),
            validate: Some("amount".into()),
            key_prefix: Some("shop".into()),
            hash: Some(HashAlgorithm::Sha256),
            ..Settings::default()
        };
        let operation = CompiledOperation::new("a::b", &settings, &Variables::default()).unwrap();
        let event = r#"{"user": "u-1", "order": 42, "amount": 1e400}"#;
        for tenant in [None, Some("a#b")] {
            let query = query(KeyArguments {
                expression: "[user, order]".to_owned(),
                validate: "amount".to_owned(),
                prefix: Some("shop".to_owned()),
                hash: Some(HashAlgorithm::Sha256),
                tenant: tenant.map(str::to_owned),
                ..KeyArguments::default()
            });
            let identity = operation.identify(event, tenant).unwrap();
            let expected = Answer::Key {
                key: identity.key().unwrap().to_string(),
                text: r#"["u-1", 42]"#.to_owned(),
                validation: identity.validation().map(str::to_owned),
                missing: Vec::new(),
            };
            assert_eq!(query.answer(&event.into()), expected);
        }
    }

    #[test]
    fn missing_parts_are_those_that_a_function_would_name() {
        let settings = Settings {
            key: Some("[user, body.order]".into()),
            ..Settings::default()
        };
        let operation = CompiledOperation::new("a::b", &settings, &Variables::default()).unwrap();
        let event = r#"{"user": "u-1", "body": {}}"#;
        let query = query(KeyArguments {
            expression: "[user, body.order]".to_owned(),
            ..KeyArguments::default()
        });
        let Answer::Key { missing, .. } = query.answer(&event.into()) else {
            panic!("a partial key is a key");
        };
        let identity = operation.identify(event, None).unwrap();
        assert_eq!(missing, identity.missing_parts().collect::<Vec<_>>());
        assert_eq!(missing, ["body.order"]);
    }

    #[test]
    fn without_a_prefix_the_digest_stands_alone_and_an_operation_has_its_default_prefix() {
        let event = "{\"a\": 1}".into();
        let bare = query(KeyArguments::default()).answer(&event);
        assert_eq!(key(&bare), "42b7b4f2921788ea14dac5566e6f06d0");
        let variables =
            Variables::from_iter([("IDEMPOTENCY_KEY_PREFIX".to_owned(), "shop".to_owned())]);
        let bare = Query::new(&KeyArguments::default(), &variables).unwrap();
        assert!(!key(&bare.answer(&event)).contains('#'));
        let arguments = KeyArguments {
            operation: Some("orders::place".to_owned()),
            ..KeyArguments::default()
        };
        let query = Query::new(&arguments, &variables).unwrap();
        assert_eq!(
            key(&query.answer(&event)),
            "shop.orders.place#42b7b4f2921788ea14dac5566e6f06d0"
        );
    }

    #[test]
    fn a_prefix_that_no_function_could_have_is_refused() {
        assert!(checked_prefix("a#tenant=b").is_err());
        assert!(checked_prefix(&"p".repeat(513)).is_err());
    }

    #[test]
    fn an_error_points_at_its_place_in_the_expression() {
        let query = query(KeyArguments {
            expression: "a.[b".to_owned(),
            ..KeyArguments::default()
        });
        let Answer::Error(message) = query.answer(&"{}".into()) else {
            panic!("it is no expression");
        };
        assert!(message.contains("\na.[b\n    ^ "), "{message}");
    }
}
