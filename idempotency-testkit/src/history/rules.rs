//! The rules: what each event may do, and what it changes for later events.

use std::fmt;

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::policy::Steps;
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::{
    Basis, Bond, CallNumber, Given, HistoryEvent, Met, Promise, Promises, Refused, Reported, Terms,
    What,
};

/// What is known of a key after some events. It is small, because a model clones and hashes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    checked: Promises,
    broken: Promises,
    /// The number of windows that have ended, by time or by an operator.
    window: u16,
    record: Option<Stored>,
    calls: Vec<Call>,
    /// The steps of the window.
    steps: Vec<Step>,
    /// The call whose run decided that the steps of the window are undone.
    undo_by: Option<CallNumber>,
    calm: bool,
}

/// What the store holds: a claim or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stored {
    completed: bool,
    /// The call that wrote it. `None` for a claim that every call may take over: its run failed, or an operator freed it.
    by: Option<CallNumber>,
    until: Option<EpochMillis>,
    /// When it expires. Of a response, not before the end of the window that its call promises.
    expires: Option<EpochSeconds>,
}

/// What is known of a call. Each `.._in` is a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Call {
    terms: Option<Terms>,
    /// The steps that were recorded when it claimed. One bit for each.
    known: u32,
    /// When the claim that its reply tells of was applied, a run had not reported its end.
    after_unreported: bool,
    /// The window that an operator's eviction ended before its run began, if no reply tells of a claim since.
    evicted_in: Option<u16>,
    ran_in: Option<u16>,
    report: Option<Reported>,
    /// Its run under a claim has not reported its end in this window.
    unreported: bool,
    /// The steps whose undo was recorded when it claimed. One bit for each.
    known_undone: u32,
    /// It decided that the steps are undone, or claimed after that: the window, and the call whose run decided.
    undoes: Option<(u16, CallNumber)>,
    /// Its claim was released after its run staged writes, or after it stopped undoing.
    staged_released: bool,
    stored_in: Option<u16>,
    staged_in: Option<u16>,
    /// The response of its run was given to a caller.
    given_in: Option<u16>,
    /// Its caller learned that its staged writes were not applied.
    not_applied: bool,
    /// Until when its run counts on its lease, if the lease is renewed.
    holds_until: Option<EpochMillis>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Step {
    happened: bool,
    /// The last call that ran it.
    ran_by: Option<CallNumber>,
    recorded: Option<CallNumber>,
    undone: bool,
    undo_recorded: bool,
}

/// A promise that a history breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise.
    pub promise: Promise,
    /// The event that breaks it.
    pub event: HistoryEvent,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, event } = self;
        let (text, number) = (promise.text(), promise.number());
        write!(f, "{text} (promise {number}): broken by {event:?}")
    }
}

/// Returns each promise of `checked` that the events of one key break, with the first event that breaks it.
pub fn check(events: &[HistoryEvent], checked: Promises) -> Vec<Broken> {
    let mut history = History::new(checked);
    let mut broken = Vec::new();
    for event in events {
        let before = history.broken;
        history.see(event);
        let promises = Promise::ALL.iter().copied();
        let new = promises.filter(|promise| history.broken.has(*promise) && !before.has(*promise));
        broken.extend(new.map(|promise| Broken {
            promise,
            event: *event,
        }));
    }
    broken
}

impl History {
    /// Returns the history of a key to which nothing has happened, and of which these promises are checked.
    pub const fn new(checked: Promises) -> Self {
        Self {
            checked,
            broken: Promises::none(),
            window: 0,
            record: None,
            calls: Vec::new(),
            steps: Vec::new(),
            undo_by: None,
            calm: false,
        }
    }

    /// Returns the promises that are broken.
    pub const fn broken(&self) -> Promises {
        self.broken
    }

    /// Returns the number of windows that have ended.
    pub const fn window(&self) -> u16 {
        self.window
    }

    /// Returns the window in which the run of this call began.
    pub fn ran_in(&self, call: CallNumber) -> Option<u16> {
        self.of(call).ran_in
    }

    /// Returns the window in which the response of this call was stored.
    pub fn stored_in(&self, call: CallNumber) -> Option<u16> {
        self.of(call).stored_in
    }

