//! Records of other programs: a store reads them attribute by attribute, and evaluates conditions on them.

use std::collections::BTreeMap;

use idempotency_core::protocol::condition::held_by;

use super::super::factory::{ForeignRecord, ForeignValue as Value};
use super::super::trial::*;

super::cases![
    a_foreign_record_reads_with_and_without_each_attribute,
    an_attribute_of_a_wrong_type_is_present_and_unreadable,
    a_response_in_native_types_reads_as_its_json_text,
    unknown_attributes_are_ignored,
    times_with_fractions_are_compared_exactly_and_read_rounded_down,
    a_foreign_record_can_be_claimed_as_its_attributes_say,
    a_foreign_claim_without_our_owner_is_never_completed_or_released,
    a_claim_replaces_the_whole_foreign_record,
];

/// Returns the record of a Python function: all attributes except those that only this framework writes.
fn python(trial: &Trial) -> ForeignRecord {
    foreign(Record {
        expiration: Field::Value(trial.second()),
        in_progress_expiration: Field::Value(trial.now),
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new("{\"a\": 1}")),
        validation: Field::Value("c4ca".to_owned()),
        ..Record::default()
    })
}

/// Returns a record as another program writes it, without steps.
fn foreign(record: Record) -> ForeignRecord {
    let columns = record.fields().filter_map(|(attribute, value)| {
        let value = match value {
            FieldValue::Seconds(at) => Value::number(at.get()),
            FieldValue::Millis(at) => Value::number(at.get()),
            FieldValue::Text(text) => Value::text(text),
            FieldValue::Data(data) => Value::text(data.as_str()),
            FieldValue::Steps(_) | FieldValue::Event(_) => return None,
        };
        Some((attribute.default_name().to_owned(), value))
    });
    ForeignRecord {
        attributes: columns.collect(),
        reads_as: record,
    }
}

/// Returns what a store reads if every attribute has a wrong type.
fn unreadable() -> Record {
    Record::read(&mut Alike {
        number: Field::Unreadable,
        text: Field::Unreadable,
        steps: Field::Unreadable,
    })
}

/// Returns the same record with one attribute missing or of a wrong type.
fn spoiled(foreign: &ForeignRecord, attribute: Attribute, wrong: Option<Value>) -> ForeignRecord {
    let spoil = match wrong {
        Some(_) => unreadable(),
        None => Record::default(),
    };
    let mut spoiled = ForeignRecord {
        reads_as: taking(&foreign.reads_as, attribute, &spoil),
        ..foreign.clone()
    };
    spoiled.attributes.remove(attribute.default_name());
    match wrong {
        Some(value) => spoiled.with(attribute, value),
        None => spoiled,
    }
}

/// Checks that a read and a failed condition both return the record.
async fn reads(trial: &Trial, foreign: &ForeignRecord) -> Check {
    let (key, record) = (trial.key("1"), &foreign.reads_as);
    key.plant(foreign).await?;
    let found = key.finds(Some(record)).await;
    found.map_err(|flaw| flaw.when(format_args!("{:?}", foreign.attributes)))?;
    key.delete(&never(), Refused(Some(record))).await
}

async fn a_foreign_record_reads_with_and_without_each_attribute(trial: &Trial) -> Check {
    let python = python(trial);
    let ours = foreign(with(full_record(trial.now), |it| it.steps = Field::Absent));
    reads(trial, &python).await?;
    reads(trial, &ours).await?;
    for attribute in compared() {
        reads(trial, &spoiled(&ours, attribute, None)).await?;
    }
    reads(trial, &foreign(Record::default())).await
}

