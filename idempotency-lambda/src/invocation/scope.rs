//! The scope around a call: its invocation and, in a test, its backend. Inside Lambda a call that does not know its invocation is refused.
//!
//! The scope is a thread-local that a small future sets around each poll, so it survives `join!` and `select!`. A spawned
//! task leaves it, unless it is wrapped with [`in_current_invocation`](crate::in_current_invocation).

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::system::SystemClock;
use idempotency_core::time::{Clock, EpochMillis};

use crate::init_phase;
use crate::meter::Meter;
use crate::process;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// The invocation of a call, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// True for the context of a real invocation, and for work that is declared to have none.
    pub(crate) is_known: bool,
    /// When the invocation ends, if known. Otherwise the configured lease is used.
    pub(crate) deadline: Option<EpochMillis>,
    /// The tenant, if the invocation has one.
    pub(crate) tenant: Option<String>,
}

impl Invocation {
    /// Returns the invocation of work that has none: it has no deadline and no tenant.
    pub(crate) fn none() -> Self {
        Self {
            is_known: true,
            ..Self::default()
        }
    }
}

/// The backend and invocation that calls find around them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) backend: Option<Backend>,
    pub(crate) invocation: Invocation,
    /// The metrics of the invocation.
    pub(crate) meter: Meter,
}

impl Scope {
    /// Returns the scope around the running code, if there is one.
    pub(crate) fn surrounding() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns the scope around the running code, or an empty one.
    pub(crate) fn current() -> Arc<Self> {
        Self::surrounding().unwrap_or_default()
    }

    /// Makes this scope the current one until the result is dropped.
    pub(super) fn enter(self: Arc<Self>) -> ScopeGuard {
        if self.invocation.is_known {
            init_phase::end();
        }
        ScopeGuard(CURRENT.replace(Some(self)))
    }

    /// Makes this scope the current one while a future is dropped, if the thread still has scopes.
    pub(super) fn enter_for_drop(self: Arc<Self>) -> Option<ScopeGuard> {
        let before = CURRENT.try_with(|current| current.replace(Some(self)));
        before.ok().map(ScopeGuard)
    }

    /// Returns the invocation around the running code, for a call that inherits it.
    ///
    /// # Errors
    ///
    /// If the process runs inside Lambda and no invocation is known: deadline and tenant must not be guessed. The handler has
    /// not run. A call of an operation that is disabled claims nothing, so it is not refused.
    pub(super) fn invocation_of_call(operation: &CompiledOperation) -> Result<Invocation, Error> {
        let scope = Self::surrounding();
        if !operation.is_disabled() && is_guess(scope.as_deref(), is_lambda()) {
            return Err(unknown_invocation(operation.key_prefix()));
        }
        Ok(scope.map_or_else(Invocation::default, |scope| scope.invocation.clone()))
    }

    /// Returns the time of the clock that calls in this scope read.
    pub(super) fn now(&self) -> EpochMillis {
        match (&self.backend, process::existing_backend()) {
            (Some(backend), _) | (None, Some(backend)) => backend.clock().now(),
            (None, None) => SystemClock.now(),
        }
    }
}

/// Returns true if a call in this scope would have to guess its deadline or its tenant.
fn is_guess(scope: Option<&Scope>, in_lambda: bool) -> bool {
    in_lambda && !scope.is_some_and(|scope| scope.invocation.is_known)
}

/// Restores the earlier scope when it is dropped, also if the poll panics.
#[derive(Debug)]
pub(super) struct ScopeGuard(Option<Arc<Scope>>);

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

static IN_LAMBDA: OnceLock<bool> = OnceLock::new();

/// Returns true if this process serves events of Lambda, or of another program that speaks the Runtime API.
fn is_lambda() -> bool {
    *IN_LAMBDA.get_or_init(|| {
        std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some_and(|address| !address.is_empty())
    })
}

/// Makes this process behave as if Lambda had started it, for tests, which cannot set a variable of their own process.
///
/// Returns false if the variable was read before, and Lambda has not started the process.
pub fn assume_lambda() -> bool {
    *IN_LAMBDA.get_or_init(|| true)
}

/// Returns the error of a call that does not know its invocation. It says what to write.
fn unknown_invocation(operation: &str) -> Error {
    Error::new(ErrorKind::UnknownInvocation, operation).with_detail(
        "start the function with `idempotency_lambda::run`, put `InvocationLayer` around its service, or pass the \
         context (`context = event.context` in the attribute, `&event.context` to `Operation::run`); wrap a spawned task \
         with `idempotency_lambda::in_current_invocation`, and work without an invocation with `with_invocation(None, ..)`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_restores_the_outer_scope() {
        let caught = std::panic::catch_unwind(|| {
            let scope = Scope {
                invocation: Invocation::none(),
                ..Scope::default()
            };
            let _entered = Arc::new(scope).enter();
            panic!("in the handler");
        });
        assert!(caught.is_err());
        assert!(Scope::surrounding().is_none());
    }

    #[test]
    fn a_call_has_to_guess_only_inside_lambda_and_only_if_no_invocation_is_known() {
        let known = Scope {
            invocation: Invocation::none(),
            ..Scope::default()
        };
        let unknown = Scope::default();
        for (scope, in_lambda, expected) in [
            (Some(&known), true, false),
            (Some(&unknown), true, true),
            (None, true, true),
            (Some(&unknown), false, false),
            (None, false, false),
        ] {
            assert_eq!(is_guess(scope, in_lambda), expected, "{scope:?}");
        }
    }
}
