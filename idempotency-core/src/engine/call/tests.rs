//! The call that a handler gets: its run, its time, its tokens, its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::AtomicU8;
use std::task::{Context, Waker};

use super::*;
use crate::config::KeyRequired;
use crate::engine::{Codec, Errors};
use crate::error::{Error, ErrorKind};
use crate::example::shared::{At, Fault, FaultyStore, THROTTLED};
use crate::example::{self, ready};
use crate::operation::{CompiledOperation, Identity};
use crate::protocol::policy::{OnError, OnStoreError};
use crate::random::Random;
use crate::record::{Field, Record, Status};
use crate::store::{MemoryStore, Store};

const NOW: EpochMillis = EpochMillis::new(1_700_000_000_000);

/// Returns a clock that stands still this many milliseconds after [`NOW`].
fn later(milliseconds: u64) -> Arc<At> {
    Arc::new(At(NOW.plus(Duration::from_millis(milliseconds))))
}

/// A random source whose bytes count up from 1, or that fails.
struct Bytes(Option<AtomicU8>);

impl Random for Bytes {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        let bytes = self.0.as_ref();
        let bytes = bytes.ok_or_else(|| RandomError::new("no entropy"))?;
        Ok([bytes.fetch_add(1, Ordering::Relaxed); 16])
    }
}

fn bytes() -> Arc<Bytes> {
    Arc::new(Bytes(Some(AtomicU8::new(1))))
}

fn backend(store: Arc<dyn Store>) -> Backend {
    Backend::new(store, later(0), bytes())
}

fn operation() -> CompiledOperation {
    example::shared::operation(|it| {
        it.key = Some("order_id".into());
        it.key_required = Some(KeyRequired::No);
        it.on_store_error = Some(OnStoreError::RunUnprotected);
    })
}

fn identity(payload: &str) -> Identity {
    operation().identify(payload, None).unwrap()
}

/// Returns the id of the record of [`ORDER`].
fn id() -> RecordId {
    identity(ORDER).key().unwrap().clone()
}

const ORDER: &str = r#"{"order_id": 7}"#;
const WITHOUT_KEY: &str = "{}";

/// Runs a call whose handler takes its call, and returns what `look` sees in it.
fn run_with<T>(
    backend: &Backend,
    payload: &str,
    deadline: Option<EpochMillis>,
    look: impl FnOnce(Call) -> T,
) -> Result<T, Error> {
    let mut seen = None;
    let (operation, identity) = (operation(), identity(payload));
    let (codec, errors) = (Codec::json(), Errors::new(|error| error));
    let handler = async |call| {
        seen = Some(look(call));
        Ok(())
    };
    let call = operation.run(backend, &identity, deadline, codec, errors, handler);
    ready(call)?;
    Ok(seen.unwrap())
}

