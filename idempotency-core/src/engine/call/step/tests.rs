//! The steps of a handler: which run, what is recorded, and how the call ends.

mod undo;

use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::Deserialize;

use super::*;
use crate::config::{KeyRequired, Settings};
use crate::example::shared::{self, DENIED, Fault, FaultyStore, THROTTLED, TOO_LARGE};
use crate::example::{self, Fixed, ready};
use crate::operation::{CompiledOperation, Identity};
use crate::outcome::Outcome;
use crate::protocol::policy::{self, OnStoreError, OnTimeout};
use crate::record::{Field, Record, RecordId, Status};
use crate::store::StoreLimits;

const ORDER: &str = r#"{"order_id": 7}"#;

fn identity() -> Identity {
    kept().identify(ORDER, None).unwrap()
}

fn id() -> RecordId {
    identity().key().unwrap().clone()
}

/// Returns the completed record of another call.
fn winner() -> Record {
    Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new("\"winner\"")),
        expiration: Field::Value(crate::time::EpochSeconds::new(3_600)),
        validation: identity().validation().map(str::to_owned).into(),
        ..Record::default()
    }
}

/// Returns an operation with these steps, whose other settings `set` has changed.
fn operation(steps: policy::Steps, set: impl FnOnce(&mut Settings)) -> CompiledOperation {
    shared::operation(|it| {
        it.key = Some("order_id".into());
        it.key_required = Some(KeyRequired::No);
        it.steps = Some(steps);
        set(it);
    })
}

/// Returns an operation that keeps its steps.
fn kept() -> CompiledOperation {
    operation(policy::Steps::Keep, |_| ())
}

fn store() -> Arc<FaultyStore> {
    FaultyStore::new([])
}

fn record(store: &FaultyStore) -> Option<Record> {
    store.records.record(&id())
}

/// Returns the names and the results of the recorded steps.
fn recorded(store: &FaultyStore) -> String {
    let steps = record(store).and_then(|record| record.steps.value().cloned());
    let steps = steps.unwrap_or_default();
    let steps = steps
        .iter()
        .map(|(name, result)| format!("{name}={} ", result.as_str()));
    steps.collect::<String>().trim_end().to_owned()
}

/// Ends the lease of the record. The clock stands still, so a lease ends only by a release.
fn end_lease(store: &FaultyStore) {
    let mut record = record(store).unwrap();
    record.in_progress_expiration = Field::Value(EpochMillis::new(-1));
    store.records.insert(id(), record);
}

type CallResult = Result<Outcome<String>, Error>;

fn run_in<F>(
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

/// Runs a call of an operation that keeps its steps.
fn run<F>(store: &Arc<FaultyStore>, handler: impl FnOnce(Call) -> F) -> CallResult
where
    F: Future<Output = Result<String, Error>>,
{
    run_in(&kept(), store, ORDER, handler)
}

fn declined() -> Error {
    Error::new(ErrorKind::Contended, "the handler's own")
}

async fn done<T>(result: T) -> Result<T, Error> {
    Ok(result)
}

/// Runs a step, and returns its result.
async fn one_step(call: Call) -> Result<String, Error> {
    call.step("a", || done(String::new())).await
}

#[test]
fn a_step_is_recorded_while_the_handler_runs_and_deleted_by_the_completion() {
    let store = store();
    let outcome = run(&store, |call| {
        let store = &store;
        async move {
            assert_eq!(recorded(store), "");
            assert_eq!(call.step("a", || done(7)).await?, 7);
            assert_eq!(recorded(store), "a=7");
            call.step("b", || done("x".to_owned())).await?;
            assert_eq!(recorded(store), "a=7 b=\"x\"");
            Ok("placed".to_owned())
        }
    });
    assert_eq!(outcome.unwrap().into_response(), "placed");
    let record = record(&store).unwrap();
    assert_eq!(record.status, Field::Value(Status::Completed));
    assert_eq!(record.steps, Field::Absent);
}

#[test]
fn a_run_after_a_failure_goes_on_after_the_last_recorded_step() {
    let store = store();
    let effects = RefCell::new(Vec::new());
    let effect = |name: &'static str| {
        effects.borrow_mut().push(name);
        done(name.to_owned())
    };
    let handler = |call: Call, fails| {
        let effect = &effect;
        async move {
            call.step("reserve", || effect("reserve")).await?;
            if fails {
                return Err(declined());
            }
            call.step("ship", || effect("ship")).await
        }
    };
    let failed = run(&store, |call| handler(call, true)).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Contended);
    let released = record(&store).unwrap();
    assert!(released.failure.exists() && !released.owner.exists());
    end_lease(&store);
    let placed = run(&store, |call| handler(call, false)).unwrap();
    assert_eq!(placed.into_response(), "ship");
    assert_eq!(*effects.borrow(), ["reserve", "ship"]);
}

