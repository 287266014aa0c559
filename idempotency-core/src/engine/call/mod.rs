//! The call of a handler. Each run makes one.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the call, and how it ends |
//! | `step` | the steps of the call |
//! | `token` | tokens for effects outside |
//! | `transaction` | the transaction that the handler writes in |

mod step;
mod token;
mod transaction;

pub use step::{Step, UndoableStep};
pub use token::Token;
pub use transaction::CallTransaction;

use std::cell::RefCell;
use std::fmt;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use self::step::{Steps, StepsSummary};
use super::Backend;
use super::staging::{Misplaced, StageError, StagedByHandler, Staging};
use crate::error::{Error, ErrorKind};
use crate::outcome::Panic;
use crate::protocol::{CallTerms, Run, StepLedger};
use crate::random::RandomError;
use crate::record::{RecordId, RecordedSteps};
use crate::store::StagedWrites;
use crate::time::{Clock, EpochMillis};

/// The call that a handler runs in: its key, which run of the key it is, the time that is left, and tokens for effects outside.
///
/// A clone is a handle to the same call.
///
/// # Examples
///
/// ```
/// use idempotency_core::operation::{Call, Run};
///
/// /// Returns the request to a payment provider, with a header that makes the charge safe to repeat.
/// fn charge_request(call: &Call, amount: u64) -> String {
///     let again = if call.which_run() == Run::First { "" } else { " (perhaps again)" };
///     format!("charge {amount}{again}, Idempotency-Key: {}", call.token("charge"))
/// }
/// # let backend = idempotency_core::example::backend();
/// # let call = Call::unprotected(&backend)?;
/// # assert!(charge_request(&call, 42).starts_with("charge 42 (perhaps again), Idempotency-Key: "));
/// # Ok::<(), idempotency_core::random::RandomError>(())
/// ```
#[derive(Clone)]
pub struct Call(Arc<Inner>);

struct Inner {
    backend: Backend,
    /// What the protocol knows of the call. `None` for a run without a key.
    terms: Option<Arc<CallTerms>>,
    /// `Run::Unprotected` if there is no confirmed claim. Then nothing is recorded, and nothing can be staged under the key.
    run: Run,
    /// `None` if the operation has no steps.
    steps: Option<Steps>,
    /// When the time for the run ends.
    ends: RunEnd,
    has_ended: AtomicBool,
    /// True if the handler decided that its steps are undone.
    undoes: AtomicBool,
    /// The window that the handler asked for.
    window: AskedWindow,
    /// What the handler has staged.
    staging: Staging,
    /// What the tokens of a run without a key are made from. It is drawn for the first one.
    random: OnceLock<[u8; 16]>,
}

thread_local! {
    /// The runs whose handlers are polled on this thread, the innermost last: the address of the call, and whether the run has a key.
    /// They are set around each poll, as a task-local is.
    static POLLED: RefCell<Vec<(*const Inner, bool)>> = const { RefCell::new(Vec::new()) };
}

impl Call {
    /// Returns the call of a run without protection: for a handler that runs outside of an operation, and for its unit tests.
    ///
    /// # Errors
    ///
    /// If the backend's random source fails.
    pub fn unprotected(backend: &Backend) -> Result<Self, RandomError> {
        let random = backend.random_bytes()?;
        let call = Self::without_key(backend);
        call.0.staging.refuse();
        call.0.random.get_or_init(|| random);
        Ok(call)
    }

    /// Returns the call of a run with a key. `recorded` are the steps of earlier runs; if the run only undoes them (`undoes`), no other runs.
    /// Without a confirmed claim, because the store failed, its steps run and are not recorded.
    pub(super) fn of_key(
        backend: &Backend,
        terms: &Arc<CallTerms>,
        run: Run,
        recorded: Option<&RecordedSteps>,
        undoes: bool,
    ) -> Self {
        let has_steps = terms.policy.steps.are_on();
        let steps = has_steps.then(|| {
            let ledger = StepLedger::new(recorded.cloned().unwrap_or_default(), terms.limits);
            Steps::new(if undoes { ledger.undoing() } else { ledger })
        });
        let call = Self::new(backend, Some(terms), run, steps);
        if run == Run::Unprotected {
            // No completion may ever apply what is staged.
            call.0.staging.refuse();
        }
        call
    }

