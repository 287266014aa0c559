//! Tests of futures that run with another invocation or backend.

use std::sync::Arc;

use super::*;

fn current_deadline() -> Option<i64> {
    Scope::current().invocation.deadline.map(EpochMillis::get)
}

fn with_end<F: Future>(deadline: i64, future: F) -> impl Future<Output = F::Output> {
    with_deadline(EpochMillis::new(deadline), future)
}

#[tokio::test]
async fn two_joined_futures_keep_their_own_scopes() {
    let look = async || {
        let before = current_deadline();
        tokio::task::yield_now().await;
        (before, current_deadline())
    };
    let (first, second) = tokio::join!(with_end(1, look()), with_end(2, look()));
    assert_eq!((first, second), ((Some(1), Some(1)), (Some(2), Some(2))));
    assert_eq!(current_deadline(), None);
}

#[tokio::test]
async fn a_spawned_task_leaves_the_scope_unless_it_is_wrapped() {
    let (left, kept) = with_end(7, async {
        let left = tokio::spawn(async { current_deadline() });
        let kept = tokio::spawn(in_current_invocation(async { current_deadline() }));
        (left.await.unwrap(), kept.await.unwrap())
    })
    .await;
    assert_eq!((left, kept), (None, Some(7)));
}

#[tokio::test]
async fn a_future_that_is_wrapped_outside_of_any_scope_opens_no_scope() {
    let look = async || (current_deadline(), Scope::surrounding().is_none());
    assert_eq!(in_current_invocation(look()).await, (None, true));
    assert_eq!(
        with_end(7, in_current_invocation(look())).await,
        (Some(7), false)
    );
}

#[tokio::test]
async fn changes_compose_in_any_order_in_which_their_futures_are_made() {
    let look = async || {
        let scope = Scope::current();
        tokio::task::yield_now().await;
        assert_eq!(scope.invocation, Scope::current().invocation);
        let backend = scope.backend.as_ref().map(|own| own.store().name());
        (backend.is_some(), scope.invocation.clone())
    };
    let backend = || crate::backend_over(Arc::new(idempotency_core::store::MemoryStore::new()));
    let both = Invocation {
        is_known: false,
        deadline: Some(EpochMillis::new(7)),
        tenant: Some("blue".to_owned()),
    };
    let outside = with_backend(backend(), with_tenant("blue", with_end(7, look())));
    assert_eq!(outside.await, (true, both.clone()));
    let outside = with_end(7, with_tenant("blue", with_backend(backend(), look())));
    assert_eq!(outside.await, (true, both.clone()));
    let inside = with_backend(backend(), async {
        with_end(7, with_tenant("blue", look())).await
    });
    assert_eq!(inside.await, (true, both));
}

#[tokio::test]
async fn work_without_an_invocation_has_neither_deadline_nor_tenant_of_the_invocation_around_it() {
    let inside = without_invocation(async { Scope::current().invocation.clone() });
    let invocation = with_tenant("blue", with_end(7, inside)).await;
    assert_eq!(invocation, Invocation::none());
}

#[tokio::test]
async fn outside_lambda_an_earlier_test_with_a_tenant_refuses_no_later_call() {
    let invocation = || crate::Deadline::Inherited.invocation("charge").unwrap();
    let inside = with_tenant("blue", async { invocation() }).await;
    assert_eq!(inside.tenant.as_deref(), Some("blue"));
    assert_eq!(invocation(), Invocation::default());
}