    /// Returns the end of the lease of this call's claim, if the store holds it.
    pub fn lease_of(&self, call: CallNumber) -> Option<EpochMillis> {
        let claim = self.record.filter(|_| self.holds(call));
        claim.and_then(|claim| claim.until)
    }

    /// Adds an event, and notes the promises that it breaks.
    pub fn see(&mut self, event: &HistoryEvent) {
        let HistoryEvent { by, at, what } = *event;
        match what {
            What::Called(terms) => self.call(by).terms = Some(terms),
            What::Claimed {
                late,
                replaces,
                until,
                expires,
            } => {
                let told = self.of(by);
                self.claimed(by, at, replaces, until, expires);
                if late {
                    let call = self.call(by);
                    call.after_unreported = told.after_unreported;
                    call.evicted_in = told.evicted_in;
                }
            }
            What::Renewed { until, expires } => self.renewed(by, at, until, expires),
            What::Holds { until } => {
                let is_held = self.lease_of(by).is_some_and(|end| end >= until);
                self.breaks_if(Promise::HeldThoughGone, !is_held);
                self.call(by).holds_until = Some(until);
            }
            What::LeaseEnded => {
                self.check_holder(by);
                self.record.iter_mut().for_each(|claim| claim.until = None);
            }
            What::Released { expires } => self.released(by, expires),
            What::Completed {
                expires,
                staged,
                restores,
            } => {
                if restores {
                    self.breaks_if(Promise::LateOwner, self.record.is_some());
                } else {
                    self.check_holder(by);
                }
                self.completed(by, at, expires, staged);
            }
            What::StagedAlone => self.breaks(Promise::StagedAlone),
            What::Restores => {
                let stored = self.of(by).stored_in.is_some();
                self.breaks_if(Promise::EvictedComesBack, stored);
            }
            What::StepRan { step } => self.step_ran(by, step),
            What::StepRecorded { step } => {
                self.check_holder(by);
                self.step(step).recorded = Some(by);
            }
            What::StepUsed { step, of } => {
                self.breaks_if(Promise::StepOfAnotherPayload, !self.is_like(by, of));
                let recorded = self.step(step).recorded;
                let other = recorded.is_some_and(|recorded| recorded != of);
                self.breaks_if(Promise::StepAgain, self.knows(by, step) && other);
                // A handler gets a result only once it is recorded. Later runs must find it, although no write of it may have been seen.
                let mut terms = self.calls.iter().filter_map(|call| call.terms);
                let all_keep = terms.all(|terms| terms.steps == Steps::Keep);
                if all_keep && self.of(by).unreported {
                    self.step(step).recorded.get_or_insert(of);
                }
            }
            What::UndoDecided => {
                self.check_holder(by);
                let open = |step: &Step| step.ran_by == Some(by) && step.recorded.is_none();
                self.breaks_if(Promise::NotUndone, self.steps.iter().any(open));
                self.undo_by = Some(by);
                self.call(by).undoes = Some((self.window, by));
            }
            What::UndoRan { step } => self.undo_ran(by, step),
            What::UndoRecorded { step } => {
                self.check_holder(by);
                self.step(step).undo_recorded = true;
            }
            What::UndoStopped { held } => {
                self.check_holder(by);
                self.call(by).staged_released = true;
                // A held one stays a claim of its call, which no call may take over.
                if let Some(claim) = &mut self.record {
                    claim.until = None;
                    claim.by = claim.by.filter(|_| held);
                }
            }
            What::Deleted { evicted } => {
                let ended = |record: Stored| record.completed && has_ended(record.expires, at);
                let live = self.record.is_some_and(|record| self.is_live(record, at));
                // A record whose end has come is deleted by TTL.
                let by_ttl = self.record.is_some_and(|it| has_ended(it.expires, at));
                self.breaks_if(Promise::LateOwner, by_ttl && live && !evicted);
                if evicted {
                    let waiting = self.calls.iter_mut().filter(|call| call.ran_in.is_none());
                    waiting.for_each(|call| call.evicted_in = Some(self.window));
                }
                self.window += u16::from(evicted || self.record.is_some_and(ended));
                self.record = None;
                self.forget();
            }
            What::Decided { completed } => self.decided(by, at, completed),
            What::RunBegan { basis, first } => self.run_began(by, at, basis, first),
            What::RunReported(report) => {
                let call = self.call(by);
                call.report = Some(report);
                call.unreported &= report != Reported::Failed;
            }
            What::Followed {
                until,
                leader,
                deadline,
            } => {
                self.breaks_if(Promise::Stuck, until.get() > leader.get() + 1);
                let too_long = deadline.is_some_and(|deadline| until > deadline);
                self.breaks_if(Promise::WaitsTooLong, too_long);
            }
            What::Responded(given) => self.responded(by, at, given),
            What::StagedEnded { applied } => {
                let was = self.of(by).staged_in.is_some();
                self.breaks_if(Promise::StagedAlone, applied && !was);
                self.breaks_if(Promise::RejectedThoughApplied, was && !applied);
                self.call(by).not_applied |= !applied;
            }
            What::Refused(refusal) => self.refused(by, at, refusal),
            What::Kept => {
                let runs = self.lease_of(by).is_some_and(|end| end >= at);
                self.breaks_if(Promise::KeptInProgress, runs && self.terms(by).holds);
            }
            What::Calmed => self.calm = true,
        }
    }

