//! A record that fails in the middle of a shard.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::batch::{self, Part};
use crate::events;
use crate::expectation::Expectation;
use crate::harness::{Harness, Process};
use crate::observation::Action;

pub(crate) async fn a_record_that_fails(
    harness: &mut Harness,
    [here, _]: &[Process; 2],
) -> Result<()> {
    harness.step(
        "A shard goes on at the record that failed",
        "ledger · Kinesis",
    )?;
    let locked = ledger::book::LOCKED_ONCE;
    let entries = [
        ("e-1", "acc-1"),
        ("e-2", "acc-2"),
        ("e-1", "acc-1"),
        ("e-3", locked),
        ("e-4", "acc-1"),
    ];
    let batch = events::entries(1, &entries);

    let what = "a batch of 5 records";
    let first = harness.send(here, batch.to_string()).await;
    let parts = [
        Part::new("entry e-1", "e-1", Action::Ran),
        Part::new("entry e-2", "e-2", Action::Ran),
        Part::new("entry e-1, sent twice", "e-1", Action::Shared),
        Part::new("entry e-3, account locked", "e-3", Action::Failed),
        Part::new("entry e-4", "e-4", Action::NotStarted),
    ];
    batch::show(harness, what, &first, &parts)?;
    let requests = "Put Update Put Update Put Delete";
    let expected = Expectation::new(Action::Ran, requests, "1 to repeat");
    harness.check(what, &first, &expected.runs(3))?;
    let response = first.observed.payload.as_deref().unwrap_or_default();
    let failed = &batch.sequence_numbers()[3];
    ensure!(
        serde_json::from_str::<Value>(response)?
            == json!({ "batchItemFailures": [{ "itemIdentifier": failed }] }),
        "a promise was not kept at event {} ({what}): the response does not name the record that failed",
        first.number
    );
    harness
        .timeline
        .note("└ the response names e-3: Kinesis delivers again from there, in order")?;

    let what = "the shard, from e-3 on";
    let again = harness.send(here, events::entries(4, &entries[3..]).to_string());
    let again = again.await;
    let parts = [
        Part::new("entry e-3", "e-3", Action::Ran),
        Part::new("entry e-4", "e-4", Action::Ran),
    ];
    batch::show(harness, what, &again, &parts)?;
    let expected = Expectation::new(Action::Ran, "Put Update Put Update", "none to repeat");
    harness.check(what, &again, &expected.runs(2))
}
