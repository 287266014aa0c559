//! The behaviour of whole expressions.

mod costs;

use super::*;
use crate::example::shared::lines;

/// Returns the canonical text of a value, or `error: ` and its text.
fn evaluate(expression: &str, payload: &str) -> String {
    let expression = Expression::compile(expression).unwrap();
    match expression.evaluate(&Json::parse(payload).unwrap()) {
        Ok(value) => value.to_canonical(),
        Err(error) => {
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
            format!("error: {error}")
        }
    }
}

/// Returns the names of the missing parts.
pub(super) fn missing(expression: &str, payload: &str) -> Vec<String> {
    let expression = Expression::compile(expression).unwrap();
    let selection = expression.select(&Json::parse(payload).unwrap()).unwrap();
    let missing = selection.missing.iter();
    missing.map(|part| part.to_string()).collect()
}

/// Returns the cases of a file: an expression, its payload and what is expected.
///
/// A row is `expression; expression => expected` on the payload behind the last `on `, or `expression on payload => expected`.
pub(super) fn cases(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut common = "";
    let rows = lines(text).filter_map(move |line| {
        if let Some(payload) = line.strip_prefix("on ") {
            common = payload;
            return None;
        }
        let (row, expected) = line.rsplit_once(" => ").unwrap();
        let (expressions, payload) = row.split_once(" on ").unwrap_or((row, common));
        let expressions = expressions.split("; ");
        Some(expressions.map(move |expression| (expression, payload, expected)))
    });
    rows.flatten()
}

/// Returns the texts between semicolons.
fn each(texts: &str) -> impl Iterator<Item = &str> {
    texts.split(';').map(str::trim)
}

#[test]
fn each_expression_has_its_value() {
    let text = include_str!("values.txt").replace("BIG", &"9".repeat(309));
    let text = text.replace("BLANKS", &"ICAg".repeat(100));
    for (expression, payload, expected) in cases(&text) {
        let value = evaluate(expression, payload);
        assert_eq!(value, expected, "{expression} on {payload}");
    }
}

#[test]
fn a_caller_that_iam_authenticated_is_one_client_in_all_its_sessions() {
    const POOL: &str = "eu-central-1:6d2c9e9e-0000-4a5b-8c7d-1f2e3d4c5b6a";
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
    for row in lines(include_str!("iam_callers.txt")) {
        let (arn, caller) = row.split_once(" => ").unwrap();
        let caller = match caller {
            "=" => Some(arn),
            "none" => None,
            other => Some(other),
        };
        check("", arn, caller);
        check(POOL, arn, Some(POOL));
    }
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

#[test]
fn an_expression_has_its_text_and_an_error_its_place() {
    let expression: Expression = "body.[a, b]".parse().unwrap();
    assert_eq!(expression.as_str(), "body.[a, b]");
    assert_eq!(expression.to_string(), "body.[a, b]");
    assert!(expression == Expression::compile("body.[a, b]").unwrap());
    assert!(expression != Expression::compile("body.[a]").unwrap());
    assert!("body.[a".parse::<Expression>().is_err());
    let error = Expression::compile("a.lenght(body)").unwrap_err();
    let message = "unknown function `lenght`; did you mean `length`?";
    assert_eq!((error.offset(), error.message()), (2, message));
    let shown = format!("invalid JMESPath expression: {message}\na.lenght(body)\n  ^ {message}");
    assert_eq!(error.to_string(), shown);
}

#[test]
fn a_value_holds_if_it_is_not_null_false_or_empty() {
    let payload = Json::parse(r#"{"e": [], "z": 0, "f": false, "tt": true}"#).unwrap();
    for (text, holds) in [
        ("tt", true),
        ("f", false),
        ("e", false),
        ("z", true),
        ("none", false),
    ] {
        let expression = Expression::compile(text).unwrap();
        let found = expression.holds_within(&payload, &mut Budget::of_one_evaluation());
        assert_eq!(found, Ok(holds), "{text}");
    }
}

#[test]
fn a_word_between_backticks_loses_the_white_space_that_python_removes() {
    for space in ["\u{1c}", "\u{1f}", "\u{a0}"] {
        assert_eq!(evaluate(&format!("`{space}foo`"), "0"), r#""foo""#);
    }
    assert!(Expression::compile("`a\"b`").is_err());
}
