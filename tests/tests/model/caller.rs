//! A call: drives the production protocol as the engine does, and notes what the properties ask for.

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::Call;
use idempotency_core::protocol::{
    Attempt, Completion, Effect, HandlerResult, Input, Refusal, Resolution, Source,
};
use idempotency_core::record::Record;
use idempotency_core::time::EpochMillis;

use super::bounds::{Delivery, Ending};
use super::choices::looked;
use super::promises::Promise;
use super::rules::CallView;
use super::scenario::Scenario;
use super::shared::Shared;
use super::state::{Active, End, NEVER, Phase, Python, Reply, Returned, Seen, Sent, State};
use super::table::{in_progress, key, number_of, response_of, too_large_response_of};

impl Scenario {
    pub(crate) fn begin(
        &self,
        delivery: &Delivery,
        number: u8,
        now: EpochMillis,
    ) -> (Attempt, Effect) {
        let deadline = now.plus(self.bounds.duration(delivery.lease));
        Attempt::begin(Call {
            id: key(),
            owner: OwnerToken::from_bytes([number; 16]),
            validation: delivery.payload.map(str::to_owned),
            deadline: delivery.deadline.then_some(deadline),
            operation: None,
            policy: delivery.policy(&self.bounds),
        })
    }

    /// The handler ends.
    pub(crate) fn end(&self, state: &mut State, number: u8, active: Active, ending: Ending) {
        state.calls[usize::from(number)].trace.ending = Some(ending);
        let ran = match ending {
            Ending::Responds => HandlerResult::Returned(response_of(number)),
            Ending::RespondsTooLarge => HandlerResult::Returned(too_large_response_of(number)),
            Ending::RespondsWithoutJson => HandlerResult::NotSerializable,
            Ending::RespondsUnreadably => HandlerResult::NotDeserializable,
            Ending::RespondsUnstored => HandlerResult::NotStored,
            Ending::Fails => HandlerResult::Failed("E".to_owned()),
            Ending::Panics => HandlerResult::Panicked,
        };
        let reply = Reply {
            input: Input::HandlerDone(ran),
            seen: Seen::default(),
        };
        self.receive(state, number, active, reply);
    }

