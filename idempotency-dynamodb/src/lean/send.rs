//! Sends a request, several times if a send fails temporarily.

use std::time::Duration;

use aws_sdk_dynamodb::config::AsyncSleep as _;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::ReconnectMode;
use aws_sdk_dynamodb::error::{BoxError, ConnectorError, ErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::connection::CaptureSmithyConnection;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_types::retry::ErrorKind;

use super::prepared::Prepared;
use super::reply::{self, Body};
use super::retry::{self, Attempts, Quota};
use super::sign::Hex;
use idempotency_core::store::StoreError;

use crate::failure;
use crate::item::Item;
use crate::sends::{CONDITION_FAILED, SendEnd, Sends};
use crate::timer::{TimedOut, within};
use crate::transport::Reply;

/// A request, ready to be signed and sent.
pub(super) struct Outgoing {
    pub(super) target: &'static str,
    pub(super) body: SdkBody,
    /// The digest of the body.
    pub(super) digest: Hex,
}

impl Outgoing {
    pub(super) fn new(target: &'static str, body: Vec<u8>) -> Self {
        Self {
            target,
            digest: Hex::of_body(&body),
            body: SdkBody::from(body),
        }
    }
}

/// Why a send failed.
enum SendError {
    /// The request could not be prepared, for example without credentials.
    Unsent(BoxError),
    /// The send took too long.
    Timeout(TimedOut),
    /// There was no response.
    Connector(ConnectorError),
    /// The response broke off.
    Broken(BoxError, HttpResponse),
    /// An error response, or one that is not from DynamoDB.
    Response {
        response: HttpResponse,
        body: Body,
        clock_is_wrong: bool,
    },
}

/// Sends `request` until a send succeeds, or fails for good.
pub(super) async fn send(
    prepared: &Prepared,
    quota: &Quota,
    request: &Outgoing,
    sends: &Sends,
) -> Result<Reply, StoreError> {
    let attempts = attempts(prepared, quota, request, sends);
    match within(
        prepared.sleep(),
        prepared.timeouts.operation_timeout(),
        attempts,
    )
    .await
    {
        Ok(result) => result,
        Err(timed_out) => {
            note(sends, &SendError::Timeout(timed_out.clone()));
            SendError::Timeout(timed_out).into_result(sends)
        }
    }
}

async fn attempts(
    prepared: &Prepared,
    quota: &Quota,
    request: &Outgoing,
    sends: &Sends,
) -> Result<Reply, StoreError> {
    let mut attempts = Attempts::new(&prepared.retries, quota);
    // A client without a timeout keeps none: that is the user's choice.
    let timeout = prepared.timeouts.operation_attempt_timeout();
    let timeout = timeout.map(|own| sends.timeout(own));
    loop {
        let sent = within(prepared.sleep(), timeout, attempt(prepared, request, sends)).await;
        let error = match sent {
            Ok(Ok(item)) => {
                sends.ends(SendEnd::Success);
                attempts.succeeded();
                return Ok(Reply::Success(item));
            }
            Ok(Err(error)) => error,
            Err(timed_out) => SendError::Timeout(timed_out),
        };
        note(sends, &error);
        let Some(pause) = attempts.next(error.kind(), error.retry_after()) else {
            return error.into_result(sends);
        };
        // Without a timer there is no pause, as with the SDK's client.
        if let Some(sleep) = prepared.sleep() {
            sleep.sleep(pause).await;
        }
    }
}

/// Sends once. Returns the item of the response.
async fn attempt(
    prepared: &Prepared,
    outgoing: &Outgoing,
    sends: &Sends,
) -> Result<Option<Item>, SendError> {
    let route = prepared.route().await.map_err(SendError::Unsent)?;
    let body = outgoing.body.try_clone();
    let body = body.ok_or_else(|| SendError::Unsent("a body in memory can be cloned".into()))?;
    let now = prepared.now();
    let corrected = prepared.skew.as_ref().map_or(now, |skew| skew.correct(now));
    let mut request = route
        .request(outgoing.target, body, &outgoing.digest, corrected)
        .map_err(SendError::Unsent)?;
    let connection = CaptureSmithyConnection::new();
    request.add_extension(connection.clone());

    sends.starts(route.uri());
    let response = prepared.connector.call(request).await;
    let mut response = response.map_err(SendError::Connector)?;
    let skew = prepared.skew.as_ref();
    let clock_is_wrong = skew.is_some_and(|skew| skew.measure(&response, now, prepared.now()));
    let error = match read(&mut response).await {
        Err(error) => SendError::Broken(error, response),
        Ok(body) => match (response.status().is_success(), body) {
            (true, Some(body)) => return Ok(body.item),
            (_, body) => SendError::Response {
                response,
                body: body.unwrap_or_default(),
                clock_is_wrong,
            },
        },
    };
    if error.kind() == Some(ErrorKind::TransientError) && reconnects(prepared) {
        // The next send opens another connection, which may lead to a healthier host.
        if let Some(connection) = connection.get() {
            connection.poison();
        }
    }
    Err(error)
}

/// Reads the body of a response. Returns `None` if it is not one of DynamoDB.
async fn read(response: &mut HttpResponse) -> Result<Option<Body>, BoxError> {
    let body = std::mem::replace(response.body_mut(), SdkBody::taken());
    let mut read = match body.bytes() {
        Some(bytes) => reply::read(bytes),
        None => reply::read(&ByteStream::new(body).collect().await?.into_bytes()),
    };
    if let (Some(body), Some(code)) = (&mut read, response.headers().get("x-amzn-errortype")) {
        body.code = Some(code.to_owned());
    }
    Ok(read)
}

/// Returns true if a connection is closed after a fault that passes.
fn reconnects(prepared: &Prepared) -> bool {
    let retries = &prepared.retries;
    !retry::is_v2_1(retries) && retries.reconnect_mode() == ReconnectMode::ReconnectOnTransientError
}

/// Notes a send that failed.
fn note(sends: &Sends, error: &SendError) {
    sends.ends(match error {
        SendError::Unsent(_) => SendEnd::Unknown,
        SendError::Timeout(_) => SendEnd::NoResponse {
            never_connected: false,
            timeout: true,
        },
        SendError::Connector(error) => SendEnd::NoResponse {
            never_connected: failure::never_connected(error),
            timeout: error.is_timeout(),
        },
        SendError::Broken(_, response) => SendEnd::ErrorResponse {
            status: Some(response.status().as_u16()),
            code: None,
            message: None,
        },
        SendError::Response { response, body, .. } => SendEnd::ErrorResponse {
            status: Some(response.status().as_u16()),
            code: body.code(),
            message: body.message.as_deref(),
        },
    });
}

impl SendError {
    /// Returns the kind of an error that is worth another send.
    fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Unsent(_) => None,
            Self::Timeout(_) | Self::Broken(..) => Some(ErrorKind::TransientError),
            Self::Connector(error) => retry::of_connector(error),
            Self::Response {
                response,
                body,
                clock_is_wrong,
            } => retry::of_response(response.status().as_u16(), body.code(), *clock_is_wrong),
        }
    }

    /// Returns the pause that DynamoDB asks for.
    fn retry_after(&self) -> Option<Duration> {
        let Self::Response { response, .. } = self else {
            return None;
        };
        let after = response.headers().get("x-amz-retry-after")?;
        after.parse().ok().map(Duration::from_millis)
    }

    /// Returns the result of a request that is not sent again. Errors are those that the SDK would report.
    fn into_result(self, sends: &Sends) -> Result<Reply, StoreError> {
        let error = match self {
            Self::Unsent(error) => SdkError::construction_failure(error),
            Self::Timeout(error) => SdkError::timeout_error(error),
            Self::Connector(error) => SdkError::dispatch_failure(error),
            Self::Broken(error, response) => SdkError::response_error(error, response),
            Self::Response { response, body, .. } => {
                if body.code() == Some(CONDITION_FAILED) {
                    return Ok(Reply::ConditionFailed(body.item));
                }
                let mut meta = ErrorMetadata::builder();
                if let Some(code) = body.code() {
                    meta = meta.code(code);
                }
                if let Some(message) = &body.message {
                    meta = meta.message(message);
                }
                SdkError::service_error(meta.build(), response)
            }
        };
        Err(sends.error(error))
    }
}

impl Body {
    /// Returns the error code without its namespace.
    fn code(&self) -> Option<&str> {
        self.code.as_deref().map(reply::short_code)
    }
}
