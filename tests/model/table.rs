//! The table: the memory store, which is the reference for all stores, and what each applied write does.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::protocol::policy::{Policy, Steps};
use idempotency_core::protocol::{
    Attempt, CallTerms, Commits, Effect, Input, Lease, Undoing, WriteErrorKind, WriteResult,
};
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{
    self, Change, LedgerEntry, MemoryStore, MemoryWrites, RecordWrite, SendLog, Staged, Store,
    StoreLimits, StoreRequest, TransactionRequest, Write,
};
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::{Bond, Given, Refused, Terms, What};

use super::bounds::Ending;
use super::scenario::Scenario;
use super::state::{Call, Ghost, Phase, Python, Reply, Shared, State, TimedRequest, Trace};
use super::steps::NAMES;

/// What was computed before. Most writes, and most claims that they leave, are those of other states too.
#[derive(Default)]
pub(crate) struct Known {
    writes: Mutex<HashMap<Asked, Written>>,
    /// Whether a claim comes free.
    free: Mutex<HashMap<Shared<Record>, bool>>,
}

/// The record that the table holds, the business data, and a write.
type Asked = (Option<Shared<Record>>, u8, Shared<Effect>);

/// What the store does with a write: its reply, and the record and the business data afterwards.
type Written = (WriteResult, Option<Shared<Record>>, u8);

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
    let data = match effect {
        Effect::Write(Write::Put(record), _) | Effect::Transact(Write::Put(record), _) => {
            &record.data
        }
        Effect::Write(Write::Update(change), _) | Effect::Transact(Write::Update(change), _) => {
            &change.set.data
        }
        _ => return false,
    };
    data.value().is_some_and(|data| data.as_str().len() > 2)
}

/// Returns what a request does once it is applied, if it is a write.
pub(crate) fn does(effect: &Effect) -> Option<What> {
    let (Effect::Write(write, _) | Effect::Transact(write, _)) = effect else {
        return None;
    };
    let staged = matches!(effect, Effect::Transact(..));
    Some(What::of_write(write, staged, &NAMES))
}

/// Returns true if this is the transaction of a call whose handler wrote into it, which commits once.
pub(crate) fn commits_once(trace: &Trace, effect: &Effect) -> bool {
    let writes = trace.ending.and_then(Ending::writes);
    writes == Some(Commits::Once) && matches!(effect, Effect::Transact(..))
}

/// Returns true if this is a claim that puts a record, or a takeover.
pub(crate) fn claims(effect: &Effect) -> bool {
    matches!(does(effect), Some(What::Claimed { .. }))
}

/// Returns true if this stores a response.
pub(crate) fn completes(effect: &Effect) -> bool {
    matches!(does(effect), Some(What::Completed { .. }))
}

/// Returns true if this ends the lease of a claim that is kept.
pub(crate) fn ends_lease(effect: &Effect) -> bool {
    does(effect) == Some(What::LeaseEnded)
}

/// Returns true if this is a release: it deletes the record, leaves a failure in it, or stops undoing.
pub(crate) fn releases(effect: &Effect) -> bool {
    matches!(
        does(effect),
        Some(What::Released { .. } | What::UndoStopped { .. })
    )
}

pub(crate) fn in_progress(record: &Record) -> bool {
    record.status.value() == Some(&Status::InProgress)
}