/// Returns, for each attribute, values of a wrong type.
fn wrong_types() -> impl Iterator<Item = (Attribute, Value)> {
    let full = full_record(EpochMillis::new(0));
    let list = |value| Value::List(vec![value]);
    let wrong = move |attribute| match full.field(attribute).value() {
        Some(FieldValue::Seconds(_) | FieldValue::Millis(_)) => {
            vec![
                Value::text("1700000000"),
                Value::Null,
                Value::Bool(true),
                list(Value::number(1)),
            ]
        }
        Some(FieldValue::Text(text)) => {
            let map = Value::Map(BTreeMap::new());
            vec![
                Value::number(1),
                Value::Null,
                Value::Bool(false),
                list(Value::text(text)),
                map,
            ]
        }
        Some(FieldValue::Steps(_)) => {
            let numbers = Value::Map([("reserve".to_owned(), Value::number(7))].into());
            vec![Value::text("reserve"), numbers]
        }
        // The response can have any other type.
        Some(FieldValue::Data(_)) | Some(FieldValue::Event(_)) | None => {
            vec![Value::Bytes(vec![0, 255])]
        }
    };
    compared()
        .flat_map(move |attribute| wrong(attribute).into_iter().map(move |it| (attribute, it)))
}

async fn an_attribute_of_a_wrong_type_is_present_and_unreadable(trial: &Trial) -> Check {
    for (attribute, wrong) in wrong_types() {
        reads(trial, &spoiled(&python(trial), attribute, Some(wrong))).await?;
    }
    Ok(())
}

async fn a_response_in_native_types_reads_as_its_json_text(trial: &Trial) -> Check {
    let list = Value::List(vec![Value::number("1.5"), Value::text("é\"")]);
    let map = Value::Map([("n".to_owned(), list)].into());
    let digits = "12345678901234567890.5";
    for (native, text) in [
        (Value::number(0), "0"),
        (Value::number(digits), digits),
        (Value::Bool(false), "false"),
        (Value::Null, "null"),
        (Value::List(Vec::new()), "[]"),
        (Value::Map(BTreeMap::new()), "{}"),
        (map, "{\"n\":[1.5,\"é\\\"\"]}"),
    ] {
        let mut foreign = python(trial).with(Attribute::Data, native);
        foreign.reads_as.data = Field::Value(Data::new(text));
        reads(trial, &foreign).await?;
    }
    Ok(())
}

async fn unknown_attributes_are_ignored(trial: &Trial) -> Check {
    let foreign = python(trial)
        .with_unknown("Status", Value::text("INPROGRESS"))
        .with_unknown("region", Value::text("eu-west-1"));
    reads(trial, &foreign).await
}

async fn times_with_fractions_are_compared_exactly_and_read_rounded_down(trial: &Trial) -> Check {
    let (second, milli) = (trial.second().get(), trial.now.get());
    for (fraction, step, live) in [(".999", 0, true), (".001", 0, true), (".999", -1, false)] {
        let expiration = second + step;
        let expires = Value::number(format!("{expiration}{fraction}"));
        let lease = Value::number(format!("{milli}{fraction}"));
        let mut foreign = python(trial)
            .with(Attribute::Expiration, expires)
            .with(Attribute::InProgressExpiration, lease);
        foreign.reads_as.expiration = Field::Value(EpochSeconds::new(expiration));
        reads(trial, &foreign).await?;
        claims(trial, &foreign, OnTimeout::Rerun, !live).await?;
    }
    Ok(())
}

/// Checks that a claim replaces the foreign record if `applied` is true, and otherwise is refused.
async fn claims(trial: &Trial, foreign: &ForeignRecord, policy: OnTimeout, applied: bool) -> Check {
    let (key, mine) = (trial.key("1"), claim(&owner(1), trial.at(30_000)));
    let existing = &foreign.reads_as;
    key.plant(foreign).await?;
    let expected = expected(applied, Some(existing));
    let condition = claimable(trial.now, policy);
    let put = key.put(&mine, &condition, expected).await;
    let over = shown(Some(existing));
    put.map_err(|flaw| flaw.when(format_args!("a claim under {policy:?} over {over}")))?;
    let left = if applied { &mine } else { existing };
    key.finds(Some(left)).await
}

