//! Runs whose leases are renewed, on clocks that the test moves, and stores that fail.

use std::future::ready;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::*;
use crate::config::Settings;
use crate::engine::{Backend, Call};
use crate::error::{Error, ErrorKind};
use crate::event::{CallOutcome, observe};
use crate::example::Fixed;
use crate::example::shared::{self, Fault, FaultyStore, THROTTLED};
use crate::future::BoxFuture;
use crate::operation::CompiledOperation;
use crate::outcome::{Outcome, OutcomeKind};
use crate::protocol::condition::Condition;
use crate::protocol::policy::{OnInProgress, OnTimeout, Steps};
use crate::protocol::{Source, StepRetry};
use crate::random::{Random, RandomError};
use crate::record::{RecordId, Status};
use crate::store::{SendLog, Store, StoreLimits, StoreReply, Write};

/// A wall clock and a monotonic clock. Timers follow the second.
#[derive(Default)]
struct Hands {
    wall: AtomicI64,
    monotonic: Arc<AtomicI64>,
    /// How long the process stands still before the next read of the monotonic clock.
    stands_still: AtomicI64,
}

impl Hands {
    fn pass(&self, milliseconds: i64) {
        self.jump(milliseconds);
        self.monotonic.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// Sets the wall clock: the machine slept, or the clock was wrong.
    fn jump(&self, milliseconds: i64) {
        self.wall.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(self.wall.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let passed = Arc::clone(&self.monotonic);
        let now = move || passed.load(Ordering::Relaxed);
        let until = now() + i64::try_from(duration.as_millis()).unwrap() + 1;
        Box::pin(poll_fn(move |_| match now() < until {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }))
    }

    fn monotonic(&self) -> Option<Duration> {
        self.pass(self.stands_still.swap(0, Ordering::Relaxed));
        let passed = self.monotonic.load(Ordering::Relaxed);
        Some(Duration::from_millis(passed.unsigned_abs()))
    }
}

/// A clock whose timers are not ready in a poll in which the task has done as much as tokio allows.
struct Cooperative(Arc<Hands>);

impl Clock for Cooperative {
    fn now(&self) -> EpochMillis {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::task::coop::cooperative(self.0.sleep(duration)))
    }

    fn monotonic(&self) -> Option<Duration> {
        self.0.monotonic()
    }
}

/// The random source of a second process.
struct Eights;

impl Random for Eights {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok([8; 16])
    }
}

/// What happens to the renewals that a store gets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Applied,
    /// No reply comes.
    Hangs,
    Panics,
}

/// A store in memory that does this to renewals, and keeps the last one.
struct RenewalStore {
    inner: Arc<FaultyStore>,
    fate: Fate,
    last: Mutex<Option<(Write, Condition)>>,
}

impl RenewalStore {
    fn new(fate: Fate) -> Arc<Self> {
        Arc::new(Self {
            inner: FaultyStore::new([]),
            fate,
            last: Mutex::default(),
        })
    }
}

impl Store for RenewalStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        let write = request.record();
        let renewal = write.filter(|it| {
            matches!(it.write, Write::Update(change) if !change.set.status.exists() && !change.set.failure.exists())
        });
        let Some(renewal) = renewal.filter(|_| self.fate != Fate::Applied) else {
            return self.inner.send(request, log);
        };
        let sent = (renewal.write.clone(), renewal.condition.clone());
        *self.last.lock().unwrap() = Some(sent);
        assert_eq!(self.fate, Fate::Hangs, "this store panics");
        Box::pin(std::future::pending())
    }

    fn limits(&self) -> StoreLimits {
        self.inner.limits()
    }

    fn name(&self) -> String {
        "renewals".to_owned()
    }
}

fn operation(prefix: &'static str, set: impl FnOnce(&mut Settings)) -> CompiledOperation {
    let settings = shared::settings(|it| {
        it.renew = Some(true);
        it.key_prefix = Some(prefix.into());
        set(it);
    });
    CompiledOperation::new("shop::import", &settings, &Default::default()).unwrap()
}

fn id_of(prefix: &'static str) -> RecordId {
    let identity = operation(prefix, |_| ()).identify("1", None).unwrap();
    identity.key().unwrap().clone()
}

fn id() -> RecordId {
    id_of("shop")
}

type CallResult = Result<Outcome<String>, Error>;

