//! The behaviour of whole expressions.

mod costs;
mod functions;

use super::*;

/// Returns the canonical text of a value, or `error: ` and its text.
fn evaluate(expression: &str, payload: &str) -> String {
    let expression = Expression::compile(expression).unwrap();
    match expression.evaluate(&Json::parse(payload).unwrap()) {
        Ok(value) => value.to_canonical(),
        Err(error) => format!("error: {error}"),
    }
}

/// Returns the names of the missing parts.
pub(super) fn missing(expression: &str, payload: &str) -> Vec<String> {
    let expression = Expression::compile(expression).unwrap();
    let selection = expression.select(&Json::parse(payload).unwrap()).unwrap();
    let missing = selection.missing.iter();
    missing.map(|part| part.to_string()).collect()
}

/// Returns the lines that are not empty, each split at its last `=>`.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.rsplit_once(" => ").unwrap())
}

/// Returns the texts between semicolons.
pub(super) fn each(texts: &str) -> impl Iterator<Item = &str> {
    texts.split(';').map(str::trim)
}

/// Checks lines of `expression; expression => value` on one payload.
fn check(payload: &str, text: &str) {
    for (expressions, expected) in lines(text) {
        for expression in expressions.split("; ") {
            assert_eq!(evaluate(expression, payload), expected, "{expression}");
        }
    }
}

/// Checks lines of `expression on payload => value`.
fn check_each(text: &str) {
    for (case, expected) in lines(text) {
        let (expression, payload) = case.split_once(" on ").unwrap();
        assert_eq!(evaluate(expression, payload), expected, "{case}");
    }
}

