//! The promises, held against a history. It knows nothing of claims, leases or stores.

use std::collections::BTreeSet;

use idempotency_lambda::ErrorKind;

use super::world::{Event, Faults, TIMEOUT, What};

/// How long a claim that is given up may take to be released after the deadline.
const GRACE: i64 = 2_000;

/// Which promise the history breaks, if one.
pub(crate) fn check(history: &[Event], faults: &Faults) -> Result<(), String> {
    agreed_answers(history)?;
    own_payload(history)?;
    one_run_a_call(history)?;
    no_run_without_time(history)?;
    alone_is_never_in_progress(history)?;
    another_payload_is_no_progress(history)?;
    nobody_waits_for_ever(history)?;
    if faults.hold {
        no_second_run(history)
    } else {
        never_stuck(history)
    }
}

/// What happened how often, so that a test knows that its faults were met.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ran: usize,
    pub(crate) second_runs: usize,
    pub(crate) replayed: usize,
    pub(crate) shared: usize,
    pub(crate) late_answers: usize,
    pub(crate) in_progress: usize,
    pub(crate) unknown: usize,
    pub(crate) unresolved: usize,
    pub(crate) crashed: usize,
    pub(crate) panicked: usize,
}

impl Counts {
    pub(crate) fn add(&mut self, history: &[Event]) {
        let count =
            |what: &dyn Fn(&Event) -> bool| history.iter().filter(|event| what(event)).count();
        let refused = |kind| move |event: &Event| event.what == What::Refused(kind);
        self.ran += runs(history).count();
        self.second_runs += usize::from(no_second_run(history).is_err());
        self.replayed +=
            count(&|event| matches!(event.what, What::Answered { replayed: true, .. }));
        self.shared += count(&|event| matches!(event.what, What::Answered { shared: true, .. }));
        self.late_answers += count(&|event| {
            let given_another =
                matches!(event.what, What::Answered { run, .. } if run != event.call);
            given_another && runs(history).any(|run| run.call == event.call)
        });
        self.in_progress += count(&refused(ErrorKind::AlreadyInProgress));
        self.unknown +=
            count(&refused(ErrorKind::CompletionUnknown)) + count(&refused(ErrorKind::StoreFailed));
        self.unresolved += count(&refused(ErrorKind::Unresolved));
        self.crashed += count(&|event| event.what == What::Crashed);
        self.panicked += count(&|event| event.what == What::Panicked);
    }
}

fn runs(history: &[Event]) -> impl Iterator<Item = &Event> {
    history
        .iter()
        .filter(|event| matches!(event.what, What::RunBegan { .. }))
}

fn agreed_answers(history: &[Event]) -> Result<(), String> {
    let answers: BTreeSet<_> = history
        .iter()
        .filter_map(|event| match event.what {
            What::Answered { run, .. } => Some(run),
            _ => None,
        })
        .collect();
    if answers.len() > 1 {
        return Err(format!(
            "callers were given the answers of different runs: {answers:?}"
        ));
    }
    Ok(())
}

fn own_payload(history: &[Event]) -> Result<(), String> {
    match history
        .iter()
        .find(|event| matches!(event.what, What::Answered { amount, .. } if amount != event.amount))
    {
        Some(event) => Err(format!(
            "call {} was given the answer of another payload",
            event.call
        )),
        None => Ok(()),
    }
}

fn one_run_a_call(history: &[Event]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match runs(history).find(|run| !seen.insert(run.call)) {
        Some(run) => Err(format!("call {} ran its handler twice", run.call)),
        None => Ok(()),
    }
}

fn no_run_without_time(history: &[Event]) -> Result<(), String> {
    match runs(history).find(|run| matches!(run.what, What::RunBegan { left } if left < 0)) {
        Some(run) => Err(format!("call {} began to run after its deadline", run.call)),
        None => Ok(()),
    }
}

/// Whoever is the first to call, and is the only one until it is answered, is never told that somebody is at it.
fn alone_is_never_in_progress(history: &[Event]) -> Result<(), String> {
    let first = &history[0];
    let others = history
        .iter()
        .position(|event| event.call != first.call)
        .unwrap_or(history.len());
    let told = history[..others]
        .iter()
        .any(|event| event.what == What::Refused(ErrorKind::AlreadyInProgress));
    if told {
        Err("a call was told in progress by its own write".to_owned())
    } else {
        Ok(())
    }
}

/// Whoever does not run is told something while it can still be told: soon after its deadline at the latest.
fn nobody_waits_for_ever(history: &[Event]) -> Result<(), String> {
    for event in history {
        let ends = matches!(
            event.what,
            What::Answered { .. } | What::HandlersOwnError | What::Refused(_)
        );
        let called = history
            .iter()
            .find(|other| other.call == event.call && other.what == What::Called);
        let took = called.map_or(0, |called| event.at - called.at);
        let ran = runs(history).any(|run| run.call == event.call);
        if ends && !ran && took > TIMEOUT + GRACE {
            return Err(format!("call {} was told after {took} ms", event.call));
        }
    }
    Ok(())
}

/// Whoever is told that somebody is at it has the payload of somebody who came before.
fn another_payload_is_no_progress(history: &[Event]) -> Result<(), String> {
    for (at, event) in history.iter().enumerate() {
        if event.what != What::Refused(ErrorKind::AlreadyInProgress) {
            continue;
        }
        let like = |other: &Event| {
            other.what == What::Called && other.call != event.call && other.amount == event.amount
        };
        if !history[..at].iter().any(like) {
            return Err(format!(
                "call {} was told in progress on account of another payload",
                event.call
            ));
        }
    }
    Ok(())
}

/// The last call of a history comes long after every lease: it is answered, or told that its payload is another's.
fn never_stuck(history: &[Event]) -> Result<(), String> {
    let Some(last) = history.last() else {
        return Ok(());
    };
    match last.what {
        What::Answered { .. } | What::HandlersOwnError => Ok(()),
        // The network may still fail it.
        What::Refused(
            ErrorKind::PayloadMismatch
            | ErrorKind::StoreFailed
            | ErrorKind::CompletionUnknown
            | ErrorKind::NoTimeLeft
            | ErrorKind::LostOwnership,
        ) => Ok(()),
        _ => Err(format!(
            "the key is stuck: the last call ended with {:?}",
            last.what
        )),
    }
}

/// No run begins after another that began and whose failure was not reported. A panic reports nothing.
fn no_second_run(history: &[Event]) -> Result<(), String> {
    let mut unreported: Option<usize> = None;
    for event in history {
        match event.what {
            What::RunBegan { .. } => {
                if let Some(first) = unreported {
                    return Err(format!(
                        "call {} ran after call {first}, which may have had its effect",
                        event.call
                    ));
                }
                unreported = Some(event.call);
            }
            What::RunEnded { answered: false } => unreported = None,
            _ => {}
        }
    }
    Ok(())
}