/// A result that loses a part of itself as JSON.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Lossy {
    kept: u8,
    #[serde(skip)]
    lost: u8,
}

#[test]
fn the_first_run_sees_what_every_later_run_sees() {
    let store = store();
    let outcome = run(&store, |call| async move {
        let result = call.step("a", || done(Lossy { kept: 1, lost: 2 })).await?;
        assert_eq!(result, Lossy { kept: 1, lost: 0 });
        Ok(String::new())
    });
    assert!(outcome.is_ok());
}

/// Runs a call whose handler gets an error from a step, and returns that error and how the call ended.
fn error_of_a_step<F>(
    store: &Arc<FaultyStore>,
    operation: &CompiledOperation,
    step: impl FnOnce(Call) -> F,
) -> (Error, CallResult)
where
    F: Future<Output = Result<String, Error>>,
{
    let seen = Cell::new(None);
    let ended = run_in(operation, store, ORDER, |call| {
        let step = step(call);
        async {
            let error = step.await.unwrap_err();
            seen.set(Some(error));
            Err(declined())
        }
    });
    (seen.take().unwrap(), ended)
}

#[test]
fn a_step_that_cannot_be_recorded_is_refused_before_it_runs() {
    let off = operation(policy::Steps::Off, |_| ());
    for (operation, step, says) in [
        (&kept(), "a", "step `a`: the run used this name before"),
        (&kept(), "", "at least 1 byte and at most 128"),
        (&off, "a", "set `steps = \"keep\"`"),
    ] {
        let (error, _) = error_of_a_step(&store(), operation, |call| async move {
            call.step("a", || done(0)).await?;
            call.step(step, || async { panic!("it runs") }).await
        });
        assert_eq!(shared::kind_and_run(&error), (ErrorKind::StepRefused, true));
        let text = error.to_string();
        assert!(text.starts_with("shop: ") && text.contains(says), "{text}");
    }
}

#[test]
fn a_step_of_a_handler_that_has_ended_is_refused() {
    let kept = Cell::new(None);
    let outcome = run(&store(), |call| {
        kept.set(Some(call));
        done(String::new())
    });
    assert!(outcome.is_ok());
    let call = kept.take().unwrap();
    let late = ready(call.step::<u8, Error, std::future::Ready<_>>("a", || panic!("it runs")));
    assert_eq!(late.unwrap_err().kind(), ErrorKind::StepRefused);
}

#[test]
fn a_recorded_result_of_another_type_is_an_error_that_does_not_quote_it() {
    let store = store();
    let first = run(&store, |call| async move {
        call.step("a", || done("s3cr3t".to_owned())).await?;
        Err(declined())
    });
    assert!(first.is_err());
    end_lease(&store);
    let (error, _) = error_of_a_step(&store, &kept(), |call| async move {
        let number: u64 = call.step("a", || async { panic!("it runs") }).await?;
        Ok::<_, Error>(number.to_string())
    });
    assert_eq!(error.kind(), ErrorKind::StepTypeChanged);
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("step `a`: `u64`") && !text.contains("s3cr3t"),
        "{text}"
    );
}

