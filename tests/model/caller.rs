//! A call: steps the production protocol as the engine does, and records what the properties need.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::{
    Admission, Attempt, CallEnd, CallTerms, ClaimEnd, Effect, HandlerEnd, HandlerResult, Input,
    Lease, Refusal, RefusalDetail, Resolution, Run, Source, Stage, StepEnd, StoreLimits, Write,
    WriteResult,
};
use idempotency_core::record::{OwnerToken, Record};
use idempotency_core::time::EpochMillis;

use super::bounds::{Delivery, Ending};
use super::choices::poll;
use super::promises::Promise;
use super::rules::CallView;
use super::scenario::Scenario;
use super::state::{
    Active, End, Ghost, NEVER, Phase, Python, Reply, Returned, Shared, State, TimedRequest,
};
use super::table::{in_progress, key, number_of, response_of, takes_over, too_large_response_of};

impl Scenario {
    pub(crate) fn begin(
        &self,
        delivery: &Delivery,
        number: u8,
        now: EpochMillis,
    ) -> (Attempt, Effect) {
        let length = self.bounds.duration(delivery.lease);
        let deadline = delivery.deadline.then(|| now.plus(length));
        Attempt::begin(CallTerms {
            id: key(),
            owner: OwnerToken::from_bytes([number; 16]),
            validation: delivery.payload.map(str::to_owned),
            deadline,
            lease: deadline.map_or(Lease::For(length), Lease::Until),
            operation: None,
            event: None,
            policy: delivery.policy(&self.bounds),
            limits: StoreLimits::NONE,
        })
    }

    /// Ends the handler.
    pub(crate) fn end(&self, state: &mut State, number: u8, active: Active, ending: Ending) {
        let unclaimed = Effect::RunUnprotected {
            maybe_claimed: false,
        };
        // Without any claim nothing can be staged.
        let ending = if ending.stages() && *active.asked.effect == unclaimed {
            Ending::Responds
        } else {
            ending
        };
        state.calls[usize::from(number)].trace.ending = Some(ending);
        let result = match ending {
            Ending::Responds | Ending::Stages => HandlerResult::Returned(response_of(number)),
            Ending::RespondsTooLarge | Ending::StagesTooLarge => {
                HandlerResult::Returned(too_large_response_of(number))
            }
            Ending::RespondsWithoutJson => HandlerResult::NotSerializable,
            Ending::RespondsUnreadably => HandlerResult::NotDeserializable,
            Ending::RespondsUnstored => HandlerResult::NotStored,
            Ending::Fails => HandlerResult::Failed("E".to_owned()),
            Ending::FailsUnreported => HandlerResult::Unreported("E".to_owned()),
            Ending::Panics => HandlerResult::Panicked,
        };
        let steps = active.steps.as_ref().and_then(|run| run.end());
        if ending.reports() && matches!(steps, None | Some(StepEnd::Recorded)) {
            state.unreported &= !(1 << number);
        }
        let ended = Input::HandlerEnded(HandlerEnd {
            result,
            steps,
            staged: ending.stages(),
            refused: false,
        });
        self.receive(state, number, active, Reply::of(ended));
    }

