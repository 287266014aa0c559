//! The functions: one business function in every shape.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_lambda_events::alb::{AlbTargetGroupRequest, AlbTargetGroupResponse};
use aws_lambda_events::apigw::{
    ApiGatewayProxyRequest, ApiGatewayProxyResponse, ApiGatewayV2httpRequest,
    ApiGatewayV2httpResponse,
};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::lambda_function_urls::{
    LambdaFunctionUrlRequest, LambdaFunctionUrlResponse,
};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{any, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use idempotency_dynamodb::DynamoDbStore;
use idempotency_lambda::{BoxError, LambdaEvent, Operation, Raw, http, idempotent, init};
use lambda_http::http::{HeaderMap, HeaderValue, StatusCode};
use lambda_http::{Request, Response, service_fn};
use lambda_runtime::tower::{Layer, ServiceBuilder};

use super::responses::CANARY;

/// Bytes that are not UTF-8.
pub(crate) const BINARY: &[u8] = &[0, 159, 146, 150, 255, 10];

/// The caller, wherever the source of a request writes it. A client cannot write `requestContext`.
const CALLER: &str = "requestContext.authorizer.jwt.claims.sub || requestContext.authorizer.claims.sub || \
     iam_caller(@) || header(@, 'x-amzn-oidc-identity')";

/// The caller of an HTTP API with a JWT authorizer.
pub(crate) const SUB: &str = "requestContext.authorizer.jwt.claims.sub";

/// A response of the business function.
struct Payment {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// The business function. The last part of the path says how it ends: `lambda_http` puts the stage before it.
async fn pay(path: &str, body: &[u8]) -> Result<Payment, BoxError> {
    static RUNS: AtomicU32 = AtomicU32::new(1);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let mut paid = Payment {
        status: StatusCode::CREATED,
        headers: HeaderMap::new(),
        body: format!(r#"{{"run":{run}}}"#).into_bytes(),
    };
    let mut header = |name: &'static str, value: &str| {
        paid.headers
            .append(name, HeaderValue::from_str(value).unwrap());
    };
    header("content-type", "application/json");
    header("location", &format!("/payments/{run}"));
    header("x-trace", "t-1");
    header("set-cookie", "session=s3cr3t");
    match path.rsplit('/').next().unwrap() {
        "slow" => {
            println!("charged");
            std::future::pending().await
        }
        "fails" => return Err("the card was declined".into()),
        "error" => paid.status = StatusCode::BAD_GATEWAY,
        "binary" => {
            paid.headers
                .insert("content-type", HeaderValue::from_static("image/png"));
            paid.body = [BINARY, body].concat();
        }
        _ => {}
    }
    Ok(paid)
}

async fn pay_event(path: Option<String>, body: Option<String>) -> Result<Payment, BoxError> {
    pay(
        &path.unwrap_or_default(),
        body.unwrap_or_default().as_bytes(),
    )
    .await
}

async fn route(request: axum::extract::Request) -> axum::response::Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1_000_000).await.unwrap();
    match pay(parts.uri.path(), &body).await {
        Ok(paid) => (paid.status, paid.headers, paid.body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn of_lambda_http(request: Request) -> Result<Response<lambda_http::Body>, BoxError> {
    let paid = pay(request.uri().path(), request.body()).await?;
    let mut response = Response::new(match String::from_utf8(paid.body) {
        Ok(text) => lambda_http::Body::Text(text),
        Err(binary) => lambda_http::Body::Binary(binary.into_bytes()),
    });
    *response.status_mut() = paid.status;
    *response.headers_mut() = paid.headers;
    Ok(response)
}

fn layer() -> Result<http::HttpLayer, BoxError> {
    Ok(Operation::builder("shop::pay")
        .key_prefix("pay")
        .shared_key_prefix(true)
        .http()
        .caller(CALLER)
        .build()?)
}

fn router() -> Result<Router, BoxError> {
    Ok(Router::new().fallback(any(route)).layer(layer()?))
}

#[idempotent(http, caller = SUB, key_prefix = "pay", shared_key_prefix = true)]
async fn v2(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let event = event.payload;
    let mut paid = pay_event(event.raw_path, event.body).await?;
    let mut response = ApiGatewayV2httpResponse::default();
    response.cookies = vec!["session=s3cr3t".to_owned()];
    paid.headers.remove("set-cookie");
    response.status_code = i64::from(paid.status.as_u16());
    response.headers = paid.headers;
    (response.body, response.is_base64_encoded) = sent(paid.body);
    Ok(response)
}

#[idempotent(
    http,
    caller = "requestContext.authorizer.claims.sub",
    key_prefix = "pay",
    shared_key_prefix = true
)]
async fn v1(
    event: LambdaEvent<Raw<ApiGatewayProxyRequest>>,
) -> Result<ApiGatewayProxyResponse, BoxError> {
    let event = event.payload.into_inner();
    let paid = pay_event(event.path, event.body).await?;
    let mut response = ApiGatewayProxyResponse::default();
    response.status_code = i64::from(paid.status.as_u16());
    response.multi_value_headers = paid.headers;
    (response.body, response.is_base64_encoded) = sent(paid.body);
    Ok(response)
}

#[idempotent(
    http,
    caller = "header(@, 'x-amzn-oidc-identity')",
    key_prefix = "pay",
    shared_key_prefix = true
)]
async fn alb(
    event: LambdaEvent<AlbTargetGroupRequest>,
) -> Result<AlbTargetGroupResponse, BoxError> {
    let paid = pay_event(event.payload.path, event.payload.body).await?;
    let mut response = AlbTargetGroupResponse::default();
    response.status_code = i64::from(paid.status.as_u16());
    response.status_description = Some(paid.status.to_string());
    response.headers = paid.headers.clone();
    response.multi_value_headers = paid.headers;
    (response.body, response.is_base64_encoded) = sent(paid.body);
    Ok(response)
}

