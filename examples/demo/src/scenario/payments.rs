//! Payments, one after the other: duplicates, a changed amount, another user, no key, a declined card.

use anyhow::{Result, ensure};

use crate::events::{self, Request};
use crate::expectation::Expectation;
use crate::harness::{Harness, Process};
use crate::observation::Action;

pub(crate) async fn a_payment_and_its_duplicates(
    harness: &mut Harness,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "A payment and its duplicates",
        "payment · API Gateway HTTP API",
    )?;
    let order = Request::payment("o-1001");

    let first = harness.send(here, order.event()).await;
    let paid = Expectation::new(
        Action::Ran,
        "Put Update",
        format!("201 pay-{}", first.number),
    );
    harness.show("order o-1001, 42.00 EUR", &first, &paid)?;

    let replayed =
        Expectation::replay(Action::Replayed, "Put✗", &first.observed).with_key_of(&first.observed);
    let again = harness.send(here, order.event()).await;
    harness.show("the same again", &again, &replayed)?;
    let again = harness.send(elsewhere, order.event()).await;
    harness.show("the same, to another process", &again, &replayed)?;

    let refused = Expectation::new(Action::Refused, "Put✗", "422 key-reused");
    let refused = refused.with_key_of(&first.observed);
    let changed = order.clone().with("amount", 9_900).event();
    let changed = harness.send(here, changed).await;
    harness.show("the same order, now 99.00 EUR", &changed, &refused)?;

    let theirs = harness.send(here, order.by("u-2").event()).await;
    let response = format!("201 pay-{}", theirs.number);
    let paid = Expectation::new(Action::Ran, "Put Update", response);
    harness.show("the same order of another user", &theirs, &paid)?;
    ensure!(
        theirs.observed.key() != first.observed.key(),
        "two users share a key"
    );
    harness.timeline.note(
        "└ a replay returns before the handler can check the user, so the key contains the user",
    )?;
    Ok(())
}

pub(crate) async fn an_event_without_a_key(
    harness: &mut Harness,
    [shipping, _]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "An event without a key is refused",
        "shipping · EventBridge",
    )?;
    let refused = Expectation::new(Action::Refused, "none", "IdempotencyKeyMissing");
    let sent = harness.send(shipping, events::paid("")).await;
    harness.show("a parcel for no order", &sent, &refused)?;
    harness
        .timeline
        .note("└ with key_required = false the handler runs unprotected, with a warning")?;
    Ok(())
}

pub(crate) async fn a_handler_that_fails(
    harness: &mut Harness,
    [here, _]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "A failed handler releases its claim",
        "payment · API Gateway HTTP API",
    )?;
    let order = Request::payment("o-1003")
        .with("card", "declined_once")
        .event();

    let declined = harness.send(here, order.clone()).await;
    let failed = Expectation::new(Action::Failed, "Put Delete", "402 the card was declined");
    harness.show("order o-1003, declined once", &declined, &failed)?;

    let retry = harness.send(here, order).await;
    let paid = Expectation::new(
        Action::Ran,
        "Put Update",
        format!("201 pay-{}", retry.number),
    );
    harness.show(
        "the retry runs again",
        &retry,
        &paid.with_key_of(&declined.observed),
    )
}
