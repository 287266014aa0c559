//! The layer of HTTP on Lambda, and what surrounds a request there: the operation's store, and the deadline and tenant of the invocation.

use std::any::Any;

use http::Extensions;
use http::request::Parts;
use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_http::{Host, HttpIdempotencyLayer, HttpIdempotencyService, Place};
use lambda_http::request::RequestContext;
use lambda_http::{Body, RequestExt};
use lambda_runtime::tower::Layer;
use serde_json::Value;

use crate::invocation::{Deadline, HasContext, Invocation, InvocationLayer, InvocationService};
use crate::operation::Operation;

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
#[derive(Clone, Debug)]
pub struct HttpLayer {
    pub(super) layer: HttpIdempotencyLayer<LambdaHost>,
}

impl<S> Layer<S> for HttpLayer {
    // The outer service opens the invocation's scope, so that the layer and everything inside it know the invocation.
    type Service = InvocationService<HttpIdempotencyService<S, LambdaHost>>;

    fn layer(&self, inner: S) -> Self::Service {
        InvocationLayer::new().layer(self.layer.layer(inner))
    }
}

/// The variable with which `lambda_http` leaves the stage out of a path.
const NO_STAGE: &str = "AWS_LAMBDA_HTTP_IGNORE_STAGE_IN_PATH";

/// Returns the path of the event that became this request; `None` if it was no event.
fn path_of_event(request: &Parts, with_stage: bool) -> Option<String> {
    let path = request.raw_http_path();
    let stage = match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV1(context)) if with_stage => context.stage.as_deref(),
        _ => None,
    };
    let stage = stage.filter(|stage| *stage != "$default");
    (!path.is_empty()).then(|| match stage {
        Some(stage) => format!("/{stage}{path}"),
        None => path.to_owned(),
    })
}

/// Why a request of VPC Lattice is refused. `lambda_http` reads its events only with the feature `vpc_lattice`.
const VPC_LATTICE: &str = "events of VPC Lattice are not supported, and the request was not processed: put a load balancer or an API in \
    front of the function";
/// Why a message of a WebSocket is refused. It has no method, so `lambda_http` makes a GET of it, which no operation would protect.
const WEBSOCKET: &str = "events of a WebSocket API are not supported, and the message was not processed: leave the layer out, and protect the \
    function that handles a message";

/// Returns why each request with this context is refused. `None` if it is not.
fn refused(context: &RequestContext) -> Option<&'static str> {
    match context {
        RequestContext::ApiGatewayV1(_)
        | RequestContext::ApiGatewayV2(_)
        | RequestContext::Alb(_) => None,
        // The other variants exist only with features, which the user's program can switch on.
        other => refused_source(&serde_json::to_value(other).ok()?),
    }
}

/// Returns why an event with this `requestContext` is refused. Of these sources only one has a service network, and one a connection.
fn refused_source(context: &Value) -> Option<&'static str> {
    if context["serviceNetworkArn"].is_string() {
        Some(VPC_LATTICE)
    } else {
        context["connectionId"].is_string().then_some(WEBSOCKET)
    }
}

/// The [`Host`] of requests on Lambda.
///
/// The invocation is that of the context in the request's extensions, where `lambda_http` puts it. Without a context it is the
/// invocation around the call. If neither is known inside Lambda, the request is refused: its deadline and its tenant would be a
/// guess.
#[derive(Clone, Debug)]
pub struct LambdaHost {
    operation: Operation,
}

impl LambdaHost {
    pub(super) fn new(operation: Operation) -> Self {
        Self { operation }
    }

    /// Returns the backend of a run without protection.
    pub(super) fn backend_at_hand(&self) -> Backend {
        self.operation.backend_at_hand()
    }

    /// Returns where a call in this invocation runs.
    ///
    /// # Errors
    ///
    /// If there is no store. The handler has not run.
    pub(super) async fn place_in(&self, invocation: &Invocation) -> Result<Place, Error> {
        Ok(Place {
            backend: self.operation.backend().await?,
            deadline: invocation.deadline,
            tenant: invocation.tenant.clone(),
        })
    }
}

impl Host for LambdaHost {
    async fn place(&self, _operation: &str, request: &Parts) -> Result<Place, Error> {
        if let Some(why) = request.request_context_ref().and_then(refused) {
            let error = Error::new(
                ErrorKind::Configuration,
                self.operation.compiled().key_prefix(),
            );
            return Err(error.with_detail(why));
        }
        let context = request.context();
        let deadline = context.map_or(Deadline::Inherited, Deadline::from);
        let invocation = deadline.invocation(self.operation.compiled())?;
        self.place_in(&invocation).await
    }

    fn refuses_source(&self, request: &Extensions) -> bool {
        request.get().and_then(refused).is_some()
    }

    fn request_context(&self, request: &Parts) -> Option<Value> {
        let context = request.extensions.get::<RequestContext>()?;
        serde_json::to_value(context).ok()
    }

    /// Returns the path of the event. That of the URI is what routers outside of the layer have left, and `lambda_http` has resolved `..`
    /// in it.
    ///
    /// The `path` of payload format 1.0 lacks the stage, which `lambda_http` puts before it.
    fn sent_path(&self, request: &Parts) -> Option<String> {
        path_of_event(request, std::env::var(NO_STAGE).is_err())
    }

