//! Transactions: a write of a record is applied together with staged writes, or with an open transaction, or nothing is, and the record
//! decides first.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::store::{RecordWrite, Staged, TransactionRequest};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::super::trial::*;

super::cases![
    a_transaction_applies_the_write_of_the_record_and_the_staged_writes,
    a_transaction_whose_record_refuses_it_applies_nothing_and_returns_the_record,
    a_transaction_with_a_staged_write_that_is_refused_applies_nothing,
    the_record_decides_before_a_staged_write,
    a_transaction_that_is_sent_again_applies_nothing,
    a_late_transaction_does_not_change_the_next_claim,
    a_transaction_without_a_record_is_applied_once_for_each_token,
    of_16_concurrent_sends_of_one_transaction_one_is_applied,
    a_transaction_whose_reply_is_lost_is_reported_as_maybe_applied,
    an_open_transaction_applies_the_write_of_the_record_and_its_own_writes,
    an_open_transaction_without_a_record_applies_its_own_writes,
    an_open_transaction_whose_record_refuses_it_applies_nothing_and_returns_the_record,
    an_open_transaction_does_not_lock_the_record,
    an_open_transaction_that_is_sent_again_applies_nothing,
    an_open_transaction_that_is_dropped_applies_nothing,
    an_open_transaction_whose_reply_is_lost_is_reported_as_maybe_applied,
];

const LIMIT: u32 = 2;

/// A repeated send arrives within this time. A store that forgets tokens sooner gets none.
const REPEATED_WITHIN: Duration = Duration::from_secs(60);

/// A claim, and a completion of it with a staged write.
struct Case<'a> {
    trial: &'a Trial,
    key: Key<'a>,
    claim: Record,
    staged: Staged,
    name: String,
}

impl<'a> Case<'a> {
    async fn new(trial: &'a Trial, name: &str) -> Check<Self> {
        let item = Self::item(trial, name);
        let staged = trial.factory.take_one(&item, LIMIT);
        let staged = staged.ok_or(Flaw::NotOffered("the factory stages no writes"))?;
        Self::with(trial, name, staged).await
    }

    /// Returns a case whose write is in an open transaction.
    async fn open(trial: &'a Trial, name: &str) -> Check<Self> {
        let item = Self::item(trial, name);
        let open = trial.factory.open_taking_one(&item);
        let open = open.ok_or(Flaw::NotOffered("the factory begins no transactions"))?;
        let open = open
            .await
            .map_err(|error| format!("no transaction was begun: {error}"))?;
        Self::with(trial, name, Staged::open(open)).await
    }

    /// Returns an id of the trial, so that the item is deleted at the end, as the record is.
    fn item(trial: &Trial, name: &str) -> String {
        trial.id(&format!("{name}-staged")).as_str().to_owned()
    }

    async fn with(trial: &'a Trial, name: &str, staged: Staged) -> Check<Self> {
        let (key, name) = (trial.key(name), Self::item(trial, name));
        let claim = claim(&owner(1), trial.at(30_000));
        key.place(&claim).await?;
        Ok(Self {
            trial,
            key,
            claim,
            staged,
            name,
        })
    }

    /// Returns a token that no other case has: databases remember them.
    fn token(&self, label: &str) -> String {
        let half = |number: u8| {
            let mut hasher = DefaultHasher::new();
            (&self.key.id, label, number).hash(&mut hasher);
            hasher.finish()
        };
        format!("{:016x}{:016x}", half(1), half(2))
    }

    fn window_end(&self) -> EpochSeconds {
        EpochSeconds::new(self.trial.second().get() + 3_600)
    }

    fn write(&self) -> Write {
        Write::Update(completion("[1]", self.window_end()))
    }

    fn completed(&self) -> Record {
        completed(&self.claim, "[1]", self.window_end())
    }

    async fn sent_by(&self, by: u8, label: &str) -> StoreReply {
        let (write, condition) = (self.write(), held_by_owner(by));
        self.send(&write, &condition, label).await
    }

    async fn send(&self, write: &Write, condition: &Condition, label: &str) -> StoreReply {
        let (store, token) = (&self.trial.store, self.token(label) + "-c");
        let id = &self.key.id;
        let record = RecordWrite {
            id,
            write,
            condition,
        };
        transacted(store, Some(record), &self.staged, &token).await
    }

    /// Applies the staged writes without a record.
    async fn applies_staged(&self, label: &str) -> Check {
        let (store, token) = (&self.trial.store, self.token(label));
        is_applied(&transacted(store, None, &self.staged, &token).await)
    }

    async fn was_taken(&self, expected: u32) -> Check {
        let taken = self.trial.factory.taken(&self.name).await;
        let taken = taken.map_err(|error| format!("the factory could not read: {error}"))?;
        if taken == expected {
            return Ok(());
        }
        broken(format!(
            "the staged write was applied {taken} times instead of {expected}"
        ))
    }

