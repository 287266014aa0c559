//! `idempotency key` on one event.

use http::Request;
use idempotency_core::key::HashAlgorithm;
use idempotency_http::{HttpOperation, HttpOperationBuilder, ReceivedRequest, Settings};
use serde_json::{Value, json};

use crate::{Ran, command, finish};

const EVENT: &str = r#"{"body": {"user_id": "u-1", "order_id": 42, "amount": 100}}"#;

/// Runs `idempotency key` with the expression and the prefix of an operation.
fn key(options: &str, event: &str) -> Ran {
    let fixed = "key --expression 'body.[user_id, order_id]' --prefix payments.app.handler";
    finish(command(&format!("{fixed} {options}")), event)
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    key("no/such/file.json", "").fails(1, "`no/such/file.json` cannot be read");
}

#[test]
fn an_invalid_event_expression_or_hash_is_an_error() {
    key("", "{").fails(1, "invalid JSON");
    finish(command("key"), vec![0xff]).complains("not UTF-8 at byte 0");
    finish(command("key --expression a.[b --json"), "{}").exits(2);
    let mut of_variable = command("key");
    of_variable.env("IDEMPOTENCY_HASH", "md6");
    finish(of_variable, "").exits(2);
}

/// Returns the record id and the validation digest that the HTTP layer computes for the request of this event.
fn of_the_layer(
    rules: impl FnOnce(HttpOperationBuilder) -> HttpOperationBuilder,
    event: &Value,
) -> (String, String) {
    let operation = rules(HttpOperation::builder("shop::pay").key_prefix("shop.pay"));
    let operation = operation.build().unwrap();
    let text = |name: &str| event[name].as_str().unwrap();
    let uri = format!("{}?{}", text("rawPath"), text("rawQueryString"));
    let mut request = Request::post(uri.trim_end_matches('?'));
    for (name, value) in event["headers"].as_object().unwrap() {
        request = request.header(name, value.as_str().unwrap());
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let context = || Some(event["requestContext"].clone());
    let request =
        ReceivedRequest::new(&parts, text("body").as_bytes()).with_request_context(&context);
    let identity = operation.identity(&request, None).unwrap();
    let id = identity.key().unwrap().to_string();
    (id, identity.validation().unwrap().to_owned())
}

#[test]
fn a_request_has_the_key_that_the_http_layer_computes() {
    let example = include_str!("../../../examples/events/http.json");
    let example: Value = serde_json::from_str(example).unwrap();
    let key = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    type Rules = fn(HttpOperationBuilder) -> HttpOperationBuilder;
    let by_claim: Rules = |rules| rules.caller("requestContext.authorizer.jwt.claims.sub");
    let claim = "--caller requestContext.authorizer.jwt.claims.sub";
    let by_header: Rules = |rules| {
        let settings = Settings {
            hash: Some(HashAlgorithm::Sha256),
            key_prefix: Some("shop.pay".into()),
            ..Settings::new()
        };
        rules.settings(settings).caller_header("authorization")
    };
    let by_value: Rules = |rules| rules.caller_from(|_| Some("u-1".to_owned()));
    let by_path: Rules = |rules| {
        let by_value = rules.caller_from(|_| Some("u-1".to_owned()));
        by_value.key_per_path(true)
    };
    let shared: Rules = |rules| {
        rules
            .shared_by_all_callers()
            .key("powertools_json(body).payment_id")
            .fingerprint("powertools_json(body).amount")
    };
    let of_body = "--shared-by-all-callers --expression powertools_json(body).payment_id --validate powertools_json(body).amount";
    for (value, query, options, rules) in [
        // The form of the draft, and the form without quotes: one key.
        (&*format!("\"{key}\""), "", claim, by_claim),
        (key, "b=2&a=1", claim, by_claim),
        (
            key,
            "",
            "--caller-header authorization --hash sha256",
            by_header,
        ),
        (key, "", "--caller-value u-1", by_value),
        (key, "", "--caller-value u-1 --key-per-path", by_path),
        (key, "", of_body, shared),
    ] {
        let mut event = example.clone();
        event["headers"]["idempotency-key"] = value.into();
        event["rawQueryString"] = query.into();
        let (id, validation) = of_the_layer(rules, &event);
        let command = command(&format!("key --http --prefix shop.pay {options}"));
        let ran = finish(command, event.to_string());
        assert_eq!(ran.stdout, format!("{id}\n"), "{ran:?}");
        assert_eq!(ran.stderr, format!("validation  {validation}\n"));
    }
}

#[test]
fn an_event_that_cannot_have_the_key_of_a_request_is_refused_by_name() {
    let lattice = "events of VPC Lattice are not supported";
    let context =
        json!({"serviceNetworkArn": "arn:aws:vpc-lattice:eu-central-1:1:servicenetwork/sn-1"});
    let headers = json!({"idempotency-key": "abc"});
    for (event, options, text) in [
        (
            json!({"version": "2.0", "path": "/pay", "method": "POST", "headers": {"idempotency-key": ["abc"]}, "requestContext": context}),
            "",
            lattice,
        ),
        (
            json!({"raw_path": "/pay", "method": "POST", "headers": headers}),
            "",
            lattice,
        ),
        (
            json!({"headers": headers, "requestContext": {}}),
            "--key-per-path",
            "--key-per-path needs the path",
        ),
        (
            json!({"headers": headers, "path": "/pay", "httpMethod": "POST"}),
            "--key-per-path",
            "--key-per-path needs the path",
        ),
    ] {
        let line = format!("key --http --shared-by-all-callers {options}");
        let ran = finish(command(&line), event.to_string());
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains(text),
            "{ran:?}"
        );
    }
}

