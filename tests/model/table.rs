//! The table: the memory store, which is the reference for all stores, and the promises about each applied write.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::protocol::policy::{Policy, Steps};
use idempotency_core::protocol::{
    Attempt, CallTerms, Effect, Input, Lease, WriteErrorKind, WriteResult,
};
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{
    self, Change, LedgerEntry, MemoryStore, MemoryWrites, RecordWrite, SendLog, Staged, Store,
    StoreLimits, StoreRequest, TransactionRequest, Write,
};
use idempotency_core::time::EpochMillis;

use super::promises::Promise;
use super::scenario::Scenario;
use super::state::{Ghost, NO_CALL, Python, Reply, Returned, Shared, State, TimedRequest};

/// Returns the only key.
pub(crate) fn key() -> RecordId {
    RecordId::new("k")
}

/// Returns the response of the call with this number.
pub(crate) fn response_of(number: u8) -> Data {
    Data::new(number.to_string())
}

/// Returns a response of this call that the store refuses for its size.
pub(crate) fn too_large_response_of(number: u8) -> Data {
    Data::new(format!("{}", 100 + u16::from(number)))
}

/// Returns the number of the call that produced a response.
pub(crate) fn number_of(data: &Data) -> u8 {
    data.as_str().parse().unwrap_or(u8::MAX) % 100
}

pub(crate) fn is_too_large(effect: &Effect) -> bool {
    let data = set(effect).and_then(|set| set.data.value());
    data.is_some_and(|data| data.as_str().len() > 2)
}

/// Returns true if a request stores a response.
pub(crate) fn completes(effect: &Effect) -> bool {
    let status = set(effect).and_then(|set| set.status.value());
    status == Some(&Status::Completed)
}

/// Returns the attributes that a write sets.
fn set(effect: &Effect) -> Option<&Record> {
    match written(effect)? {
        Write::Put(record) => Some(record),
        Write::Update(change) => Some(&change.set),
        Write::Delete | Write::Step { .. } => None,
    }
}

/// Returns true if this is a claim that puts a record, or a takeover.
fn claims(effect: &Effect) -> bool {
    matches!(effect, Effect::Write(Write::Put(_), _)) || takes_over(effect)
}

/// Returns true if this ends the lease of a claim that is kept.
pub(crate) fn ends_lease(effect: &Effect) -> bool {
    matches!(effect, Effect::Write(Write::Update(change), _)
        if change.set.in_progress_expiration.exists() && !change.set.owner.exists() && !change.set.failure.exists())
}

/// Returns true if this is a takeover that keeps the steps.
pub(crate) fn takes_over(effect: &Effect) -> bool {
    matches!(effect, Effect::Write(Write::Update(change), _) if change.set.owner.exists())
}

pub(crate) fn in_progress(record: &Record) -> bool {
    record.status.value() == Some(&Status::InProgress)
}

/// Returns the write of the record that an effect asks for, alone or with staged writes.
pub(crate) fn written(effect: &Effect) -> Option<&Write> {
    match effect {
        Effect::Write(write, _) | Effect::Transact(write, _) => Some(write),
        _ => None,
    }
}

/// Applies a write to a table that holds `record`. Returns the result and what the table then holds.
pub(crate) fn write(record: Option<&Record>, effect: &Effect) -> (WriteResult, Option<Record>) {
    let (written, after, _) = write_with(record, 0, effect);
    (written, after)
}

