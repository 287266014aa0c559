//! Checks a history against the promises. The checker knows nothing of claims, leases or stores.

use std::collections::{BTreeMap, BTreeSet};

use idempotency_lambda::{ErrorKind, Run};

use super::schedule::EntryKind::{
    Called, CircuitOpen, Crashed, HandlerError, Panicked, Refused, Responded, RunEnded, RunStarted,
    StepDone, StepRan,
};
use super::schedule::{Entry, TIMEOUT};
use super::world::Faults;

/// How long a call may take after its deadline, in milliseconds, to release its claim.
const GRACE: i64 = 2_000;

/// Checks every promise. An error names the first one that the history breaks.
pub(crate) fn check(history: &[Entry], faults: &Faults) -> Result<(), String> {
    agreed_responses(history)?;
    own_payload(history)?;
    one_run_a_call(history)?;
    no_run_without_time(history)?;
    own_write_is_never_in_progress(history)?;
    in_progress_needs_an_equal_payload(history)?;
    no_call_waits_beyond_its_deadline(history)?;
    no_unprotected_run_unless_it_was_chosen(history, faults)?;
    recorded_steps_do_not_run_again(history)?;
    the_first_run_follows_no_unreported_effect(history)?;
    if faults.hold && faults.steps {
        every_step_runs_once(history)?;
    }
    if faults.hold {
        no_second_run(history)
    } else {
        never_stuck(history)
    }
}

/// How often each event happened, so that a test can check that its faults occurred.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    /// Returns the count of this name.
    pub(crate) fn of(&self, name: &str) -> usize {
        self.0[name]
    }

    pub(crate) fn add(&mut self, history: &[Entry]) {
        let count = |is: &dyn Fn(&Entry) -> bool| history.iter().filter(|event| is(event)).count();
        let refused = |kind| count(&|event| event.kind == Refused(kind));
        let is_late = |event: &Entry| {
            let of_another = matches!(event.kind, Responded { run, .. } if run != event.call);
            of_another && runs(history).any(|run| run.call == event.call)
        };
        let later_firsts = runs(history).skip(1).filter(|run| got(run, Run::First));
        let replayed = |event: &Entry| matches!(event.kind, Responded { replayed: true, .. });
        let shared = |event: &Entry| matches!(event.kind, Responded { shared: true, .. });
        // Steps whose result a later run used.
        let resumed = |it: &Entry| matches!(it.kind, StepDone { by, .. } if by != it.call);
        let not_known = refused(ErrorKind::CompletionUnknown) + refused(ErrorKind::StoreFailed);
        for (name, events) in [
            ("ran", runs(history).count()),
            // Runs after another run that got `First`.
            ("first_again", later_firsts.count()),
            ("second_runs", usize::from(no_second_run(history).is_err())),
            ("replayed", count(&replayed)),
            ("shared", count(&shared)),
            ("late_responses", count(&is_late)),
            ("in_progress", refused(ErrorKind::AlreadyInProgress)),
            ("unknown", not_known),
            ("unresolved", refused(ErrorKind::Unresolved)),
            ("crashed", count(&|event| event.kind == Crashed)),
            ("panicked", count(&|event| event.kind == Panicked)),
            ("unprotected", count(&is_unprotected)),
            ("circuits_open", count(&|event| event.kind == CircuitOpen)),
            ("resumed", count(&resumed)),
        ] {
            *self.0.entry(name).or_default() += events;
        }
    }
}

fn runs(history: &[Entry]) -> impl Iterator<Item = &Entry> {
    let is_run = |event: &&Entry| matches!(event.kind, RunStarted { .. });
    history.iter().filter(is_run)
}

fn is_unprotected(event: &Entry) -> bool {
    matches!(
        event.kind,
        Responded {
            unprotected: true,
            ..
        }
    )
}

fn got(event: &Entry, which: Run) -> bool {
    matches!(event.kind, RunStarted { run, .. } if run == which)
}

/// Returns an error if an event is found.
fn none<'a>(found: impl IntoIterator<Item = &'a Entry>, what: &str) -> Result<(), String> {
    match found.into_iter().next() {
        Some(event) => Err(format!("call {} {what}", event.call)),
        None => Ok(()),
    }
}

fn agreed_responses(history: &[Entry]) -> Result<(), String> {
    // The response of a run without a confirmed claim binds no other caller.
    let protected = history.iter().filter(|event| !is_unprotected(event));
    let responses: BTreeSet<_> = protected
        .filter_map(|event| match event.kind {
            Responded { run, .. } => Some(run),
            _ => None,
        })
        .collect();
    if responses.len() > 1 {
        return Err(format!(
            "callers got the responses of different runs: {responses:?}"
        ));
    }
    Ok(())
}

/// Checks that a handler runs without a confirmed claim only under the policy that allows it.
fn no_unprotected_run_unless_it_was_chosen(
    history: &[Entry],
    faults: &Faults,
) -> Result<(), String> {
    let is_wrong = |event: &&Entry| is_unprotected(event) && !faults.unprotected;
    none(history.iter().filter(is_wrong), "ran unprotected")
}

fn own_payload(history: &[Entry]) -> Result<(), String> {
    let is_other =
        |event: &&Entry| matches!(event.kind, Responded { amount, .. } if amount != event.amount);
    none(
        history.iter().filter(is_other),
        "got the response of another payload",
    )
}

fn one_run_a_call(history: &[Entry]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let again = runs(history).filter(|run| !seen.insert(run.call));
    none(again, "ran its handler twice")
}

fn no_run_without_time(history: &[Entry]) -> Result<(), String> {
    let is_late = |run: &&Entry| matches!(run.kind, RunStarted { left, .. } if left < 0);
    none(
        runs(history).filter(is_late),
        "started to run after its deadline",
    )
}