/// A call whose handler runs until the test ends it.
struct Running<'a> {
    future: Pin<Box<dyn Future<Output = CallResult> + 'a>>,
    call: Arc<Mutex<Option<Call>>>,
    ends: Arc<AtomicBool>,
}

/// Begins a call whose handler returns `response` when the test ends it.
fn begin<'a>(
    backend: &'a Backend,
    operation: &'a CompiledOperation,
    response: &'a str,
) -> Running<'a> {
    let (call, ends): (Arc<Mutex<Option<Call>>>, Arc<AtomicBool>) = Default::default();
    let (seen, told) = (Arc::clone(&call), Arc::clone(&ends));
    let handler = move |call: Call| {
        *seen.lock().unwrap() = Some(call);
        async move {
            poll_fn(|_| match told.load(Ordering::Relaxed) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            Ok(response.to_owned())
        }
    };
    let future = Box::pin(shared::run(backend, operation, "1", handler));
    let mut running = Running { future, call, ends };
    running.go_on();
    running
}

impl Running<'_> {
    /// Polls the call, whose handler goes on.
    #[track_caller]
    fn go_on(&mut self) {
        assert!(poll(&mut self.future).is_pending(), "the call has ended");
    }

    /// Ends the handler, and returns the end of the call.
    #[track_caller]
    fn end(mut self) -> CallResult {
        self.ends.store(true, Ordering::Relaxed);
        match poll(&mut self.future) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the call goes on"),
        }
    }

    fn call(&self) -> Call {
        self.call.lock().unwrap().clone().unwrap()
    }

    fn seconds_left(&self) -> u64 {
        self.call().time_left().unwrap().as_secs()
    }
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the end of the lease in the record, in milliseconds.
fn lease(store: &FaultyStore) -> i64 {
    let record = store.records.record(&id()).unwrap();
    record.in_progress_expiration.value().unwrap().get()
}

fn text(result: CallResult) -> Result<String, ErrorKind> {
    result
        .map(Outcome::into_response)
        .map_err(|error| error.kind())
}

/// A clock, and a backend over a store.
fn process(store: Arc<dyn Store>, random: impl Random + 'static) -> (Arc<Hands>, Backend) {
    let clock = Arc::new(Hands::default());
    let backend = Backend::new(store, clock.clone(), Arc::new(random));
    (clock, backend)
}

#[test]
fn a_run_renews_its_lease_until_its_handler_ends() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "done");
    assert_eq!(lease(&store), 30_000);
    for renewals in 1..=6 {
        clock.pass(10_000);
        running.go_on();
        assert_eq!(lease(&store), renewals * 10_000 + 30_000);
        assert_eq!(running.seconds_left(), 30);
    }
    let call = running.call();
    assert!(poll(&mut Box::pin(call.claim_lost())).is_pending());
    assert_eq!(text(running.end()).as_deref(), Ok("done"));
    assert_eq!(store.writes(), 1 + 6 + 1);
}

#[test]
fn a_handler_that_ends_soon_renews_nothing() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "done");
    clock.pass(7_000);
    running.go_on();
    assert_eq!(text(running.end()).as_deref(), Ok("done"));
    assert_eq!(store.writes(), 2);
}

#[test]
fn a_run_whose_renewals_fail_knows_at_the_end_of_its_lease_that_its_claim_may_be_gone() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "late");
    clock.pass(10_000);
    running.go_on();
    store.set_outage(Some(THROTTLED));
    let call = running.call();
    let mut lost = Box::pin(call.claim_lost());
    for _ in 0..30 {
        assert!(poll(&mut lost).is_pending(), "{:?}", call.time_left());
        clock.pass(1_000);
        running.go_on();
    }
    assert_eq!(call.time_left(), Some(Duration::ZERO));
    clock.pass(1_001);
    assert!(poll(&mut lost).is_ready());
    running.go_on();
    let writes = store.writes();
    assert!((8..=30).contains(&writes), "{writes} in a lease");
    for _ in 0..600 {
        clock.pass(1_000);
        running.go_on();
    }
    let writes = store.writes() - writes;
    assert!(writes <= 80, "{writes} in ten minutes after the lease");
    store.set_outage(None);
    // Another process runs.
    let (other_clock, other) = process(store.clone(), Eights);
    other_clock.pass(641_001);
    let winner = begin(&other, &operation, "winner");
    assert_eq!(text(winner.end()).as_deref(), Ok("winner"));
    assert_eq!(text(running.end()).as_deref(), Ok("winner"));
}

