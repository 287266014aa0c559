//! One function in each shape, with the same business logic.

use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use aws_lambda_events::streams::KinesisEventResponse;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{
    BoxError, IdempotencyLayer, KeyRequired, LambdaEvent, Operation, Raw, idempotent, time_left,
};
use idempotency_testkit::events::{self, AwsBatch, AwsRecord};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tower::ServiceBuilder;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) order_id: String,
    pub(crate) card: Card,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Card {
    Good,
    Declined,
    /// The charge goes on until the test closes the connection at this address.
    Slow(String),
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    order_id: String,
    process: u32,
}

#[derive(Debug, thiserror::Error)]
#[error("the card was declined")]
struct CardDeclined;

/// The business logic. Each run has an effect, which the test counts in the log.
async fn charge(order: Order) -> Result<Receipt, CardDeclined> {
    assert!(time_left().is_some(), "the handler knows its invocation");
    println!("effect {}", order.order_id);
    match order.card {
        Card::Good => {}
        Card::Declined => return Err(CardDeclined),
        Card::Slow(address) => {
            let mut gate = TcpStream::connect(address).await.unwrap();
            let _ = gate.read(&mut [0]).await;
        }
    }
    Ok(Receipt {
        order_id: order.order_id,
        process: std::process::id(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Attribute,
    Layer,
    Http,
    Queue,
    Fifo,
    Kinesis,
}

pub(crate) const SHAPES: [Shape; 6] = [
    Shape::Attribute,
    Shape::Layer,
    Shape::Http,
    Shape::Queue,
    Shape::Fifo,
    Shape::Kinesis,
];

impl Shape {
    /// Returns the role of a process of this shape.
    pub(crate) fn role(self) -> String {
        format!("shapes/{self:?}").to_lowercase()
    }

    /// Returns true if a duplicate waits in its delivery for the lease of the call in progress, as records of streams do by default.
    pub(crate) fn waits(self) -> bool {
        self == Self::Kinesis
    }

    /// Returns the event of an order, as AWS sends it.
    pub(crate) fn event(self, order: &Order) -> String {
        match self {
            Self::Attribute | Self::Layer => serde_json::to_string(order).unwrap(),
            // The card is no part of the request's fingerprint, so that a retry can have another one.
            Self::Http => events::api_gateway_v2("POST", "/charges")
                .header("Idempotency-Key", format!("key-of-{}", order.order_id))
                .header("x-card", serde_json::to_string(&order.card).unwrap())
                .claim("sub", "u-1")
                .json(&order.order_id)
                .to_string(),
            Self::Queue | Self::Fifo | Self::Kinesis => self.batch([order.clone()]).to_string(),
        }
    }

    /// Returns the event of a queue, or of one group or shard. The id of a message does not depend on the card, so that
    /// an order with another card is the same message, delivered again.
    pub(crate) fn batch(self, orders: impl IntoIterator<Item = Order>) -> AwsBatch {
        let record = |order: Order| AwsRecord::json(&order).group("g-1");
        let message =
            |order: Order| record(order.clone()).id(format!("message-{}", order.order_id));
        let orders = orders.into_iter();
        match self {
            Self::Queue => events::sqs("orders").records(orders.map(message)),
            Self::Fifo => events::sqs("orders.fifo").records(orders.map(message)),
            _ => events::kinesis("ledger").records(orders.map(record)),
        }
    }
}

#[idempotent(
    key = "order_id",
    key_required = "all",
    key_prefix = "shapes.attribute"
)]
async fn annotated(event: LambdaEvent<Raw<Order>>) -> Result<Receipt, BoxError> {
    Ok(charge(event.payload.into_inner()).await?)
}

fn operation() -> Result<Operation, idempotency_lambda::Error> {
    let operation = Operation::builder("shop::charge").key("order_id");
    operation.key_required(KeyRequired::All).build()
}

async fn charge_over_http(
    headers: HeaderMap,
    Json(order_id): Json<String>,
) -> Result<(StatusCode, Json<Receipt>), (StatusCode, String)> {
    let card = serde_json::from_slice(headers["x-card"].as_bytes()).unwrap();
    match charge(Order { order_id, card }).await {
        Ok(receipt) => Ok((StatusCode::CREATED, Json(receipt))),
        Err(error) => Err((StatusCode::BAD_GATEWAY, error.to_string())),
    }
}

pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    if role == "http" {
        let idempotent = Operation::builder("shop::charge")
            .http()
            .caller("requestContext.authorizer.jwt.claims.sub")
            .build()?;
        let app = Router::new().route("/charges", post(charge_over_http));
        return idempotency_lambda::http::run(app.route_layer(idempotent)).await;
    }
    idempotency_lambda::init().await?;
    let operation = operation()?;
    match role {
        "attribute" => idempotency_lambda::run(annotated).await,
        "layer" => {
            let handler = async |event: LambdaEvent<Order>| charge(event.payload).await;
            let layer = IdempotencyLayer::new(operation);
            let service = ServiceBuilder::new().layer(layer);
            lambda_runtime::run(service.service_fn(handler)).await
        }
        "queue" | "fifo" => {
            let handler = async |event: LambdaEvent<SqsEvent>| {
                let response: SqsBatchResponse = Batch::new(&operation).run(event, charge).await?;
                Ok::<_, BoxError>(response)
            };
            idempotency_lambda::run(&handler).await
        }
        "kinesis" => {
            let handler = async |event: LambdaEvent<KinesisEvent>| {
                let response: KinesisEventResponse =
                    Batch::new(&operation).run(event, charge).await?;
                Ok::<_, BoxError>(response)
            };
            idempotency_lambda::run(&handler).await
        }
        other => Err(format!("there is no role {other}").into()),
    }
}