    /// A call receives what became of its request, and goes on until it asks the scenario for something again.
    pub(crate) fn receive(&self, state: &mut State, number: u8, mut active: Active, reply: Reply) {
        let now = self.time(state, active.skew);
        let Reply { mut input, seen } = reply;
        let begun = active.attempt.clone();
        let call = begun.call();
        let mut attempt = (*begun).clone();
        active.maybe_applied = false;
        active.looked = None;
        loop {
            let view = CallView {
                now,
                ran: state.calls[usize::from(number)].trace.ran_in != NEVER,
                claims: active.claims,
            };
            let failed_to_read = input == Input::ReadFailed;
            let (received_at, received) = self.rules.receives(call, view, now, input);
            let (next, effect) = attempt.step(received_at, received);
            attempt = next;
            if self.bounds.deliveries[usize::from(number)].in_one_process {
                active.flight = attempt.in_flight().or(active.flight);
            }
            let effect = self.rules.requests(call, view, effect);
            active.claims += u8::from(self.rules.counts_claims() && is_claim(&effect));
            match effect {
                Effect::Pause(_) => {
                    // Any time may pass: what is asked next can be served at any later moment.
                    if !view.ran {
                        active.looked = Some(looked(state));
                        let trace = &mut state.calls[usize::from(number)].trace;
                        trace.waited = true;
                        trace.waited_on |= failed_to_read;
                    }
                    // Others of its process may meet a call that waits.
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
                Effect::Finish(verdict) => {
                    self.land(state, number, &active, &verdict);
                    self.finish(state, number, now, &seen, verdict);
                    return;
                }
                Effect::AwaitLeader(at_most) => self.follow(state, number, now, &active, at_most),
                Effect::Run => self.run(state, number, now, &seen),
                Effect::Delete(_) => {
                    state.calls[usize::from(number)].trace.tried_release = true;
                }
                Effect::Put(ref record, _)
                    if !in_progress(record) && state.stored_in[usize::from(number)] != NEVER =>
                {
                    self.break_promise(state, Promise::EvictedComesBack);
                }
                _ => {}
            }
            // What a claim does to others, and how long a call follows, depends on when it was asked for.
            let at = match effect {
                Effect::Put(..) | Effect::AwaitLeader(_) => now,
                _ => EpochMillis::new(0),
            };
            if !matches!(effect, Effect::AwaitLeader(_)) {
                active.follows = None;
            }
            active.asked = Sent {
                by: number,
                at,
                effect: Shared::new(effect),
            };
            active.attempt = Shared::new(attempt);
            state.calls[usize::from(number)].phase = Phase::Active(active);
            return;
        }
    }

    fn run(&self, state: &mut State, number: u8, now: EpochMillis, seen: &Seen) {
        let before = state.calls[usize::from(number)].trace.ran_in;
        if before != NEVER {
            self.break_promise(state, Promise::OneRunPerCall);
        }
        match seen.own_lease {
            None => self.break_promise(state, Promise::RunWithoutClaim),
            Some(end) if end < now => self.break_promise(state, Promise::RunOnExpiredLease),
            Some(_) => {}
        }
        let may_have_run = state.calls.iter().any(|call| {
            call.trace.ran_in == state.generation && !call.trace.ending.is_some_and(Ending::frees)
        });
        if may_have_run {
            self.break_promise(state, Promise::SecondRunUnderHold);
        }
        let generation = state.generation;
        let trace = &mut state.calls[usize::from(number)].trace;
        trace.ran_in = generation;
        trace.recognised = seen.found;
    }

    fn finish(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        seen: &Seen,
        verdict: Resolution,
    ) {
        let own_write = matches!(
            verdict,
            Resolution::Refuse(Refusal::AlreadyInProgress { .. } | Refusal::Unresolved)
        ) && seen.own_lease.is_some();
        if own_write {
            self.break_promise(state, Promise::OwnWriteInProgress);
        }
        if matches!(
            verdict,
            Resolution::Refuse(Refusal::AlreadyInProgress { .. })
        ) {
            if seen.late_flight {
                self.break_promise(state, Promise::Stuck);
            }
            if self.is_alone(state, number) {
                self.break_promise(state, Promise::OtherPayloadInProgress);
            }
        }
        if let Resolution::Replay { record, .. } = &verdict
            && record.expiration.value() < Some(&now.floor_to_seconds())
        {
            self.break_promise(state, Promise::WindowExpired);
        }
        if self.leaves_a_claim(state, number, &verdict) {
            self.break_promise(state, Promise::ClaimLeftBehind);
        }
        self.remember(state, number, &verdict);
        let whose = |record: &Record| record.data.value().map(number_of);
        let (end, answer) = match verdict {
            Resolution::Own(Completion::Stored(record)) => (End::Executed, whose(&record)),
            Resolution::Own(Completion::WithoutResponse) => (End::OwnCallerOnly, Some(number)),
            // An answer that is not stored binds nobody.
            Resolution::Own(Completion::Released) => (End::Released, None),
            Resolution::Own(Completion::NotReleased) => (End::NotReleased, None),
            Resolution::Own(Completion::Kept) => (End::Kept, None),
            Resolution::Replay { record, source } => {
                let whose = whose(&record);
                let end = match source {
                    Source::Store => End::FromStore,
                    Source::Cache => End::FromCache,
                    Source::ConcurrentCall => End::FromConcurrentCall,
                    _ if whose == Some(number) => End::OwnCompletionFound,
                    _ => End::WinnersResponse,
                };
                (end, whose)
            }
            Resolution::Refuse(refusal) => (End::Refused(without_time(refusal)), None),
        };
        if answer.is_some_and(|answer| !self.same_payload(number, answer)) {
            self.break_promise(state, Promise::AnotherPayload);
        }
        let returned = Returned(answer.map(|answer| {
            let generation = state.stored_in[usize::from(answer)];
            (
                answer,
                if generation == NEVER {
                    state.generation
                } else {
                    generation
                },
            )
        }));
        self.tell(state, returned);
        state.calls[usize::from(number)].phase = Phase::Ended(end, returned);
    }

    /// A caller is returned an answer: within one window all of them must be returned the same.
    pub(crate) fn tell(&self, state: &mut State, Returned(returned): Returned) {
        let Some((answer, generation)) = returned else {
            return;
        };
        let differs = |Returned(other): &Returned| {
            other.is_some_and(|(other, window)| window == generation && other != answer)
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

    pub(crate) fn same_payload(&self, number: u8, answer: u8) -> bool {
        let mine = self.bounds.deliveries[usize::from(number)].payload;
        let theirs = match self.bounds.deliveries.get(usize::from(answer)) {
            Some(delivery) => delivery.payload.map(str::to_owned),
            None => self.python_validation().value().cloned(),
        };
        mine.is_none_or(|mine| theirs.as_deref() == Some(mine))
    }

    /// As the engine does: confirmed answers go to the cache, unless they came from there.
    fn remember(&self, state: &mut State, number: u8, verdict: &Resolution) {
        let from_cache = matches!(
            verdict,
            Resolution::Replay {
                source: Source::Cache,
                ..
            }
        );
        if let Some(record) = verdict.confirmed_record()
            && !from_cache
            && self.bounds.deliveries[usize::from(number)].cached
        {
            state.cache = Some(Shared::new(record.clone()));
        }
    }
}

fn is_claim(effect: &Effect) -> bool {
    matches!(effect, Effect::Put(record, _) if in_progress(record))
}

/// When the other's lease ends makes no two scenarios.
fn without_time(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::AlreadyInProgress { .. } => Refusal::AlreadyInProgress { until: None },
        other => other,
    }
}