#[tokio::test]
async fn a_busy_handler_that_never_waits_long_keeps_its_claim() {
    let store = FaultyStore::new([]);
    let clock = Arc::new(Hands::default());
    let cooperative = Arc::new(Cooperative(Arc::clone(&clock)));
    let backend = Backend::new(store.clone(), cooperative, Arc::new(Fixed));
    let operation = operation("shop", |_| ());
    let handler = async |call: Call| {
        let (rows, mut queue) = tokio::sync::mpsc::channel(1);
        for row in 0..10_000 {
            rows.send(row).await.unwrap();
            assert_eq!(queue.recv().await, Some(row));
            clock.pass(10);
            assert_ne!(call.time_left(), Some(Duration::ZERO), "at row {row}");
        }
        Ok("done".to_owned())
    };
    let result = shared::run(&backend, &operation, "1", handler).await;
    assert_eq!(text(result).as_deref(), Ok("done"));
    assert!(store.writes() > 10, "a claim, 10 renewals, a completion");
}

#[test]
fn a_lost_reply_and_an_outage_shorter_than_the_lease_lose_nothing() {
    let faults = [Fault::ReplyLost, THROTTLED, THROTTLED];
    let store = FaultyStore::after_the_claim(&faults);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "done");
    for _ in 0..5 {
        clock.pass(5_000);
        running.go_on();
        assert!(!running.call().time_left().unwrap().is_zero());
    }
    assert_eq!(running.seconds_left(), 30);
    assert_eq!(text(running.end()).as_deref(), Ok("done"));
}

#[test]
fn an_expired_lease_is_renewed_if_no_other_call_has_claimed_the_key() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "done");
    clock.pass(60_000);
    assert_eq!(running.seconds_left(), 0);
    running.go_on();
    assert_eq!((lease(&store), running.seconds_left()), (90_000, 30));
    assert_eq!(text(running.end()).as_deref(), Ok("done"));
}

#[test]
fn a_renewal_that_hangs_is_given_up_before_the_lease_ends() {
    let store = RenewalStore::new(Fate::Hangs);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "done");
    let mut sent = 0;
    for _ in 0..29 {
        clock.pass(1_000);
        running.go_on();
        sent += usize::from(store.last.lock().unwrap().take().is_some());
    }
    assert!(sent >= 4, "{sent} sends in a lease");
    assert_eq!(running.seconds_left(), 1);
    clock.pass(1_001);
    assert_eq!(running.call().time_left(), Some(Duration::ZERO));
}

#[test]
fn a_renewal_on_its_way_when_the_handler_ends_is_neither_awaited_nor_a_loss() {
    static LOST: Mutex<Vec<(u32, bool)>> = Mutex::new(Vec::new());
    observe(|call| {
        if call.operation() == "on-its-way" {
            let seen = (call.renewals(), call.claim_lost());
            LOST.lock().unwrap().push(seen);
        }
    });
    for holds in [OnTimeout::Rerun, OnTimeout::Hold] {
        let store = RenewalStore::new(Fate::Hangs);
        let (clock, backend) = process(store.clone(), Fixed);
        let operation = operation("on-its-way", |it| it.on_timeout = Some(holds));
        let mut running = begin(&backend, &operation, "done");
        clock.pass(10_000);
        running.go_on();
        assert!(store.last.lock().unwrap().is_some());
        assert_eq!(text(running.end()).as_deref(), Ok("done"));
        let id = id_of("on-its-way");
        let record = || store.inner.records.record(&id).unwrap();
        let completed = record();
        let (write, condition) = store.last.lock().unwrap().take().unwrap();
        let (request, log) = (StoreRequest::write(&id, &write, &condition), SendLog::new());
        let late = store.inner.records.send(request, &log);
        let late = crate::example::ready(late);
        assert!(matches!(late, StoreReply::ConditionFailed { .. }));
        assert_eq!(record(), completed);
        assert_eq!(record().status.value(), Some(&Status::Completed));
    }
    assert_eq!(*LOST.lock().unwrap(), [(0, false), (0, false)]);
}

