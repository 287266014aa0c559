//! The tower layer of a protected HTTP service on Lambda.

use std::fmt;

use idempotency_http::{HttpIdempotencyLayer, HttpIdempotencyService, HttpOperation};
use lambda_runtime::tower::Layer;

use super::host::LambdaHost;
use crate::invocation::{InvocationLayer, InvocationService};

/// Makes an HTTP service on Lambda idempotent: a tower layer for an axum `Router`, one axum route, or any service of
/// [`lambda_http::Request`].
///
/// [`OperationBuilder::http`](crate::OperationBuilder::http) makes it. It works under [`http::run`](super::run), and under
/// `lambda_http::run` after [`init`](crate::init): it finds deadline, tenant and `requestContext` in the extensions where
/// `lambda_http` puts them, and makes the invocation known to the code inside.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{BoxError, MemoryStore, Operation};
/// use lambda_http::{Body, Request, Response, service_fn};
/// use lambda_runtime::tower::{Layer, ServiceExt};
/// use std::sync::Arc;
///
/// async fn pay(_: Request) -> Result<Response<Body>, BoxError> {
///     Ok(Response::new("paid".into()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let idempotent = Operation::builder("shop::payments")
///     .store(Arc::new(MemoryStore::new()))
///     .http()
///     .caller_header("x-user-id") // set by the authorizer, never by the client
///     .build()?;
/// let app = idempotent.layer(service_fn(pay));
/// for replayed in [false, true] {
///     let request = lambda_http::http::Request::post("/payments")
///         .header("idempotency-key", "\"8e03978e\"")
///         .header("x-user-id", "u-1")
///         .body(Body::Empty)?;
///     let response = app.clone().oneshot(request).await?;
///     assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HttpLayer {
    layer: HttpIdempotencyLayer<LambdaHost>,
    key_prefix: String,
}

impl HttpLayer {
    pub(super) fn new(operation: &HttpOperation, host: LambdaHost) -> Self {
        Self {
            key_prefix: operation.compiled().key_prefix().to_owned(),
            layer: operation.layer(host),
        }
    }

    /// Returns the prefix of the operation's keys.
    pub fn key_prefix(&self) -> &str {
        &self.key_prefix
    }
}

impl<S> Layer<S> for HttpLayer {
    // The outer service opens the invocation's scope, so that the layer and everything inside it know the invocation.
    type Service = InvocationService<HttpIdempotencyService<S, LambdaHost>>;

    fn layer(&self, inner: S) -> Self::Service {
        InvocationLayer::new().layer(self.layer.layer(inner))
    }
}

impl fmt::Debug for HttpLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLayer")
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}
