//! Values read back as they were written.

use idempotency_core::owner::OwnerToken;
use idempotency_core::record::{Attribute, Data, Field, Record, RecordId, Status, StoredEvent};
use idempotency_core::store::Change;
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::super::trial::{
    Checked, Expected, Flaw, Trial, always, broken, claim, never, owner, read, shown, whole,
};

super::cases![
    every_attribute_reads_back_as_it_was_written,
    empty_texts_read_back_as_present_and_empty,
    unusual_texts_read_back_unchanged,
    responses_such_as_null_and_zero_read_back_unchanged,
    data_of_300_kb_reads_back,
    times_read_back_over_their_whole_range,
    a_status_that_this_version_does_not_know_reads_back,
    an_event_reads_back_unchanged_or_not_at_all,
    an_event_that_was_removed_or_replaced_is_gone,
];

/// Checks that `record` reads back after a put, after an update, and from a failed condition.
async fn reads_back(trial: &Trial, id: &RecordId, record: &Record) -> Checked {
    trial.place(id, record).await?;
    trial.finds(id, Some(record)).await?;
    trial
        .delete(id, &never(), Expected::ConditionFailed(Some(record)))
        .await?;
    trial.place(id, &Record::default()).await?;
    let change = Change {
        set: record.clone(),
        remove: Vec::new(),
    };
    trial
        .update(id, &change, &always(), Expected::Applied)
        .await?;
    trial.finds(id, Some(record)).await
}

/// Returns a record whose text attributes all have this text.
fn of_text(text: &str) -> Record {
    let owned = || text.to_owned();
    Record {
        status: Field::Value(Status::from_record(owned())),
        data: Field::Value(Data::new(text)),
        validation: Field::Value(owned()),
        owner: Field::Value(OwnerToken::from_record(owned())),
        failure: Field::Value(owned()),
        operation: Field::Value(owned()),
        decision: Field::Value(owned()),
        ..Record::default()
    }
}

async fn every_attribute_reads_back_as_it_was_written(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for record in [
        Record::default(),
        claim(&owner(1), trial.now),
        whole(trial.now),
        Record {
            expiration: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            in_progress_expiration: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            status: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            data: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            validation: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            owner: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            failure: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            operation: Field::Absent,
            ..whole(trial.now)
        },
        Record {
            decision: Field::Absent,
            ..whole(trial.now)
        },
    ] {
        reads_back(trial, &id, &record).await?;
    }
    Ok(())
}

async fn empty_texts_read_back_as_present_and_empty(trial: &Trial) -> Checked {
    reads_back(trial, &trial.id("1"), &of_text("")).await
}

async fn unusual_texts_read_back_unchanged(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for text in [
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
        let back = reads_back(trial, &id, &of_text(text)).await;
        back.map_err(|flaw| flaw.when(format_args!("the text {text:?}")))?;
    }
    Ok(())
}

async fn responses_such_as_null_and_zero_read_back_unchanged(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for response in [
        "0", "-0", "0.0", "false", "\"\"", "[]", "{}", "null", " 1 ", "1.50", "1e400",
    ] {
        let record = Record {
            data: Field::Value(Data::new(response)),
            ..whole(trial.now)
        };
        let back = reads_back(trial, &id, &record).await;
        back.map_err(|flaw| flaw.when(format_args!("the response {response}")))?;
    }
    Ok(())
}

async fn data_of_300_kb_reads_back(trial: &Trial) -> Checked {
    let data = Field::Value(Data::new("0123456789abcdef".repeat(300 * 64)));
    reads_back(
        trial,
        &trial.id("1"),
        &Record {
            data,
            ..whole(trial.now)
        },
    )
    .await
}

async fn times_read_back_over_their_whole_range(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let double = 1_i64 << 53;
    for time in [
        0,
        1,
        -1,
        1_000_000_000_000,
        1_700_000_000_123,
        double + 1,
        -double - 1,
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
    ] {
        let record = Record {
            expiration: Field::Value(EpochSeconds::new(time)),
            in_progress_expiration: Field::Value(EpochMillis::new(time)),
            ..Record::default()
        };
        let back = reads_back(trial, &id, &record).await;
        back.map_err(|flaw| flaw.when(format_args!("the time {time}")))?;
    }
    Ok(())
}

async fn a_status_that_this_version_does_not_know_reads_back(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for status in ["EXPIRED", "inprogress", "completed", "COMPLETED "] {
        let status = Field::Value(Status::Other(status.to_owned()));
        reads_back(
            trial,
            &id,
            &Record {
                status,
                ..whole(trial.now)
            },
        )
        .await?;
    }
    Ok(())
}

/// Refuses a case about events if the store may not keep any.
async fn keeps_events(trial: &Trial) -> Checked {
    let kept = trial.store.check_events().await;
    kept.map_err(|_| Flaw::NotOffered("the store keeps no events (`Store::check_events`)"))
}

/// Checks that the record of `id` is `expected`, with its event or without one: no call reads it, so a store may leave it out.
async fn has_event_or_none(trial: &Trial, id: &RecordId, expected: &Record) -> Checked {
    let found = read(trial.store.as_ref(), id).await?;
    let without = Record {
        event: None,
        ..expected.clone()
    };
    if found.as_ref() != Some(expected) && found.as_ref() != Some(&without) {
        let (expected, found) = (shown(Some(expected)), shown(found.as_ref()));
        return broken(format!(
            "expected {expected}, with its event or without one; found {found}"
        ));
    }
    Ok(())
}

async fn an_event_reads_back_unchanged_or_not_at_all(trial: &Trial) -> Checked {
    keeps_events(trial).await?;
    let id = trial.id("1");
    let longest = format!("\"{}\"", "é".repeat(StoredEvent::LONGEST / 2 - 1));
    for event in [
        StoredEvent::all(r#" {"card": "4242"}"#),
        StoredEvent::selected("7"),
        StoredEvent::all(&longest),
    ] {
        let record = Record {
            event,
            ..claim(&owner(1), trial.now)
        };
        trial.place(&id, &record).await?;
        has_event_or_none(trial, &id, &record).await?;
        // A completion keeps it.
        let change = Change {
            set: Record {
                status: Field::Value(Status::Completed),
                data: Field::Value(Data::new("7")),
                ..Record::default()
            },
            remove: Vec::new(),
        };
        trial
            .update(&id, &change, &always(), Expected::Applied)
            .await?;
        let completed = Record {
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new("7")),
            ..record
        };
        has_event_or_none(trial, &id, &completed).await?;
    }
    Ok(())
}

async fn an_event_that_was_removed_or_replaced_is_gone(trial: &Trial) -> Checked {
    keeps_events(trial).await?;
    let (id, without) = (trial.id("1"), claim(&owner(1), trial.now));
    let with = |event| Record {
        event,
        ..without.clone()
    };
    trial.place(&id, &with(StoredEvent::all("7"))).await?;
    let change = Change {
        set: Record::default(),
        remove: vec![Attribute::Event],
    };
    trial
        .update(&id, &change, &always(), Expected::Applied)
        .await?;
    trial.finds(&id, Some(&without)).await?;
    trial.place(&id, &with(StoredEvent::all("8"))).await?;
    trial.place(&id, &without).await?;
    trial.finds(&id, Some(&without)).await
}
