//! The fence of completions and releases: only the owner changes a claim, and only while it is in progress.

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{Condition, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Field, Record, Status};
use idempotency_core::store::Change;

use super::super::trial::{
    Checked, Expected, Trial, always, claim, completed, completion, owner, whole,
};

super::cases![
    only_its_owner_completes_a_claim,
    only_its_owner_releases_a_claim,
    a_completed_record_has_no_holder,
    a_claim_without_owner_or_status_has_no_holder,
    owners_are_compared_byte_by_byte,
    an_evicted_claim_has_no_holder,
    a_completion_that_is_sent_again_fails_and_returns_its_own_record,
    a_recorded_failure_makes_the_claim_claimable_under_every_policy,
    an_owner_whose_claim_was_taken_over_changes_nothing,
];

/// Checks that neither a completion nor a release by `mine` is applied to `existing`.
async fn fenced(trial: &Trial, existing: Option<&Record>, mine: &OwnerToken) -> Checked {
    let id = trial.id("1");
    trial.arrange(&id, existing).await?;
    let (fence, expected) = (held_by(mine), Expected::ConditionFailed(existing));
    let update = trial
        .update(&id, &completion("2", trial.second()), &fence, expected)
        .await;
    update.map_err(|flaw| flaw.when(format_args!("a completion by {mine:?}")))?;
    let delete = trial.delete(&id, &fence, expected).await;
    delete.map_err(|flaw| flaw.when(format_args!("a release by {mine:?}")))?;
    trial.finds(&id, existing).await
}

async fn only_its_owner_completes_a_claim(trial: &Trial) -> Checked {
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.at(30_000)));
    fenced(trial, Some(&mine), &owner(2)).await?;
    let change = completion("[1]", trial.second());
    trial
        .update(&id, &change, &held_by(&owner(1)), Expected::Applied)
        .await?;
    trial
        .finds(&id, Some(&completed(&mine, "[1]", trial.second())))
        .await
}

async fn only_its_owner_releases_a_claim(trial: &Trial) -> Checked {
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.at(30_000)));
    fenced(trial, Some(&mine), &owner(2)).await?;
    trial
        .delete(&id, &held_by(&owner(1)), Expected::Applied)
        .await?;
    trial.finds(&id, None).await
}

async fn a_completed_record_has_no_holder(trial: &Trial) -> Checked {
    fenced(trial, Some(&whole(trial.now)), &owner(9)).await
}

async fn a_claim_without_owner_or_status_has_no_holder(trial: &Trial) -> Checked {
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

async fn owners_are_compared_byte_by_byte(trial: &Trial) -> Checked {
    let token = |text: &str| OwnerToken::from_record(text.to_owned());
    let existing = claim(&token("abcdef01"), trial.now);
    for near in [
        "abcdef0",
        "abcdef012",
        "ABCDEF01",
        "bcdef01",
        " abcdef01",
        "abcdef01 ",
        "",
    ] {
        fenced(trial, Some(&existing), &token(near)).await?;
    }
    // Digits are text and are not compared as numbers.
    let existing = claim(&token("0010"), trial.now);
    for near in ["10", "010", "0010.0", "1e1"] {
        fenced(trial, Some(&existing), &token(near)).await?;
    }
    Ok(())
}

async fn an_evicted_claim_has_no_holder(trial: &Trial) -> Checked {
    trial
        .place(&trial.id("1"), &claim(&owner(1), trial.now))
        .await?;
    fenced(trial, None, &owner(1)).await
}

async fn a_completion_that_is_sent_again_fails_and_returns_its_own_record(
    trial: &Trial,
) -> Checked {
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.now));
    let (change, fence) = (completion("[1]", trial.second()), held_by(&owner(1)));
    trial.place(&id, &mine).await?;
    trial
        .update(&id, &change, &fence, Expected::Applied)
        .await?;
    let existing = completed(&mine, "[1]", trial.second());
    trial
        .update(
            &id,
            &change,
            &fence,
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    trial.finds(&id, Some(&existing)).await
}

async fn a_recorded_failure_makes_the_claim_claimable_under_every_policy(trial: &Trial) -> Checked {
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
            .delete(
                &id,
                &held_by(&owner(1)),
                Expected::ConditionFailed(Some(&failed)),
            )
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
    let (change, fence) = (completion("[1]", trial.second()), held_by(&owner(1)));
    trial
        .update(
            &id,
            &change,
            &fence,
            Expected::ConditionFailed(Some(&winner)),
        )
        .await?;
    trial
        .delete(&id, &fence, Expected::ConditionFailed(Some(&winner)))
        .await?;
    let second = completion("[2]", trial.second());
    trial
        .update(&id, &second, &held_by(&owner(2)), Expected::Applied)
        .await?;
    let existing = completed(&winner, "[2]", trial.second());
    trial
        .update(
            &id,
            &change,
            &fence,
            Expected::ConditionFailed(Some(&existing)),
        )
        .await?;
    trial
        .delete(&id, &fence, Expected::ConditionFailed(Some(&existing)))
        .await?;
    trial.finds(&id, Some(&existing)).await
}
