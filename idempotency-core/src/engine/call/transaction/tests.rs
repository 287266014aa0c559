//! What becomes of the transaction of a handler, for each way in which it can be used and misused.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::config::{KeyRequired, Settings};
use crate::engine::Backend;
use crate::example::shared::{self, Fault, FaultyStore, Slow, Still, THROTTLED, turn};
use crate::example::{self, ready};
use crate::future::BoxFuture;
use crate::operation::CompiledOperation;
use crate::outcome::Outcome;
use crate::protocol::policy::{OnStoreError, Steps};
use crate::random::{Random, RandomError};
use crate::store::{
    LedgerEntry, MemoryStore, MemoryTransaction, MemoryWrites, OpenTransaction, Store, StoreLimits,
    StoreReply, StoreRequest,
};
use crate::time::EpochMillis;

type Open = Box<MemoryTransaction>;
type CallResult = Result<Outcome<String>, Error>;

const WITH_A_KEY: &str = r#"{"id": 7}"#;
const WITHOUT_A_KEY: &str = "{}";

fn operation(set: impl FnOnce(&mut Settings)) -> CompiledOperation {
    shared::operation(|it| {
        it.key = Some("id".into());
        it.key_required = Some(KeyRequired::No);
        it.steps = Some(Steps::Keep);
        set(it);
    })
}

fn run<F>(store: &Arc<FaultyStore>, payload: &str, handler: impl FnOnce(Call) -> F) -> CallResult
where
    F: Future<Output = Result<String, Error>>,
{
    let backend = example::backend_over(store.clone());
    ready(shared::run(&backend, &operation(|_| ()), payload, handler))
}

async fn begin(call: &Call) -> Result<CallTransaction<Open>, Error> {
    call.open_transaction().await
}

/// Takes one from Alice, and returns the open transaction.
async fn take(call: &Call) -> CallTransaction<Open> {
    let mut open = begin(call).await.unwrap();
    assert_eq!(open.balance("alice"), 5);
    open.add("alice", -1);
    assert_eq!(open.balance("alice"), 4);
    open
}

fn store_with(faults: &[Fault]) -> Arc<FaultyStore> {
    let store = FaultyStore::after_the_claim(faults);
    store.records.set_balance("alice", 5);
    store
}

fn store() -> Arc<FaultyStore> {
    store_with(&[])
}

async fn pay(call: Call) -> Result<String, Error> {
    take(&call).await.commit_with_response();
    Ok("paid".to_owned())
}

fn own_error() -> Error {
    Error::new(ErrorKind::Contended, "the handler's own")
}

#[track_caller]
fn check_rejected(ended: &CallResult, store: &FaultyStore, words: &str) {
    let error = ended.as_ref().expect_err("it must not complete");
    assert_eq!(error.kind(), ErrorKind::TransactionRejected, "{error}");
    assert!(error.handler_ran() && error.has_unconfirmed_writes());
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(store.records.balance("alice"), 5);
}

#[test]
fn it_commits_with_the_response_and_a_duplicate_gets_that() {
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        let store = store();
        let ended = run(&store, payload, pay).unwrap();
        assert_eq!(ended.response(), "paid");
        assert_eq!(store.records.balance("alice"), 4);
        if payload == WITH_A_KEY {
            let again = run(&store, payload, |_| async { panic!("it runs") }).unwrap();
            assert!(again.response() == "paid");
        }
    }
}

#[test]
fn a_handler_that_fails_or_rolls_back_changes_nothing_and_frees_its_key_or_completes_it() {
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        let store = store();
        for hands_back in [true, false] {
            let failed = run(&store, payload, |call| async move {
                let open = take(&call).await;
                if hands_back {
                    open.commit_with_response();
                }
                Err(own_error())
            });
            assert_eq!(failed.unwrap_err().kind(), ErrorKind::Contended);
        }
        let declined = run(&store, payload, |call| async move {
            take(&call).await.rollback();
            Ok("declined".to_owned())
        });
        assert_eq!(declined.unwrap().response(), "declined");
        assert_eq!(store.records.balance("alice"), 5);
    }
}