    /// Checks that a send whose reply is lost is applied, and not reported as not applied.
    async fn loses_its_reply(&self, label: &str) -> Check {
        if !self.trial.factory.lose_next_reply(StoreOperation::Transact) {
            return Err(Flaw::NotOffered("the factory loses no replies"));
        }
        match self.sent_by(1, label).await {
            // The store sent it again, and recognised the token or the record.
            StoreReply::Applied { .. }
            | StoreReply::ConditionFailed {
                maybe_applied: true,
                ..
            }
            | StoreReply::Failed {
                maybe_applied: true,
                ..
            } => {}
            other => {
                return broken(format!(
                    "a transaction was applied, but reported as not applied: {other:?}"
                ));
            }
        }
        self.key.finds(Some(&self.completed())).await?;
        self.was_taken(1).await
    }

    /// Checks that the open transaction was sent before, so that another send is not applied, and is reported as one that may have been.
    async fn is_spent(&self, label: &str) -> Check {
        match self.sent_by(1, label).await {
            StoreReply::Failed {
                maybe_applied: true,
                ..
            } => Ok(()),
            other => broken(format!(
                "an open transaction was sent before, and the outcome was {other:?}"
            )),
        }
    }

    /// Takes all that is left, so that the condition of the staged write no longer holds.
    async fn exhaust(&self) -> Check {
        for number in 0..LIMIT {
            self.applies_staged(&format!("all-{number}")).await?;
        }
        Ok(())
    }
}

/// Sends a transaction, and sends it again for as long as it conflicts with another one.
async fn transacted(
    store: &Arc<dyn Store>,
    record: Option<RecordWrite<'_>>,
    staged: &Staged,
    token: &str,
) -> StoreReply {
    let transaction = TransactionRequest {
        record,
        staged,
        token,
    };
    loop {
        let request = StoreRequest::Transact(transaction);
        match store.send(request, &SendLog::new()).await {
            StoreReply::Failed { error, .. } if error.kind() == StoreErrorKind::Conflict => {}
            outcome => return outcome,
        }
    }
}

fn is_applied(outcome: &StoreReply) -> Check {
    match outcome {
        StoreReply::Applied { .. } => Ok(()),
        other => broken(format!("a transaction was not applied: {other:?}")),
    }
}

/// Checks that the condition on the record failed, and that this record was returned.
fn is_refused(outcome: StoreReply, expected: &Record) -> Check {
    match outcome {
        StoreReply::ConditionFailed {
            existing,
            maybe_applied: false,
            ..
        } => check_existing("a transaction", existing.as_ref(), Some(expected)),
        other => broken(format!(
            "the condition on the record does not hold, and the outcome was {other:?}"
        )),
    }
}

async fn a_transaction_applies_the_write_of_the_record_and_the_staged_writes(
    trial: &Trial,
) -> Check {
    let case = Case::new(trial, "1").await?;
    is_applied(&case.sent_by(1, "t-1").await)?;
    case.key.finds(Some(&case.completed())).await?;
    case.was_taken(1).await
}

async fn a_transaction_whose_record_refuses_it_applies_nothing_and_returns_the_record(
    trial: &Trial,
) -> Check {
    let case = Case::new(trial, "1").await?;
    let refused = case.sent_by(2, "t-2").await;
    is_refused(refused, &case.claim)?;
    case.key.finds(Some(&case.claim)).await?;
    case.was_taken(0).await
}

async fn a_transaction_with_a_staged_write_that_is_refused_applies_nothing(trial: &Trial) -> Check {
    let case = Case::new(trial, "1").await?;
    case.exhaust().await?;
    match case.sent_by(1, "t-3").await {
        StoreReply::Rejected {
            rejection,
            maybe_applied: false,
        } => {
            if !rejection.write(0).is_some_and(|write| write.is_condition()) {
                return broken(format!(
                    "the condition of the first staged write failed, and the rejection is: {rejection}"
                ));
            }
        }
        other => {
            return broken(format!(
                "the condition of a staged write does not hold, and the outcome was {other:?}"
            ));
        }
    }
    case.key.finds(Some(&case.claim)).await?;
    case.was_taken(LIMIT).await
}

async fn the_record_decides_before_a_staged_write(trial: &Trial) -> Check {
    let case = Case::new(trial, "1").await?;
    case.exhaust().await?;
    let refused = case.sent_by(2, "t-4").await;
    is_refused(refused, &case.claim)?;
    case.was_taken(LIMIT).await
}

async fn a_transaction_that_is_sent_again_applies_nothing(trial: &Trial) -> Check {
    let case = Case::new(trial, "1").await?;
    is_applied(&case.sent_by(1, "t-5").await)?;
    // By its token it counts as applied; by its condition it is refused.
    match case.sent_by(1, "t-5").await {
        StoreReply::Applied { .. } => {}
        refused => is_refused(refused, &case.completed())?,
    }
    // A store forgets tokens: with another one the condition alone protects.
    let refused = case.sent_by(1, "t-6").await;
    is_refused(refused, &case.completed())?;
    case.was_taken(1).await
}

