//! Values read back as they were written, and ids that differ in any byte are different records.

use idempotency_core::record::StoredEvent;

use super::super::trial::*;

super::cases![
    every_attribute_reads_back_as_it_was_written,
    unusual_texts_read_back_unchanged,
    responses_such_as_null_and_zero_read_back_unchanged,
    times_read_back_over_their_whole_range,
    a_status_that_this_version_does_not_know_reads_back,
    an_event_reads_back_unchanged_or_not_at_all,
    an_event_that_was_removed_or_replaced_is_gone,
    ids_that_share_their_parts_are_different_records,
    ids_are_compared_byte_by_byte,
    ids_with_unusual_characters_work,
    ids_of_900_bytes_that_differ_at_the_end_are_different_records,
];

/// Checks that `record` reads back after a put, after an update, and from a failed condition.
async fn reads_back(key: &Key<'_>, record: &Record) -> Check {
    key.place(record).await?;
    key.finds(Some(record)).await?;
    key.delete(&never(), Refused(Some(record))).await?;
    key.place(&Record::default()).await?;
    let change = setting(record.clone());
    key.update(&change, &always(), Applied).await?;
    key.finds(Some(record)).await
}

async fn every_attribute_reads_back_as_it_was_written(trial: &Trial) -> Check {
    let key = trial.key("1");
    let whole = full_record(trial.now);
    let without = |attribute| taking(&whole, attribute, &Record::default());
    let others = [
        Record::default(),
        claim(&owner(1), trial.now),
        whole.clone(),
    ];
    for record in compared().map(without).chain(others) {
        reads_back(&key, &record).await?;
    }
    Ok(())
}

async fn unusual_texts_read_back_unchanged(trial: &Trial) -> Check {
    let key = trial.key("1");
    for text in [
        // Present and empty.
        "",
        " ",
        " a  b ",
        "\t\r\n",
        "\u{0}a\u{0}",
        "\u{1}\u{1f}\u{7f}\u{80}\u{9f}",
        "\"'`\\/&<>%+;:,{}[]()$#?=*",
        "\\u0041\\n\\\\",
        "é and e\u{301}",
        "日本語 русский עברית",
        "👩‍👩‍👧‍👦 \u{10ffff}",
        "\u{feff}bom \u{2028}\u{2029}\u{fffd}\u{ffff}",
        "NULL",
        "1e5",
        "{{x}} ${x} :v0 #n",
    ] {
        let back = reads_back(&key, &Record::read(&mut Alike::of(text))).await;
        back.map_err(|flaw| flaw.when(format_args!("the text {text:?}")))?;
    }
    Ok(())
}

async fn responses_such_as_null_and_zero_read_back_unchanged(trial: &Trial) -> Check {
    let key = trial.key("1");
    for response in [
        "0", "-0", "0.0", "false", "\"\"", "[]", "{}", "null", " 1 ", "1.50", "1e400",
    ] {
        let record = with_response(full_record(trial.now), response);
        let back = reads_back(&key, &record).await;
        back.map_err(|flaw| flaw.when(format_args!("the response {response}")))?;
    }
    Ok(())
}

async fn times_read_back_over_their_whole_range(trial: &Trial) -> Check {
    let key = trial.key("1");
    // Beyond `edge` a double has no odd number.
    let (edge, max) = (1_i64 << 53, i64::MAX);
    let usual = [1_000_000_000_000, 1_700_000_000_123];
    let extreme = [0, 1, -1, edge + 1, !edge, max, max - 1, !max];
    for time in usual.into_iter().chain(extreme) {
        let record = Record {
            expiration: Field::Value(EpochSeconds::new(time)),
            in_progress_expiration: Field::Value(EpochMillis::new(time)),
            ..Record::default()
        };
        let back = reads_back(&key, &record).await;
        back.map_err(|flaw| flaw.when(format_args!("the time {time}")))?;
    }
    Ok(())
}

async fn a_status_that_this_version_does_not_know_reads_back(trial: &Trial) -> Check {
    let key = trial.key("1");
    for status in ["EXPIRED", "inprogress", "completed", "COMPLETED "] {
        let status = Field::Value(Status::Other(status.to_owned()));
        reads_back(&key, &with(full_record(trial.now), |it| it.status = status)).await?;
    }
    Ok(())
}

/// Ends a case about events as skipped if the store keeps no events.
async fn keeps_events(trial: &Trial) -> Check {
    let kept = trial.store.warm_up(true).await;
    kept.map_err(|error| match error.kind() {
        StoreErrorKind::NotEncrypted => Flaw::NotOffered("the store keeps no events"),
        _ => Flaw::from(format!("the warm-up failed: {error}")),
    })
}

