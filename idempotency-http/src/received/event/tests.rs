use http::{HeaderValue, Request};

use super::*;

fn event(request: http::request::Builder, body: Option<&[u8]>, context: Option<Value>) -> Value {
    let (parts, ()) = request.body(()).unwrap().into_parts();
    serde_json::from_str(&text(&parts, body, context)).unwrap()
}

#[test]
fn an_event_has_the_shape_of_payload_format_2() {
    let request = Request::post("https://shop.example/a%20b?x=1&y=%2F+z&x=2&e")
        .header("X-Id", "1")
        .header("x-id", "2")
        .header("cookie", "a=1; b=2")
        .header("cookie", "c=3");
    assert_eq!(
        event(request, Some(b"{\"a\":1}"), None),
        json!({
            "version": "2.0",
            "rawPath": "/a%20b",
            "rawQueryString": "x=1&y=%2F+z&x=2&e",
            "headers": {"x-id": "1,2"},
            "cookies": ["a=1", "b=2", "c=3"],
            "queryStringParameters": {"x": "1,2", "y": "/ z", "e": ""},
            "requestContext": {"http": {"method": "POST", "path": "/a%20b"}},
            "body": "{\"a\":1}",
            "isBase64Encoded": false,
        })
    );
}

#[test]
fn a_body_that_is_not_text_is_base64_and_one_that_is_not_needed_is_left_out() {
    let binary = event(Request::post("/"), Some(b"\xff\x00"), None);
    assert_eq!(
        (&binary["body"], &binary["isBase64Encoded"]),
        (&json!("/wA="), &json!(true))
    );
    let without = event(Request::post("/"), None, None);
    assert!(without.get("body").is_none() && without.get("isBase64Encoded").is_none());
}

#[test]
fn a_header_that_is_not_text_is_left_out() {
    let value = HeaderValue::from_bytes(b"\xff").unwrap();
    let request = Request::post("/").header("x-a", value).header("x-b", "b");
    assert_eq!(event(request, None, None)["headers"], json!({"x-b": "b"}));
}

#[test]
fn what_the_platform_knows_is_added_to_the_context() {
    let context = json!({"authorizer": {"sub": "u-1"}});
    let with = event(Request::post("/"), None, Some(context));
    assert_eq!(
        with["requestContext"],
        json!({"authorizer": {"sub": "u-1"}, "http": {"method": "POST", "path": "/"}})
    );
    let own = json!({"http": {"method": "POST", "sourceIp": "192.0.2.1"}});
    let with = event(Request::post("/"), None, Some(own.clone()));
    assert_eq!(with["requestContext"], own);
    let odd = event(Request::post("/"), None, Some(json!("text")));
    assert!(odd["requestContext"]["http"].is_object());
}

#[test]
fn escapes_that_are_wrong_stay_as_they_were_sent() {
    for (sent, expected) in [
        ("%zz", "%zz"),
        ("%4", "%4"),
        ("%41", "A"),
        ("%ff", "%ff"),
        ("%c3%a9", "é"),
    ] {
        assert_eq!(decoded(sent), expected, "{sent}");
    }
}
