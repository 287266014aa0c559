//! Every condition against every kind of record: a store evaluates conditions as [`Condition::holds`] does. A write whose condition
//! fails changes nothing, and returns the record that its condition was evaluated on.

use idempotency_core::protocol::condition::Operand;

use super::super::trial::*;

super::cases![
    a_put_evaluates_every_condition_as_specified,
    an_update_evaluates_every_condition_as_specified,
    a_delete_evaluates_every_condition_as_specified,
    only_differs_holds_for_an_absent_attribute,
    an_empty_all_holds_and_an_empty_any_does_not,
    texts_are_compared_byte_by_byte,
    a_write_whose_condition_fails_changes_nothing_and_returns_the_record,
    a_failed_condition_without_a_record_returns_none_and_creates_none,
    a_failed_condition_returns_the_last_written_record,
];

fn text(text: &str) -> Operand {
    Operand::Text(text.to_owned().into())
}

fn seconds(seconds: i64) -> Operand {
    Operand::Seconds(EpochSeconds::new(seconds))
}

fn millis(millis: i64) -> Operand {
    Operand::Millis(EpochMillis::new(millis))
}

/// Returns one record of each kind that the protocol writes, some that it does not write, and no record.
fn records(trial: &Trial) -> Vec<Option<Record>> {
    let claimed = claim(&owner(1), trial.at(1));
    let second = trial.second();
    vec![
        None,
        Some(Record::default()),
        Some(completed(&claimed, "0", second)),
        Some(with(claim(&owner(1), trial.at(-1)), |it| {
            it.owner = Field::Absent
        })),
        Some(with(claimed.clone(), |it| {
            it.in_progress_expiration = Field::Absent
        })),
        Some(with(claimed.clone(), |it| {
            it.failure = Field::Value(String::new())
        })),
        Some(claimed),
        Some(Record {
            expiration: Field::Absent,
            status: Field::Absent,
            ..full_record(trial.now)
        }),
        Some(with(full_record(trial.now), |it| {
            it.expiration = Field::Value(second)
        })),
    ]
}

fn conditions(trial: &Trial) -> Vec<Condition> {
    use Condition::{All, Any, Below, Differs, Equals, Exists, Missing, NoRecord};
    let (second, now) = (trial.second().get(), trial.now.get());
    let full = full_record(trial.now);
    let mut all = vec![NoRecord, always(), never()];
    for attribute in compared() {
        all.extend([Exists(attribute), Missing(attribute)]);
        let operands = match full.field(attribute).value() {
            Some(FieldValue::Seconds(_)) => [-1, 0, 1].map(|step| seconds(second + step)).to_vec(),
            Some(FieldValue::Millis(_)) => [-1, 0, 1, 2].map(|step| millis(now + step)).to_vec(),
            Some(FieldValue::Data(_)) => vec![text("0"), text("1")],
            _ if attribute == Attribute::Status => vec![text("INPROGRESS"), text("COMPLETED")],
            _ if attribute == Attribute::Owner => vec![text(owner(1).as_str()), text("")],
            _ => vec![text("Timeout"), text("")],
        };
        for operand in operands {
            all.push(Equals(attribute, operand.clone()));
            all.push(Differs(attribute, operand.clone()));
            all.push(Below(attribute, operand));
        }
    }
    // An attribute is never compared with an operand of another unit.
    for (attribute, operand) in [
        (Attribute::Expiration, millis(i64::MAX)),
        (Attribute::InProgressExpiration, seconds(i64::MAX)),
        (Attribute::Expiration, text("9")),
        (Attribute::Owner, millis(i64::MAX)),
    ] {
        all.push(Below(attribute, operand.clone()));
        all.push(Differs(attribute, operand));
    }
    for policy in [OnTimeout::Rerun, OnTimeout::Hold] {
        all.extend([-1_000, 0, 2, 3_602_000].map(|step| claimable(trial.at(step), policy)));
    }
    all.extend([held_by_owner(1), held_by_owner(9)]);
    let missing = || Missing(Attribute::Owner);
    let status = || Equals(Attribute::Status, text("COMPLETED"));
    let fresh = || Below(Attribute::Expiration, seconds(second));
    // Each of these has another meaning without its parentheses.
    all.extend([
        All(vec![Any(vec![missing(), status()]), fresh()]),
        Any(vec![All(vec![missing(), fresh()]), status()]),
        All(vec![missing(), Any(vec![fresh(), status()])]),
        Any(vec![
            Any(vec![missing()]),
            All(vec![All(vec![status(), NoRecord])]),
        ]),
        All(vec![always(), Any(vec![never(), status()])]),
        Any(vec![NoRecord, Exists(Attribute::Failure)]),
    ]);
    all
}

/// One of the writes that have a condition.
#[derive(Clone, Copy)]
enum Kind {
    Put,
    Update,
    Delete,
}

/// Sends this write with every condition to every record. After a write that changed the record, the record is restored.
async fn every_condition(trial: &Trial, kind: Kind) -> Check {
    let key = trial.key("1");
    for existing in records(trial) {
        let existing = existing.as_ref();
        key.arrange(existing).await?;
        let same = existing.cloned().unwrap_or_default();
        let change = setting(same.clone());
        for condition in conditions(trial) {
            let holds = condition.holds(existing);
            let expected = expected(holds, existing);
            let written = match kind {
                Kind::Put => key.put(&same, &condition, expected).await,
                Kind::Update => key.update(&change, &condition, expected).await,
                Kind::Delete => key.delete(&condition, expected).await,
            };
            written.map_err(|flaw| flaw.when(format_args!("{condition:?}")))?;
            if holds && matches!(kind, Kind::Delete) == existing.is_some() {
                key.arrange(existing).await?;
            }
        }
        key.finds(existing).await?;
    }
    Ok(())
}