    /// Returns the call of a run without a key.
    pub(super) fn without_key(backend: &Backend) -> Self {
        let steps = Steps::new(StepLedger::new(RecordedSteps::default(), backend.limits()));
        Self::new(backend, None, Run::Unprotected, Some(steps))
    }

    fn new(
        backend: &Backend,
        terms: Option<&Arc<CallTerms>>,
        run: Run,
        steps: Option<Steps>,
    ) -> Self {
        Self(Arc::new(Inner {
            backend: backend.clone(),
            terms: terms.map(Arc::clone),
            run,
            steps,
            ends: RunEnd::unknown(),
            has_ended: AtomicBool::new(false),
            undoes: AtomicBool::new(false),
            window: AskedWindow::default(),
            staging: Staging::default(),
            random: OnceLock::new(),
        }))
    }

    /// Returns the terms of the claim, under which steps are recorded. `None` without a confirmed claim.
    fn claim(&self) -> Option<&CallTerms> {
        let terms = self.0.terms.as_deref();
        terms.filter(|_| self.0.run != Run::Unprotected)
    }

    /// Returns until when the claim lasts. `None` without a confirmed claim.
    fn lease_end(&self) -> Option<EpochMillis> {
        self.claim().and_then(|_| self.0.ends.get())
    }

    /// Returns the id of the call's record, or `None` if the call has no key or protection is switched off.
    ///
    /// The id is a hash. It shows nothing of the payload. A run that is unprotected because the store failed has it too.
    pub fn key(&self) -> Option<&RecordId> {
        self.0.terms.as_ref().map(|terms| &terms.id)
    }

    /// Returns which run of the key this is, as far as its claim shows.
    pub fn which_run(&self) -> Run {
        self.0.run
    }

    /// Returns how long the claim of this run still lasts, by the clock of the backend: until the deadline of the invocation, or
    /// where no deadline is known, until the end of the lease. Zero if it has expired. Under `renew` it is the end that was confirmed last.
    ///
    /// After that another call may run the handler too. If the store failed, an unprotected run has the lease that its claim would have.
    /// A run without a key, or if disabled, has the time until the invocation's deadline. `None` if unknown, or outside of an operation.
    pub fn time_left(&self) -> Option<Duration> {
        let end = self.0.ends.get()?;
        Some(self.now().until(end))
    }

    /// Waits until the claim of this run may be gone: until [`time_left`](Self::time_left) is zero. It is known one second later at most.
    ///
    /// Under `renew` that is when no renewal was confirmed in time, or one found the claim gone. Without it that is the end of the lease,
    /// or the deadline. The handler should stop before its next effect, because another call may run, and return an error: an `Ok`
    /// is stored if no other call has come. It never ends if no end is known.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::operation::Call;
    /// async fn import(call: Call) -> Result<u32, &'static str> {
    ///     for page in 0..100 {
    ///         tokio::select! {
    ///             () = call.claim_lost() => return Err("stopped before the last page"),
    ///             () = copy(page) => {}
    ///         }
    ///     }
    ///     Ok(100)
    /// }
    /// # async fn copy(_: u32) {}
    /// # let call = Call::unprotected(&idempotency_core::example::backend()).unwrap();
    /// # assert_eq!(idempotency_core::example::ready(import(call)).unwrap(), 100);
    /// ```
    pub async fn claim_lost(&self) {
        let clock = self.0.backend.clock();
        loop {
            let Some(end) = self.0.ends.get() else {
                return pending().await;
            };
            let now = self.now();
            if now > end {
                return;
            }
            // A timer may stand still while the machine sleeps, so the clock is read again and again.
            let left = now.until(end).saturating_add(A_MILLISECOND);
            clock.sleep(left.min(LOOKS_EVERY)).await;
        }
    }

