//! The results of steps: each is added to those before it, under the fence, and a takeover keeps them.

use idempotency_core::protocol::condition::{replaceable, takeover};
use idempotency_core::record::RecordedSteps;

use super::super::trial::*;

super::cases![
    a_step_is_added_beside_the_others_or_replaces_its_result,
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
    with(claim(&owner(1), trial.at(30_000)), |it| {
        it.steps = steps(all)
    })
}

async fn a_step_is_added_beside_the_others_or_replaces_its_result(trial: &Trial) -> Check {
    let (key, fence) = (trial.key("1"), held_by_owner(1));
    key.place(&mine(trial, &[])).await?;
    key.step("b", "[1]", &fence, Applied).await?;
    key.finds(Some(&mine(trial, &[("b", "[1]")]))).await?;
    key.step("a", "{}", &fence, Applied).await?;
    let both = mine(trial, &[("a", "{}"), ("b", "[1]")]);
    key.finds(Some(&both)).await?;
    key.step("a", "3", &fence, Applied).await?;
    let replaced = mine(trial, &[("a", "3"), ("b", "[1]")]);
    key.finds(Some(&replaced)).await
}

async fn any_text_is_the_name_of_a_step(trial: &Trial) -> Check {
    let (key, fence) = (trial.key("1"), held_by_owner(1));
    key.place(&mine(trial, &[])).await?;
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
        key.step(name, "1", &fence, Applied).await?;
    }
    let all = names.map(|name| (name, "1"));
    key.finds(Some(&mine(trial, &all))).await
}

async fn a_step_is_refused_if_its_fence_does_not_hold(trial: &Trial) -> Check {
    let (key, mine) = (trial.key("1"), mine(trial, &[("a", "1")]));
    let (fence, refused) = (held_by_owner(2), Refused(Some(&mine)));
    key.place(&mine).await?;
    key.step("a", "2", &fence, refused).await?;
    key.step("b", "2", &fence, refused).await?;
    key.finds(Some(&mine)).await?;
    key.delete(&always(), Applied).await?;
    let fence = held_by_owner(1);
    key.step("b", "2", &fence, Refused(None)).await?;
    key.finds(None).await
}

async fn a_step_of_a_record_without_steps_changes_nothing(trial: &Trial) -> Check {
    let (key, without) = (trial.key("1"), claim(&owner(1), trial.now));
    key.place(&without).await?;
    let step = Write::Step {
        name: "a".to_owned(),
        result: Data::new("1"),
    };
    let written = trial.store.write(&key.id, step, &held_by_owner(1)).await;
    let StoreReply::Failed {
        maybe_applied: false,
        ..
    } = written
    else {
        return broken(format!(
            "a step of a record without steps had the outcome {written:?}"
        ));
    };
    key.finds(Some(&without)).await
}

async fn an_update_keeps_steps_and_removes_them_if_it_says_so(trial: &Trial) -> Check {
    let (key, fence) = (trial.key("1"), held_by_owner(1));
    let existing = mine(trial, &[("a", "1")]);
    key.place(&existing).await?;
    let mut change = setting(with(Record::default(), |it| {
        it.failure = Field::Value("Timeout".to_owned());
    }));
    key.update(&change, &fence, Applied).await?;
    let failed = with(existing, |it| it.failure = change.set.failure.clone());
    key.finds(Some(&failed)).await?;
    change.remove.push(Attribute::Steps);
    key.update(&change, &fence, Applied).await?;
    let without = with(failed, |it| it.steps = Field::Absent);
    key.finds(Some(&without)).await
}

async fn a_put_replaces_all_steps(trial: &Trial) -> Check {
    let key = trial.key("1");
    for next in [
        mine(trial, &[]),
        mine(trial, &[("b", "2")]),
        claim(&owner(1), trial.now),
    ] {
        key.place(&mine(trial, &[("a", "1")])).await?;
        key.place(&next).await?;
        key.finds(Some(&next)).await?;
    }
    Ok(())
}

async fn a_claim_does_not_replace_steps_within_their_window(trial: &Trial) -> Check {
    let key = trial.key("1");
    let next = with(claim(&owner(2), trial.at(60_000)), |it| {
        it.steps = steps(&[])
    });
    let killed = |all| Record {
        in_progress_expiration: Field::Value(trial.at(-1)),
        failure: Field::Value("Timeout".to_owned()),
        ..mine(trial, all)
    };
    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
        let condition = replaceable(trial.now, on_timeout);
        for existing in [killed(&[]), killed(&[("a", "1")])] {
            key.place(&existing).await?;
            let refused = Refused(Some(&existing));
            key.put(&next, &condition, refused).await?;
        }
        let without = with(killed(&[]), |it| it.steps = Field::Absent);
        let mut expired = killed(&[("a", "1")]);
        expired.expiration = Field::Value(trial.at(-1_000).floor_to_seconds());
        for existing in [without, expired] {
            key.place(&existing).await?;
            key.put(&next, &condition, Applied).await?;
            key.finds(Some(&next)).await?;
        }
    }
    Ok(())
}

/// Returns the change that a takeover by owner 2 makes.
fn takeover_change(trial: &Trial) -> Change {
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
fn takeover_of(read: &Record) -> Check<Condition> {
    let validation = read.validation.value().map(String::as_str);
    match takeover(read, validation, OnTimeout::Rerun) {
        Some(condition) => Ok(condition),
        None => broken("the record of the case cannot be taken over"),
    }
}

async fn a_takeover_keeps_a_step_that_was_recorded_after_the_record_was_read(
    trial: &Trial,
) -> Check {
    let (key, read) = (trial.key("1"), mine(trial, &[]));
    key.place(&read).await?;
    let fence = held_by_owner(1);
    key.step("a", "1", &fence, Applied).await?;
    let change = takeover_change(trial);
    key.update(&change, &takeover_of(&read)?, Applied).await?;
    let taken_over = Record {
        in_progress_expiration: change.set.in_progress_expiration,
        owner: change.set.owner,
        ..mine(trial, &[("a", "1")])
    };
    key.finds(Some(&taken_over)).await?;
    let late = Refused(Some(&taken_over));
    key.step("b", "2", &fence, late).await
}

async fn a_takeover_of_another_claim_than_the_one_that_was_read_is_refused(trial: &Trial) -> Check {
    let (key, read) = (trial.key("1"), mine(trial, &[("a", "1")]));
    let (change, condition) = (takeover_change(trial), takeover_of(&read)?);
    let with = |differs: fn(&mut Record, &Trial)| with(read.clone(), |it| differs(it, trial));
    for existing in [
        with(|record, _| record.owner = Field::Value(owner(3))),
        with(|record, _| record.owner = Field::Absent),
        with(|record, trial| record.in_progress_expiration = Field::Value(trial.at(30_001))),
        with(|record, _| record.in_progress_expiration = Field::Absent),
        with(|record, _| record.validation = Field::Value("other".to_owned())),
        with(|record, _| record.status = Field::Value(Status::Completed)),
    ] {
        key.place(&existing).await?;
        let refused = Refused(Some(&existing));
        key.update(&change, &condition, refused).await?;
    }
    let freed = with(|record, _| record.owner = Field::Absent);
    key.place(&freed).await?;
    key.update(&change, &takeover_of(&freed)?, Applied).await?;
    key.place(&read).await?;
    let refused = Refused(Some(&read));
    key.update(&change, &takeover_of(&freed)?, refused).await
}
