//! Writes that arrive after their caller gave up: their own condition must reject them.

use idempotency_core::protocol::condition::{Condition, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout::{Hold, Rerun};
use idempotency_core::record::{Field, Record, RecordId};
use idempotency_core::store::StoreReply;
use idempotency_core::time::EpochSeconds;

use crate::store::StoreOperation;

use super::super::trial::{
    Checked, Expected, Flaw, Trial, broken, claim, completed, completion, owner, read,
};
use crate::store::StoreExt;

super::cases![
    a_late_claim_is_rejected_by_the_time_in_its_condition,
    a_claim_that_arrives_after_a_release_is_applied,
    a_late_completion_does_not_change_the_next_claim,
    a_late_release_does_not_remove_the_next_claim,
    a_late_restored_completion_does_not_replace_the_next_claim,
    a_write_whose_reply_is_lost_is_reported_as_maybe_applied,
];

async fn a_late_claim_is_rejected_by_the_time_in_its_condition(trial: &Trial) -> Checked {
    for (name, policy) in [("1", Rerun), ("2", Hold)] {
        let id = trial.id(name);
        // Sent at the present, with the present in its condition. Everything else happens before it arrives.
        let (late, at_its_time) = (
            claim(&owner(1), trial.at(30_000)),
            claimable(trial.now, policy),
        );
        let winner = claim(&owner(2), trial.at(1));
        trial
            .put(
                &id,
                &winner,
                &claimable(trial.at(1), policy),
                Expected::Applied,
            )
            .await?;
        trial
            .put(
                &id,
                &late,
                &at_its_time,
                Expected::ConditionFailed(Some(&winner)),
            )
            .await?;
        let (change, fence) = (completion("[2]", trial.second()), held_by(&owner(2)));
        trial
            .update(&id, &change, &fence, Expected::Applied)
            .await?;
        // This response may have expired by now, but not at the time in the condition of the late claim.
        let existing = completed(&winner, "[2]", trial.second());
        trial
            .put(
                &id,
                &late,
                &at_its_time,
                Expected::ConditionFailed(Some(&existing)),
            )
            .await?;
        trial.finds(&id, Some(&existing)).await?;
        let next = claim(&owner(3), trial.at(60_000));
        trial
            .put(
                &id,
                &next,
                &claimable(trial.at(1_000), policy),
                Expected::Applied,
            )
            .await?;
        trial
            .put(
                &id,
                &late,
                &at_its_time,
                Expected::ConditionFailed(Some(&next)),
            )
            .await?;
        trial.finds(&id, Some(&next)).await?;
    }
    Ok(())
}

async fn a_claim_that_arrives_after_a_release_is_applied(trial: &Trial) -> Checked {
    let (id, other) = (trial.id("1"), claim(&owner(2), trial.at(30_000)));
    trial
        .put(&id, &other, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial
        .delete(&id, &held_by(&owner(2)), Expected::Applied)
        .await?;
    // For this reason a missing record does not prove that a claim was not sent.
    let late = claim(&owner(1), trial.at(30_000));
    trial
        .put(
            &id,
            &late,
            &claimable(trial.at(-60_000), Rerun),
            Expected::Applied,
        )
        .await?;
    trial.finds(&id, Some(&late)).await
}

async fn a_late_completion_does_not_change_the_next_claim(trial: &Trial) -> Checked {
    let (id, next) = (trial.id("1"), taken_over(trial, &trial.id("1")).await?);
    let change = completion("[1]", trial.second());
    trial
        .update(
            &id,
            &change,
            &held_by(&owner(1)),
            Expected::ConditionFailed(Some(&next)),
        )
        .await?;
    trial.finds(&id, Some(&next)).await
}

async fn a_late_release_does_not_remove_the_next_claim(trial: &Trial) -> Checked {
    let (id, next) = (trial.id("1"), taken_over(trial, &trial.id("1")).await?);
    trial
        .delete(
            &id,
            &held_by(&owner(1)),
            Expected::ConditionFailed(Some(&next)),
        )
        .await?;
    trial.finds(&id, Some(&next)).await
}

async fn a_late_restored_completion_does_not_replace_the_next_claim(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let restored = completed(&claim(&owner(1), trial.now), "[1]", trial.second());
    let next = claim(&owner(2), trial.at(30_000));
    trial
        .put(&id, &next, &claimable(trial.now, Rerun), Expected::Applied)
        .await?;
    trial
        .put(
            &id,
            &restored,
            &Condition::NoRecord,
            Expected::ConditionFailed(Some(&next)),
        )
        .await?;
    trial.finds(&id, Some(&next)).await
}

/// Writes a claim of owner 1 and lets owner 2 take it over. Returns the second claim.
async fn taken_over(trial: &Trial, id: &RecordId) -> Checked<Record> {
    let (first, next) = (
        claim(&owner(1), trial.at(-1)),
        claim(&owner(2), trial.at(30_000)),
    );
    trial
        .put(id, &first, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial
        .put(id, &next, &claimable(trial.now, Rerun), Expected::Applied)
        .await?;
    Ok(next)
}

async fn a_write_whose_reply_is_lost_is_reported_as_maybe_applied(trial: &Trial) -> Checked {
    let mine = claim(&owner(1), trial.at(30_000));
    for (operation, name) in [
        (StoreOperation::Put, "put"),
        (StoreOperation::Update, "update"),
        (StoreOperation::Delete, "delete"),
    ] {
        let (id, fence) = (trial.id(name), held_by(&owner(1)));
        if operation != StoreOperation::Put {
            trial.place(&id, &mine).await?;
        }
        if !trial.factory.lose_next_reply(operation) {
            return Err(Flaw::NotOffered("the factory loses no replies"));
        }
        let expiration = EpochSeconds::new(trial.second().get() + 3_600);
        let write = match operation {
            StoreOperation::Put => trial.store.put(&id, &mine, &Condition::NoRecord).await,
            StoreOperation::Update => {
                trial
                    .store
                    .update(&id, &completion("[1]", expiration), &fence)
                    .await
            }
            _ => trial.store.delete(&id, &fence).await,
        };
        let maybe_applied = match write {
            StoreReply::Applied { maybe_again, .. } => maybe_again,
            StoreReply::ConditionFailed { maybe_applied, .. }
            | StoreReply::Failed { maybe_applied, .. } => maybe_applied,
            _ => false,
        };
        if !maybe_applied {
            return broken(format!("a {name} was applied, but reported as not applied"));
        }
        let existing = read(trial.store.as_ref(), &id).await?;
        let applied = match operation {
            StoreOperation::Put => existing.as_ref() == Some(&mine),
            StoreOperation::Update => existing.is_some_and(|record| record.data != Field::Absent),
            _ => existing.is_none(),
        };
        if !applied {
            return broken(format!(
                "the {name} whose reply the factory lost was not applied"
            ));
        }
    }
    Ok(())
}
