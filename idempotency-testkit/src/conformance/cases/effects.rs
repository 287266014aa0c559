//! The effect of each operation on the records. Eventual reads may return an earlier state of a record, and nothing else.

use super::super::trial::*;

super::cases![
    a_put_without_a_record_is_applied_and_reads_back,
    a_put_replaces_the_whole_record,
    a_put_says_truly_what_it_replaced,
    the_notes_of_an_applied_write_do_not_say_that_nothing_was_sent,
    an_update_sets_its_attributes_and_keeps_the_others,
    an_update_removes_its_attributes_and_keeps_the_others,
    an_attribute_that_is_both_set_and_removed_is_removed,
    an_update_without_a_record_creates_one,
    a_change_that_is_empty_or_removes_what_is_absent_changes_nothing,
    a_delete_without_a_record_is_applied_if_its_condition_holds,
    a_deleted_record_is_gone_and_can_be_put_again,
    a_record_without_attributes_is_a_record,
    a_write_changes_only_one_record,
    every_read_sees_the_previous_write,
    a_second_store_reads_what_the_first_one_wrote,
    the_store_warms_up_and_has_a_name,
    an_eventual_read_returns_a_state_that_the_record_had,
    an_eventual_read_of_an_id_without_a_record_finds_nothing,
];

async fn a_put_without_a_record_is_applied_and_reads_back(trial: &Trial) -> Check {
    let (key, record) = (trial.key("1"), claim(&owner(1), trial.now));
    key.put(&record, &NoRecord, Applied).await?;
    key.finds(Some(&record)).await
}

async fn a_put_replaces_the_whole_record(trial: &Trial) -> Check {
    let key = trial.key("1");
    for (attribute, new) in single_attributes() {
        key.place(&full_record(trial.now)).await?;
        key.place(&new).await?;
        let found = key.finds(Some(&new)).await;
        found.map_err(|flaw| flaw.when(format_args!("a record with only {attribute:?}")))?;
    }
    Ok(())
}

async fn a_put_says_truly_what_it_replaced(trial: &Trial) -> Check {
    let key = trial.key("1");
    let mine = claim(&owner(1), trial.at(30_000));
    let next = claim(&owner(2), trial.at(30_000));
    let first = key.put_unchecked(&mine, &NoRecord).await;
    let second = key.put_unchecked(&next, &always()).await;
    for (reply, expected) in [(first, Replaced::Nothing), (second, Replaced::Record(mine))] {
        let StoreReply::Applied { replaced, .. } = reply else {
            return broken("a put whose condition holds was not applied");
        };
        if replaced != Replaced::Unknown && replaced != expected {
            return broken("a put says that it replaced another record than it did");
        }
    }
    Ok(())
}

async fn the_notes_of_an_applied_write_do_not_say_that_nothing_was_sent(trial: &Trial) -> Check {
    let (key, record) = (trial.key("1"), claim(&owner(1), trial.now));
    for (what, write) in [
        ("a put", Write::Put(record.clone())),
        ("an update", Write::Update(setting(record))),
        ("a delete", Write::Delete),
    ] {
        let (log, condition) = (SendLog::new(), always());
        let request = StoreRequest::write(&key.id, &write, &condition);
        check_outcome(what, trial.store.send(request, &log).await, Applied)?;
        if !log.maybe_applied() {
            return broken(format!(
                "after {what} that was applied, the notes say that it was not: note `sending()` before each send, and no \
                 `ended(false, ..)` after one that was applied"
            ));
        }
    }
    Ok(())
}

async fn an_update_sets_its_attributes_and_keeps_the_others(trial: &Trial) -> Check {
    let (key, full) = (trial.key("1"), full_record(trial.now));
    for (attribute, new) in single_attributes() {
        for before in [full.clone(), taking(&full, attribute, &Record::default())] {
            key.place(&before).await?;
            let change = setting(new.clone());
            key.update(&change, &always(), Applied).await?;
            let found = key.finds(Some(&taking(&before, attribute, &new))).await;
            found.map_err(|flaw| flaw.when(format_args!("{attribute:?} was set")))?;
        }
    }
    Ok(())
}

async fn an_update_removes_its_attributes_and_keeps_the_others(trial: &Trial) -> Check {
    let (key, full) = (trial.key("1"), full_record(trial.now));
    for attribute in compared() {
        key.place(&full).await?;
        let change = removing(&[attribute]);
        key.update(&change, &always(), Applied).await?;
        let rest = taking(&full, attribute, &Record::default());
        let found = key.finds(Some(&rest)).await;
        found.map_err(|flaw| flaw.when(format_args!("{attribute:?} was removed")))?;
    }
    Ok(())
}

async fn an_attribute_that_is_both_set_and_removed_is_removed(trial: &Trial) -> Check {
    let key = trial.key("1");
    for (attribute, new) in single_attributes() {
        key.place(&full_record(trial.now)).await?;
        let change = Change {
            set: new,
            remove: vec![attribute, attribute],
        };
        key.update(&change, &always(), Applied).await?;
        let expected = taking(&full_record(trial.now), attribute, &Record::default());
        key.finds(Some(&expected)).await?;
    }
    Ok(())
}

