//! Functions that ask for their call: it is absent from the signature that callers see.
#![warn(missing_docs, clippy::all, clippy::pedantic)]
#![allow(clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::sqs::SqsEvent;
use idempotency_lambda::batch::Message;
use idempotency_lambda::{BoxError, Call, Context, LambdaEvent, Run, StepRetry, Steps, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

struct App(&'static str);

#[idempotent]
async fn after_the_event(event: LambdaEvent<Order>, call: Call) -> Result<String, BoxError> {
    if call.which_run() != Run::First {
        return Ok(format!("order {} again", event.payload.id));
    }
    Ok(call.token("charge").to_string())
}

#[idempotent]
async fn with_patterns(
    LambdaEvent { payload, .. }: LambdaEvent<Order>,
    mut call: idempotency_lambda::Call,
) -> Result<u64, BoxError> {
    call = call.clone();
    drop(call);
    Ok(payload.id)
}

#[idempotent]
async fn unused(event: LambdaEvent<Order>, _: Call) -> Result<u64, BoxError> {
    Ok(event.payload.id)
}

#[idempotent(payload = order.id, key_prefix = "generic")]
async fn before_the_payload<'a, T: Send + Sync>(
    #[allow(unused_variables)] call: Call,
    order: &'a Order,
    others: &'a [T],
) -> anyhow::Result<String> {
    anyhow::ensure!(order.id > 0 && others.is_empty(), "no order");
    Ok("order".to_owned())
}

impl App {
    #[idempotent(payload = (self.0, id), key_prefix = "app.ship")]
    async fn ship(&self, id: u64, call: Call) -> Result<String, BoxError> {
        Ok(format!("{} {id} {:?}", self.0, call.key()))
    }
}

const STEPS: Steps = Steps::Forget;

#[idempotent(steps = "keep")]
async fn with_steps(event: LambdaEvent<Order>, call: Call) -> Result<Order, BoxError> {
    let id = event.payload.id;
    let reserve = call.step("reserve", || async { Ok::<_, BoxError>(id + 1) });
    let look_up = call.step("look up", async || Ok::<_, BoxError>("name".to_owned()));
    let (reserved, _): (u64, String) = (reserve.await?, look_up.await?);
    let charge = call.named_step("charge").retry(StepRetry::tries(3));
    let token = charge.token();
    let charged = charge.run(|| async { Ok::<_, BoxError>(format!("{reserved} {token}")) });
    let charged: String = charged.await?;
    let shipped: Result<Option<Order>, BoxError> = call
        .step("ship", || ship_order(&event.payload, charged.len()))
        .await;
    shipped?.ok_or_else(|| "nothing to ship".into())
}

fn ship_order(
    order: &Order,
    parcels: usize,
) -> impl Future<Output = Result<Option<Order>, BoxError>> + Send + use<> {
    let shipped = (parcels > 0).then_some(Order { id: order.id });
    std::future::ready(Ok(shipped))
}

#[idempotent(sqs, steps = STEPS)]
async fn with_steps_of_a_record(order: Order, call: Call) -> Result<u64, BoxError> {
    for parcel in 0..order.id {
        let name = format!("ship {parcel}");
        call.step(&name, || async move { Ok::<_, BoxError>(parcel) })
            .await?;
    }
    Ok(order.id)
}

#[idempotent(http, shared_by_all_callers)]
async fn over_http(
    app: &App,
    event: LambdaEvent<ApiGatewayV2httpRequest>,
    call: Call,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = ApiGatewayV2httpResponse::default();
    response.body = event.payload.body.map(Into::into);
    let token = format!("{}-{}", app.0, call.token("charge"));
    response.headers.insert("x-token", token.parse()?);
    Ok(response)
}

#[idempotent(sqs)]
async fn of_a_record(app: &App, message: Message<Order>, call: Call) -> Result<String, BoxError> {
    Ok(format!(
        "{} {} {}",
        app.0,
        message.body.id,
        call.token("reserve")
    ))
}

/// Types of the program with the same name.
mod phone {
    use super::{BoxError, Deserialize, Serialize, idempotent};

    #[derive(Serialize, Deserialize)]
    pub(super) struct Call {
        pub(super) number: String,
    }

    #[idempotent(payload = call.number)]
    pub(super) async fn bill(tariff: u64, call: Call) -> Result<u64, BoxError> {
        Ok(tariff + call.number.len() as u64)
    }

    #[idempotent(sqs)]
    pub(super) async fn record(call: Call) -> Result<String, BoxError> {
        Ok(call.number)
    }
}

fn sends<T: Send>(_: T) {}

/// Calls what is above.
pub fn main() {
    let order = || LambdaEvent::new(Order { id: 1 }, Context::default());
    sends(after_the_event(order()));
    sends(with_patterns(order()));
    sends(unused(order()));
    sends(before_the_payload::<u8>(&order().payload, &[]));
    let app = App("shop");
    sends(app.ship(1));
    let request = LambdaEvent::new(ApiGatewayV2httpRequest::default(), Context::default());
    sends(over_http(&app, request));
    let messages = || LambdaEvent::new(SqsEvent::default(), Context::default());
    sends(of_a_record(&app, messages()));
    sends(with_steps(order()));
    sends(with_steps_of_a_record(messages()));
    let number = "1".to_owned();
    sends(phone::bill(1, phone::Call { number }));
    sends(phone::record(messages()));
}