    /// Checks a claim: it may only replace a record whose window has ended, or a claim whose lease has expired, by its clock.
    fn claimed(
        &mut self,
        by: CallNumber,
        at: EpochMillis,
        replaces: bool,
        until: Option<EpochMillis>,
        expires: Option<EpochSeconds>,
    ) {
        let terms = self.terms(by);
        if let Some(record) = self.record {
            let expired = has_ended(record.expires, at);
            let anothers = record.by.is_some_and(|holder| holder != by);
            let runs = record.until.is_some_and(|end| end >= at);
            if record.completed && expired {
                self.window += 1;
                self.forget();
            } else if record.completed {
                self.breaks(Promise::LateOwner);
            } else if anothers {
                self.breaks_if(Promise::LateOwner, runs);
                self.breaks_if(Promise::HoldTakesOver, terms.holds);
            }
            if expired && replaces {
                self.steps.clear();
                self.undo_by = None;
            }
        }
        if terms.unfenced {
            self.forget();
        } else {
            self.check_lease(by, at, until);
        }
        if terms.steps == Steps::Off {
            self.steps.clear();
        }
        let after_unreported = self.calls.iter().any(|call| call.unreported);
        let recorded = (0..)
            .zip(&self.steps)
            .filter(|(_, it)| it.recorded.is_some());
        let known = recorded.fold(0, |known, (step, _)| known | bit(step));
        let undone = (0..).zip(&self.steps).filter(|(_, it)| it.undo_recorded);
        let undone = undone.fold(0, |undone, (step, _)| undone | bit(step));
        let undoes = self.undo_by.map(|of| (self.window, of));
        let call = self.call(by);
        (call.known, call.after_unreported) = (known, after_unreported);
        call.known_undone = undone;
        call.undoes = undoes;
        call.evicted_in = None;
        self.record = Some(Stored {
            completed: false,
            by: Some(by),
            until,
            expires,
        });
    }

    /// Checks a renewal: it must not end the lease before the run expects it, and must not extend a lease that was ended.
    fn renewed(
        &mut self,
        by: CallNumber,
        at: EpochMillis,
        until: Option<EpochMillis>,
        expires: Option<EpochSeconds>,
    ) {
        self.check_holder(by);
        self.check_lease(by, at, until);
        let shorter = until < self.of(by).holds_until;
        self.breaks_if(Promise::HeldThoughGone, shorter);
        let ended = self.record.is_some_and(|claim| claim.until.is_none());
        self.breaks_if(Promise::KeptInProgress, ended && self.terms(by).holds);
        if let Some(claim) = &mut self.record {
            (claim.until, claim.expires) = (until, expires);
        }
    }

    /// Checks the end of a lease that is claimed or renewed.
    fn check_lease(&mut self, by: CallNumber, at: EpochMillis, until: Option<EpochMillis>) {
        let latest = self.terms(by).lease.map(|lease| at.plus(lease));
        let too_long = until.is_none_or(|until| latest.is_some_and(|latest| until > latest));
        self.breaks_if(Promise::Stuck, too_long);
    }

