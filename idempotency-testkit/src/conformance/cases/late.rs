//! Writes that arrive when nobody waits for them any more: each carries what refuses it.

use idempotency_core::protocol::condition::{Condition, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout::{Hold, Rerun};
use idempotency_core::record::{Field, Record, RecordId};
use idempotency_core::store::WriteOutcome;
use idempotency_core::time::EpochSeconds;

use crate::store::StoreOperation;

use super::super::trial::{
    Checked, Expected, Flaw, Trial, answer, broken, claim, completed, owner, read,
};
use crate::store::StoreExt;

super::cases![
    a_claim_that_arrives_late_is_refused_by_its_own_now,
    a_claim_that_arrives_after_the_release_of_another_is_applied,
    a_completion_that_arrives_late_meets_the_next_claim_and_changes_nothing,
    a_release_that_arrives_late_meets_the_next_claim_and_changes_nothing,
    a_restored_completion_that_arrives_late_replaces_nothing,
    a_write_whose_reply_is_lost_is_never_told_as_not_applied,
];

async fn a_claim_that_arrives_late_is_refused_by_its_own_now(trial: &Trial) -> Checked {
    for (name, policy) in [("1", Rerun), ("2", Hold)] {
        let id = trial.id(name);
        // Sent at the present, with the present in its condition; all else happens before it arrives.
        let (late, by_its_now) = (
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
            .put(&id, &late, &by_its_now, Expected::Refused(Some(&winner)))
            .await?;
        let (change, fence) = (answer("[2]", trial.second()), held_by(&owner(2)));
        trial
            .update(&id, &change, &fence, Expected::Applied)
            .await?;
        // By now that answer may have expired; by the now of the late claim it has not.
        let there = completed(&winner, "[2]", trial.second());
        trial
            .put(&id, &late, &by_its_now, Expected::Refused(Some(&there)))
            .await?;
        trial.finds(&id, Some(&there)).await?;
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
            .put(&id, &late, &by_its_now, Expected::Refused(Some(&next)))
            .await?;
        trial.finds(&id, Some(&next)).await?;
    }
    Ok(())
}

async fn a_claim_that_arrives_after_the_release_of_another_is_applied(trial: &Trial) -> Checked {
    let (id, other) = (trial.id("1"), claim(&owner(2), trial.at(30_000)));
    trial
        .put(&id, &other, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial
        .delete(&id, &held_by(&owner(2)), Expected::Applied)
        .await?;
    // This is why a key without a record proves nothing about a claim that was sent.
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

async fn a_completion_that_arrives_late_meets_the_next_claim_and_changes_nothing(
    trial: &Trial,
) -> Checked {
    let (id, next) = (trial.id("1"), taken_over(trial, &trial.id("1")).await?);
    let change = answer("[1]", trial.second());
    trial
        .update(
            &id,
            &change,
            &held_by(&owner(1)),
            Expected::Refused(Some(&next)),
        )
        .await?;
    trial.finds(&id, Some(&next)).await
}

async fn a_release_that_arrives_late_meets_the_next_claim_and_changes_nothing(
    trial: &Trial,
) -> Checked {
    let (id, next) = (trial.id("1"), taken_over(trial, &trial.id("1")).await?);
    trial
        .delete(&id, &held_by(&owner(1)), Expected::Refused(Some(&next)))
        .await?;
    trial.finds(&id, Some(&next)).await
}

async fn a_restored_completion_that_arrives_late_replaces_nothing(trial: &Trial) -> Checked {
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
            Expected::Refused(Some(&next)),
        )
        .await?;
    trial.finds(&id, Some(&next)).await
}

/// The claim of owner 2, which took over that of owner 1.
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

async fn a_write_whose_reply_is_lost_is_never_told_as_not_applied(trial: &Trial) -> Checked {
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
            return Err(Flaw::Lacks("the factory loses no replies"));
        }
        let expiration = EpochSeconds::new(trial.second().get() + 3_600);
        let write = match operation {
            StoreOperation::Put => trial.store.put(&id, &mine, &Condition::NoRecord).await,
            StoreOperation::Update => {
                trial
                    .store
                    .update(&id, &answer("[1]", expiration), &fence)
                    .await
            }
            _ => trial.store.delete(&id, &fence).await,
        };
        let maybe_applied = match write {
            WriteOutcome::Applied => true,
            WriteOutcome::ConditionFailed { maybe_applied, .. }
            | WriteOutcome::Failed { maybe_applied, .. } => maybe_applied,
            _ => false,
        };
        if !maybe_applied {
            return broken(format!(
                "a {name} was applied, and told as one that was not"
            ));
        }
        let there = read(trial.store.as_ref(), &id).await?;
        let applied = match operation {
            StoreOperation::Put => there.as_ref() == Some(&mine),
            StoreOperation::Update => there.is_some_and(|record| record.data != Field::Absent),
            _ => there.is_none(),
        };
        if !applied {
            return broken(format!(
                "the factory lost the reply of a {name} that was not applied"
            ));
        }
    }
    Ok(())
}
