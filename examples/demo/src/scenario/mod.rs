//! The story: what happens to a shop whose every event may come twice.

mod bus;
mod crash;
mod payments;
mod queue;
mod together;

use std::time::Instant;

use anyhow::Result;

use crate::functions::Role;
use crate::stage::Stage;

/// Plays every step and prints what it all amounts to.
///
/// # Errors
/// The first promise that is broken, or what kept the story from being played.
pub(crate) async fn play() -> Result<()> {
    let began = Instant::now();
    let mut stage = Stage::build().await?;
    stage.timeline.title(
        "Example functions as real Lambda processes, an embedded DynamoDB: nothing here reaches AWS.",
    )?;
    let payment = stage.processes(Role::Payment).await?;
    let orders = stage.processes(Role::Orders).await?;
    let shipping = stage.processes(Role::Shipping).await?;
    stage.timeline.line(
        "Put✗ is a write that its condition refused: it changes nothing and brings back the stored record.\n",
    )?;
    stage.timeline.columns()?;

    payments::a_payment_and_its_duplicates(&mut stage, &payment).await?;
    payments::an_event_without_a_key(&mut stage, &shipping).await?;
    together::two_at_once(&mut stage, &payment).await?;
    payments::a_handler_that_fails(&mut stage, &payment).await?;
    crash::a_process_that_is_killed(&mut stage, &payment).await?;
    queue::a_batch_and_its_redelivery(&mut stage, &orders).await?;
    bus::an_event_delivered_again(&mut stage, &shipping).await?;

    summary(&stage, began)
}

fn summary(stage: &Stage, began: Instant) -> Result<()> {
    let (tally, timeline) = (&stage.tally, &stage.timeline);
    timeline.line("")?;
    timeline.title(&format!(
        "Every promise was kept: {} events sent, {} runs of a handler, {:.1} s.",
        tally.events,
        tally.runs,
        began.elapsed().as_secs_f32()
    ))?;
    timeline.line(&format!(
        "Of {} payment events {} reached the card gateway; without the attribute all would have.",
        tally.payments, tally.charges
    ))?;
    timeline.line(
        "Where to go on: README.md, \"Use it\" and \"What is promised\"; docs/guide/local.md to try it by hand.",
    )?;
    Ok(())
}
