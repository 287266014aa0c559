//! The parts of a batch: each message or record is an operation of its own.

use anyhow::{Context, Result, ensure};
use idempotency_lambda::{Deadline, Operation};

use crate::expectation::Expectation;
use crate::harness::{Finished, Harness};
use crate::observation::{Action, Observation, TableRequest, short};

/// A message or a record, and what is expected of it.
pub(super) struct Part {
    what: String,
    /// The value that its key is a digest of.
    key: String,
    expected: Expectation,
}

impl Part {
    /// Returns a part whose handler should do `action`.
    pub(super) fn new(what: impl Into<String>, key: &str, action: Action) -> Self {
        let requests = match action {
            Action::Ran => "Put Update",
            Action::Failed => "Put Delete",
            Action::Replayed => "Put✗",
            _ => "none",
        };
        Self {
            what: what.into(),
            key: key.to_owned(),
            expected: Expectation::new(action, requests, response(action)),
        }
    }
}

fn response(action: Action) -> &'static str {
    match action {
        Action::Ran => "done",
        Action::Replayed | Action::Shared => "done before",
        _ => "to repeat",
    }
}

/// Prints a line for the batch and for each of its parts, and compares each part with its expectation.
///
/// # Errors
///
/// If an expectation is not met.
pub(super) fn show(
    harness: &Harness,
    what: &str,
    finished: &Finished,
    parts: &[Part],
) -> Result<()> {
    let observed = &finished.observed;
    let number = finished.number.to_string();
    harness.timeline.batch(&number, what, &observed.response)?;
    let mut calls: Vec<_> = observed
        .requests
        .chunk_by(|_, next| !next.is_put())
        .collect();
    let mut seen = Vec::new();
    for part in parts {
        let key = digest(&part.key)?;
        let of_key =
            |call: &&[TableRequest]| call.first().and_then(TableRequest::key) == Some(&key);
        let call = calls.iter().position(of_key).map(|at| calls.remove(at));
        let action = match call {
            Some([_]) => Action::Replayed,
            Some([.., last]) if last.is_delete() => Action::Failed,
            Some(_) => Action::Ran,
            None if seen.contains(&key) => Action::Shared,
            None => Action::NotStarted,
        };
        let observed = Observation {
            action,
            runs: usize::from(matches!(action, Action::Ran | Action::Failed)),
            requests: call.unwrap_or_default().to_vec(),
            response: response(action).to_owned(),
            payload: None,
        };
        harness
            .timeline
            .event("", &format!("└ {}", part.what), &observed)?;
        let number = finished.number;
        let part_of = Finished { number, observed };
        harness.check(&format!("{what}, {}", part.what), &part_of, &part.expected)?;
        seen.push(key);
    }
    ensure!(
        calls.is_empty(),
        "a promise was not kept at event {number} ({what}): a call has the key of none of its parts"
    );
    Ok(())
}

/// Returns the first characters of the digest of a key.
fn digest(key: &str) -> Result<String> {
    let operation = Operation::builder("demo").build()?;
    let call = operation.identify(&key, Deadline::Inherited)?;
    let id = call.key().context("a part of the batch has no key")?;
    Ok(short(id.as_str()))
}
