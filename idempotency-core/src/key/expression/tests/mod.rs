//! The behaviour of whole expressions.

mod costs;
mod functions;
mod missing;
mod steps;

use super::*;

fn evaluate(expression: &str, payload: &str) -> Result<String, EvaluationError> {
    let payload = Json::parse(payload).unwrap();
    Expression::compile(expression)
        .unwrap()
        .evaluate(&payload)
        .map(|value| value.to_canonical())
}

fn value(expression: &str, payload: &str) -> String {
    evaluate(expression, payload).unwrap()
}

#[test]
fn numbers_beyond_64_bits_keep_their_digits() {
    assert_eq!(
        value("a", r#"{"a": 123456789012345678901}"#),
        "123456789012345678901"
    );
    assert_eq!(
        value("`123456789012345678901`", "null"),
        "123456789012345678901"
    );
    assert_eq!(
        value("sum(@)", "[9223372036854775807, 1]"),
        "9223372036854775808"
    );
    assert_eq!(
        value("abs(@)", "-9223372036854775808"),
        "9223372036854775808"
    );
    assert_eq!(value("ceil(@)", "1e20"), "100000000000000000000");
    assert_eq!(value("avg(@)", "[1, 2]"), "1.5");
}

#[test]
fn members_keep_their_order_until_the_end() {
    assert_eq!(value("keys(@)", r#"{"b": 1, "a": 2}"#), r#"["b", "a"]"#);
    assert_eq!(
        value("to_string(@)", r#"{"b": 1, "a": 1.0}"#),
        r#""{\"b\":1,\"a\":1.0}""#
    );
}

#[test]
fn booleans_equal_numbers_only_inside_arrays() {
    assert_eq!(value("@ == `1`", "true"), "false");
    assert_eq!(value("@ == `[1.0]`", "[true]"), "true");
    assert_eq!(value("contains(@, `0`)", "[false]"), "true");
}

#[test]
fn strings_and_numbers_have_no_common_order() {
    assert_eq!(
        evaluate("a < b", r#"{"a": 1, "b": "x"}"#),
        Err(EvaluationError::Incomparable)
    );
    assert_eq!(value("a < b", r#"{"a": 1, "b": null}"#), "null");
    assert!(evaluate("sort(@)", r#"[1, "a"]"#).is_err());
    assert!(evaluate("sort(@)", "[1, NaN]").is_err());
    assert!(evaluate("min_by(@, &@)", r#"["a", 1]"#).is_err());
}

#[test]
fn a_header_is_found_in_any_case_of_its_name() {
    let key = "header(@, 'Idempotency-Key')";
    for (event, found) in [
        (r#"{"headers": {"idempotency-key": "k"}}"#, r#""k""#),
        (
            r#"{"headers": {"IDEMPOTENCY-KEY": "k"}, "multiValueHeaders": null}"#,
            r#""k""#,
        ),
        (
            r#"{"headers": {"Idempotency-Key": "last"}, "multiValueHeaders": {"Idempotency-Key": ["a", "last"]}}"#,
            r#""a,last""#,
        ),
        (
            r#"{"multiValueHeaders": {"idempotency-key": ["k"]}}"#,
            r#""k""#,
        ),
        (
            r#"{"headers": {"idempotency-key": "k"}, "multiValueHeaders": {}}"#,
            r#""k""#,
        ),
        (
            r#"{"headers": {"idempotency-key": "b", "Idempotency-Key": "a"}}"#,
            r#""a,b""#,
        ),
        (
            r#"{"headers": {"Idempotency-Key": "a", "idempotency-key": "b"}}"#,
            r#""a,b""#,
        ),
        (r#"{"headers": {"idempotency-key": null}}"#, "null"),
        (r#"{"headers": {"idempotency-key": ""}}"#, "null"),
        (r#"{"headers": {"idempotency-key": ","}}"#, "null"),
        (
            r#"{"multiValueHeaders": {"Idempotency-Key": ["", ""]}}"#,
            "null",
        ),
        (
            r#"{"multiValueHeaders": {"Idempotency-Key": ["", "k"]}}"#,
            r#"",k""#,
        ),
        (r#"{"headers": {"x-idempotency-key": "k"}}"#, "null"),
        (r#"{"headers": {}}"#, "null"),
        ("{}", "null"),
    ] {
        assert_eq!(value(key, event), found, "{event}");
    }
    for event in [
        "null",
        "[]",
        r#"{"headers": []}"#,
        r#"{"headers": {"idempotency-key": 1}}"#,
    ] {
        let error = evaluate(key, event).unwrap_err().to_string();
        assert!(error.starts_with("`header` takes"), "{error}");
    }
    assert_eq!(
        missing::missing("[header(@, 'a'), b]", r#"{"b": 1}"#),
        ["header(@, 'a')"]
    );
}

#[test]
fn a_caller_that_iam_authenticated_is_one_client_in_all_its_sessions() {
    const USER: &str = "arn:aws:iam::123456789012:user/shop/checkout";
    const ROLE: &str = "arn:aws:sts::123456789012:assumed-role/orders";
    const SSO: &str =
        "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Pay_0a1b/ann@example.com";
    const IDENTITY: &str = "eu-central-1:6d2c9e9e-0000-4a5b-8c7d-1f2e3d4c5b6a";
    let (session, pod) = (format!("{ROLE}/orders-7f9c"), format!("{ROLE}/i-0abc"));
    let china = session.replace("arn:aws:", "arn:aws-cn:");
    let of_pool = format!("{ROLE}/CognitoIdentityCredentials");
    let federated = "arn:aws:sts::123456789012:federated-user/ann";
    let root = "arn:aws:iam::123456789012:root";
    let cases: [(&str, &str, Option<&str>); 28] = [
        ("", USER, Some(USER)),
        ("", root, Some(root)),
        ("", federated, Some(federated)),
        ("", &session, Some(ROLE)),
        ("", &pod, Some(ROLE)),
        (
            "",
            &china,
            Some("arn:aws-cn:sts::123456789012:assumed-role/orders"),
        ),
        ("", SSO, Some(SSO)),
        (IDENTITY, &of_pool, Some(IDENTITY)),
        (IDENTITY, USER, Some(IDENTITY)),
        (IDENTITY, "", Some(IDENTITY)),
        // All users of the pool have it.
        ("", &of_pool, None),
        ("", "", None),
        ("", "anonymous", None),
        ("", "AIDACKCEVSQ6C2EXAMPLE", None),
        ("", "arn:aws:iam::123456789012:user/", None),
        ("", "arn:aws:iam::123456789012:user", None),
        ("", "arn:aws:iam::123456789012:role/orders", None),
        ("", "arn:aws:iam::anonymous:root", None),
        ("", "arn:aws:iam:eu-west-1:123456789012:root", None),
        ("", "arn::iam::123456789012:root", None),
        ("", "urn:aws:iam::123456789012:root", None),
        ("", "arn:aws:sts::123456789012:user/checkout", None),
        ("", "arn:aws:sts::123456789012:federated-user/", None),
        ("", ROLE, None),
        ("", "arn:aws:sts::123456789012:assumed-role/orders/", None),
        ("", "arn:aws:sts::123456789012:assumed-role//s", None),
        ("", "arn:aws:sts::123456789012:assumed-role/a/b/c", None),
        ("", "arn:aws:sns::123456789012:root", None),
    ];
    for (identity, arn, caller) in cases {
        let expected = caller.map_or("null".to_owned(), |caller| format!("{caller:?}"));
        let rest = format!(r#"{{"cognitoIdentityId": "{identity}", "userArn": "{arn}"}}"#);
        let http = format!(
            r#"{{"iam": {{"cognitoIdentity": {{"identityId": "{identity}"}}, "userArn": "{arn}"}}}}"#
        );
        for context in [
            format!(r#"{{"identity": {rest}}}"#),
            format!(r#"{{"authorizer": {http}}}"#),
        ] {
            let event = format!(r#"{{"requestContext": {context}}}"#);
            assert_eq!(value("iam_caller(@)", &event), expected, "{event}");
        }
    }
}

#[test]
fn a_request_that_iam_did_not_authenticate_has_no_caller() {
    for event in [
        "{}",
        r#"{"requestContext": null}"#,
        r#"{"requestContext": {"identity": null, "authorizer": null}}"#,
        r#"{"requestContext": {"authorizer": {"iam": "arn:aws:iam::123456789012:root"}}}"#,
        r#"{"requestContext": {"identity": {"cognitoIdentityId": 7, "userArn": ["a"]}}}"#,
        r#"{"requestContext": {"authorizer": {"iam": {"cognitoIdentity": null, "userArn": null}}}}"#,
        r#"{"requestContext": {"authorizer": {"lambda": {"iam": {"userArn": "arn:aws:iam::123456789012:root"}}}}}"#,
        r#"{"headers": {"x-user-arn": "arn:aws:iam::123456789012:root"}, "body": "{}"}"#,
    ] {
        assert_eq!(value("iam_caller(@)", event), "null", "{event}");
        assert_eq!(
            missing::missing("[iam_caller(@), type(@)]", event),
            ["iam_caller(@)"]
        );
    }
    let error = evaluate("iam_caller(@)", "[]").unwrap_err().to_string();
    assert!(error.starts_with("`iam_caller` takes"), "{error}");
}

#[test]
fn a_header_look_up_by_its_exact_name_is_found() {
    let exact = |text: &str| {
        let expression = Expression::compile(text).unwrap();
        expression.header_by_exact_name().map(str::to_owned)
    };
    for text in [
        r#"headers."X-Key""#,
        r#"[a, headers."X-Key"]"#,
        r#"{x: multiValueHeaders."X-Key"[0]}"#,
        r#"a || headers."X-Key""#,
        r#"join(',', [headers."X-Key"])"#,
        r#"headers."X-Key".x.y"#,
        r#"headers."X-Key" == 'a'"#,
        r#"a == headers."X-Key""#,
        r#"a && headers."X-Key""#,
        r#"!(headers."X-Key")"#,
        r#"headers."X-Key"[]"#,
        r#"headers."X-Key".*"#,
        r#"(headers."X-Key")[*].a"#,
        r#"headers."X-Key" | [0]"#,
    ] {
        assert_eq!(exact(text).as_deref(), Some("X-Key"), "{text}");
    }
    for text in [
        "header(@, 'X-Key')",
        "headers",
        "headers[0]",
        "headers.*",
        r#"body."X-Key""#,
        r#"body.headers."X-Key""#,
        r#"powertools_json(body).headers."X-Key""#,
    ] {
        assert_eq!(exact(text), None, "{text}");
    }
}

#[test]
fn the_error_of_powertools_json_has_place_and_reason_and_suggests_base64() {
    let error = evaluate("powertools_json(@)", r#""{\"a\": secret}""#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`powertools_json` failed: invalid JSON: expected a value at line 1, column 7"
    );
    // `{"a": 1}`
    let error = evaluate("powertools_json(@)", r#""eyJhIjogMX0=""#).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("`powertools_json(powertools_base64(..))`"),
        "{error}"
    );
    let error = evaluate("powertools_json(@)", r#""secret""#).unwrap_err();
    assert!(!error.to_string().contains("base64"), "{error}");
}

#[test]
fn slices_run_in_both_directions() {
    assert_eq!(value("[::-1]", "[1, 2, 3]"), "[3, 2, 1]");
    assert_eq!(value("[-2:]", "[1, 2, 3]"), "[2, 3]");
    assert_eq!(value("[5:-5:-2]", "[1, 2, 3]"), "[3, 1]");
    assert_eq!(value("[:99999999999999999999]", "[1]"), "[1]");
}

#[test]
fn an_error_shows_no_payload() {
    let error = evaluate("powertools_json(@)", r#""secret""#).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
    let error = evaluate("sum(@)", r#"["secret"]"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`sum` takes an array of numbers, not a string"
    );
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
    assert_eq!(
        evaluate(&doubling, "{\"a\": 1}"),
        Ok(value(&doubling, "{\"a\": 1}"))
    );
    let doubling = vec!["[@, @]"; 22].join(" | ");
    assert_eq!(evaluate(&doubling, "1"), Err(EvaluationError::TooLarge));
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
            assert!(evaluate(&text, &payload).is_ok(), "{text}");
        }
    });
    deepest.unwrap().join().unwrap();
}
