//! The run of a check: the faultless runs, then each fault at each point.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::clock::Clock;
use idempotency_lambda::SystemClock;

use super::RECORDS;
use super::check::{EVENT, Failure, Plan};
use super::database::Server;
use super::effects::Expectation;
use super::ending::{Ending, comparable};
use super::gate::{FaultKind, MAX_NOTED, Point, Trace};
use super::judge::{judge, judge_changed, judge_other, row};
use super::process::Process;
use super::provider::Listener;
use super::report::{Row, SafetyReport, SafetyVerdict};
use super::stage::{Stage, Theatre};

/// How much later than the first the second faultless run starts, so that times differ.
const ANOTHER_TIME: Duration = Duration::from_secs(133_333);

/// How many ways through the function a check plays.
const MAX_COURSES: usize = 5;

/// How often a scenario is played until its point is reached.
const TRIES: usize = 2;

/// How often, if the point is a wait for a socket: the machine decides whether a run has it.
const TRIES_FOR_SOCKET: usize = 6;

/// The points of a faultless run.
struct Course {
    /// True if the caches of the program were warm.
    is_warm: bool,
    trace: Trace,
}

/// Plays all scenarios.
pub(super) fn play(plan: &Plan) -> Result<SafetyReport, Failure> {
    let listener = match &plan.provider {
        Some(_) => Some(Arc::new(Listener::bind().map_err(Failure::of_thread)?)),
        None => None,
    };
    let theatre = Theatre {
        plan,
        server: Server::start()?,
        listener,
        start: SystemClock.now(),
        rerun_in_another_second: Cell::new(true),
        stale_reads: RefCell::default(),
    };
    let mut report = SafetyReport {
        rows: Vec::new(),
        failure: None,
        notes: Vec::new(),
        unplayed: Vec::new(),
        unseen: unseen(plan),
    };
    let (expectation, first) = without_faults(&theatre, &mut report)?;
    other_events(&theatre, &mut report.rows)?;
    beyond_reach(&theatre, &mut report.rows)?;
    let mut number = 0;
    for course in courses(&theatre, first, &mut report)? {
        let mark = if course.is_warm { " (warm)" } else { "" };
        for (point, label) in course.trace {
            number += 1;
            for fault in FaultKind::ALL.into_iter().filter(|fault| point.has(*fault)) {
                let (stage, is_reached) = scenario(&theatre, course.is_warm, (&point, fault))?;
                let label = format!("{label}{mark}");
                // The requests before and after this wait are points of their own, so the effects around it were played.
                if !is_reached && is_wait_for_socket(plan, &point) {
                    report.unplayed.push(format!("`{label}`, {fault}"));
                    continue;
                }
                let verdict = if is_reached {
                    judge(plan, &stage, &expectation)?
                } else {
                    (SafetyVerdict::NotReached, Vec::new())
                };
                let row = row(number, label, Some(fault), verdict, &stage);
                report.rows.push(row);
            }
        }
    }
    let stale = theatre.stale_reads.borrow();
    report.unseen.extend(stale.iter().map(|read| {
        format!("`{read}` with an earlier state, as it is eventually consistent: set `consistent_read(true)` if a run decides by it")
    }));
    Ok(report)
}

/// Returns true if the machine decides whether a run has this wait, and not the function alone.
fn is_wait_for_socket(plan: &Plan, point: &Point) -> bool {
    !plan.settle.is_zero() && matches!(point, Point::Await(..))
}

/// Plays a fault at a point. Returns the stage, and whether the point was reached.
fn scenario<'a>(
    theatre: &'a Theatre<'_>,
    is_warm: bool,
    (point, fault): (&Point, FaultKind),
) -> Result<(Stage<'a>, bool), Failure> {
    let most = if is_wait_for_socket(theatre.plan, point) {
        TRIES_FOR_SOCKET
    } else {
        TRIES
    };
    let mut tries = 0;
    loop {
        let mut stage = if is_warm {
            theatre.warm_stage()?
        } else {
            theatre.stage()?
        };
        let process = stage.play(EVENT, Some((point.clone(), fault)))?;
        tries += 1;
        if process.gate.played() || tries == most {
            return Ok((stage, process.gate.played()));
        }
    }
}