#[test]
fn a_store_that_panics_in_a_renewal_ends_neither_the_renewals_nor_the_handler() {
    let store = RenewalStore::new(Fate::Panics);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("panics", |_| ());
    let (note, ..) = told("panics", || {
        let mut running = begin(&backend, &operation, "done");
        let mut sent = 0;
        for _ in 0..31 {
            clock.pass(1_000);
            running.go_on();
            sent += usize::from(store.last.lock().unwrap().take().is_some());
        }
        assert!(sent >= 4, "{sent} sends in a lease");
        assert_eq!(text(running.end()).as_deref(), Ok("done"));
    });
    assert!(
        note.contains("its renewals failed: the store panicked"),
        "{note}"
    );
}

#[test]
fn a_pause_longer_than_the_lease_ends_in_the_winners_response_or_in_lost_ownership() {
    for other_ends in [true, false] {
        let store = FaultyStore::new([]);
        let (clock, backend) = process(store.clone(), Fixed);
        let operation = operation("shop", |_| ());
        let mut running = begin(&backend, &operation, "late");
        clock.pass(60_000);
        let (other_clock, other) = process(store.clone(), Eights);
        other_clock.pass(60_000);
        let winner = begin(&other, &operation, "winner");
        if other_ends {
            assert_eq!(text(winner.end()).as_deref(), Ok("winner"));
        }
        // The process goes on: its renewal finds the loss.
        running.go_on();
        let call = running.call();
        assert_eq!(call.time_left(), Some(Duration::ZERO));
        assert!(poll(&mut Box::pin(call.claim_lost())).is_ready());
        let expected = match other_ends {
            true => Ok("winner".to_owned()),
            false => Err(ErrorKind::LostOwnership),
        };
        assert_eq!(text(running.end()), expected);
    }
}

#[test]
fn the_end_of_a_lease_is_known_by_the_clock_that_says_it_first() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let running = begin(&backend, &operation, "done");
    let call = running.call();
    let mut lost = Box::pin(call.claim_lost());
    assert!(poll(&mut lost).is_pending());
    // The machine slept: no timer has moved.
    clock.jump(60_000);
    assert_eq!(call.time_left(), Some(Duration::ZERO));
    clock.pass(1_001);
    assert!(poll(&mut lost).is_ready(), "within a second");
    drop(running);
    // The clock is set back, and no renewal is confirmed.
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    clock.pass(3_600_000);
    let mut running = begin(&backend, &operation, "done");
    store.set_outage(Some(THROTTLED));
    clock.jump(-3_000_000);
    clock.pass(29_000);
    running.go_on();
    assert_eq!(running.seconds_left(), 1);
    clock.pass(1_001);
    assert_eq!(running.call().time_left(), Some(Duration::ZERO));
}

#[test]
fn a_lease_is_counted_from_the_moment_the_claim_was_sent_also_if_the_clock_is_set_back_before_the_reply()
 {
    struct SlowClaim(Arc<Hands>, Arc<FaultyStore>);
    impl Store for SlowClaim {
        fn send<'a>(
            &'a self,
            request: StoreRequest<'a>,
            log: &'a SendLog,
        ) -> BoxFuture<'a, StoreReply> {
            self.0.pass(20_000);
            self.0.jump(-20_000);
            self.1.send(request, log)
        }

        fn limits(&self) -> StoreLimits {
            self.1.limits()
        }

        fn name(&self) -> String {
            "slow".to_owned()
        }
    }
    let operation = operation("shop", |_| ());
    for (stands_still, left) in [(0, 10), (4_000, 6)] {
        let clock = Arc::new(Hands::default());
        clock.stands_still.store(stands_still, Ordering::Relaxed);
        let store = SlowClaim(clock.clone(), FaultyStore::new([]));
        let backend = Backend::new(Arc::new(store), clock, Arc::new(Fixed));
        assert_eq!(begin(&backend, &operation, "done").seconds_left(), left);
    }
}

#[test]
fn the_requests_after_a_run_count_its_lease_by_both_clocks() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    clock.pass(3_600_000);
    let operation = operation("shop", |it| it.steps = Some(Steps::Keep));
    let running = begin(&backend, &operation, "late");
    let call = running.call();
    store.set_outage(Some(THROTTLED));
    let step = Box::pin(call.step("a", || async {
        clock.jump(-3_000_000);
        clock.pass(31_000);
        Ok::<_, Error>(1)
    }));
    let not_recorded = crate::example::ready(step).unwrap_err();
    assert_eq!(not_recorded.kind(), ErrorKind::StepNotRecorded);
    assert_eq!(store.writes(), 2, "no try follows the end of the lease");
    store.set_outage(None);
    // By the wall clock the lease still runs, and the response would be stored again.
    store.records.evict(&id());
    assert_eq!(text(running.end()), Err(ErrorKind::LostOwnership));
}

