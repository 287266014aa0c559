//! Concurrent writes: the store evaluates the condition and applies the write in one atomic step.

use std::sync::Arc;

use idempotency_core::future::BoxFuture;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::super::trial::*;

super::cases![
    of_64_concurrent_claims_one_wins_and_the_others_get_its_record,
    of_64_concurrent_takeovers_one_wins_and_the_others_get_its_record,
    of_64_concurrent_sends_of_one_completion_one_is_applied,
    a_concurrent_completion_and_takeover_do_not_both_succeed,
    a_concurrent_release_and_takeover_leave_the_new_claim,
    no_read_sees_a_partly_written_record,
];

/// The number of concurrent writes.
const CROWD: u8 = 64;

/// The number of rounds of two concurrent writes.
const ROUNDS: u8 = 16;

/// Starts all writes at once, and returns their results in the order of the writes.
async fn at_once(
    writes: impl IntoIterator<Item = BoxFuture<'static, StoreReply>>,
) -> Check<Vec<StoreReply>> {
    let writes: Vec<_> = writes.into_iter().collect();
    let barrier = Arc::new(Barrier::new(writes.len()));
    let mut tasks = JoinSet::new();
    for (index, write) in writes.into_iter().enumerate() {
        let barrier = Arc::clone(&barrier);
        tasks.spawn(async move {
            barrier.wait().await;
            (index, write.await)
        });
    }
    let mut results = Vec::new();
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(result) => results.push(result),
            Err(error) => return broken(format!("a write did not end: {error}")),
        }
    }
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, write)| write).collect())
}

/// Returns a write that can be sent from another task.
fn sends(
    store: &Arc<dyn Store>,
    key: &Key<'_>,
    write: Write,
    condition: Condition,
) -> BoxFuture<'static, StoreReply> {
    let (store, id) = (Arc::clone(store), key.id.clone());
    Box::pin(async move { store.write(&id, write, &condition).await })
}

/// Returns true if this write was applied. If it may have been applied, returns `unknown`.
fn was_applied(write: &StoreReply, unknown: bool) -> Check<bool> {
    match write {
        StoreReply::Applied { .. } => Ok(true),
        StoreReply::ConditionFailed {
            maybe_applied: false,
            ..
        } => Ok(false),
        StoreReply::ConditionFailed {
            maybe_applied: true,
            ..
        } => Ok(unknown),
        StoreReply::Failed { error, .. } => broken(format!("a write failed: {error}")),
        other => broken(format!(
            "a write had an outcome that the suite does not know: {other:?}"
        )),
    }
}

/// Claims the key concurrently, half of the claims through a second store (as another process does), and checks that one claim wins.
async fn one_wins(trial: &Trial, key: &Key<'_>) -> Check {
    let stores = [Arc::clone(&trial.store), trial.second_store().await?];
    let claims: Vec<_> = (1..=CROWD)
        .map(|number| claim(&owner(number), trial.at(30_000)))
        .collect();
    let condition = claimable(trial.now, OnTimeout::Rerun);
    let puts = claims.iter().zip(stores.iter().cycle());
    let puts = puts.map(|(claim, store)| {
        let put = Write::Put(claim.clone());
        sends(store, key, put, condition.clone())
    });
    let writes = at_once(puts).await?;
    let Some(winner) = key.read().await? else {
        return broken("after all claims there is no record");
    };
    let mut winners = 0;
    for (claim, write) in claims.iter().zip(writes) {
        let wins = *claim == winner;
        winners += usize::from(wins);
        if was_applied(&write, wins)? != wins {
            return broken(format!(
                "{}, and the record is {}: {write:?}",
                if wins {
                    "the claim that is stored was reported as not applied"
                } else {
                    "a claim was applied and replaced"
                },
                shown(Some(&winner))
            ));
        }
        if let StoreReply::ConditionFailed {
            existing,
            maybe_applied: false,
            ..
        } = write
        {
            check_existing("a put", existing.as_ref(), Some(&winner))?;
        }
    }
    if winners != 1 {
        return broken(format!(
            "the record is none of the claims: {}",
            shown(Some(&winner))
        ));
    }
    Ok(())
}

async fn of_64_concurrent_claims_one_wins_and_the_others_get_its_record(trial: &Trial) -> Check {
    for round in 0..4 {
        one_wins(trial, &trial.key(&round.to_string())).await?;
    }
    Ok(())
}

