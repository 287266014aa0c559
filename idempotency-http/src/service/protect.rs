//! One protected request: its body is read, its call is identified, and the inner service runs under the protocol.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use http_body::Body;
use http_body_util::LengthLimitError;
use idempotency_core::error::ErrorKind;
use idempotency_core::operation::{Call, run_without_claim};
use idempotency_core::store::MemoryStore;
use tower_service::Service;

use super::BoxError;
use crate::body::{End, ResponseBody, collect};
use crate::host::{Host, backend};
use crate::operation::{Event, Head, HttpOperation, TOO_LARGE, unprotected};
use crate::problem::{Problem, Reason};
use crate::received::ReceivedRequest;
use crate::reply::{ClientReply, Failure, FailureReport, HandlerEnd, Keep, Reply};
use crate::rules::Verdict;

/// Whether a run inside the call of a layer has started: an extension of the request that its handler gets.
///
/// A layer between this one and another one inside can send the request again. Then a refusal of the inner one, which says that nothing was
/// done, is true of the last attempt alone.
#[derive(Clone, Default)]
struct Started(Arc<AtomicBool>);

/// Runs `inner` for one request, or returns the response of an earlier request or of this framework.
pub(super) async fn protect<S, H, B, R>(
    operation: &HttpOperation,
    host: H,
    inner: S,
    request: Request<B>,
) -> Result<ClientReply<Response<ResponseBody<R>>>, S::Error>
where
    H: Host,
    S: Service<Request<B>, Response = Response<R>>,
    B: Body<Data = Bytes> + From<String> + From<Vec<u8>> + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes>,
{
    let around = request.extensions().get::<Started>().cloned();
    let is_inside = around.is_some();
    let outside = around.unwrap_or_default();
    let mut reply = run(operation, host, inner, request, &outside).await?;
    let (extensions, is_made) = match &mut reply {
        ClientReply::Own(response) => (response.extensions_mut(), false),
        ClientReply::Made(response) => (response.extensions_mut(), true),
    };
    if !is_inside || is_made && outside.0.load(Ordering::Relaxed) {
        // A request that no layer handed on can be that of a handler, which sent it after its effect.
        extensions.remove::<FailureReport>();
    } else if is_made && extensions.get() == Some(&Reason::InProgress) {
        // The run is that of another call: the layer outside has had no effect.
        extensions.insert(FailureReport);
    }
    Ok(reply)
}