    /// Returns the time of the run.
    fn now(&self) -> EpochMillis {
        self.0.ends.now(self.0.backend.clock())
    }

    /// Keeps the response of this run for this time, and not for the whole window of the operation. Fractions of a second do not count.
    ///
    /// The operation's own window, `expires_after`, is the longest: clients and deploys count on it. Set it to the longest one that a
    /// response needs, and choose a shorter one here: at least the time for which senders deliver the call again, and for which the
    /// provider of an effect keeps its token. The last choice of a run counts, for its response alone: a run that fails or is
    /// killed leaves what it would leave without a choice. Choose outside of steps, because a later run skips a recorded step. Of a run
    /// without a key nothing is stored, so any window is accepted.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration), if the window is shorter than a second or longer than that of the operation: the response
    /// is then kept for the window of the operation, and the outcome event says so. Also if the handler has ended: an earlier choice stays.
    /// So the error can be ignored. Do not return it after an effect: an `Err` frees the key.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Codec, Errors}, error::Error, example, operation::{Call, CompiledOperation}};
    /// # use std::time::Duration;
    /// // The operation has `expires_after = "7d"`, for payments that are only authorised.
    /// async fn pay(call: Call, authorises_only: bool) -> Result<String, Error> {
    ///     if !authorises_only {
    ///         call.expires_after(Duration::from_secs(60 * 60))?;
    ///     }
    ///     Ok("paid".to_owned())
    /// }
    /// # let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// # let settings = Settings { expires_after: Some(week), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::pay", &settings, &Variables::default()).unwrap();
    /// # example::ready(async {
    /// # let backend = example::backend();
    /// # for authorises_only in [true, false] {
    /// #     let order = operation.identify(if authorises_only { "1" } else { "2" }, None)?;
    /// #     let run = |call| pay(call, authorises_only);
    /// #     operation.run(&backend, &order, None, Codec::json(), Errors::new(|error| error), run).await?;
    /// # }
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn expires_after(&self, window: Duration) -> Result<(), Error> {
        let Some(terms) = self.0.terms.as_deref() else {
            // Nothing of this run is stored.
            return Ok(());
        };
        let policy = &terms.policy;
        let detail = if self.has_ended() {
            "the handler that asks for a window has ended".to_owned()
        } else if policy.allows_window(window) {
            self.0.window.set(window);
            return Ok(());
        } else {
            self.0.window.refuse();
            format!(
                "the handler asked for a window of {window:?}: ask for at least a second and at most the `expires_after` of the operation, \
                 {:?}, or raise that",
                policy.expires_after
            )
        };
        Err(self.error_of(ErrorKind::Configuration).with_detail(detail))
    }

    /// Returns the token of this key for the effect with this name: for the idempotency key of a payment provider, or for any
    /// other request that is safe to repeat under a key.
    ///
    /// It is a hash of the record's id and the name, as the text of a UUID (version 8, 36 characters). So it is the same in every
    /// run of the key, on every machine and in every release, and shows nothing of the payload. Another name, key, operation
    /// (key prefix) or tenant has another token. Give each effect of a handler a name of its own.
    ///
    /// # Panics
    ///
    /// If the run has no key, and the random source fails.
    ///
    /// # Limits
    ///
    /// - The token does not change when the window expires. A call after the window runs the handler with the same token, so
    ///   the provider still returns its first result if it keeps its keys longer. If the key can be used again on purpose, it
    ///   must contain what makes the new operation another one, such as the order's number.
    /// - A provider forgets its keys too. A rerun is recognised only for as long as the provider keeps them.
    /// - Without a key the token is random: the same in this run, and another one in the next. A run that is unprotected because the
    ///   store failed has a key, and so the same token as every other run of it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Codec, Errors}, error::Error, operation::CompiledOperation};
    /// # let backend = idempotency_core::example::backend();
    /// # let settings = Settings { key_prefix: Some("shop".into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// # idempotency_core::example::ready(async {
    /// let order = operation.identify(r#"{"order_id": 7}"#, None)?;
    /// let run = operation.run(&backend, &order, None, Codec::json(), Errors::new(|error| error), async |call| {
    ///     Ok::<_, Error>(call.token("charge").to_string())
    /// });
    /// assert_eq!(run.await?.response(), "8f9595e7-55e3-8328-92fa-5ff48ec22d26");
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn token(&self, name: &str) -> Token {
        self.token_of(name, false)
    }