/// Applies a write, alone or with staged ones. Returns also the business data that is left.
fn write_with(
    record: Option<&Record>,
    funds: u8,
    effect: &Effect,
) -> (WriteResult, Option<Record>, u8) {
    let (id, store) = (key(), MemoryStore::new());
    if let Some(record) = record {
        store.insert(id.clone(), record.clone());
    }
    store.set_balance("funds", i64::from(funds));
    let log = SendLog::new();
    let take_one = Staged::new(MemoryWrites::from([
        LedgerEntry::add("funds", -1).at_least(0)
    ]));
    let (Effect::Write(write, condition) | Effect::Transact(write, condition)) = effect else {
        panic!("{effect:?} is no write");
    };
    let record = RecordWrite {
        id: &id,
        write,
        condition,
    };
    let request = match effect {
        Effect::Transact(..) => StoreRequest::Transact(TransactionRequest {
            record: Some(record),
            staged: &take_one,
            token: "",
        }),
        _ => StoreRequest::Write(record),
    };
    let future = pin!(store.send(request, &log));
    let reply = match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => reply,
        Poll::Pending => panic!("the memory store always replies"),
    };
    let result = match reply {
        store::StoreReply::Applied {
            replaced,
            maybe_again,
        } => WriteResult::Applied {
            replaced,
            maybe_again,
        },
        store::StoreReply::ConditionFailed {
            existing,
            maybe_applied,
            ..
        } => WriteResult::ConditionFailed {
            existing,
            maybe_applied,
        },
        store::StoreReply::Rejected { maybe_applied, .. } => {
            WriteResult::Rejected { maybe_applied }
        }
        other => panic!("the memory store always replies: {other:?}"),
    };
    let left = u8::try_from(store.balance("funds")).unwrap();
    (result, store.evict(&id), left)
}

impl Scenario {
    /// Applies a send, and returns the store's reply.
    pub(crate) fn apply(&self, state: &mut State, sent: &TimedRequest) -> Reply {
        let before = state.record.clone();
        let own_claim = |state: &State| {
            let record = state
                .record
                .as_deref()
                .filter(|record| in_progress(record))?;
            let lease = record.in_progress_expiration.value().copied();
            lease.filter(|_| state.holder == sent.by)
        };
        if matches!(*sent.effect, Effect::Read(_)) {
            let ghost = Ghost {
                own_lease: own_claim(state),
                found: true,
                ..Ghost::default()
            };
            let input = Input::Read(before.map(|record| (*record).clone()));
            return Reply::with(input, ghost);
        }
        if is_too_large(&sent.effect) {
            let input = Input::Written(WriteResult::Failed {
                maybe_applied: false,
                kind: WriteErrorKind::TooLarge,
            });
            return Reply::of(input);
        }
        let token = (sent.by, sent.effect.digest());
        let transacts = matches!(*sent.effect, Effect::Transact(..));
        if transacts && state.tokens.contains(&token) {
            return Reply::of(Input::Written(WriteResult::APPLIED));
        }
        let (written, after, funds) = write_with(before.as_deref(), state.funds, &sent.effect);
        let applied = matches!(written, WriteResult::Applied { .. });
        if applied {
            state.record = after.map(Shared::new);
            state.funds = funds;
            self.applied(state, sent, before.as_deref());
            self.check_applied_write(state, sent);
            if transacts && self.bounds.tokens {
                state.tokens.push(token);
            }
        }
        let ghost = Ghost {
            own_lease: own_claim(state),
            found: !applied,
            ..Ghost::default()
        };
        Reply::with(Input::Written(written), ghost)
    }

    /// Checks a write that was applied over `before`, without reading its condition.
    fn applied(&self, state: &mut State, sent: &TimedRequest, before: Option<&Record>) {
        let held = state.holder == sent.by && before.is_some_and(in_progress);
        let number = usize::from(sent.by);
        match written(&sent.effect) {
            Some(Write::Put(record)) if in_progress(record) => {
                self.replaced(state, sent.by, sent.at, before);
                self.claimed(state, sent, held, before);
            }
            // A takeover that keeps the steps.
            Some(Write::Update(change)) if change.set.owner.exists() => {
                self.claimed(state, sent, held, before);
            }
            Some(Write::Step { name, .. }) => {
                if !held {
                    self.break_promise(state, Promise::LateOwner);
                }
                Self::recorded(state, name);
            }
            Some(Write::Put(_)) => {
                if before.is_some() {
                    self.break_promise(state, Promise::LateOwner);
                }
                state.calls[number].trace.restored = true;
                state.holder = sent.by;
                state.stored_in[number] = state.generation;
            }
            Some(Write::Update(change)) => {
                if !held {
                    self.break_promise(state, Promise::LateOwner);
                }
                if change.set.status.exists() {
                    state.holder = sent.by;
                    state.stored_in[number] = state.generation;
                } else if !ends_lease(&sent.effect) {
                    state.holder = NO_CALL;
                    self.released(state, sent.by);
                }
            }
            _ => {
                if !held {
                    self.break_promise(state, Promise::LateOwner);
                }
                state.holder = NO_CALL;
                self.released(state, sent.by);
            }
        }
        let lease = self.bounds.deliveries[number].lease;
        let latest = sent.at.plus(self.bounds.duration(lease));
        let claims = claims(&sent.effect);
        let too_long =
            |claim: &Record| claims && claim.in_progress_expiration.value() > Some(&latest);
        if let Some(record) = &state.record
            && in_progress(record)
            && (too_long(record) || !self.comes_free(record))
        {
            self.break_promise(state, Promise::Stuck);
        }
    }

