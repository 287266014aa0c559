//! The call of a handler of HTTP events: what the code of `#[idempotent(http, ..)]` runs.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Response, StatusCode};
use idempotency_core::config::Variables;
use idempotency_core::error::Error;
use idempotency_http::{HttpOperation, ReceivedRequest, RequestEvent, Sent};

use super::{HttpEvent, HttpResponse};
use crate::event::Event;
use crate::http::host::LambdaHost;
use crate::invocation::{Change, Deadline, InScope};
use crate::operation::registry::RegisteredOperation;
use crate::store::StoreHandle;

/// A request that was taken from an event, before the handler takes the event.
pub struct PreparedHttp {
    parts: Parts,
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
    let (parts, body) = event.payload().request().into_parts();
    let http = registered.http().ok().map(|(_, http)| http);
    PreparedHttp {
        event: http
            .filter(|http| http.protects(&parts.method))
            .map(|http| event.payload().read(http)),
        parts,
        body,
        deadline: Deadline::from(event.context()),
    }
}

/// How responses of one type are HTTP responses. Only an [`HttpResponse`] has a form.
///
/// It takes the place of trait bounds, so that a wrong type is one error, at the type.
pub struct HttpForm<R> {
    to_http: fn(&R) -> Option<Response<Vec<u8>>>,
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
    fn of(&self, sent: Sent<R>) -> R {
        match sent {
            Sent::Own(response) => response,
            Sent::Made(mut response) => {
                // The platform writes it, for the body that it sends.
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
pub async fn run<R, E>(
    registered: &'static RegisteredOperation,
    prepared: PreparedHttp,
    store: Option<StoreHandle>,
    form: HttpForm<R>,
    handler: Pin<Box<impl Future<Output = Result<R, E>>>>,
) -> Result<R, E> {
    let PreparedHttp {
        parts,
        body,
        event,
        deadline,
    } = prepared;
    let mut request = ReceivedRequest::new(&parts, &body);
    if let Some(event) = &event {
        request = request.with_event(event);
    }
    let (operation, http) = match registered.http() {
        Ok(found) => found,
        Err(error) => return Box::pin(misconfigured(error, &request, &form)).await,
    };
    let operation = match store {
        Some(store) => registered.with_store(operation, store),
        None => operation.clone(),
    };
    let host = LambdaHost::new(operation);
    let invocation = host.invocation(deadline);
    let change = match &invocation {
        Ok(known) => Change::to(known.clone()),
        Err(_) => Change::default(),
    };
    let handler = InScope::new(change, handler);
    if !http.protects(&parts.method) {
        return handler.await;
    }
    let place = match invocation {
        Ok(invocation) => host.place_in(&invocation).await,
        Err(error) => Err(error),
    };
    let view = |response: &R| Some((form.to_http)(response)?.map(Bytes::from));
    let call = http.call(place, &request);
    // A future of 4 KB, as the one above. On the heap they do not make that of each handler larger, which is moved several times.
    let response = Box::pin(call.run(handler, view)).await?;
    Ok(form.of(response))
}

/// Returns the response of a function whose settings cannot be used. Its own rules do not exist.
///
/// # Errors
///
/// None: `E` is the handler's error, and the handler does not run.
async fn misconfigured<R, E>(
    error: Error,
    request: &ReceivedRequest<'_>,
    form: &HttpForm<R>,
) -> Result<R, E> {
    let rules = HttpOperation::builder(error.operation())
        .variables(Variables::default())
        .shared_by_all_callers()
        .build();
    let Ok(rules) = rules else {
        // Unreachable: these rules need no setting.
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return Ok(form.of(Sent::Made(response)));
    };
    let call = rules.call(Err(error), request);
    Ok(form.of(call.run(pending(), |_| None).await?))
}

impl<R> fmt::Debug for HttpForm<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpForm")
    }
}

impl fmt::Debug for PreparedHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreparedHttp({})", self.parts.method)
    }
}
