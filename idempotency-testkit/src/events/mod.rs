//! Events as AWS sends them, for the tests of a function.
//!
//! Each function starts an event with all its fields set. Methods change what a test is about. The result is JSON text
//! ([`to_string`](ToString)), a [`serde_json::Value`] (`to_value`), or any type that reads the event (`parse`).
//!
//! | function | event | type of `aws_lambda_events` |
//! |---|---|---|
//! | [`api_gateway_v2`] | API Gateway HTTP API, payload format 2.0 | `ApiGatewayV2httpRequest` |
//! | [`api_gateway_v1`] | API Gateway REST API, payload format 1.0 | `ApiGatewayProxyRequest` |
//! | [`alb`] | Application Load Balancer | `AlbTargetGroupRequest` |
//! | [`function_url`] | function URL | `LambdaFunctionUrlRequest` |
//! | [`sqs`] | a batch of SQS messages, standard or FIFO | `SqsEvent` |
//! | [`kinesis`] | a batch of Kinesis records | `KinesisEvent` |
//! | [`dynamodb_stream`] | a batch of changes of a DynamoDB table | `dynamodb::Event` |
//! | [`event_bridge`] | one event of an EventBridge bus | `EventBridgeEvent` |
//!
//! Two events that are made in the same way are equal: times are fixed, and ids are computed from the content. So an event
//! that is made twice is a retry. Every event has the method `with`, which sets any field that no other method sets.
//!
//! # Examples
//!
//! ```
//! use idempotency_testkit::events;
//! use serde_json::json;
//!
//! let request = events::api_gateway_v2("POST", "/payments")
//!     .header("Idempotency-Key", "k-1")
//!     .claim("sub", "u-1")
//!     .json(&json!({"order_id": "o-1", "amount": 42}));
//! let event = request.to_value();
//! assert_eq!(event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"], "u-1");
//! assert_eq!(event["body"], r#"{"amount":42,"order_id":"o-1"}"#);
//! ```
//!
//! A batch, with a message that was sent twice:
//!
//! ```
//! use idempotency_testkit::events;
//! use serde_json::{Value, json};
//!
//! let order = json!({"order_id": "o-1"});
//! let event: Value = events::sqs("orders").json(&order).json(&order).parse()?;
//! assert_eq!(event["Records"][0]["body"], event["Records"][1]["body"]);
//! assert_ne!(event["Records"][0]["messageId"], event["Records"][1]["messageId"]);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! With the [local Lambda](crate::lambda), an event is passed as it is: `lambda.invoke(events::sqs("orders").json(&order))`.

mod batch;
mod event;
mod template;

pub use batch::{AwsBatch, AwsRecord, dynamodb_stream, kinesis, sqs};
pub use event::{AwsEvent, alb, api_gateway_v1, api_gateway_v2, event_bridge, function_url};
