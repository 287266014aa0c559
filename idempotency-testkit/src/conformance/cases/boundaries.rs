//! Which records can be claimed, at the boundary of each strict comparison. The expected results are literals, because these
//! cases test the predicate itself, as the store renders it.

use idempotency_core::protocol::policy::OnTimeout::{Hold, Rerun};

use super::super::trial::*;

super::cases![
    a_key_without_a_record_can_be_claimed_under_every_policy,
    a_completed_record_can_be_claimed_only_after_its_last_second,
    a_claim_can_be_taken_over_only_after_the_last_millisecond_of_its_lease,
    a_claim_without_a_lease_is_live_until_its_window_ends,
    under_hold_a_claim_can_be_taken_over_only_with_a_recorded_failure,
    a_failure_in_a_completed_record_does_not_make_it_claimable,
    a_record_with_another_status_or_none_is_live_until_its_window_ends,
    a_record_without_an_expiration_never_expires,
    times_are_compared_as_numbers_to_the_last_digit,
];

/// Returns a record with this status and these times. `None` leaves the attribute out.
fn record(status: Option<Status>, expiration: Option<i64>, lease: Option<i64>) -> Record {
    Record {
        status: status.into(),
        expiration: expiration.map(EpochSeconds::new).into(),
        in_progress_expiration: lease.map(EpochMillis::new).into(),
        ..Record::default()
    }
}

/// Checks that a claim made at `now` under `policy` replaces `existing` if `applied` is true, and otherwise is refused.
async fn claimed(
    trial: &Trial,
    existing: &Record,
    now: EpochMillis,
    policy: OnTimeout,
    applied: bool,
) -> Check {
    let key = trial.key("1");
    let lease = EpochMillis::new(now.get().saturating_add(30_000));
    let mine = claim(&owner(1), lease);
    let expected = expected(applied, Some(existing));
    key.place(existing).await?;
    let condition = claimable(now, policy);
    let put = key.put(&mine, &condition, expected).await;
    put.map_err(|flaw| {
        flaw.when(format_args!(
            "a claim under {policy:?} at {now} over {existing:?}"
        ))
    })?;
    let left = if applied { &mine } else { existing };
    key.finds(Some(left)).await
}

/// Checks that a claim under `rerun` replaces `existing` now if `applied` is true, and that a claim under `hold` is refused.
async fn only_rerun(trial: &Trial, existing: &Record, applied: bool) -> Check {
    claimed(trial, existing, trial.now, Rerun, applied).await?;
    claimed(trial, existing, trial.now, Hold, false).await
}

async fn a_key_without_a_record_can_be_claimed_under_every_policy(trial: &Trial) -> Check {
    for (name, policy) in [("1", Rerun), ("2", Hold)] {
        let (key, mine) = (trial.key(name), claim(&owner(1), trial.at(30_000)));
        key.put(&mine, &claimable(trial.now, policy), Applied)
            .await?;
        key.finds(Some(&mine)).await?;
    }
    Ok(())
}

async fn a_completed_record_can_be_claimed_only_after_its_last_second(trial: &Trial) -> Check {
    let second = trial.second().get();
    for policy in [Rerun, Hold] {
        // `now` is rounded down: the record is live until the end of its last second.
        for part in [0, 1, 999] {
            let now = EpochMillis::new(second * 1_000 + part);
            for (expiration, applied) in [(second - 1, true), (second, false), (second + 1, false)]
            {
                // The lease of a completed record has no effect.
                for lease in [None, Some(now.get() - 1), Some(now.get() + 1)] {
                    let existing = record(Some(Status::Completed), Some(expiration), lease);
                    claimed(trial, &existing, now, policy, applied).await?;
                }
            }
        }
    }
    Ok(())
}

async fn a_claim_can_be_taken_over_only_after_the_last_millisecond_of_its_lease(
    trial: &Trial,
) -> Check {
    let (now, second) = (trial.now.get(), trial.second().get());
    // A claim whose lease runs is live, also if its window has expired.
    for expiration in [second + 3_600, second - 1] {
        for (lease, applied) in [(now - 1, true), (now, false), (now + 1, false)] {
            let existing = record(Some(Status::InProgress), Some(expiration), Some(lease));
            only_rerun(trial, &existing, applied).await?;
        }
    }
    Ok(())
}