#[test]
fn a_response_that_counts_on_a_dropped_or_a_kept_transaction_is_no_success() {
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        let store = store();
        let dropped = run(&store, payload, |call| async move {
            drop(take(&call).await);
            assert!(call.has_staged());
            Ok("paid".to_owned())
        });
        check_rejected(&dropped, &store, "it dropped its transaction");
        let kept = RefCell::new(None);
        let ended = run(&store, payload, |call| async {
            let call = call;
            kept.replace(Some(take(&call).await));
            assert!(call.has_staged());
            Ok("paid".to_owned())
        });
        check_rejected(&ended, &store, "its transaction was still open");
        kept.take().unwrap().commit_with_response();
        assert_eq!(store.records.balance("alice"), 5, "it is too late");
    }
}

#[test]
fn a_handler_can_begin_again_after_it_dropped_a_transaction() {
    let store = store();
    let ended = run(&store, WITH_A_KEY, |call| async move {
        drop(take(&call).await);
        take(&call).await.rollback();
        pay(call).await
    });
    assert_eq!(ended.unwrap().response(), "paid");
    assert_eq!(store.records.balance("alice"), 4);
}

/// Begins a transaction and ignores that it is refused.
async fn begin_in_vain(call: &Call, words: &str) {
    let error = begin(call).await.err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::TransactionRejected);
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_call_has_one_transaction_and_a_refused_one_sticks() {
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        let store = store();
        let second = run(&store, payload, |call| async move {
            let first = take(&call).await;
            begin_in_vain(&call, "has a transaction already").await;
            first.commit_with_response();
            begin_in_vain(&call, "has a transaction already").await;
            Ok("paid".to_owned())
        });
        check_rejected(
            &second,
            &store,
            "a transaction was refused when it was begun",
        );
        let staged = run(&store, payload, |call| async move {
            let write = LedgerEntry::add("alice", 1);
            let stage = |writes: &mut MemoryWrites| {
                writes.push(write);
                Ok::<_, Error>(())
            };
            call.stage(stage).unwrap();
            begin_in_vain(&call, "has staged writes").await;
            Ok("paid".to_owned())
        });
        check_rejected(
            &staged,
            &store,
            "a transaction was refused when it was begun",
        );
        for ends in [true, false] {
            let beside = run(&store, payload, |call| async move {
                let open = take(&call).await;
                let open = if ends {
                    open.commit_with_response();
                    None
                } else {
                    Some(open)
                };
                let stage = |_: &mut MemoryWrites| Ok::<_, Error>(());
                let refused = call.stage(stage).unwrap_err().to_string();
                assert!(refused.contains("begun a transaction"), "{refused}");
                drop(open);
                Ok("paid".to_owned())
            });
            check_rejected(&beside, &store, "a write that it staged was refused");
        }
    }
}

#[test]
fn no_step_runs_beside_it_and_none_begins_in_a_step_or_another_operation() {
    let store = store();
    let ended = run(&store, WITH_A_KEY, |call| async move {
        let open = take(&call).await;
        let step = call.step("ship", || async { Err::<(), _>(own_error()) });
        let error = step.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StepRefused);
        assert!(
            error
                .to_string()
                .contains("before the transaction is begun"),
            "{error}"
        );
        open.rollback();
        call.step("pack", || async { Ok::<_, Error>(()) }).await?;
        pay(call).await
    });
    assert_eq!(ended.unwrap().response(), "paid");
    assert_eq!(store.records.balance("alice"), 4);

    let store = self::store();
    let in_step = run(&store, WITH_A_KEY, |call| async move {
        let begins = || begin_in_vain(&call, "a step of this call is open");
        let step = call.step("pay", || async {
            begins().await;
            Ok::<_, Error>(())
        });
        assert_eq!(step.await.unwrap_err().kind(), ErrorKind::StepNotRecorded);
        Ok("paid".to_owned())
    });
    check_rejected(
        &in_step,
        &store,
        "a transaction was refused when it was begun",
    );

    let backend = example::backend_over(store.clone());
    let inside = run(&store, r#"{"id": 8}"#, |call| async {
        let call = call;
        let call = call;
        let begins = || begin_in_vain(&call, "the handler of another operation runs here");
        let operation = operation(|_| ());
        shared::run(&backend, &operation, r#"{"id": 9}"#, |_| async {
            begins().await;
            Ok(String::new())
        })
        .await?;
        Ok("paid".to_owned())
    });
    check_rejected(
        &inside,
        &store,
        "a transaction was refused when it was begun",
    );
}

