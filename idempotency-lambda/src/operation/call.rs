//! The call that every form ends in.

use std::future::Future;

use idempotency_core::engine::{Backend, Codec};
use idempotency_core::error::Error;
use idempotency_core::operation::{Identity, Operation};
use idempotency_core::outcome::Outcome;

use crate::event::Payload;
use crate::invocation::{Change, Deadline, InScope, Invocation, Scope};
use crate::notice::warn;

/// Who calls, and until when: computed before the handler sees the event.
pub(crate) struct Identified {
    pub(crate) identity: Identity,
    pub(crate) invocation: Invocation,
}

impl Identified {
    /// Computes the identity of a call with this payload.
    ///
    /// # Errors
    /// If the invocation is not known, or no identity can be computed. The handler has not run.
    pub(crate) fn new<P: Payload + ?Sized>(
        operation: &Operation,
        payload: &P,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        let invocation = if operation.is_disabled() {
            // Nothing is claimed, so nothing depends on the invocation; nested calls find what is around this one.
            Scope::current().invocation.clone()
        } else {
            deadline.invocation(operation.key_prefix())?
        };
        let identity = payload.identity(operation, invocation.tenant.as_deref())?;
        Ok(Self {
            identity,
            invocation,
        })
    }
}

/// Calls the engine, with the invocation's deadline and tenant around the handler for nested calls to find.
pub(crate) async fn call<R, E, F, Fut>(
    operation: &Operation,
    environment: &Backend,
    identified: Identified,
    codec: Codec<R>,
    convert: fn(Error) -> E,
    handler: F,
) -> Result<Outcome<R>, E>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    let Identified {
        identity,
        invocation,
    } = identified;
    let deadline = invocation.deadline;
    // Nested calls find the invocation around the handler; an operation's own store stays its own.
    let handler = || InScope::enter(Change::to(invocation), handler);
    if !tracing::dispatcher::has_been_set()
        && let Some(warning) = operation.warning(&identity)
    {
        // The engine says so in an event, which no subscriber collects here.
        warn(&format!("{}: {warning}", operation.key_prefix()));
    }
    operation
        .run_with(environment, &identity, deadline, codec, convert, handler)
        .await
}
