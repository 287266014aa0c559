//! The call that every form ends in.

use std::future::Future;
use std::sync::Arc;

use idempotency_core::engine::{Codec, Environment};
use idempotency_core::error::Error;
use idempotency_core::operation::{Identity, Operation};
use idempotency_core::outcome::Outcome;
use idempotency_core::time::EpochMillis;

use crate::notice::warn;
use crate::scope::{Scope, within};

/// Who calls, and until when: computed before the handler sees the event.
pub(crate) struct Invocation {
    pub(crate) identity: Identity,
    pub(crate) deadline: Option<EpochMillis>,
    pub(crate) tenant: Option<String>,
}

/// Calls the engine, with the invocation's deadline and tenant around the handler for nested calls to find.
pub(crate) async fn call<R, E, F, Fut>(
    operation: &Operation,
    environment: &Environment,
    invocation: Invocation,
    codec: Codec<R>,
    convert: fn(Error) -> E,
    handler: F,
) -> Result<Outcome<R>, E>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    let scope = Arc::new(Scope {
        // Only what a test put around everything is handed on; an operation's own store is its own.
        environment: Scope::current().environment.clone(),
        deadline: invocation.deadline,
        tenant: invocation.tenant,
    });
    let handler = || within(Arc::clone(&scope), async { handler().await });
    if !tracing::dispatcher::has_been_set()
        && let Some(warning) = operation.warning(&invocation.identity)
    {
        // The engine says so in an event, which no subscriber collects here.
        warn(&format!("{}: {warning}", operation.key_prefix()));
    }
    operation
        .run_with(
            environment,
            &invocation.identity,
            invocation.deadline,
            codec,
            convert,
            handler,
        )
        .await
}