/// Returns what this check does not look at.
fn unseen(plan: &Plan) -> Vec<String> {
    let ignored = plan.ignored_effects.iter();
    let mut unseen: Vec<_> = ignored
        .map(|name| format!("`{name}`, which the check ignores"))
        .collect();
    if plan.retried_for.is_none() {
        let window = "a delivery after the window (`expires_after`) has ended: say how long the sender delivers again, with \
                      `.retried_for(..)`";
        unseen.push(window.to_owned());
    }
    if plan.own_server {
        unseen.push("faults inside of a server of the test's own".to_owned());
    }
    unseen
}

/// Plays the faultless run and later deliveries. Returns what it changes, and its points.
fn without_faults(
    theatre: &Theatre<'_>,
    report: &mut SafetyReport,
) -> Result<(Expectation, Trace), Failure> {
    let plan = theatre.plan;
    let (expectation, mut stage, process) = effect_of(theatre, EVENT)?;
    let (trace, had_more) = process.gate.trace();
    if let Some(delivery) = stage.deliveries.first()
        && !plan.fails
        && delivery.ending.final_response().is_none()
    {
        let ending = match &delivery.ending {
            Ending::Failed { name, message } => format!("error {name}: {message}"),
            other => other.text(),
        };
        return Err(Failure::new(format!(
            "the delivery without a fault ended with: {ending}\n(if it is meant to fail, say so with `.fails()`)"
        )));
    }
    let all = stage.all()?;
    if let Some(name) = plan.ignored_effects.iter().find(|name| !all.has(name)) {
        return Err(Failure::new(format!(
            "the delivery without a fault had no effect `{name}`, so it cannot be ignored: name a count, a table, an attribute \
             such as `accounts.attempts`, or a request such as `POST /attempts`"
        )));
    }
    if !expectation.sees_an_effect() && !plan.without_effect {
        return Err(Failure::new(
            "the delivery without a fault had no effect that can be seen, so this check would prove nothing: count the effect \
             with `.effect(..)`, add the function's table with `.table(..)`, or let it use the provider of `.provider(..)` \
             (if it has no effect, say so with `.without_effect()`)",
        ));
    }
    if !trace.iter().any(|(_, label)| label.contains(RECORDS)) {
        report.notes.push(format!(
            "The function made no request to the table `{RECORDS}`: nothing protects it. A call in a spawned task needs \
             `in_current_invocation`."
        ));
    }
    if had_more {
        report.unseen.push(more_points());
    }
    stage.shared.advance(Duration::from_secs(1));
    stage.deliver(EVENT, None)?;
    let verdict = judge(plan, &stage, &expectation)?;
    report
        .rows
        .push(row(0, "delivered again".to_owned(), None, verdict, &stage));
    if let Some(time) = plan.retried_for {
        stage.shared.advance(time);
        stage.deliver(EVENT, None)?;
        let (verdict, mut findings) = judge(plan, &stage, &expectation)?;
        if !verdict.is_safe() {
            let longer = "the window has ended before: make `expires_after` longer than the sender's retries";
            findings.push(longer.to_owned());
        }
        let point = "delivered at the end of the retries".to_owned();
        report
            .rows
            .push(row(0, point, None, (verdict, findings), &stage));
    }
    Ok((expectation, trace))
}