#[test]
fn a_recorded_array_is_no_struct() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Parcel {
        number: u8,
    }
    let store = store();
    let first = run(&store, |call| async move {
        call.step("a", || done(vec![7])).await?;
        Err(declined())
    });
    assert!(first.is_err());
    end_lease(&store);
    let (error, _) = error_of_a_step(&store, &kept(), |call| async move {
        let parcel: Parcel = call.step("a", || async { panic!("it runs") }).await?;
        Ok::<_, Error>(parcel.number.to_string())
    });
    assert_eq!(error.kind(), ErrorKind::StepTypeChanged);
}

#[test]
fn a_call_whose_claim_is_gone_ends_in_the_winners_response() {
    let store = store();
    let (error, ended) = error_of_a_step(&store, &kept(), |call| {
        store.records.insert(id(), winner());
        async move {
            let first = call.step("a", || done(1)).await;
            assert_eq!(first.unwrap_err().kind(), ErrorKind::LostOwnership);
            call.step("b", || async { panic!("it runs") }).await
        }
    });
    assert_eq!(error.kind(), ErrorKind::LostOwnership);
    let outcome = ended.unwrap();
    assert!(outcome.is_replayed());
    assert_eq!(outcome.into_response(), "winner");
}

#[test]
fn a_call_whose_claim_is_gone_without_a_winner_ends_in_lost_ownership() {
    let store = store();
    let (error, ended) = error_of_a_step(&store, &kept(), |call| {
        store.records.evict(&id());
        one_step(call)
    });
    assert_eq!(error.kind(), ErrorKind::LostOwnership);
    let ended = ended.unwrap_err();
    assert_eq!(
        shared::kind_and_run(&ended),
        (ErrorKind::LostOwnership, true)
    );
    assert!(ended.has_unfinished_steps());
    let text = ended.to_string();
    assert!(text.contains("the handler's result is not used"), "{text}");
}

#[test]
fn a_result_whose_reply_was_lost_is_written_again() {
    let lost = Fault::ReplyLost;
    for faults in [&[lost][..], &[THROTTLED, lost, THROTTLED]] {
        let store = FaultyStore::after_the_claim(faults);
        let outcome = run(&store, |call| async move {
            call.step("a", || done("1".to_owned())).await
        });
        assert_eq!(outcome.unwrap().into_response(), "1");
        // The claim, each send of the result, and the completion.
        assert_eq!(store.writes(), faults.len() + 3);
    }
}

#[test]
fn a_result_that_is_not_recorded_is_an_error_and_the_failure_frees_the_key() {
    for (faults, says) in [
        (&[DENIED][..], "the store did not confirm it: failure 1"),
        (&[THROTTLED; 4], "the store did not confirm it: failure 1"),
        (&[TOO_LARGE], "the record would be too large"),
    ] {
        let store = FaultyStore::after_the_claim(faults);
        let (error, ended) = error_of_a_step(&store, &kept(), one_step);
        assert_eq!(error.kind(), ErrorKind::StepNotRecorded);
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Contended);
        assert!(record(&store).unwrap().failure.exists());
    }
}

#[test]
fn under_hold_a_result_that_is_not_recorded_keeps_the_claim() {
    let holds = operation(policy::Steps::Keep, |it| {
        it.on_timeout = Some(OnTimeout::Hold);
    });
    let store = FaultyStore::after_the_claim(&[DENIED]);
    let (_, ended) = error_of_a_step(&store, &holds, one_step);
    assert_eq!(ended.unwrap_err().kind(), declined().kind());
    let record = record(&store).unwrap();
    assert!(record.owner.exists() && !record.failure.exists());
}

#[test]
fn a_result_that_is_no_json_or_does_not_read_back_is_not_recorded() {
    let (error, _) = error_of_a_step(&store(), &kept(), |call| async move {
        call.step("a", || done(f64::NAN)).await?;
        Ok(String::new())
    });
    assert_eq!(error.kind(), ErrorKind::StepNotRecorded);
    assert!(error.to_string().contains("cannot be read back"), "{error}");
    let (error, _) = error_of_a_step(&store(), &kept(), |call| async move {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        call.step("a", || done(map)).await?;
        Ok(String::new())
    });
    let text = error.to_string();
    assert!(text.contains("cannot be written as JSON"), "{text}");
}

