//! What surrounds a request on Lambda: the operation's store, and the deadline and tenant of the invocation.

use std::any::Any;

use http::request::Parts;
use idempotency_core::engine::Backend;
use idempotency_core::error::Error;
use idempotency_http::{Host, Place};
use lambda_http::Body;
use lambda_http::request::RequestContext;
use serde_json::Value;

use crate::invocation::{Deadline, HasContext, Invocation};
use crate::operation::Operation;

/// The [`Host`] of requests on Lambda.
///
/// The invocation is the one of the request, because `lambda_http` puts its context into the request's extensions; or else
/// the one around the call. If neither is known inside Lambda, the request is refused: its deadline and its tenant would be a
/// guess.
#[derive(Clone, Debug)]
pub struct LambdaHost {
    operation: Operation,
}

impl LambdaHost {
    pub(super) fn new(operation: Operation) -> Self {
        Self { operation }
    }

    /// Returns the invocation of a call with this deadline.
    ///
    /// # Errors
    ///
    /// If the invocation is not known inside Lambda. The handler has not run.
    pub(super) fn invocation(&self, deadline: Deadline) -> Result<Invocation, Error> {
        if self.operation.compiled().is_disabled() {
            // Nothing is claimed, so a call without a known invocation is not refused.
            return Ok(Invocation::current());
        }
        deadline.invocation(self.operation.key_prefix())
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
        let context = request.context();
        let deadline = context.map_or(Deadline::Inherited, Deadline::from);
        self.place_in(&self.invocation(deadline)?).await
    }

    fn request_context(&self, request: &Parts) -> Option<Value> {
        let context = request.extensions.get::<RequestContext>()?;
        serde_json::to_value(context).ok()
    }

    /// Returns false for a body that the event has as base64: a handler that matches on the body's variants must find the same
    /// variant with and without protection.
    fn may_be_text(&self, body: &dyn Any) -> bool {
        !matches!(body.downcast_ref(), Some(Body::Binary(_)))
    }
}
