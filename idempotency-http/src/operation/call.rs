//! The run of a call: the handler under the protocol, and the response that is sent.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::{Call, Identity, run_without_claim};
use idempotency_core::outcome::OutcomeKind;
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::RecordId;
use idempotency_core::time::EpochMillis;

use super::{HeaderRule, HttpOperation};
use crate::host::Place;
use crate::problem::{Problem, Reason};
use crate::received::ReceivedRequest;
use crate::reply::{
    CallFailed, ClientReply, Failure, FailureReport, HandlerEnd, Keep, Reply, ViewError, codec,
    errors,
};
use crate::rules::{Unstorable, Verdict};
use crate::stored::StoredResponse;

/// A request in memory whose key, caller and fingerprint were looked at. It is ready to run, or refused.
///
/// # Examples
///
/// An entry point whose requests and responses are in memory. The tower layer does the same.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use idempotency_http::{HttpOperation, MemoryStore, Place, ReceivedRequest, ClientReply, backend};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let operation = HttpOperation::builder("shop::payments").caller_header("x-user-id").build()?;
/// let place = Place { backend: backend(MemoryStore::new()), deadline: None, tenant: None };
/// let request = Request::post("/").header("idempotency-key", "k-1").header("x-user-id", "u-1");
/// let (parts, body) = request.body("{}")?.into_parts();
///
/// let call = operation.call(Ok(place), &ReceivedRequest::new(&parts, body.as_bytes()));
/// let handler = async |_call| Ok::<_, std::convert::Infallible>(Response::new(Bytes::from("paid")));
/// let sent = call.run(handler, |response| Ok(response.clone())).await?;
/// assert!(matches!(sent, ClientReply::Own(response) if response.body() == "paid"));
/// # Ok(())
/// # }
/// ```
#[must_use = "call `run`"]
pub struct HttpCall<'a> {
    operation: &'a HttpOperation,
    /// The identity, or the response for a request that is refused.
    state: Result<(Place, Identity), Box<http::Response<Bytes>>>,
    header_rule: HeaderRule,
}