#[test]
fn a_step_that_fails_is_tried_as_its_policy_says_and_records_nothing() {
    let store = store();
    let tries = Cell::new(0);
    let failing = || {
        tries.set(tries.get() + 1);
        async { Err::<String, _>(declined()) }
    };
    let outcome = run(&store, |call| {
        let failing = &failing;
        async move {
            let step = call.named_step("a").retry(StepRetry::tries(3));
            assert_eq!(step.token(), call.token("a"));
            step.run(failing).await
        }
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Contended);
    assert_eq!(tries.get(), 3);
    assert_eq!(record(&store), None, "no step is recorded: the key is free");
    let outcome = run(&store, |call| {
        let tries = &tries;
        async move {
            let step = call.named_step("a").retry(StepRetry::tries(9));
            let second = || {
                tries.set(tries.get() + 1);
                let is_fifth = tries.get() == 5;
                std::future::ready(is_fifth.then(|| "5".to_owned()).ok_or_else(declined))
            };
            step.run(second).await
        }
    });
    assert_eq!(outcome.unwrap().into_response(), "5");
}

#[test]
fn steps_beside_each_other_are_all_recorded() {
    let store = store();
    let outcome = run(&store, |call| async move {
        let (a, b) = (call.step("a", || done(1)), call.step("b", || done(2)));
        let (mut a, mut b) = (pin!(a), pin!(b));
        let both = std::future::poll_fn(|context| {
            match (a.as_mut().poll(context), b.as_mut().poll(context)) {
                (Poll::Ready(a), Poll::Ready(b)) => Poll::Ready((a, b)),
                _ => Poll::Pending,
            }
        });
        let (a, b) = both.await;
        assert_eq!((a?, b?), (1, 2));
        Err(declined())
    });
    assert!(outcome.is_err());
    assert_eq!(recorded(&store), "a=1 b=2");
}

#[test]
fn recorded_steps_that_the_handler_did_not_ask_for_are_noted_after_a_response() {
    let summary = |end| {
        let recorded = ["b", "c"].map(|name| (name.to_owned(), Data::new("1")));
        let ledger = StepLedger::new(recorded.into_iter().collect(), StoreLimits::NONE);
        let steps = Steps::new(ledger);
        let mut summary = steps.summary();
        summary.end = end;
        summary
    };
    let id = id();
    let mut report = Report::new("shop", Some(&id), &Fixed);
    assert_eq!(summary(None).report(false, &mut report).0, None);
    assert_eq!(report.notes(), None);
    let end = Some(StepEnd::Recorded);
    assert_eq!(summary(end).report(true, &mut report).0, end);
    let note = "earlier runs recorded steps that this one did not ask for: `b`, `c`";
    assert_eq!(report.notes(), Some(note));
}

type StepFuture = Pin<Box<dyn Future<Output = Result<String, Error>>>>;

fn poll(step: &mut StepFuture) -> Poll<Result<String, Error>> {
    step.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a step whose every try is pending at its first poll, and fails at the second.
fn failing_step(call: Call, tries: Rc<Cell<u32>>) -> StepFuture {
    let attempt = move || {
        tries.set(tries.get() + 1);
        let mut polled = false;
        std::future::poll_fn(move |_| {
            if std::mem::replace(&mut polled, true) {
                Poll::Ready(Err(declined()))
            } else {
                Poll::Pending
            }
        })
    };
    Box::pin(async move {
        let step = call.named_step("leaked").retry(StepRetry::tries(9));
        step.run(attempt).await
    })
}

#[test]
fn a_step_is_not_tried_again_after_the_handler_has_ended() {
    let (store, tries) = (store(), Rc::new(Cell::new(0)));
    let leaked = Cell::new(None);
    let failed = run(&store, |call| {
        let mut step = failing_step(call, tries.clone());
        assert!(poll(&mut step).is_pending());
        leaked.set(Some(step));
        async { Err(declined()) }
    });
    assert!(failed.is_err());
    assert!(record(&store).unwrap().failure.exists(), "the key is free");
    let late = poll(&mut leaked.take().unwrap());
    assert!(matches!(late, Poll::Ready(Err(_))));
    assert_eq!(tries.get(), 1);
}

#[test]
fn a_step_is_not_tried_again_beside_one_that_found_the_claim_gone() {
    let (store, tries) = (store(), Rc::new(Cell::new(0)));
    let ended = run(&store, |call| {
        let tries = tries.clone();
        store.records.insert(id(), winner());
        async move {
            let mut beside = failing_step(call.clone(), tries);
            assert!(poll(&mut beside).is_pending());
            let lost = call.step("lost", || done(1)).await;
            assert_eq!(lost.unwrap_err().kind(), ErrorKind::LostOwnership);
            let tried = poll(&mut beside);
            assert!(matches!(tried, Poll::Ready(Err(_))));
            Err(declined())
        }
    });
    assert_eq!(ended.unwrap().into_response(), "winner");
    assert_eq!(tries.get(), 1);
}

/// Returns the kind of the error of a step that must not run.
async fn refused(call: &Call, name: &str) -> ErrorKind {
    let step = call.step::<u8, Error, _>(name, || async { panic!("it runs") });
    step.await.unwrap_err().kind()
}

#[test]
fn without_protection_each_step_runs_and_nothing_is_recorded() {
    let store = store();
    let outcome = run_in(&kept(), &store, "{}", |call| async move {
        call.step("a", || done(1)).await?;
        assert_eq!(refused(&call, "a").await, ErrorKind::StepRefused);
        call.step("b", || done("2".to_owned())).await
    });
    assert_eq!(outcome.unwrap().into_response(), "2");
    assert!(store.records.is_empty());
}

fn unprotected(steps: policy::Steps) -> CompiledOperation {
    operation(steps, |it| {
        it.on_store_error = Some(OnStoreError::RunUnprotected);
    })
}

#[test]
fn after_a_failure_of_the_store_each_step_runs_and_nothing_is_recorded() {
    let token = Cell::new(None);
    let protected = run(&store(), |call| {
        token.set(Some(call.named_step("a").token()));
        done(String::new())
    });
    assert!(protected.is_ok());
    let token = token.take().unwrap();
    for (outage, stored) in [(THROTTLED, false), (Fault::ReplyLost, true)] {
        let store = store();
        store.set_outage(Some(outage));
        let outcome = run_in(&unprotected(policy::Steps::Keep), &store, ORDER, |call| {
            let (store, token) = (&store, &token);
            async move {
                assert_eq!(call.named_step("a").token(), *token);
                call.step("a", || done(1)).await?;
                assert_eq!(refused(&call, "a").await, ErrorKind::StepRefused);
                store.set_outage(None);
                call.step("b", || done("2".to_owned())).await?;
                assert_eq!(recorded(store), "");
                Ok("placed".to_owned())
            }
        });
        assert_eq!(outcome.unwrap().into_response(), "placed");
        let record = record(&store);
        assert_eq!(record.is_some(), stored, "{outage:?}");
        assert!(record.is_none_or(|record| {
            record.status == Field::Value(Status::Completed) && !record.steps.exists()
        }));
    }
}

#[test]
fn after_a_failure_of_the_store_an_operation_without_steps_still_has_none() {
    let store = store();
    store.set_outage(Some(THROTTLED));
    let operation = unprotected(policy::Steps::Off);
    let outcome = run_in(&operation, &store, ORDER, |call| async move {
        assert_eq!(refused(&call, "a").await, ErrorKind::StepRefused);
        Ok("placed".to_owned())
    });
    assert_eq!(outcome.unwrap().into_response(), "placed");
}