    /// Returns false for a body that the event has as base64: a handler that matches on the body's variants must find the same
    /// variant with and without protection.
    fn may_be_text(&self, body: &dyn Any) -> bool {
        !matches!(body.downcast_ref(), Some(Body::Binary(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::routing::post;
    use idempotency_core::store::MemoryStore;
    use lambda_http::{Request, Response, service_fn};
    use lambda_runtime::tower::ServiceExt;
    use serde_json::json;

    use super::*;
    use crate::{BoxError, Operation};

    /// Returns the request that `lambda_http` makes of an event of this kind.
    fn request(kind: &str, path: &str, stage: &str) -> Request {
        let mut events: Value = serde_json::from_str(include_str!("handler/events.json")).unwrap();
        let event = &mut events[kind];
        event[if kind == "v2" { "rawPath" } else { "path" }] = json!(path);
        event["headers"]["idempotency-key"] = json!("k-1");
        if kind == "v1" {
            event["multiValueHeaders"]["Idempotency-Key"] = json!(["k-1"]);
        }
        if kind != "alb" {
            event["requestContext"]["stage"] = json!(stage);
        }
        lambda_http::request::from_str(&event.to_string()).unwrap()
    }

    #[test]
    fn the_path_is_that_of_the_event_and_no_two_of_them_become_one() {
        let operation = Operation::builder("shop::paths").key("id");
        let operation = operation.store(Arc::new(MemoryStore::new())).build();
        let host = LambdaHost::new(operation.unwrap());
        for (kind, stage, path, expected, is_that_of_the_uri) in [
            ("v2", "$default", "/payments", "/payments", true),
            ("v2", "prod", "/prod/payments", "/prod/payments", true),
            ("v2", "prod", "/payments", "/payments", false),
            ("v1", "prod", "/payments", "/prod/payments", true),
            ("v1", "prod", "/prod/payments", "/prod/prod/payments", false),
            ("alb", "", "/payments", "/payments", true),
            ("alb", "", "/a%20b", "/a%20b", true),
            ("v2", "$default", "/a/../b", "/a/../b", false),
            ("v2", "$default", "/a b", "/a b", false),
            ("v2", "$default", "/a%20b", "/a%20b", true),
        ] {
            let (parts, _) = request(kind, path, stage).into_parts();
            let found = path_of_event(&parts, true);
            assert_eq!(found.as_deref(), Some(expected), "{kind} {stage} {path}");
            assert_eq!(host.sent_path(&parts), found, "{kind} {stage} {path}");
            assert!(host.request_context(&parts).unwrap().is_object());
            assert_eq!(parts.uri.path() == expected, is_that_of_the_uri, "{path}");
            let without = path_of_event(&parts, false);
            assert_eq!(without.as_deref(), Some(path), "{kind} {stage}");
        }
        let (parts, ()) = http::Request::new(()).into_parts();
        assert_eq!(path_of_event(&parts, true), None);
    }

    #[test]
    fn a_context_of_vpc_lattice_is_known_and_no_supported_one_is() {
        let events: Value = serde_json::from_str(include_str!("handler/events.json")).unwrap();
        for kind in ["v2", "v1", "alb"] {
            assert_eq!(refused_source(&events[kind]["requestContext"]), None);
            let (parts, _) = request(kind, "/", "prod").into_parts();
            assert_eq!(refused(parts.request_context_ref().unwrap()), None);
        }
        let lattice = json!({"serviceNetworkArn": "arn:aws:vpc-lattice:eu-central-1:1:servicenetwork/sn-1", "region": "eu-central-1"});
        assert_eq!(refused_source(&lattice), Some(VPC_LATTICE));
    }

    #[tokio::test]
    async fn a_message_of_a_websocket_does_not_pass_as_a_request_that_needs_no_protection()
    -> Result<(), BoxError> {
        let message = json!({
            "requestContext": {
                "routeKey": "pay", "eventType": "MESSAGE", "messageId": "m-1", "messageDirection": "IN", "requestId": "r-1",
                "connectionId": "c-1", "connectedAt": 1_700_000_000_000_u64, "requestTimeEpoch": 1_700_000_001_000_u64,
                "stage": "prod", "apiId": "a-1", "identity": { "sourceIp": "192.0.2.1" },
            },
            "body": "{\"action\":\"pay\",\"id\":1}",
            "isBase64Encoded": false,
        });
        let message = || lambda_http::request::from_str(&message.to_string());
        for (disabled, status) in [(false, 500), (true, 200)] {
            let variable = ("IDEMPOTENCY_DISABLED".to_owned(), disabled.to_string());
            let layer = Operation::builder("shop::messages")
                .variables([variable].into_iter().collect())
                .store(Arc::new(MemoryStore::new()))
                .key("powertools_json(body).id")
                .http()
                .shared_by_all_callers()
                .build()?;
            let app = layer.layer(service_fn(async |_: Request| {
                Ok::<_, BoxError>(Response::new("paid".to_owned()))
            }));
            assert_eq!(app.oneshot(message()?).await?.status(), status);
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_layer_in_a_router_of_each_account_tells_the_accounts_apart() -> Result<(), BoxError>
    {
        for (kind, prefix) in [("v2", ""), ("v1", "/prod"), ("alb", "")] {
            let layer = Operation::builder("shop::accounts")
                .store(Arc::new(MemoryStore::new()))
                .http()
                .shared_by_all_callers()
                .build()?;
            let inside = Router::new().route("/payments", post(async || "paid").layer(layer));
            let app = Router::new().nest(&format!("{prefix}/accounts/{{account}}"), inside);
            let stage = if kind == "v1" { "prod" } else { "$default" };
            for (account, status) in [(1, 200), (1, 200), (2, 422)] {
                let path = format!("/accounts/{account}/payments");
                let response = app.clone().oneshot(request(kind, &path, stage)).await?;
                assert_eq!(response.status(), status, "{kind} {account}");
            }
        }
        Ok(())
    }
}