#[test]
fn a_claim_is_held_for_a_lease_after_each_confirmation_also_if_the_clock_was_set_back() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    clock.pass(3_600_000);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "done");
    clock.jump(-3_000_000);
    for renewals in 1..=6 {
        clock.pass(10_000);
        running.go_on();
        // A process whose clock is right sees that the claim is live.
        let ends = 3_630_000 + renewals * 10_000;
        assert_eq!((lease(&store), running.seconds_left()), (ends, 30));
    }
    clock.pass(5_000);
    assert_eq!(running.seconds_left(), 25);
    assert_eq!(text(running.end()).as_deref(), Ok("done"));
}

#[test]
fn a_follower_waits_for_a_leader_whose_lease_moves() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let waits = operation("shop", |it| it.on_in_progress = Some(OnInProgress::Wait));
    let mut leader = begin(&backend, &waits, "done");
    let mut pass = |milliseconds| {
        clock.pass(milliseconds);
        leader.go_on();
    };
    pass(10_000);
    pass(10_000);
    let handler = async |_| -> Result<String, Error> { panic!("a follower does not run") };
    let mut follower = Box::pin(shared::run(&backend, &waits, "1", handler));
    for milliseconds in [10_000, 10_000, 5_000] {
        assert!(poll(&mut follower).is_pending());
        pass(milliseconds);
    }
    assert!(poll(&mut follower).is_pending());
    assert_eq!(store.writes(), 1 + 4, "the follower sends nothing");
    assert_eq!(text(leader.end()).as_deref(), Ok("done"));
    let Poll::Ready(Ok(outcome)) = poll(&mut follower) else {
        panic!("the follower gets the response");
    };
    let source = match outcome.kind() {
        OutcomeKind::Replayed(replay) => Some(replay.source()),
        _ => None,
    };
    assert_eq!(source, Some(Source::ConcurrentCall));
}

#[test]
fn a_claim_that_is_deleted_is_known_to_be_gone_at_the_next_renewal() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "done");
    store.records.evict(&id());
    clock.pass(10_000);
    running.go_on();
    let call = running.call();
    assert_eq!(call.time_left(), Some(Duration::ZERO));
    assert!(poll(&mut Box::pin(call.claim_lost())).is_ready());
    for _ in 0..60 {
        clock.pass(1_000);
        running.go_on();
    }
    assert_eq!(store.writes(), 2, "none follows");
    assert_eq!(text(running.end()), Err(ErrorKind::LostOwnership));
}

#[test]
fn a_step_starts_under_a_renewed_lease_and_not_under_a_lost_one() {
    for is_lost in [false, true] {
        let store = FaultyStore::new([]);
        let (clock, backend) = process(store.clone(), Fixed);
        let operation = operation("shop", |it| it.steps = Some(Steps::Keep));
        let mut running = begin(&backend, &operation, "done");
        for _ in 0..4 {
            clock.pass(10_000);
            running.go_on();
        }
        if is_lost {
            store.records.evict(&id());
            clock.pass(10_000);
            running.go_on();
        }
        let call = running.call();
        let step = Box::pin(call.step("a", || async { Ok::<_, Error>(1) }));
        let expected = match is_lost {
            true => Err(ErrorKind::StepNoTimeLeft),
            false => Ok(1),
        };
        let result = crate::example::ready(step).map_err(|error| error.kind());
        assert_eq!(result, expected);
    }
}

#[test]
fn no_undo_begins_after_the_lease_also_if_the_clock_was_set_back() {
    let store = RenewalStore::new(Fate::Hangs);
    let (clock, backend) = process(store.clone(), Fixed);
    clock.pass(3_600_000);
    let operation = operation("shop", |it| it.steps = Some(Steps::Keep));
    let running = begin(&backend, &operation, "refused");
    let call = running.call();
    let step = call.named_step("a").undo(|_: u8, _| async {
        panic!("another call may run by now");
        #[allow(unreachable_code)]
        Ok::<_, Error>(())
    });
    let step = Box::pin(step.run(|| async { Ok::<_, Error>(1) }));
    assert_eq!(crate::example::ready(step).unwrap(), 1);
    let _response = call.undo("refused");
    clock.jump(-3_000_000);
    clock.pass(31_000);
    let error = running.end().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StepNotUndone);
    assert!(error.to_string().contains("no time left"), "{error}");
}

