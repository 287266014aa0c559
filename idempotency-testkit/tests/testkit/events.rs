//! Every event has the fields that AWS sends, as `golden.json` has them, and the types of `aws_lambda_events` read it without a
//! loss.

use aws_lambda_events::event::alb::AlbTargetGroupRequest;
use aws_lambda_events::event::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::event::dynamodb::Event as DynamoDbEvent;
use aws_lambda_events::event::eventbridge::EventBridgeEvent;
use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::lambda_function_urls::LambdaFunctionUrlRequest;
use aws_lambda_events::event::sqs::SqsEvent;
use idempotency_testkit::events::{self, AwsRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Compares an event with the golden one and returns the paths that a type lost or changed when it read and wrote the event.
fn lost<T: DeserializeOwned + Serialize>(name: &str, event: &Value) -> Vec<String> {
    let golden: Value = serde_json::from_str(include_str!("events/golden.json")).unwrap();
    assert_eq!(*event, golden[name], "{name}: {event:#}");
    let typed: T = serde_json::from_value(event.clone()).unwrap();
    let mut lost = Vec::new();
    compare("", event, &serde_json::to_value(typed).unwrap(), &mut lost);
    lost
}

fn compare(path: &str, sent: &Value, read: &Value, lost: &mut Vec<String>) {
    match (sent, read) {
        (Value::Object(sent), _) => {
            for (name, value) in sent {
                compare(&format!("{path}/{name}"), value, &read[name], lost);
            }
        }
        (Value::Array(sent), _) => {
            for (index, value) in sent.iter().enumerate() {
                compare(&format!("{path}/{index}"), value, &read[index], lost);
            }
        }
        // A type may write an absent field as an empty one.
        (Value::Null, Value::Null) => {}
        (Value::Null, Value::Object(fields)) if fields.is_empty() => {}
        (sent, read)
            if sent == read || sent.as_f64().is_some() && sent.as_f64() == read.as_f64() => {}
        _ => lost.push(path.to_owned()),
    }
}

#[test]
fn requests_of_format_2_0_are_as_api_gateway_sends_them() {
    type Request = ApiGatewayV2httpRequest;
    let full = events::api_gateway_v2("POST", "/payments/o-1?dry=1&tag=a b&tag=c")
        .header("Idempotency-Key", "k-1")
        .header("Cookie", "s=1; t=2")
        .header("X-Tag", "a")
        .header("x-tag", "b")
        .claim("iss", "https://id.example.com/")
        .claim("sub", "u-1")
        .json(&json!({"amount": 42}));
    let empty = events::api_gateway_v2("GET", "/");
    let post = events::api_gateway_v2("POST", "/");
    let lambda = "/requestContext/authorizer/lambda/user";
    let lambda = post.clone().with(lambda, "u-1").bytes([0, 159, 146, 150]);
    let iam = post.header("User-Agent", "cli/1").iam_user("checkout");
    for (name, event) in [
        ("api_gateway_v2", &full),
        ("api_gateway_v2 without body", &empty),
        ("api_gateway_v2 with a Lambda authorizer", &lambda),
        ("api_gateway_v2 with IAM", &iam.body("text")),
    ] {
        assert_eq!(lost::<Request>(name, &event.to_value()), [""; 0]);
    }
    let typed: Request = full.parse().unwrap();
    assert_eq!(typed.headers["idempotency-key"], "k-1");
    let jwt = typed.request_context.authorizer.unwrap().jwt;
    assert_eq!(jwt.unwrap().claims["sub"], "u-1");
}

#[test]
fn requests_of_format_1_0_are_as_api_gateway_sends_them() {
    let full = events::api_gateway_v1("POST", "/payments/o-1?tag=a&tag=b")
        .header("Idempotency-Key", "k-1")
        .header("X-Tag", "a")
        .header("X-Tag", "b")
        .claim("sub", "u-1")
        .body("text");
    let get = events::api_gateway_v1("GET", "/");
    let iam = get
        .clone()
        .header("user-agent", "cli/1")
        .iam_user("checkout");
    let lambda = get.with("/requestContext/authorizer/principalId", "u-1");
    for (name, event) in [
        ("api_gateway_v1", &full),
        ("api_gateway_v1 with IAM", &iam),
        ("api_gateway_v1 with a Lambda authorizer", &lambda),
    ] {
        let mut lost = lost::<ApiGatewayProxyRequest>(name, &event.to_value());
        // The type has no field for these, and writes header names in lower case.
        let unknown = [
            "/requestContext/deploymentId",
            "/requestContext/extendedRequestId",
        ];
        lost.retain(|path| {
            !unknown.contains(&&**path) && !path.to_lowercase().contains("headers/")
        });
        assert_eq!(lost, [""; 0], "{name}");
    }
    let typed: ApiGatewayProxyRequest = full.parse().unwrap();
    assert_eq!(typed.headers["idempotency-key"], "k-1");
    assert_eq!(typed.multi_value_headers.get_all("x-tag").iter().count(), 2);
    let claims = &typed.request_context.authorizer.fields["claims"];
    assert_eq!(claims["sub"], "u-1");
}

#[test]
fn a_load_balancer_sends_one_value_or_lists() {
    let request = events::alb("POST", "/payments?tag=a b&tag=c")
        .header("Idempotency-Key", "k-1")
        .header("X-Tag", "a")
        .header("X-Tag", "b")
        .bytes([0, 159, 146, 150]);
    for (name, event) in [
        ("alb", request.to_value()),
        ("alb with lists", request.multi_value_headers().to_value()),
        ("alb without body", events::alb("GET", "/").to_value()),
    ] {
        assert_eq!(lost::<AlbTargetGroupRequest>(name, &event), [""; 0]);
    }
}

#[test]
fn a_function_url_names_its_caller() {
    let anonymous = events::function_url("POST", "/pay?a=1")
        .header("Cookie", "s=1")
        .json(&json!({"amount": 1}));
    let signed = events::function_url("POST", "/pay").iam_user("checkout");
    for (name, event) in [
        ("function_url", anonymous.to_value()),
        ("function_url with IAM", signed.to_value()),
    ] {
        // The type has no field for the sentinel values of the features that function URLs do not have.
        let sentinels = [
            "/requestContext/routeKey",
            "/requestContext/stage",
            "/routeKey",
        ];
        assert_eq!(lost::<LambdaFunctionUrlRequest>(name, &event), sentinels);
    }
    let typed: LambdaFunctionUrlRequest = signed.parse().unwrap();
    let iam = typed.request_context.authorizer.unwrap().iam.unwrap();
    let arn = "arn:aws:iam::123456789012:user/checkout";
    assert_eq!(iam.user_arn.as_deref(), Some(arn));
}

#[test]
fn messages_are_as_sqs_sends_them() {
    let count = "/attributes/ApproximateReceiveCount";
    let message = || AwsRecord::new("Test message.").with(count, "3");
    let attributes = message()
        .attribute("tenant", "blue")
        .attribute("file", "a.csv");
    let json = AwsRecord::json(&json!({"amount": 42})).with(count, "3");
    let standard = events::sqs("orders").records([attributes, message(), json]);
    let in_group = AwsRecord::json(&2).group("u-1");
    let fifo = events::sqs("orders.fifo").json(&1).records([
        in_group
            .clone()
            .with("/attributes/MessageDeduplicationId", "d-1"),
        AwsRecord::new("x").id("m-1").group("u-1"),
    ]);
    for (name, event) in [
        ("sqs", standard),
        ("sqs fifo", fifo),
        (
            "sqs groups on a standard queue",
            events::sqs("orders").records([in_group]),
        ),
    ] {
        assert_eq!(lost::<SqsEvent>(name, &event.to_value()), [""; 0]);
    }
}

#[test]
fn a_message_keeps_its_id_in_another_batch_and_a_second_copy_has_its_own() {
    let ids = |queue: &str, texts: &[&str]| {
        let messages = texts.iter().map(|text| AwsRecord::new(*text));
        events::sqs(queue).records(messages).ids()
    };
    let first = ids("orders", &["a", "b", "a"]);
    assert_eq!(ids("orders", &["b"]), first[1..2]);
    assert_ne!(first[0], first[2]);
    assert_ne!(ids("refunds", &["a"])[0], first[0]);
    let named = AwsRecord::new("a").id("m-1");
    assert_eq!(events::sqs("orders").records([named]).ids(), ["m-1"]);
}

#[test]
fn records_of_a_stream_follow_each_other() {
    let batch = events::kinesis("ledger")
        .json(&json!({"entry": 1}))
        .records([AwsRecord::new([255]).group("account-7")])
        .shard(6);
    let numbered = events::kinesis("ledger").records([AwsRecord::new([255]).id("7")]);
    for (name, event) in [
        ("kinesis", batch.clone().starting_at(4)),
        ("kinesis with sequence number", numbered),
    ] {
        // The type reads milliseconds and writes seconds.
        let mut lost = lost::<KinesisEvent>(name, &event.to_value());
        lost.retain(|path| !path.ends_with("/approximateArrivalTimestamp"));
        assert_eq!(lost, [""; 0]);
    }
    let numbers = batch.ids();
    assert!(numbers[0] < numbers[1], "{numbers:?}");
    assert!(
        numbers.iter().all(|number| number.len() == 56),
        "{numbers:?}"
    );
    assert_eq!(batch.clone().starting_at(2).ids()[0], numbers[1]);
    let typed: KinesisEvent = batch.parse().unwrap();
    let record = &typed.records[0].kinesis;
    assert_eq!(record.data.0, br#"{"entry":1}"#);
    let arrival = record.approximate_arrival_timestamp.0;
    assert_eq!(arrival.timestamp_millis(), 1_744_193_729_513);
}

#[test]
fn a_change_of_an_item_has_keys_and_images() {
    let keys = json!({"id": "o-1"});
    let new = json!({"id": "o-1", "tags": ["a", null, true], "at": {"n": 1.5}});
    let batch = events::dynamodb_stream("orders")
        .change(&keys, None, Some(&new))
        .change(&keys, Some(&keys), Some(&json!({"id": "o-1", "n": 2})))
        .change(&keys, Some(&keys), None);
    let event = batch.to_value();
    assert_eq!(lost::<DynamoDbEvent>("dynamodb_stream", &event), [""; 0]);
    let numbers = batch.ids();
    assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2]);
}

