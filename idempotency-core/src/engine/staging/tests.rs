//! What is staged where, and how the call of a handler ends that ignores a refusal.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::*;
use crate::config::{KeyRequired, Settings};
use crate::engine::call::Call;
use crate::error::{Error, ErrorKind};
use crate::example::shared::{self, FaultyStore, THROTTLED};
use crate::example::{self, ready};
use crate::operation::CompiledOperation;
use crate::outcome::Outcome;
use crate::protocol::policy::{OnStoreError, Steps};
use crate::store::{LedgerEntry, MemoryWrites};

fn add(writes: &mut MemoryWrites) -> Result<(), &'static str> {
    writes.push(LedgerEntry::add("alice", 1));
    Ok(())
}

#[derive(Default)]
struct Others;

impl StagedWrites for Others {
    fn count(&self) -> usize {
        0
    }

    fn what(&self) -> &'static str {
        "nothing"
    }
}

#[test]
fn writes_are_collected_until_the_handler_ends_and_refused_after_that() {
    let staging = Staging::default();
    staging.change(None, add).unwrap();
    staging.change(None, add).unwrap();
    assert!(staging.has_staged());
    let closed = staging.close();
    assert_eq!(closed.staged.map(|staged| staged.count()), Some(2));
    assert_eq!(closed.refused, None);
    assert!(!staging.has_staged());
    assert!(matches!(staging.change(None, add), Err(StageError::Ended)));
    assert!(staging.close().staged.is_none());
}

#[test]
fn each_refusal_sticks_and_the_first_one_is_reported() {
    type Refuse = fn(&Staging) -> bool;
    let cases: [(Refuse, &str); 4] = [
        (
            |staging| {
                let refused = staging.change(None, |_: &mut MemoryWrites| Err("no"));
                matches!(refused, Err(StageError::Refused("no")))
            },
            "return the error of the write",
        ),
        (
            |staging| {
                staging.change(None, add).unwrap();
                let other = staging.change(None, |_: &mut Others| Ok::<_, &str>(()));
                matches!(other, Err(StageError::OtherStore))
            },
            "return the error of the write",
        ),
        (
            |staging| {
                let refused = staging.change(Some(Misplaced::InStep), add);
                matches!(refused, Err(StageError::InStep))
            },
            "outside of the step",
        ),
        (
            |staging| {
                let refused = staging.change(Some(Misplaced::InOtherRun), add);
                matches!(refused, Err(StageError::InOtherRun))
            },
            "outside of that handler",
        ),
    ];
    for (refuse, remedy) in cases {
        let staging = Staging::default();
        assert!(refuse(&staging));
        staging.change(None, add).unwrap();
        assert!(
            staging
                .change(None, |_: &mut MemoryWrites| Err("a later one"))
                .is_err()
        );
        assert!(staging.has_staged());
        let text = staging.close().refused.unwrap();
        assert!(text.ends_with(remedy), "{text}");
    }
    let outside = Staging::default();
    outside.refuse();
    assert!(matches!(
        outside.change(None, add),
        Err(StageError::Outside)
    ));
    assert!(outside.close().refused.is_some());
}

#[test]
fn a_transaction_without_writes_is_none() {
    let staging = Staging::default();
    staging
        .change(None, |_: &mut Others| Ok::<_, &str>(()))
        .unwrap();
    assert!(staging.close().staged.is_none());
    let staging = Staging::default();
    assert!(
        staging
            .change(None, |_: &mut MemoryWrites| Err("no"))
            .is_err()
    );
    assert!(staging.close().staged.is_none());
}

type CallResult = Result<Outcome<String>, Error>;

fn operation(set: impl FnOnce(&mut Settings)) -> CompiledOperation {
    shared::operation(|it| {
        it.key = Some("id".into());
        it.key_required = Some(KeyRequired::No);
        set(it);
    })
}

fn with_steps() -> CompiledOperation {
    operation(|it| it.steps = Some(Steps::Keep))
}

fn run<F>(
    operation: &CompiledOperation,
    store: &Arc<FaultyStore>,
    payload: &str,
    handler: impl FnOnce(Call) -> F,
) -> CallResult
where
    F: Future<Output = Result<String, Error>>,
{
    let backend = example::backend_over(store.clone());
    ready(shared::run(&backend, operation, payload, handler))
}

fn stage(call: &Call) -> Result<(), StageError<&'static str>> {
    call.stage(add)
}

async fn done<T>(result: T) -> Result<T, Error> {
    Ok(result)
}

const WITH_A_KEY: &str = r#"{"id": 7}"#;
const WITHOUT_A_KEY: &str = "{}";

/// Checks that the call failed as if its transaction had been rejected, and that nothing was applied.
#[track_caller]
fn check_rejected(ended: &CallResult, store: &FaultyStore, remedy: &str) {
    let error = ended.as_ref().expect_err("it must not complete");
    assert_eq!(error.kind(), ErrorKind::TransactionRejected, "{error}");
    assert!(error.handler_ran() && error.has_unconfirmed_writes());
    assert!(error.to_string().contains(remedy), "{error}");
    assert_eq!(store.records.balance("alice"), 0);
}