/// As [`protect`]. Notes in `outside` that the handler starts.
async fn run<S, H, B, R>(
    operation: &HttpOperation,
    host: H,
    mut inner: S,
    request: Request<B>,
    outside: &Started,
) -> Result<ClientReply<Response<ResponseBody<R>>>, S::Error>
where
    H: Host,
    S: Service<Request<B>, Response = Response<R>>,
    B: Body<Data = Bytes> + From<String> + From<Vec<u8>> + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes>,
{
    let (mut parts, body) = request.into_parts();
    let compiled = operation.compiled();
    let place = match host.place(compiled.key_prefix(), &parts).await {
        Ok(place) => place,
        // Switched off: nothing of this framework may stop a request, or hide a write that was refused.
        Err(_) if compiled.is_disabled() => {
            let backend = backend(MemoryStore::new());
            let (end, refused) =
                run_without_claim(&backend, compiled.key_prefix(), None, async |call| {
                    give_unprotected(&mut parts.extensions, call.clone());
                    let response = inner.call(Request::from_parts(parts, body)).await;
                    unprotected_reply(operation, response.map_err(failed)?, &call).await
                })
                .await;
            return operation.without_claim(end, refused);
        }
        Err(error) => {
            return Ok(ClientReply::Made(
                operation.refuse(&Problem::of_error(error)),
            ));
        }
    };
    let context = || host.request_context(&parts);
    let path = host.sent_path(&parts);
    operation.check_path::<B>(path.as_deref());
    let receive = |body| {
        let request = ReceivedRequest::new(&parts, body).with_request_context(&context);
        match &path {
            Some(path) => request.with_path(path),
            None => request,
        }
    };
    let head = receive(b"");
    let head = match operation.head(&mut Event::new(operation, &head)) {
        Err(problem) => return Ok(ClientReply::Made(operation.refuse(&problem))),
        Ok(Head::Unprotected(identity)) => {
            let handler = async |call: Call| {
                outside.begin(&mut parts.extensions);
                give_unprotected(&mut parts.extensions, call.clone());
                let response = inner.call(Request::from_parts(parts, body)).await;
                let response = response.map_err(failed)?;
                unprotected_reply(operation, response, &call).await
            };
            return operation.run(&place, &identity, handler).await;
        }
        Ok(head) => head,
    };
    let may_be_text = host.may_be_text(&body);
    let body = match collect(body, operation.max_request_body()).await {
        // Trailers of a request are dropped: a body in memory has none.
        (body, End::Whole | End::Trailers) => body.read.unwrap_or_default(),
        (_, End::TooLarge) => return Ok(ClientReply::Made(too_large(operation))),
        (body, End::Failed) => return Ok(ClientReply::Made(unreadable(operation, body.error))),
    };
    let received = receive(&body);
    let mut event = Event::new(operation, &received);
    let identity = match operation.identity_of(head, &mut event, place.tenant.as_deref()) {
        Ok(identity) => identity,
        Err(problem) => return Ok(ClientReply::Made(operation.refuse(&problem))),
    };
    let protected = identity.bypass().is_none();
    let handler = async |call: Call| {
        outside.begin(&mut parts.extensions);
        parts.extensions.insert(call.clone());
        let body = rebuilt::<B>(body, may_be_text);
        let response = inner.call(Request::from_parts(parts, body)).await;
        let response = response.map_err(failed)?;
        if !protected {
            return unprotected_reply(operation, response, &call).await;
        }
        reply(operation, response, call.undoes()).await
    };
    operation.run(&place, &identity, handler).await
}

impl Started {
    /// Notes that a run starts, and gives the request a note of its own for the layers inside.
    fn begin(&self, extensions: &mut Extensions) {
        self.0.store(true, Ordering::Relaxed);
        extensions.insert(Self::default());
    }
}

/// Returns the reply of a request that is not protected. Its response is read only if the handler staged writes: they are applied
/// if they would be applied under a key.
async fn unprotected_reply<R, E>(
    operation: &HttpOperation,
    response: Response<R>,
    call: &Call,
) -> HandlerEnd<Response<ResponseBody<R>>, E>
where
    R: Body<Data = Bytes>,
{
    if !call.has_staged() {
        let own = response.map(ResponseBody::passed);
        return Ok(Reply::Own(own, Keep::Nothing));
    }
    unprotected(reply(operation, response, false).await)
}

/// Returns the body that the handler gets.
fn rebuilt<B: From<String> + From<Vec<u8>>>(body: Bytes, may_be_text: bool) -> B {
    let body = Vec::from(body);
    if !may_be_text {
        return B::from(body);
    }
    match String::from_utf8(body) {
        Ok(text) => B::from(text),
        Err(not_text) => B::from(not_text.into_bytes()),
    }
}