#[test]
fn the_key_of_a_request_that_is_not_protected_by_default_has_a_hint() {
    for (method, hints) in [
        ("POST", false),
        ("PATCH", false),
        ("GET", true),
        ("PUT", true),
    ] {
        let headers = json!({"idempotency-key": "abc"});
        for event in [
            json!({"headers": headers, "path": "/pay", "httpMethod": method}),
            json!({"headers": headers, "rawPath": "/pay", "requestContext": {"http": {"method": method}}}),
        ] {
            let command = command("key --http --shared-by-all-callers");
            let ran = finish(command, event.to_string()).exits(0);
            let text = format!("{method} is protected only where `methods` lists it");
            assert_eq!(ran.stderr.contains(&text), hints, "{ran:?}");
        }
    }
}

#[test]
fn the_key_of_a_request_needs_only_the_parts_of_the_event_that_the_layer_reads() {
    let key = |more: &str, event: Value| {
        let caller = "--caller requestContext.authorizer.claims.sub";
        let line = format!("key --http {caller} {more}");
        finish(command(&line), event.to_string())
    };
    let context = json!({"authorizer": {"claims": {"sub": "u-1"}}});
    let written = json!({"headers": {"Idempotency-Key": "\"abc\""}, "requestContext": context});
    let ran = key("", written);
    assert_eq!(ran.stdout.len(), 33, "{ran:?}");
    // Method, path and query of such an event are not known as they were sent.
    assert_eq!(ran.stderr, "");
    let of_rest_api = json!({
        "httpMethod": "POST", "path": "/pay", "headers": {"idempotency-key": "abc"},
        "multiValueHeaders": {"idempotency-key": ["abc"]}, "requestContext": context, "body": null,
    });
    assert_eq!(key("", of_rest_api).stdout, ran.stdout);
    let elsewhere = json!({"headers": {"x-key": "abc"}, "requestContext": context});
    assert_eq!(key("--key-header x-key", elsewhere).stdout, ran.stdout);
    let without_key = json!({"headers": {}, "requestContext": context});
    let without_caller = json!({"headers": {"idempotency-key": "abc"}});
    for (event, why) in [
        (without_key, "no idempotency key"),
        (without_caller, "the caller is not known"),
    ] {
        assert_eq!(key("", event).fails(5, why).stdout, "");
    }
    let repeated =
        json!({"multiValueHeaders": {"Idempotency-Key": ["a", "b"]}, "requestContext": context});
    key("", repeated).fails(1, "more than once");
}

#[test]
fn an_operation_without_a_known_application_is_refused() {
    for line in [
        "key --operation shop::charge",
        "key --http --shared-by-all-callers --operation shop::charge",
    ] {
        finish(command(line), EVENT).fails(2, "set IDEMPOTENCY_KEY_PREFIX as the function has it");
    }
    let mut known = command("key --operation shop::charge");
    known.env("AWS_LAMBDA_FUNCTION_NAME", "app");
    finish(known, EVENT).exits(0).prints("app.shop.charge#");
}