    /// Returns the token of the effect with this name, or that of its undo.
    fn token_of(&self, name: &str, undoes: bool) -> Token {
        if let Some(key) = self.key() {
            return Token::of_key(key, name, undoes);
        }
        let random = self.0.random.get_or_init(|| {
            let random = self.0.backend.random_bytes();
            // Without random bytes the token could be that of another run, and a provider would take the two for one.
            random.unwrap_or_else(|error| panic!("no token without a key: {error}"))
        });
        Token::of_random(random, name, undoes)
    }

    /// Changes the writes that this call has staged, in the form of one store. They are applied together with the completion of the
    /// key when the handler has returned its response, or not at all.
    ///
    /// It is for the crate of a store, which adds a method with the writes of that store. If `change` fails, it must have changed nothing.
    ///
    /// # Errors
    ///
    /// If the handler has ended, if the run is outside of an operation or has no confirmed claim because the store failed, if a step of
    /// the call is open, if the handler of another operation runs here, if the writes of another store are staged, or if `change` fails.
    /// Then nothing is staged, and the call cannot complete any more: if its handler returns a response all the same, the call ends in
    /// [`TransactionRejected`](crate::error::ErrorKind::TransactionRejected), and nothing that it staged is applied.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Backend, Codec, Errors}, error::Error, operation::CompiledOperation};
    /// # use idempotency_core::{example, store::{LedgerEntry, MemoryStore, MemoryWrites}};
    /// # use std::{convert::Infallible, sync::Arc};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let backend = example::backend_over(store.clone());
    /// # let operation = CompiledOperation::new("shop::pay", &Settings::default(), &Variables::default()).unwrap();
    /// # example::ready(async {
    /// let order = operation.identify(r#"{"order_id": 7}"#, None)?;
    /// for _duplicate in [false, true] {
    ///     let run = operation.run(&backend, &order, None, Codec::json(), Errors::new(|error| error), async |call| {
    ///         let pay = LedgerEntry::add("shop", 5);
    ///         call.stage(|writes: &mut MemoryWrites| Ok::<_, Infallible>(writes.push(pay))).unwrap();
    ///         Ok::<_, Error>("paid".to_owned())
    ///     });
    ///     run.await?;
    /// }
    /// assert_eq!(store.balance("shop"), 5);
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn stage<W, E>(
        &self,
        change: impl FnOnce(&mut W) -> Result<(), E>,
    ) -> Result<(), StageError<E>>
    where
        W: StagedWrites + Default,
    {
        let changed = self.0.staging.change(self.misplaced(), change);
        // What a clone does after the end is no part of the run.
        if let Some(steps) = self
            .0
            .steps
            .as_ref()
            .filter(|_| changed.is_err() && !self.has_ended())
        {
            steps.refuse();
        }
        changed
    }

    /// Returns why no write may be staged where the code runs.
    fn misplaced(&self) -> Option<Misplaced> {
        // A run without a key is never replayed, so its handler may stage on the call around it.
        let inner = POLLED.with_borrow(|polled| {
            let is_other = |(run, _): &&(*const Inner, bool)| !std::ptr::eq(*run, &*self.0);
            let mut inside = polled.iter().rev().take_while(is_other);
            inside.any(|(_, has_key)| *has_key)
        });
        if inner {
            return Some(Misplaced::InOtherRun);
        }
        let has_open = self.0.steps.as_ref().is_some_and(Steps::has_open);
        has_open.then_some(Misplaced::InStep)
    }

