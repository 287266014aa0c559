//! The fence of completions and releases: only the owner changes a claim, and only while it is in progress. Writes that arrive after
//! their caller gave up are rejected by their own condition.

use idempotency_core::protocol::condition::held_by;
use idempotency_core::protocol::policy::OnTimeout::{Hold, Rerun};

use super::super::trial::*;

super::cases![
    only_its_owner_completes_or_releases_a_claim,
    what_is_no_claim_in_progress_has_no_holder,
    owners_are_compared_byte_by_byte,
    a_completion_that_is_sent_again_fails_and_returns_its_own_record,
    a_recorded_failure_makes_the_claim_claimable_under_every_policy,
    an_owner_whose_claim_was_taken_over_changes_nothing,
    a_late_claim_is_rejected_by_the_time_in_its_condition,
    a_claim_that_arrives_after_a_release_is_applied,
    a_late_restored_completion_does_not_replace_the_next_claim,
    a_write_whose_reply_is_lost_is_reported_as_maybe_applied,
];

/// Checks that neither a completion nor a release by `mine` is applied to `existing`.
async fn fenced(trial: &Trial, existing: Option<&Record>, mine: &OwnerToken) -> Check {
    let key = trial.key("1");
    key.arrange(existing).await?;
    let (fence, expected) = (held_by(mine), Refused(existing));
    let change = completion("2", trial.second());
    let update = key.update(&change, &fence, expected).await;
    update.map_err(|flaw| flaw.when(format_args!("a completion by {mine:?}")))?;
    let delete = key.delete(&fence, expected).await;
    delete.map_err(|flaw| flaw.when(format_args!("a release by {mine:?}")))?;
    key.finds(existing).await
}

async fn only_its_owner_completes_or_releases_a_claim(trial: &Trial) -> Check {
    let (key, mine) = (trial.key("1"), claim(&owner(1), trial.at(30_000)));
    fenced(trial, Some(&mine), &owner(2)).await?;
    let change = completion("[1]", trial.second());
    key.update(&change, &held_by_owner(1), Applied).await?;
    let existing = completed(&mine, "[1]", trial.second());
    key.finds(Some(&existing)).await?;
    key.place(&mine).await?;
    key.delete(&held_by_owner(1), Applied).await?;
    key.finds(None).await
}

async fn what_is_no_claim_in_progress_has_no_holder(trial: &Trial) -> Check {
    // A completed record, and an evicted claim.
    fenced(trial, Some(&full_record(trial.now)), &owner(9)).await?;
    let mine = claim(&owner(1), trial.now);
    trial.key("1").place(&mine).await?;
    fenced(trial, None, &owner(1)).await?;
    // A record without an owner, or with another status.
    let ownerless = with(mine.clone(), |it| it.owner = Field::Absent);
    fenced(trial, Some(&ownerless), &owner(1)).await?;
    let empty = OwnerToken::from_record(String::new());
    fenced(trial, Some(&ownerless), &empty).await?;
    let other = Field::Value(Status::Other("inprogress".to_owned()));
    for status in [Field::Absent, other] {
        let existing = with(mine.clone(), |it| it.status = status);
        fenced(trial, Some(&existing), &owner(1)).await?;
    }
    fenced(trial, Some(&Record::default()), &owner(1)).await
}