    fn released(&mut self, by: CallNumber, expires: Option<EpochSeconds>) {
        self.check_holder(by);
        if self.terms(by).steps != Steps::Keep {
            self.steps.clear();
        }
        let call = self.call(by);
        call.staged_released |= call.report == Some(Reported::Staged);
        call.holds_until = None;
        self.record = expires.and(Some(Stored::freed(expires)));
    }

    fn completed(
        &mut self,
        by: CallNumber,
        at: EpochMillis,
        expires: Option<EpochSeconds>,
        staged: bool,
    ) {
        let window_end = self.terms(by).window;
        let window_end = window_end.map(|window| at.floor_to_seconds().plus(window));
        let too_early = expires.is_some_and(|end| Some(end) < window_end);
        self.breaks_if(Promise::ShortWindow, too_early);
        // It would be replayed after its window.
        let too_late = window_end.is_some_and(|end| expires > Some(end));
        self.breaks_if(Promise::WindowExpired, too_late);
        let (call, window) = (self.of(by), self.window);
        let alone = call.report == Some(Reported::Staged) && !staged;
        self.breaks_if(Promise::StagedAlone, alone);
        if staged {
            let twice = call.staged_in.is_some() || self.has_staged_in(window);
            self.breaks_if(Promise::StagedTwice, twice);
            self.breaks_if(Promise::RejectedThoughApplied, call.not_applied);
            self.call(by).staged_in = Some(window);
        }
        if self.undo_by.is_some() || call.report == Some(Reported::Undoes) {
            let left = self
                .steps
                .iter()
                .any(|step| step.recorded.is_some() && !step.undone);
            self.breaks_if(Promise::NotUndone, left);
        }
        // A later run stores the response of the one that decided.
        let of = call.undoes.map_or(by, |(_, of)| of);
        self.call(of).stored_in = Some(window);
        self.record = Some(Stored::response(by, expires.max(window_end)));
    }

    fn decided(&mut self, by: CallNumber, at: EpochMillis, completed: bool) {
        // An earlier decision may be replaced.
        let is_free = self.record.is_some_and(|record| match record.by {
            Some(of) if record.completed => of == by,
            Some(_) => record.until.is_none_or(|end| end < at),
            None => true,
        });
        self.breaks_if(Promise::LateOwner, !is_free);
        let expires = self.record.and_then(|record| record.expires);
        let stored = if completed {
            self.call(by).stored_in = Some(self.window);
            Stored::response(by, expires)
        } else {
            // The operator says that the runs until now had no effect; of an undoing, that it goes on.
            self.window += 1;
            for step in &mut self.steps {
                step.happened = step.recorded.is_some();
            }
            Stored::freed(expires)
        };
        self.record = Some(stored);
    }

    fn step_ran(&mut self, by: CallNumber, step: u8) {
        self.breaks_if(Promise::StepAgain, self.knows(by, step));
        // A slow owner may still run.
        let decided = self.of(by).undoes.is_some();
        self.breaks_if(Promise::StepAfterUndo, decided);
        self.step(step).ran_by = Some(by);
        let again = std::mem::replace(&mut self.step(step).happened, true);
        self.breaks_if(Promise::StepTwiceUnderHold, again);
    }

    fn undo_ran(&mut self, by: CallNumber, step: u8) {
        let undoes = self.of(by).undoes;
        self.breaks_if(Promise::UndoneEarly, undoes.is_none());
        if undoes.is_none_or(|(window, _)| window != self.window) {
            return;
        }
        let mut later = self.steps.iter().skip(usize::from(step) + 1);
        let is_early = later.any(|later| later.recorded.is_some() && !later.undone);
        self.breaks_if(Promise::UndoneEarly, is_early);
        let known = self.of(by).known_undone & bit(step) != 0;
        self.breaks_if(Promise::UndoneAgain, known);
        self.step(step).undone = true;
    }

