//! Payments one after the other: duplicates, a changed amount, no key, a declined card.

use anyhow::{Context, Result, ensure};

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
    let changed = stage.send(here, order.with("amount", 9_900).event()).await;
    stage.show("the same order, now 99.00 EUR", &changed, &refused)
}

pub(crate) async fn an_event_without_a_key(
    stage: &mut Stage,
    [payment, _]: &[Process; 2],
    [shipping, _]: &[Process; 2],
) -> Result<()> {
    stage.step("No key in the event: no protection", "payment, shipping")?;
    let donation = Payment::donation()?.event();
    for what in ["a guest's donation", "the same again: charged twice"] {
        let sent = stage.send(payment, donation.clone()).await;
        let told = format!("201 pay-{}", sent.number);
        stage.show(what, &sent, &Promise::new(Did::Unprotected, "none", told))?;
        let warning = sent
            .seen
            .warning
            .context("the run without a key was not warned of")?;
        let text = "the payload has no idempotency key: the handler runs unprotected";
        ensure!(
            warning.contains(text),
            "another warning than promised: {warning}"
        );
        stage.timeline.note(&format!("└ WARN {text}"))?;
    }
    let refused = Promise::new(Did::Refused, "none", "IdempotencyKeyMissing");
    let sent = stage.send(shipping, events::paid("")?).await;
    stage.show("to one with key_required = true", &sent, &refused)
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