    /// Returns true if the handler has staged writes or begun a transaction, or one of these was refused, and it has not ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::operation::Call;
    /// # let backend = idempotency_core::example::backend();
    /// let call = Call::unprotected(&backend)?;
    /// assert!(!call.has_staged());
    /// # Ok::<(), idempotency_core::random::RandomError>(())
    /// ```
    pub fn has_staged(&self) -> bool {
        self.0.staging.has_staged()
    }

    /// Returns true if the run of the handler has ended. What a clone that was kept does after that is no part of the run.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
    }

    /// Returns an error of this call, whose handler runs.
    fn error_of(&self, kind: ErrorKind) -> Error {
        let operation = self.key().map_or("", RecordId::prefix);
        let error = Error::new(kind, operation).with_handler_ran(true);
        match self.key() {
            Some(key) => error.with_key(key.clone(), self.0.backend.store().name()),
            None => error,
        }
    }

    /// Ends the call, and returns what its handler has staged.
    fn end(&self) -> StagedByHandler {
        self.0.has_ended.store(true, Ordering::Release);
        if let Some(steps) = &self.0.steps {
            steps.close();
        }
        self.0.staging.close()
    }
}

/// The window that a handler asked for, in whole seconds.
#[derive(Default)]
struct AskedWindow(AtomicU64);

impl AskedWindow {
    /// Stands for no window. One of zero seconds is refused.
    const NONE: u64 = 0;
    /// Stands for a window that was refused. No operation has one that is as long.
    const REFUSED: u64 = u64::MAX;

    fn set(&self, window: Duration) {
        self.0.store(window.as_secs(), Ordering::Relaxed);
    }

    fn refuse(&self) {
        self.0.store(Self::REFUSED, Ordering::Relaxed);
    }
}

/// How long a call that waits for the end of its claim sleeps before it looks again.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// A lease has expired one millisecond after its end.
const A_MILLISECOND: Duration = Duration::from_millis(1);

/// Until when a run has time: one value for its call and its steps. The driver moves it as the protocol says.
struct RunEnd {
    at: AtomicI64,
    /// What is added to the monotonic clock, in milliseconds, to get the time of a run whose lease is renewed.
    offset: AtomicI64,
}

impl RunEnd {
    /// Stands for a time that is not known. Each time of a deadline or a lease is later.
    const UNKNOWN: i64 = i64::MIN;

    fn unknown() -> Self {
        Self {
            at: AtomicI64::new(Self::UNKNOWN),
            offset: AtomicI64::new(Self::UNKNOWN),
        }
    }

    fn get(&self) -> Option<EpochMillis> {
        let end = self.at.load(Ordering::Relaxed);
        (end != Self::UNKNOWN).then(|| EpochMillis::new(end))
    }

    fn set(&self, end: Option<EpochMillis>) {
        let end = end.map_or(Self::UNKNOWN, EpochMillis::get);
        self.at.store(end, Ordering::Relaxed);
    }