    /// Checks a claim of ours, and notes its holder.
    fn claimed(&self, state: &mut State, sent: &TimedRequest, held: bool, before: Option<&Record>) {
        self.claimed_over(state, sent.at, held, before);
        let number = usize::from(sent.by);
        let holds = self.bounds.deliveries[number].holds();
        let anothers = before.filter(|record| in_progress(record) && !held);
        if holds && anothers.is_some_and(|record| !record.failure.exists()) {
            self.break_promise(state, Promise::HoldTakesOver);
        }
        state.calls[number].trace.after_failure =
            before.is_some_and(|record| record.failure.exists());
        state.calls[number].trace.unreported = state.unreported;
        state.calls[number].trace.known = state.steps.map(|step| step.recorded);
        state.holder = sent.by;
    }

    /// Checks a claim: it may only replace a record whose window has ended, or a claim whose lease has expired, by its clock.
    fn claimed_over(
        &self,
        state: &mut State,
        at: EpochMillis,
        held: bool,
        before: Option<&Record>,
    ) {
        let Some(before) = before else { return };
        let lease_expired = match before.in_progress_expiration.value() {
            Some(end) => *end < at,
            None => true,
        };
        let window_expired = before
            .expiration
            .value()
            .is_some_and(|end| *end < at.floor_to_seconds());
        if in_progress(before) {
            if !held && !lease_expired && !before.failure.exists() {
                self.break_promise(state, Promise::LateOwner);
            }
        } else if window_expired {
            state.generation += 1;
            state.unreported = 0;
        } else {
            self.break_promise(state, Promise::LateOwner);
        }
    }

    /// Notes a release. It forgets the steps, unless its call keeps them.
    fn released(&self, state: &mut State, by: u8) {
        if !self.bounds.deliveries[usize::from(by)].keeps_steps() {
            state.forget_steps();
        }
    }

    /// Returns true if a fresh call under `rerun` runs as soon as the lease of this claim has expired.
    pub(crate) fn comes_free(&self, claim: &Record) -> bool {
        let Some(lease) = claim.in_progress_expiration.value() else {
            return false;
        };
        let now = EpochMillis::new(lease.get() + 1);
        let fresh = CallTerms {
            id: key(),
            owner: OwnerToken::from_bytes([u8::MAX; 16]),
            validation: None,
            deadline: Some(now),
            lease: Lease::Until(now),
            operation: None,
            event: None,
            policy: Policy::default(),
            limits: StoreLimits::NONE,
        };
        let plain = self.runs(claim, now, fresh.clone());
        let mut with_steps = fresh;
        with_steps.policy.steps = Steps::Keep;
        plain && (claim.steps.value().is_none() || self.runs(claim, now, with_steps))
    }

    /// Returns true if a call runs over this record.
    fn runs(&self, record: &Record, now: EpochMillis, call: CallTerms) -> bool {
        let mut record = Some(record.clone());
        let (attempt, _) = Attempt::begin(call);
        let (mut attempt, mut effect) = attempt.step(now, Input::Local(None));
        loop {
            let input = match &effect {
                Effect::Write(..) => {
                    let (written, after) = write(record.as_ref(), &effect);
                    record = after;
                    Input::Written(written)
                }
                Effect::Read(_) => Input::Read(record.clone()),
                _ => return effect == Effect::Run,
            };
            (attempt, effect) = attempt.step(now, input);
        }
    }