    /// Gives a call the reply to its request, and steps it until its next request.
    pub(crate) fn receive(&self, state: &mut State, number: u8, mut active: Active, reply: Reply) {
        if active.steps.as_ref().is_some_and(|run| run.is_recording()) {
            self.receive_of_step(state, number, active, reply);
            return;
        }
        let now = self.time(state, active.skew);
        let Reply { mut input, ghost } = reply;
        let begun = active.attempt.clone();
        let call = begun.call();
        let mut attempt = (*begun).clone();
        if matches!(input, Input::Written(WriteResult::Rejected { .. })) {
            state.calls[usize::from(number)].trace.rejected = true;
        }
        active.maybe_applied = false;
        active.polled = None;
        let failed = matches!(
            input,
            Input::ReadFailed | Input::Written(WriteResult::Failed { .. })
        );
        loop {
            let mut view = CallView {
                call,
                now,
                ran: state.calls[usize::from(number)].trace.ran_in != NEVER,
                claims: active.claims,
                releases: releases(&active.asked.effect),
            };
            let failed_to_read = input == Input::ReadFailed;
            self.note(state, number, &input);
            if let Some(steps) = (self.rules.remembers)(&input) {
                active.seen = Some(Shared::new(steps));
            }
            (self.rules.receives)(&mut view, &mut input);
            let (next, mut effect) = attempt.step(view.now, input);
            attempt = next;
            if self.bounds.deliveries[usize::from(number)].in_one_process {
                active.flight = attempt.in_flight().or(active.flight);
            }
            view.now = now;
            (self.rules.requests)(view, &mut effect);
            active.claims += u8::from(self.rules.counts_claims && is_claim(&effect));
            match effect {
                Effect::Pause(_) => {
                    // The pause needs no step: the next request can be served at any later time.
                    if !view.ran {
                        active.polled = Some(poll(state));
                        let trace = &mut state.calls[usize::from(number)].trace;
                        trace.waited = true;
                        trace.waited_on |= failed_to_read;
                    }
                    // Other calls of the process may follow a waiting call.
                    if view.ran || !self.bounds.deliveries[usize::from(number)].in_one_process {
                        input = Input::Paused;
                        continue;
                    }
                }
                Effect::CheckInFlight
                    if !self.bounds.deliveries[usize::from(number)].in_one_process =>
                {
                    input = Input::Local(None);
                    continue;
                }
                Effect::Finish(end) => {
                    self.share(state, number, &active, &end);
                    if !failed && self.keeps_a_lease(state, number, now, &end) {
                        self.break_promise(state, Promise::KeptInProgress);
                    }
                    self.finish(state, number, now, &ghost, end);
                    return;
                }
                Effect::AwaitLeader(at_most) => self.follow(state, number, now, &active, at_most),
                Effect::Run => {
                    self.run(state, number, now, &ghost, attempt.run());
                    if self.bounds.deliveries[usize::from(number)].has_steps() {
                        let seen = active.seen.as_deref();
                        active.steps = self.steps_of_run(&attempt, seen);
                    }
                }
                Effect::RunUnprotected { .. } => self.run_unprotected(state, number),
                ref effect if releases(effect) => {
                    state.calls[usize::from(number)].trace.tried_release = true;
                }
                Effect::Write(Write::Put(ref record), _)
                | Effect::Transact(Write::Put(ref record), _)
                    if !in_progress(record) && state.stored_in[usize::from(number)] != NEVER =>
                {
                    self.break_promise(state, Promise::EvictedComesBack);
                }
                _ => {}
            }
            // Only a claim and a wait for the leader depend on the time of the request. Elsewhere it is left out, so that
            // equivalent states are merged.
            let at = match effect {
                Effect::Write(Write::Put(_), _) | Effect::AwaitLeader(_) => now,
                ref effect if takes_over(effect) => now,
                _ => EpochMillis::new(0),
            };
            if !matches!(effect, Effect::AwaitLeader(_)) {
                active.follows = None;
            }
            active.asked = TimedRequest {
                by: number,
                at,
                effect: Shared::new(effect),
            };
            active.attempt = Shared::new(attempt);
            state.calls[usize::from(number)].phase = Phase::Active(active);
            return;
        }
    }

    fn run(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        ghost: &Ghost,
        run: Option<Run>,
    ) {
        match ghost.own_lease {
            None => self.break_promise(state, Promise::RunWithoutClaim),
            Some(end) if end < now => self.break_promise(state, Promise::RunOnExpiredLease),
            Some(_) => {}
        }
        self.start_run(state, number);
        let first = run == Some(Run::First);
        if first && state.calls[usize::from(number)].trace.unreported != 0 {
            self.break_promise(state, Promise::FirstThoughUnreported);
        }
        state.unreported |= 1 << number;
        let trace = &mut state.calls[usize::from(number)].trace;
        trace.first = first;
        trace.recognised = ghost.found;
    }