#[idempotent(
    http,
    caller = "iam_caller(@)",
    key_prefix = "pay",
    shared_key_prefix = true
)]
async fn url(
    LambdaEvent { payload, .. }: LambdaEvent<LambdaFunctionUrlRequest>,
) -> Result<LambdaFunctionUrlResponse, BoxError> {
    let mut paid = pay_event(payload.raw_path, payload.body).await?;
    let mut response = LambdaFunctionUrlResponse::default();
    response.cookies = vec!["session=s3cr3t".to_owned()];
    paid.headers.remove("set-cookie");
    response.status_code = i64::from(paid.status.as_u16());
    response.headers = paid.headers;
    (response.body, response.is_base64_encoded) = match String::from_utf8(paid.body) {
        Ok(text) => (Some(text), false),
        Err(binary) => (Some(STANDARD.encode(binary.as_bytes())), true),
    };
    Ok(response)
}

/// Returns a body as an event's response has it.
fn sent(body: Vec<u8>) -> (Option<Body>, bool) {
    match String::from_utf8(body) {
        Ok(text) => (Some(Body::Text(text)), false),
        Err(binary) => (Some(Body::Binary(binary.into_bytes())), true),
    }
}

#[idempotent(http, caller = SUB)]
async fn canary(
    _event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    response.body = Some(CANARY.into());
    Ok(response)
}

/// Logs every line of this framework. The runtime's own lines at TRACE have the whole event.
fn log_everything() {
    let filter = tracing_subscriber::EnvFilter::new("idempotency=trace");
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    log.with_ansi(false).init();
}

/// The length of the body of the role `largest`: what Lambda returns, less the rest of the response.
pub(crate) const LARGEST_BODY: usize = 6_291_556 - 1_000;

/// Serves a body of nearly 6 MB that compression makes a quarter smaller. Its client waits as long as it takes.
async fn largest() -> Result<(), BoxError> {
    let client = idempotency_dynamodb::default_client().await?;
    let patient = TimeoutConfig::builder()
        .operation_attempt_timeout(Duration::from_secs(900))
        .build();
    let config = client.config().to_builder().timeout_config(patient).build();
    let store = DynamoDbStore::builder()
        .table("idempotency")
        .client(Client::from_conf(config))
        .build()?;
    let idempotent = Operation::builder("shop::largest")
        .store(Arc::new(store))
        .http()
        .caller(CALLER)
        .max_response_body(LARGEST_BODY)
        .build()?;
    let body = async || {
        let mut random = fastrand::Rng::with_seed(1);
        let letters = (0..LARGEST_BODY).map(|_| random.lowercase());
        letters.collect::<String>()
    };
    http::run(Router::new().fallback(any(body)).layer(idempotent)).await
}

/// Serves responses that an item of the table cannot hold.
async fn large(policy: http::Unstorable) -> Result<(), BoxError> {
    let idempotent = Operation::builder("shop::large")
        .http()
        .caller(CALLER)
        .on_unstorable(policy)
        .build()?;
    let large = async || "x".repeat(410_000);
    http::run(Router::new().fallback(any(large)).layer(idempotent)).await
}

/// The `main` function of each role.
pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    match role {
        "router" => http::run(router()?).await,
        "route" => {
            let protected = post(route).layer(layer()?);
            http::run(Router::new().route("/payments", protected)).await
        }
        "service_fn" => http::run(layer()?.layer(service_fn(of_lambda_http))).await,
        "concurrent" => http::run_concurrent(router()?).await,
        "lambda_http" => {
            init().await?;
            lambda_http::run(router()?).await
        }
        "lambda_http, streaming" => {
            init().await?;
            lambda_http::run_with_streaming_response(router()?).await
        }
        "own runtime" => {
            init().await?;
            let app = ServiceBuilder::new()
                .layer(layer()?)
                .service(service_fn(of_lambda_http));
            lambda_runtime::Runtime::new(http::service(app)).run().await
        }
        "v2" => idempotency_lambda::run(v2).await,
        "v1" => idempotency_lambda::run(v1).await,
        "alb" => idempotency_lambda::run(alb).await,
        "url" => idempotency_lambda::run(url).await,
        "large, Complete" => large(http::Unstorable::Complete).await,
        "large, Release" => large(http::Unstorable::Release).await,
        "large, Refuse" => large(http::Unstorable::Refuse).await,
        "largest" => largest().await,
        "canary" => {
            log_everything();
            let app = Router::new().fallback(any(async || CANARY)).layer(layer()?);
            http::run(app).await
        }
        "canary, attribute" => {
            log_everything();
            idempotency_lambda::run(canary).await
        }
        other => Err(format!("there is no role {other}").into()),
    }
}