    /// Returns the time. Of a lease that is renewed it is the later one of both clocks: one of them may have been set back, or have stood
    /// still while the machine slept.
    fn now(&self, clock: &dyn Clock) -> EpochMillis {
        let now = clock.now();
        let offset = self.offset.load(Ordering::Relaxed);
        if offset == Self::UNKNOWN {
            return now;
        }
        let passed = clock.monotonic().map(milliseconds);
        passed.map_or(now, |passed| {
            now.max(EpochMillis::new(passed.saturating_add(offset)))
        })
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Ends the call of a run when it is dropped.
pub(super) struct OpenCall(Call);

impl OpenCall {
    pub(super) fn new(call: Call) -> Self {
        Self(call)
    }

    /// Says until when the run has time: the end of its lease, or of its invocation. A later value replaces an earlier one.
    pub(super) fn lasts_until(&self, end: Option<EpochMillis>) {
        self.0.0.ends.set(end);
    }

    /// Says until when the lease of the run lasts, which is renewed. `monotonic` is the same by the monotonic clock, if there is one.
    pub(super) fn is_held_until(&self, end: EpochMillis, monotonic: Option<Duration>) {
        let ends = &self.0.0.ends;
        if let Some(monotonic) = monotonic {
            let offset = end.get().saturating_sub(milliseconds(monotonic));
            ends.offset.store(offset, Ordering::Relaxed);
        }
        ends.set(Some(end));
    }

    /// Returns true if the claim may be gone.
    pub(super) fn has_expired(&self) -> bool {
        self.0.0.ends.get().is_some_and(|end| self.0.now() > end)
    }

    /// Returns the backend of the call.
    pub(super) fn backend(&self) -> &Backend {
        &self.0.0.backend
    }

    /// Returns the time of the run.
    pub(super) fn now(&self) -> EpochMillis {
        self.0.now()
    }

    /// Returns the call, for the handler.
    pub(super) fn handle(&self) -> Call {
        self.0.clone()
    }

    /// Returns what the steps of the run were. `None` if the run records none.
    pub(super) fn steps(&self) -> Option<StepsSummary> {
        self.0.claim()?;
        self.0.0.steps.as_ref().map(Steps::summary)
    }

    /// Returns the window that the handler asked for, or `None` if it asked for none.
    ///
    /// # Errors
    ///
    /// If its last window was refused. The error is a note for the outcome event.
    pub(super) fn window(&self) -> Result<Option<Duration>, &'static str> {
        match self.0.0.window.0.load(Ordering::Relaxed) {
            AskedWindow::NONE => Ok(None),
            AskedWindow::REFUSED => Err(
                "the handler asked for a window that the operation does not allow: its response is kept for the window of the operation",
            ),
            seconds => Ok(Some(Duration::from_secs(seconds))),
        }
    }

    /// Ends the call: the handler has returned. Returns what it has staged.
    pub(super) fn end(&self) -> StagedByHandler {
        self.0.end()
    }

    /// Runs code of the handler: makes it, or polls it.
    pub(super) fn enter<T>(&self, code: impl FnOnce() -> T) -> T {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                POLLED.with_borrow_mut(Vec::pop);
            }
        }
        let entry = (std::ptr::from_ref(&*self.0.0), self.0.0.terms.is_some());
        POLLED.with_borrow_mut(|polled| polled.push(entry));
        let _leave = Leave;
        code()
    }

    /// Polls a future of the handler to its end, and catches its panic.
    pub(super) async fn caught<F: Future>(&self, future: F) -> Result<F::Output, Panic> {
        let mut future = pin!(future);
        poll_fn(|context| {
            let polled = AssertUnwindSafe(|| self.enter(|| future.as_mut().poll(context)));
            match catch_unwind(polled) {
                Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        // The future of the run can be dropped before the handler returns.
        self.end();
    }
}

/// Runs a handler without a claim and outside of an operation. Each write that it stages is refused. Returns its output, and then an error:
/// the response counts on such a write, or a step that the handler decided to undo is not undone
/// ([`StepNotUndone`](ErrorKind::StepNotUndone)).
///
/// It is for an entry point with requests that it does not protect, whose handler gets a call all the same.
pub async fn run_without_claim<R, E, F: Future<Output = Result<R, E>>>(
    backend: &Backend,
    key_prefix: &str,
    deadline: Option<EpochMillis>,
    handler: impl FnOnce(Call) -> F,
) -> (Result<R, E>, Option<Error>) {
    let call = OpenCall::new(Call::without_key(backend));
    call.lasts_until(deadline);
    call.0.0.staging.refuse();
    let output = handler(call.handle()).await;
    if call.undoes_unrecorded(output.is_ok()) {
        let undone = Box::pin(call.undo_all(key_prefix, None)).await;
        return (output, undone.err());
    }
    let refused = call.end().refused;
    (output, refused.map(|why| refused_write(key_prefix, why)))
}

/// Returns the error of a run without a key whose response counts on a write that was refused.
pub(super) fn refused_write(key_prefix: &str, why: &'static str) -> Error {
    let error = Error::new(ErrorKind::TransactionRejected, key_prefix).with_handler_ran(true);
    error.with_unconfirmed_writes().with_detail(why)
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("key", &self.key())
            .field("run", &self.which_run())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