    /// Runs the handler without a confirmed claim. Only a call under `run-unprotected` whose store failed, and which met no other
    /// call, keeps the promise.
    fn run_unprotected(&self, state: &mut State, number: u8) {
        let trace = &mut state.calls[usize::from(number)].trace;
        trace.unprotected = true;
        if !trace.store_failed || trace.met {
            self.break_promise(state, Promise::RunWithoutClaim);
        }
        self.start_run(state, number);
    }

    /// Notes what a call that may run unprotected learns of the store and of other calls.
    fn note(&self, state: &mut State, number: u8, input: &Input) {
        let delivery = &self.bounds.deliveries[usize::from(number)];
        let trace = &mut state.calls[usize::from(number)].trace;
        if !delivery.may_run_unprotected() || trace.ran_in != NEVER {
            return;
        }
        match input {
            Input::Written(WriteResult::Failed { .. }) | Input::Circuit(Admission::Open { .. }) => {
                trace.store_failed = true
            }
            Input::Written(WriteResult::ConditionFailed { .. }) => trace.met = true,
            Input::LeaderProgress(leader) if leader.stage != Stage::Claiming => trace.met = true,
            _ => {}
        }
    }

    /// Lets a call ask the circuit breaker.
    pub(crate) fn ask_circuit(&self, state: &mut State, number: u8, active: Active, open: bool) {
        let admission = if open {
            Admission::Open {
                until: self.time(state, active.skew),
            }
        } else {
            Admission::Admitted
        };
        self.receive(state, number, active, Reply::of(Input::Circuit(admission)));
    }

    fn start_run(&self, state: &mut State, number: u8) {
        if state.calls[usize::from(number)].trace.ran_in != NEVER {
            self.break_promise(state, Promise::OneRunPerCall);
        }
        let may_have_run = state.calls.iter().any(|call| {
            call.trace.ran_in == state.generation
                && !call.trace.ending.is_some_and(Ending::frees)
                && !call.trace.rejection_released
        });
        if may_have_run {
            self.break_promise(state, Promise::SecondRunUnderHold);
        }
        let generation = state.generation;
        if state.staged_in.contains(&generation) {
            self.break_promise(state, Promise::StagedAlone);
        }
        state.calls[usize::from(number)].trace.ran_in = generation;
    }

    fn finish(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        ghost: &Ghost,
        ended: CallEnd,
    ) {
        let refused = ended.error_kind();
        let own_write = matches!(
            refused,
            Some(ErrorKind::AlreadyInProgress | ErrorKind::Unresolved)
        ) && ghost.own_lease.is_some();
        if own_write {
            self.break_promise(state, Promise::OwnWriteInProgress);
        }
        if refused == Some(ErrorKind::AlreadyInProgress) {
            if ghost.late_leader {
                self.break_promise(state, Promise::Stuck);
            }
            if self.is_alone(state, number) {
                self.break_promise(state, Promise::OtherPayloadInProgress);
            }
        }
        if let Resolution::Replay { record, .. } = &ended.resolution
            && record.expiration.value() < Some(&now.floor_to_seconds())
        {
            self.break_promise(state, Promise::WindowExpired);
        }
        if self.leaves_a_claim(state, number, refused) {
            self.break_promise(state, Promise::ClaimLeftBehind);
        }
        self.remember(state, number, &ended);
        let whose = |record: &Record| record.data.value().map(number_of);
        let (end, response) = match &ended.resolution {
            Resolution::Own(Some(record)) => (End::Executed, whose(record)),
            Resolution::Own(None) => match ended.claim {
                Some(ClaimEnd::CompletedWithoutResponse) => (End::OwnCallerOnly, Some(number)),
                // A response that is not stored does not have to agree with others.
                Some(ClaimEnd::Released) => (End::Released, None),
                Some(ClaimEnd::NotReleased) => (End::NotReleased, None),
                Some(ClaimEnd::Kept) => (End::Kept, None),
                None => (End::Unprotected, None),
                Some(other) => panic!("no response is stored, and the claim ended as {other:?}"),
            },
            Resolution::Replay { record, source } => {
                let whose = whose(record);
                let end = match source {
                    Source::Store => End::FromStore,
                    Source::Cache => End::FromCache,
                    Source::ConcurrentCall => End::FromConcurrentCall,
                    _ if whose == Some(number) => End::OwnCompletionFound,
                    _ => End::WinnersResponse,
                };
                (end, whose)
            }
            Resolution::Refuse(refusal) => {
                let refusal = without_time(refusal.clone());
                (End::Refused(refusal, ended.claim, ended.staged), None)
            }
        };
        if response.is_some_and(|response| !self.same_payload(number, response)) {
            self.break_promise(state, Promise::AnotherPayload);
        }
        let returned = Returned(response.map(|response| {
            let generation = state.stored_in[usize::from(response)];
            (
                response,
                if generation == NEVER {
                    state.generation
                } else {
                    generation
                },
            )
        }));
        self.check_returned(state, returned);
        self.check_staged_end(state, number, &ended);
        state.calls[usize::from(number)].phase = Phase::Ended(end, returned);
    }

