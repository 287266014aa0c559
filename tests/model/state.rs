//! The state of a scenario, and its actions.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::decision::Verdict;
use idempotency_core::protocol::{
    Attempt, ClaimEnd, Effect, InFlight, Input, Refusal, Renewal, StagedEnd, WriteErrorKind,
};
use idempotency_core::record::{Record, RecordedSteps};
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::{History, HistoryEvent, What};

use super::bounds::{Ending, Faults};
use super::steps::StepRun;

/// The state of a scenario. Fields marked "ghost" are read only by the properties; no program could read them.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct State {
    /// The true time, in ticks.
    pub(crate) now: u8,
    pub(crate) record: Option<Shared<Record>>,
    /// Earlier states of the record, the latest first: what an eventual read may return. Kept if the bounds have stale reads.
    pub(crate) earlier: Vec<Option<Shared<Record>>>,
    /// The claim that an operator saw and has not decided about.
    pub(crate) shown: Option<Shared<Record>>,
    /// The local cache of the process that has one.
    pub(crate) cache: Option<Shared<Record>>,
    pub(crate) calls: Vec<Call>,
    /// What each ended call shared with its followers.
    pub(crate) shared: Vec<Option<Shared<Record>>>,
    /// Sends whose caller no longer waits. Each may be applied at any time.
    pub(crate) in_flight: Vec<TimedRequest>,
    pub(crate) python: Python,
    /// The business data: staged writes take one, and their condition is that there is one.
    pub(crate) funds: u8,
    /// The transactions that the store recognises by their token: the call, and the digest of the write.
    pub(crate) tokens: Vec<(u8, u64)>,
    /// How often each fault may still occur.
    pub(crate) left: Faults,
    /// Ghost: what happened, and the promises that this breaks.
    pub(crate) history: Shared<History>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Call {
    pub(crate) phase: Phase,
    pub(crate) trace: Trace,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) enum Phase {
    NotStarted,
    Active(Active),
    Killed,
    Ended(End, Returned),
}

/// A call that has started and not ended.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Active {
    pub(crate) attempt: Shared<Attempt>,
    /// The error of its clock, in ticks.
    pub(crate) skew: i8,
    /// Its current request.
    pub(crate) asked: TimedRequest,
    /// True if an earlier send of the current request may have been applied.
    pub(crate) maybe_applied: bool,
    /// A reply that the store gave but that has not arrived yet.
    pub(crate) reply: Option<Shared<Reply>>,
    /// What it saw at its last poll while it waits. It does not poll again until that changes.
    pub(crate) polled: Option<(u8, u64)>,
    /// The progress that other calls of its process can see.
    pub(crate) flight: Option<InFlight>,
    /// The leader that it follows, and the last progress of it that the call saw.
    pub(crate) follows: Option<(u8, InFlight)>,
    /// The number of claims that it sent, for faulty rules.
    pub(crate) claims: u8,
    /// The steps of the last record that prevented its claim, for faulty rules.
    pub(crate) seen: Option<Shared<RecordedSteps>>,
    /// The steps of its run.
    pub(crate) steps: Option<Shared<StepRun>>,
    /// The renewals of its run, if it sends more of them.
    pub(crate) renewal: Option<Shared<Renewal>>,
}

/// A request, and its time by the clock of its caller.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct TimedRequest {
    pub(crate) by: u8,
    pub(crate) at: EpochMillis,
    pub(crate) effect: Shared<Effect>,
}

/// What a call receives, with ghost data for the properties.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Reply {
    pub(crate) input: Input,
    pub(crate) ghost: Ghost,
}

impl Reply {
    /// Returns a reply without ghost data.
    pub(crate) fn of(input: Input) -> Self {
        Self::with(input, Ghost::default())
    }

    pub(crate) fn with(input: Input, ghost: Ghost) -> Self {
        Self { input, ghost }
    }
}

/// Ghost data of a reply.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(crate) struct Ghost {
    /// The end of the record's lease, if the record was this call's claim.
    pub(crate) own_lease: Option<EpochMillis>,
    /// True if the call found its claim in a record, and not by a confirmation.
    pub(crate) found: bool,
    /// The end of the lease, if the reply was the progress of a leader.
    pub(crate) leader: Option<EpochMillis>,
}

/// Ghost data of a call: what it did.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(crate) struct Trace {
    pub(crate) ending: Option<Ending>,
    pub(crate) tried_release: bool,
    /// Its run got `First`.
    pub(crate) first: bool,
    /// It ran after it found its own claim in a record.
    pub(crate) recognised: bool,
    /// It claimed a key whose last run had recorded a failure.
    pub(crate) after_failure: bool,
    /// It stored its response after its claim had been evicted.
    pub(crate) restored: bool,
    /// Its eventual read found a response whose record was replaced or deleted.
    pub(crate) found_stale: bool,
    /// It claimed although its eventual read found an earlier state of the record.
    pub(crate) misled: bool,
    /// It waited.
    pub(crate) waited: bool,
    /// It kept waiting after a failed read.
    pub(crate) waited_on: bool,
    /// It followed another call of its process.
    pub(crate) followed: bool,
    /// Of a call that may run unprotected: a request of it failed, or the circuit was open.
    pub(crate) store_failed: bool,
    /// Of a call that may run unprotected: it met another call of its key.
    pub(crate) met: bool,
    /// It ran without a confirmed claim.
    pub(crate) unprotected: bool,
    /// Its run used the recorded result of a step.
    pub(crate) resumed: bool,
    /// A step found that its claim was gone.
    pub(crate) lost_in_a_step: bool,
    /// It undid a step.
    pub(crate) undid: bool,
    /// The store rejected its staged writes.
    pub(crate) rejected: bool,
    /// It sent the transaction that its handler wrote into.
    pub(crate) committed: bool,
    /// Its run renewed its lease.
    pub(crate) renewed: bool,
    /// Its run renewed a lease that had expired.
    pub(crate) revived: bool,
    /// A renewal found that its claim was gone.
    pub(crate) lost_in_a_renewal: bool,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Executed,
    /// Its caller got a response that could not be stored.
    OwnCallerOnly,
    /// Its caller got the handler's error, or a response that `store_when` does not store.
    Released,
    NotReleased,
    /// Its caller got the result of a run without a confirmed claim.
    Unprotected,
    /// Its handler panicked, and its claim is kept for an operator.
    Kept,
    FromStore,
    FromCache,
    /// Another call of its process shared its response.
    FromConcurrentCall,
    /// An earlier send of its own completion was found applied.
    OwnCompletionFound,
    /// It was a late owner and got the winner's response.
    WinnersResponse,
    Refused(Refusal, Option<ClaimEnd>, Option<StagedEnd>),
}

