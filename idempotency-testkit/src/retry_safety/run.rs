//! The run of a check: the faultless run, then each fault at each point.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::clock::Clock;
use idempotency_lambda::SystemClock;

use super::RECORDS;
use super::database::Server;
use super::effects::Expectation;
use super::ending::Ending;
use super::fault::{Point, labels};
use super::gate::MAX_AWAITS;
use super::judge::{judge, judge_changed, judge_other, row};
use super::plan::{EVENT, Failure, Plan};
use super::process::Process;
use super::provider::Listener;
use super::report::{Row, SafetyReport, SafetyVerdict};
use super::response::comparable;
use super::stage::{Stage, Theatre};

/// How much later than the first the second faultless run starts, so that times differ.
const ANOTHER_TIME: Duration = Duration::from_secs(133_333);

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
    };
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    let (expectation, points) = without_faults(&theatre, &mut rows, &mut notes)?;
    for (index, event) in plan.others.iter().enumerate() {
        let alone = effect_of(&theatre, *event)?.0;
        let mut stage = theatre.stage(Duration::ZERO, "request")?;
        let verdict = judge_other(&mut stage, *event, &alone)?;
        rows.push(row(
            0,
            numbered("another event", index),
            None,
            verdict,
            &stage,
        ));
    }
    for (index, event) in plan.changed.iter().enumerate() {
        let mut stage = theatre.stage(Duration::ZERO, "request")?;
        let verdict = judge_changed(&mut stage, *event)?;
        rows.push(row(
            0,
            numbered("changed event", index),
            None,
            verdict,
            &stage,
        ));
    }
    let labels = labels(&points);
    for (index, (point, label)) in points.iter().zip(&labels).enumerate() {
        for fault in point.faults() {
            let mut stage = theatre.stage(Duration::ZERO, "request")?;
            let process = stage.play(EVENT, Some((point.clone(), *fault)))?;
            let verdict = if process.gate.played() {
                judge(plan, &stage, &expectation)?
            } else {
                (SafetyVerdict::NotReached, Vec::new())
            };
            rows.push(row(index + 1, label.clone(), Some(*fault), verdict, &stage));
        }
    }
    Ok(SafetyReport {
        rows,
        failure: None,
        notes,
    })
}

/// Plays the faultless run and a second delivery. Returns what it changes, and its points.
fn without_faults(
    theatre: &Theatre<'_>,
    rows: &mut Vec<Row>,
    notes: &mut Vec<String>,
) -> Result<(Expectation, Vec<Point>), Failure> {
    let plan = theatre.plan;
    let (expectation, mut stage, process) = effect_of(theatre, EVENT)?;
    let (points, had_more) = process.gate.trace();
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
    if !expectation.sees_an_effect() && !plan.without_effect {
        return Err(Failure::new(
            "the delivery without a fault had no effect that can be seen, so this check would prove nothing: count the effect \
             with `.effect(..)`, add the function's table with `.table(..)`, or let it use the provider of `.provider(..)` \
             (if it has no effect, say so with `.without_effect()`)",
        ));
    }
    if !points.iter().any(is_claim) {
        notes.push(format!(
            "The function made no request to the table `{}`: nothing protects it. A call in a spawned task needs \
             `in_current_invocation`.",
            RECORDS
        ));
    }
    if had_more {
        notes.push(format!(
            "The function waits more than {} times. Faults were played at the first of these waits alone.",
            MAX_AWAITS
        ));
    }
    stage.shared.advance(Duration::from_secs(1));
    stage.deliver(EVENT, None)?;
    let verdict = judge(plan, &stage, &expectation)?;
    rows.push(row(0, "delivered again".to_owned(), None, verdict, &stage));
    Ok((expectation, points))
}

/// Delivers an event once in an empty world, and once more in another one. Returns what it changes, and the first world.
fn effect_of<'a>(
    theatre: &'a Theatre<'_>,
    event: usize,
) -> Result<(Expectation, Stage<'a>, Arc<Process>), Failure> {
    let mut stage = theatre.stage(Duration::ZERO, "request")?;
    let before = stage.snapshot()?;
    stage.shared.watch(true);
    let first = stage.deliver(event, None)?;
    let earlier = stage.shared.watch(false);
    let after = stage.snapshot()?;
    let mut another = theatre.stage(ANOTHER_TIME, "another-request")?;
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

fn is_claim(point: &Point) -> bool {
    matches!(point, Point::Request { label, .. } if label.contains(RECORDS))
}

fn numbered(name: &str, index: usize) -> String {
    match index {
        0 => name.to_owned(),
        index => format!("{name} {}", index + 1),
    }
}
