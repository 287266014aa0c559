//! Sends a request, several times if a send fails temporarily.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::config::AsyncSleep as _;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::ReconnectMode;
use aws_sdk_dynamodb::error::{BoxError, ConnectorError, ErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_async::future::timeout::Timeout;
use aws_smithy_runtime_api::client::connection::CaptureSmithyConnection;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_types::retry::ErrorKind;
use sha2::{Digest as _, Sha256};
use uuid::Builder;

use crate::error::{never_connected, not_applied};
use crate::prepared::PreparedClient;
use crate::reply::{self, Body, Item};
use crate::retry::{self, Attempts, RetryQuota};
use crate::sign::hex;

/// The target of a read.
const GET_ITEM: &str = "DynamoDB_20120810.GetItem";

/// The reply of DynamoDB to a request for one item.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemReply {
    /// A success. Contains the item of the response: the one that a read found, or that a put replaced.
    Success(Option<HashMap<String, AttributeValue>>),
    /// The condition did not hold. Contains the current item, if the request asked for it.
    ConditionFailed(Option<HashMap<String, AttributeValue>>),
}

/// The result of one send.
#[derive(Clone, Copy, Debug)]
pub enum SendResult<'a> {
    /// A success.
    Success,
    /// Nothing was sent: the request could not be prepared, for example without credentials.
    Unsent,
    /// There was no response in time. Nothing was sent if the send did not start.
    Timeout,
    /// There was no response. The error says whether there was a connection.
    NoResponse(&'a ConnectorError),
    /// An error response, or one that could not be read.
    Response {
        /// The status of the response.
        status: u16,
        /// The error code of DynamoDB, without its namespace.
        code: Option<&'a str>,
        /// The message, which can quote the item.
        message: Option<&'a str>,
    },
}

impl SendResult<'_> {
    /// Returns true if it proves that the send applied nothing: it had no connection, or DynamoDB itself refused the write.
    pub fn proves_not_applied(self) -> bool {
        match self {
            Self::Success | Self::Timeout => false,
            Self::Unsent => true,
            Self::NoResponse(error) => never_connected(error),
            Self::Response { status, code, .. } => not_applied(status, code),
        }
    }
}

/// Notes each send of one request, and sets its timeout. `()` ignores the sends and keeps the timeout.
pub trait SendNotes {
    /// Returns the timeout of each send. `own` is that of the client's settings.
    fn timeout(&self, own: Duration) -> Duration {
        own
    }

    /// Notes that a send to this URI starts. If the caller drops the request before [`ends`](Self::ends), the send may still arrive.
    fn starts(&self, uri: &str) {
        let _ = uri;
    }

    /// Notes that a send ended, or failed before it started. Another one can follow.
    ///
    /// If the time of the whole request ends between two sends, this is called again with [`SendResult::Timeout`]: ignore it, because no
    /// send is in progress.
    fn ends(&self, result: SendResult<'_>) {
        let _ = result;
    }
}

impl SendNotes for () {}

/// A request, ready to be signed and sent.
pub(crate) struct OutgoingRequest {
    target: &'static str,
    body: SdkBody,
    /// The digest of the body.
    digest: String,
    /// The value of the header `amz-sdk-invocation-id`: the same in each send of the request.
    id: String,
}

impl OutgoingRequest {
    pub(crate) fn new(target: &'static str, body: Vec<u8>) -> Self {
        Self {
            target,
            digest: hex(Sha256::new_with_prefix(&body)),
            body: SdkBody::from(body),
            id: random_uuid(),
        }
    }
}

