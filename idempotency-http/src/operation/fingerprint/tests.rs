use http::Request;

use super::*;

const LIMIT: usize = 32 * 1024 * 1024;

fn parts(method: &str, uri: &str, content_type: &str) -> Parts {
    let request = Request::builder().method(method).uri(uri);
    let request = request.header(CONTENT_TYPE, content_type);
    request.body(()).unwrap().into_parts().0
}

fn json(body: &str) -> String {
    of_request(
        &parts("POST", "/pay", "application/json"),
        body.as_bytes(),
        LIMIT,
    )
}

#[test]
fn json_is_compared_by_its_value_and_other_bodies_by_their_bytes() {
    assert_eq!(json(r#"{"a":1,"b":[2]}"#), json("{ \"b\": [2], \"a\": 1 }"));
    assert_ne!(json(r#"{"a":1}"#), json(r#"{"a":2}"#));
    assert_ne!(json(r#"{"a":1}"#), json(r#"{"a":1.0}"#));
    for (one, other) in [
        ("12345678901234567890123", "12345678901234567890124"),
        (
            r#"{"amount":12345678901234567.89}"#,
            r#"{"amount":12345678901234567.90}"#,
        ),
    ] {
        assert_ne!(json(one), json(other), "every digit counts");
    }
    let text =
        |body: &str| of_request(&parts("POST", "/pay", "text/plain"), body.as_bytes(), LIMIT);
    assert_eq!(text("a b"), text("a b"));
    assert_ne!(text(r#"{"a":1,"b":2}"#), text(r#"{"b":2,"a":1}"#));
    let binary = |body: &[u8]| of_request(&parts("POST", "/pay", "image/png"), body, LIMIT);
    assert_ne!(binary(b"\xff\x00"), binary(b"\xff\x01"));
}

#[test]
fn the_content_types_of_json_are_known() {
    for (content_type, is) in [
        ("application/json", true),
        ("application/json; charset=utf-8", true),
        ("Application/JSON", true),
        ("application/merge-patch+json", true),
        ("text/plain", false),
        ("application/jsonl", false),
        ("application/x-www-form-urlencoded", false),
    ] {
        assert_eq!(
            is_json(&parts("POST", "/", content_type)),
            is,
            "{content_type}"
        );
    }
    assert!(!is_json(&Request::new(()).into_parts().0));
}

#[test]
fn json_that_cannot_be_read_or_takes_too_much_memory_is_compared_by_its_bytes() {
    assert_eq!(json("{\"a\":"), json("{\"a\":"));
    assert_ne!(json("{\"a\":"), json("{\"a\": "));
    let parts = parts("POST", "/pay", "application/json");
    let large = format!("[{}1]", "1,".repeat(10_000));
    let spaced = large.replace(',', ", ");
    let of_limit = |body: &str, limit| of_request(&parts, body.as_bytes(), limit);
    assert_eq!(of_limit(&large, LIMIT), of_limit(&spaced, LIMIT));
    assert_ne!(of_limit(&large, 1024), of_limit(&spaced, 1024));
    assert_eq!(of_limit(&large, 1024), of_limit(&large, 1024));
    assert_ne!(
        of_request(&parts, b"\xff", LIMIT),
        of_request(&parts, b"\xfe", LIMIT)
    );
}

#[test]
fn method_path_and_query_are_part_of_it() {
    let of =
        |method: &str, uri: &str| of_request(&parts(method, uri, "application/json"), b"{}", LIMIT);
    let post = of("POST", "/pay?a=1&b=2");
    assert_ne!(post, of("PATCH", "/pay?a=1&b=2"));
    assert_ne!(post, of("POST", "/refund?a=1&b=2"));
    assert_ne!(post, of("POST", "/pay?a=1&b=3"));
    assert_ne!(post, of("POST", "/pay"));
    assert_eq!(of("POST", "/pay"), of("POST", "https://shop.example/pay"));
}

#[test]
fn the_order_of_parameters_does_not_matter_except_among_those_of_one_name() {
    assert_eq!(sorted("b=2&a=1"), sorted("a=1&b=2"));
    assert_eq!(sorted("a=2&b=0&a=1"), "a=2&a=1&b=0");
    assert_ne!(sorted("a=1&a=2"), sorted("a=2&a=1"));
    assert_eq!(sorted("&a&&b=&"), "a&b=");
}

#[test]
fn it_has_a_digest_of_the_body_and_not_the_body() {
    let fingerprint = json(r#"{"card":"4242"}"#);
    assert!(
        !fingerprint.contains("4242") && fingerprint.len() < 120,
        "{fingerprint}"
    );
    let empty = r#"["POST","/pay","","bytes","e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]"#;
    assert_eq!(json(""), empty);
}
