//! The fence around completions and releases: a record is its owner's alone, and only while it is in progress.

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{Condition, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Field, Record, Status};
use idempotency_core::store::Change;

use super::super::trial::{
    Checked, Expected, Trial, always, answer, claim, completed, owner, whole,
};

super::cases![
    a_claim_is_completed_by_its_owner_alone,
    a_claim_is_released_by_its_owner_alone,
    a_completed_record_is_held_by_nobody,
    a_claim_without_owner_or_status_is_held_by_nobody,
    owners_are_compared_whole_and_to_the_letter,
    an_evicted_claim_is_held_by_nobody,
    a_completion_that_is_sent_again_is_refused_with_its_own_record,
    a_recorded_failure_gives_up_the_claim_and_frees_it_under_every_policy,
    an_owner_whose_claim_was_taken_over_changes_nothing,
];

/// Neither a completion nor a release by `mine` is applied to `there`.
async fn fenced(trial: &Trial, there: Option<&Record>, mine: &OwnerToken) -> Checked {
    let id = trial.id("1");
    trial.arrange(&id, there).await?;
    let (fence, expected) = (held_by(mine), Expected::Refused(there));
    let update = trial
        .update(&id, &answer("2", trial.second()), &fence, expected)
        .await;
    update.map_err(|flaw| flaw.when(format_args!("a completion by {mine:?}")))?;
    let delete = trial.delete(&id, &fence, expected).await;
    delete.map_err(|flaw| flaw.when(format_args!("a release by {mine:?}")))?;
    trial.finds(&id, there).await
}

async fn a_claim_is_completed_by_its_owner_alone(trial: &Trial) -> Checked {
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.at(30_000)));
    fenced(trial, Some(&mine), &owner(2)).await?;
    let change = answer("[1]", trial.second());
    trial
        .update(&id, &change, &held_by(&owner(1)), Expected::Applied)
        .await?;
    trial
        .finds(&id, Some(&completed(&mine, "[1]", trial.second())))
        .await
}

async fn a_claim_is_released_by_its_owner_alone(trial: &Trial) -> Checked {
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.at(30_000)));
    fenced(trial, Some(&mine), &owner(2)).await?;
    trial
        .delete(&id, &held_by(&owner(1)), Expected::Applied)
        .await?;
    trial.finds(&id, None).await
}

async fn a_completed_record_is_held_by_nobody(trial: &Trial) -> Checked {
    fenced(trial, Some(&whole(trial.now)), &owner(9)).await
}

async fn a_claim_without_owner_or_status_is_held_by_nobody(trial: &Trial) -> Checked {
    let mine = claim(&owner(1), trial.now);
    let ownerless = Record {
        owner: Field::Absent,
        ..mine.clone()
    };
    fenced(trial, Some(&ownerless), &owner(1)).await?;
    fenced(
        trial,
        Some(&ownerless),
        &OwnerToken::from_record(String::new()),
    )
    .await?;
    let without_status = Record {
        status: Field::Absent,
        ..mine.clone()
    };
    fenced(trial, Some(&without_status), &owner(1)).await?;
    let status = Field::Value(Status::Other("inprogress".to_owned()));
    fenced(trial, Some(&Record { status, ..mine }), &owner(1)).await?;
    fenced(trial, Some(&Record::default()), &owner(1)).await
}

async fn owners_are_compared_whole_and_to_the_letter(trial: &Trial) -> Checked {
    let token = |text: &str| OwnerToken::from_record(text.to_owned());
    let there = claim(&token("abcdef01"), trial.now);
    for near in [
        "abcdef0",
        "abcdef012",
        "ABCDEF01",
        "bcdef01",
        " abcdef01",
        "abcdef01 ",
        "",
    ] {
        fenced(trial, Some(&there), &token(near)).await?;
    }
    // Digits are text: no number is made of them.
    let there = claim(&token("0010"), trial.now);
    for near in ["10", "010", "0010.0", "1e1"] {
        fenced(trial, Some(&there), &token(near)).await?;
    }
    Ok(())
}

async fn an_evicted_claim_is_held_by_nobody(trial: &Trial) -> Checked {
    trial
        .place(&trial.id("1"), &claim(&owner(1), trial.now))
        .await?;
    fenced(trial, None, &owner(1)).await
}

async fn a_completion_that_is_sent_again_is_refused_with_its_own_record(trial: &Trial) -> Checked {
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.now));
    let (change, fence) = (answer("[1]", trial.second()), held_by(&owner(1)));
    trial.place(&id, &mine).await?;
    trial
        .update(&id, &change, &fence, Expected::Applied)
        .await?;
    let there = completed(&mine, "[1]", trial.second());
    trial
        .update(&id, &change, &fence, Expected::Refused(Some(&there)))
        .await?;
    trial.finds(&id, Some(&there)).await
}

async fn a_recorded_failure_gives_up_the_claim_and_frees_it_under_every_policy(
    trial: &Trial,
) -> Checked {
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.at(30_000)));
    let failure = Change {
        set: Record {
            failure: Field::Value("Timeout".to_owned()),
            in_progress_expiration: Field::Value(trial.now),
            ..Record::default()
        },
        remove: vec![Attribute::Owner],
    };
    let failed = Record {
        failure: failure.set.failure.clone(),
        in_progress_expiration: Field::Value(trial.now),
        owner: Field::Absent,
        ..mine.clone()
    };
    for policy in [OnTimeout::Rerun, OnTimeout::Hold] {
        trial.place(&id, &mine).await?;
        trial
            .update(&id, &failure, &held_by(&owner(1)), Expected::Applied)
            .await?;
        trial.finds(&id, Some(&failed)).await?;
        trial
            .delete(&id, &held_by(&owner(1)), Expected::Refused(Some(&failed)))
            .await?;
        let next = claim(&owner(2), trial.at(60_000));
        trial
            .put(
                &id,
                &next,
                &claimable(trial.at(1), policy),
                Expected::Applied,
            )
            .await?;
        trial.finds(&id, Some(&next)).await?;
        trial.delete(&id, &always(), Expected::Applied).await?;
    }
    Ok(())
}

async fn an_owner_whose_claim_was_taken_over_changes_nothing(trial: &Trial) -> Checked {
    let (id, late) = (trial.id("1"), claim(&owner(1), trial.at(-1)));
    trial
        .put(&id, &late, &Condition::NoRecord, Expected::Applied)
        .await?;
    let winner = claim(&owner(2), trial.at(30_000));
    let take_over = claimable(trial.now, OnTimeout::Rerun);
    trial
        .put(&id, &winner, &take_over, Expected::Applied)
        .await?;
    let (change, fence) = (answer("[1]", trial.second()), held_by(&owner(1)));
    trial
        .update(&id, &change, &fence, Expected::Refused(Some(&winner)))
        .await?;
    trial
        .delete(&id, &fence, Expected::Refused(Some(&winner)))
        .await?;
    let answered = answer("[2]", trial.second());
    trial
        .update(&id, &answered, &held_by(&owner(2)), Expected::Applied)
        .await?;
    let there = completed(&winner, "[2]", trial.second());
    trial
        .update(&id, &change, &fence, Expected::Refused(Some(&there)))
        .await?;
    trial
        .delete(&id, &fence, Expected::Refused(Some(&there)))
        .await?;
    trial.finds(&id, Some(&there)).await
}
