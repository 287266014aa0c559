//! All shapes on one table, with one prefix, key and validated part: they make one record, and replay each other's response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lambda_events::sqs::SqsEvent;
use idempotency_http::HttpOperation;
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{
    BoxError, Context, Deadline, IdempotencyLayer, LambdaEvent, Operation, OperationBuilder,
    Variables, idempotent, with_backend,
};
use idempotency_testkit::events;
use idempotency_tests::Table;
use lambda_http::{Body, Request, Response};
use lambda_runtime::service_fn;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::{Layer, ServiceExt};

const PREFIX: &str = "shapes.charge";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Attribute,
    Operation,
    Layer,
    Batch,
    Http,
}

const SHAPES: [Shape; 5] = [
    Shape::Attribute,
    Shape::Operation,
    Shape::Layer,
    Shape::Batch,
    Shape::Http,
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    order_id: u32,
    amount: u32,
}

/// A response in the form that the HTTP layer stores, so that every shape can replay every other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    status_code: u16,
    headers: BTreeMap<String, String>,
    body: String,
    is_base64_encoded: bool,
}

/// Counts the runs of all shapes.
#[derive(Clone, Default)]
struct Shop(Arc<AtomicUsize>);

impl Shop {
    fn charge(&self, order: &Order) -> Result<Reply, BoxError> {
        let run = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Reply {
            status_code: 201,
            headers: BTreeMap::from([("content-type".to_owned(), "text/plain".to_owned())]),
            body: format!("run {run} charged {}", order.amount),
            is_base64_encoded: false,
        })
    }
}

#[idempotent(
    payload = order,
    key = "order_id",
    validate = "['POST', '/', amount]",
    key_prefix = "shapes.charge",
    shared_key_prefix = true
)]
async fn annotated(shop: &Shop, order: &Order) -> Result<Reply, BoxError> {
    shop.charge(order)
}

fn builder() -> OperationBuilder {
    Operation::builder("shapes::charge")
        .variables(Variables::default())
        .key("order_id")
        .validate("['POST', '/', amount]")
        .key_prefix(PREFIX)
        .shared_key_prefix(true)
}

/// Makes a call in one shape. Returns its response, or `None` for a batch, which does not return it.
async fn call(
    shape: Shape,
    table: &Table,
    shop: &Shop,
    order: Order,
) -> Result<Option<Reply>, BoxError> {
    let shop = shop.clone();
    let call = async {
        match shape {
            Shape::Attribute => annotated(&shop, &order).await.map(Some),
            Shape::Operation => {
                let operation = builder().build()?;
                let run = || async { shop.charge(&order) };
                let outcome = operation.run(&order, Deadline::Inherited, run).await?;
                Ok(Some(outcome.into_response()))
            }
            Shape::Layer => {
                let handler = move |event: LambdaEvent<Order>| {
                    let reply = shop.charge(&event.payload);
                    async move { reply }
                };
                let layer = IdempotencyLayer::new(builder().build()?);
                let event = LambdaEvent::new(order, Context::default());
                Ok(Some(layer.layer(service_fn(handler)).oneshot(event).await?))
            }
            Shape::Batch => {
                let operation = builder().build()?;
                let event: SqsEvent = events::sqs("orders").json(&order).parse()?;
                let event = LambdaEvent::new(event, Context::default());
                let run = |order: Order| {
                    let reply = shop.charge(&order);
                    async move { reply }
                };
                let response = Batch::new(&operation).run(event, run).await?;
                match response.batch_item_failures.is_empty() {
                    true => Ok(None),
                    false => Err("the record is returned".into()),
                }
            }
            Shape::Http => http(table, shop, &order).await.map(Some),
        }
    };
    with_backend(table.backend.clone(), call).await
}