async fn of_64_concurrent_takeovers_one_wins_and_the_others_get_its_record(trial: &Trial) -> Check {
    for round in 0..4 {
        let key = trial.key(&round.to_string());
        key.place(&claim(&owner(200), trial.at(-1))).await?;
        one_wins(trial, &key).await?;
    }
    Ok(())
}

async fn of_64_concurrent_sends_of_one_completion_one_is_applied(trial: &Trial) -> Check {
    let (key, mine) = (trial.key("1"), claim(&owner(1), trial.now));
    key.place(&mine).await?;
    let change = completion("[1]", trial.second());
    let updates = (0..CROWD).map(|_| {
        let update = Write::Update(change.clone());
        sends(&trial.store, &key, update, held_by_owner(1))
    });
    let mut applied = 0;
    for write in at_once(updates).await? {
        applied += usize::from(was_applied(&write, false)?);
    }
    if applied > 1 {
        return broken(format!("{applied} of {CROWD} were applied"));
    }
    key.finds(Some(&completed(&mine, "[1]", trial.second())))
        .await
}

async fn a_concurrent_completion_and_takeover_do_not_both_succeed(trial: &Trial) -> Check {
    let first = claim(&owner(1), trial.at(-1));
    let next = claim(&owner(2), trial.at(30_000));
    let completed = completed(&first, "[1]", trial.second());
    let complete = Write::Update(completion("[1]", trial.second()));
    for round in 0..ROUNDS {
        let key = trial.key(&round.to_string());
        key.place(&first).await?;
        let condition = claimable(trial.now, OnTimeout::Rerun);
        let mut writes = vec![
            sends(&trial.store, &key, complete.clone(), held_by_owner(1)),
            sends(&trial.store, &key, Write::Put(next.clone()), condition),
        ];
        // Each of the two is first in half of the rounds.
        if round % 2 == 1 {
            writes.reverse();
        }
        let mut writes = at_once(writes).await?;
        if round % 2 == 1 {
            writes.reverse();
        }
        let existing = key.read().await?;
        let completes = existing.as_ref() == Some(&completed);
        if !completes && existing.as_ref() != Some(&next) {
            return broken(format!(
                "the record is neither the completion nor the new claim: {}",
                shown(existing.as_ref())
            ));
        }
        if was_applied(&writes[0], completes)? != completes
            || was_applied(&writes[1], !completes)? == completes
        {
            return broken(format!(
                "{writes:?}, and the record is {}",
                shown(existing.as_ref())
            ));
        }
    }
    Ok(())
}

async fn a_concurrent_release_and_takeover_leave_the_new_claim(trial: &Trial) -> Check {
    let first = claim(&owner(1), trial.at(-1));
    let next = claim(&owner(2), trial.at(30_000));
    for round in 0..ROUNDS {
        let key = trial.key(&round.to_string());
        key.place(&first).await?;
        let condition = claimable(trial.now, OnTimeout::Rerun);
        let mut writes = vec![
            sends(&trial.store, &key, Write::Delete, held_by_owner(1)),
            sends(&trial.store, &key, Write::Put(next.clone()), condition),
        ];
        if round % 2 == 1 {
            writes.reverse();
        }
        at_once(writes).await?;
        // In either order the claim is applied, and the release removes at most the old one.
        key.finds(Some(&next)).await?;
    }
    Ok(())
}

async fn no_read_sees_a_partly_written_record(trial: &Trial) -> Check {
    let key = trial.key("1");
    let small = claim(&owner(1), trial.now);
    let large = with_response(full_record(trial.at(1)), "x".repeat(100 * 1024));
    key.place(&small).await?;
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let (store, id) = (Arc::clone(&trial.store), key.id.clone());
        let (small, large) = (small.clone(), large.clone());
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                if number < 2 {
                    let record = if round % 2 == 0 { &large } else { &small };
                    let put = Write::Put(record.clone());
                    store.write(&id, put, &always()).await;
                    continue;
                }
                let found = read(store.as_ref(), &id).await?;
                if found.as_ref() != Some(&small) && found.as_ref() != Some(&large) {
                    return broken(format!("a read found {}", shown(found.as_ref())));
                }
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(|error| format!("a read did not end: {error}"))??;
    }
    Ok(())
}
