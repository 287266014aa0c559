//! Requests to an axum API with the header `Idempotency-Key`.

use anyhow::{Result, ensure};

use crate::events::Request;
use crate::expectation::Expectation;
use crate::harness::{Harness, Process};
use crate::observation::Action;

pub(crate) async fn requests_with_an_idempotency_key(
    harness: &mut Harness,
    [here, elsewhere]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "An axum API with Idempotency-Key",
        "http-api · axum on lambda_http",
    )?;
    let request = Request::refund("8e03978e-40d5-43dd-bc93-6894a57f9324");

    let first = harness.send(here, request.event()).await;
    let response = format!("201 ref-{}", first.number);
    let paid = Expectation::new(Action::Ran, "Put Update", response);
    harness.show("a refund of 15.00 EUR", &first, &paid)?;

    let again = harness.send(elsewhere, request.event()).await;
    let replayed = Expectation::replay(Action::Replayed, "Put✗", &first.observed);
    let replayed = replayed.with_key_of(&first.observed);
    harness.show("the same, to another process", &again, &replayed)?;

    let changed = harness
        .send(here, request.clone().with("amount", 9_900).event())
        .await;
    let refused = Expectation::new(Action::Refused, "Put✗", "422 key-reused");
    let refused = refused.with_key_of(&first.observed);
    harness.show("the same key, now 99.00 EUR", &changed, &refused)?;

    let theirs = harness.send(here, request.clone().by("u-2").event()).await;
    let response = format!("201 ref-{}", theirs.number);
    let paid = Expectation::new(Action::Ran, "Put Update", response);
    harness.show("the same key of another user", &theirs, &paid)?;
    ensure!(
        theirs.observed.key() != first.observed.key(),
        "two users share a key"
    );

    let without = harness.send(here, request.without_key().event()).await;
    let refused = Expectation::new(Action::Refused, "none", "400 key-missing");
    harness.show("no key", &without, &refused)
}