#[test]
fn an_event_of_a_bus_has_the_documented_fields() {
    let of = |order_id: &str| {
        let detail = json!({ "order_id": order_id });
        events::event_bridge("shop.orders", "OrderPaid", &detail).to_value()
    };
    let event = of("o-1");
    assert_eq!(
        lost::<EventBridgeEvent<Value>>("event_bridge", &event),
        [""; 0]
    );
    assert_eq!(of("o-1")["id"], event["id"]);
    assert_ne!(of("o-2")["id"], event["id"]);
}

#[test]
fn any_field_can_be_set() {
    let message = AwsRecord::new("a").with("/attributes/AWSTraceHeader", "Root=1");
    let batch = events::sqs("orders").records([message]);
    let event = batch.with("/Records/0/awsRegion", "us-east-1").to_value();
    assert_eq!(event["Records"][0]["awsRegion"], "us-east-1");
    assert_eq!(
        event["Records"][0]["attributes"]["AWSTraceHeader"],
        "Root=1"
    );
    let text: String = events::event_bridge("a", "b", &1)
        .with("/replay-name", "r")
        .to_string();
    assert!(text.contains(r#""replay-name":"r""#), "{text}");
}

#[test]
#[should_panic(expected = "a DynamoDB stream has changes")]
fn a_message_in_a_batch_of_changes_is_refused() {
    let _ = events::dynamodb_stream("orders").records([AwsRecord::new("a")]);
}