fn run<T>(store: Arc<dyn Store>, payload: &str, look: impl FnOnce(Call) -> T) -> T {
    run_with(&backend(store), payload, None, look).unwrap()
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

/// Returns the claim of a run that was killed, whose lease ended a second ago.
fn killed() -> Record {
    Record {
        status: Field::Value(Status::InProgress),
        in_progress_expiration: Field::Value(EpochMillis::new(NOW.get() - 1_000)),
        ..Record::default()
    }
}

#[test]
fn a_first_run_has_its_key_and_the_time_of_its_lease() {
    let (key, run, left) = run(memory(), ORDER, |call| {
        (call.key().cloned(), call.which_run(), call.time_left())
    });
    assert_eq!(key.as_ref(), identity(ORDER).key());
    assert_eq!(run, Run::First);
    assert_eq!(left, Some(Duration::from_secs(15 * 60)), "the lease");
}

#[test]
fn the_time_of_a_run_ends_with_its_deadline() {
    let deadline = Some(NOW.plus(Duration::from_secs(3)));
    for payload in [ORDER, WITHOUT_KEY] {
        let backend = backend(memory());
        let left = run_with(&backend, payload, deadline, |call| call.time_left());
        assert_eq!(left.unwrap(), Some(Duration::from_secs(3)), "{payload}");
    }
    assert_eq!(run(memory(), WITHOUT_KEY, |call| call.time_left()), None);
}

#[test]
fn the_run_after_a_killed_one_is_a_rerun_with_the_same_token() {
    let first = run(memory(), ORDER, |call| call.token("charge"));
    let store = memory();
    store.insert(id(), killed());
    let (run, token) = run(store, ORDER, |call| {
        (call.which_run(), call.token("charge"))
    });
    let lease_ended = killed().in_progress_expiration.value().copied();
    assert_eq!(run, Run::Rerun { lease_ended });
    assert_eq!(token, first);
}

#[test]
fn a_run_whose_claim_had_no_reply_does_not_know_what_it_replaced() {
    for fault in [Fault::ReplyLost, Fault::RepliesLess] {
        for before in [None, Some(killed())] {
            let store = FaultyStore::new([Some(fault)]);
            if let Some(before) = before {
                store.records.insert(id(), before);
            }
            assert_eq!(run(store, ORDER, |call| call.which_run()), Run::Unknown);
        }
    }
}

#[test]
fn a_run_after_a_killed_one_and_a_failed_one_is_unknown_and_not_the_first() {
    let runs_seen = |killed_before: bool| {
        let store = memory();
        if killed_before {
            store.insert(id(), killed());
        }
        let mut runs = Vec::new();
        // The first two runs fail. The third one returns a response.
        for (after, fails) in [(0, true), (1, true), (2, false)] {
            let backend = Backend::new(store.clone(), later(after), bytes());
            let handler = async |call: Call| {
                runs.push(call.which_run());
                match fails {
                    true => Err(Error::new(ErrorKind::NoTimeLeft, "the handler's own")),
                    false => Ok(7),
                }
            };
            let ended = ready(example::shared::run(&backend, &operation(), ORDER, handler));
            assert_eq!(ended.is_err(), fails);
        }
        runs
    };
    assert_eq!(runs_seen(false), [Run::First; 3]);
    let after_a_kill = runs_seen(true);
    assert!(matches!(after_a_kill[0], Run::Rerun { .. }));
    assert_eq!(after_a_kill[1..], [Run::Unknown; 2]);
}

#[test]
fn a_run_that_is_unprotected_because_the_store_failed_has_the_key_and_its_tokens() {
    let protected = run(memory(), ORDER, |call| call.token("charge"));
    let down = FaultyStore::new([]);
    down.set_outage(Some(THROTTLED));
    let (key, run, token, left) = run(down, ORDER, |call| {
        (
            call.key().cloned(),
            call.which_run(),
            call.token("charge"),
            call.time_left(),
        )
    });
    assert_eq!(key.as_ref(), identity(ORDER).key());
    assert_eq!((run, token), (Run::Unprotected, protected));
    assert_eq!(left, Some(Duration::from_secs(15 * 60)));
}

#[test]
fn a_run_without_a_key_has_tokens_of_its_own() {
    let backend = backend(memory());
    let run = || {
        let tokens = run_with(&backend, WITHOUT_KEY, None, |call| {
            assert_eq!((call.key(), call.which_run()), (None, Run::Unprotected));
            ["charge", "charge", "refund"].map(|name| call.token(name))
        });
        tokens.unwrap()
    };
    let [charge, again, refund] = run();
    assert_eq!(charge, again, "in one run");
    assert_ne!(charge, refund);
    assert_ne!(charge, run()[0], "in the next run");
}

#[test]
fn without_random_bytes_only_a_handler_that_takes_a_token_without_a_key_fails() {
    let backend = Backend::new(memory(), later(0), Arc::new(Bytes(None)));
    let run = run_with(&backend, WITHOUT_KEY, None, |call| call.which_run());
    assert_eq!(run.unwrap(), Run::Unprotected);
    let token = || run_with(&backend, WITHOUT_KEY, None, |call| call.token("charge"));
    assert!(catch_unwind(AssertUnwindSafe(token)).is_err());
    let error = run_with(&backend, ORDER, None, |_| ()).unwrap_err();
    let refused = (ErrorKind::Environment, false);
    assert_eq!(example::shared::kind_and_run(&error), refused);
    assert!(Call::unprotected(&backend).is_err());
}

/// Runs a call with this handler until it waits or ends, and returns the clone of the call that it kept.
fn kept(payload: &str, handler: impl Future<Output = Result<u8, Error>>) -> Call {
    let (backend, operation) = (example::backend(), operation());
    let mut kept = None;
    let run = example::shared::run(&backend, &operation, payload, |call| {
        assert!(!call.has_ended());
        kept = Some(call);
        handler
    });
    // The panic of the handler is resumed. A run that waits is dropped.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        pin!(run)
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }));
    drop(ended);
    kept.unwrap()
}