async fn a_claim_without_a_lease_is_live_until_its_window_ends(trial: &Trial) -> Check {
    let second = trial.second().get();
    for (expiration, applied) in [(second - 1, true), (second, false), (second + 1, false)] {
        let existing = record(Some(Status::InProgress), Some(expiration), None);
        only_rerun(trial, &existing, applied).await?;
    }
    Ok(())
}

async fn under_hold_a_claim_can_be_taken_over_only_with_a_recorded_failure(trial: &Trial) -> Check {
    let (now, second) = (trial.now.get(), trial.second().get());
    for expiration in [second - 1, second, second + 3_600] {
        for lease in [None, Some(now - 1), Some(now + 1)] {
            let existing = record(Some(Status::InProgress), Some(expiration), lease);
            claimed(trial, &existing, trial.now, Hold, false).await?;
            for failure in ["Timeout", ""] {
                let failed = with(existing.clone(), |it| {
                    it.failure = Field::Value(failure.to_owned())
                });
                claimed(trial, &failed, trial.now, Hold, true).await?;
            }
        }
    }
    Ok(())
}

async fn a_failure_in_a_completed_record_does_not_make_it_claimable(trial: &Trial) -> Check {
    let second = trial.second();
    for policy in [Rerun, Hold] {
        let existing = with(full_record(trial.at(-1)), |it| {
            it.expiration = Field::Value(second)
        });
        claimed(trial, &existing, trial.now, policy, false).await?;
    }
    Ok(())
}

async fn a_record_with_another_status_or_none_is_live_until_its_window_ends(
    trial: &Trial,
) -> Check {
    let (now, second) = (trial.now.get(), trial.second().get());
    let near = ["inprogress", "INPROGRESS ", "IN_PROGRESS", ""];
    let others = near.map(|text| Some(Status::Other(text.to_owned())));
    for status in others.into_iter().chain([None]) {
        for policy in [Rerun, Hold] {
            let live = record(status.clone(), Some(second), Some(now - 1));
            claimed(trial, &live, trial.now, policy, false).await?;
            let past = record(status.clone(), Some(second - 1), Some(now + 1));
            claimed(trial, &past, trial.now, policy, true).await?;
        }
    }
    Ok(())
}

async fn a_record_without_an_expiration_never_expires(trial: &Trial) -> Check {
    for policy in [Rerun, Hold] {
        for lease in [None, Some(trial.now.get() - 1)] {
            let existing = record(Some(Status::Completed), None, lease);
            claimed(trial, &existing, trial.now, policy, false).await?;
        }
        claimed(trial, &Record::default(), trial.now, policy, false).await?;
        let existing = record(Some(Status::InProgress), None, None);
        claimed(trial, &existing, trial.now, policy, false).await?;
    }
    Ok(())
}

async fn times_are_compared_as_numbers_to_the_last_digit(trial: &Trial) -> Check {
    // As text, 9 is greater than 10. As doubles, 2^53 and 2^53 + 1 are equal, and so are the two largest integers.
    let double = 1_i64 << 53;
    for (lease, now, applied) in [
        (9, 10, true),
        (10, 9, false),
        (-10, -9, true),
        (-9, -10, false),
        (-1, 0, true),
        (0, 0, false),
        (0, 1, true),
        (double, double + 1, true),
        (double + 1, double + 1, false),
        (double + 1, double, false),
        (i64::MAX - 1, i64::MAX, true),
        (i64::MAX, i64::MAX, false),
        (i64::MIN, i64::MIN + 1, true),
        (i64::MIN, i64::MIN, false),
    ] {
        let existing = record(Some(Status::InProgress), Some(i64::MAX), Some(lease));
        claimed(trial, &existing, EpochMillis::new(now), Rerun, applied).await?;
    }
    for (expiration, now, applied) in [(9, 10, true), (10, 9, false), (-1, 0, true), (0, 0, false)]
    {
        let existing = record(Some(Status::Completed), Some(expiration), None);
        claimed(
            trial,
            &existing,
            EpochMillis::new(now * 1_000),
            Hold,
            applied,
        )
        .await?;
    }
    Ok(())
}