#[test]
fn a_lease_is_renewed_while_a_step_is_undone() {
    for resumes in [false, true] {
        let store = FaultyStore::new([]);
        let (clock, backend) = process(store.clone(), Fixed);
        let operation = operation("shop", |it| it.steps = Some(Steps::Keep));
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let handler = move |call: Call| {
            let told = Arc::clone(&told);
            async move {
                let step = call.named_step("a").undo(move |_: u8, _| {
                    let told = Arc::clone(&told);
                    poll_fn(move |_| match told.load(Ordering::Relaxed) {
                        true => Poll::Ready(Ok::<_, Error>(())),
                        false => Poll::Pending,
                    })
                });
                step.run(|| async { Ok::<_, Error>(1) }).await?;
                Ok(call.undo("refused".to_owned()))
            }
        };
        let run = || Box::pin(shared::run(&backend, &operation, "1", handler.clone()));
        let mut running = run();
        assert!(poll(&mut running).is_pending());
        if resumes {
            // The process is killed, and a later run goes on.
            clock.pass(31_000);
            running = run();
            assert!(poll(&mut running).is_pending());
        }
        for _ in 0..6 {
            clock.pass(10_000);
            assert!(poll(&mut running).is_pending());
            assert_eq!(lease(&store), clock.now().get() + 30_000);
        }
        ends.store(true, Ordering::Relaxed);
        let Poll::Ready(result) = poll(&mut running) else {
            panic!("the call goes on");
        };
        assert_eq!(text(result).as_deref(), Ok("refused"));
    }
}

#[test]
fn a_step_and_its_undo_are_tried_as_often_as_asked_while_a_short_lease_is_renewed() {
    // Which try of the step succeeds, how often the undo is tried, and how the call ends.
    for (fate, succeeds, undos, expected) in [
        (Fate::Applied, 8, 8, Ok("refused")),
        // It is known after 3 s that another call may run.
        (Fate::Hangs, 1, 5, Err(ErrorKind::StepNotUndone)),
    ] {
        let (clock, backend) = process(RenewalStore::new(fate), Fixed);
        let operation = operation("shop", |it| {
            (it.steps, it.lease) = (Some(Steps::Keep), Some(Duration::from_secs(3)));
        });
        let tries: [Arc<AtomicI64>; 2] = Default::default();
        let work = |of: &AtomicI64, succeeds| match of.fetch_add(1, Ordering::Relaxed) + 1 {
            tried if tried == succeeds => Ok(1_u8),
            _ => Err(Error::new(ErrorKind::Internal, "bank")),
        };
        let [step, undo] = tries.clone();
        let handler = async move |call: Call| {
            let named = call.named_step("a").retry(StepRetry::tries(8));
            let named = named.undo(move |_: u8, _| ready(work(&undo, 8).map(drop)));
            named.run(|| ready(work(&step, succeeds))).await?;
            Ok(call.undo("refused".to_owned()))
        };
        let mut running = Box::pin(shared::run(&backend, &operation, "1", handler));
        let ended = (0..400).find_map(|_| {
            clock.pass(700);
            match poll(&mut running) {
                Poll::Ready(result) => Some(text(result)),
                Poll::Pending => None,
            }
        });
        assert_eq!(ended, Some(expected.map(str::to_owned)), "{fate:?}");
        let tries = tries.map(|it| it.load(Ordering::Relaxed));
        assert_eq!(tries, [succeeds, undos], "{fate:?}");
    }
}

#[test]
fn a_run_that_hangs_keeps_its_key_no_longer_than_the_setting_says() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |it| {
        it.renew_at_most = Some(Duration::from_secs(45))
    });
    let mut running = begin(&backend, &operation, "late");
    for _ in 0..10 {
        clock.pass(10_000);
        running.go_on();
    }
    assert_eq!((lease(&store), running.seconds_left()), (45_000, 0));
}