impl HttpOperation {
    /// Identifies a request in memory.
    ///
    /// `place` is the result of a [`Host`](crate::Host), so that its error becomes a response too. A request that is refused
    /// gets its response from [`HttpCall::run`], which then drops the handler without calling it.
    pub fn call(&self, place: Result<Place, Error>, request: &ReceivedRequest<'_>) -> HttpCall<'_> {
        let state = match place {
            Err(error) => Err(self.refuse(&Problem::of_error(error))),
            Ok(place) => match self.identity(request, place.tenant.as_deref()) {
                Ok(identity) => Ok((place, identity)),
                Err(problem) => Err(self.refuse(&problem)),
            },
        };
        HttpCall {
            operation: self,
            state: state.map_err(Box::new),
            header_rule: self.header_rule(&request.parts.headers),
        }
    }

    /// Runs the handler under the protocol.
    pub(crate) async fn run<R, E, F>(
        &self,
        place: &Place,
        identity: &Identity,
        handler: impl FnOnce(Call) -> F,
    ) -> Result<ClientReply<R>, E>
    where
        F: Future<Output = HandlerEnd<R, E>>,
    {
        let Place {
            backend, deadline, ..
        } = place;
        let operation = &self.0.operation;
        let mut failure = None;
        let handler = async |call| {
            handler(call).await.map_err(|failed| {
                let error = CallFailed::of(&failed);
                failure = Some(failed);
                error
            })
        };
        let outcome = operation
            .run(backend, identity, *deadline, codec(), errors(), handler)
            .await;
        let outcome = match (outcome, failure) {
            (Ok(outcome), _) => outcome,
            (Err(CallFailed::Framework(error)), _) => {
                return Ok(ClientReply::Made(self.failed(place, error)));
            }
            (Err(CallFailed::Handler(_)), Some(Failure::Service(error, _))) => return Err(error),
            (Err(CallFailed::Handler(_)), Some(Failure::Response(response, _))) => {
                return Ok(ClientReply::Own(response));
            }
            // Unreachable: the handler fails with its failure.
            (Err(CallFailed::Handler(_)), None) => {
                let error = self.error(ErrorKind::Internal).with_handler_ran(true);
                return Ok(ClientReply::Made(self.failed(place, error)));
            }
        };
        let (key, is_lost) = match outcome.kind() {
            OutcomeKind::Executed { key, stored } => (Some(key.clone()), !stored),
            _ => (None, false),
        };
        let is_bypassed = matches!(outcome.kind(), OutcomeKind::Bypassed(_));
        let (own, refused) = match outcome.into_response() {
            Reply::Replayed(stored) => return Ok(ClientReply::Made(self.replayed(stored))),
            Reply::Own(own, Keep::Unstorable(Unstorable::Refuse, why)) => (own, Some(why)),
            Reply::Own(own, Keep::Stored(_)) if is_lost && self.0.refuses_unstored => {
                (own, Some(NOT_KEPT))
            }
            Reply::Own(own, _) => (own, None),
        };
        // Without a key, if disabled, or if the store failed and the user chose to go on: the client gets the response, stored or not.
        let Some(why) = refused.filter(|_| !is_bypassed) else {
            return Ok(ClientReply::Own(own));
        };
        let mut error = self.error_with(ErrorKind::ResponseUnavailable, why);
        if let Some(key) = key {
            error = error.with_key(key, backend.store().name());
        }
        let problem = Problem::of_run(Reason::ResponseUnavailable, error.with_handler_ran(true));
        Ok(ClientReply::Made(self.refuse(&problem)))
    }

    /// Runs the handler of a request whose method is not protected. Its call has no key, stages nothing, and records no step.
    ///
    /// `view` shows a response as [`HttpCall::run`] says.
    ///
    /// # Errors
    ///
    /// Returns the handler's error.
    #[doc(hidden)]
    pub async fn run_unprotected<R, E, F: Future<Output = Result<R, E>>>(
        &self,
        backend: &Backend,
        deadline: Option<EpochMillis>,
        request: &HeaderMap,
        handler: impl FnOnce(Call) -> F,
        view: impl FnOnce(&R) -> Result<http::Response<Bytes>, ViewError>,
    ) -> Result<ClientReply<R>, E> {
        let prefix = self.0.operation.key_prefix();
        let (response, refused) = run_without_claim(backend, prefix, deadline, handler).await;
        let response = response?;
        if refused.is_none() {
            return Ok(ClientReply::Own(response));
        }
        let view = view(&response);
        Ok(
            match self.without_claim(self.reply(response, view, false), refused)? {
                ClientReply::Made(mut response) => {
                    self.header_rule(request).apply(response.headers_mut());
                    ClientReply::Made(response)
                }
                own => own,
            },
        )
    }

    /// Returns what is sent after a run without a claim. `refused` is sent instead of a response that would be stored, because it counts on a
    /// write that was refused, or instead of any, because a step is not undone.
    ///
    /// # Errors
    ///
    /// Returns the handler's error.
    pub(crate) fn without_claim<R, E>(
        &self,
        end: HandlerEnd<R, E>,
        refused: Option<Error>,
    ) -> Result<ClientReply<R>, E> {
        match (end, refused) {
            (Ok(_) | Err(Failure::Response(..)), Some(error))
                if error.kind() == ErrorKind::StepNotUndone =>
            {
                Ok(ClientReply::Made(self.refuse(&Problem::of_error(error))))
            }
            (Ok(Reply::Own(_, Keep::Stored(_) | Keep::Unstorable(..))), Some(error)) => {
                Ok(ClientReply::Made(self.refuse(&Problem::of_error(error))))
            }
            (Ok(Reply::Own(own, _)) | Err(Failure::Response(own, _)), _) => {
                Ok(ClientReply::Own(own))
            }
            (Ok(Reply::Replayed(stored)), _) => Ok(ClientReply::Made(self.replayed(stored))),
            (Err(Failure::Service(error, _)), _) => Err(error),
        }
    }

    fn failed(&self, place: &Place, error: Error) -> http::Response<Bytes> {
        let now = place.backend.clock().now();
        let lease_end = self.0.operation.lease(place.deadline).end(now);
        self.refuse(&Problem::of_call(error, now, lease_end))
    }

    fn replayed(&self, stored: StoredResponse) -> http::Response<Bytes> {
        let mut response = stored.into_response();
        if let Some(name) = &self.0.replayed_header {
            let headers = response.headers_mut();
            headers.insert(name, HeaderValue::from_static("true"));
        }
        response
    }

    /// Returns what is kept of a response whose status says that its request was not processed. A layer inside can have made it, so under
    /// `hold` it is a failure that the handler has not reported.
    pub(crate) fn unprocessed(&self, why: &'static str) -> Keep {
        match self.0.operation.policy().on_timeout {
            OnTimeout::Rerun => Keep::Nothing,
            _ => Keep::Failed(why),
        }
    }

    /// Returns what is kept of a response that cannot be stored.
    pub(crate) fn unstorable(&self, why: &'static str) -> Keep {
        Keep::Unstorable(self.0.rules.on_unstorable, why)
    }

    /// Returns what a response of the handler itself with this status says. `undoes` is true if it is a final response, after which the steps
    /// of the key are undone.
    fn own_verdict(&self, status: StatusCode, undoes: bool) -> Verdict {
        if undoes {
            self.0.rules.final_verdict(status)
        } else {
            self.0.rules.verdict(status)
        }
    }

    /// Returns the verdict on a response that a layer inside can have made. Under `hold` only a status that is stored is a final response.
    pub(crate) fn verdict(&self, status: StatusCode, undoes: bool) -> Verdict {
        let holds = self.0.operation.policy().on_timeout != OnTimeout::Rerun;
        self.own_verdict(status, undoes && !holds)
    }

    /// Returns the end of a run that failed, as the handler itself reports. As a final response it refuses the undoing.
    pub(crate) fn failed_run<R, E>(own: R, undoes: bool) -> HandlerEnd<R, E> {
        if undoes {
            Ok(Reply::Own(own, Keep::Nothing))
        } else {
            Err(Failure::Response(own, None))
        }
    }

    /// Returns the reply of a response whose body is in memory. The handler itself returned it.
    pub(crate) fn reply<R, E>(
        &self,
        own: R,
        view: Result<http::Response<Bytes>, ViewError>,
        undoes: bool,
    ) -> HandlerEnd<R, E> {
        let view = match view {
            Ok(view) => view,
            Err(ViewError::NoResponse(why)) => return Ok(Reply::Own(own, Keep::Failed(why))),
            Err(ViewError::Unreadable(why)) => return Ok(Reply::Own(own, self.unstorable(why))),
        };
        let verdict = self.own_verdict(view.status(), undoes);
        if FailureReport::counts_for(&view, verdict) {
            return Self::failed_run(own, undoes);
        }
        let keep = match verdict {
            Verdict::Failed => return Self::failed_run(own, undoes),
            Verdict::Release => Keep::Nothing,
            Verdict::Store if view.body().len() > self.0.rules.max_body => {
                self.unstorable(TOO_LARGE)
            }
            Verdict::Store => {
                let (parts, body) = view.into_parts();
                self.keep(parts.status, &parts.headers, body)
            }
        };
        Ok(Reply::Own(own, keep))
    }

    /// Returns what is kept of a response that is the result of its request.
    pub(crate) fn keep(&self, status: StatusCode, headers: &HeaderMap, body: Bytes) -> Keep {
        Keep::Stored(StoredResponse {
            status,
            headers: self.0.rules.stored_headers(headers),
            body,
        })
    }
}

/// Why a response that the store did not take is not stored.
const NOT_KEPT: &str =
    "the store cannot hold the response: set `max_response_body` below the store's limit";

/// Why a response above the limit is not stored.
pub(crate) const TOO_LARGE: &str =
    "the response is larger than `max_response_body`, so it cannot be stored";

/// Returns the reply of a request that is not protected. Also a response that reports a failed run is then sent as the result. Nothing
/// of it is stored.
pub(crate) fn unprotected<R, E>(reply: HandlerEnd<R, E>) -> HandlerEnd<R, E> {
    match reply {
        Err(Failure::Response(own, _)) => Ok(Reply::Own(own, Keep::Nothing)),
        reply => reply,
    }
}

impl HttpCall<'_> {
    /// Returns the key of the record, or `None` if the request is refused or runs unprotected.
    pub fn key(&self) -> Option<&RecordId> {
        self.state.as_ref().ok()?.1.key()
    }

