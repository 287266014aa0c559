//! A batch from SQS, delivered twice.

use anyhow::Result;

use super::batch::{self, Part};
use crate::events;
use crate::expectation::Expectation;
use crate::harness::{Harness, Process};
use crate::observation::Action;

pub(crate) async fn a_batch_and_its_redelivery(
    harness: &mut Harness,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    harness.step("A batch with a duplicate, delivered twice", "orders · SQS")?;
    let parts = |action| {
        [
            Part::new("order o-1001", "o-1001", action),
            Part::new("order o-1002", "o-1002", action),
            Part::new("order o-1001, sent twice", "o-1001", Action::Shared),
        ]
    };

    let what = "a batch of 3 messages";
    let first = harness.send(here, events::orders(1)).await;
    batch::show(harness, what, &first, &parts(Action::Ran))?;
    let expected = Expectation::new(Action::Ran, "Put Update Put Update", "none to repeat");
    harness.check(what, &first, &expected.runs(2))?;

    let what = "the whole batch again";
    let again = harness.send(elsewhere, events::orders(2)).await;
    batch::show(harness, what, &again, &parts(Action::Replayed))?;
    let expected = Expectation::replay(Action::Replayed, "Put✗ Put✗", &first.observed);
    harness.check(what, &again, &expected)
}
