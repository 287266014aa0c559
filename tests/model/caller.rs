//! A call: steps the production protocol as the engine does, and records what the properties need.

use std::time::Duration;

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::{
    Admission, Attempt, CallEnd, CallTerms, ClaimEnd, Effect, HandlerEnd, HandlerResult, Input,
    Lease, Refusal, RefusalDetail, Resolution, Run, Source, Stage, StagedEnd, StepEnd, StoreLimits,
    Write, WriteResult,
};
use idempotency_core::record::{OwnerToken, Record};
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::{self, Basis, Bond, Given, Met, What};

use super::bounds::{Delivery, Ending};
use super::choices::poll;
use super::rules::CallView;
use super::scenario::Scenario;
use super::state::{Active, End, Ghost, Phase, Reply, Returned, Shared, State, TimedRequest};
use super::table::{
    claims, completes, in_progress, key, number_of, releases, response_of, too_large_response_of,
};

impl Scenario {
    pub(crate) fn begin(
        &self,
        delivery: &Delivery,
        number: u8,
        now: EpochMillis,
    ) -> (Attempt, Effect) {
        let length = self.bounds.duration(delivery.lease);
        let deadline = delivery.deadline.then(|| now.plus(length));
        let without_deadline = delivery.renews_at_most.map_or(Lease::For(length), |ticks| {
            let at_most = self.bounds.duration(ticks);
            Lease::Renewed { length, at_most }
        });
        Attempt::begin(CallTerms {
            id: key(),
            owner: OwnerToken::from_bytes([number; 16]),
            validation: delivery.payload.map(str::to_owned),
            deadline,
            lease: deadline.map_or(without_deadline, Lease::Until),
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
        let delivery = &self.bounds.deliveries[usize::from(number)];
        state.calls[usize::from(number)].trace.ending = Some(ending);
        let result = match ending {
            Ending::Responds | Ending::Stages | Ending::Commits | Ending::Undoes => {
                HandlerResult::Returned(response_of(number))
            }
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
        let recorded = matches!(steps, None | Some(StepEnd::Recorded));
        // The end of a run that only undoes does not count.
        let counts = !active.attempt.undoes();
        if let Some(report) = ending.report(recorded).filter(|_| counts) {
            let now = self.time(state, active.skew);
            state.see(number, now, What::RunReported(report));
        }
        let ended = Input::HandlerEnded(HandlerEnd {
            result,
            steps,
            staged: ending.writes(),
            refused: false,
            window: delivery.asked_s.map(Duration::from_secs),
            undo: active.steps.as_ref().and_then(|run| run.undo(ending)),
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
        let ended = matches!(input, Input::HandlerEnded(_) | Input::Undone(_));
        if ended {
            active.renewal = None;
        }
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
                ran: state.ran_in(number).is_some(),
                claims: active.claims,
                releases: releases(&active.asked.effect),
                renews: false,
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
            active.claims += u8::from(self.rules.counts_claims && claims(&effect));
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
                    let kept = end.claim == Some(ClaimEnd::Kept)
                        || end.error_kind() == Some(ErrorKind::CompletionUnknown);
                    if kept && !failed {
                        state.see(number, now, What::Kept);
                    }
                    self.finish(state, number, now, &ghost, end);
                    return;
                }
                Effect::AwaitLeader(at_most) => self.follow(state, number, now, &active, at_most),
                Effect::Run => {
                    self.run(state, number, now, &ghost, attempt.run());
                    self.begin_renewals(state, number, now, &mut active, &attempt);
                    if self.bounds.deliveries[usize::from(number)].has_steps() {
                        let seen = active.seen.as_deref();
                        active.steps = self.steps_of_run(&attempt, seen);
                    }
                }
                Effect::Undo(_) => self.begin_renewals(state, number, now, &mut active, &attempt),
                Effect::RunUnprotected { .. } => {
                    // A look into the process takes no time, but here time may pass in it.
                    let near = self.bounds.deliveries[usize::from(number)].in_one_process;
                    let deadline = call.deadline.filter(|_| !near);
                    self.run_unprotected(state, number, now, deadline);
                }
                ref effect if releases(effect) => {
                    state.calls[usize::from(number)].trace.tried_release = true;
                }
                Effect::Write(Write::Put(ref record), _)
                | Effect::Transact(Write::Put(ref record), _)
                    if !in_progress(record) =>
                {
                    state.see(number, now, What::Restores);
                }
                _ => {}
            }
            // Only a claim and a wait for the leader depend on the time of the request, and the window of a response on the second
            // in which its run ended. Elsewhere the time is left out, so that equivalent states are merged.
            let at = match effect {
                Effect::AwaitLeader(_) => now,
                ref effect if claims(effect) => now,
                // The end of the last undo is the end of a run that undoes.
                ref effect
                    if completes(effect)
                        && (ended || matches!(*active.asked.effect, Effect::Undo(_))) =>
                {
                    EpochMillis::new(now.floor_to_seconds().get() * 1_000)
                }
                // It may be sent again, also after a read that finds no record.
                ref effect if completes(effect) => active.asked.at,
                Effect::Read(_) if completes(&active.asked.effect) => active.asked.at,
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
        let basis = ghost.own_lease.map_or(Basis::Nothing, Basis::Claim);
        let first = run == Some(Run::First);
        state.see(number, now, What::RunBegan { basis, first });
        let trace = &mut state.calls[usize::from(number)].trace;
        trace.first = first;
        trace.recognised = ghost.found;
    }

    /// Runs the handler without a confirmed claim. Only a call under `run-unprotected` whose store failed, and which met no other
    /// call, keeps the promise.
    fn run_unprotected(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        deadline: Option<EpochMillis>,
    ) {
        let trace = &mut state.calls[usize::from(number)].trace;
        trace.unprotected = true;
        let basis = if trace.store_failed && !trace.met {
            Basis::Policy(deadline)
        } else {
            Basis::Nothing
        };
        let first = false;
        state.see(number, now, What::RunBegan { basis, first });
    }

    /// Notes what a call that may run unprotected learns of the store and of other calls.
    fn note(&self, state: &mut State, number: u8, input: &Input) {
        let delivery = &self.bounds.deliveries[usize::from(number)];
        if !delivery.may_run_unprotected() || state.ran_in(number).is_some() {
            return;
        }
        let trace = &mut state.calls[usize::from(number)].trace;
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

    fn finish(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        ghost: &Ghost,
        ended: CallEnd,
    ) {
        self.staged_ended(state, number, now, &ended);
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
        let result = match (response, ended.error_kind()) {
            (Some(of), _) => Some(What::Responded(Given {
                of: of.into(),
                bond: match ended.claim {
                    Some(ClaimEnd::CompletedWithoutResponse) => Bond::Completed,
                    _ => Bond::Stored,
                },
                expires: match &ended.resolution {
                    // A call that has just stored it itself gets it as one that ran.
                    Resolution::Replay { record, .. } if ended.claim.is_none() => {
                        record.expiration.value().copied()
                    }
                    _ => None,
                },
            })),
            (None, None) => None,
            (None, kind) => Some(What::Refused(history::Refused {
                kind,
                met: match (ghost.own_lease, ghost.leader) {
                    (Some(_), _) => Met::Own,
                    (None, Some(end)) => Met::Leader(end),
                    (None, None) => Met::Unknown,
                },
                claim_left: self.leaves_a_claim(state, number),
            })),
        };
        if let Some(result) = result {
            state.see(number, now, result);
        }
        let history = &state.history;
        let window = |of: u8| history.stored_in(of.into()).unwrap_or(history.window());
        let returned = Returned(response.map(|of| (of, window(of))));
        state.calls[usize::from(number)].phase = Phase::Ended(end, returned);
    }

    /// Notes what the end of a call says of its staged writes: whether they were applied, if that is known.
    fn staged_ended(&self, state: &mut State, number: u8, now: EpochMillis, end: &CallEnd) {
        let trace = &state.calls[usize::from(number)].trace;
        if !trace.ending.is_some_and(Ending::stages) {
            return;
        }
        let own = match &end.resolution {
            Resolution::Own(Some(_)) => true,
            Resolution::Own(None) => matches!(
                end.claim,
                Some(ClaimEnd::Completed | ClaimEnd::CompletedWithoutResponse) | None
            ),
            Resolution::Replay { .. } | Resolution::Refuse(_) => false,
        };
        if own || end.staged == Some(StagedEnd::Applied) {
            state.see(number, now, What::StagedEnded { applied: true });
        }
        if matches!(end.staged, Some(StagedEnd::Rejected | StagedEnd::Dropped)) {
            state.see(number, now, What::StagedEnded { applied: false });
        }
        assert!(
            end.staged.is_some(),
            "the end says nothing of staged writes"
        );
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

/// Removes the time at which another call's lease or an open circuit ends, so that equivalent states are merged.
fn without_time(mut refusal: Refusal) -> Refusal {
    if let Some(RefusalDetail::LeaseEnd(_) | RefusalDetail::CircuitOpen(_)) = refusal.detail {
        refusal.detail = None;
    }
    refusal
}
