//! A write whose condition fails changes nothing, and returns the record that its condition was evaluated on.

use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Attribute, Data, Field, Record};
use idempotency_core::store::Change;

use super::super::trial::{
    Checked, Expected, Trial, always, claim, completed, completion, never, owner, whole,
};

super::cases![
    a_put_whose_condition_fails_changes_nothing_and_returns_the_record,
    an_update_whose_condition_fails_changes_nothing_and_returns_the_record,
    a_delete_whose_condition_fails_changes_nothing_and_returns_the_record,
    a_failed_condition_without_a_record_returns_none_and_creates_none,
    a_failed_condition_returns_the_last_written_record,
    a_failed_condition_returns_data_of_300_kb,
];

async fn a_put_whose_condition_fails_changes_nothing_and_returns_the_record(
    trial: &Trial,
) -> Checked {
    let (id, existing) = (trial.id("1"), whole(trial.now));
    trial.place(&id, &existing).await?;
    let new = claim(&owner(2), trial.now);
    trial
        .put(
            &id,
            &new,
            &Condition::NoRecord,
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    trial.finds(&id, Some(&existing)).await
}

async fn an_update_whose_condition_fails_changes_nothing_and_returns_the_record(
    trial: &Trial,
) -> Checked {
    let (id, existing) = (trial.id("1"), whole(trial.now));
    trial.place(&id, &existing).await?;
    let change = Change {
        set: claim(&owner(2), trial.now),
        remove: vec![Attribute::Failure],
    };
    trial
        .update(
            &id,
            &change,
            &held_by(&owner(2)),
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    trial.finds(&id, Some(&existing)).await
}

async fn a_delete_whose_condition_fails_changes_nothing_and_returns_the_record(
    trial: &Trial,
) -> Checked {
    let (id, existing) = (trial.id("1"), whole(trial.now));
    trial.place(&id, &existing).await?;
    trial
        .delete(
            &id,
            &held_by(&owner(2)),
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    trial.finds(&id, Some(&existing)).await
}

async fn a_failed_condition_without_a_record_returns_none_and_creates_none(
    trial: &Trial,
) -> Checked {
    let (id, mine) = (trial.id("1"), held_by(&owner(1)));
    let record = claim(&owner(1), trial.now);
    trial
        .put(&id, &record, &mine, Expected::ConditionFailed(None))
        .await?;
    trial
        .update(
            &id,
            &completion("1", trial.second()),
            &mine,
            Expected::ConditionFailed(None),
        )
        .await?;
    trial
        .delete(&id, &mine, Expected::ConditionFailed(None))
        .await?;
    trial
        .delete(&id, &never(), Expected::ConditionFailed(None))
        .await?;
    trial.finds(&id, None).await
}

async fn a_failed_condition_returns_the_last_written_record(trial: &Trial) -> Checked {
    let (id, claimed) = (trial.id("1"), claim(&owner(1), trial.now));
    let other = claim(&owner(2), trial.now);
    trial
        .put(&id, &claimed, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial
        .put(
            &id,
            &other,
            &Condition::NoRecord,
            Expected::ConditionFailed(Some(&claimed)),
        )
        .await?;
    let change = completion("[1]", trial.second());
    trial
        .update(&id, &change, &held_by(&owner(1)), Expected::Applied)
        .await?;
    let existing = completed(&claimed, "[1]", trial.second());
    trial
        .put(
            &id,
            &other,
            &Condition::NoRecord,
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    trial.delete(&id, &always(), Expected::Applied).await?;
    trial
        .update(
            &id,
            &change,
            &held_by(&owner(1)),
            Expected::ConditionFailed(None),
        )
        .await?;
    trial
        .put(&id, &other, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial
        .delete(
            &id,
            &held_by(&owner(1)),
            Expected::ConditionFailed(Some(&other)),
        )
        .await
}

async fn a_failed_condition_returns_data_of_300_kb(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let existing = Record {
        data: Field::Value(Data::new("é".repeat(150 * 1024))),
        ..whole(trial.now)
    };
    trial.place(&id, &existing).await?;
    let new = claim(&owner(2), trial.now);
    trial
        .put(
            &id,
            &new,
            &Condition::NoRecord,
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    let change = completion("1", trial.second());
    trial
        .update(
            &id,
            &change,
            &held_by(&owner(2)),
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    trial
        .delete(
            &id,
            &held_by(&owner(2)),
            Expected::ConditionFailed(Some(&existing)),
        )
        .await
}
