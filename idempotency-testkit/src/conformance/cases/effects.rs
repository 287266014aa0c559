//! The effect of each operation on the records.

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Data, Field, Record, Status};
use idempotency_core::store::{Change, StoreReply};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::super::trial::{
    Checked, Expected, Flaw, Trial, always, broken, claim, owner, read, whole,
};
use crate::store::StoreExt;

super::cases![
    a_put_without_a_record_is_applied_and_reads_back,
    a_put_replaces_the_whole_record,
    a_put_says_truly_what_it_replaced,
    an_update_sets_its_attributes_and_keeps_the_others,
    an_update_removes_its_attributes_and_keeps_the_others,
    removing_an_absent_attribute_changes_nothing,
    an_attribute_that_is_both_set_and_removed_is_removed,
    an_update_without_a_record_creates_one,
    an_empty_change_changes_nothing,
    a_delete_removes_the_record,
    a_delete_without_a_record_is_applied_if_its_condition_holds,
    a_deleted_record_can_be_put_again,
    a_read_without_a_record_finds_none,
    a_record_without_attributes_is_a_record,
    a_write_changes_only_one_record,
    every_read_sees_the_previous_write,
    a_second_store_reads_what_the_first_one_wrote,
    the_store_warms_up_and_has_a_name,
];

/// Returns each attribute, with a record that has only a new value of it.
fn single_attributes() -> [(Attribute, Record); 10] {
    let none = Record::default;
    let text = |text: &str| Field::Value(text.to_owned());
    [
        (
            Attribute::Expiration,
            Record {
                expiration: Field::Value(EpochSeconds::new(1)),
                ..none()
            },
        ),
        (
            Attribute::InProgressExpiration,
            Record {
                in_progress_expiration: Field::Value(EpochMillis::new(2)),
                ..none()
            },
        ),
        (
            Attribute::Status,
            Record {
                status: Field::Value(Status::InProgress),
                ..none()
            },
        ),
        (
            Attribute::Data,
            Record {
                data: Field::Value(Data::new("[3]")),
                ..none()
            },
        ),
        (
            Attribute::Validation,
            Record {
                validation: text("4"),
                ..none()
            },
        ),
        (
            Attribute::Owner,
            Record {
                owner: Field::Value(owner(5)),
                ..none()
            },
        ),
        (
            Attribute::Failure,
            Record {
                failure: text("6"),
                ..none()
            },
        ),
        (
            Attribute::Operation,
            Record {
                operation: text("7"),
                ..none()
            },
        ),
        (
            Attribute::Decision,
            Record {
                decision: text("8"),
                ..none()
            },
        ),
        (
            Attribute::Steps,
            Record {
                steps: Field::Value([("a".to_owned(), Data::new("8"))].into_iter().collect()),
                ..none()
            },
        ),
    ]
}

/// Returns `record` with one attribute copied from `from`.
fn with(record: &Record, attribute: Attribute, from: &Record) -> Record {
    let (mut record, from) = (record.clone(), from.clone());
    match attribute {
        Attribute::Expiration => record.expiration = from.expiration,
        Attribute::InProgressExpiration => {
            record.in_progress_expiration = from.in_progress_expiration;
        }
        Attribute::Status => record.status = from.status,
        Attribute::Data => record.data = from.data,
        Attribute::Validation => record.validation = from.validation,
        Attribute::Owner => record.owner = from.owner,
        Attribute::Failure => record.failure = from.failure,
        Attribute::Steps => record.steps = from.steps,
        Attribute::Operation => record.operation = from.operation,
        _ => record.decision = from.decision,
    }
    record
}

