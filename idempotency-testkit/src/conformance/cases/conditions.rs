//! Every condition against every kind of record: a store evaluates conditions as [`Condition::holds`] does.

use idempotency_core::protocol::condition::{Condition, Operand, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, Record, Status};
use idempotency_core::store::Change;
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::super::trial::{
    Checked, Expected, Trial, always, claim, completed, never, owner, whole,
};

super::cases![
    a_put_evaluates_every_condition_as_specified,
    an_update_evaluates_every_condition_as_specified,
    a_delete_evaluates_every_condition_as_specified,
    only_differs_holds_for_an_absent_attribute,
    an_empty_all_holds_and_an_empty_any_does_not,
    texts_are_compared_byte_by_byte,
];

const ATTRIBUTES: [Attribute; 10] = [
    Attribute::Expiration,
    Attribute::InProgressExpiration,
    Attribute::Status,
    Attribute::Data,
    Attribute::Validation,
    Attribute::Owner,
    Attribute::Failure,
    Attribute::Operation,
    Attribute::Decision,
    Attribute::Steps,
];

fn text(text: &str) -> Operand {
    Operand::Text(text.to_owned())
}

/// Returns one record of each kind that the protocol writes, some that it does not write, and no record.
fn records(trial: &Trial) -> Vec<Option<Record>> {
    let claimed = claim(&owner(1), trial.at(1));
    let second = trial.second();
    vec![
        None,
        Some(Record::default()),
        Some(completed(&claimed, "0", second)),
        Some(Record {
            owner: Field::Absent,
            ..claim(&owner(1), trial.at(-1))
        }),
        Some(Record {
            in_progress_expiration: Field::Absent,
            ..claimed.clone()
        }),
        Some(Record {
            failure: Field::Value(String::new()),
            ..claimed.clone()
        }),
        Some(claimed),
        Some(Record {
            expiration: Field::Absent,
            status: Field::Absent,
            ..whole(trial.now)
        }),
        Some(Record {
            expiration: Field::Value(second),
            ..whole(trial.now)
        }),
    ]
}

fn conditions(trial: &Trial) -> Vec<Condition> {
    use Condition::{All, Any, Below, Differs, Equals, Exists, Missing, NoRecord};
    let mut all = vec![NoRecord, always(), never()];
    for attribute in ATTRIBUTES {
        all.extend([Exists(attribute), Missing(attribute)]);
        let operands = match attribute {
            Attribute::Expiration => [-1, 0, 1]
                .map(|step| Operand::Seconds(EpochSeconds::new(trial.second().get() + step)))
                .to_vec(),
            Attribute::InProgressExpiration => [-1, 0, 1, 2]
                .map(|step| Operand::Millis(trial.at(step)))
                .to_vec(),
            Attribute::Status => vec![text("INPROGRESS"), text("COMPLETED")],
            Attribute::Owner => vec![text(owner(1).as_str()), text("")],
            Attribute::Data => vec![text("0"), text("1")],
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
        (
            Attribute::Expiration,
            Operand::Millis(EpochMillis::new(i64::MAX)),
        ),
        (
            Attribute::InProgressExpiration,
            Operand::Seconds(EpochSeconds::new(i64::MAX)),
        ),
        (Attribute::Expiration, text("9")),
        (
            Attribute::Owner,
            Operand::Millis(EpochMillis::new(i64::MAX)),
        ),
    ] {
        all.push(Below(attribute, operand.clone()));
        all.push(Differs(attribute, operand));
    }
    for policy in [OnTimeout::Rerun, OnTimeout::Hold] {
        all.extend([-1_000, 0, 2, 3_602_000].map(|step| claimable(trial.at(step), policy)));
    }
    all.extend([held_by(&owner(1)), held_by(&owner(9))]);
    let missing = || Missing(Attribute::Owner);
    let status = || Equals(Attribute::Status, text("COMPLETED"));
    let fresh = || Below(Attribute::Expiration, Operand::Seconds(trial.second()));
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

/// Returns the expected outcome of a write on `condition` if `existing` is stored.
fn expected<'a>(condition: &Condition, existing: Option<&'a Record>) -> Expected<'a> {
    if condition.holds(existing) {
        Expected::Applied
    } else {
        Expected::ConditionFailed(existing)
    }
}

async fn a_put_evaluates_every_condition_as_specified(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for existing in records(trial) {
        let existing = existing.as_ref();
        trial.arrange(&id, existing).await?;
        let same = existing.cloned().unwrap_or_default();
        for condition in conditions(trial) {
            let expected = expected(&condition, existing);
            let put = trial.put(&id, &same, &condition, expected).await;
            put.map_err(|flaw| flaw.when(format_args!("{condition:?}")))?;
            if existing.is_none() {
                trial.arrange(&id, None).await?;
            }
        }
        trial.finds(&id, existing).await?;
    }
    Ok(())
}

