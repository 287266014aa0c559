//! Two events with one key, at the same time, in two processes.

use std::time::Duration;

use anyhow::Result;
use idempotency_testkit::dynamodb::Fault;

use crate::events::Payment;
use crate::promise::Promise;
use crate::seen::Did;
use crate::stage::{Process, Stage};

pub(crate) async fn two_at_once(stage: &mut Stage, [here, elsewhere]: &[Process; 2]) -> Result<()> {
    stage.step(
        "Two at once, in two processes",
        "payment · API Gateway HTTP API",
    )?;
    let order = Payment::order("o-1002")?.with("card", "slow").event();

    // On a busy machine the slow card may not be slow enough: the first completes only when the second was answered.
    let completion = stage.db.inject(Fault::on("UpdateItem").hold());
    let mut running = stage.start(here, order.clone(), Duration::from_secs(30));
    stage.begun(here, &mut running).await?;
    let meanwhile = stage.send(elsewhere, order.clone()).await;
    completion.release().await;
    let first = stage.finish(running).await;

    let paid = Promise::new(Did::Ran, "Put Update", format!("201 pay-{}", first.number));
    stage.show("order o-1002, a slow card", &first, &paid)?;
    let refused = Promise::new(Did::Refused, "Put✗", "IdempotencyAlreadyInProgress");
    let refused = refused.under_the_key_of(&first.seen);
    stage.show("the same, while that one runs", &meanwhile, &refused)?;

    let retry = stage.send(elsewhere, order).await;
    let replayed = Promise::replay(Did::Replayed, "Put✗", &first.seen);
    stage.show(
        "its retry, a little later",
        &retry,
        &replayed.under_the_key_of(&first.seen),
    )
}