/// Returns the reply of the inner service. Its body is read only if it may be stored, and only up to the limit. `undoes` is true if the
/// handler decided that the steps of the key are undone.
async fn reply<R, E>(
    operation: &HttpOperation,
    response: Response<R>,
    undoes: bool,
) -> HandlerEnd<Response<ResponseBody<R>>, E>
where
    R: Body<Data = Bytes>,
{
    let rules = operation.rules();
    let verdict = operation.verdict(response.status(), undoes);
    if FailureReport::counts_for(&response, verdict) {
        let own = response.map(ResponseBody::passed);
        return HttpOperation::failed_run(own, undoes);
    }
    // An empty body may have no length: that of `lambda_http` has none.
    let body = response.body();
    let is_stream = body.size_hint().exact().is_none() && !body.is_end_stream();
    if verdict != Verdict::Store || is_stream && !rules.collects_streams {
        let own = response.map(ResponseBody::passed);
        return match verdict {
            Verdict::Failed if !undoes => Err(Failure::Response(own, Some(STATUS))),
            Verdict::Failed | Verdict::Release => {
                Ok(Reply::Own(own, operation.unprocessed(STATUS)))
            }
            Verdict::Store => Ok(Reply::Own(own, operation.unstorable(STREAM))),
        };
    }
    let (parts, body) = response.into_parts();
    let (body, end) = collect(body, rules.max_body).await;
    let read = body.read.clone().unwrap_or_default();
    let own = Response::from_parts(parts, body);
    let keep = match end {
        End::Whole => operation.keep(own.status(), own.headers(), read),
        End::TooLarge => operation.unstorable(TOO_LARGE),
        End::Trailers => operation.unstorable(TRAILERS),
        // The run did not produce its response: a failure of the handler.
        End::Failed => return Err(Failure::Response(own, Some(BROKEN))),
    };
    Ok(Reply::Own(own, keep))
}

/// Returns the failure of an inner service that has no response.
fn failed<R, E>(error: E) -> Failure<R, E> {
    Failure::Service(error, Some(ERROR))
}

/// Why a status alone is no report of the handler.
const STATUS: &str = "the status of the response can be that of a layer inside, such as a timeout, a limit or a retry, so the key is \
    held: if the handler itself returns it and had no effect, add `FailureReport` to its extensions";
/// Why an error alone is no report of the handler.
const ERROR: &str = "the error can be that of a layer inside, such as a timeout, so the key is held: if the handler itself fails \
    and had no effect, return a response with `FailureReport` in its extensions";
/// Why a body that breaks off is no report of the handler.
const BROKEN: &str = "the body of the response broke off, so the key is held";

/// Why a stream is not stored.
const STREAM: &str = "the response is a stream of unknown length, so it cannot be stored";
/// Why a response with trailers is not stored: they can change its meaning, as in gRPC.
const TRAILERS: &str = "the response has trailers, so it cannot be stored";

fn too_large(operation: &HttpOperation) -> Response<Bytes> {
    let limit = operation.max_request_body();
    let text = format!(
        "the body of the request has more than {limit} bytes, and the request was not processed: send less"
    );
    let detail = format!("the body has more than `max_request_body`, {limit} bytes");
    let error = operation.error_with(ErrorKind::InvalidPayload, detail);
    operation.refuse(&Problem::of_request(Reason::BodyTooLarge, text, error))
}

/// Returns the response for a body that failed. A layer outside can limit its length.
fn unreadable<E: Into<BoxError>>(operation: &HttpOperation, error: Option<E>) -> Response<Bytes> {
    let error: Option<BoxError> = error.map(Into::into);
    let first = error
        .as_deref()
        .map(|error| error as &(dyn StdError + 'static));
    let mut causes = std::iter::successors(first, |&cause| cause.source());
    let (reason, text) = if causes.any(|cause| cause.is::<LengthLimitError>()) {
        let text =
            "the body of the request is too large, and the request was not processed: send less";
        (Reason::BodyTooLarge, text)
    } else {
        let text = "the body of the request cannot be read, and the request was not processed: send it again, unchanged \
                    and under the same key";
        (Reason::RequestUnreadable, text)
    };
    let detail = "the body of the request could not be read to its end";
    let error = operation.error_with(ErrorKind::InvalidPayload, detail);
    operation.refuse(&Problem::of_request(reason, text, error))
}

/// Gives the handler the call of an unprotected run, unless a layer outside runs a call of its own: the tokens and the staged writes of
/// that one are safe to repeat.
fn give_unprotected(extensions: &mut Extensions, call: Call) {
    if extensions.get::<Call>().is_none_or(Call::has_ended) {
        extensions.insert(call);
    }
}
