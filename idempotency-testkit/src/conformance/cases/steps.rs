//! The results of steps: each is added to those before it, under the fence, and a takeover keeps them.

use idempotency_core::protocol::condition::{Condition, held_by, replaceable, takeover};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, Record, RecordedSteps};
use idempotency_core::store::{Change, StoreReply, Write};

use super::super::trial::{Checked, Expected, Trial, always, broken, claim, owner};
use crate::store::StoreExt;

super::cases![
    a_step_is_added_beside_those_before_it,
    a_step_of_the_same_name_replaces_the_result,
    any_text_is_the_name_of_a_step,
    a_step_is_refused_if_its_fence_does_not_hold,
    a_step_of_a_record_without_steps_changes_nothing,
    an_update_keeps_steps_and_removes_them_if_it_says_so,
    a_put_replaces_all_steps,
    a_claim_does_not_replace_steps_within_their_window,
    a_takeover_keeps_a_step_that_was_recorded_after_the_record_was_read,
    a_takeover_of_another_claim_than_the_one_that_was_read_is_refused,
];

fn steps(all: &[(&str, &str)]) -> Field<RecordedSteps> {
    let all = all.iter();
    Field::Value(
        all.map(|(name, result)| ((*name).to_owned(), Data::new(*result)))
            .collect(),
    )
}

/// Returns a claim of owner 1 with these steps, whose lease ends in 30 s.
fn mine(trial: &Trial, all: &[(&str, &str)]) -> Record {
    Record {
        steps: steps(all),
        ..claim(&owner(1), trial.at(30_000))
    }
}

async fn a_step_is_added_beside_those_before_it(trial: &Trial) -> Checked {
    let (id, fence) = (trial.id("1"), held_by(&owner(1)));
    trial.place(&id, &mine(trial, &[])).await?;
    trial
        .step(&id, "b", "[1]", &fence, Expected::Applied)
        .await?;
    trial
        .finds(&id, Some(&mine(trial, &[("b", "[1]")])))
        .await?;
    trial
        .step(&id, "a", "{}", &fence, Expected::Applied)
        .await?;
    let both = mine(trial, &[("a", "{}"), ("b", "[1]")]);
    trial.finds(&id, Some(&both)).await
}

async fn a_step_of_the_same_name_replaces_the_result(trial: &Trial) -> Checked {
    let (id, fence) = (trial.id("1"), held_by(&owner(1)));
    trial
        .place(&id, &mine(trial, &[("a", "1"), ("b", "2")]))
        .await?;
    trial.step(&id, "a", "3", &fence, Expected::Applied).await?;
    let replaced = mine(trial, &[("a", "3"), ("b", "2")]);
    trial.finds(&id, Some(&replaced)).await
}

async fn any_text_is_the_name_of_a_step(trial: &Trial) -> Checked {
    let (id, fence) = (trial.id("1"), held_by(&owner(1)));
    trial.place(&id, &mine(trial, &[])).await?;
    let longest = "n".repeat(128);
    let names = [
        "a.b",
        "a[0]",
        "#a",
        ":a",
        "steps",
        "SET",
        " ",
        "größe 1",
        "\"",
        "\\",
        &longest,
    ];
    for name in names {
        trial
            .step(&id, name, "1", &fence, Expected::Applied)
            .await?;
    }
    let all = names.map(|name| (name, "1"));
    trial.finds(&id, Some(&mine(trial, &all))).await
}

async fn a_step_is_refused_if_its_fence_does_not_hold(trial: &Trial) -> Checked {
    let (id, mine) = (trial.id("1"), mine(trial, &[("a", "1")]));
    let (fence, refused) = (held_by(&owner(2)), Expected::ConditionFailed(Some(&mine)));
    trial.place(&id, &mine).await?;
    trial.step(&id, "a", "2", &fence, refused).await?;
    trial.step(&id, "b", "2", &fence, refused).await?;
    trial.finds(&id, Some(&mine)).await?;
    trial.delete(&id, &always(), Expected::Applied).await?;
    let fence = held_by(&owner(1));
    trial
        .step(&id, "b", "2", &fence, Expected::ConditionFailed(None))
        .await?;
    trial.finds(&id, None).await
}

async fn a_step_of_a_record_without_steps_changes_nothing(trial: &Trial) -> Checked {
    let (id, without) = (trial.id("1"), claim(&owner(1), trial.now));
    trial.place(&id, &without).await?;
    let step = Write::Step {
        name: "a".to_owned(),
        result: Data::new("1"),
    };
    let written = trial.store.write(&id, step, &held_by(&owner(1))).await;
    let StoreReply::Failed {
        maybe_applied: false,
        ..
    } = written
    else {
        return broken(format!(
            "a step of a record without steps had the outcome {written:?}"
        ));
    };
    trial.finds(&id, Some(&without)).await
}

