//! The identity of a call, its errors, and what a developer must know of it.

use super::*;
use crate::config::{Settings, Variables};
use crate::protocol::policy::Steps;

fn compiled(settings: Settings) -> CompiledOperation {
    compiled_with(settings, &Variables::default())
}

fn compiled_with(settings: Settings, variables: &Variables) -> CompiledOperation {
    let settings = Settings {
        key_prefix: Some("shop".into()),
        ..settings
    };
    CompiledOperation::new("shop::place", &settings, variables).unwrap()
}

fn keyed(key: &'static str) -> Settings {
    Settings {
        key: Some(key.into()),
        ..Settings::default()
    }
}

fn requiring(key: &'static str, required: Option<KeyRequired>) -> CompiledOperation {
    compiled(Settings {
        key_required: required,
        ..keyed(key)
    })
}

/// Returns the kind and the detail of the error on a payload.
fn refused(operation: &CompiledOperation, payload: &str) -> (ErrorKind, String) {
    let error = operation.identify(payload, None).unwrap_err();
    assert!(!error.handler_ran());
    (error.kind(), error.detail().unwrap_or_default().to_owned())
}

#[test]
fn a_protected_call_has_a_key_and_no_reason_to_run_unprotected() {
    let identity = compiled(Settings::default()).identify(r#"{"a": 1}"#, Some("blue"));
    let identity = identity.unwrap();
    let key = "shop#tenant=blue#42b7b4f2921788ea14dac5566e6f06d0";
    assert_eq!(identity.key().unwrap().as_str(), key);
    assert_eq!((identity.bypass(), identity.validation()), (None, None));
    assert_eq!(identity.missing_parts().count(), 0);
}

#[test]
fn a_validated_part_has_its_own_digest() {
    let operation = compiled(Settings {
        validate: Some("amount".into()),
        ..keyed("id")
    });
    let identity = operation
        .identify(r#"{"id": 1, "amount": {"a": 1}}"#, None)
        .unwrap();
    assert_eq!(
        identity.validation(),
        Some("42b7b4f2921788ea14dac5566e6f06d0")
    );
    let other = operation
        .identify(r#"{"id": 1, "amount": 2}"#, None)
        .unwrap();
    assert_eq!(identity.key(), other.key());
    assert_ne!(identity.validation(), other.validation());
}

#[test]
fn with_steps_the_whole_payload_is_validated_unless_a_part_is() {
    let payload = r#"{"id": 1, "amount": 2}"#;
    let digest = |steps, key: Option<&'static str>, validate: Option<&'static str>| {
        let operation = compiled(Settings {
            steps: Some(steps),
            key: key.map(Into::into),
            validate: validate.map(Into::into),
            ..Settings::default()
        });
        let identity = operation.identify(payload, None).unwrap();
        let of_value: serde_json::Value = serde_json::from_str(payload).unwrap();
        let of_value = operation.identify_value(&of_value, None).unwrap();
        assert_eq!(identity, of_value);
        identity.validation().map(str::to_owned)
    };
    let key = Some("id");
    let whole = digest(Steps::Off, key, Some("@"));
    for steps in [Steps::Keep, Steps::Forget] {
        assert_eq!(digest(steps, key, None), whole);
        assert_ne!(digest(steps, key, Some("amount")), whole);
        assert_eq!(digest(steps, None, None), None, "the payload is the key");
    }
    assert_eq!(digest(Steps::Off, key, None), None);
}

#[test]
fn a_payload_without_a_key_is_refused_unless_no_key_is_required() {
    let operation = requiring("order_id", Some(KeyRequired::No));
    let identity = operation.identify("{}", None).unwrap();
    assert_eq!(identity.bypass(), Some(Bypass::NoKey));
    assert_eq!((identity.key(), identity.validation()), (None, None));
    assert_eq!(
        operation.warning(&identity).unwrap(),
        "the payload has no idempotency key: the handler runs unprotected; the key expression `order_id` finds nothing in it \
         (`key_required = true` refuses such a payload)"
    );
    let protected = operation.identify(r#"{"order_id": 7}"#, None).unwrap();
    assert_eq!(operation.warning(&protected), None);
    for required in [None, Some(KeyRequired::Any), Some(KeyRequired::All)] {
        let operation = requiring("order_id", required);
        let detail = "the key expression `order_id` finds nothing in it".to_owned();
        assert_eq!(refused(&operation, "{}"), (ErrorKind::KeyMissing, detail));
    }
    let whole = compiled(Settings::default());
    let detail = "the whole payload is the key, and it is empty".to_owned();
    assert_eq!(refused(&whole, "{}"), (ErrorKind::KeyMissing, detail));
}

#[test]
fn a_missing_part_of_the_key_is_refused_unless_only_some_part_is_required() {
    let key = "[user_id, order_id, item]";
    let operation = requiring(key, Some(KeyRequired::Any));
    let one = operation
        .identify(r#"{"user_id": 1, "item": 2}"#, None)
        .unwrap();
    assert_eq!(one.missing_parts().collect::<Vec<_>>(), ["order_id"]);
    let warning = operation.warning(&one).unwrap();
    let lacks = "`order_id` of the key `[user_id, order_id, item]` is missing, null or empty";
    assert!(
        warning.starts_with("a part of the idempotency key is missing: ")
            && warning.contains(lacks),
        "{warning}"
    );
    let two = operation.identify(r#"{"user_id": 1}"#, None).unwrap();
    let warning = operation.warning(&two).unwrap();
    assert!(
        warning.contains("`order_id`, `item` of the key `[user_id, order_id, item]` are missing"),
        "{warning}"
    );
    let optional = requiring(key, Some(KeyRequired::No));
    assert!(optional.identify(r#"{"user_id": 1}"#, None).is_ok());
    let all = requiring(key, None);
    let (kind, detail) = refused(&all, r#"{"user_id": 1, "item": 2}"#);
    assert_eq!(kind, ErrorKind::KeyMissing);
    assert!(
        detail.starts_with(lacks) && detail.contains("`order_id || 'none'`"),
        "{detail}"
    );
    assert!(
        all.identify(r#"{"user_id": 1, "order_id": 2, "item": 3}"#, None)
            .is_ok()
    );
}

#[test]
fn an_expression_that_fails_is_named_with_its_setting_and_reason() {
    let key = compiled(keyed("keys(@)"));
    let detail = "`key`: `keys` takes an object, not an array".to_owned();
    assert_eq!(refused(&key, "[1]"), (ErrorKind::ExpressionFailed, detail));
    let validate = compiled(Settings {
        validate: Some("keys(@)".into()),
        ..Settings::default()
    });
    let detail = "`validate`: `keys` takes an object, not an array".to_owned();
    assert_eq!(
        refused(&validate, "[1]"),
        (ErrorKind::ExpressionFailed, detail)
    );
    assert_eq!(refused(&key, "{").0, ErrorKind::InvalidPayload);
    assert!(refused(&key, "{").1.starts_with("invalid JSON: "));
}

#[test]
fn a_body_in_base64_is_suspected_only_if_the_event_says_so_and_the_text_does_not() {
    let operation = compiled(keyed("powertools_json(body)"));
    let hint = "the event has `isBase64Encoded: true`";
    for (payload, hinted) in [
        (r#"{"isBase64Encoded": true, "body": "YWJj"}"#, true),
        (r#"{"isBase64Encoded": false, "body": "YWJj"}"#, false),
        (r#"{"body": "YWJj"}"#, false),
        // The error's own text has the advice already.
        (
            r#"{"isBase64Encoded": true, "body": "eyJhIjogMX0="}"#,
            false,
        ),
        (r#"{"isBase64Encoded": true, "body": 1}"#, false),
    ] {
        let (kind, detail) = refused(&operation, payload);
        assert_eq!(kind, ErrorKind::ExpressionFailed);
        assert_eq!(detail.contains(hint), hinted, "{detail}");
    }
}

#[test]
fn a_payload_beyond_the_limit_of_memory_is_refused_with_the_limit() {
    let mut operation = compiled(keyed("[@, @, @, @, @, @, @, @]"));
    operation.memory_limit = 3 * 1024 * 1024;
    let numbers = |count: usize| format!("[{}0]", "0,".repeat(count));
    let limit = " more than 3 MiB of memory, the limit in a function of this size";
    let (kind, detail) = refused(&operation, &numbers(200_000));
    assert_eq!(kind, ErrorKind::InvalidPayload);
    assert!(
        detail.starts_with("the payload's values take") && detail.contains(limit),
        "{detail}"
    );
    let (kind, detail) = refused(&operation, &numbers(20_000));
    assert_eq!(kind, ErrorKind::ExpressionFailed);
    let what = "`key`: the payload and what the expression makes of it take";
    assert!(
        detail.starts_with(what) && detail.contains(limit),
        "{detail}"
    );
    let text = "x".repeat(3 * 1024 * 1024);
    let error = operation.identify_value(&text, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPayload);
    assert!(
        error
            .detail()
            .unwrap()
            .starts_with("the payload's text takes more than 3 MiB")
    );
}

#[test]
fn the_memory_of_the_key_is_given_back_before_the_validated_part() {
    let mut operation = compiled(Settings {
        validate: Some("[@, @]".into()),
        ..keyed("[@, @]")
    });
    operation.memory_limit = 2 * 1024 * 1024;
    let payload = format!("[{}0]", "0,".repeat(16_000));
    assert!(operation.identify(&payload, None).is_ok());
}

#[test]
fn a_value_has_the_identity_of_its_json() {
    let operation = compiled(Settings::default());
    let identity = operation.identify_value(&("u-1", 42), Some("blue"));
    assert_eq!(
        identity.unwrap(),
        operation.identify(r#"["u-1", 42]"#, Some("blue")).unwrap()
    );
    let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
    let error = operation.identify_value(&unwritable, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPayload);
    assert!(
        error
            .detail()
            .unwrap()
            .contains("cannot be written as JSON")
    );
}

#[test]
fn nothing_is_read_if_protection_is_switched_off() {
    let variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "1".to_owned())]);
    let operation = compiled_with(Settings::default(), &variables);
    for identity in [
        operation.identify("{", None),
        operation.identify_value(&1, None),
    ] {
        let identity = identity.unwrap();
        assert_eq!(identity.bypass(), Some(Bypass::Disabled));
        assert_eq!(operation.warning(&identity), None);
    }
}

#[test]
fn a_key_with_the_arn_of_a_session_is_advised_against() {
    let advice = |key: &'static str| compiled(keyed(key)).advice();
    let arn = advice("[requestContext.identity.userArn, powertools_json(body).id]");
    assert!(
        arn[0].starts_with("shop: `key`: `identity.userArn` is not one client"),
        "{arn:?}"
    );
    assert!(advice("[iam_caller(@), powertools_json(body).id]").is_empty());
}

#[test]
fn a_header_looked_up_by_its_exact_name_is_advised_against() {
    let operation = compiled(Settings {
        validate: Some(r#"headers."X-Amount""#.into()),
        ..keyed(r#"headers."idempotency-key""#)
    });
    let advice = |setting: &str, name: &str| {
        format!(
            "shop: `{setting}` looks up the header `{name}` by its exact name, which an event may spell in another case: \
             write `header(@, '{name}')`"
        )
    };
    assert_eq!(
        operation.advice(),
        [
            advice("key", "idempotency-key"),
            advice("validate", "X-Amount")
        ]
    );
    let other = compiled(keyed("header(@, 'idempotency-key')"));
    assert!(other.advice().is_empty());
}

#[test]
fn a_value_without_a_key_has_the_error_of_its_text() {
    let required = compiled(keyed("id"));
    let kind = |payload: &serde_json::Value| {
        required
            .identify_value(payload, None)
            .map_err(|error| error.kind())
    };
    let mut deep = serde_json::json!(1);
    for _ in 0..129 {
        deep = serde_json::json!([deep]);
    }
    assert_eq!(kind(&serde_json::json!({})), Err(ErrorKind::KeyMissing));
    assert_eq!(
        kind(&serde_json::json!({ "other": deep })),
        Err(ErrorKind::InvalidPayload)
    );
    assert_eq!(kind(&deep), Err(ErrorKind::InvalidPayload));
    assert!(kind(&serde_json::json!({ "id": 7, "other": deep })).is_ok());
}
