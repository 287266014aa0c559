//! A process that dies in its handler, and what frees its key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::events::Payment;
use crate::promise::Promise;
use crate::seen::Did;
use crate::stage::{Process, Stage};

/// Long enough for the retry on a busy machine, short enough to wait for.
const DEADLINE: Duration = Duration::from_secs(3);

pub(crate) async fn a_process_that_is_killed(
    stage: &mut Stage,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    stage.step(
        "A process killed in its handler",
        "payment · API Gateway HTTP API",
    )?;
    let order = Payment::order("o-1004")?;

    let stuck = order.clone().with("card", "stuck").event();
    let mut running = stage.start(here, stuck, DEADLINE);
    stage.begun(here, &mut running).await?;
    here.environment.kill().await;
    let killed = stage.finish(running).await;
    let dead = Promise::new(Did::Killed, "Put", "none");
    stage.show("order o-1004, then kill -9", &killed, &dead)?;

    let retry = stage.send(elsewhere, order.clone().event()).await;
    let refused = Promise::new(Did::Refused, "Put✗", "IdempotencyAlreadyInProgress");
    stage.show(
        "its retry, at once",
        &retry,
        &refused.under_the_key_of(&killed.seen),
    )?;

    let claim = killed.seen.calls.first();
    let lease_ends = claim.and_then(|claim| claim.lease_ends);
    let lease_ends = lease_ends.context("the claim carries no end of its lease")?;
    let left = remaining(lease_ends)?;
    stage.timeline.note(&format!(
        "└ waiting {:.1} s: the dead process's claim ends with its invocation's deadline",
        left.as_secs_f32()
    ))?;
    tokio::time::sleep(left).await;

    let retry = stage.send(elsewhere, order.clone().event()).await;
    let paid = Promise::new(Did::Ran, "Put Update", format!("201 pay-{}", retry.number));
    stage.show(
        "its retry, after the deadline",
        &retry,
        &paid.under_the_key_of(&killed.seen),
    )?;
    stage.timeline.note(
        "└ had the dead process charged already, this would be the second time: see on_timeout",
    )?;

    let again = stage.send(elsewhere, order.event()).await;
    let replayed = Promise::replay(Did::Replayed, "Put✗", &retry.seen);
    stage.show(
        "and once more",
        &again,
        &replayed.under_the_key_of(&killed.seen),
    )
}

/// How long until a lease is over, which it is when the clock has passed its last millisecond.
fn remaining(lease_ends: u64) -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let over = Duration::from_millis(lease_ends.saturating_add(1));
    Ok(over.saturating_sub(now))
}