/// Checks that a call uses the result of each step that another call got before, and does not run that step again.
fn recorded_steps_do_not_run_again(history: &[Entry]) -> Result<(), String> {
    for (at, event) in history.iter().enumerate() {
        let StepDone { name, by } = event.kind else {
            continue;
        };
        let later = history[at..].iter().filter(|event| event.kind == Called);
        let later: BTreeSet<_> = later.map(|called| called.call).collect();
        let of_later = || {
            history[at..]
                .iter()
                .filter(|other| later.contains(&other.call))
        };
        none(
            of_later().filter(|other| other.kind == StepRan { name }),
            &format!("ran the step {name} again"),
        )?;
        let is_other = |other: &&Entry| matches!(other.kind, StepDone { name: of, by: used } if of == name && used != by);
        none(
            of_later().filter(is_other),
            &format!("got another result of the step {name}"),
        )?;
    }
    Ok(())
}

/// Checks that the effect of each step happened once at most.
fn every_step_runs_once(history: &[Entry]) -> Result<(), String> {
    let mut ran = BTreeSet::new();
    let again = |event: &&Entry| matches!(event.kind, StepRan { name } if !ran.insert(name));
    none(
        history.iter().filter(again),
        "ran a step for the second time",
    )
}

/// Checks that a first call never gets `AlreadyInProgress` before another call starts.
fn own_write_is_never_in_progress(history: &[Entry]) -> Result<(), String> {
    let alone = history
        .iter()
        .take_while(|event| event.call == history[0].call);
    let refused = alone.filter(|event| event.kind == Refused(ErrorKind::AlreadyInProgress));
    none(refused, "got `AlreadyInProgress` because of its own write")
}

/// Checks that a call that does not run gets its result shortly after its deadline at the latest.
fn no_call_waits_beyond_its_deadline(history: &[Entry]) -> Result<(), String> {
    let waited = |event: &&Entry| {
        let ends = matches!(event.kind, Responded { .. } | HandlerError | Refused(_));
        let mut of_call = history.iter().filter(|other| other.call == event.call);
        let called = of_call.find(|other| other.kind == Called);
        let took = called.map_or(0, |called| event.at - called.at);
        let ran = runs(history).any(|run| run.call == event.call);
        ends && !ran && took > TIMEOUT + GRACE
    };
    none(
        history.iter().filter(waited),
        "got its result too long after its deadline",
    )
}

/// Checks that a call gets `AlreadyInProgress` only if an earlier call had the same payload.
fn in_progress_needs_an_equal_payload(history: &[Entry]) -> Result<(), String> {
    let is_wrong = |(at, event): &(usize, &Entry)| {
        let like = |other: &Entry| {
            other.kind == Called && other.call != event.call && other.amount == event.amount
        };
        event.kind == Refused(ErrorKind::AlreadyInProgress) && !history[..*at].iter().any(like)
    };
    let wrong = history.iter().enumerate().filter(is_wrong);
    none(
        wrong.map(|(_, event)| event),
        "got `AlreadyInProgress` because of another payload",
    )
}

/// Checks that no claim refuses the last call of a history: the call comes long after every lease.
fn never_stuck(history: &[Entry]) -> Result<(), String> {
    let Some(last) = history.last() else {
        return Ok(());
    };
    match last.kind {
        Responded { .. } | HandlerError => Ok(()),
        // The network may still fail.
        Refused(
            ErrorKind::PayloadMismatch
            | ErrorKind::StoreFailed
            | ErrorKind::CompletionUnknown
            | ErrorKind::NoTimeLeft
            | ErrorKind::LostOwnership
            | ErrorKind::StepNotRecorded
            | ErrorKind::StepNoTimeLeft,
        ) => Ok(()),
        _ => Err(format!(
            "the key is stuck: the last call ended with {:?}",
            last.kind
        )),
    }
}

/// Checks that a run gets `First` only if each run before it reported that it failed, and has a result of each of its
/// steps that ran.
fn the_first_run_follows_no_unreported_effect(history: &[Entry]) -> Result<(), String> {
    let mut unreported = BTreeSet::new();
    // Of each call, the runs that were unreported when the call began.
    let mut before = BTreeMap::new();
    let mut open_steps = BTreeSet::new();
    for event in history {
        let call = event.call;
        match event.kind {
            Called => {
                before.insert(call, unreported.clone());
            }
            RunStarted { run, .. } => {
                // A run that has reported its failure meanwhile has freed the key for this one.
                let earlier = before.get(&call);
                if let Some(earlier) =
                    earlier.and_then(|runs| runs.intersection(&unreported).next())
                    && run == Run::First
                {
                    return Err(format!("call {call} got First, after call {earlier}"));
                }
                // A run without a confirmed claim leaves no trace.
                if run != Run::Unprotected {
                    unreported.insert(call);
                }
            }
            StepRan { .. } => drop(open_steps.insert(call)),
            StepDone { .. } => drop(open_steps.remove(&call)),
            RunEnded { responded: false } if !open_steps.contains(&call) => {
                unreported.remove(&call);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that no run starts after another run, unless that one reported an error. A panic reports nothing.
fn no_second_run(history: &[Entry]) -> Result<(), String> {
    let mut unreported: Option<usize> = None;
    for event in history {
        match event.kind {
            RunStarted { .. } => {
                if let Some(first) = unreported.replace(event.call) {
                    return Err(format!(
                        "call {} ran after call {first}, which may have had its effect",
                        event.call
                    ));
                }
            }
            RunEnded { responded: false } => unreported = None,
            _ => {}
        }
    }
    Ok(())
}