#[test]
fn none_begins_after_the_handler_or_without_a_confirmed_claim() {
    let store = store();
    let kept = RefCell::new(None);
    run(&store, WITH_A_KEY, |call| async {
        let call = call;
        kept.replace(Some(call));
        Ok(String::new())
    })
    .unwrap();
    ready(begin_in_vain(&kept.take().unwrap(), "has ended"));
    let backend = example::backend_over(store.clone());
    let outside = Call::unprotected(&backend).unwrap();
    ready(begin_in_vain(&outside, "outside of an operation"));
    let operation = operation(|it| it.on_store_error = Some(OnStoreError::RunUnprotected));
    let failing = FaultyStore::new([Some(THROTTLED)]);
    failing.records.set_balance("alice", 5);
    let backend = example::backend_over(failing.clone());
    let ended = ready(shared::run(
        &backend,
        &operation,
        WITH_A_KEY,
        |call| async move {
            begin_in_vain(&call, "the store failed before it").await;
            Ok("paid".to_owned())
        },
    ));
    check_rejected(
        &ended,
        &failing,
        "a transaction was refused when it was begun",
    );
}

#[test]
fn a_store_without_transactions_or_with_others_says_so() {
    let store = store();
    let ended = run(&store, WITH_A_KEY, |call| async move {
        let error = call.open_transaction::<Box<u8>>().await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreFailed);
        assert!(error.to_string().contains("another form"), "{error}");
        // It is no refusal: the handler may decide.
        pay(call).await
    });
    assert_eq!(ended.unwrap().response(), "paid");
}

#[test]
fn a_lost_reply_is_read_and_the_transaction_is_not_sent_again() {
    let store = store_with(&[Fault::ReplyLost]);
    let ended = run(&store, WITH_A_KEY, pay).unwrap();
    assert_eq!(ended.response(), "paid");
    assert_eq!(store.records.balance("alice"), 4);
    assert_eq!(store.writes(), 2, "the claim, and one transaction");
}

#[test]
fn a_transaction_that_met_another_one_frees_the_key_and_can_be_retried() {
    let store = store();
    let ended = run(&store, WITH_A_KEY, |call| async {
        let call = call;
        let open = take(&call).await;
        store.records.set_balance("alice", 5);
        open.commit_with_response();
        Ok("paid".to_owned())
    });
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CompletionUnknown);
    assert!(error.kind().is_retryable() && error.has_unconfirmed_writes());
    assert!(
        error
            .to_string()
            .contains("changed the account `alice` first"),
        "{error}"
    );
    assert_eq!(store.records.balance("alice"), 5);
    assert_eq!(run(&store, WITH_A_KEY, pay).unwrap().response(), "paid");
    assert_eq!(store.records.balance("alice"), 4);
}

#[test]
fn an_aborted_transaction_is_rejected() {
    for payload in [WITH_A_KEY, WITHOUT_A_KEY] {
        let store = store();
        let ended = run(&store, payload, |call| async move {
            let mut open = take(&call).await;
            open.abort();
            open.commit_with_response();
            Ok("paid".to_owned())
        });
        check_rejected(&ended, &store, "Aborted");
    }
}