async fn a_foreign_record_can_be_claimed_as_its_attributes_say(trial: &Trial) -> Check {
    use Attribute::{Expiration, Failure, InProgressExpiration as Lease, Status as State};
    use OnTimeout::{Hold, Rerun};
    let (second, milli) = (trial.second().get(), trial.now.get());
    let at = |status: Status, expiration: i64, lease: i64| {
        let mut foreign = python(trial)
            .with(State, Value::text(status.as_str()))
            .with(Expiration, Value::number(expiration))
            .with(Lease, Value::number(lease));
        foreign.reads_as.status = Field::Value(status);
        foreign.reads_as.expiration = Field::Value(EpochSeconds::new(expiration));
        foreign.reads_as.in_progress_expiration = Field::Value(EpochMillis::new(lease));
        foreign
    };
    let completed = at(Status::Completed, second - 1, milli + 1);
    let running = at(Status::InProgress, second + 60, milli - 1);
    let expired = at(Status::InProgress, second - 1, 0);
    let without = |foreign: &ForeignRecord, attribute| spoiled(foreign, attribute, None);
    let wrong =
        |foreign: &ForeignRecord, attribute, value| spoiled(foreign, attribute, Some(value));
    for (foreign, rerun, hold) in [
        (completed.clone(), true, true),
        (at(Status::Completed, second, milli - 1), false, false),
        (running.clone(), true, false),
        (at(Status::InProgress, second + 60, milli), false, false),
        // A time that is missing or of a wrong type never counts as expired.
        (without(&completed, Expiration), false, false),
        (
            wrong(&completed, Expiration, Value::text("0")),
            false,
            false,
        ),
        (without(&running, Lease), false, false),
        (wrong(&running, Lease, Value::text("0")), false, false),
        (wrong(&running, Expiration, Value::Null), true, false),
        // A record without a readable status is not in progress.
        (without(&running, State), false, false),
        (wrong(&running, State, Value::number(1)), false, false),
        (without(&completed, State), true, true),
        (wrong(&completed, State, Value::Bool(true)), true, true),
        // An expired claim is still live while its lease runs; it is claimable without a lease; an unreadable lease counts as running.
        (at(Status::InProgress, second - 1, milli), false, false),
        (without(&expired, Lease), true, false),
        (wrong(&expired, Lease, Value::Null), false, false),
        // A failure makes a claim claimable if the attribute is present, even with a wrong type.
        (wrong(&running, Failure, Value::Bool(false)), true, true),
    ] {
        claims(trial, &foreign, Rerun, rerun).await?;
        claims(trial, &foreign, Hold, hold).await?;
    }
    Ok(())
}

async fn a_foreign_claim_without_our_owner_is_never_completed_or_released(trial: &Trial) -> Check {
    let key = trial.key("1");
    let mut running = python(trial).with(Attribute::Status, Value::text("INPROGRESS"));
    running.reads_as.status = Field::Value(Status::InProgress);
    for foreign in [
        running.clone(),
        spoiled(&running, Attribute::Owner, Some(Value::Null)),
        spoiled(&running, Attribute::Owner, Some(Value::number(10))),
    ] {
        key.plant(&foreign).await?;
        for token in [owner(1), OwnerToken::from_record("10".to_owned())] {
            let (fence, expected) = (held_by(&token), Refused(Some(&foreign.reads_as)));
            key.update(&completion("1", trial.second()), &fence, expected)
                .await?;
            key.delete(&fence, expected).await?;
        }
        key.finds(Some(&foreign.reads_as)).await?;
    }
    Ok(())
}

async fn a_claim_replaces_the_whole_foreign_record(trial: &Trial) -> Check {
    for (attribute, wrong) in wrong_types() {
        if attribute == Attribute::Expiration {
            continue;
        }
        let foreign = spoiled(&python(trial), attribute, Some(wrong));
        let mut foreign = foreign.with(Attribute::Expiration, Value::number(0));
        foreign.reads_as.expiration = Field::Value(EpochSeconds::new(0));
        claims(trial, &foreign, OnTimeout::Rerun, true).await?;
    }
    Ok(())
}
