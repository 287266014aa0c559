//! The hand-written function for an HTTP event of API Gateway. The key is the header `Idempotency-Key` of an authenticated user.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use lambda_runtime::{Error, LambdaEvent};
use orders::{AsCharge, Order};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::{Claimed, Table, run};

/// Charges the order in the body of a request at most once within the window.
pub async fn handle(
    table: &Table,
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, Error> {
    let request = event.payload;
    let key = request
        .headers
        .get("idempotency-key")
        .ok_or("no idempotency-key")?;
    let authorizer = request.request_context.authorizer.as_ref();
    let user = authorizer
        .and_then(|authorizer| authorizer.jwt.as_ref()?.claims.get("sub"))
        .ok_or("no authenticated user")?;
    let id = format!("charge#{user}#{}", key.to_str()?);
    let body = request.body.as_deref().unwrap_or_default();
    let claim = match table
        .claim(id, fingerprint(&request, body), event.context.deadline)
        .await?
    {
        Claimed::Response(text) => return Ok(response(text)),
        Claimed::Own(claim) => claim,
    };
    let text = match receipt(body) {
        Ok(text) => text,
        Err(error) => {
            table.release(claim).await;
            return Err(error);
        }
    };
    table.complete(claim, text.get()).await?;
    Ok(response(Box::<str>::from(text).into_string()))
}

/// Charges the order in a body, and returns the receipt as text.
fn receipt(body: &str) -> Result<Box<RawValue>, Error> {
    let order: Order = serde_json::from_str(body)?;
    run(order.charge()?)
}

/// Charges the order in a body without idempotency, and returns the receipt as an HTTP response.
pub fn response_to(body: &str) -> Result<ApiGatewayV2httpResponse, Error> {
    Ok(response(Box::<str>::from(receipt(body)?).into_string()))
}

/// Returns the digest of what a retry must repeat: method, path, query and body.
fn fingerprint(request: &ApiGatewayV2httpRequest, body: &str) -> String {
    let mut digest = Sha256::new();
    let method = request.request_context.http.method.as_str();
    let path = request.raw_path.as_deref().unwrap_or_default();
    let query = request.raw_query_string.as_deref().unwrap_or_default();
    for part in [method, path, query, body] {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn response(body: String) -> ApiGatewayV2httpResponse {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    response.headers.insert(
        "content-type",
        "application/json".parse().expect("a valid header"),
    );
    response.body = Some(Body::Text(body));
    response
}