async fn a_late_transaction_does_not_change_the_next_claim(trial: &Trial) -> Check {
    let case = Case::new(trial, "1").await?;
    let next = claim(&owner(2), trial.at(60_000));
    case.key.place(&next).await?;
    let late = case.sent_by(1, "t-7").await;
    is_refused(late, &next)?;
    let restored = Write::Put(case.completed());
    let late = case.send(&restored, &NoRecord, "t-8").await;
    is_refused(late, &next)?;
    case.key.finds(Some(&next)).await?;
    case.was_taken(0).await
}

async fn a_transaction_without_a_record_is_applied_once_for_each_token(trial: &Trial) -> Check {
    let case = Case::new(trial, "1").await?;
    let sends = match trial.store.limits().token >= REPEATED_WITHIN {
        true => &[("p-1", 1), ("p-1", 1), ("p-2", 2)][..],
        false => &[("p-1", 1), ("p-2", 2)],
    };
    for &(token, taken) in sends {
        case.applies_staged(token).await?;
        case.was_taken(taken).await?;
    }
    case.key.finds(Some(&case.claim)).await
}

async fn of_16_concurrent_sends_of_one_transaction_one_is_applied(trial: &Trial) -> Check {
    let case = Case::new(trial, "1").await?;
    let barrier = Arc::new(Barrier::new(16));
    let mut sends = JoinSet::new();
    for number in 0..16 {
        let (store, barrier) = (Arc::clone(&trial.store), Arc::clone(&barrier));
        let (id, write, staged) = (case.key.id.clone(), case.write(), case.staged.clone());
        let token = case.token(&number.to_string()) + "-c";
        sends.spawn(async move {
            let record = RecordWrite {
                id: &id,
                write: &write,
                condition: &held_by_owner(1),
            };
            barrier.wait().await;
            transacted(&store, Some(record), &staged, &token).await
        });
    }
    let mut applied = 0;
    while let Some(sent) = sends.join_next().await {
        match sent {
            Ok(StoreReply::Applied { .. }) => applied += 1,
            Ok(refused) => is_refused(refused, &case.completed())?,
            Err(error) => return broken(format!("a transaction did not end: {error}")),
        }
    }
    if applied != 1 {
        return broken(format!("{applied} of the transactions were applied"));
    }
    case.was_taken(1).await
}

async fn a_transaction_whose_reply_is_lost_is_reported_as_maybe_applied(trial: &Trial) -> Check {
    let case = Case::new(trial, "1").await?;
    case.loses_its_reply("t-9").await
}

async fn an_open_transaction_applies_the_write_of_the_record_and_its_own_writes(
    trial: &Trial,
) -> Check {
    let case = Case::open(trial, "1").await?;
    case.was_taken(0).await?;
    is_applied(&case.sent_by(1, "o-1").await)?;
    case.key.finds(Some(&case.completed())).await?;
    case.was_taken(1).await
}

async fn an_open_transaction_without_a_record_applies_its_own_writes(trial: &Trial) -> Check {
    let case = Case::open(trial, "1").await?;
    case.applies_staged("o-2").await?;
    case.key.finds(Some(&case.claim)).await?;
    case.was_taken(1).await
}

async fn an_open_transaction_whose_record_refuses_it_applies_nothing_and_returns_the_record(
    trial: &Trial,
) -> Check {
    let case = Case::open(trial, "1").await?;
    let refused = case.sent_by(2, "o-3").await;
    is_refused(refused, &case.claim)?;
    case.key.finds(Some(&case.claim)).await?;
    case.was_taken(0).await?;
    // It was rolled back, so another send has nothing to commit.
    case.is_spent("o-4").await?;
    case.key.finds(Some(&case.claim)).await?;
    case.was_taken(0).await
}

async fn an_open_transaction_does_not_lock_the_record(trial: &Trial) -> Check {
    let case = Case::open(trial, "1").await?;
    let renewed = claim(&owner(1), trial.at(60_000));
    case.key.place(&renewed).await?;
    is_applied(&case.sent_by(1, "o-5").await)?;
    let completed = completed(&renewed, "[1]", case.window_end());
    case.key.finds(Some(&completed)).await?;
    case.was_taken(1).await
}

async fn an_open_transaction_that_is_sent_again_applies_nothing(trial: &Trial) -> Check {
    let case = Case::open(trial, "1").await?;
    is_applied(&case.sent_by(1, "o-6").await)?;
    let next = claim(&owner(1), trial.at(60_000));
    case.key.place(&next).await?;
    case.is_spent("o-6").await?;
    case.key.finds(Some(&next)).await?;
    case.was_taken(1).await
}

async fn an_open_transaction_that_is_dropped_applies_nothing(trial: &Trial) -> Check {
    let Case { key, claim, .. } = Case::open(trial, "1").await?;
    key.finds(Some(&claim)).await?;
    // It holds no locks any more.
    let again = Case::open(trial, "1").await?;
    again.was_taken(0).await?;
    is_applied(&again.sent_by(1, "o-7").await)?;
    again.was_taken(1).await
}

async fn an_open_transaction_whose_reply_is_lost_is_reported_as_maybe_applied(
    trial: &Trial,
) -> Check {
    let case = Case::open(trial, "1").await?;
    case.loses_its_reply("o-8").await
}
