//! A batch from SQS: each message is an operation of its own.

use anyhow::{Result, ensure};

use crate::events::{self, Batch};
use crate::promise::Promise;
use crate::seen::{Did, Seen};
use crate::stage::{Arrived, Process, Stage};

pub(crate) async fn a_batch_and_its_redelivery(
    stage: &mut Stage,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    stage.step(
        "A batch that holds a duplicate, delivered twice",
        "orders · SQS",
    )?;
    let batch = events::orders()?;

    let first = stage.send(here, batch.delivery(1)).await;
    show(stage, "a batch of 3 messages", &batch, &first)?;
    let promise = Promise::new(Did::Ran, "Put Update Put Update Put✗", "none to repeat").runs(2);
    stage.check("a batch of 3 messages", &first, &promise)?;

    let again = stage.send(elsewhere, batch.delivery(2)).await;
    show(stage, "the whole batch again", &batch, &again)?;
    let promise = Promise::replay(Did::Replayed, "Put✗ Put✗ Put✗", &first.seen);
    stage.check("the whole batch again", &again, &promise)
}

/// Prints a line for each message, whose requests are those from its claim to the next one.
///
/// # Errors
/// If two messages share a key but not the order, or the order but not the key.
fn show(stage: &Stage, what: &str, batch: &Batch, arrived: &Arrived) -> Result<()> {
    let seen = &arrived.seen;
    let number = arrived.number.to_string();
    stage.timeline.batch(&number, what, &seen.told)?;
    let mut keys: Vec<(&str, Option<String>)> = Vec::new();
    let claims = seen.calls.chunk_by(|_, next| !next.is_put());
    for (message, calls) in batch.messages.iter().zip(claims) {
        let ran = calls.len() > 1;
        let part = Seen {
            did: if ran { Did::Ran } else { Did::Replayed },
            runs: usize::from(ran),
            calls: calls.to_vec(),
            told: if ran { "reserved" } else { "the same" }.to_owned(),
            payload: None,
        };
        let id: String = message.id.chars().take(8).collect();
        let what = format!("└ message {id}: {}", message.order_id);
        stage.timeline.event("", &what, &part)?;
        keys.push((&message.order_id, part.key().map(str::to_owned)));
    }
    for (order, key) in &keys {
        let kept = keys
            .iter()
            .all(|(other, its)| (order == other) == (key == its));
        ensure!(
            kept,
            "a promise is broken at event {number} ({what}): one key for each order was promised"
        );
    }
    Ok(())
}