async fn an_update_keeps_steps_and_removes_them_if_it_says_so(trial: &Trial) -> Checked {
    let (id, fence) = (trial.id("1"), held_by(&owner(1)));
    let existing = mine(trial, &[("a", "1")]);
    trial.place(&id, &existing).await?;
    let mut change = Change {
        set: Record {
            failure: Field::Value("Timeout".to_owned()),
            ..Record::default()
        },
        remove: Vec::new(),
    };
    trial
        .update(&id, &change, &fence, Expected::Applied)
        .await?;
    let failed = Record {
        failure: change.set.failure.clone(),
        ..existing
    };
    trial.finds(&id, Some(&failed)).await?;
    change.remove.push(Attribute::Steps);
    trial
        .update(&id, &change, &fence, Expected::Applied)
        .await?;
    let without = Record {
        steps: Field::Absent,
        ..failed
    };
    trial.finds(&id, Some(&without)).await
}

async fn a_put_replaces_all_steps(trial: &Trial) -> Checked {
    let id = trial.id("1");
    for next in [
        mine(trial, &[]),
        mine(trial, &[("b", "2")]),
        claim(&owner(1), trial.now),
    ] {
        trial.place(&id, &mine(trial, &[("a", "1")])).await?;
        trial.place(&id, &next).await?;
        trial.finds(&id, Some(&next)).await?;
    }
    Ok(())
}

async fn a_claim_does_not_replace_steps_within_their_window(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let next = Record {
        steps: steps(&[]),
        ..claim(&owner(2), trial.at(60_000))
    };
    let killed = |all| Record {
        in_progress_expiration: Field::Value(trial.at(-1)),
        failure: Field::Value("Timeout".to_owned()),
        ..mine(trial, all)
    };
    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
        let condition = replaceable(trial.now, on_timeout);
        for existing in [killed(&[]), killed(&[("a", "1")])] {
            trial.place(&id, &existing).await?;
            let refused = Expected::ConditionFailed(Some(&existing));
            trial.put(&id, &next, &condition, refused).await?;
        }
        let without = Record {
            steps: Field::Absent,
            ..killed(&[])
        };
        let mut expired = killed(&[("a", "1")]);
        expired.expiration = Field::Value(trial.at(-1_000).floor_to_seconds());
        for existing in [without, expired] {
            trial.place(&id, &existing).await?;
            trial.put(&id, &next, &condition, Expected::Applied).await?;
            trial.finds(&id, Some(&next)).await?;
        }
    }
    Ok(())
}

/// Returns what a takeover by owner 2 sets and removes.
fn taking_over(trial: &Trial) -> Change {
    Change {
        set: Record {
            in_progress_expiration: Field::Value(trial.at(60_000)),
            owner: Field::Value(owner(2)),
            ..Record::default()
        },
        remove: vec![Attribute::Failure],
    }
}

/// Returns the condition of a takeover of this record.
fn of(read: &Record) -> Checked<Condition> {
    let validation = read.validation.value().map(String::as_str);
    match takeover(read, validation, OnTimeout::Rerun) {
        Some(condition) => Ok(condition),
        None => broken("the record of the case cannot be taken over"),
    }
}

async fn a_takeover_keeps_a_step_that_was_recorded_after_the_record_was_read(
    trial: &Trial,
) -> Checked {
    let (id, read) = (trial.id("1"), mine(trial, &[]));
    trial.place(&id, &read).await?;
    let fence = held_by(&owner(1));
    trial.step(&id, "a", "1", &fence, Expected::Applied).await?;
    let change = taking_over(trial);
    trial
        .update(&id, &change, &of(&read)?, Expected::Applied)
        .await?;
    let taken_over = Record {
        in_progress_expiration: change.set.in_progress_expiration,
        owner: change.set.owner,
        ..mine(trial, &[("a", "1")])
    };
    trial.finds(&id, Some(&taken_over)).await?;
    let late = Expected::ConditionFailed(Some(&taken_over));
    trial.step(&id, "b", "2", &fence, late).await
}

async fn a_takeover_of_another_claim_than_the_one_that_was_read_is_refused(
    trial: &Trial,
) -> Checked {
    let (id, read) = (trial.id("1"), mine(trial, &[("a", "1")]));
    let (change, condition) = (taking_over(trial), of(&read)?);
    let with = |differs: fn(&mut Record, &Trial)| {
        let mut record = read.clone();
        differs(&mut record, trial);
        record
    };
    for existing in [
        with(|record, _| record.owner = Field::Value(owner(3))),
        with(|record, _| record.owner = Field::Absent),
        with(|record, trial| record.in_progress_expiration = Field::Value(trial.at(30_001))),
        with(|record, _| record.in_progress_expiration = Field::Absent),
        with(|record, _| record.validation = Field::Value("other".to_owned())),
        with(|record, _| record.status = Field::Value(idempotency_core::record::Status::Completed)),
    ] {
        trial.place(&id, &existing).await?;
        let refused = Expected::ConditionFailed(Some(&existing));
        trial.update(&id, &change, &condition, refused).await?;
    }
    let released = with(|record, _| record.owner = Field::Absent);
    trial.place(&id, &released).await?;
    trial
        .update(&id, &change, &of(&released)?, Expected::Applied)
        .await?;
    trial.place(&id, &read).await?;
    let refused = Expected::ConditionFailed(Some(&read));
    trial.update(&id, &change, &of(&released)?, refused).await
}