/// Returns a random UUID. Without a random source it is always the same one: it is only for logs.
fn random_uuid() -> String {
    let mut bytes = [0; 16];
    let _ = getrandom::fill(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// Why a send failed.
pub(crate) enum SendError {
    /// The request could not be prepared, for example without credentials.
    Unsent(BoxError),
    /// The send, or the whole request, took longer than this.
    Timeout(Duration),
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

/// Waits for a future, for at most `limit`. Without a limit or a timer it waits to the end.
pub(crate) async fn within<F: Future>(
    prepared: &PreparedClient,
    limit: Option<Duration>,
    future: F,
) -> Result<F::Output, SendError> {
    let timer = limit.and_then(|limit| Some((limit, prepared.sleep()?)));
    let Some((limit, timer)) = timer else {
        return Ok(future.await);
    };
    // `Timeout` polls the future first, so a result that is ready counts even after the limit.
    let ended = Timeout::new(future, timer.sleep(limit)).await;
    ended.map_err(|_| SendError::Timeout(limit))
}

/// Sends until a send succeeds, or fails for good. Returns the item of the response.
pub(crate) async fn send_until_done(
    prepared: &PreparedClient,
    quota: &RetryQuota,
    request: &OutgoingRequest,
    notes: &impl SendNotes,
) -> Result<Option<Item>, SendError> {
    let mut attempts = Attempts::new(&prepared.retries, quota);
    // A client without a timeout keeps none: that is the user's choice.
    let timeout = prepared.timeouts.operation_attempt_timeout();
    let timeout = timeout.map(|own| notes.timeout(own));
    loop {
        let error = match within(prepared, timeout, send_once(prepared, request, notes)).await {
            Ok(Ok(item)) => {
                notes.ends(SendResult::Success);
                attempts.succeeded();
                return Ok(item);
            }
            Ok(Err(error)) | Err(error) => error,
        };
        notes.ends(error.as_result());
        let Some(pause) = attempts.next(error.retry_kind(), error.retry_after()) else {
            return Err(error);
        };
        // Without a timer there is no pause, as with the SDK's client.
        if let Some(sleep) = prepared.sleep() {
            sleep.sleep(pause).await;
        }
    }
}

/// Sends once. Returns the item of the response.
async fn send_once(
    prepared: &PreparedClient,
    outgoing: &OutgoingRequest,
    notes: &impl SendNotes,
) -> Result<Option<Item>, SendError> {
    let route = prepared.route().await.map_err(SendError::Unsent)?;
    let body = outgoing.body.try_clone();
    let body = body.ok_or_else(|| SendError::Unsent("the body could not be copied".into()))?;
    let (now, skew) = (prepared.now(), prepared.skew.as_ref());
    let corrected = skew.map_or(now, |skew| skew.correct(now));
    let mut request = route
        .request(
            outgoing.target,
            body,
            &outgoing.digest,
            &outgoing.id,
            corrected,
        )
        .map_err(SendError::Unsent)?;
    let connection = CaptureSmithyConnection::new();
    request.add_extension(connection.clone());

    notes.starts(request.uri());
    let response = prepared.connector.call(request).await;
    let mut response = response.map_err(SendError::Connector)?;
    let clock_is_wrong =
        skew.is_some_and(|skew| skew.measure(&response, corrected, now, prepared.now()));
    let error = match read(&mut response).await {
        Err(error) => SendError::Broken(error, response),
        Ok(Some(body)) if body.is_object && reply::is_success(&response) => {
            return Ok(match outgoing.target {
                GET_ITEM => body.item,
                _ => body.attributes,
            });
        }
        // What only looks like a success of DynamoDB has no error code of DynamoDB either.
        Ok(body) => SendError::Response {
            body: body
                .filter(|_| !response.status().is_success())
                .unwrap_or_default(),
            response,
            clock_is_wrong,
        },
    };
    if error.retry_kind() == Some(ErrorKind::TransientError) && reconnects(prepared) {
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

/// Returns true if a connection is closed after a transient error. Under retry behaviour 2.1 the SDK keeps its connections.
fn reconnects(prepared: &PreparedClient) -> bool {
    let retries = &prepared.retries;
    !retry::is_v2_1(retries) && retries.reconnect_mode() == ReconnectMode::ReconnectOnTransientError
}

impl SendError {
    /// Returns the error as the caller notes it.
    pub(crate) fn as_result(&self) -> SendResult<'_> {
        match self {
            Self::Unsent(_) => SendResult::Unsent,
            Self::Timeout(_) => SendResult::Timeout,
            Self::Connector(error) => SendResult::NoResponse(error),
            Self::Broken(_, response) => SendResult::Response {
                status: response.status().as_u16(),
                code: None,
                message: None,
            },
            Self::Response { response, body, .. } => SendResult::Response {
                status: response.status().as_u16(),
                code: body.code(),
                message: body.message.as_deref(),
            },
        }
    }

    /// Returns the kind of this error for the retry rules; `None` if another send is not worth it.
    fn retry_kind(&self) -> Option<ErrorKind> {
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
}

/// The error that the SDK would report.
impl From<SendError> for SdkError<ErrorMetadata> {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unsent(error) => Self::construction_failure(error),
            SendError::Timeout(limit) => Self::timeout_error(format!("timeout after {limit:?}")),
            SendError::Connector(error) => Self::dispatch_failure(error),
            SendError::Broken(error, response) => Self::response_error(error, response),
            SendError::Response { response, body, .. } => {
                let mut meta = ErrorMetadata::builder();
                if let Some(code) = body.code() {
                    meta = meta.code(code);
                }
                if let Some(message) = &body.message {
                    meta = meta.message(message);
                }
                Self::service_error(meta.build(), response)
            }
        }
    }
}