#[test]
fn a_claim_that_is_gone_rolls_it_back() {
    let store = store();
    let ended = run(&store, WITH_A_KEY, |call| async {
        let call = call;
        let open = take(&call).await;
        let key = call.key().unwrap().clone();
        store.records.evict(&key);
        open.commit_with_response();
        Ok("paid".to_owned())
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::LostOwnership);
    assert_eq!(store.records.balance("alice"), 5);
}

/// A store with one connection: no request is sent while a transaction is open.
#[derive(Default)]
struct OneConnection {
    records: MemoryStore,
    connection: Arc<()>,
}

impl Store for OneConnection {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        if let StoreRequest::Transact(transaction) = request {
            assert!(transaction.staged.take_open::<Arc<()>>(self).is_ok());
            return Box::pin(async move {
                let conflict = StoreError::new(StoreErrorKind::Conflict, "another was first");
                StoreReply::failed(conflict)
            });
        }
        assert_eq!(Arc::strong_count(&self.connection), 1, "{request:?}");
        self.records.send(request, log)
    }

    fn begin(&self, _left: Option<Duration>) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        Box::pin(async { Ok(Box::new(self.connection.clone()) as OpenTransaction) })
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits::NONE
    }

    fn name(&self) -> String {
        "one connection".to_owned()
    }
}

#[test]
fn it_is_rolled_back_before_the_next_request() {
    let ends: [fn() -> Result<String, Error>; 2] = [|| Ok("paid".to_owned()), || Err(own_error())];
    for end in ends {
        let store = Arc::new(OneConnection::default());
        let backend = example::backend_over(store);
        let operation = operation(|_| ());
        let call = shared::run(&backend, &operation, WITH_A_KEY, |call| async move {
            let open = call.open_transaction::<Arc<()>>().await?;
            open.commit_with_response();
            end()
        });
        assert!(ready(call).is_err());
    }
}

/// Random bytes that are those of the call at this time.
struct OfTime(i64);

impl Random for OfTime {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok(i128::from(self.0).to_be_bytes())
    }
}

/// Makes a call at a time, whose handler takes one from Alice. It is killed after so many polls. Returns how often it was polled if it is
/// killed.
fn killed_after(
    polls: usize,
    store: &Arc<Slow>,
    at: i64,
    runs: &Cell<u32>,
) -> Result<Result<String, ErrorKind>, usize> {
    let clock = Arc::new(Still(EpochMillis::new(at)));
    let backend = Backend::new(store.clone(), clock, Arc::new(OfTime(at)));
    let operation = operation(|_| ());
    let handler = |call: Call| async move {
        runs.set(runs.get() + 1);
        turn().await;
        let mut open = begin(&call).await?;
        turn().await;
        open.add("alice", -1);
        turn().await;
        open.commit_with_response();
        turn().await;
        Ok(format!("run {}", runs.get()))
    };
    let mut call = Box::pin(shared::run(&backend, &operation, WITH_A_KEY, handler));
    for _ in 0..polls {
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(ended) = polled {
            return Ok(ended
                .map(Outcome::into_response)
                .map_err(|error| error.kind()));
        }
    }
    Err(polls)
}

#[test]
fn a_kill_at_each_await_leaves_one_transaction_and_one_response() {
    const AFTER_THE_LEASE: i64 = 16 * 60 * 1_000;
    let mut kills = 0;
    loop {
        let (store, runs) = (Arc::new(Slow::default()), Cell::new(0));
        store.0.set_balance("alice", 5);
        let killed = killed_after(kills, &store, 0, &runs);
        let is_committed = store.0.balance("alice") == 4;
        let retry = |at| killed_after(usize::MAX, &store, at, &runs).expect("it is not killed");
        let early = retry(1);
        match (&early, runs.get()) {
            (Ok(response), _) if is_committed => assert_eq!(response, "run 1"),
            // It was killed before its claim.
            (Ok(response), 1) => assert_eq!(response, "run 1"),
            (Err(kind), _) => assert_eq!(*kind, ErrorKind::AlreadyInProgress),
            (early, runs) => panic!("after {kills} polls and {runs} runs: {early:?}"),
        }
        let late = retry(AFTER_THE_LEASE).expect("the lease has ended");
        assert_eq!(store.0.balance("alice"), 4, "after {kills} polls");
        assert!(early.is_err() || early == Ok(late.clone()));
        match killed {
            Ok(first) => {
                assert_eq!(first, Ok(late));
                break;
            }
            Err(_) => kills += 1,
        }
    }
    assert_eq!(
        kills, 11,
        "two for each request and for the transaction, and those of the handler"
    );
}
