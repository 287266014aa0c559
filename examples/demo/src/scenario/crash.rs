//! A process that is killed in its handler, and the end of its claim.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::events::Request;
use crate::expectation::Expectation;
use crate::harness::{Harness, Process};
use crate::observation::Action;

/// Long enough for the retry on a busy machine, and short enough to wait for.
const DEADLINE: Duration = Duration::from_secs(3);

pub(crate) async fn a_process_that_is_killed(
    harness: &mut Harness,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "A process killed in its handler",
        "payment · API Gateway HTTP API",
    )?;
    let order = Request::payment("o-1004");

    let stuck = order.clone().with("card", "stuck").event();
    let mut running = harness.start(here, stuck, DEADLINE);
    harness.wait_until_begun(here, &mut running).await?;
    here.handle.kill().await;
    let killed = harness.finish(running).await;
    let dead = Expectation::new(Action::Killed, "Put", "none");
    harness.show("order o-1004, then kill -9", &killed, &dead)?;

    let retry = harness.send(elsewhere, order.event()).await;
    let refused = Expectation::new(Action::Refused, "Put✗", "409 in-progress");
    harness.show(
        "a retry at once",
        &retry,
        &refused.with_key_of(&killed.observed),
    )?;

    let claim = killed.observed.requests.first();
    let lease_ends = claim.and_then(|claim| claim.lease_ends);
    let lease_ends = lease_ends.context("the claim has no lease end")?;
    let left = remaining(lease_ends)?;
    harness.timeline.note(&format!(
        "└ waiting {:.1} s: the claim of the killed process ends with the deadline of its invocation",
        left.as_secs_f32()
    ))?;
    tokio::time::sleep(left).await;

    let retry = harness.send(elsewhere, order.event()).await;
    let paid = Expectation::new(
        Action::Ran,
        "Put Update",
        format!("201 pay-{}", retry.number),
    );
    harness.show(
        "a retry after the deadline",
        &retry,
        &paid.with_key_of(&killed.observed),
    )?;
    harness.timeline.note(
        "└ if the killed process had charged, this would be the second charge: see on_timeout",
    )?;

    let again = harness.send(elsewhere, order.event()).await;
    let replayed = Expectation::replay(Action::Replayed, "Put✗", &retry.observed);
    harness.show(
        "one more retry",
        &again,
        &replayed.with_key_of(&killed.observed),
    )
}

/// Returns the time until a lease has expired, which is one millisecond after its end.
fn remaining(lease_ends: u64) -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let expired = Duration::from_millis(lease_ends.saturating_add(1));
    Ok(expired.saturating_sub(now))
}
