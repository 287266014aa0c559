//! Two events with one key, at the same time, in two processes.

use std::time::Duration;

use anyhow::Result;
use idempotency_testkit::dynamodb::Fault;

use crate::events::Request;
use crate::expectation::Expectation;
use crate::harness::{Harness, Process};
use crate::observation::Action;

pub(crate) async fn two_at_once(
    harness: &mut Harness,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "Two events at once, in two processes",
        "payment · API Gateway HTTP API",
    )?;
    let order = Request::payment("o-1002").with("card", "slow").event();

    // On a busy machine the slow card may be too fast, so the completion is held until the second event has its response.
    let completion = harness.db.inject(Fault::on("UpdateItem").hold());
    let mut running = harness.start(here, order.clone(), Duration::from_secs(30));
    harness.wait_until_begun(here, &mut running).await?;
    let meanwhile = harness.send(elsewhere, order.clone()).await;
    completion.release().await;
    let first = harness.finish(running).await;

    let paid = Expectation::new(
        Action::Ran,
        "Put Update",
        format!("201 pay-{}", first.number),
    );
    harness.show("order o-1002, a slow card", &first, &paid)?;
    let refused = Expectation::new(Action::Refused, "Put✗", "409 in-progress");
    let refused = refused.with_key_of(&first.observed);
    harness.show("the same, while that one runs", &meanwhile, &refused)?;

    let retry = harness.send(elsewhere, order).await;
    let replayed = Expectation::replay(Action::Replayed, "Put✗", &first.observed);
    harness.show(
        "a retry, a little later",
        &retry,
        &replayed.with_key_of(&first.observed),
    )
}