async fn an_update_without_a_record_creates_one(trial: &Trial) -> Check {
    let (key, set) = (trial.key("1"), claim(&owner(1), trial.now));
    let change = Change {
        set: set.clone(),
        remove: vec![Attribute::Failure],
    };
    key.update(&change, &NoRecord, Applied).await?;
    key.finds(Some(&set)).await
}

async fn a_change_that_is_empty_or_removes_what_is_absent_changes_nothing(trial: &Trial) -> Check {
    let key = trial.key("1");
    let absent = removing(&[Attribute::Failure, Attribute::Data]);
    for (record, change) in [
        (full_record(trial.now), Change::default()),
        (claim(&owner(1), trial.now), absent),
    ] {
        key.place(&record).await?;
        key.update(&change, &always(), Applied).await?;
        key.finds(Some(&record)).await?;
    }
    Ok(())
}

async fn a_delete_without_a_record_is_applied_if_its_condition_holds(trial: &Trial) -> Check {
    let key = trial.key("1");
    key.finds(None).await?;
    key.delete(&always(), Applied).await?;
    key.delete(&NoRecord, Applied).await?;
    key.finds(None).await
}

async fn a_deleted_record_is_gone_and_can_be_put_again(trial: &Trial) -> Check {
    let (key, again) = (trial.key("1"), claim(&owner(2), trial.now));
    key.place(&full_record(trial.now)).await?;
    key.delete(&always(), Applied).await?;
    key.finds(None).await?;
    key.put(&again, &NoRecord, Applied).await?;
    key.finds(Some(&again)).await
}

async fn a_record_without_attributes_is_a_record(trial: &Trial) -> Check {
    let (key, empty) = (trial.key("1"), Record::default());
    key.put(&empty, &NoRecord, Applied).await?;
    key.finds(Some(&empty)).await?;
    key.put(&full_record(trial.now), &NoRecord, Refused(Some(&empty)))
        .await
}

async fn a_write_changes_only_one_record(trial: &Trial) -> Check {
    let (one, other) = (trial.key("1"), trial.key("2"));
    let (first, second) = (claim(&owner(1), trial.now), claim(&owner(2), trial.now));
    one.place(&first).await?;
    other.put(&second, &NoRecord, Applied).await?;
    let change = removing(&[Attribute::Owner]);
    other.update(&change, &always(), Applied).await?;
    one.finds(Some(&first)).await?;
    other.delete(&always(), Applied).await?;
    one.finds(Some(&first)).await
}

async fn every_read_sees_the_previous_write(trial: &Trial) -> Check {
    let key = trial.key("1");
    for round in 0..32 {
        let record = claim(&owner(round), trial.at(i64::from(round)));
        key.place(&record).await?;
        let found = key.finds(Some(&record)).await;
        found.map_err(|flaw| flaw.when(format_args!("round {round}")))?;
    }
    key.delete(&always(), Applied).await?;
    key.finds(None).await
}

async fn a_second_store_reads_what_the_first_one_wrote(trial: &Trial) -> Check {
    let (key, record) = (trial.key("1"), full_record(trial.now));
    let another = trial.second_store().await?;
    key.place(&record).await?;
    if read(another.as_ref(), &key.id).await?.as_ref() != Some(&record) {
        return broken("a second store of the factory does not read what the first one wrote");
    }
    let write = another.write(&key.id, Write::Delete, &always()).await;
    check_outcome("a delete", write, Applied)?;
    key.finds(None).await
}

async fn the_store_warms_up_and_has_a_name(trial: &Trial) -> Check {
    let warm = trial.store.warm_up(false).await;
    warm.map_err(|error| Flaw::from(format!("the warm-up failed: {error}")))?;
    if trial.store.name().is_empty() {
        return broken("the name of the store is empty: errors cannot name the store");
    }
    Ok(())
}

/// How often each state is read: a store with several copies may read another copy each time.
const READS: usize = 8;

async fn an_eventual_read_returns_a_state_that_the_record_had(trial: &Trial) -> Check {
    let key = trial.key("1");
    let mut states = vec![None];
    reads_one_of(&key, &states).await?;
    for round in 1..=4 {
        let claimed = claim(&owner(round), trial.at(i64::from(round)));
        key.place(&claimed).await?;
        states.push(Some(claimed.clone()));
        reads_one_of(&key, &states).await?;
        let data = format!("[{round}]");
        let change = completion(&data, trial.second());
        key.update(&change, &always(), Applied).await?;
        states.push(Some(completed(&claimed, &data, trial.second())));
        reads_one_of(&key, &states).await?;
        if round.is_multiple_of(2) {
            key.delete(&always(), Applied).await?;
            reads_one_of(&key, &states).await?;
        }
    }
    Ok(())
}

async fn an_eventual_read_of_an_id_without_a_record_finds_nothing(trial: &Trial) -> Check {
    let (written, unknown) = (trial.key("1"), trial.key("2"));
    written.place(&claim(&owner(1), trial.at(1))).await?;
    reads_one_of(&unknown, &[None]).await
}

/// Checks that each of [`READS`] eventual reads returns one of these states.
async fn reads_one_of(key: &Key<'_>, states: &[Option<Record>]) -> Check {
    for _ in 0..READS {
        let found = key.read_eventually().await?;
        if !states.contains(&found) {
            return broken(format!(
                "an eventual read returned {}, which the record never was",
                shown(found.as_ref())
            ));
        }
    }
    Ok(())
}
