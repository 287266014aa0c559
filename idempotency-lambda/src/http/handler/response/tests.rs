//! Tests of the response inside each kind of handler's response.

use super::*;
use http::HeaderValue;
use serde::Serialize;
use serde_json::{Value, json};

fn problem(body: &[u8]) -> Response<Vec<u8>> {
    let mut response = Response::new(body.to_vec());
    *response.status_mut() = StatusCode::CONFLICT;
    let headers = response.headers_mut();
    headers.insert("retry-after", HeaderValue::from_static("3"));
    headers.append("link", HeaderValue::from_static("<a>"));
    headers.append("link", HeaderValue::from_static("<b>"));
    response
}

fn sent<R: HttpResponse + Serialize>(body: &[u8]) -> Value {
    serde_json::to_value(R::from_http(problem(body))).unwrap()
}

#[test]
fn each_kind_is_sent_in_the_form_that_its_platform_reads() {
    let joined = json!({ "retry-after": "3", "link": "<a>, <b>" });
    let all = json!({ "retry-after": ["3"], "link": ["<a>", "<b>"] });
    let v2 = sent::<ApiGatewayV2httpResponse>(b"no");
    assert_eq!(v2["statusCode"], 409);
    assert_eq!((&v2["headers"], &v2["body"]), (&joined, &json!("no")));
    assert_eq!(
        (&v2["multiValueHeaders"], &v2["cookies"]),
        (&json!({}), &json!([]))
    );
    let url = sent::<LambdaFunctionUrlResponse>(b"no");
    assert_eq!(
        (&url["statusCode"], &url["headers"]),
        (&json!(409), &joined)
    );
    let v1 = sent::<ApiGatewayProxyResponse>(b"no");
    // API Gateway merges both fields: one of them is empty.
    assert_eq!(
        (&v1["headers"], &v1["multiValueHeaders"]),
        (&json!({}), &all)
    );
    let alb = sent::<AlbTargetGroupResponse>(b"no");
    // The target group's setting decides which one is read.
    assert_eq!(
        (&alb["headers"], &alb["multiValueHeaders"]),
        (&joined, &all)
    );
    assert_eq!(alb["statusDescription"], "409 Conflict");
}

#[test]
fn a_binary_body_is_sent_as_base64_and_read_back_byte_for_byte() {
    fn check<R: HttpResponse + Serialize>() {
        for (body, text, is_base64) in [
            (b"\x00\xff".as_slice(), json!("AP8="), true),
            ("ü".as_bytes(), json!("ü"), false),
            (b"", Value::Null, false),
        ] {
            let response = R::from_http(problem(body));
            let sent = serde_json::to_value(&response).unwrap();
            assert_eq!(
                (&sent["body"], &sent["isBase64Encoded"]),
                (&text, &json!(is_base64))
            );
            assert_eq!(response.to_http().unwrap().body(), body);
        }
    }
    check::<ApiGatewayV2httpResponse>();
    check::<ApiGatewayProxyResponse>();
    check::<AlbTargetGroupResponse>();
    check::<LambdaFunctionUrlResponse>();
}

#[test]
fn a_binary_body_without_the_mark_is_the_base64_text_that_the_client_gets() {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    response.body = Some(Body::Binary(vec![0, 255]));
    assert_eq!(response.to_http().unwrap().body(), b"AP8=");
    response.is_base64_encoded = true;
    assert_eq!(response.to_http().unwrap().body(), &[0, 255]);
}

#[test]
fn a_response_that_the_platform_refuses_is_an_error_that_says_why() {
    let mut response = ApiGatewayProxyResponse::default();
    for invalid in [0, -1, 99, 600, 70_000] {
        response.status_code = invalid;
        let no_status = ViewError::NoResponse(NO_STATUS);
        assert_eq!(response.to_http().unwrap_err(), no_status, "{invalid}");
    }
    for valid in [100, 200, 599] {
        response.status_code = valid;
        assert!(response.to_http().is_ok(), "{valid}");
    }
    response.body = Some(Body::Text("?".to_owned()));
    response.is_base64_encoded = true;
    // A platform can be more tolerant: the client may have got it, so the run has not failed.
    let unreadable = ViewError::Unreadable(NOT_BASE64);
    assert_eq!(response.to_http().unwrap_err(), unreadable);
}

#[test]
fn both_fields_for_headers_count() {
    let mut response = ApiGatewayProxyResponse::default();
    response.status_code = 200;
    response.headers.insert("a", HeaderValue::from_static("1"));
    response
        .multi_value_headers
        .append("b", HeaderValue::from_static("2"));
    let headers = response.to_http().unwrap().into_parts().0.headers;
    assert_eq!(
        (&headers["a"], &headers["b"]),
        (
            &HeaderValue::from_static("1"),
            &HeaderValue::from_static("2")
        )
    );
}
