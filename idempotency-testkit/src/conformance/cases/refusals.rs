//! What a refused write does (nothing) and brings back (the record that it was judged against).

use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Attribute, Data, Field, Record};
use idempotency_core::store::Change;

use super::super::trial::{
    Checked, Expected, Trial, always, answer, claim, completed, never, owner, whole,
};

super::cases![
    a_refused_put_changes_nothing_and_brings_back_the_record,
    a_refused_update_changes_nothing_and_brings_back_the_record,
    a_refused_delete_changes_nothing_and_brings_back_the_record,
    a_write_that_is_refused_where_nothing_is_brings_back_no_record_and_makes_none,
    a_refusal_brings_back_what_was_written_last,
    a_refusal_brings_back_data_of_300_kb,
];

async fn a_refused_put_changes_nothing_and_brings_back_the_record(trial: &Trial) -> Checked {
    let (id, there) = (trial.id("1"), whole(trial.now));
    trial.place(&id, &there).await?;
    let new = claim(&owner(2), trial.now);
    trial
        .put(
            &id,
            &new,
            &Condition::NoRecord,
            Expected::Refused(Some(&there)),
        )
        .await?;
    trial.finds(&id, Some(&there)).await
}

async fn a_refused_update_changes_nothing_and_brings_back_the_record(trial: &Trial) -> Checked {
    let (id, there) = (trial.id("1"), whole(trial.now));
    trial.place(&id, &there).await?;
    let change = Change {
        set: claim(&owner(2), trial.now),
        remove: vec![Attribute::Failure],
    };
    trial
        .update(
            &id,
            &change,
            &held_by(&owner(2)),
            Expected::Refused(Some(&there)),
        )
        .await?;
    trial.finds(&id, Some(&there)).await
}

async fn a_refused_delete_changes_nothing_and_brings_back_the_record(trial: &Trial) -> Checked {
    let (id, there) = (trial.id("1"), whole(trial.now));
    trial.place(&id, &there).await?;
    trial
        .delete(&id, &held_by(&owner(2)), Expected::Refused(Some(&there)))
        .await?;
    trial.finds(&id, Some(&there)).await
}

async fn a_write_that_is_refused_where_nothing_is_brings_back_no_record_and_makes_none(
    trial: &Trial,
) -> Checked {
    let (id, mine) = (trial.id("1"), held_by(&owner(1)));
    let record = claim(&owner(1), trial.now);
    trial
        .put(&id, &record, &mine, Expected::Refused(None))
        .await?;
    trial
        .update(
            &id,
            &answer("1", trial.second()),
            &mine,
            Expected::Refused(None),
        )
        .await?;
    trial.delete(&id, &mine, Expected::Refused(None)).await?;
    trial.delete(&id, &never(), Expected::Refused(None)).await?;
    trial.finds(&id, None).await
}

async fn a_refusal_brings_back_what_was_written_last(trial: &Trial) -> Checked {
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
            Expected::Refused(Some(&claimed)),
        )
        .await?;
    let change = answer("[1]", trial.second());
    trial
        .update(&id, &change, &held_by(&owner(1)), Expected::Applied)
        .await?;
    let there = completed(&claimed, "[1]", trial.second());
    trial
        .put(
            &id,
            &other,
            &Condition::NoRecord,
            Expected::Refused(Some(&there)),
        )
        .await?;
    trial.delete(&id, &always(), Expected::Applied).await?;
    trial
        .update(&id, &change, &held_by(&owner(1)), Expected::Refused(None))
        .await?;
    trial
        .put(&id, &other, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial
        .delete(&id, &held_by(&owner(1)), Expected::Refused(Some(&other)))
        .await
}

async fn a_refusal_brings_back_data_of_300_kb(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let there = Record {
        data: Field::Value(Data::new("é".repeat(150 * 1024))),
        ..whole(trial.now)
    };
    trial.place(&id, &there).await?;
    let new = claim(&owner(2), trial.now);
    trial
        .put(
            &id,
            &new,
            &Condition::NoRecord,
            Expected::Refused(Some(&there)),
        )
        .await?;
    let change = answer("1", trial.second());
    trial
        .update(
            &id,
            &change,
            &held_by(&owner(2)),
            Expected::Refused(Some(&there)),
        )
        .await?;
    trial
        .delete(&id, &held_by(&owner(2)), Expected::Refused(Some(&there)))
        .await
}
