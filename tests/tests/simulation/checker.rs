//! Checks a history against the promises. The checker knows nothing of claims, leases or stores.

use std::collections::{BTreeMap, BTreeSet};

use idempotency_lambda::{ErrorKind, Run};

use super::schedule::{Event, EventKind, Faults, TIMEOUT};

/// How long a call may take after its deadline, in milliseconds, to release its claim.
const GRACE: i64 = 2_000;

/// Checks every promise. An error names the first one that the history breaks.
pub(crate) fn check(history: &[Event], faults: &Faults) -> Result<(), String> {
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
pub(crate) struct Counts {
    pub(crate) ran: usize,
    pub(crate) second_runs: usize,
    pub(crate) replayed: usize,
    pub(crate) shared: usize,
    pub(crate) late_responses: usize,
    pub(crate) in_progress: usize,
    pub(crate) unknown: usize,
    pub(crate) unresolved: usize,
    pub(crate) crashed: usize,
    pub(crate) panicked: usize,
    pub(crate) unprotected: usize,
    pub(crate) circuits_open: usize,
    /// Steps whose result a later run used.
    pub(crate) resumed: usize,
    /// Runs after another run that got `First`.
    pub(crate) first_again: usize,
}

impl Counts {
    pub(crate) fn add(&mut self, history: &[Event]) {
        let count = |matches: &dyn Fn(&Event) -> bool| {
            history.iter().filter(|event| matches(event)).count()
        };
        let refused = |kind| move |event: &Event| event.kind == EventKind::Refused(kind);
        self.ran += runs(history).count();
        let is_first = |run: &&Event| got(run, Run::First);
        self.first_again += runs(history).skip(1).filter(is_first).count();
        self.second_runs += usize::from(no_second_run(history).is_err());
        self.replayed +=
            count(&|event| matches!(event.kind, EventKind::Responded { replayed: true, .. }));
        self.shared +=
            count(&|event| matches!(event.kind, EventKind::Responded { shared: true, .. }));
        self.late_responses += count(&|event| {
            let given_another =
                matches!(event.kind, EventKind::Responded { run, .. } if run != event.call);
            given_another && runs(history).any(|run| run.call == event.call)
        });
        self.in_progress += count(&refused(ErrorKind::AlreadyInProgress));
        self.unknown +=
            count(&refused(ErrorKind::CompletionUnknown)) + count(&refused(ErrorKind::StoreFailed));
        self.unresolved += count(&refused(ErrorKind::Unresolved));
        self.crashed += count(&|event| event.kind == EventKind::Crashed);
        self.panicked += count(&|event| event.kind == EventKind::Panicked);
        self.unprotected += count(&is_unprotected);
        self.circuits_open += count(&|event| event.kind == EventKind::CircuitOpen);
        self.resumed += count(
            &|event| matches!(event.kind, EventKind::StepDone { by, .. } if by != event.call),
        );
    }
}

fn runs(history: &[Event]) -> impl Iterator<Item = &Event> {
    history
        .iter()
        .filter(|event| matches!(event.kind, EventKind::RunStarted { .. }))
}

fn agreed_responses(history: &[Event]) -> Result<(), String> {
    let responses: BTreeSet<_> = history
        .iter()
        .filter_map(|event| match event.kind {
            // The response of a run without a confirmed claim binds no other caller.
            EventKind::Responded {
                run,
                unprotected: false,
                ..
            } => Some(run),
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

fn is_unprotected(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Responded {
            unprotected: true,
            ..
        }
    )
}

/// Checks that a handler runs without a confirmed claim only under the policy that allows it.
fn no_unprotected_run_unless_it_was_chosen(
    history: &[Event],
    faults: &Faults,
) -> Result<(), String> {
    match history.iter().find(|event| is_unprotected(event)) {
        Some(event) if !faults.unprotected => Err(format!("call {} ran unprotected", event.call)),
        _ => Ok(()),
    }
}

fn own_payload(history: &[Event]) -> Result<(), String> {
    match history.iter().find(
        |event| matches!(event.kind, EventKind::Responded { amount, .. } if amount != event.amount),
    ) {
        Some(event) => Err(format!(
            "call {} got the response of another payload",
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
    match runs(history)
        .find(|run| matches!(run.kind, EventKind::RunStarted { left, .. } if left < 0))
    {
        Some(run) => Err(format!(
            "call {} started to run after its deadline",
            run.call
        )),
        None => Ok(()),
    }
}

/// Checks that a call uses the result of each step that another call got before, and does not run that step again.
fn recorded_steps_do_not_run_again(history: &[Event]) -> Result<(), String> {
    for (at, event) in history.iter().enumerate() {
        let EventKind::StepDone { name, by } = event.kind else {
            continue;
        };
        let called = |event: &&Event| event.kind == EventKind::Called;
        let later = history[at..].iter().filter(called);
        let later: BTreeSet<_> = later.map(|called| called.call).collect();
        for other in history[at..]
            .iter()
            .filter(|other| later.contains(&other.call))
        {
            match other.kind {
                EventKind::StepRan { name: ran } if ran == name => {
                    return Err(format!("call {} ran the step {name} again", other.call));
                }
                EventKind::StepDone { name: of, by: used } if of == name && used != by => {
                    return Err(format!(
                        "call {} got another result of the step {name}",
                        other.call
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Checks that the effect of each step happened once at most.
fn every_step_runs_once(history: &[Event]) -> Result<(), String> {
    let mut ran = BTreeSet::new();
    for event in history {
        if let EventKind::StepRan { name } = event.kind
            && !ran.insert(name)
        {
            return Err(format!(
                "call {} ran the step {name} for the second time",
                event.call
            ));
        }
    }
    Ok(())
}

/// Checks that a first call never gets `AlreadyInProgress` before another call starts.
fn own_write_is_never_in_progress(history: &[Event]) -> Result<(), String> {
    let first = &history[0];
    let others = history
        .iter()
        .position(|event| event.call != first.call)
        .unwrap_or(history.len());
    let refused = history[..others]
        .iter()
        .any(|event| event.kind == EventKind::Refused(ErrorKind::AlreadyInProgress));
    if refused {
        Err("a call got `AlreadyInProgress` because of its own write".to_owned())
    } else {
        Ok(())
    }
}

/// Checks that a call that does not run gets its result shortly after its deadline at the latest.
fn no_call_waits_beyond_its_deadline(history: &[Event]) -> Result<(), String> {
    for event in history {
        let ends = matches!(
            event.kind,
            EventKind::Responded { .. } | EventKind::HandlerError | EventKind::Refused(_)
        );
        let called = history
            .iter()
            .find(|other| other.call == event.call && other.kind == EventKind::Called);
        let took = called.map_or(0, |called| event.at - called.at);
        let ran = runs(history).any(|run| run.call == event.call);
        if ends && !ran && took > TIMEOUT + GRACE {
            return Err(format!(
                "call {} got its result after {took} ms",
                event.call
            ));
        }
    }
    Ok(())
}

/// Checks that a call gets `AlreadyInProgress` only if an earlier call had the same payload.
fn in_progress_needs_an_equal_payload(history: &[Event]) -> Result<(), String> {
    for (at, event) in history.iter().enumerate() {
        if event.kind != EventKind::Refused(ErrorKind::AlreadyInProgress) {
            continue;
        }
        let like = |other: &Event| {
            other.kind == EventKind::Called
                && other.call != event.call
                && other.amount == event.amount
        };
        if !history[..at].iter().any(like) {
            return Err(format!(
                "call {} got `AlreadyInProgress` because of another payload",
                event.call
            ));
        }
    }
    Ok(())
}

/// Checks that the last call of a history gets a response or `PayloadMismatch`: it comes long after every lease.
fn never_stuck(history: &[Event]) -> Result<(), String> {
    let Some(last) = history.last() else {
        return Ok(());
    };
    match last.kind {
        EventKind::Responded { .. } | EventKind::HandlerError => Ok(()),
        // The network may still fail.
        EventKind::Refused(
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

fn got(event: &Event, which: Run) -> bool {
    matches!(event.kind, EventKind::RunStarted { run, .. } if run == which)
}

/// Checks that a run gets `First` only if each run before it reported that it failed, and has a result of each of its
/// steps that ran.
fn the_first_run_follows_no_unreported_effect(history: &[Event]) -> Result<(), String> {
    let mut unreported = BTreeSet::new();
    // Of each call, the runs that were unreported when the call began.
    let mut before = BTreeMap::new();
    let mut open_steps = BTreeSet::new();
    for event in history {
        let call = event.call;
        match event.kind {
            EventKind::Called => {
                before.insert(call, unreported.clone());
            }
            EventKind::RunStarted { .. } => {
                // A run that has reported its failure meanwhile has freed the key for this one.
                let earlier = before.get(&call);
                if let Some(earlier) =
                    earlier.and_then(|runs| runs.intersection(&unreported).next())
                    && got(event, Run::First)
                {
                    return Err(format!("call {call} got First, after call {earlier}"));
                }
                // A run without a confirmed claim leaves no trace.
                if !got(event, Run::Unprotected) {
                    unreported.insert(call);
                }
            }
            EventKind::StepRan { .. } => drop(open_steps.insert(call)),
            EventKind::StepDone { .. } => drop(open_steps.remove(&call)),
            EventKind::RunEnded { responded: false } if !open_steps.contains(&call) => {
                unreported.remove(&call);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that no run starts after another run, unless that one reported an error. A panic reports nothing.
fn no_second_run(history: &[Event]) -> Result<(), String> {
    let mut unreported: Option<usize> = None;
    for event in history {
        match event.kind {
            EventKind::RunStarted { .. } => {
                if let Some(first) = unreported {
                    return Err(format!(
                        "call {} ran after call {first}, which may have had its effect",
                        event.call
                    ));
                }
                unreported = Some(event.call);
            }
            EventKind::RunEnded { responded: false } => unreported = None,
            _ => {}
        }
    }
    Ok(())
}