async fn an_update_evaluates_every_condition_as_specified(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for existing in records(trial) {
        let existing = existing.as_ref();
        trial.arrange(&id, existing).await?;
        let change = Change {
            set: existing.cloned().unwrap_or_default(),
            remove: Vec::new(),
        };
        for condition in conditions(trial) {
            let expected = expected(&condition, existing);
            let update = trial.update(&id, &change, &condition, expected).await;
            update.map_err(|flaw| flaw.when(format_args!("{condition:?}")))?;
            if existing.is_none() {
                trial.arrange(&id, None).await?;
            }
        }
        trial.finds(&id, existing).await?;
    }
    Ok(())
}

async fn a_delete_evaluates_every_condition_as_specified(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for existing in records(trial) {
        let existing = existing.as_ref();
        trial.arrange(&id, existing).await?;
        for condition in conditions(trial) {
            let expected = expected(&condition, existing);
            let delete = trial.delete(&id, &condition, expected).await;
            delete.map_err(|flaw| flaw.when(format_args!("{condition:?}")))?;
            if existing.is_some() && matches!(expected, Expected::Applied) {
                trial.arrange(&id, existing).await?;
            }
        }
        trial.finds(&id, existing).await?;
    }
    Ok(())
}

async fn only_differs_holds_for_an_absent_attribute(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for existing in [None, Some(Record::default())] {
        let existing = existing.as_ref();
        trial.arrange(&id, existing).await?;
        for attribute in ATTRIBUTES {
            let operand = match attribute {
                Attribute::Expiration => Operand::Seconds(EpochSeconds::new(i64::MAX)),
                Attribute::InProgressExpiration => Operand::Millis(EpochMillis::new(i64::MAX)),
                _ => text("~"),
            };
            for condition in [
                Condition::Equals(attribute, operand.clone()),
                Condition::Below(attribute, operand.clone()),
                Condition::Exists(attribute),
            ] {
                trial
                    .delete(&id, &condition, Expected::ConditionFailed(existing))
                    .await?;
            }
            for condition in [
                Condition::Differs(attribute, operand),
                Condition::Missing(attribute),
            ] {
                trial.delete(&id, &condition, Expected::Applied).await?;
                trial.arrange(&id, existing).await?;
            }
        }
    }
    Ok(())
}

async fn an_empty_all_holds_and_an_empty_any_does_not(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for existing in [None, Some(whole(trial.now))] {
        let existing = existing.as_ref();
        trial.arrange(&id, existing).await?;
        trial
            .delete(&id, &never(), Expected::ConditionFailed(existing))
            .await?;
        trial.delete(&id, &always(), Expected::Applied).await?;
    }
    Ok(())
}

async fn texts_are_compared_byte_by_byte(trial: &Trial) -> Checked {
    let id = trial.id("1");
    // Ordered by their UTF-8 bytes: not by a collation, by numeric value or by UTF-16.
    let texts = [
        "", "\u{1}", " ", "10", "9", "A", "a", "a ", "e\u{301}", "z", "é", "\u{ffee}", "😀",
    ];
    for (index, existing) in texts.iter().enumerate() {
        let existing = Record {
            data: Field::Value(Data::new(*existing)),
            ..Record::default()
        };
        trial.place(&id, &existing).await?;
        for (other, operand) in texts.iter().enumerate() {
            for (condition, holds) in [
                (
                    Condition::Equals(Attribute::Data, text(operand)),
                    index == other,
                ),
                (
                    Condition::Differs(Attribute::Data, text(operand)),
                    index != other,
                ),
                (
                    Condition::Below(Attribute::Data, text(operand)),
                    index < other,
                ),
            ] {
                let expected = if holds {
                    Expected::Applied
                } else {
                    Expected::ConditionFailed(Some(&existing))
                };
                let put = trial.put(&id, &existing, &condition, expected).await;
                put.map_err(|flaw| flaw.when(format_args!("{condition:?} of text {index}")))?;
            }
        }
    }
    let status = |text: &str| Status::from_record(text.to_owned());
    let existing = Record {
        status: Field::Value(status("COMPLETED")),
        ..Record::default()
    };
    trial.place(&id, &existing).await?;
    let below = Condition::Below(Attribute::Status, text("INPROGRESS"));
    trial.put(&id, &existing, &below, Expected::Applied).await
}
