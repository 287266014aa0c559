//! Every condition against every kind of record: a store judges as [`Condition::holds`] does.

use idempotency_core::protocol::condition::{Condition, Operand, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, Record, Status};
use idempotency_core::store::Change;
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::super::trial::{
    Checked, Expected, Trial, always, claim, completed, never, owner, whole,
};

super::cases![
    a_put_judges_every_condition_as_specified,
    an_update_judges_every_condition_as_specified,
    a_delete_judges_every_condition_as_specified,
    of_the_comparisons_with_a_missing_attribute_only_differs_holds,
    all_of_nothing_holds_and_any_of_nothing_does_not,
    texts_are_compared_byte_by_byte,
];

const ATTRIBUTES: [Attribute; 8] = [
    Attribute::Expiration,
    Attribute::InProgressExpiration,
    Attribute::Status,
    Attribute::Data,
    Attribute::Validation,
    Attribute::Owner,
    Attribute::Failure,
    Attribute::Operation,
];

fn text(text: &str) -> Operand {
    Operand::Text(text.to_owned())
}

/// One record of each kind that the protocol makes, some that it does not, and none.
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
    // Units that do not belong together are never compared.
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
    // Without the parentheses each of these means something else.
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

/// What a write on `condition` must come to where `there` is.
fn expected<'a>(condition: &Condition, there: Option<&'a Record>) -> Expected<'a> {
    if condition.holds(there) {
        Expected::Applied
    } else {
        Expected::Refused(there)
    }
}

async fn a_put_judges_every_condition_as_specified(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for there in records(trial) {
        let there = there.as_ref();
        trial.arrange(&id, there).await?;
        let same = there.cloned().unwrap_or_default();
        for condition in conditions(trial) {
            let expected = expected(&condition, there);
            let put = trial.put(&id, &same, &condition, expected).await;
            put.map_err(|flaw| flaw.when(format_args!("{condition:?}")))?;
            if there.is_none() {
                trial.arrange(&id, None).await?;
            }
        }
        trial.finds(&id, there).await?;
    }
    Ok(())
}

async fn an_update_judges_every_condition_as_specified(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for there in records(trial) {
        let there = there.as_ref();
        trial.arrange(&id, there).await?;
        let change = Change {
            set: there.cloned().unwrap_or_default(),
            remove: Vec::new(),
        };
        for condition in conditions(trial) {
            let expected = expected(&condition, there);
            let update = trial.update(&id, &change, &condition, expected).await;
            update.map_err(|flaw| flaw.when(format_args!("{condition:?}")))?;
            if there.is_none() {
                trial.arrange(&id, None).await?;
            }
        }
        trial.finds(&id, there).await?;
    }
    Ok(())
}

async fn a_delete_judges_every_condition_as_specified(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for there in records(trial) {
        let there = there.as_ref();
        trial.arrange(&id, there).await?;
        for condition in conditions(trial) {
            let expected = expected(&condition, there);
            let delete = trial.delete(&id, &condition, expected).await;
            delete.map_err(|flaw| flaw.when(format_args!("{condition:?}")))?;
            if there.is_some() && matches!(expected, Expected::Applied) {
                trial.arrange(&id, there).await?;
            }
        }
        trial.finds(&id, there).await?;
    }
    Ok(())
}

async fn of_the_comparisons_with_a_missing_attribute_only_differs_holds(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for there in [None, Some(Record::default())] {
        let there = there.as_ref();
        trial.arrange(&id, there).await?;
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
                    .delete(&id, &condition, Expected::Refused(there))
                    .await?;
            }
            for condition in [
                Condition::Differs(attribute, operand),
                Condition::Missing(attribute),
            ] {
                trial.delete(&id, &condition, Expected::Applied).await?;
                trial.arrange(&id, there).await?;
            }
        }
    }
    Ok(())
}

async fn all_of_nothing_holds_and_any_of_nothing_does_not(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for there in [None, Some(whole(trial.now))] {
        let there = there.as_ref();
        trial.arrange(&id, there).await?;
        trial
            .delete(&id, &never(), Expected::Refused(there))
            .await?;
        trial.delete(&id, &always(), Expected::Applied).await?;
    }
    Ok(())
}

async fn texts_are_compared_byte_by_byte(trial: &Trial) -> Checked {
    let id = trial.id("1");
    // In order of their UTF-8: no collation, no numbers, no UTF-16.
    let texts = [
        "", "\u{1}", " ", "10", "9", "A", "a", "a ", "e\u{301}", "z", "é", "\u{ffee}", "😀",
    ];
    for (index, there) in texts.iter().enumerate() {
        let there = Record {
            data: Field::Value(Data::new(*there)),
            ..Record::default()
        };
        trial.place(&id, &there).await?;
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
                    Expected::Refused(Some(&there))
                };
                let put = trial.put(&id, &there, &condition, expected).await;
                put.map_err(|flaw| flaw.when(format_args!("{condition:?} of text {index}")))?;
            }
        }
    }
    let status = |text: &str| Status::from_record(text.to_owned());
    let there = Record {
        status: Field::Value(status("COMPLETED")),
        ..Record::default()
    };
    trial.place(&id, &there).await?;
    let below = Condition::Below(Attribute::Status, text("INPROGRESS"));
    trial.put(&id, &there, &below, Expected::Applied).await
}