    fn run_began(&mut self, by: CallNumber, at: EpochMillis, basis: Basis, first: bool) {
        match basis {
            Basis::Nothing => self.breaks(Promise::RunWithoutClaim),
            Basis::Claim(end) => self.breaks_if(Promise::RunOnExpiredLease, end < at),
            Basis::Policy(end) => {
                self.breaks_if(Promise::RunOnExpiredLease, end.is_some_and(|end| end < at));
            }
        }
        let call = self.of(by);
        let claimed = !matches!(basis, Basis::Policy(_));
        // A run whose claim was evicted before it began is one of the window that the operator ended.
        let evicted_in = call.evicted_in.filter(|_| claimed);
        let window = evicted_in.unwrap_or(self.window);
        self.breaks_if(Promise::OneRunPerCall, call.ran_in.is_some());
        let mut ran = self.calls.iter().filter(|it| it.ran_in == Some(window));
        let may_have_run = ran.any(|call| !call.has_freed());
        self.breaks_if(Promise::SecondRunUnderHold, may_have_run);
        self.breaks_if(Promise::StagedAlone, self.has_staged_in(window));
        let unreported = first && call.after_unreported;
        self.breaks_if(Promise::FirstThoughUnreported, unreported);
        let call = self.call(by);
        call.ran_in = Some(window);
        // A run without a claim leaves no trace.
        call.unreported |= claimed && evicted_in.is_none();
    }

    fn responded(&mut self, by: CallNumber, at: EpochMillis, given: Given) {
        let Given { of, bond, expires } = given;
        self.check_wait(by, at);
        self.breaks_if(Promise::WindowExpired, has_ended(expires, at));
        self.breaks_if(Promise::AnotherPayload, !self.is_like(by, of));
        let ran = self.of(of);
        let alone = ran.report == Some(Reported::Staged) && ran.staged_in.is_none();
        self.breaks_if(Promise::StagedAlone, alone);
        if bond == Bond::None {
            return;
        }
        let lost = bond == Bond::Stored && ran.stored_in.is_none();
        self.breaks_if(Promise::StoredResponse, lost);
        let window = ran.stored_in.unwrap_or(self.window);
        let calls = self.calls.iter().enumerate();
        let mut given = calls.filter(|(_, call)| call.given_in == Some(window));
        let differs = given.any(|(other, _)| other != usize::from(of));
        self.breaks_if(Promise::OneResponse, differs);
        self.call(of).given_in = Some(window);
    }

    fn refused(&mut self, by: CallNumber, at: EpochMillis, refusal: Refused) {
        let (kind, met) = (refusal.kind, refusal.met);
        self.check_wait(by, at);
        let in_progress = kind == Some(ErrorKind::AlreadyInProgress);
        if in_progress || kind == Some(ErrorKind::Unresolved) {
            self.breaks_if(Promise::OwnWriteInProgress, met == Met::Own);
        }
        if in_progress && met != Met::Own {
            let late = matches!(met, Met::Leader(end) if end < at);
            self.breaks_if(Promise::Stuck, late);
            let others = || self.others(by);
            if others().next().is_none() {
                self.breaks(Promise::OwnWriteInProgress);
            } else if !others().any(|other| self.is_like(by, other)) {
                self.breaks(Promise::OtherPayloadInProgress);
            }
        }
        let unserved = [
            ErrorKind::StoreFailed,
            ErrorKind::Contended,
            ErrorKind::NoTimeLeft,
        ];
        let unserved = kind.is_some_and(|kind| unserved.contains(&kind));
        self.breaks_if(Promise::ClaimLeftBehind, unserved && refusal.claim_left);
        let of_a_free_key = [
            ErrorKind::PayloadMismatch,
            ErrorKind::StoreFailed,
            ErrorKind::CompletionUnknown,
            ErrorKind::NoTimeLeft,
            ErrorKind::LostOwnership,
            ErrorKind::StepNotRecorded,
            ErrorKind::StepNotUndone,
            ErrorKind::StepNoTimeLeft,
        ];
        let is_free = kind.is_some_and(|kind| of_a_free_key.contains(&kind));
        self.breaks_if(Promise::Stuck, self.calm && !is_free);
    }

