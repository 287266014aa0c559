//! The steps: a shop receives each of its events more than once.

mod batch;
mod concurrent;
mod crash;
mod eventbridge;
mod http;
mod kinesis;
mod payments;
mod sqs;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::functions::Role;
use crate::harness::Harness;
use crate::metrics::Metrics;

/// Runs all steps and prints a summary. The functions' metrics are written to a file, if one is named.
///
/// # Errors
///
/// Returns the first unmet expectation, or the reason why a step could not run.
pub(crate) async fn run(metrics: Option<&Path>) -> Result<()> {
    let began = Instant::now();
    let mut harness = Harness::build().await?;
    harness.timeline.title(
        "Example functions in real processes, with an embedded DynamoDB. Nothing here reaches AWS.",
    )?;
    let payment = harness.processes(Role::Payment).await?;
    let orders = harness.processes(Role::Orders).await?;
    let shipping = harness.processes(Role::Shipping).await?;
    let ledger = harness.processes(Role::Ledger).await?;
    let http = harness.processes(Role::Http).await?;
    harness.timeline.line(
        "Put✗ is a write whose condition failed: it changes nothing and returns the stored record.\n",
    )?;
    harness.timeline.columns()?;

    payments::a_payment_and_its_duplicates(&mut harness, &payment).await?;
    payments::an_event_without_a_key(&mut harness, &shipping).await?;
    concurrent::two_at_once(&mut harness, &payment).await?;
    payments::a_handler_that_fails(&mut harness, &payment).await?;
    crash::a_process_that_is_killed(&mut harness, &payment).await?;
    http::requests_with_an_idempotency_key(&mut harness, &http).await?;
    sqs::a_batch_and_its_redelivery(&mut harness, &orders).await?;
    kinesis::a_record_that_fails(&mut harness, &ledger).await?;
    eventbridge::an_event_delivered_again(&mut harness, &shipping).await?;

    let written = Metrics::of(harness.log());
    if let Some(file) = metrics {
        written.write(file)?;
    }
    summary(&harness, &written, began)
}

fn summary(harness: &Harness, metrics: &Metrics, began: Instant) -> Result<()> {
    let (tally, timeline) = (&harness.tally, &harness.timeline);
    ensure!(
        metrics.runs() == tally.runs - tally.killed,
        "a promise was not kept: {} runs were expected in the metrics: {metrics}",
        tally.runs - tally.killed
    );
    timeline.line("")?;
    timeline.title(&format!(
        "Every promise was kept: {} events sent, {} handler runs, {:.1} s.",
        tally.events,
        tally.runs,
        began.elapsed().as_secs_f32()
    ))?;
    timeline.line(&format!(
        "{1} of {0} payment events reached the card gateway; without the attribute all of them would.",
        tally.payments, tally.charges
    ))?;
    timeline.line(&format!("In CloudWatch: {metrics}."))?;
    timeline.line(
        "Next: README.md, \"Use it\" and \"What is promised\"; docs/guide/local.md to run a function by hand.",
    )?;
    Ok(())
}
