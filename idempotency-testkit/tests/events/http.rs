//! Requests through API Gateway, load balancers and function URLs.

use aws_lambda_events::event::alb::AlbTargetGroupRequest;
use aws_lambda_events::event::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::event::lambda_function_urls::LambdaFunctionUrlRequest;
use idempotency_testkit::events;
use serde_json::{Value, json};

use crate::{lost, names};

#[test]
fn a_request_of_format_2_0_has_the_documented_fields() {
    let request = events::api_gateway_v2("POST", "/payments/o-1?dry=1&tag=a b&tag=c")
        .header("Idempotency-Key", "k-1")
        .header("Cookie", "s=1; t=2")
        .header("X-Tag", "a")
        .header("x-tag", "b")
        .claim("sub", "u-1")
        .route("POST /payments/{id}")
        .path_parameter("id", "o-1")
        .stage_variable("table", "t")
        .json(&json!({"amount": 42}));
    let event = request.to_value();
    // As in the developer guide of API Gateway, without a client certificate.
    assert_eq!(
        names(&event),
        [
            "body",
            "cookies",
            "headers",
            "isBase64Encoded",
            "pathParameters",
            "queryStringParameters",
            "rawPath",
            "rawQueryString",
            "requestContext",
            "routeKey",
            "stageVariables",
            "version"
        ]
    );
    assert_eq!(
        names(&event["requestContext"]),
        [
            "accountId",
            "apiId",
            "authorizer",
            "domainName",
            "domainPrefix",
            "http",
            "requestId",
            "routeKey",
            "stage",
            "time",
            "timeEpoch"
        ]
    );
    assert_eq!(
        names(&event["requestContext"]["http"]),
        ["method", "path", "protocol", "sourceIp", "userAgent"]
    );
    assert_eq!(event["headers"]["x-tag"], "a,b");
    assert_eq!(event["headers"]["content-length"], "13");
    assert_eq!(event["headers"]["content-type"], "application/json");
    assert_eq!(event["headers"].get("cookie"), None);
    assert_eq!(event["cookies"], json!(["s=1", "t=2"]));
    assert_eq!(event["rawQueryString"], "dry=1&tag=a%20b&tag=c");
    assert_eq!(
        event["queryStringParameters"],
        json!({"dry": "1", "tag": "a b,c"})
    );
    assert_eq!(lost::<ApiGatewayV2httpRequest>(&event), [""; 0]);
    let typed: ApiGatewayV2httpRequest = request.parse().unwrap();
    assert_eq!(typed.headers["idempotency-key"], "k-1");
    assert_eq!(
        typed
            .request_context
            .authorizer
            .unwrap()
            .jwt
            .unwrap()
            .claims["sub"],
        "u-1"
    );
}

#[test]
fn a_request_without_body_query_and_cookies_has_no_such_fields_in_format_2_0() {
    let event = events::api_gateway_v2("GET", "/").stage("prod").to_value();
    for absent in [
        "body",
        "cookies",
        "queryStringParameters",
        "pathParameters",
        "stageVariables",
    ] {
        assert_eq!(event.get(absent), None, "{absent}");
    }
    assert_eq!(
        (&event["rawPath"], &event["rawQueryString"]),
        (&json!("/prod/"), &json!(""))
    );
    assert_eq!(event["routeKey"], "GET /");
}

#[test]
fn the_authorizers_of_format_2_0_are_where_api_gateway_puts_them() {
    let request = events::api_gateway_v2("POST", "/");
    let lambda = request.clone().authorizer("user", "u-1").to_value();
    assert_eq!(
        lambda["requestContext"]["authorizer"],
        json!({"lambda": {"user": "u-1"}})
    );
    assert_eq!(lost::<ApiGatewayV2httpRequest>(&lambda), [""; 0]);
    let iam = request.iam_user("checkout").to_value();
    let arn = &iam["requestContext"]["authorizer"]["iam"]["userArn"];
    assert_eq!(arn, "arn:aws:iam::123456789012:user/checkout");
    assert_eq!(lost::<ApiGatewayV2httpRequest>(&iam), [""; 0]);
}