    /// Returns true if a call under `hold` whose run has ended leaves its claim in progress.
    fn keeps_a_lease(&self, state: &State, number: u8, now: EpochMillis, end: &CallEnd) -> bool {
        let is_kept = end.claim == Some(ClaimEnd::Kept)
            || end.error_kind() == Some(ErrorKind::CompletionUnknown);
        let runs = |record: &Record| {
            in_progress(record)
                && !record.failure.exists()
                && record.in_progress_expiration.value() >= Some(&now)
        };
        self.bounds.deliveries[usize::from(number)].holds()
            && is_kept
            && state.holder == number
            && state.record.as_deref().is_some_and(runs)
    }

    /// Checks that all responses returned within one window are the same.
    pub(crate) fn check_returned(&self, state: &mut State, Returned(returned): Returned) {
        let Some((response, generation)) = returned else {
            return;
        };
        let differs = |Returned(other): &Returned| {
            other.is_some_and(|(other, window)| window == generation && other != response)
        };
        let calls = state.calls.iter().any(|call| match &call.phase {
            Phase::Ended(_, returned) => differs(returned),
            _ => false,
        });
        let python = matches!(&state.python, Python::Ended(returned) if differs(returned));
        if calls || python {
            self.break_promise(state, Promise::OneResponse);
        }
    }

    pub(crate) fn same_payload(&self, number: u8, response: u8) -> bool {
        let mine = self.bounds.deliveries[usize::from(number)].payload;
        let theirs = match self.bounds.deliveries.get(usize::from(response)) {
            Some(delivery) => delivery.payload.map(str::to_owned),
            None => self.python_validation().value().cloned(),
        };
        mine.is_none_or(|mine| theirs.as_deref() == Some(mine))
    }

    /// Caches a confirmed response, unless it came from the cache, as the engine does.
    fn remember(&self, state: &mut State, number: u8, end: &CallEnd) {
        let from_cache = matches!(
            end.resolution,
            Resolution::Replay {
                source: Source::Cache,
                ..
            }
        );
        if let Some(record) = end.confirmed_record()
            && !from_cache
            && self.bounds.deliveries[usize::from(number)].cached
        {
            state.cache = Some(Shared::new(record.clone()));
        }
    }
}

fn is_claim(effect: &Effect) -> bool {
    matches!(effect, Effect::Write(Write::Put(record), _) if in_progress(record))
        || takes_over(effect)
}

/// Returns true if this is a release: it deletes the record, or leaves a failure in it.
pub(crate) fn releases(effect: &Effect) -> bool {
    match effect {
        Effect::Write(Write::Delete, _) => true,
        Effect::Write(Write::Update(change), _) => change.set.failure.exists(),
        _ => false,
    }
}

/// Removes the time at which another call's lease or an open circuit ends, so that equivalent states are merged.
fn without_time(mut refusal: Refusal) -> Refusal {
    if let Some(RefusalDetail::LeaseEnd(_) | RefusalDetail::CircuitOpen(_)) = refusal.detail {
        refusal.detail = None;
    }
    refusal
}