    fn check_wait(&mut self, by: CallNumber, at: EpochMillis) {
        let call = self.of(by);
        let answer_by = call.terms.and_then(|terms| terms.answer_by);
        let too_late = call.ran_in.is_none() && answer_by.is_some_and(|latest| at > latest);
        self.breaks_if(Promise::WaitsTooLong, too_late);
    }

    /// Checks a write after the claim: its call must hold the claim.
    fn check_holder(&mut self, by: CallNumber) {
        let may_write = self.holds(by) || self.terms(by).unfenced;
        self.breaks_if(Promise::LateOwner, !may_write);
    }

    /// Returns true if the record is a claim of this framework whose lease runs.
    fn is_live(&self, record: Stored, at: EpochMillis) -> bool {
        let ours = record.by.is_some_and(|by| !self.terms(by).unfenced);
        ours && !record.completed && record.until.is_some_and(|end| end >= at)
    }

    fn holds(&self, call: CallNumber) -> bool {
        let record = self.record.as_ref();
        record.is_some_and(|record| !record.completed && record.by == Some(call))
    }

    fn breaks(&mut self, promise: Promise) {
        if self.checked.has(promise) {
            self.broken = self.broken.with(promise);
        }
    }

    fn breaks_if(&mut self, promise: Promise, is_broken: bool) {
        if is_broken {
            self.breaks(promise);
        }
    }

    fn of(&self, call: CallNumber) -> Call {
        let known = self.calls.get(usize::from(call));
        known.copied().unwrap_or_default()
    }

    fn terms(&self, call: CallNumber) -> Terms {
        self.of(call).terms.unwrap_or_default()
    }

    fn call(&mut self, call: CallNumber) -> &mut Call {
        let call = usize::from(call);
        if self.calls.len() <= call {
            self.calls.resize(call + 1, Call::default());
        }
        &mut self.calls[call]
    }

    fn step(&mut self, step: u8) -> &mut Step {
        let step = usize::from(step);
        if self.steps.len() <= step {
            self.steps.resize(step + 1, Step::default());
        }
        &mut self.steps[step]
    }

    /// Returns true if this step was recorded before this call claimed.
    fn knows(&self, call: CallNumber, step: u8) -> bool {
        self.of(call).known & bit(step) != 0
    }

    /// Returns the other calls that were made.
    fn others(&self, call: CallNumber) -> impl Iterator<Item = CallNumber> {
        let called = (0..).zip(&self.calls);
        let called = called.filter(move |(other, it)| *other != call && it.terms.is_some());
        called.map(|(other, _)| other)
    }

    /// Returns true if a call accepts what another call made of its payload.
    fn is_like(&self, call: CallNumber, other: CallNumber) -> bool {
        let payload = self.terms(call).payload;
        payload.is_none() || payload == self.terms(other).payload
    }

    fn has_staged_in(&self, window: u16) -> bool {
        self.calls.iter().any(|call| call.staged_in == Some(window))
    }

    /// Forgets what a later call need not know: the window has ended, or the record was replaced without it.
    fn forget(&mut self) {
        self.steps.clear();
        self.undo_by = None;
        for call in &mut self.calls {
            call.unreported = false;
        }
    }
}

impl Stored {
    const fn freed(expires: Option<EpochSeconds>) -> Self {
        let (completed, by, until) = (false, None, None);
        Self {
            completed,
            by,
            until,
            expires,
        }
    }

    const fn response(by: CallNumber, expires: Option<EpochSeconds>) -> Self {
        let (completed, by, until) = (true, Some(by), None);
        Self {
            completed,
            by,
            until,
            expires,
        }
    }
}

impl Call {
    /// Returns true if the key may run again after the run of this call, also under `hold`.
    fn has_freed(&self) -> bool {
        match self.report {
            Some(Reported::Failed | Reported::NotStored) => true,
            Some(Reported::Staged | Reported::Undoes) => self.staged_released,
            None => false,
        }
    }
}

/// Returns the bit of a step. None is known of a step after the thirty-second.
fn bit(step: u8) -> u32 {
    1_u32.checked_shl(step.into()).unwrap_or(0)
}

fn has_ended(expires: Option<EpochSeconds>, at: EpochMillis) -> bool {
    expires.is_some_and(|end| end < at.floor_to_seconds())
}
