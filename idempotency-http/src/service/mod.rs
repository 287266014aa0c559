//! The tower layer, its service and the future of a response.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body::Body;
use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use pin_project_lite::pin_project;
use tokio::sync::watch;
use tower_layer::Layer;
use tower_service::Service;
use tracing::instrument::{Instrument, WithSubscriber};

use crate::body::ResponseBody;
use crate::host::Host;
use crate::operation::HttpOperation;
use crate::problem::Problem;
use crate::reply::ClientReply;

mod protect;

/// An error of any type, as the bodies of tower services have it.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The tower layer of an [`HttpOperation`]: for an axum `Router`, for one axum route, or for any tower service of
/// [`http::Request`].
///
/// Put authentication, CORS, compression and body limits outside of it, and timeouts inside.
///
/// A protected request has its [`Call`](crate::Call) as an extension, for the handler that asks for it: the key, which run of it this
/// is, the time left, and tokens for effects outside. A request without a key, where none is required, has the call of an unprotected
/// run. A request of a method that is not protected passes unchanged, without a call: a handler of such requests too takes an
/// `Option<Extension<Call>>`.
///
/// # Examples
///
/// ```
/// use axum::{Extension, Router, routing::post};
/// use idempotency_http::{Call, HttpOperation, MemoryStore, backend};
///
/// async fn pay(Extension(call): Extension<Call>) -> String {
///     format!("POST /charges, Idempotency-Key: {}", call.token("charge"))
/// }
///
/// let idempotent = HttpOperation::builder("shop::payments").caller_header("x-user-id").build()?;
/// let idempotent = idempotent.layer(backend(MemoryStore::new()));
/// let app: Router = Router::new()
///     .route("/payments", post(pay))
///     .route_layer(idempotent); // `route_layer`: a request without a route gets 404 outside of it
/// # Ok::<(), idempotency_http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpIdempotencyLayer<H = Backend> {
    operation: HttpOperation,
    host: H,
    /// The requests that run to their end, if they do: each has a receiver.
    to_end: Option<Arc<watch::Sender<()>>>,
    /// True if another operation has the same key prefix: then each protected request is refused.
    is_refused: bool,
}

/// The service that [`HttpIdempotencyLayer`] makes.
#[derive(Clone, Debug)]
pub struct HttpIdempotencyService<S, H = Backend> {
    inner: S,
    layer: HttpIdempotencyLayer<H>,
}

impl HttpOperation {
    /// Returns the tower layer of this operation. `host` is a [`Backend`](crate::Backend), or what a platform provides.
    ///
    /// If another operation of the same backend has the key prefix, and another path or other rules for key, caller or fingerprint, this is logged
    /// as an error, and each protected request is refused: otherwise the two would get each other's responses.
    pub fn layer<H: Host>(&self, host: H) -> HttpIdempotencyLayer<H> {
        let prefix = self.compiled().key_prefix();
        let is_refused = !host.claim_prefix(prefix, self.sameness());
        if is_refused {
            tracing::error!(operation = prefix, "{SHARED_PREFIX}");
        }
        HttpIdempotencyLayer {
            operation: self.clone(),
            host,
            to_end: None,
            is_refused,
        }
    }
}

impl<H: Host> HttpIdempotencyLayer<H> {
    /// Runs each protected request to its end, also if its client disconnects or a timeout outside of the layer fires.
    ///
    /// Without it the server drops such a request half-way, and its key is refused with 409 until the lease ends. With it the
    /// handler runs on, its response is stored, and a retry gets the response.
    ///
    /// Each request runs in a tokio task of its own. It keeps the `tracing` span and the extensions of the request. Task-local
    /// values of the code outside of the layer are not visible in it. The server waits at its shutdown for the requests whose clients are
    /// connected: [`idle`](Self::idle) waits for the others too.
    ///
    /// # Panics
    ///
    /// A protected request panics outside of a tokio runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_http::{HttpOperation, MemoryStore, backend};
    ///
    /// let idempotent = HttpOperation::builder("shop::payments").caller_header("x-user-id").build()?;
    /// let idempotent = idempotent.layer(backend(MemoryStore::new())).run_to_end();
    /// # Ok::<(), idempotency_http::Error>(())
    /// ```
    #[must_use]
    pub fn run_to_end(mut self) -> Self {
        self.to_end.get_or_insert_default();
        self
    }