async fn owners_are_compared_byte_by_byte(trial: &Trial) -> Check {
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

async fn a_completion_that_is_sent_again_fails_and_returns_its_own_record(trial: &Trial) -> Check {
    let (key, mine) = (trial.key("1"), claim(&owner(1), trial.now));
    let (change, fence) = (completion("[1]", trial.second()), held_by_owner(1));
    key.place(&mine).await?;
    key.update(&change, &fence, Applied).await?;
    let existing = completed(&mine, "[1]", trial.second());
    key.update(&change, &fence, Refused(Some(&existing)))
        .await?;
    key.finds(Some(&existing)).await
}

async fn a_recorded_failure_makes_the_claim_claimable_under_every_policy(trial: &Trial) -> Check {
    let (key, mine) = (trial.key("1"), claim(&owner(1), trial.at(30_000)));
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
    for policy in [Rerun, Hold] {
        key.place(&mine).await?;
        key.update(&failure, &held_by_owner(1), Applied).await?;
        key.finds(Some(&failed)).await?;
        key.delete(&held_by_owner(1), Refused(Some(&failed)))
            .await?;
        let next = claim(&owner(2), trial.at(60_000));
        key.put(&next, &claimable(trial.at(1), policy), Applied)
            .await?;
        key.finds(Some(&next)).await?;
        key.delete(&always(), Applied).await?;
    }
    Ok(())
}

async fn an_owner_whose_claim_was_taken_over_changes_nothing(trial: &Trial) -> Check {
    let (key, late) = (trial.key("1"), claim(&owner(1), trial.at(-1)));
    key.put(&late, &NoRecord, Applied).await?;
    let winner = claim(&owner(2), trial.at(30_000));
    let take_over = claimable(trial.now, Rerun);
    key.put(&winner, &take_over, Applied).await?;
    let (change, fence) = (completion("[1]", trial.second()), held_by_owner(1));
    key.update(&change, &fence, Refused(Some(&winner))).await?;
    key.finds(Some(&winner)).await?;
    key.delete(&fence, Refused(Some(&winner))).await?;
    key.finds(Some(&winner)).await?;
    let second = completion("[2]", trial.second());
    key.update(&second, &held_by_owner(2), Applied).await?;
    let existing = completed(&winner, "[2]", trial.second());
    key.update(&change, &fence, Refused(Some(&existing)))
        .await?;
    key.delete(&fence, Refused(Some(&existing))).await?;
    key.finds(Some(&existing)).await
}

async fn a_late_claim_is_rejected_by_the_time_in_its_condition(trial: &Trial) -> Check {
    for (name, policy) in [("1", Rerun), ("2", Hold)] {
        let key = trial.key(name);
        // Sent now, with the current time in its condition. Everything else happens before it arrives.
        let late = claim(&owner(1), trial.at(30_000));
        let at_its_time = claimable(trial.now, policy);
        let winner = claim(&owner(2), trial.at(1));
        key.put(&winner, &claimable(trial.at(1), policy), Applied)
            .await?;
        key.put(&late, &at_its_time, Refused(Some(&winner))).await?;
        let (change, fence) = (completion("[2]", trial.second()), held_by_owner(2));
        key.update(&change, &fence, Applied).await?;
        // This response may have expired by now, but not at the time in the condition of the late claim.
        let existing = completed(&winner, "[2]", trial.second());
        key.put(&late, &at_its_time, Refused(Some(&existing)))
            .await?;
        key.finds(Some(&existing)).await?;
        let next = claim(&owner(3), trial.at(60_000));
        key.put(&next, &claimable(trial.at(1_000), policy), Applied)
            .await?;
        key.put(&late, &at_its_time, Refused(Some(&next))).await?;
        key.finds(Some(&next)).await?;
    }
    Ok(())
}

async fn a_claim_that_arrives_after_a_release_is_applied(trial: &Trial) -> Check {
    let (key, other) = (trial.key("1"), claim(&owner(2), trial.at(30_000)));
    key.put(&other, &NoRecord, Applied).await?;
    key.delete(&held_by_owner(2), Applied).await?;
    // For this reason a missing record does not prove that a claim was not sent.
    let late = claim(&owner(1), trial.at(30_000));
    key.put(&late, &claimable(trial.at(-60_000), Rerun), Applied)
        .await?;
    key.finds(Some(&late)).await
}

async fn a_late_restored_completion_does_not_replace_the_next_claim(trial: &Trial) -> Check {
    let key = trial.key("1");
    let restored = completed(&claim(&owner(1), trial.now), "[1]", trial.second());
    let next = claim(&owner(2), trial.at(30_000));
    key.put(&next, &claimable(trial.now, Rerun), Applied)
        .await?;
    key.put(&restored, &NoRecord, Refused(Some(&next))).await?;
    key.finds(Some(&next)).await
}

async fn a_write_whose_reply_is_lost_is_reported_as_maybe_applied(trial: &Trial) -> Check {
    let mine = claim(&owner(1), trial.at(30_000));
    for (operation, name) in [
        (StoreOperation::Put, "put"),
        (StoreOperation::Update, "update"),
        (StoreOperation::Delete, "delete"),
    ] {
        let (key, fence) = (trial.key(name), held_by_owner(1));
        if operation != StoreOperation::Put {
            key.place(&mine).await?;
        }
        if !trial.factory.lose_next_reply(operation) {
            return Err(Flaw::NotOffered("the factory loses no replies"));
        }
        let window_end = EpochSeconds::new(trial.second().get() + 3_600);
        let change = completion("[1]", window_end);
        let write = match operation {
            StoreOperation::Put => key.put_unchecked(&mine, &NoRecord).await,
            StoreOperation::Update => key.update_unchecked(&change, &fence).await,
            _ => trial.store.write(&key.id, Write::Delete, &fence).await,
        };
        let maybe_applied = match write {
            StoreReply::Applied { maybe_again, .. } => maybe_again,
            StoreReply::ConditionFailed { maybe_applied, .. }
            | StoreReply::Failed { maybe_applied, .. } => maybe_applied,
            _ => false,
        };
        if !maybe_applied {
            return broken(format!("a {name} was applied, but reported as not applied"));
        }
        let existing = key.read().await?;
        let applied = match operation {
            StoreOperation::Put => existing.as_ref() == Some(&mine),
            StoreOperation::Update => existing.is_some_and(|record| record.data != Field::Absent),
            _ => existing.is_none(),
        };
        if !applied {
            return broken(format!(
                "the {name} whose reply the factory lost was not applied"
            ));
        }
    }
    Ok(())
}