#[test]
fn the_summary_counts_renewals_and_says_that_the_claim_was_lost() {
    static SEEN: Mutex<Vec<(CallOutcome, u32, bool, u32)>> = Mutex::new(Vec::new());
    observe(|call| {
        if call.operation() == "counted" {
            let requests = call.store_requests();
            let seen = (call.outcome(), call.renewals(), call.claim_lost(), requests);
            SEEN.lock().unwrap().push(seen);
        }
    });
    let operation = operation("counted", |_| ());
    for pauses in [[10_000, 10_000], [10_000, 40_000]] {
        let (clock, backend) = process(FaultyStore::new([]), Fixed);
        let mut running = begin(&backend, &operation, "done");
        for pause in pauses {
            clock.pass(pause);
            running.go_on();
        }
        assert!(running.end().is_ok());
    }
    let executed = |lost| (CallOutcome::Executed, 2, lost, 4);
    assert_eq!(*SEEN.lock().unwrap(), [executed(false), executed(true)]);
}

/// Returns the note of the one event of a run of `operation`, and its numbers of renewals and requests.
fn told(operation: &'static str, run: impl FnOnce()) -> (String, u32, u32) {
    static SEEN: Mutex<Vec<(String, String, u32, u32)>> = Mutex::new(Vec::new());
    observe(|call| {
        let (note, of) = (call.note().unwrap_or_default(), call.operation());
        let numbers = (call.renewals(), call.store_requests());
        let seen = (of.to_owned(), note.to_owned(), numbers.0, numbers.1);
        SEEN.lock().unwrap().push(seen);
    });
    run();
    let seen = SEEN.lock().unwrap();
    let (_, note, renewals, requests) = seen.iter().find(|it| it.0 == operation).unwrap();
    (note.clone(), *renewals, *requests)
}

#[test]
fn the_event_of_a_lost_claim_says_what_led_to_it_first() {
    let note = |name, at_most: u64, lose: fn(&FaultyStore), pauses: &[i64], why| {
        let store = FaultyStore::new([]);
        let (clock, backend) = process(store.clone(), Fixed);
        let operation = operation(name, |it| {
            it.renew_at_most = Some(Duration::from_secs(at_most))
        });
        let (note, ..) = told(name, || {
            let mut running = begin(&backend, &operation, "late");
            lose(&store);
            for pause in pauses {
                clock.pass(*pause);
                running.go_on();
            }
            store.set_outage(None);
            let _ = running.end();
        });
        assert!(note.contains(why), "{note}");
    };
    let throttled = |store: &FaultyStore| store.set_outage(Some(THROTTLED));
    note(
        "fails",
        3_600,
        throttled,
        &[5_000; 8],
        "its renewals failed: failure 1",
    );
    let none = |_: &FaultyStore| {};
    note("still", 3_600, none, &[60_000], "the process stood still");
    note("long", 45, none, &[10_000; 6], "`renew_at_most`");
    let evicted = |store: &FaultyStore| {
        store.records.evict(&id_of("evicted"));
    };
    note(
        "evicted",
        3_600,
        evicted,
        &[10_000],
        "found that the claim was gone",
    );
    // The renewal after the end of the lease finds another thing, but the handler blocked its thread before.
    let evicted = |store: &FaultyStore| {
        store.records.evict(&id_of("blocked"));
    };
    note(
        "blocked",
        3_600,
        evicted,
        &[60_000],
        "it blocked its thread",
    );
}

#[test]
fn the_event_of_a_dropped_call_counts_its_renewals() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("dropped", |_| ());
    let (note, renewals, requests) = told("dropped", || {
        let mut running = begin(&backend, &operation, "never");
        for _ in 0..2 {
            clock.pass(10_000);
            running.go_on();
        }
        clock.pass(31_000);
        drop(running);
    });
    assert_eq!((renewals, requests), (2, 3));
    assert!(note.contains("the lease expired while the handler ran"));
}

#[test]
fn a_duplicate_beside_a_run_whose_claim_is_gone_asks_the_store() {
    let store = FaultyStore::new([]);
    let (clock, backend) = process(store.clone(), Fixed);
    let operation = operation("shop", |_| ());
    let mut running = begin(&backend, &operation, "late");
    store.records.evict(&id());
    clock.pass(10_000);
    running.go_on();
    let duplicate = Box::pin(shared::run(&backend, &operation, "1", async |_| {
        Ok("winner".to_owned())
    }));
    let duplicate = crate::example::ready(duplicate);
    assert_eq!(text(duplicate).as_deref(), Ok("winner"));
}
