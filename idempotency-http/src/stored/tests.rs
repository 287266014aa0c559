use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

fn response(status: u16, headers: &[(&'static str, &'static str)], body: &[u8]) -> StoredResponse {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    let status = StatusCode::from_u16(status).unwrap();
    StoredResponse::new(status, map, Bytes::copy_from_slice(body))
}

/// The stored format. Records of these texts exist: they must be readable, and the texts must stay the same.
#[test]
fn the_stored_json_is_golden() {
    for (response, text) in [
        (
            response(
                201,
                &[("content-type", "application/json"), ("location", "/p/1")],
                br#"{"id":1}"#,
            ),
            r#"{"statusCode":201,"headers":{"content-type":"application/json","location":"/p/1"},"body":"{\"id\":1}","isBase64Encoded":false}"#,
        ),
        (
            response(204, &[], b""),
            r#"{"statusCode":204,"headers":{},"body":"","isBase64Encoded":false}"#,
        ),
        (
            response(
                200,
                &[("content-type", "image/png")],
                b"\x89PNG\r\n\x1a\n\xff",
            ),
            r#"{"statusCode":200,"headers":{"content-type":"image/png"},"body":"iVBORw0KGgr/","isBase64Encoded":true}"#,
        ),
        (
            response(
                200,
                &[("link", "<a>"), ("link", "<b>"), ("etag", "\"e\"")],
                "é\n".as_bytes(),
            ),
            r#"{"statusCode":200,"headers":{"etag":"\"e\""},"multiValueHeaders":{"link":["<a>","<b>"]},"body":"é\n","isBase64Encoded":false}"#,
        ),
        (
            response(200, &[], b"a\0b"),
            r#"{"statusCode":200,"headers":{},"body":"YQBi","isBase64Encoded":true}"#,
        ),
    ] {
        assert_eq!(response.to_json().unwrap(), text);
        assert_eq!(StoredResponse::from_json(text).unwrap(), response);
    }
}

#[test]
fn responses_of_other_programs_are_read() {
    for (text, expected) in [
        // Powertools for AWS Lambda (Python), with an event handler.
        (
            r#"{"statusCode": 200, "body": "{\"id\":1}", "isBase64Encoded": false, "multiValueHeaders": {"Content-Type": ["application/json"]}}"#,
            response(200, &[("content-type", "application/json")], br#"{"id":1}"#),
        ),
        // A handler that returns what API Gateway needs and no more.
        (r#"{"statusCode": 204}"#, response(204, &[], b"")),
        (
            r#"{"statusCode": "201", "headers": null, "multiValueHeaders": null, "body": null, "isBase64Encoded": null}"#,
            response(201, &[], b""),
        ),
        // Payload format 2.0, with a cookie that must not be set again.
        (
            r#"{"cookies": ["session=1"], "isBase64Encoded": true, "statusCode": 200, "headers": {"X-Count": 5, "x-ok": true, "x-null": null, "Set-Cookie": "session=1"}, "body": "/w=="}"#,
            response(200, &[("x-count", "5"), ("x-ok", "true")], b"\xff"),
        ),
        // A load balancer's response, and headers that no response can have.
        (
            r#"{"statusCode": 200, "statusDescription": "200 OK", "headers": {"a b": "1", "x-a": "1\n2", "x-b": ["1"]}, "body": "ok"}"#,
            response(200, &[], b"ok"),
        ),
        // The list wins where both name a header, as in API Gateway.
        (
            r#"{"statusCode": 200, "headers": {"Link": "<b>"}, "multiValueHeaders": {"link": ["<a>", "<b>"]}}"#,
            response(200, &[("link", "<a>"), ("link", "<b>")], b""),
        ),
    ] {
        assert_eq!(
            StoredResponse::from_json(text).ok(),
            Some(expected),
            "{text}"
        );
    }
}

#[test]
fn a_text_that_is_not_a_response_is_an_error_without_a_part_of_it() {
    for text in [
        "null",
        "[]",
        "\"secret\"",
        "{}",
        r#"{"secret": 1}"#,
        r#"{"statusCode": "secret"}"#,
        r#"{"statusCode": 99}"#,
        r#"{"statusCode": 1000}"#,
        r#"{"statusCode": -1}"#,
        r#"{"statusCode": 200.5}"#,
        r#"{"statusCode": null}"#,
        r#"{"statusCode": 200, "body": "secret!", "isBase64Encoded": true}"#,
    ] {
        let error = StoredResponse::from_json(text).unwrap_err().to_string();
        // serde's own messages of types quote the text; the engine drops them.
        if text.starts_with('{') {
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

#[test]
fn a_sent_response_has_its_length_unless_its_status_has_none() {
    let length = |status| {
        let sent = response(status, &[], b"").into_response();
        sent.headers().get(CONTENT_LENGTH).cloned()
    };
    assert_eq!(length(200), Some(HeaderValue::from_static("0")));
    assert_eq!((length(204), length(304)), (None, None));
    let sent = response(200, &[("content-length", "99")], b"four").into_response();
    assert_eq!(sent.headers()[CONTENT_LENGTH], "4");
}

#[test]
fn a_header_that_is_not_text_cannot_be_stored() {
    let mut headers = HeaderMap::new();
    headers.insert("x-a", HeaderValue::from_bytes(b"\xff").unwrap());
    let response = StoredResponse::new(StatusCode::OK, headers, Bytes::new());
    assert!(!response.has_text_headers());
    assert_eq!(response.to_json(), None);
}

#[test]
fn debug_shows_neither_headers_nor_body() {
    let response = response(200, &[("x-a", "secret")], b"secret");
    assert_eq!(
        format!("{response:?}"),
        "StoredResponse { status: 200, body_length: 6, .. }"
    );
}

fn any_headers() -> impl Strategy<Value = HeaderMap> {
    let name = "[a-z][a-z0-9-]{0,12}";
    let value = "[ -~é\u{1F600}]{0,20}";
    prop::collection::vec((name, value), 0..6).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                headers.append(name, value);
            }
        }
        headers
    })
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        ".{0,100}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn every_response_is_read_back_byte_for_byte(
        status in 100_u16..=999,
        headers in any_headers(),
        body in any_body(),
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let response = StoredResponse::new(status, headers, body.into());
        let text = response.to_json().unwrap();
        prop_assert_eq!(StoredResponse::from_json(&text).unwrap(), response);
    }
}
