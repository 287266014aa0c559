//! The future that runs in a changed scope.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use idempotency_core::engine::Backend;
use lambda_runtime::Context;
use pin_project_lite::pin_project;

use super::scope::{Invocation, Scope, ScopeGuard};
use crate::metrics::{InvocationMeter, Meter};

/// A change of the scope around a future.
///
/// It is applied when the future is polled, so that two changes compose in any order in which their futures were made.
#[derive(Debug, Default)]
pub(crate) struct Change {
    backend: Option<Backend>,
    invocation: Option<Invocation>,
    /// The metrics of the invocation that this change opens, and ends.
    opened: InvocationMeter,
    /// The metrics of the invocation that a spawned task belongs to.
    carried: Option<Meter>,
}

impl Change {
    /// Returns the change to this invocation. Deadline and tenant of the invocation around it do not count any more.
    pub(crate) fn to(invocation: Invocation) -> Self {
        Self {
            invocation: Some(invocation),
            ..Self::default()
        }
    }

    /// Returns the change to the invocation that `context` describes, or no change for an empty context.
    pub(crate) fn of_context(context: &Context) -> Self {
        let invocation = Invocation::of(context);
        Self {
            opened: match invocation {
                Some(_) => InvocationMeter::of(context),
                None => InvocationMeter::default(),
            },
            invocation,
            ..Self::default()
        }
    }

    pub(super) fn of_backend(backend: Backend) -> Self {
        Self {
            backend: Some(backend),
            ..Self::default()
        }
    }

    /// Returns the change to the backend and invocation of `scope`.
    pub(super) fn carried(scope: Option<Arc<Scope>>) -> Self {
        scope.map_or_else(Self::default, |scope| Self {
            backend: scope.backend.clone(),
            invocation: (scope.invocation != Invocation::default())
                .then(|| scope.invocation.clone()),
            carried: Some(scope.meter.clone()),
            ..Self::default()
        })
    }

    fn is_none(&self) -> bool {
        self.backend.is_none() && self.invocation.is_none() && self.carried.is_none()
    }

    fn apply(&self, around: Option<&Scope>) -> Scope {
        let mut scope = around.cloned().unwrap_or_default();
        if let Some(backend) = &self.backend {
            scope.backend = Some(backend.clone());
        }
        if let Some(invocation) = &self.invocation {
            scope.invocation = invocation.clone();
        }
        if let Some(carried) = &self.carried {
            scope.meter = carried.clone();
        }
        scope.meter = scope.meter.or_of(&self.opened);
        scope
    }
}

/// A changed scope, and the outer scope that it was made from. It is reused while the outer scope is the same.
#[derive(Debug)]
struct ChangedScope {
    around: Option<Arc<Scope>>,
    scope: Arc<Scope>,
}

impl ChangedScope {
    fn new(change: &Change, around: Option<Arc<Scope>>) -> Self {
        let scope = Arc::new(change.apply(around.as_deref()));
        Self { around, scope }
    }

    fn is_of(&self, around: Option<&Arc<Scope>>) -> bool {
        match (&self.around, around) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

pin_project! {
    /// A future that runs in a scope of its own: with another backend, deadline or tenant.
    ///
    /// The service of [`InvocationLayer`](crate::InvocationLayer) returns it. It holds the future without a box.
    #[must_use = "a future does nothing unless it is polled"]
    pub struct InScope<F> {
        #[pin]
        future: F,
        // The fields are dropped in this order: the future in its scope, then the scope ends, then the metrics are written.
        leaving: Option<ScopeGuard>,
        made: Option<ChangedScope>,
        change: Change,
    }

    impl<F> PinnedDrop for InScope<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A call that is abandoned with this future still belongs to its invocation.
            if let Some(made) = this.made.take() {
                *this.leaving = made.scope.enter_for_drop();
            }
        }
    }
}

impl<F: Future> InScope<F> {
    pub(crate) fn new(change: Change, future: F) -> Self {
        Self {
            future,
            leaving: None,
            made: None,
            change,
        }
    }

    /// Builds the future inside the scope, because building it may read the invocation.
    pub(crate) fn enter(change: Change, build: impl FnOnce() -> F) -> Self {
        if change.is_none() {
            return Self::new(change, build());
        }
        let made = ChangedScope::new(&change, Scope::surrounding());
        let entered = Arc::clone(&made.scope).enter();
        let future = build();
        drop(entered);
        Self {
            future,
            leaving: None,
            made: Some(made),
            change,
        }
    }
}

impl<F: Future> Future for InScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = self.project();
        if this.change.is_none() {
            return this.future.poll(context);
        }
        let around = Scope::surrounding();
        let made = match this.made.take() {
            Some(made) if made.is_of(around.as_ref()) => made,
            _ => ChangedScope::new(this.change, around),
        };
        let entered = Arc::clone(&this.made.insert(made).scope).enter();
        let polled = this.future.poll(context);
        drop(entered);
        if polled.is_ready() {
            // Before the response is sent: Lambda may freeze the process then.
            this.change.opened.close();
        }
        polled
    }
}

impl<F> std::fmt::Debug for InScope<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InScope").finish_non_exhaustive()
    }
}