    /// Runs the handler with its [`Call`], or returns the response of an earlier call with the same key.
    ///
    /// What the handler returns is its report: a 5xx or an error frees the key, also under `on_timeout = "hold"`. So no layer that
    /// makes responses or errors of its own may be a part of it.
    ///
    /// `view` shows a response of the handler as status, headers and body. They decide what is stored. The handler's own response is sent
    /// unchanged. An `Err` of `view` says why the response cannot be stored.
    ///
    /// # Errors
    ///
    /// Returns the handler's error. An error of this framework is a response.
    pub async fn run<R, E, F: Future<Output = Result<R, E>>>(
        self,
        handler: impl FnOnce(Call) -> F,
        view: impl FnOnce(&R) -> Result<http::Response<Bytes>, ViewError>,
    ) -> Result<ClientReply<R>, E> {
        let operation = self.operation;
        let header_rule = self.header_rule;
        let with_headers = |mut response: http::Response<Bytes>| {
            header_rule.apply(response.headers_mut());
            response
        };
        let (place, identity) = match self.state {
            Ok(identified) => identified,
            Err(refused) => return Ok(ClientReply::Made(with_headers(*refused))),
        };
        let protected = identity.bypass().is_none();
        let handler = async |call: Call| {
            let failed = |error| Failure::Service(error, None);
            let response = handler(call.clone()).await.map_err(failed)?;
            let view = view(&response);
            let reply = operation.reply(response, view, call.undoes());
            if protected { reply } else { unprotected(reply) }
        };
        Ok(match operation.run(&place, &identity, handler).await? {
            ClientReply::Made(response) => ClientReply::Made(with_headers(response)),
            own => own,
        })
    }
}
