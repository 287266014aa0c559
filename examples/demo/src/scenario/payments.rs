//! Payments one after the other: duplicates, a changed amount, another user, no key, a declined card.

use anyhow::{Result, ensure};

use crate::events::{self, Payment};
use crate::promise::Promise;
use crate::seen::Did;
use crate::stage::{Process, Stage};

pub(crate) async fn a_payment_and_its_duplicates(
    stage: &mut Stage,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    stage.step(
        "A payment, and its duplicates",
        "payment · API Gateway HTTP API",
    )?;
    let order = Payment::order("o-1001")?;

    let first = stage.send(here, order.clone().event()).await;
    let paid = Promise::new(Did::Ran, "Put Update", format!("201 pay-{}", first.number));
    stage.show("order o-1001, 42.00 EUR", &first, &paid)?;

    let replayed =
        Promise::replay(Did::Replayed, "Put✗", &first.seen).under_the_key_of(&first.seen);
    let again = stage.send(here, order.clone().event()).await;
    stage.show("the same again", &again, &replayed)?;
    let again = stage.send(elsewhere, order.clone().event()).await;
    stage.show("the same, to another process", &again, &replayed)?;

    let refused = Promise::new(Did::Refused, "Put✗", "IdempotencyPayloadMismatch");
    let refused = refused.under_the_key_of(&first.seen);
    let changed = order.clone().with("amount", 9_900).event();
    let changed = stage.send(here, changed).await;
    stage.show("the same order, now 99.00 EUR", &changed, &refused)?;

    let theirs = stage.send(here, order.by("u-2").event()).await;
    let told = format!("201 pay-{}", theirs.number);
    let paid = Promise::new(Did::Ran, "Put Update", told);
    stage.show("the same order, of another user", &theirs, &paid)?;
    ensure!(
        theirs.seen.key() != first.seen.key(),
        "two users met under one key"
    );
    stage.timeline.note(
        "└ a stored response is given before the handler can check anything: the key holds the user",
    )?;
    Ok(())
}

pub(crate) async fn an_event_without_a_key(
    stage: &mut Stage,
    [shipping, _]: &[Process; 2],
) -> Result<()> {
    stage.step("No key in the event: no run", "shipping · EventBridge")?;
    let refused = Promise::new(Did::Refused, "none", "IdempotencyKeyMissing");
    let sent = stage.send(shipping, events::paid("")?).await;
    stage.show("a parcel for no order", &sent, &refused)?;
    stage.timeline.note(
        "└ key_required = \"all\"; without it the handler runs unprotected, with a warning",
    )?;
    Ok(())
}

pub(crate) async fn a_handler_that_fails(
    stage: &mut Stage,
    [here, _]: &[Process; 2],
) -> Result<()> {
    stage.step(
        "A handler that fails gives its claim up",
        "payment · API Gateway HTTP API",
    )?;
    let order = Payment::order("o-1003")?
        .with("card", "declined_once")
        .event();

    let declined = stage.send(here, order.clone()).await;
    let failed = Promise::new(Did::Failed, "Put Delete", "Error: the card was declined");
    stage.show("order o-1003, declined once", &declined, &failed)?;

    let retry = stage.send(here, order).await;
    let paid = Promise::new(Did::Ran, "Put Update", format!("201 pay-{}", retry.number));
    stage.show(
        "the retry runs again",
        &retry,
        &paid.under_the_key_of(&declined.seen),
    )
}