/// The response that a caller got: the call that produced it, and its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Returned(pub(crate) Option<(u8, u16)>);

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub(crate) enum Python {
    NotStarted,
    /// Running. Its lease ends at this tick.
    Running(u8),
    Ended,
}

/// What becomes of a renewal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It is served at once.
    Served,
    /// Its send is lost, and its run gives it up.
    Lost,
    /// It fails, and was certainly not applied.
    Failed,
}

/// One step of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// Time passes.
    Tick,
    /// A delivery starts in a process whose clock has this error.
    Start(u8, i8),
    /// A call checks its process, and finds this other call or none.
    CheckProcess(u8, Option<u8>),
    /// A call asks the circuit breaker, which is open or not.
    AskCircuit(u8, bool),
    /// The pause of a waiting call ends.
    GoOn(u8),
    /// A follower sees progress of its leader, or has waited long enough.
    Wake(u8),
    /// The store serves a request, and the call receives the reply at once.
    Serve(u8),
    /// The store serves an eventual read with this earlier state of the record: 0 is the latest of them.
    ServeStale(u8, u8),
    /// The store serves a request, and the reply arrives later.
    ServeWithLateReply(u8),
    /// A late reply arrives.
    Receive(u8),
    /// A send is lost. The SDK then sends again or gives up.
    Lose(u8),
    /// A request fails. The call still knows whether an earlier send of it may have been applied.
    Fail(u8, WriteErrorKind),
    /// A lost send is applied.
    Arrive(u8),
    /// The handler of a call asks for its next step.
    Step(u8),
    /// The run of a call sends a renewal of its lease.
    Renew(u8, Fate),
    /// The handler of a call ends.
    End(u8, Ending),
    /// The undo of a step ends: it is undone, or it failed, or panicked.
    Undo(u8, UndoKind),
    Kill(u8),
    /// The table's TTL deletes the expired record.
    Ttl,
    /// An operator deletes the record.
    Evict,
    /// An operator looks at a claim whose lease has expired.
    Look,
    /// An operator decides about the claim that it saw.
    Decide(Verdict),
    /// Another program changes the business data: it takes all that is left, or adds one.
    ChangeData,
    PythonClaims,
    PythonCompletes,
    PythonFails,
}

/// How the undo of a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoKind {
    Undone,
    Fails,
    Panics,
}

impl State {
    /// Puts a send on its way, whose caller no longer waits for it.
    pub(crate) fn send(&mut self, sent: TimedRequest) {
        let key = |sent: &TimedRequest| (sent.by, sent.effect.digest());
        let sends = &mut self.in_flight;
        let at = sends.partition_point(|other| key(other) < key(&sent));
        sends.insert(at, sent);
    }

    /// Adds to the history.
    pub(crate) fn see(&mut self, by: u8, at: EpochMillis, what: What) {
        let mut history = (*self.history).clone();
        history.see(&HistoryEvent {
            by: by.into(),
            at,
            what,
        });
        self.history = Shared::new(history);
    }

    /// Returns the window in which the run of a call began.
    pub(crate) fn ran_in(&self, call: u8) -> Option<u16> {
        self.history.ran_in(call.into())
    }

    pub(crate) fn ended(&self, matches: impl Fn(&End, &Trace) -> bool) -> bool {
        self.calls.iter().any(|call| match &call.phase {
            Phase::Ended(end, _) => matches(end, &call.trace),
            _ => false,
        })
    }

    pub(crate) fn ended_as(&self, how: &End) -> bool {
        self.ended(|end, _| end == how)
    }

    pub(crate) fn refused(&self, kind: ErrorKind) -> bool {
        self.ended(|end, _| matches!(end, End::Refused(refusal, ..) if refusal.kind == kind))
    }

    /// Returns true if a call got the stored response of this number.
    pub(crate) fn replays(&self, number: u8) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| matches!(call.phase, Phase::Ended(End::FromStore, Returned(Some((whose, _)))) if whose == number))
    }
}

/// A part of a state that most steps do not change, with its hash. It is cloned and hashed in constant time.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    value: Arc<T>,
    digest: u64,
}

impl<T: Hash> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self {
            digest: hasher.finish(),
            value: Arc::new(value),
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            digest: self.digest,
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.value == other.value
    }
}

impl<T: PartialEq> Eq for Shared<T> {}
