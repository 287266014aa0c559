//! Handlers of HTTP events: the attribute leaves no warning behind and changes no signature.
#![warn(missing_docs, clippy::all, clippy::pedantic)]
#![allow(clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

use aws_lambda_events::alb::{AlbTargetGroupRequest, AlbTargetGroupResponse};
use aws_lambda_events::apigw::{
    ApiGatewayProxyRequest, ApiGatewayProxyResponse, ApiGatewayV2httpRequest,
    ApiGatewayV2httpResponse,
};
use aws_lambda_events::http::HeaderMap;
use aws_lambda_events::lambda_function_urls::{
    LambdaFunctionUrlRequest, LambdaFunctionUrlResponse,
};
use idempotency_lambda::{BoxError, LambdaEvent, Raw, idempotent};

const CALLER: &str = "requestContext.authorizer.lambda.user";
const WITHOUT: &str = "/context, /ext";

/// Its errors cannot hold ours.
#[derive(Debug)]
pub struct Declined;

#[idempotent(http, caller = "requestContext.authorizer.jwt.claims.[iss, sub]")]
async fn v2(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    if event.payload.body.is_none() {
        return Err("no body".into());
    }
    Ok(ApiGatewayV2httpResponse::default())
}

/// Returns the headers with which the function answers CORS.
fn cors(request: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(origin) = request.get("origin") {
        headers.insert("access-control-allow-origin", origin.clone());
    }
    headers
}

#[idempotent(
    http,
    caller = CALLER,
    key_header = "x-request-id",
    fingerprint_also = "header(@, 'host')",
    stored_headers = "x-receipt, x-total",
    on_unstorable = "refuse",
    add_headers = cors,
    expires_after = "1d"
)]
async fn v1(
    event: LambdaEvent<Raw<ApiGatewayProxyRequest>>,
) -> Result<ApiGatewayProxyResponse, Declined> {
    if event.payload.body.is_none() {
        return Err(Declined);
    }
    Ok(ApiGatewayProxyResponse::default())
}

#[idempotent(
    http,
    shared_by_all_callers,
    key = "powertools_json(body).id",
    key_per_path = true,
    fingerprint_rfc8785 = WITHOUT,
    store_when = "statusCode == `201`"
)]
async fn alb(
    LambdaEvent { payload, .. }: LambdaEvent<AlbTargetGroupRequest>,
) -> Result<AlbTargetGroupResponse, BoxError> {
    let mut response = AlbTargetGroupResponse::default();
    response.is_base64_encoded = payload.is_base64_encoded;
    Ok(response)
}

#[idempotent(
    key_prefix = "url",
    http,
    caller = "iam_caller(@)",
    add_headers = |_| HeaderMap::new(),
    key_required = false
)]
async fn url(
    _: LambdaEvent<LambdaFunctionUrlRequest>,
) -> anyhow::Result<LambdaFunctionUrlResponse> {
    Ok(LambdaFunctionUrlResponse::default())
}

/// What a handler needs besides the event.
pub struct App {
    greeting: &'static str,
}

#[idempotent(http, caller = CALLER)]
async fn with_state(
    app: &App,
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    if event.payload.body.as_deref() == Some(app.greeting) {
        return Err("no body".into());
    }
    Ok(ApiGatewayV2httpResponse::default())
}

impl App {
    #[idempotent(http, caller = CALLER, key_prefix = "app")]
    async fn method(
        &self,
        event: LambdaEvent<ApiGatewayV2httpRequest>,
    ) -> Result<ApiGatewayV2httpResponse, BoxError> {
        with_state(self, event).await
    }
}

fn sends<F: Send>(_: impl Fn(LambdaEvent<ApiGatewayV2httpRequest>) -> F) {}

/// Takes each handler as a value.
pub fn main() {
    sends(v2);
    sends(|event| async {
        let app = App { greeting: "hello" };
        app.method(event).await
    });
    let _ = (v1, alb, url);
}