/// Returns true if the steps of the record are being undone, and no operator must decide.
fn is_undoing(record: &Record) -> bool {
    let undoing = Undoing::of(record).filter(|_| record.status.value() == Some(&Status::Undoing));
    undoing.is_some_and(|undoing| !undoing.held)
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

/// Returns true if a fresh call under `rerun` runs as soon as the lease of this claim has expired.
fn comes_free(claim: &Record) -> bool {
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
    let undoing = claim.status.value() == Some(&Status::Undoing);
    let plain = undoing || runs(claim, now, fresh.clone());
    let mut with_steps = fresh;
    with_steps.policy.steps = Steps::Keep;
    plain && (claim.steps.value().is_none() || runs(claim, now, with_steps))
}

/// Returns true if a call runs over this record.
fn runs(record: &Record, now: EpochMillis, call: CallTerms) -> bool {
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

impl Known {
    fn written(&self, asked: Asked) -> Written {
        let mut writes = self.writes.lock().unwrap();
        let written = writes
            .entry(asked)
            .or_insert_with_key(|(record, funds, effect)| {
                let (written, after, left) = write_with(record.as_deref(), *funds, effect);
                (written, after.map(Shared::new), left)
            });
        written.clone()
    }

    fn comes_free(&self, claim: &Shared<Record>) -> bool {
        let mut free = self.free.lock().unwrap();
        if let Some(known) = free.get(claim) {
            return *known;
        }
        let comes_free = comes_free(claim);
        free.insert(claim.clone(), comes_free);
        comes_free
    }
}

impl Scenario {
    /// Returns the next send of a request. If the handler wrote into its transaction, only the first send has its writes.
    pub(crate) fn next_send(&self, state: &mut State, asked: &TimedRequest) -> TimedRequest {
        let mut sent = asked.clone();
        let trace = &mut state.calls[usize::from(sent.by)].trace;
        if commits_once(trace, &sent.effect)
            && std::mem::replace(&mut trace.committed, true)
            && let Effect::Transact(write, condition) = &*sent.effect
        {
            sent.effect = Shared::new(Effect::Write(write.clone(), condition.clone()));
        }
        sent
    }

    /// Applies a send, and returns the store's reply.
    pub(crate) fn apply(&self, state: &mut State, sent: &TimedRequest) -> Reply {
        let before = state.record.clone();
        if matches!(*sent.effect, Effect::Read(_)) {
            let ghost = Ghost {
                own_lease: state.history.lease_of(sent.by.into()),
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
        let asked = (before.clone(), state.funds, sent.effect.clone());
        let (written, after, funds) = self.known.written(asked);
        let trace = &state.calls[usize::from(sent.by)].trace;
        let written = match written {
            // Another transaction was first.
            WriteResult::Rejected { .. } if commits_once(trace, &sent.effect) => {
                WriteResult::Failed {
                    maybe_applied: false,
                    kind: WriteErrorKind::Conflict,
                }
            }
            written => written,
        };
        let applied = matches!(written, WriteResult::Applied { .. });
        if applied {
            state.record = after;
            state.funds = funds;
            self.applied(state, sent, before.as_deref());
            if transacts && self.bounds.tokens {
                state.tokens.push(token);
            }
        }
        let ghost = Ghost {
            own_lease: state.history.lease_of(sent.by.into()),
            found: !applied,
            ..Ghost::default()
        };
        Reply::with(Input::Written(written), ghost)
    }

    /// Notes a write that was applied over `before`.
    fn applied(&self, state: &mut State, sent: &TimedRequest, before: Option<&Record>) {
        let Some(mut what) = does(&sent.effect) else {
            return;
        };
        let Call { phase, trace, .. } = &mut state.calls[usize::from(sent.by)];
        match &mut what {
            What::Claimed { late, .. } => {
                // A reply without a claim of the call tells of none.
                let tells = |reply: &Shared<Reply>| reply.ghost.own_lease.is_some();
                *late = matches!(phase, Phase::Active(active) if active.reply.as_ref().is_some_and(tells));
                trace.after_failure = before.is_some_and(|record| record.failure.exists());
            }
            What::Completed { .. } => trace.restored |= before.is_none(),
            _ => {}
        }
        let until = |record: Option<&Record>| record?.in_progress_expiration.value().copied();
        let what = match state.record.as_deref() {
            // Faulty rules renew a lease, and leave the end of the record as it is.
            after if what == What::LeaseEnded && until(after) > until(before) => What::Renewed {
                until: until(after),
                expires: before.and_then(|record| record.expiration.value().copied()),
            },
            _ => what,
        };
        state.see(sent.by, sent.at, what);
        self.try_fresh_call(state);
    }

    /// Checks a claim: a fresh call under `rerun` runs as soon as its lease has expired.
    pub(crate) fn try_fresh_call(&self, state: &mut State) {
        let is_claim = |record: &Record| in_progress(record) || is_undoing(record);
        if state
            .record
            .as_ref()
            .is_none_or(|record| !is_claim(record) || self.known.comes_free(record))
        {
            return;
        }
        let (fresh, now) = (self.operator() + 1, self.time(state, 0));
        state.see(fresh, now, What::Calmed);
        let refusal = Refused::of(Some(ErrorKind::AlreadyInProgress));
        state.see(fresh, now, What::Refused(refusal));
    }

    /// Applies Python's claim. Returns false if it is refused.
    pub(crate) fn python_claim(&self, state: &mut State, lease: u8) -> bool {
        let now = self.time(state, 0);
        let in_progress_text = || Operand::Text("INPROGRESS".into());
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
        let what = What::of_write(&Write::Put(claim.clone()), false, &NAMES);
        let before = state.record.clone();
        let (written, after) = write(
            before.as_deref(),
            &Effect::Write(Write::Put(claim), condition),
        );
        state.see(self.python(), now, What::Called(self.python_terms()));
        if let WriteResult::Applied { .. } = written {
            state.record = after.map(Shared::new);
            state.see(self.python(), now, what);
            return true;
        }
        let response = before
            .filter(|record| !in_progress(record))
            .filter(|record| record.validation == self.python_validation())
            .and_then(|record| record.data.value().map(number_of));
        if let Some(of) = response {
            self.python_gets(state, of);
        }
        false
    }

    fn python_terms(&self) -> Terms {
        Terms {
            unfenced: true,
            lease: None,
            ..self.bounds.terms(&self.bounds.deliveries[0])
        }
    }

    fn python_gets(&self, state: &mut State, of: u8) {
        let given = Given {
            of: of.into(),
            bond: Bond::Stored,
            expires: None,
        };
        let now = self.time(state, 0);
        state.see(self.python(), now, What::Responded(given));
    }

    /// Applies Python's completion, which is unconditional.
    pub(crate) fn python_completes(&self, state: &mut State) {
        let now = self.time(state, 0);
        let window = std::time::Duration::from_secs(self.bounds.window_s);
        let change = Change {
            set: Record {
                expiration: Field::Value(now.floor_to_seconds().plus(window)),
                status: Field::Value(Status::Completed),
                data: Field::Value(response_of(self.python())),
                validation: self.python_validation(),
                ..Record::default()
            },
            remove: Vec::new(),
        };
        let always = Condition::All(Vec::new());
        let update = Write::Update(change);
        let what = What::of_write(&update, false, &NAMES);
        let (_, after) = write(state.record.as_deref(), &Effect::Write(update, always));
        state.record = after.map(Shared::new);
        state.see(self.python(), now, what);
        self.python_gets(state, self.python());
        state.python = Python::Ended;
    }

    /// Returns the payload that Python validates, which is the first call's.
    pub(crate) fn python_validation(&self) -> Field<String> {
        self.bounds.deliveries[0].payload.map(str::to_owned).into()
    }

    /// Returns true if a call has left a claim, in the store or on its way, without an attempt to release it.
    pub(crate) fn leaves_a_claim(&self, state: &State, number: u8) -> bool {
        let claim = |sent: &TimedRequest| sent.by == number && claims(&sent.effect);
        let left =
            state.history.lease_of(number.into()).is_some() || state.in_flight.iter().any(claim);
        left && !state.calls[usize::from(number)].trace.tried_release
    }
}