async fn a_put_evaluates_every_condition_as_specified(trial: &Trial) -> Check {
    every_condition(trial, Kind::Put).await
}

async fn an_update_evaluates_every_condition_as_specified(trial: &Trial) -> Check {
    every_condition(trial, Kind::Update).await
}

async fn a_delete_evaluates_every_condition_as_specified(trial: &Trial) -> Check {
    every_condition(trial, Kind::Delete).await
}

async fn only_differs_holds_for_an_absent_attribute(trial: &Trial) -> Check {
    let (key, full) = (trial.key("1"), full_record(trial.now));
    for existing in [None, Some(Record::default())] {
        let existing = existing.as_ref();
        key.arrange(existing).await?;
        for attribute in compared() {
            let operand = match full.field(attribute).value() {
                Some(FieldValue::Seconds(_)) => seconds(i64::MAX),
                Some(FieldValue::Millis(_)) => millis(i64::MAX),
                _ => text("~"),
            };
            for condition in [
                Condition::Equals(attribute, operand.clone()),
                Condition::Below(attribute, operand.clone()),
                Condition::Exists(attribute),
            ] {
                key.delete(&condition, Refused(existing)).await?;
            }
            for condition in [
                Condition::Differs(attribute, operand),
                Condition::Missing(attribute),
            ] {
                key.delete(&condition, Applied).await?;
                key.arrange(existing).await?;
            }
        }
    }
    Ok(())
}

async fn an_empty_all_holds_and_an_empty_any_does_not(trial: &Trial) -> Check {
    let key = trial.key("1");
    for existing in [None, Some(full_record(trial.now))] {
        let existing = existing.as_ref();
        key.arrange(existing).await?;
        key.delete(&never(), Refused(existing)).await?;
        key.delete(&always(), Applied).await?;
    }
    Ok(())
}

const DATA: Attribute = Attribute::Data;

async fn texts_are_compared_byte_by_byte(trial: &Trial) -> Check {
    let key = trial.key("1");
    // Ordered by their UTF-8 bytes: not by a collation, by numeric value or by UTF-16.
    let texts = [
        "", "\u{1}", " ", "10", "9", "A", "a", "a ", "e\u{301}", "z", "é", "\u{ffee}", "😀",
    ];
    for (index, existing) in texts.iter().enumerate() {
        let existing = with_response(Record::default(), *existing);
        key.place(&existing).await?;
        for (other, operand) in texts.iter().enumerate() {
            let operand = text(operand);
            for (condition, holds) in [
                (Condition::Equals(DATA, operand.clone()), index == other),
                (Condition::Differs(DATA, operand.clone()), index != other),
                (Condition::Below(DATA, operand), index < other),
            ] {
                let expected = expected(holds, Some(&existing));
                let put = key.put(&existing, &condition, expected).await;
                put.map_err(|flaw| flaw.when(format_args!("{condition:?} of text {index}")))?;
            }
        }
    }
    let existing = with(Record::default(), |it| {
        it.status = Field::Value(Status::Completed);
    });
    key.place(&existing).await?;
    let below = Condition::Below(Attribute::Status, text("INPROGRESS"));
    key.put(&existing, &below, Applied).await
}

async fn a_write_whose_condition_fails_changes_nothing_and_returns_the_record(
    trial: &Trial,
) -> Check {
    let (key, new) = (trial.key("1"), claim(&owner(2), trial.now));
    let change = Change {
        set: new.clone(),
        remove: vec![Attribute::Failure],
    };
    let large = with_response(full_record(trial.now), "é".repeat(150 * 1024));
    for existing in [full_record(trial.now), large] {
        let refused = Refused(Some(&existing));
        key.place(&existing).await?;
        key.put(&new, &NoRecord, refused).await?;
        key.finds(Some(&existing)).await?;
        key.update(&change, &held_by_owner(2), refused).await?;
        key.finds(Some(&existing)).await?;
        key.delete(&held_by_owner(2), refused).await?;
        key.finds(Some(&existing)).await?;
    }
    Ok(())
}

async fn a_failed_condition_without_a_record_returns_none_and_creates_none(trial: &Trial) -> Check {
    let (key, mine) = (trial.key("1"), held_by_owner(1));
    let record = claim(&owner(1), trial.now);
    key.put(&record, &mine, Refused(None)).await?;
    key.update(&completion("1", trial.second()), &mine, Refused(None))
        .await?;
    key.delete(&mine, Refused(None)).await?;
    key.delete(&never(), Refused(None)).await?;
    key.finds(None).await
}

async fn a_failed_condition_returns_the_last_written_record(trial: &Trial) -> Check {
    let (key, claimed) = (trial.key("1"), claim(&owner(1), trial.now));
    let other = claim(&owner(2), trial.now);
    key.put(&claimed, &NoRecord, Applied).await?;
    key.put(&other, &NoRecord, Refused(Some(&claimed))).await?;
    let change = completion("[1]", trial.second());
    key.update(&change, &held_by_owner(1), Applied).await?;
    let existing = completed(&claimed, "[1]", trial.second());
    key.put(&other, &NoRecord, Refused(Some(&existing))).await?;
    key.delete(&always(), Applied).await?;
    key.update(&change, &held_by_owner(1), Refused(None))
        .await?;
    key.put(&other, &NoRecord, Applied).await?;
    key.delete(&held_by_owner(1), Refused(Some(&other))).await
}