/// A request whose key and fingerprint are those of the other shapes: HTTP always compares method and path.
async fn http(table: &Table, shop: Shop, order: &Order) -> Result<Reply, BoxError> {
    let operation = HttpOperation::builder("shapes::http")
        .variables(Variables::default())
        .key_prefix(PREFIX)
        .key("powertools_json(body).order_id")
        .fingerprint("powertools_json(body).amount")
        .shared_by_all_callers()
        .build()?;
    let inner = service_fn(move |request: Request| {
        let order: Result<Order, _> = serde_json::from_slice(request.body());
        let reply = order
            .map_err(BoxError::from)
            .and_then(|order| shop.charge(&order));
        async move {
            let reply = reply?;
            let response = Response::builder().status(reply.status_code);
            let response = reply
                .headers
                .iter()
                .fold(response, |response, (name, value)| {
                    response.header(name, value)
                });
            Ok::<_, BoxError>(response.body(Body::from(reply.body))?)
        }
    });
    let request = Request::new(Body::from(serde_json::to_string(order)?));
    let (mut parts, body) = request.into_parts();
    parts.method = lambda_http::http::Method::POST;
    parts
        .headers
        .insert("content-type", "application/json".parse()?);
    let service = operation.layer(table.backend.clone()).layer(inner);
    let response = service.oneshot(Request::from_parts(parts, body)).await?;
    let (parts, body) = response.into_parts();
    let body = http_body_util::BodyExt::collect(body)
        .await
        .map_err(|_| "no body")?
        .to_bytes();
    if !parts.status.is_success() {
        return Err(format!("{} {}", parts.status, String::from_utf8_lossy(&body)).into());
    }
    let content_type = parts.headers["content-type"].to_str()?.to_owned();
    Ok(Reply {
        status_code: parts.status.as_u16(),
        headers: BTreeMap::from([("content-type".to_owned(), content_type)]),
        body: String::from_utf8(body.to_vec())?,
        is_base64_encoded: false,
    })
}

fn order(amount: u32) -> Order {
    Order {
        order_id: 7,
        amount,
    }
}

/// The attributes of a record that do not depend on the shape: all but the owner's token and the path of the operation.
async fn record(table: &Table) -> BTreeMap<String, String> {
    let mut item = table.only_item().await.unwrap();
    let text = item.clone();
    item.retain(|name, _| {
        ["id", "data", "status", "validation", "expiration"].contains(&name.as_str())
    });
    assert_eq!(item.len(), 5, "{text:?}");
    item
}

#[tokio::test]
async fn every_shape_makes_the_same_record() {
    let mut records = Vec::new();
    for shape in SHAPES {
        let (table, shop) = (Table::start().await.unwrap(), Shop::default());
        call(shape, &table, &shop, order(42)).await.unwrap();
        records.push((shape, record(&table).await));
    }
    let (_, first) = records[0].clone();
    assert!(first["id"].starts_with("shapes.charge#"));
    let data: Value = serde_json::from_str(&first["data"]).unwrap();
    assert_eq!(data["body"], json!("run 1 charged 42"));
    for (shape, record) in records {
        assert_eq!(record, first, "{shape:?}");
    }
}

#[tokio::test]
async fn every_shape_replays_the_response_of_every_other() {
    for first in SHAPES {
        let (table, shop) = (Table::start().await.unwrap(), Shop::default());
        call(first, &table, &shop, order(42)).await.unwrap();
        let stored = record(&table).await;
        for second in SHAPES {
            let reply = call(second, &table, &shop, order(42)).await.unwrap();
            if let Some(reply) = reply {
                assert_eq!(reply.body, "run 1 charged 42", "{first:?} then {second:?}");
                assert_eq!(reply.status_code, 201);
            }
        }
        assert_eq!(shop.0.load(Ordering::Relaxed), 1, "after {first:?}");
        assert_eq!(record(&table).await, stored, "after {first:?}");
    }
}

#[tokio::test]
async fn every_shape_refuses_another_payload_under_the_key_of_every_other() {
    for first in SHAPES {
        let (table, shop) = (Table::start().await.unwrap(), Shop::default());
        call(first, &table, &shop, order(42)).await.unwrap();
        for second in SHAPES {
            let error = call(second, &table, &shop, order(43))
                .await
                .unwrap_err()
                .to_string();
            let expected = match second {
                Shape::Batch => "the record is returned",
                Shape::Http => "422",
                _ => "this key was used",
            };
            assert!(
                error.contains(expected),
                "{first:?} then {second:?}: {error}"
            );
        }
        assert_eq!(shop.0.load(Ordering::Relaxed), 1);
    }
}