#[test]
fn a_write_staged_in_a_step_is_refused_and_no_later_run_completes_without_it() {
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        let store = FaultyStore::new([]);
        for _run in 0..2 {
            let moved = Rc::new(Cell::new(0));
            let ended = run(&with_steps(), &store, payload, |call| {
                let moved = moved.clone();
                async move {
                    let step = call.step("move", || async {
                        assert!(matches!(stage(&call), Err(StageError::InStep)));
                        moved.set(moved.get() + 1);
                        done(()).await
                    });
                    assert_eq!(step.await.unwrap_err().kind(), ErrorKind::StepNotRecorded);
                    Ok("moved".to_owned())
                }
            });
            check_rejected(&ended, &store, "outside of the step");
            assert_eq!(moved.get(), 1, "no run skips the step");
        }
    }
}

#[test]
fn after_a_refused_write_no_step_starts() {
    let store = FaultyStore::new([]);
    let ended = run(&with_steps(), &store, WITH_A_KEY, |call| async move {
        let refused = call.stage(|_: &mut MemoryWrites| Err("no"));
        assert!(refused.is_err());
        let step = call.step("ship", || done(()));
        assert_eq!(step.await.unwrap_err().kind(), ErrorKind::StepRefused);
        Ok("shipped".to_owned())
    });
    check_rejected(&ended, &store, "return the error of the write");
}

#[test]
fn a_write_is_staged_between_steps_and_after_one_that_failed_or_was_dropped() {
    let store = FaultyStore::new([]);
    let ended = run(&with_steps(), &store, WITH_A_KEY, |call| async move {
        call.step("a", || done(())).await?;
        stage(&call).unwrap();
        let failed = Error::new(ErrorKind::Contended, "the handler's own");
        assert!(
            call.step("b", || async { Err::<(), _>(failed) })
                .await
                .is_err()
        );
        stage(&call).unwrap();
        let mut dropped = Box::pin(call.step("c", std::future::pending::<Result<(), Error>>));
        std::future::poll_fn(|context| {
            assert!(dropped.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        assert!(call.has_staged());
        drop(dropped);
        stage(&call).unwrap();
        Ok("moved".to_owned())
    });
    assert!(ended.is_ok());
    assert_eq!(store.records.balance("alice"), 3);
}

#[test]
fn a_write_staged_in_the_handler_of_another_operation_is_refused() {
    let store = FaultyStore::new([]);
    let operation = operation(|_| ());
    let backend = example::backend_over(store.clone());
    let other = r#"{"id": 8}"#;
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        // The handler stages when it is made, and when it is polled.
        for is_early in [true, false] {
            let ended = run(&operation, &store, payload, |call| async {
                let call = call;
                shared::run(&backend, &operation, other, |own| {
                    let early = is_early.then(|| stage(&call));
                    let call = &call;
                    async move {
                        let refused = early.unwrap_or_else(|| stage(call));
                        assert!(
                            matches!(refused, Err(StageError::InOtherRun)),
                            "{refused:?}"
                        );
                        // Its own call is right.
                        stage(&own).unwrap();
                        Err::<String, _>(Error::new(ErrorKind::Contended, "the handler's own"))
                    }
                })
                .await
                .unwrap_err();
                // After it the outer call can stage again.
                stage(&call).unwrap();
                Ok("moved".to_owned())
            });
            check_rejected(&ended, &store, "outside of that handler");
        }
    }
}

#[test]
fn the_handler_of_a_run_without_a_key_stages_on_its_own_call_or_on_the_one_around_it() {
    let store = FaultyStore::new([]);
    let operation = operation(|_| ());
    let backend = example::backend_over(store.clone());
    let ended = run(&operation, &store, WITH_A_KEY, |call| async {
        let call = call;
        let inner = shared::run(&backend, &operation, WITHOUT_A_KEY, |own| {
            stage(&own).unwrap();
            let call = &call;
            async move {
                stage(call).unwrap();
                Ok(String::new())
            }
        });
        inner.await?;
        assert_eq!(store.records.balance("alice"), 1);
        Ok("moved".to_owned())
    });
    assert!(ended.is_ok());
    assert_eq!(store.records.balance("alice"), 2);
}

#[test]
fn a_handler_that_ignores_a_refused_write_does_not_complete_with_any_store() {
    let no_steps = operation(|_| ());
    let ignores = |call: Call| async move {
        stage(&call).ok();
        call.stage(|_: &mut MemoryWrites| Err("the 100th")).ok();
        Ok("moved".to_owned())
    };
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        let store = FaultyStore::new([]);
        let ended = run(&no_steps, &store, payload, ignores);
        check_rejected(&ended, &store, "return the error of the write");
    }
    // The store failed, so nothing can be staged at all.
    let unprotected = operation(|it| it.on_store_error = Some(OnStoreError::RunUnprotected));
    let store = FaultyStore::new([Some(THROTTLED)]);
    let ended = run(&unprotected, &store, WITH_A_KEY, ignores);
    check_rejected(&ended, &store, "return the error of the write");
    // Its own error stays its own.
    let store = FaultyStore::new([]);
    let ended = run(&no_steps, &store, WITH_A_KEY, |call| async move {
        stage(&call).ok();
        call.stage(|_: &mut MemoryWrites| Err("the 100th"))
            .map_err(|_| Error::new(ErrorKind::Contended, "the handler's own"))?;
        Ok(String::new())
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Contended);
    assert_eq!(store.records.balance("alice"), 0);
}
