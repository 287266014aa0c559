//! Handlers of HTTP events: `#[idempotent(http, ..)]`.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the call of a handler |
//! | `request` | the request inside an event, for each kind of event |
//! | `response` | the response inside the response of a handler, for each kind of event |

mod request;
mod response;

pub use request::{EventRequest, HttpEvent};
pub use response::HttpResponse;

use std::future::{Future, pending};
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Response, StatusCode};
use idempotency_core::config::Variables;
use idempotency_core::error::Error;
use idempotency_core::operation::Call;
use idempotency_core::store::Store;
use idempotency_http::{ClientReply, HttpOperation, ReceivedRequest, RequestEvent, ViewError};

use crate::event::Event;
use crate::http::host::LambdaHost;
use crate::invocation::{Deadline, InScope, ScopeChange};
use crate::operation::http_rules::RegisteredHttp;
use crate::operation::registry::RegisteredOperation;

/// A request that was taken from an event, before the handler takes the event.
pub struct PreparedHttp {
    parts: Parts,
    path: String,
    query: String,
    body: Vec<u8>,
    /// The event, for expressions. `None` if the method is not protected.
    event: Option<RequestEvent>,
    deadline: Deadline,
}

/// Takes the request from an event.
pub fn prepare<V>(registered: &'static RegisteredOperation, event: &V) -> PreparedHttp
where
    V: Event,
    V::Payload: HttpEvent,
{
    let request = event.payload().request();
    let http = registered.http().ok();
    let http = http.filter(|http| http.protects(&request.method, &request.headers));
    let read = http.map(|http| event.payload().read(http));
    PreparedHttp::of(request, read, Deadline::from(event.context()))
}

impl PreparedHttp {
    fn of(request: EventRequest, event: Option<RequestEvent>, deadline: Deadline) -> Self {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.method = request.method;
        parts.headers = request.headers;
        Self {
            parts,
            path: request.path,
            query: request.query,
            body: request.body,
            event,
            deadline,
        }
    }

    fn request(&self) -> ReceivedRequest<'_> {
        let request = ReceivedRequest::new(&self.parts, &self.body);
        // The URI of the head is empty: the path and the query of an event need not be those of a URI.
        let request = request.with_path(&self.path).with_query(&self.query);
        match &self.event {
            Some(event) => request.with_event(event),
            None => request,
        }
    }
}

/// How a response type of handlers is converted to an HTTP response and back. Only an [`HttpResponse`] has a form.
///
/// It is a value and not a trait bound, so that a wrong type is one error of the compiler, at the type.
pub struct HttpForm<R> {
    to_http: fn(&R) -> Result<Response<Vec<u8>>, ViewError>,
    from_http: fn(Response<Vec<u8>>) -> R,
}

impl<R: HttpResponse> HttpForm<R> {
    pub(crate) fn new() -> Self {
        Self {
            to_http: R::to_http,
            from_http: R::from_http,
        }
    }
}

impl<R> HttpForm<R> {
    /// Returns the response that is sent, in the handler's form.
    fn of(&self, sent: ClientReply<R>) -> R {
        match sent {
            ClientReply::Own(response) => response,
            ClientReply::Made(mut response) => {
                // The platform writes the length of the body that it sends.
                response.headers_mut().remove(CONTENT_LENGTH);
                (self.from_http)(response.map(Vec::from))
            }
        }
    }
}

/// Runs a handler of HTTP events, or returns the response of an earlier request or of this framework.
///
/// # Errors
///
/// The handler's error.
pub async fn run<R, E, Fut: Future<Output = Result<R, E>>>(
    registered: &'static RegisteredOperation,
    mut prepared: PreparedHttp,
    store: Option<Arc<dyn Store>>,
    form: HttpForm<R>,
    handler: Box<impl FnOnce(Call) -> Fut>,
) -> Result<R, E> {
    let deadline = std::mem::take(&mut prepared.deadline);
    let compiled = registered.operation(store);
    let (operation, http) = match compiled.and_then(|own| Ok((own, registered.http()?))) {
        Ok(compiled) => compiled,
        Err(error) => return Box::pin(misconfigured(registered, error, &prepared, &form)).await,
    };
    let invocation = deadline.invocation(operation.compiled());
    let host = LambdaHost::new(operation);
    let change = match &invocation {
        Ok(known) => ScopeChange::to(known.clone()),
        Err(_) => ScopeChange::default(),
    };
    let handler = |call| InScope::enter(change, || handler(call));
    let view = |response: &R| Ok((form.to_http)(response)?.map(Bytes::from));
    if prepared.event.is_none() {
        let backend = host.backend_at_hand();
        let deadline = invocation.ok().and_then(|known| known.deadline);
        let headers = &prepared.parts.headers;
        let call = http.run_unprotected(&backend, deadline, headers, handler, view);
        return Ok(form.of(Box::pin(call).await?));
    }
    let place = match invocation {
        Ok(known) => host.place_in(&known).await,
        Err(error) => Err(error),
    };
    let call = http.call(place, &prepared.request());
    // This future takes 4 KB. It is on the heap, so that the future of the handler stays small: that one is moved several times.
    let response = Box::pin(call.run(handler, view)).await?;
    Ok(form.of(response))
}

/// Returns the response of a function whose settings cannot be used. Its own rules do not exist.
///
/// # Errors
///
/// None: `E` is the handler's error, and the handler does not run.
async fn misconfigured<R, E>(
    registered: &'static RegisteredOperation,
    error: Error,
    prepared: &PreparedHttp,
    form: &HttpForm<R>,
) -> Result<R, E> {
    let rules = HttpOperation::builder(error.operation())
        .variables(Variables::default())
        .shared_by_all_callers();
    let rules = match registered
        .http_rules()
        .and_then(RegisteredHttp::add_headers)
    {
        Some(headers) => rules.add_headers(headers),
        None => rules,
    };
    let Ok(rules) = rules.build() else {
        // Unreachable: these rules need no setting.
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return Ok(form.of(ClientReply::Made(response)));
    };
    let call = rules.call(Err(error), &prepared.request());
    Ok(form.of(call
        .run(|_| pending(), |_| Err(ViewError::NoResponse(NO_HANDLER)))
        .await?))
}

/// Why a request that is refused has no response of a handler.
const NO_HANDLER: &str = "the handler did not run";