    /// Waits until no request of this layer, of its clones and of its services [runs to its end](Self::run_to_end). Ends at once without
    /// `run_to_end`.
    ///
    /// Call it after the server has stopped, and before the process ends. Otherwise the requests whose clients have disconnected are cut
    /// off, as by a kill: each key is refused with 409 until its lease ends, and then a retry runs the handler again.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_http::{HttpOperation, MemoryStore, backend};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotency_http::Error> {
    /// let idempotent = HttpOperation::builder("shop::payments").caller_header("x-user-id").build()?;
    /// let idempotent = idempotent.layer(backend(MemoryStore::new())).run_to_end();
    /// // `axum::serve(listener, app.route_layer(idempotent.clone())).with_graceful_shutdown(signal).await?;`
    /// idempotent.idle().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn idle(&self) {
        if let Some(running) = &self.to_end {
            running.closed().await;
        }
    }
}

/// Why a layer refuses its requests.
const SHARED_PREFIX: &str = "another operation of this server has the same key prefix, and another path or other rules for key, caller or \
     fingerprint, so they would get each other's responses: give each operation a `key_prefix` of its own (no handler of this one runs)";

impl<S, H: Clone> Layer<S> for HttpIdempotencyLayer<H> {
    type Service = HttpIdempotencyService<S, H>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        HttpIdempotencyService { inner, layer }
    }
}

impl<S, H, B, R> Service<Request<B>> for HttpIdempotencyService<S, H>
where
    H: Host,
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send,
    B: Body<Data = Bytes> + From<String> + From<Vec<u8>> + Send + 'static,
    B::Error: Into<BoxError> + Send,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let HttpIdempotencyLayer {
            operation,
            host,
            to_end,
            is_refused,
        } = &self.layer;
        if !operation.protects(request.method(), request.headers())
            && !host.refuses_source(request.extensions())
        {
            let future = self.inner.call(request);
            let state = State::Passed { future };
            return ResponseFuture { state };
        }
        // The service that was polled is ready. Its clone may not be.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        let (operation, host) = (operation.clone(), host.clone());
        let is_refused = *is_refused && !operation.compiled().is_disabled();
        let protected = async move {
            let header_rule = operation.header_rule(request.headers());
            let is_head = request.method() == Method::HEAD;
            let reply = if is_refused {
                let error = Error::new(ErrorKind::Configuration, operation.compiled().key_prefix());
                let problem = Problem::of_error(error.with_detail(SHARED_PREFIX));
                ClientReply::Made(operation.refuse(&problem))
            } else {
                protect::protect(&operation, host, ready, request).await?
            };
            Ok(match reply {
                ClientReply::Own(response) => response,
                ClientReply::Made(mut response) => {
                    if is_head {
                        // A response to HEAD names the length of the body that it leaves out. That length was not stored.
                        response.headers_mut().remove(CONTENT_LENGTH);
                    }
                    header_rule.apply(response.headers_mut());
                    response.map(ResponseBody::whole)
                }
            })
        };
        let future: CallFuture<_, _> = match to_end {
            Some(running) => Box::pin(run_to_end(protected, running.subscribe())),
            None => Box::pin(protected),
        };
        let state = State::Protected { future };
        ResponseFuture { state }
    }
}

pin_project! {
    /// The future of a response of [`HttpIdempotencyService`](crate::HttpIdempotencyService).
    ///
    /// If it is dropped before it ends, because the client disconnects or a timeout outside fires, the handler is dropped too.
    /// Its claim stays until the lease ends. With
    /// [`run_to_end`](crate::HttpIdempotencyLayer::run_to_end) the handler runs on, and its response is stored.
    pub struct ResponseFuture<F, R: Body, E> {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, R: Body, E> {
        Passed { #[pin] future: F },
        Protected { future: CallFuture<R, E> },
    }
}

type CallFuture<R, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, E>> + Send>>;

/// Runs a future to its end, also if the returned future is dropped once it was polled. Drops `running` after that.
async fn run_to_end<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
    running: watch::Receiver<()>,
) -> T {
    let future = async move {
        let output = future.await;
        drop(running);
        output
    };
    let task = tokio::spawn(future.in_current_span().with_current_subscriber());
    match task.await {
        Ok(output) => output,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime shuts down, and drops this future too.
            Err(_) => pending().await,
        },
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Passed { future } => {
                let response = ready!(future.poll(context))?;
                Poll::Ready(Ok(response.map(ResponseBody::passed)))
            }
            StateProjection::Protected { future } => future.as_mut().poll(context),
        }
    }
}
