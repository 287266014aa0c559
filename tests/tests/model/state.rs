//! The state of a scenario, and what may happen in it.

use idempotency_core::protocol::{Attempt, Effect, InFlight, Input, Refusal, WriteErrorKind};
use idempotency_core::record::Record;
use idempotency_core::time::EpochMillis;

use super::bounds::{Ending, Faults};
use super::shared::Shared;

/// Nobody's number.
pub(crate) const NO_CALL: u8 = u8::MAX;
/// The generation of an answer that was never stored.
pub(crate) const NEVER: u8 = u8::MAX;

/// Everything there is at one moment. What no program could see is kept for the properties alone.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct State {
    /// The true time, in ticks.
    pub(crate) now: u8,
    pub(crate) record: Option<Shared<Record>>,
    /// What the one process with a local cache remembers.
    pub(crate) cache: Option<Shared<Record>>,
    pub(crate) calls: Vec<Call>,
    /// What each call that is over gave to those who followed it.
    pub(crate) landed: Vec<Option<Shared<Record>>>,
    /// Sends that nobody waits for any more; each may be applied at any time.
    pub(crate) in_flight: Vec<Sent>,
    pub(crate) python: Python,
    /// How often each fault may still strike.
    pub(crate) left: Faults,
    /// Unseen: whose write made the record what it is.
    pub(crate) holder: u8,
    /// Unseen: how many windows have ended, by time or by an operator.
    pub(crate) generation: u8,
    /// Unseen: in which generation each call's answer was stored.
    pub(crate) stored_in: Vec<u8>,
    /// Unseen: the promises that were broken on the way here.
    pub(crate) broken: u16,
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

/// A call on its way.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Active {
    pub(crate) attempt: Shared<Attempt>,
    /// By how many ticks its clock is off.
    pub(crate) skew: i8,
    /// What it asked for.
    pub(crate) asked: Sent,
    /// Whether a send of the present request was lost.
    pub(crate) maybe_applied: bool,
    /// A reply that was given but has not arrived yet.
    pub(crate) reply: Option<Shared<Reply>>,
    /// When and at what it looked last, while it waits: looking again at the same teaches nothing.
    pub(crate) looked: Option<(u8, u64)>,
    /// What others of its process know of it.
    pub(crate) flight: Option<InFlight>,
    /// Whom it follows, and what it view of that call.
    pub(crate) follows: Option<(u8, InFlight)>,
    /// For the rules that put a fault in: how many claims it sent.
    pub(crate) claims: u8,
}

/// A request, and when it was made by the clock of the one who made it.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Sent {
    pub(crate) by: u8,
    pub(crate) at: EpochMillis,
    pub(crate) effect: Shared<Effect>,
}

/// What the store replied, and what the properties know of it.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Reply {
    pub(crate) input: Input,
    pub(crate) seen: Seen,
}

/// What was true when the store replied.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(crate) struct Seen {
    /// The lease of the record, if it was this call's claim.
    pub(crate) own_lease: Option<EpochMillis>,
    /// Whether the claim was found rather than confirmed.
    pub(crate) found: bool,
    /// Whether it was returned of another call of its process whose lease was over by then.
    pub(crate) late_flight: bool,
}

/// What a call did, for the properties.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Trace {
    /// The generation its run started in.
    pub(crate) ran_in: u8,
    pub(crate) ending: Option<Ending>,
    pub(crate) tried_release: bool,
    /// It went on after it found its own claim.
    pub(crate) recognised: bool,
    /// It claimed a key whose last run had recorded a failure.
    pub(crate) after_failure: bool,
    /// It stored its answer after its claim had been evicted.
    pub(crate) restored: bool,
    /// It waited.
    pub(crate) waited: bool,
    /// It waited on although a read had failed.
    pub(crate) waited_on: bool,
    /// It followed another call of its process.
    pub(crate) followed: bool,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Executed,
    /// Its own caller was given an answer that could not be stored.
    OwnCallerOnly,
    /// Its own caller was given an answer that by policy is not stored, or its handler's error.
    Released,
    NotReleased,
    /// Its handler panicked, and its claim is kept for an operator.
    Kept,
    FromStore,
    FromCache,
    /// Another call of its process shared it.
    FromConcurrentCall,
    /// An earlier send of its own completion was found applied.
    OwnCompletionFound,
    /// It was late, and given the winner's answer.
    WinnersResponse,
    Refused(Refusal),
}

/// The answer that a caller was given: whose, and of which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Returned(pub(crate) Option<(u8, u8)>);

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub(crate) enum Python {
    NotStarted,
    /// Until this tick, by its own lease.
    Running(u8),
    Ended(Returned),
}

/// One step of the scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// Time passes.
    Tick,
    /// A delivery arrives at a process whose clock is off by this.
    Start(u8, i8),
    /// A call looks about in its process, and meets this other call.
    Look(u8, Option<u8>),
    /// The pause of a call that waits is over.
    GoOn(u8),
    /// A call that follows another receives of it, or has waited long enough.
    Wake(u8),
    /// The store serves the request of a call, which receives of it at once.
    Serve(u8),
    /// The store serves the request of a call, which does not receive of it yet.
    ServeWithLateReply(u8),
    /// The reply arrives.
    Receive(u8),
    /// A send is lost, and the SDK is about to send again or to give up.
    Lose(u8),
    /// A request fails; whether an earlier send of it was lost stays known.
    Fail(u8, WriteErrorKind),
    /// A lost send is applied after all.
    Arrive(u8),
    /// The handler of a call ends.
    End(u8, Ending),
    Kill(u8),
    /// The table's TTL deletes the expired record.
    Ttl,
    /// An operator deletes the record.
    Evict,
    PythonClaims,
    PythonCompletes,
    PythonFails,
}

impl State {
    pub(crate) fn ended(&self, matches: impl Fn(&End, &Trace) -> bool) -> bool {
        self.calls.iter().any(|call| match &call.phase {
            Phase::Ended(end, _) => matches(end, &call.trace),
            _ => false,
        })
    }

    pub(crate) fn refused(&self, matches: impl Fn(&Refusal) -> bool) -> bool {
        self.ended(|end, _| matches!(end, End::Refused(refusal) if matches(refusal)))
    }
}