/// Plays the events of other operations, and those with another content.
fn other_events(theatre: &Theatre<'_>, rows: &mut Vec<Row>) -> Result<(), Failure> {
    for (index, event) in theatre.plan.others.iter().enumerate() {
        let alone = effect_of(theatre, *event)?.0;
        let mut stage = theatre.stage()?;
        let verdict = judge_other(&mut stage, *event, &alone)?;
        rows.push(row(
            0,
            numbered("another event", index),
            None,
            verdict,
            &stage,
        ));
    }
    for (index, event) in theatre.plan.changed.iter().enumerate() {
        let mut stage = theatre.stage()?;
        let verdict = judge_changed(&mut stage, *event)?;
        rows.push(row(
            0,
            numbered("changed event", index),
            None,
            verdict,
            &stage,
        ));
    }
    Ok(())
}

/// Finds the effects that happen where no fault can fall: a run in another world, which has each locked fake aside, still changes
/// them.
fn beyond_reach(theatre: &Theatre<'_>, rows: &mut Vec<Row>) -> Result<(), Failure> {
    if theatre.plan.counts.is_empty() || theatre.plan.own_server {
        return Ok(());
    }
    let seen = theatre.stage()?;
    let mut aside = theatre.stage_aside(&seen)?;
    let before = seen.snapshot()?.counts;
    aside.deliver(EVENT, None)?;
    let after = seen.snapshot()?.counts;
    for (name, _) in after
        .iter()
        .filter(|(name, count)| before.get(*name) != Some(*count))
    {
        let finding = format!(
            "`{name}` changes outside of every `retry_safety::Mutex`, so no fault falls between it and what is done beside it"
        );
        let verdict = (SafetyVerdict::NotReached, vec![finding]);
        rows.push(row(0, format!("effect `{name}`"), None, verdict, &seen));
    }
    Ok(())
}

fn more_points() -> String {
    format!(
        "more than the first {MAX_NOTED} waits of the function, and of the uses of a fake at one place"
    )
}

/// Returns the ways through the function: the first run, and those of a program with warm caches, until there is no new one.
fn courses(
    theatre: &Theatre<'_>,
    first: Trace,
    report: &mut SafetyReport,
) -> Result<Vec<Course>, Failure> {
    let points = |trace: &Trace| -> Vec<Point> {
        let points = trace.iter().map(|(point, _)| point.clone());
        points
            .filter(|point| !is_wait_for_socket(theatre.plan, point))
            .collect()
    };
    let mut courses = vec![Course {
        is_warm: false,
        trace: first,
    }];
    loop {
        let mut stage = theatre.warm_stage()?;
        let (trace, had_more) = stage.deliver(EVENT, None)?.gate.trace();
        if had_more {
            report.unseen.push(more_points());
        }
        if courses
            .iter()
            .any(|known| points(&known.trace) == points(&trace))
        {
            return Ok(courses);
        }
        if courses.len() == MAX_COURSES {
            let more = format!(
                "more than {MAX_COURSES} ways through the function: each run has other points"
            );
            report.unseen.push(more);
            return Ok(courses);
        }
        courses.push(Course {
            is_warm: true,
            trace,
        });
    }
}

/// Delivers an event once in an empty world, and once more in another one. Returns what it changes, and the first world.
fn effect_of<'a>(
    theatre: &'a Theatre<'_>,
    event: usize,
) -> Result<(Expectation, Stage<'a>, Arc<Process>), Failure> {
    let mut stage = theatre.stage()?;
    let before = stage.snapshot()?;
    stage.shared.watch(true);
    let first = stage.deliver(event, None)?;
    let earlier = stage.shared.watch(false);
    let after = stage.snapshot()?;
    let mut another = theatre.stage_at(ANOTHER_TIME, "another-request")?;
    another.deliver(event, None)?;
    let response = |stage: &Stage<'_>| {
        let response = stage.final_response()?;
        Some(comparable(response, &theatre.plan.ignored))
    };
    let expectation = Expectation {
        before,
        after,
        again: another.snapshot()?,
        earlier,
        responses: (response(&stage), response(&another)),
    };
    Ok((expectation, stage, first))
}

fn numbered(name: &str, index: usize) -> String {
    match index {
        0 => name.to_owned(),
        index => format!("{name} {}", index + 1),
    }
}
