//! An event that EventBridge delivers more than once, to a function with a local cache.

use anyhow::Result;

use crate::events;
use crate::expectation::Expectation;
use crate::harness::{Harness, Process};
use crate::observation::Action;

pub(crate) async fn an_event_delivered_again(
    harness: &mut Harness,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "An event delivered again, with a local cache",
        "shipping · EventBridge",
    )?;
    let event = events::paid("o-1001");

    let first = harness.send(here, event.clone()).await;
    let booked = Expectation::new(
        Action::Ran,
        "Put Update",
        format!("parcel-{}", first.number),
    );
    harness.show("order o-1001 was paid", &first, &booked)?;

    let again = harness.send(here, event.clone()).await;
    let cached = Expectation::replay(Action::Cached, "none", &first.observed);
    harness.show("the same, to the same process", &again, &cached)?;

    let again = harness.send(elsewhere, event).await;
    let replayed = Expectation::replay(Action::Replayed, "Put✗", &first.observed);
    harness.show(
        "the same, to another process",
        &again,
        &replayed.with_key_of(&first.observed),
    )
}
