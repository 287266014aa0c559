//! Makes HTTP services safe to retry: a tower layer for the `Idempotency-Key` header.
//!
//! A client sends a POST or a PATCH with an `Idempotency-Key`. If the response is lost, the client sends the request again, and
//! gets the stored response: the handler does not run a second time. The layer works for an axum `Router`, for one axum route
//! and for any other tower server. It knows nothing of AWS Lambda: a server in a container can share a table with functions.
//! Functions use `idempotency_lambda::http`, which is built on this crate.
//!
//! # Examples
//!
//! An axum server. In production, [`backend`] gets a store that all processes share, such as `idempotency_dynamodb`'s.
//!
//! ```
//! use axum::{Router, http::Request, routing::post};
//! use idempotency_http::{HttpOperation, MemoryStore, backend};
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idempotent = HttpOperation::builder("shop::payments")
//!     .caller_header("x-user-id") // set by the proxy that authenticates
//!     .build()?
//!     .layer(backend(MemoryStore::new()));
//! let app = Router::new().route("/payments", post(async || "paid").layer(idempotent));
//!
//! for replayed in [None, Some("true")] {
//!     let request = Request::post("/payments")
//!         .header("idempotency-key", "\"8e03978e\"")
//!         .header("x-user-id", "u-1")
//!         .body(axum::body::Body::from("{}"))?;
//!     let response = app.clone().oneshot(request).await?;
//!     assert_eq!(response.status(), 200);
//!     let header = response.headers().get("idempotent-replayed");
//!     assert_eq!(header.map(|value| value.to_str().unwrap()), replayed);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `axum`, on by default, finds the path that the client sent also inside `Router::nest` and after a middleware of the `Router` that
//! rewrites it. Without it the fingerprint has the path that is left there, and [`HttpOperationBuilder::uri_from`] can say where the
//! other one is.
//!
//! # Map
//!
//! | type | what it is |
//! |---|---|
//! | [`HttpOperation`] | the rules of one protected part of a service: key, caller, fingerprint, what is stored |
//! | [`HttpIdempotencyLayer`] | the tower layer |
//! | [`Host`], [`Place`] | what surrounds a request: the store, its deadline, its tenant |
//! | [`FailureReport`] | the mark of a failure that the handler itself reports, for `on_timeout = "hold"` |
//! | [`Call`] | the call of a handler, an extension of its request |
//! | [`Problem`], [`Reason`] | a refused request, as `application/problem+json` |
//! | [`ReceivedRequest`], [`HttpCall`] | the same protection for a request in memory, without a tower service |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod host;
mod operation;
mod problem;
mod received;
mod reply;
mod rules;
mod service;
mod stored;

pub use body::ResponseBody;
pub use host::{Host, Place, backend};
#[doc(hidden)]
pub use idempotency_core::config::Settings;
pub use idempotency_core::config::{ConfigurationError, KeyRequired, Variables};
pub use idempotency_core::engine::Backend;
pub use idempotency_core::error::Error;
pub use idempotency_core::key::HashAlgorithm;
pub use idempotency_core::operation::{Call, Run, Step, StepRetry, Token};
pub use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Steps,
};
pub use idempotency_core::store::{MemoryStore, StoreError};
pub use operation::{HttpCall, HttpOperation, HttpOperationBuilder};
#[doc(hidden)]
pub use operation::{HttpTarget, RequestEvent};
pub use problem::{Problem, Reason};
pub use received::ReceivedRequest;
pub use reply::{ClientReply, FailureReport, ViewError};
pub use rules::Unstorable;
pub use service::{HttpIdempotencyLayer, HttpIdempotencyService, ResponseFuture};
