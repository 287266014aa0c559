//! The layer for events, with each error type of a service.

use std::time::Duration;

use idempotency_lambda::{
    BoxError, IdempotencyLayer, KeyRequired, LambdaEvent, Operation, Raw, ServiceError, diagnostic,
};
use idempotency_tests::process::{error_type, start};
use lambda_runtime::Diagnostic;
use serde_json::{Value, json};
use tower::ServiceBuilder;

/// An error that knows nothing of this framework and of Lambda.
#[derive(Debug, thiserror::Error)]
#[error("the card was declined")]
struct CardDeclined;

async fn boxed(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    own(event).await.map_err(BoxError::from)
}

async fn own(event: LambdaEvent<Value>) -> Result<Value, CardDeclined> {
    if event.payload["card"] == "bad" {
        return Err(CardDeclined);
    }
    Ok(json!({ "charged": event.payload["amount"], "by": event.context.request_id }))
}

async fn diagnosed(event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    own(event).await.map_err(|error| Diagnostic {
        error_type: "Payments.CardDeclined".to_owned(),
        error_message: error.to_string(),
    })
}

/// Starts the function in one of its forms.
pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    idempotency_lambda::init().await?;
    let charge = Operation::builder("shop::charge")
        .key("order_id")
        .key_required(KeyRequired::All)
        .validate("amount")
        .build()?;
    let layer = IdempotencyLayer::new(charge);
    let builder = ServiceBuilder::new();
    match role {
        "boxed" => lambda_runtime::run(builder.layer(layer).service_fn(boxed)).await,
        "own" => lambda_runtime::run(builder.layer(layer).service_fn(own)).await,
        "diagnosed" => {
            let builder = builder.layer(layer).map_err(ServiceError::from);
            lambda_runtime::run(builder.service_fn(diagnosed)).await
        }
        "timed" => {
            let builder = builder.map_err(diagnostic).timeout(Duration::from_secs(20));
            lambda_runtime::run(builder.layer(layer).service_fn(own)).await
        }
        "raw" => {
            let service =
                builder
                    .layer(layer)
                    .service_fn(async |event: LambdaEvent<Raw<Value>>| {
                        own(LambdaEvent::new(event.payload.into_inner(), event.context)).await
                    });
            lambda_runtime::run(service).await
        }
        "concurrent" => lambda_runtime::run_concurrent(builder.layer(layer).service_fn(own)).await,
        other => Err(format!("there is no role {other}").into()),
    }
}

fn order(card: &str, amount: u32) -> String {
    json!({ "order_id": "o-1", "amount": amount, "card": card }).to_string()
}

#[tokio::test]
async fn lambda_gets_the_stable_names_for_each_error_type_of_the_service() -> Result<(), BoxError> {
    for (role, declined) in [
        ("boxed", "Error"),
        ("own", "CardDeclined"),
        ("diagnosed", "Payments.CardDeclined"),
        ("timed", "CardDeclined"),
        ("raw", "CardDeclined"),
        ("concurrent", "CardDeclined"),
    ] {
        let (_database, lambda) = start(format!("layer/{role}")).await?;
        let process = lambda.start_process().await?;
        let ended = async |event: String| error_type(process.invoke(event).await);
        assert_eq!(ended(order("bad", 1)).await, declined, "{role}");
        let missing = ended(r#"{"amount": 1}"#.to_owned()).await;
        assert_eq!(missing, "IdempotencyKeyMissing", "{role}");
        let first = process.invoke(order("good", 1)).await?.json()?;
        assert_eq!(first["charged"], 1, "{role}");
        let again = process.invoke(order("good", 1)).await?.json()?;
        assert_eq!(again, first, "{role}");
        let other = ended(order("good", 2)).await;
        assert_eq!(other, "IdempotencyPayloadMismatch", "{role}");
    }
    Ok(())
}