#[test]
fn a_call_ends_with_its_run() {
    for payload in [ORDER, WITHOUT_KEY] {
        let failed = || Error::new(ErrorKind::NoTimeLeft, "shop");
        assert!(kept(payload, async { Ok(1) }).has_ended());
        assert!(kept(payload, async { Err(failed()) }).has_ended());
        assert!(kept(payload, async { panic!("in the handler") }).has_ended());
        assert!(kept(payload, std::future::pending()).has_ended(), "dropped");
    }
}

/// Runs a call that asks for a window of so many milliseconds, where the operation's window is an hour. Returns what it gets, and when
/// the record ends, in seconds after [`NOW`].
fn asked(payload: &str, windows: &[u64]) -> (Vec<Result<(), Error>>, Option<i64>) {
    let store = memory();
    let results = run(store.clone(), payload, |call| {
        let windows = windows.iter().copied().map(Duration::from_millis);
        windows.map(|window| call.expires_after(window)).collect()
    });
    let record = store.record(&id());
    let end = record.and_then(|record| record.expiration.value().copied());
    (
        results,
        end.map(|end| end.get() - NOW.floor_to_seconds().get()),
    )
}

#[test]
fn a_response_is_kept_for_the_last_window_that_its_handler_asked_for() {
    for (windows, kept) in [
        (&[][..], 3_600),
        (&[60_000], 60),
        (&[1_999], 1),
        (&[3_600_999], 3_600),
        (&[60_000, 120_000], 120),
    ] {
        let (results, end) = asked(ORDER, windows);
        assert!(results.iter().all(Result::is_ok), "{windows:?}");
        assert_eq!(end, Some(kept), "{windows:?}");
    }
    // Nothing is stored.
    let (results, end) = asked(WITHOUT_KEY, &[u64::MAX]);
    assert!(results[0].is_ok() && end.is_none());
}

#[test]
fn a_window_that_is_refused_leaves_that_of_the_operation() {
    for windows in [&[0][..], &[999], &[3_601_000], &[u64::MAX], &[60_000, 0]] {
        let (results, end) = asked(ORDER, windows);
        assert_eq!(end, Some(3_600), "{windows:?}");
        let error = results.last().unwrap().as_ref().unwrap_err();
        let configuration = (ErrorKind::Configuration, true);
        assert_eq!(example::shared::kind_and_run(error), configuration);
        let text = error.to_string();
        assert!(text.contains("at least a second and at most"), "{text}");
        let of_key = format!(
            "3600s, or raise that (the handler ran; key {}; memory)",
            id()
        );
        assert!(text.ends_with(&of_key), "{text}");
    }
    let (results, end) = asked(ORDER, &[0, 60_000]);
    assert!(results[0].is_err() && results[1].is_ok());
    assert_eq!(end, Some(60), "a later window counts");
}

#[test]
fn a_window_counts_for_a_response_alone_and_before_the_handler_has_ended() {
    let store = memory();
    let late = run(store.clone(), ORDER, |call| {
        call.expires_after(Duration::from_secs(60)).unwrap();
        call
    });
    let error = late.expires_after(Duration::from_secs(70)).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    let end = store.record(&id()).unwrap().expiration;
    let minute = NOW.plus(Duration::from_secs(60)).floor_to_seconds();
    assert_eq!(end.value(), Some(&minute), "the earlier choice stays");
    let failing = example::shared::operation(|it| it.on_error = Some(OnError::Record));
    let backend = backend(store.clone());
    let run = example::shared::run(&backend, &failing, "9", async |call: Call| {
        call.expires_after(Duration::from_secs(60))?;
        Err::<u8, _>(Error::new(ErrorKind::NoTimeLeft, "the handler's own"))
    });
    assert!(ready(run).is_err());
    let id = failing.identify("9", None).unwrap().key().unwrap().clone();
    let end = store.record(&id).unwrap().expiration.value().copied();
    let hour = NOW.plus(Duration::from_secs(3_600));
    assert_eq!(end, Some(hour.floor_to_seconds()));
}

#[test]
fn the_debug_text_of_a_call_is_its_key_and_its_run() {
    let text = run(memory(), ORDER, |call| format!("{call:?}"));
    let key = id();
    let expected = format!("Call {{ key: Some({key:?}), run: First, .. }}");
    assert_eq!(text, expected);
    let unprotected = Call::unprotected(&example::backend_over(Arc::new(MemoryStore::new())));
    let text = format!("{:?}", unprotected.unwrap());
    assert_eq!(text, "Call { key: None, run: Unprotected, .. }");
}
