use std::time::UNIX_EPOCH;

use aws_sdk_dynamodb::config::Credentials;

use super::*;

#[test]
fn a_request_is_signed_for_lambda_and_has_this_form() {
    let credentials = Credentials::new("AKID", "secret", Some("session".to_owned()), None, "test");
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let uri =
        "https://lambda.eu-central-1.amazonaws.com/2015-03-31/functions/charge%3Alive/invocations";
    let event = r#"{"order_id": 7}"#;
    let request = signed(uri, event, &credentials.into(), "eu-central-1", now).unwrap();
    assert_eq!((request.method(), request.uri()), ("POST", uri));
    assert_eq!(request.body().bytes(), Some(event.as_bytes()));
    let headers = request.headers();
    assert_eq!(
        headers.get("x-amz-invocation-type"),
        Some("RequestResponse")
    );
    assert_eq!(headers.get("x-amz-date"), Some("20231114T221320Z"));
    assert_eq!(headers.get("x-amz-security-token"), Some("session"));
    let authorization = headers.get("authorization").unwrap();
    let start = "AWS4-HMAC-SHA256 Credential=AKID/20231114/eu-central-1/lambda/aws4_request, SignedHeaders=content-type;host;\
                 x-amz-date;x-amz-invocation-type;x-amz-security-token, Signature=";
    assert!(authorization.starts_with(start), "{authorization}");
}

#[test]
fn a_refusal_of_lambda_has_its_code_its_message_and_a_remedy() {
    let code = |code: &str| Some(code.to_owned());
    for (status, error_type, payload, expected) in [
        (
            404,
            code("ResourceNotFoundException:http://internal.amazon.com/"),
            r#"{"Type":"User","Message":"Function not found: charge"}"#,
            "Lambda responded with status 404, ResourceNotFoundException: Function not found: charge; check its name and the region",
        ),
        (
            403,
            code("AccessDeniedException"),
            r#"{"message":"not authorized"}"#,
            "Lambda responded with status 403, AccessDeniedException: not authorized; allow lambda:InvokeFunction",
        ),
        (
            502,
            None,
            "<html>",
            "Lambda responded with status 502: no message",
        ),
    ] {
        assert_eq!(refusal(status, error_type, payload), expected);
    }
}

#[test]
fn a_name_an_alias_and_an_arn_become_one_segment_of_the_path() {
    for (function, segment) in [
        ("charge", "charge"),
        ("charge:live", "charge%3Alive"),
        (
            "arn:aws:lambda:eu-central-1:123456789012:function:charge",
            "arn%3Aaws%3Alambda%3Aeu-central-1%3A123456789012%3Afunction%3Acharge",
        ),
        ("a/b", "a%2Fb"),
    ] {
        let expected = format!("http://127.0.0.1:1/2015-03-31/functions/{segment}/invocations");
        assert_eq!(uri("http://127.0.0.1:1/", function), expected);
        assert_eq!(uri("http://127.0.0.1:1", function), expected);
    }
}
