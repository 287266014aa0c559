//! HTTP on Lambda: tower services of HTTP requests, and handlers of HTTP events.
//!
//! | task | items |
//! |---|---|
//! | start an axum `Router` or a service of `lambda_http` requests | [`run`], [`run_concurrent`]; with a `Runtime` of your own [`service`] |
//! | protect it, or a part of it | [`OperationBuilder::http`](crate::OperationBuilder::http), which makes an [`HttpLayer`] |
//! | protect a handler of HTTP events | `#[idempotent(http, ..)]`: see [`idempotent`](macro@crate::idempotent) |
//! | report, under `hold`, that a handler had no effect | [`FailureReport`] |
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

use std::sync::Arc;

use idempotency_core::config::Variables;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::store::Store;
use idempotency_http::{HttpOperationBuilder, HttpTarget};

use crate::operation::registry::{Claimant, note_built};
use crate::operation::{Operation, OperationBuilder};
use crate::{init_phase, process};

#[doc(hidden)]
#[allow(missing_docs)]
pub mod handler;
mod host;
mod run;

pub use host::HttpLayer;
#[doc(hidden)]
pub use host::LambdaHost;
pub use run::{run, run_concurrent, service};

pub use idempotency_http::{FailureReport, Problem, Reason, Unstorable};

/// Collects the HTTP rules of an operation. [`OperationBuilder::http`](crate::OperationBuilder::http) starts it.
///
/// The settings that every operation has come before `http()`. Of these, `key` and `validate` are expressions over the request
/// as an event in API Gateway's payload format 2.0. Without `key` the key is the `Idempotency-Key` header, and without
/// `validate` the fingerprint is method, path, query and body.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::Operation;
/// use std::time::Duration;
///
/// let idempotent = Operation::builder("shop::payments")
///     .expires_after(Duration::from_secs(24 * 60 * 60))
///     .http()
///     .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
///     .build()?;
/// # Ok::<(), idempotency_lambda::Error>(())
/// ```
///
/// A key belongs to one client. Without a rule for the caller nothing is built:
///
/// ```
/// # use idempotency_lambda::Operation;
/// let error = Operation::builder("shop::payments").http().build().unwrap_err();
/// assert!(error.to_string().contains("the caller is missing"), "{error}");
/// ```
pub type HttpLayerBuilder = HttpOperationBuilder<OnLambda>;

/// What a [`HttpLayerBuilder`] builds for: a Lambda function, with the variables and the store of its operation.
#[doc(hidden)]
pub struct OnLambda {
    variables: Option<Variables>,
    store: Option<Arc<dyn Store>>,
}

impl OperationBuilder {
    /// Starts the rules of an HTTP service that uses this operation. Their [`build`](HttpLayerBuilder::build) returns a
    /// tower layer.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_lambda::Operation;
    ///
    /// let idempotent = Operation::builder("shop::payments")
    ///     .http()
    ///     .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
    ///     .build()?;
    /// # Ok::<(), idempotency_lambda::Error>(())
    /// ```
    pub fn http(self) -> HttpLayerBuilder {
        let target = OnLambda {
            variables: self.variables,
            store: self.store,
        };
        HttpLayerBuilder::for_target(self.path, self.settings, target)
    }
}

impl HttpTarget for OnLambda {
    type Built = HttpLayer;

    fn build(builder: HttpLayerBuilder) -> Result<HttpLayer, Error> {
        compiled(builder).map_err(init_phase::reported)
    }
}

fn compiled(builder: HttpLayerBuilder) -> Result<HttpLayer, Error> {
    let (OnLambda { variables, store }, rules) = builder.split_target();
    if variables.is_none() {
        process::check_variables()?;
    }
    let (path, identity) = (rules.path().to_owned(), rules.identity());
    let rules = rules.variables(variables.unwrap_or_else(|| process::variables().clone()));
    let compiled = Operation::compile_http(rules, Claimant::Built(&path), &identity);
    let (http, operation) = compiled.map_err(|error| {
        Error::new(ErrorKind::Configuration, path.as_str()).with_detail(error.to_string())
    })?;
    note_built(store.is_some());
    let operation = match store {
        Some(store) => operation.with_store(store),
        None => operation,
    };
    let layer = http.layer(LambdaHost::new(operation));
    Ok(HttpLayer { layer })
}