#[test]
fn a_header_is_found_in_any_case_of_its_name() {
    let events = r#"
        {"headers": {"idempotency-key": "k"}} => "k"
        {"headers": {"IDEMPOTENCY-KEY": "k"}, "multiValueHeaders": null} => "k"
        {"headers": {"Idempotency-Key": "last"}, "multiValueHeaders": {"Idempotency-Key": ["a", "last"]}} => "a,last"
        {"multiValueHeaders": {"idempotency-key": ["k"]}} => "k"
        {"headers": {"idempotency-key": "k"}, "multiValueHeaders": {}} => "k"
        {"headers": {"idempotency-key": "b", "Idempotency-Key": "a"}} => "a,b"
        {"headers": {"Idempotency-Key": "a", "idempotency-key": "b"}} => "a,b"
        {"headers": {"idempotency-key": null}} => null
        {"headers": {"idempotency-key": ""}} => null
        {"headers": {"idempotency-key": ","}} => null
        {"multiValueHeaders": {"Idempotency-Key": ["", ""]}} => null
        {"multiValueHeaders": {"Idempotency-Key": ["", "k"]}} => ",k"
        {"headers": {"x-idempotency-key": "k"}} => null
        {"headers": {}} => null
        {} => null
        null => error: `header` takes an event, which is an object, not null
        [] => error: `header` takes an event, which is an object, not an array
        {"headers": []} => error: `header` takes an event whose headers are an object, not an array
        {"headers": {"idempotency-key": 1}} => error: `header` takes headers whose values are strings, not a number
    "#;
    for (event, expected) in lines(events) {
        let found = evaluate("header(@, 'Idempotency-Key')", event);
        assert_eq!(found, expected, "{event}");
    }
    let missing = missing("[header(@, 'a'), b]", r#"{"b": 1}"#);
    assert_eq!(missing, ["header(@, 'a')"]);
}

#[test]
fn a_caller_that_iam_authenticated_is_one_client_in_all_its_sessions() {
    const POOL: &str = "eu-central-1:6d2c9e9e-0000-4a5b-8c7d-1f2e3d4c5b6a";
    // The ARN and its caller. `=` is the same text.
    let alone = "
        arn:aws:iam::123456789012:user/shop/checkout => =
        arn:aws:iam::123456789012:root => =
        arn:aws:sts::123456789012:federated-user/ann => =
        arn:aws:sts::123456789012:assumed-role/orders/orders-7f9c => arn:aws:sts::123456789012:assumed-role/orders
        arn:aws:sts::123456789012:assumed-role/orders/i-0abc => arn:aws:sts::123456789012:assumed-role/orders
        arn:aws-cn:sts::123456789012:assumed-role/orders/x => arn:aws-cn:sts::123456789012:assumed-role/orders
        arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Pay_0a1b/ann@example.com => =";
    // All users of a pool have the first one.
    let none = "
        arn:aws:sts::123456789012:assumed-role/orders/CognitoIdentityCredentials
        anonymous
        AIDACKCEVSQ6C2EXAMPLE
        arn:aws:iam::123456789012:user/
        arn:aws:iam::123456789012:user
        arn:aws:iam::123456789012:role/orders
        arn:aws:iam::anonymous:root
        arn:aws:iam:eu-west-1:123456789012:root
        arn::iam::123456789012:root
        urn:aws:iam::123456789012:root
        arn:aws:sts::123456789012:user/checkout
        arn:aws:sts::123456789012:federated-user/
        arn:aws:sts::123456789012:assumed-role/orders
        arn:aws:sts::123456789012:assumed-role/orders/
        arn:aws:sts::123456789012:assumed-role//s
        arn:aws:sts::123456789012:assumed-role/a/b/c
        arn:aws:sns::123456789012:root";
    let check = |identity: &str, arn: &str, caller: Option<&str>| {
        let expected = caller.map_or("null".to_owned(), |caller| format!("{caller:?}"));
        let rest =
            format!(r#"{{"identity": {{"cognitoIdentityId": "{identity}", "userArn": "{arn}"}}}}"#);
        let cognito = format!(r#"{{"identityId": "{identity}"}}"#);
        let iam = format!(r#"{{"cognitoIdentity": {cognito}, "userArn": "{arn}"}}"#);
        for context in [rest, format!(r#"{{"authorizer": {{"iam": {iam}}}}}"#)] {
            let event = format!(r#"{{"requestContext": {context}}}"#);
            assert_eq!(evaluate("iam_caller(@)", &event), expected, "{event}");
        }
    };
    for (arn, caller) in lines(alone) {
        check("", arn, Some(if caller == "=" { arn } else { caller }));
        check(POOL, arn, Some(POOL));
    }
    for arn in none.lines().map(str::trim) {
        check("", arn, None);
        check(POOL, arn, Some(POOL));
    }
}

#[test]
fn a_request_that_iam_did_not_authenticate_has_no_caller() {
    let texts = r#"
        {}; {"requestContext": null}; {"requestContext": {"identity": null, "authorizer": null}};
        {"requestContext": {"authorizer": {"iam": "arn:aws:iam::123456789012:root"}}};
        {"requestContext": {"identity": {"cognitoIdentityId": 7, "userArn": ["a"]}}};
        {"requestContext": {"authorizer": {"iam": {"cognitoIdentity": null, "userArn": null}}}};
        {"requestContext": {"authorizer": {"lambda": {"iam": {"userArn": "arn:aws:iam::123456789012:root"}}}}};
        {"headers": {"x-user-arn": "arn:aws:iam::123456789012:root"}, "body": "{}"}
    "#;
    for event in each(texts) {
        assert_eq!(evaluate("iam_caller(@)", event), "null", "{event}");
        assert_eq!(
            missing("[iam_caller(@), type(@)]", event),
            ["iam_caller(@)"]
        );
    }
    let refused = "error: `iam_caller` takes an event, which is an object, not an array";
    assert_eq!(evaluate("iam_caller(@)", "[]"), refused);
}

#[test]
fn a_header_look_up_by_its_exact_name_is_found() {
    let exact = |text: &str| {
        let expression = Expression::compile(text).unwrap();
        expression.header_by_exact_name().map(str::to_owned)
    };
    let texts = r#"
        headers."X-Key"; [a, headers."X-Key"]; {x: multiValueHeaders."X-Key"[0]}; a || headers."X-Key";
        join(',', [headers."X-Key"]); headers."X-Key".x.y; headers."X-Key" == 'a'; a == headers."X-Key";
        a && headers."X-Key"; !(headers."X-Key"); headers."X-Key"[]; headers."X-Key".*; (headers."X-Key")[*].a;
        headers."X-Key" | [0]
    "#;
    for text in each(texts) {
        assert_eq!(exact(text).as_deref(), Some("X-Key"), "{text}");
    }
    let texts = r#"
        header(@, 'X-Key'); headers; headers[0]; headers.*; body."X-Key"; body.headers."X-Key";
        powertools_json(body).headers."X-Key"
    "#;
    for text in each(texts) {
        assert_eq!(exact(text), None, "{text}");
    }
}

#[test]
fn a_wrong_expression_is_shown_with_a_caret() {
    let error = Expression::compile("a.nope(b)").unwrap_err().to_string();
    assert!(error.ends_with("\na.nope(b)\n  ^ unknown function `nope`; the functions are abs, avg, ceil, contains, \
        ends_with, floor, header, iam_caller, join, keys, length, map, max, max_by, merge, min, min_by, not_null, powertools_base64, \
        powertools_base64_gzip, powertools_json, reverse, sort, sort_by, starts_with, sum, to_array, to_number, \
        to_string, type, values"), "{error}");
}

#[test]
fn a_value_that_doubles_at_each_step_is_refused() {
    let doubling = vec!["[@, @]"; 15].join(" | ");
    assert!(evaluate(&doubling, "{\"a\": 1}").starts_with("[[["));
    let doubling = vec!["[@, @]"; 22].join(" | ");
    let refused = format!("error: {}", EvaluationError::TooLarge);
    assert_eq!(evaluate(&doubling, "1"), refused);
}

#[test]
fn the_deepest_expression_runs_on_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    let deepest = small.spawn(|| {
        for (open, close, times) in [
            ("[", "]", 32),
            ("{a: ", "}", 32),
            ("to_array(", ")", 32),
            ("[?", "]", 32),
            ("!", "", 63),
            ("", ".a", 63),
        ] {
            let text = format!("{}@{}", open.repeat(times), close.repeat(times));
            let payload = format!("{}1{}", "[".repeat(128), "]".repeat(128));
            assert!(!evaluate(&text, &payload).starts_with("error"), "{text}");
        }
    });
    deepest.unwrap().join().unwrap();
}
