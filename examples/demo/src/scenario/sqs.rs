//! A batch from SQS: each message is its own operation.

use anyhow::{Result, ensure};

use crate::events::{self, Batch};
use crate::expectation::Expectation;
use crate::harness::{Finished, Harness, Process};
use crate::observation::{Action, Observation};

pub(crate) async fn a_batch_and_its_redelivery(
    harness: &mut Harness,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    harness.step("A batch with a duplicate, delivered twice", "orders · SQS")?;
    let batch = events::orders()?;

    let first = harness.send(here, batch.delivery(1)).await;
    show(harness, "a batch of 3 messages", &batch, &first)?;
    let expected =
        Expectation::new(Action::Ran, "Put Update Put Update Put✗", "none to repeat").runs(2);
    harness.check("a batch of 3 messages", &first, &expected)?;

    let again = harness.send(elsewhere, batch.delivery(2)).await;
    show(harness, "the whole batch again", &batch, &again)?;
    let expected = Expectation::replay(Action::Replayed, "Put✗ Put✗ Put✗", &first.observed);
    harness.check("the whole batch again", &again, &expected)
}

/// Prints a line for each message. Its requests are those from its claim up to the next claim.
///
/// # Errors
///
/// If two messages share a key but not the order, or the order but not the key.
fn show(harness: &Harness, what: &str, batch: &Batch, finished: &Finished) -> Result<()> {
    let observed = &finished.observed;
    let number = finished.number.to_string();
    harness.timeline.batch(&number, what, &observed.response)?;
    let mut keys: Vec<(&str, Option<String>)> = Vec::new();
    let claims = observed.requests.chunk_by(|_, next| !next.is_put());
    for (message, requests) in batch.messages.iter().zip(claims) {
        let ran = requests.len() > 1;
        let part = Observation {
            action: if ran { Action::Ran } else { Action::Replayed },
            runs: usize::from(ran),
            requests: requests.to_vec(),
            response: if ran { "reserved" } else { "the same" }.to_owned(),
            payload: None,
        };
        let id: String = message.id.chars().take(8).collect();
        let what = format!("└ message {id}: {}", message.order_id);
        harness.timeline.event("", &what, &part)?;
        keys.push((&message.order_id, part.key().map(str::to_owned)));
    }
    for (order, key) in &keys {
        let matches = keys
            .iter()
            .all(|(other, its)| (order == other) == (key == its));
        ensure!(
            matches,
            "a promise was not kept at event {number} ({what}): each order has its own key"
        );
    }
    Ok(())
}
