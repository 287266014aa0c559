//! A record that is too large is reported as such, and changes nothing.

use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Attribute, Data, Field, Record};
use idempotency_core::store::{Change, StoreErrorKind, StoreReply};

use super::super::trial::{
    Checked, Expected, Flaw, Trial, always, broken, claim, completed, completion, owner,
};
use crate::store::StoreExt;

super::cases![
    a_put_beyond_the_limit_is_too_large_and_changes_nothing,
    an_update_beyond_the_limit_is_too_large_and_changes_nothing,
    an_update_that_makes_the_whole_record_exceed_the_limit_is_too_large,
    a_claim_whose_response_was_too_large_can_be_completed_without_it,
];

/// The most bytes that ids, names and the other attributes take.
const REST: usize = 2_048;

fn limit(trial: &Trial) -> Checked<usize> {
    let none = Flaw::NotOffered("the factory knows no limit on a record's size");
    trial.factory.largest_record().ok_or(none)
}

fn too_large(write: &StoreReply) -> Checked {
    match write {
        StoreReply::Failed {
            maybe_applied: false,
            error,
        } if error.kind() == StoreErrorKind::TooLarge => Ok(()),
        StoreReply::Failed {
            maybe_applied: true,
            error,
        } if error.kind() == StoreErrorKind::TooLarge => {
            broken("a write that was rejected because of its size was reported as maybe applied")
        }
        StoreReply::Failed { error, .. } => {
            broken(format!("it failed as {:?}: {error}", error.kind()))
        }
        StoreReply::Applied { .. } => {
            broken("it was applied: the limit of the factory is not the limit of the store")
        }
        other => broken(format!("it had the outcome {other:?}")),
    }
}

fn data(bytes: usize) -> Data {
    Data::new("x".repeat(bytes))
}

async fn a_put_beyond_the_limit_is_too_large_and_changes_nothing(trial: &Trial) -> Checked {
    let (id, limit, existing) = (trial.id("1"), limit(trial)?, claim(&owner(1), trial.now));
    let fits = Record {
        data: Field::Value(data(limit - REST)),
        ..existing.clone()
    };
    let new = Record {
        data: Field::Value(data(limit)),
        ..existing.clone()
    };
    too_large(&trial.store.put(&id, &new, &Condition::NoRecord).await)?;
    trial.finds(&id, None).await?;
    trial.place(&id, &existing).await?;
    too_large(&trial.store.put(&id, &new, &always()).await)?;
    trial.finds(&id, Some(&existing)).await?;
    trial.place(&id, &fits).await?;
    trial.finds(&id, Some(&fits)).await
}

async fn an_update_beyond_the_limit_is_too_large_and_changes_nothing(trial: &Trial) -> Checked {
    let (id, limit, existing) = (trial.id("1"), limit(trial)?, claim(&owner(1), trial.now));
    trial.place(&id, &existing).await?;
    let mut change = completion("", trial.second());
    change.set.data = Field::Value(data(limit));
    too_large(&trial.store.update(&id, &change, &always()).await)?;
    trial.finds(&id, Some(&existing)).await
}

async fn an_update_that_makes_the_whole_record_exceed_the_limit_is_too_large(
    trial: &Trial,
) -> Checked {
    let (id, limit) = (trial.id("1"), limit(trial)?);
    let existing = Record {
        failure: Field::Value("y".repeat(2 * REST)),
        ..claim(&owner(1), trial.now)
    };
    trial.place(&id, &existing).await?;
    let set = Record {
        data: Field::Value(data(limit - REST)),
        ..Record::default()
    };
    let change = Change {
        set: set.clone(),
        remove: Vec::new(),
    };
    too_large(&trial.store.update(&id, &change, &always()).await)?;
    trial.finds(&id, Some(&existing)).await?;
    // An attribute that is removed in the same step makes room.
    let change = Change {
        set: set.clone(),
        remove: vec![Attribute::Failure],
    };
    let write = trial.store.update(&id, &change, &always()).await;
    trial
        .check_outcome("update", &id, write, Expected::Applied)
        .await?;
    let expected = Record {
        failure: Field::Absent,
        data: set.data,
        ..existing
    };
    trial.finds(&id, Some(&expected)).await
}

async fn a_claim_whose_response_was_too_large_can_be_completed_without_it(
    trial: &Trial,
) -> Checked {
    let (id, limit, mine) = (trial.id("1"), limit(trial)?, claim(&owner(1), trial.now));
    trial.place(&id, &mine).await?;
    let fence = held_by(&owner(1));
    let mut change = completion("", trial.second());
    change.set.data = Field::Value(data(limit));
    too_large(&trial.store.update(&id, &change, &fence).await)?;
    change.set.data = Field::Absent;
    let write = trial.store.update(&id, &change, &fence).await;
    trial
        .check_outcome("update", &id, write, Expected::Applied)
        .await?;
    let existing = Record {
        data: Field::Absent,
        ..completed(&mine, "", trial.second())
    };
    trial.finds(&id, Some(&existing)).await
}