    /// Applies Python's claim. If it is refused, returns what its caller gets instead.
    pub(crate) fn python_claim(&self, state: &mut State, lease: u8) -> Result<(), Returned> {
        let now = self.time(state, 0);
        let in_progress_text = || Operand::Text("INPROGRESS".to_owned());
        let condition = Condition::Any(vec![
            Condition::NoRecord,
            Condition::Below(
                Attribute::Expiration,
                Operand::Seconds(now.floor_to_seconds()),
            ),
            Condition::All(vec![
                Condition::Equals(Attribute::Status, in_progress_text()),
                Condition::Exists(Attribute::InProgressExpiration),
                Condition::Below(Attribute::InProgressExpiration, Operand::Millis(now)),
            ]),
        ]);
        let window = std::time::Duration::from_secs(self.bounds.window_s);
        let claim = Record {
            expiration: Field::Value(now.floor_to_seconds().plus(window)),
            in_progress_expiration: Field::Value(now.plus(self.bounds.duration(lease))),
            status: Field::Value(Status::InProgress),
            validation: self.python_validation(),
            ..Record::default()
        };
        let before = state.record.clone();
        let (written, after) = write(
            before.as_deref(),
            &Effect::Write(Write::Put(claim), condition),
        );
        match written {
            WriteResult::Applied { .. } => {
                self.claimed_over(state, now, false, before.as_deref());
                state.record = after.map(Shared::new);
                state.holder = self.python();
                // Python's claim replaces the whole record.
                state.unreported = 0;
                state.forget_steps();
                Ok(())
            }
            _ => {
                let response = before
                    .filter(|record| !in_progress(record))
                    .filter(|record| record.validation == self.python_validation())
                    .and_then(|record| record.data.value().map(number_of));
                let returned = Returned(
                    response.map(|response| (response, state.stored_in[usize::from(response)])),
                );
                self.check_returned(state, returned);
                Err(returned)
            }
        }
    }

    /// Applies Python's completion, which is unconditional.
    pub(crate) fn python_completes(&self, state: &mut State) {
        let now = self.time(state, 0).floor_to_seconds();
        let window = std::time::Duration::from_secs(self.bounds.window_s);
        let change = Change {
            set: Record {
                expiration: Field::Value(now.plus(window)),
                status: Field::Value(Status::Completed),
                data: Field::Value(response_of(self.python())),
                validation: self.python_validation(),
                ..Record::default()
            },
            remove: Vec::new(),
        };
        let always = Condition::All(Vec::new());
        let (_, after) = write(
            state.record.as_deref(),
            &Effect::Write(Write::Update(change), always),
        );
        state.record = after.map(Shared::new);
        state.holder = self.python();
        state.stored_in[usize::from(self.python())] = state.generation;
        let returned = Returned(Some((self.python(), state.generation)));
        self.check_returned(state, returned);
        state.python = Python::Ended(returned);
    }

    /// Returns the payload that Python validates, which is the first call's.
    pub(crate) fn python_validation(&self) -> Field<String> {
        self.bounds.deliveries[0].payload.map(str::to_owned).into()
    }

    /// Returns true if a call that failed before its handler left a claim behind without an attempt to release it.
    pub(crate) fn leaves_a_claim(
        &self,
        state: &State,
        number: u8,
        refused: Option<ErrorKind>,
    ) -> bool {
        let failed = matches!(
            refused,
            Some(ErrorKind::StoreFailed | ErrorKind::Contended | ErrorKind::NoTimeLeft)
        );
        let claim = |sent: &TimedRequest| sent.by == number && claims(&sent.effect);
        let left = (state.holder == number && state.record.as_deref().is_some_and(in_progress))
            || state.in_flight.iter().any(claim);
        failed && left && !state.calls[usize::from(number)].trace.tried_release
    }
}