async fn a_put_without_a_record_is_applied_and_reads_back(trial: &Trial) -> Checked {
    let (id, record) = (trial.id("1"), claim(&owner(1), trial.now));
    trial
        .put(&id, &record, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial.finds(&id, Some(&record)).await
}

async fn a_put_replaces_the_whole_record(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for (attribute, new) in single_attributes() {
        trial.place(&id, &whole(trial.now)).await?;
        trial.place(&id, &new).await?;
        let found = trial.finds(&id, Some(&new)).await;
        found.map_err(|flaw| flaw.when(format_args!("a record with only {attribute:?}")))?;
    }
    Ok(())
}

async fn a_put_says_truly_what_it_replaced(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let mine = claim(&owner(1), trial.at(30_000));
    let next = claim(&owner(2), trial.at(30_000));
    let first = trial.store.put(&id, &mine, &Condition::NoRecord).await;
    let second = trial.store.put(&id, &next, &always()).await;
    for (reply, expected) in [(first, None), (second, Some(&mine.owner))] {
        let StoreReply::Applied { replaced, .. } = reply else {
            return broken("a put whose condition holds was not applied");
        };
        // A store that does not know what it replaced says `None`.
        let says = replaced.as_ref().map(|record| record.as_ref());
        if says.is_some_and(|record| record.map(|record| &record.owner) != expected) {
            return broken("a put says that it replaced another record than it did");
        }
    }
    Ok(())
}

async fn an_update_sets_its_attributes_and_keeps_the_others(trial: &Trial) -> Checked {
    let (id, full) = (trial.id("1"), whole(trial.now));
    for (attribute, new) in single_attributes() {
        for before in [full.clone(), with(&full, attribute, &Record::default())] {
            trial.place(&id, &before).await?;
            let change = Change {
                set: new.clone(),
                remove: Vec::new(),
            };
            trial
                .update(&id, &change, &always(), Expected::Applied)
                .await?;
            let found = trial
                .finds(&id, Some(&with(&before, attribute, &new)))
                .await;
            found.map_err(|flaw| flaw.when(format_args!("{attribute:?} was set")))?;
        }
    }
    Ok(())
}

async fn an_update_removes_its_attributes_and_keeps_the_others(trial: &Trial) -> Checked {
    let (id, full) = (trial.id("1"), whole(trial.now));
    for (attribute, _) in single_attributes() {
        trial.place(&id, &full).await?;
        let change = Change {
            set: Record::default(),
            remove: vec![attribute],
        };
        trial
            .update(&id, &change, &always(), Expected::Applied)
            .await?;
        let found = trial
            .finds(&id, Some(&with(&full, attribute, &Record::default())))
            .await;
        found.map_err(|flaw| flaw.when(format_args!("{attribute:?} was removed")))?;
    }
    Ok(())
}

async fn removing_an_absent_attribute_changes_nothing(trial: &Trial) -> Checked {
    let (id, record) = (trial.id("1"), claim(&owner(1), trial.now));
    trial.place(&id, &record).await?;
    let change = Change {
        set: Record::default(),
        remove: vec![Attribute::Failure, Attribute::Data],
    };
    trial
        .update(&id, &change, &always(), Expected::Applied)
        .await?;
    trial.finds(&id, Some(&record)).await
}

async fn an_attribute_that_is_both_set_and_removed_is_removed(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for (attribute, new) in single_attributes() {
        trial.place(&id, &whole(trial.now)).await?;
        let change = Change {
            set: new,
            remove: vec![attribute, attribute],
        };
        trial
            .update(&id, &change, &always(), Expected::Applied)
            .await?;
        let expected = with(&whole(trial.now), attribute, &Record::default());
        trial.finds(&id, Some(&expected)).await?;
    }
    Ok(())
}

async fn an_update_without_a_record_creates_one(trial: &Trial) -> Checked {
    let (id, set) = (trial.id("1"), claim(&owner(1), trial.now));
    let change = Change {
        set: set.clone(),
        remove: vec![Attribute::Failure],
    };
    trial
        .update(&id, &change, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial.finds(&id, Some(&set)).await
}

async fn an_empty_change_changes_nothing(trial: &Trial) -> Checked {
    let (id, record) = (trial.id("1"), whole(trial.now));
    trial.place(&id, &record).await?;
    trial
        .update(&id, &Change::default(), &always(), Expected::Applied)
        .await?;
    trial.finds(&id, Some(&record)).await
}

async fn a_delete_removes_the_record(trial: &Trial) -> Checked {
    let id = trial.id("1");
    trial.place(&id, &whole(trial.now)).await?;
    trial.delete(&id, &always(), Expected::Applied).await?;
    trial.finds(&id, None).await
}

async fn a_delete_without_a_record_is_applied_if_its_condition_holds(trial: &Trial) -> Checked {
    let id = trial.id("1");
    trial.delete(&id, &always(), Expected::Applied).await?;
    trial
        .delete(&id, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial.finds(&id, None).await
}

async fn a_deleted_record_can_be_put_again(trial: &Trial) -> Checked {
    let (id, again) = (trial.id("1"), claim(&owner(2), trial.now));
    trial.place(&id, &whole(trial.now)).await?;
    trial.delete(&id, &always(), Expected::Applied).await?;
    trial
        .put(&id, &again, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial.finds(&id, Some(&again)).await
}

async fn a_read_without_a_record_finds_none(trial: &Trial) -> Checked {
    trial.finds(&trial.id("1"), None).await
}

async fn a_record_without_attributes_is_a_record(trial: &Trial) -> Checked {
    let (id, empty) = (trial.id("1"), Record::default());
    trial
        .put(&id, &empty, &Condition::NoRecord, Expected::Applied)
        .await?;
    trial.finds(&id, Some(&empty)).await?;
    trial
        .put(
            &id,
            &whole(trial.now),
            &Condition::NoRecord,
            Expected::ConditionFailed(Some(&empty)),
        )
        .await
}

async fn a_write_changes_only_one_record(trial: &Trial) -> Checked {
    let (one, other) = (trial.id("1"), trial.id("2"));
    let (first, second) = (claim(&owner(1), trial.now), claim(&owner(2), trial.now));
    trial.place(&one, &first).await?;
    trial
        .put(&other, &second, &Condition::NoRecord, Expected::Applied)
        .await?;
    let change = Change {
        set: Record::default(),
        remove: vec![Attribute::Owner],
    };
    trial
        .update(&other, &change, &always(), Expected::Applied)
        .await?;
    trial.finds(&one, Some(&first)).await?;
    trial.delete(&other, &always(), Expected::Applied).await?;
    trial.finds(&one, Some(&first)).await
}

async fn every_read_sees_the_previous_write(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for round in 0..32 {
        let record = claim(&owner(round), trial.at(i64::from(round)));
        trial.place(&id, &record).await?;
        let found = trial.finds(&id, Some(&record)).await;
        found.map_err(|flaw| flaw.when(format_args!("round {round}")))?;
    }
    trial.delete(&id, &always(), Expected::Applied).await?;
    trial.finds(&id, None).await
}

async fn a_second_store_reads_what_the_first_one_wrote(trial: &Trial) -> Checked {
    let (id, record) = (trial.id("1"), whole(trial.now));
    let another = trial.factory.store().await;
    let another = another
        .map_err(|error| Flaw::from(format!("the factory returned no second store: {error}")))?;
    trial.place(&id, &record).await?;
    if read(another.as_ref(), &id).await?.as_ref() != Some(&record) {
        return broken("a second store of the factory does not read what the first one wrote");
    }
    let write = another.delete(&id, &always()).await;
    trial
        .check_outcome("delete", &id, write, Expected::Applied)
        .await?;
    trial.finds(&id, None).await
}

async fn the_store_warms_up_and_has_a_name(trial: &Trial) -> Checked {
    let warm = trial.store.warm_up().await;
    warm.map_err(|error| Flaw::from(format!("the warm-up failed: {error}")))?;
    if trial.store.name().is_empty() {
        return broken("the name of the store is empty: errors cannot name the store");
    }
    Ok(())
}
