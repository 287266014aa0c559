//! What a handler's run gives to the protocol, and what is sent to the client.

use bytes::Bytes;
use idempotency_core::engine::{Codec, Errors, Written};
use idempotency_core::error::Error;

use crate::rules::{Unstorable, Verdict};
use crate::stored::StoredResponse;

/// What is sent to the client.
///
/// `Debug` shows the variant, never the response.
pub enum ClientReply<R> {
    /// The handler's own response, unchanged.
    Own(R),
    /// A stored response, or an error of this framework.
    Made(http::Response<Bytes>),
}

/// Says that the handler itself returned this response, and that its request had no effect.
///
/// A response of a handler with a status that is not stored, such as 503 or 429, has the form of one that a layer makes, such as a
/// timeout, a limit or a panic catcher. The layer cannot distinguish them. Under `on_timeout = "hold"` such a response keeps the key for
/// an operator, unless this is among its extensions. With it the key is free, also after a 4xx that would be stored.
///
/// A layer of this crate puts it into its refusals of requests that were not processed, or that another call processes, if a layer outside
/// handed the request on: that one then does not store them, and does not hold its key. So nothing between the two may have an effect. A
/// handler that sends a request of its own, and returns the refusal, has to report for itself.
///
/// It reports the whole run. Leave it out if a layer inside calls the handler again, such as a retry: an earlier attempt may have had
/// an effect and reported nothing.
///
/// # Examples
///
/// ```
/// use axum::{Extension, http::StatusCode, response::IntoResponse};
/// use idempotency_http::FailureReport;
///
/// async fn pay() -> impl IntoResponse {
///     // The provider refused the connection, so nothing was charged.
///     (StatusCode::SERVICE_UNAVAILABLE, Extension(FailureReport))
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureReport;

impl FailureReport {
    /// Returns the report for a response that a handler makes of this error, which a protected function that it called ended in. `None` if
    /// that function may have had its effect: it ran, it is in progress, or its outcome is not known.
    ///
    /// The handler itself must have had no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::{Extension, http::StatusCode, response::IntoResponse};
    /// use idempotency_http::{Error, FailureReport};
    ///
    /// fn failed(error: &Error) -> impl IntoResponse + use<> {
    ///     let report = FailureReport::of(error).map(Extension);
    ///     (StatusCode::SERVICE_UNAVAILABLE, report, "try again later")
    /// }
    /// ```
    pub fn of(error: &Error) -> Option<Self> {
        error.is_unprocessed().then_some(Self)
    }

    /// Returns true if a response of this verdict has a report that counts. A success is stored all the same.
    pub(crate) fn counts_for<B>(response: &http::Response<B>, verdict: Verdict) -> bool {
        let may_count = verdict != Verdict::Store || response.status().is_client_error();
        may_count && response.extensions().get::<Self>().is_some()
    }
}

/// Why a response of a handler cannot be stored. The text is for the outcome event. It must not contain a part of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewError {
    /// No client can get the response: the run failed. Under `hold` the key is held.
    NoResponse(&'static str),
    /// The client can get it, and it cannot be read: [`Unstorable`](crate::Unstorable) decides what becomes of the key.
    Unreadable(&'static str),
}

/// A response in the hands of the protocol.
pub(crate) enum Reply<R> {
    /// The handler's own response, and what is stored of it.
    Own(R, Keep),
    /// The response of an earlier call.
    Replayed(StoredResponse),
}

/// What is stored of a response.
#[derive(Debug)]
pub(crate) enum Keep {
    Stored(StoredResponse),
    /// Nothing is stored: the request was not processed, or it is not protected.
    Nothing,
    /// No client can get the response, so the run failed.
    Failed(&'static str),
    /// The response cannot be stored. The policy decides on the claim and on what the client gets.
    Unstorable(Unstorable, &'static str),
}

/// Why the end of a run is no report of the handler. `None` if the handler itself reported it.
pub(crate) type Doubt = Option<&'static str>;

/// How a handler ends without a reply.
pub(crate) enum Failure<R, E> {
    /// The service's own error.
    Service(E, Doubt),
    /// A response that says that the run failed. It is sent to the client.
    Response(R, Doubt),
}

/// How a handler ends.
pub(crate) type HandlerEnd<R, E> = Result<Reply<R>, Failure<R, E>>;

/// How a call ends without a reply, as the engine sees it.
///
/// It has no parameters, because a record under `on_error = "record"` holds the name of this type.
pub(crate) enum CallFailed {
    /// The handler failed: see its [`Failure`].
    Handler(Doubt),
    /// An error of this framework.
    Framework(Error),
}

impl CallFailed {
    /// Returns the error of a handler that failed.
    pub(crate) fn of<R, E>(failure: &Failure<R, E>) -> Self {
        match failure {
            Failure::Service(_, doubt) | Failure::Response(_, doubt) => Self::Handler(*doubt),
        }
    }
}

/// Returns the rules for errors of a handler.
pub(crate) fn errors() -> Errors<CallFailed> {
    Errors::new(CallFailed::Framework).unreported(|error| match error {
        CallFailed::Handler(doubt) => *doubt,
        CallFailed::Framework(_) => None,
    })
}

/// Returns the codec of a reply.
pub(crate) fn codec<R>() -> Codec<Reply<R>> {
    Codec::new(write, |text| {
        StoredResponse::from_json(text).map(Reply::Replayed)
    })
}

fn write<R>(reply: &Reply<R>) -> Written {
    match reply {
        Reply::Own(_, Keep::Stored(stored)) | Reply::Replayed(stored) => match stored.to_json() {
            Some(text) => Written::Text(text),
            None => Written::NotSerializable,
        },
        Reply::Own(_, Keep::Nothing) => Written::Release,
        Reply::Own(_, Keep::Failed(why)) => Written::Failed(why),
        Reply::Own(_, Keep::Unstorable(Unstorable::Release, why)) => {
            Written::ReleaseWithWarning(why)
        }
        Reply::Own(_, Keep::Unstorable(_, why)) => Written::OwnCallerOnly(why),
    }
}