/// Checks that the record is `expected`, with its event or without one: no call reads an event, so a store may leave it out.
async fn has_event_or_none(key: &Key<'_>, expected: &Record) -> Check {
    let found = key.read().await?;
    let without = with(expected.clone(), |it| it.event = Field::Absent);
    if found.as_ref() != Some(expected) && found.as_ref() != Some(&without) {
        let (expected, found) = (shown(Some(expected)), shown(found.as_ref()));
        return broken(format!(
            "expected {expected}, with its event or without one; found {found}"
        ));
    }
    Ok(())
}

async fn an_event_reads_back_unchanged_or_not_at_all(trial: &Trial) -> Check {
    keeps_events(trial).await?;
    let key = trial.key("1");
    let complete = |it: &mut Record| it.status = Field::Value(Status::Completed);
    let longest = format!("\"{}\"", "é".repeat(StoredEvent::LONGEST / 2 - 1));
    for event in [
        StoredEvent::all(r#" {"card": "4242"}"#),
        StoredEvent::selected("7"),
        StoredEvent::all(&longest),
    ] {
        let record = with(claim(&owner(1), trial.now), |it| it.event = event.into());
        key.place(&record).await?;
        has_event_or_none(&key, &record).await?;
        // A completion keeps it.
        let set = with_response(with(Record::default(), complete), "7");
        key.update(&setting(set), &always(), Applied).await?;
        has_event_or_none(&key, &with_response(with(record, complete), "7")).await?;
    }
    Ok(())
}

async fn an_event_that_was_removed_or_replaced_is_gone(trial: &Trial) -> Check {
    keeps_events(trial).await?;
    let (key, without) = (trial.key("1"), claim(&owner(1), trial.now));
    let with = |event: Option<StoredEvent>| with(without.clone(), |it| it.event = event.into());
    key.place(&with(StoredEvent::all("7"))).await?;
    let change = removing(&[Attribute::Event]);
    key.update(&change, &always(), Applied).await?;
    key.finds(Some(&without)).await?;
    key.place(&with(StoredEvent::all("8"))).await?;
    key.place(&without).await?;
    key.finds(Some(&without)).await
}

/// Checks that each id has its own record: it is claimed once, read back, and deleted without the others.
async fn distinct(trial: &Trial, names: &[&str]) -> Check {
    let keys = (1_u8..).zip(names);
    let keys: Vec<_> = keys
        .map(|(number, name)| {
            let record = claim(&owner(number), trial.at(i64::from(number)));
            (trial.key(name), record)
        })
        .collect();
    for (key, record) in &keys {
        let put = key.put(record, &NoRecord, Applied).await;
        put.map_err(|flaw| flaw.when(format_args!("the id {:?}", key.id)))?;
    }
    for (key, record) in &keys {
        let found = key.finds(Some(record)).await;
        found.map_err(|flaw| flaw.when(format_args!("the id {:?}", key.id)))?;
        let again = claim(&owner(255), trial.now);
        key.put(&again, &NoRecord, Refused(Some(record))).await?;
    }
    for (index, (key, _)) in keys.iter().enumerate() {
        key.delete(&always(), Applied).await?;
        key.finds(None).await?;
        if let Some((next, record)) = keys.get(index + 1) {
            next.finds(Some(record)).await?;
        }
    }
    Ok(())
}

async fn ids_that_share_their_parts_are_different_records(trial: &Trial) -> Check {
    let names = [
        "a.f#1", "a.f#2", "a.g#1", "a#f#1", "a.f#1#", "a.f##1", "#a.f#1", "a.f", "1", "a.f#",
        "a.f#10",
    ];
    distinct(trial, &names).await
}

async fn ids_are_compared_byte_by_byte(trial: &Trial) -> Check {
    let names = "a|A|a | a|0010|10|1e1|é|e\u{301}|É|ａ|a\u{200b}";
    distinct(trial, &names.split('|').collect::<Vec<_>>()).await
}

async fn ids_with_unusual_characters_work(trial: &Trial) -> Check {
    let names = [
        "a b\tc\nd\re",
        "\u{1}\u{1f}\u{7f}",
        "\"'`\\",
        "../..//?x=%2F&y=+;",
        "{}[]()<>|*$^~!@,:",
        "日本語.русский.עברית",
        "👩‍👩‍👧‍👦\u{10ffff}",
        "%",
        "_",
        "*",
        "a%",
        "a_",
        "a*",
        "ab",
    ];
    distinct(trial, &names).await
}

async fn ids_of_900_bytes_that_differ_at_the_end_are_different_records(trial: &Trial) -> Check {
    let long = "k".repeat(900);
    distinct(trial, &[&long, &format!("{long}1"), &format!("{long}2")]).await
}