#[test]
fn a_request_of_format_1_0_has_the_documented_fields() {
    let request = events::api_gateway_v1("POST", "/payments/o-1?tag=a&tag=b")
        .header("Idempotency-Key", "k-1")
        .header("X-Tag", "a")
        .header("X-Tag", "b")
        .claim("sub", "u-1")
        .api_key("key-1")
        .resource("/payments/{id}")
        .path_parameter("id", "o-1")
        .body("text");
    let event = request.to_value();
    assert_eq!(
        names(&event),
        [
            "body",
            "headers",
            "httpMethod",
            "isBase64Encoded",
            "multiValueHeaders",
            "multiValueQueryStringParameters",
            "path",
            "pathParameters",
            "queryStringParameters",
            "requestContext",
            "resource",
            "stageVariables"
        ]
    );
    assert_eq!(event["headers"]["X-Tag"], "b");
    assert_eq!(event["multiValueHeaders"]["X-Tag"], json!(["a", "b"]));
    assert_eq!(event["queryStringParameters"], json!({"tag": "b"}));
    assert_eq!(
        event["multiValueQueryStringParameters"],
        json!({"tag": ["a", "b"]})
    );
    assert_eq!(event["stageVariables"], Value::Null);
    assert_eq!(event["requestContext"]["path"], "/prod/payments/o-1");
    assert_eq!(event["requestContext"]["identity"]["apiKeyId"], "key-1");
    let typed: ApiGatewayProxyRequest = request.parse().unwrap();
    assert_eq!(typed.headers["idempotency-key"], "k-1");
    assert_eq!(typed.multi_value_headers.get_all("x-tag").iter().count(), 2);
    assert_eq!(
        typed.request_context.authorizer.fields["claims"]["sub"],
        "u-1"
    );
    // The type has no field for these, and writes header names in lower case.
    let unknown = |path: &&String| {
        let fields = [
            "/requestContext/deploymentId",
            "/requestContext/extendedRequestId",
        ];
        !fields.contains(&&***path) && !path.to_lowercase().contains("headers/")
    };
    assert_eq!(
        lost::<ApiGatewayProxyRequest>(&event)
            .iter()
            .filter(unknown)
            .count(),
        0
    );
}

#[test]
fn a_signed_request_of_format_1_0_names_its_user() {
    let event = events::api_gateway_v1("GET", "/")
        .iam_user("checkout")
        .to_value();
    let identity = &event["requestContext"]["identity"];
    assert_eq!(
        identity["userArn"],
        "arn:aws:iam::123456789012:user/checkout"
    );
    assert_eq!(
        (&event["body"], &event["queryStringParameters"]),
        (&Value::Null, &Value::Null)
    );
    let _: ApiGatewayProxyRequest = serde_json::from_value(event).unwrap();
}

#[test]
fn a_load_balancer_sends_one_value_or_lists() {
    let request = events::alb("POST", "/payments?tag=a b&tag=c")
        .header("Idempotency-Key", "k-1")
        .header("X-Tag", "a")
        .header("X-Tag", "b")
        .bytes([0, 159, 146, 150]);
    let event = request.to_value();
    assert_eq!(
        names(&event),
        [
            "body",
            "headers",
            "httpMethod",
            "isBase64Encoded",
            "path",
            "queryStringParameters",
            "requestContext"
        ]
    );
    assert_eq!(
        (&event["body"], &event["isBase64Encoded"]),
        (&json!("AJ+Slg=="), &json!(true))
    );
    assert_eq!(
        (&event["headers"]["x-tag"], &event["queryStringParameters"]),
        (&json!("b"), &json!({"tag": "c"}))
    );
    assert_eq!(lost::<AlbTargetGroupRequest>(&event), [""; 0]);

    let event = request.multi_value_headers().to_value();
    assert_eq!(event["multiValueHeaders"]["x-tag"], json!(["a", "b"]));
    assert_eq!(
        event["multiValueQueryStringParameters"],
        json!({"tag": ["a%20b", "c"]})
    );
    assert_eq!(
        (event.get("headers"), event.get("queryStringParameters")),
        (None, None)
    );
    assert_eq!(lost::<AlbTargetGroupRequest>(&event), [""; 0]);
}

#[test]
fn a_function_url_names_its_caller() {
    let request = events::function_url("POST", "/pay?a=1")
        .header("Cookie", "s=1")
        .json(&json!({"amount": 1}));
    let event = request.to_value();
    assert_eq!(event["requestContext"]["accountId"], "anonymous");
    assert_eq!(event["requestContext"].get("authorizer"), None);
    let signed = request.iam_user("checkout").to_value();
    assert_eq!(signed["requestContext"]["accountId"], "123456789012");
    let typed: LambdaFunctionUrlRequest = serde_json::from_value(signed.clone()).unwrap();
    let user = typed
        .request_context
        .authorizer
        .unwrap()
        .iam
        .unwrap()
        .user_arn;
    assert_eq!(
        user.as_deref(),
        Some("arn:aws:iam::123456789012:user/checkout")
    );
    // The type has no field for the sentinel values of the features that function URLs do not have.
    let sentinels = [
        "/requestContext/routeKey",
        "/requestContext/stage",
        "/routeKey",
    ];
    assert_eq!(lost::<LambdaFunctionUrlRequest>(&signed), sentinels);
}
