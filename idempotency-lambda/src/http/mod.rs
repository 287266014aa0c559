//! HTTP on Lambda: tower services of HTTP requests, and handlers of HTTP events.
//!
//! | task | items |
//! |---|---|
//! | start an axum `Router` or a service of `lambda_http` requests | [`run`], [`run_concurrent`]; with a `Runtime` of your own [`service`] |
//! | protect it, or a part of it | [`OperationBuilder::http`](crate::OperationBuilder::http), which makes an [`HttpLayer`] |
//! | protect a handler of HTTP events | `#[idempotent(http, ..)]`: see [`idempotent`](macro@crate::idempotent) |
//! | replace the responses of this framework | [`HttpLayerBuilder::error_response`], [`Problem`], [`Reason`] |
//!
//! The rules of HTTP (key, caller, responses) are those of the crate `idempotency-http`, which needs no Lambda. This module
//! finds the request, its deadline and its tenant.
//!
//! # Examples
//!
//! A service behind API Gateway with a JWT authorizer. An axum `Router` takes the layer in the same way:
//!
//! ```no_run
//! use idempotency_lambda::{BoxError, Operation, http};
//! use lambda_http::{Body, Request, Response, service_fn};
//! use lambda_runtime::tower::ServiceBuilder;
//!
//! async fn pay(_: Request) -> Result<Response<Body>, BoxError> {
//!     Ok(Response::new("paid".into()))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), BoxError> {
//!     let idempotent = Operation::builder("shop::payments").http().caller("requestContext.authorizer.jwt.claims.[iss, sub]").build()?;
//!     http::run(ServiceBuilder::new().layer(idempotent).service(service_fn(pay))).await
//! }
//! ```

mod builder;
#[doc(hidden)]
#[allow(missing_docs)]
pub mod handler;
mod host;
mod run;

pub use builder::HttpLayerBuilder;
#[doc(hidden)]
pub use builder::OnLambda;
pub use host::HttpLayer;
#[doc(hidden)]
pub use host::LambdaHost;
pub use run::{run, run_concurrent, service};

pub use idempotency_http::{Problem, Reason, Unstorable};
