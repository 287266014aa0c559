//! An event that EventBridge delivers more than once, to a function with a local cache.

use anyhow::Result;

use crate::events;
use crate::promise::Promise;
use crate::seen::Did;
use crate::stage::{Process, Stage};

pub(crate) async fn an_event_delivered_again(
    stage: &mut Stage,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    stage.step(
        "An event delivered again, with a local cache",
        "shipping · EventBridge",
    )?;
    let event = events::paid("o-1001")?;

    let first = stage.send(here, event.clone()).await;
    let booked = Promise::new(Did::Ran, "Put Update", format!("parcel-{}", first.number));
    stage.show("order o-1001 was paid", &first, &booked)?;

    let again = stage.send(here, event.clone()).await;
    let cached = Promise::replay(Did::Cached, "none", &first.seen);
    stage.show("the same, to the same process", &again, &cached)?;

    let again = stage.send(elsewhere, event).await;
    let replayed = Promise::replay(Did::Replayed, "Put✗", &first.seen);
    stage.show(
        "the same, to another process",
        &again,
        &replayed.under_the_key_of(&first.seen),
    )
}
