//! `idempotency key` on one event.

use http::Request;
use idempotency_core::key::HashAlgorithm;
use idempotency_http::{HttpOperation, HttpOperationBuilder, ReceivedRequest, Settings};
use serde_json::{Value, json};

use crate::{Ran, command, run, run_on};

const EVENT: &str = r#"{"body": {"user_id": "u-1", "order_id": 42, "amount": 100}}"#;

fn key(options: &[&str], event: &str) -> Ran {
    let expression = "body.[user_id, order_id]";
    let fixed = [
        "key",
        "--expression",
        expression,
        "--prefix",
        "payments.app.handler",
    ];
    run_on(
        command(&[&fixed, options].concat()),
        event.as_bytes().to_vec(),
    )
}

#[test]
fn only_the_key_is_printed_so_that_another_command_can_use_it() {
    let ran = key(&[], EVENT);
    ran.exits(0);
    assert_eq!(
        ran.stdout,
        "payments.app.handler#e31b8b84a9be62e9ae878d3fb2b80004\n"
    );
}

#[test]
fn the_text_and_the_validation_digest_are_printed_on_request() {
    let ran = key(&["--explain", "--validate", "body.amount", "-"], EVENT);
    // What follows the key goes to standard error, so that another command can use the output.
    assert_eq!(
        ran.stdout,
        "payments.app.handler#e31b8b84a9be62e9ae878d3fb2b80004\n"
    );
    assert_eq!(
        ran.stderr,
        "validation  f899139df5e1059396431415e770c6dd\n\
         text        [\"u-1\", 42]\n"
    );
    let ran = key(&["--json", "--tenant", "blue"], EVENT);
    let expected = json!({
        "key": "payments.app.handler#tenant=blue#e31b8b84a9be62e9ae878d3fb2b80004",
        "text": "[\"u-1\", 42]",
        "validation": null,
    });
    assert_eq!(ran.json(), expected);
}

#[test]
fn the_event_can_be_a_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/event.json");
    let ran = key(&[file], "");
    assert!(
        ran.stdout.ends_with("#e31b8b84a9be62e9ae878d3fb2b80004\n"),
        "{ran:?}"
    );
    key(&["no/such/file.json"], "").fails(1, "`no/such/file.json` cannot be read");
}

#[test]
fn an_event_without_a_key_has_its_own_exit_code() {
    let ran = key(&[], r#"{"body": {}}"#);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""));
    assert!(ran.stderr.contains("the event has no key"));
    let ran = key(&["--json"], r#"{"body": {}}"#);
    assert_eq!((ran.code, ran.json()), (Some(5), json!({ "no_key": true })));
}

#[test]
fn an_input_that_is_not_an_event_is_an_error() {
    let ran = key(&[], "{");
    ran.exits(1);
    ran.complains("invalid JSON");
    let ran = run_on(command(&["key"]), vec![0xff]);
    ran.complains("not UTF-8 at byte 0");
}

#[test]
fn a_wrong_expression_is_wrong_usage() {
    for wrong in [
        &["key", "--expression", "a.[b"][..],
        &["key", "--validate", "a.[b"],
        &["key", "--expression", "a.[b", "--json"],
        &["key", "--expression", "a.[b", "--jsonl"],
        &["key", "--http", "--caller", "a.[b"],
    ] {
        let ran = run_on(command(wrong), b"{}".to_vec());
        assert_eq!(ran.code, Some(2), "{wrong:?}: {ran:?}");
    }
}

/// Returns the id and the validation digest that the HTTP layer computes for the request of this event.
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
    let sub = "requestContext.authorizer.jwt.claims.sub";
    for (value, query, options, rules) in [
        // The form of the draft, and the form without quotes: one key.
        (
            format!("\"{key}\""),
            "",
            vec!["--caller", sub],
            (|rules| rules.caller("requestContext.authorizer.jwt.claims.sub"))
                as fn(HttpOperationBuilder) -> HttpOperationBuilder,
        ),
        (key.to_owned(), "b=2&a=1", vec!["--caller", sub], |rules| {
            rules.caller("requestContext.authorizer.jwt.claims.sub")
        }),
        (
            key.to_owned(),
            "",
            vec!["--caller-header", "host", "--hash", "sha256"],
            |rules| {
                rules
                    .settings(Settings {
                        hash: Some(HashAlgorithm::Sha256),
                        key_prefix: Some("shop.pay".into()),
                        ..Settings::new()
                    })
                    .caller_header("host")
            },
        ),
        (key.to_owned(), "", vec!["--caller-value", "u-1"], |rules| {
            rules.caller_from(|_| Some("u-1".to_owned()))
        }),
        (
            key.to_owned(),
            "",
            vec![
                "--shared-by-all-callers",
                "--expression",
                "powertools_json(body).payment_id",
                "--validate",
                "powertools_json(body).amount",
            ],
            |rules| {
                rules
                    .shared_by_all_callers()
                    .key("powertools_json(body).payment_id")
                    .fingerprint("powertools_json(body).amount")
            },
        ),
    ] {
        let mut event = example.clone();
        event["headers"]["idempotency-key"] = value.into();
        event["rawQueryString"] = query.into();
        let (id, validation) = of_the_layer(rules, &event);
        let options = [&["key", "--http", "--prefix", "shop.pay"], &options[..]].concat();
        let ran = run_on(command(&options), event.to_string().into_bytes());
        assert_eq!(ran.stdout, format!("{id}\n"), "{ran:?}");
        assert_eq!(ran.stderr, format!("validation  {validation}\n"));
    }
}

#[test]
fn the_key_of_a_request_needs_no_more_of_the_event_than_the_layer_looks_at() {
    let caller = ["--caller", "requestContext.authorizer.claims.sub"];
    let key = |more: &[&str], event: Value| {
        let options = [&["key", "--http"], &caller[..], more].concat();
        run_on(command(&options), event.to_string().into_bytes())
    };
    let context = json!({"authorizer": {"claims": {"sub": "u-1"}}});
    let written = json!({"headers": {"Idempotency-Key": "\"abc\""}, "requestContext": context});
    let ran = key(&[], written);
    assert_eq!(ran.stdout.len(), 33, "{ran:?}");
    // Method, path and query of such an event are not known as they were sent.
    assert_eq!(ran.stderr, "");
    let of_rest_api = json!({
        "httpMethod": "POST", "path": "/pay", "headers": {"idempotency-key": "abc"},
        "multiValueHeaders": {"idempotency-key": ["abc"]}, "requestContext": context, "body": null,
    });
    assert_eq!(key(&[], of_rest_api).stdout, ran.stdout);
    let elsewhere = json!({"headers": {"x-key": "abc"}, "requestContext": context});
    assert_eq!(
        key(&["--key-header", "x-key"], elsewhere).stdout,
        ran.stdout
    );
    for (event, why) in [
        (
            json!({"headers": {}, "requestContext": context}),
            "no idempotency key",
        ),
        (
            json!({"headers": {"idempotency-key": "abc"}}),
            "the caller is not known",
        ),
    ] {
        let ran = key(&[], event);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""));
        ran.complains(why);
    }
    let repeated =
        json!({"multiValueHeaders": {"Idempotency-Key": ["a", "b"]}, "requestContext": context});
    key(&[], repeated).fails(1, "more than once");
}

#[test]
fn a_variable_that_cannot_be_understood_is_wrong_usage() {
    let mut command = command(&["key"]);
    command.env("IDEMPOTENCY_HASH", "md6");
    assert_eq!(run(command).code, Some(2));
}
