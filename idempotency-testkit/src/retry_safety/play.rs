//! The run of a check: the faultless runs, then each fault at each point.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::SystemClock;

use super::effects::Expectation;
use super::ending::{Ending, comparable};
use super::gate::{FaultKind, MAX_NOTED, Point, Trace};
use super::plan::{EVENT, Failure, Plan};
use super::process::Process;
use super::provider::Listener;
use super::report::{Row, SafetyReport, SafetyVerdict};
use super::stage::{Handler, Stage, Theatre};
use super::verdict::{judge, judge_after, judge_changed, judge_with_another, row};
use super::{RECORDS, Server};

/// How much later the second faultless run starts than the first, so that their times differ.
const ANOTHER_TIME: Duration = Duration::from_secs(133_333);

/// How many ways through the function a check plays at most.
const MAX_COURSES: usize = 5;

/// How often a scenario is played at most, until its point is reached.
const TRIES: usize = 2;

/// The same for a point that is a wait for a socket: the machine decides whether a run has this wait.
const TRIES_FOR_SOCKET: usize = 6;

/// The points of a faultless run.
struct Course {
    /// True if the caches of the program were warm.
    is_warm: bool,
    trace: Trace,
}

/// Plays all scenarios.
pub(super) fn play(plan: &Plan, handler: &Handler) -> Result<SafetyReport, Failure> {
    let listener = match &plan.provider {
        Some(_) => Some(Arc::new(Listener::bind().map_err(Failure::of_thread)?)),
        None => None,
    };
    let theatre = Theatre {
        plan,
        handler,
        server: Server::start()?,
        listener,
        #[cfg(feature = "postgres")]
        postgres: match &plan.postgres {
            Some((url, setup)) => Some(Arc::new(super::postgres::Server::start(url, setup)?)),
            None => None,
        },
        start: before_midnight(SystemClock.now()),
        rerun_in_another_second: Cell::new(true),
        stale_reads: RefCell::default(),
        seen: RefCell::default(),
    };
    let mut report = SafetyReport::empty();
    report.unseen = unseen(plan);
    let (expectation, first) = without_faults(&theatre, &mut report)?;
    let orders = other_events(&theatre, &expectation, &mut report.rows)?;
    beyond_reach(&theatre, &mut report.rows)?;
    let mut number = 0;
    for course in courses(&theatre, first, &mut report)? {
        let mark = if course.is_warm { " (warm)" } else { "" };
        for (point, label) in course.trace {
            number += 1;
            let faults = FaultKind::ALL.into_iter().filter(|fault| {
                let can_be = match fault {
                    FaultKind::CrashThenLate => !course.is_warm,
                    other if other.has_another() => !orders.is_empty() && !course.is_warm,
                    _ => true,
                };
                can_be && point.has(*fault)
            });
            for fault in faults {
                let (stage, is_reached) = scenario(&theatre, course.is_warm, (&point, fault))?;
                let label = format!("{label}{mark}");
                // The requests before and after this wait are points of their own, so the effects around it were played.
                if !is_reached && is_wait_for_socket(plan, &point) {
                    report.unplayed.push(format!("`{label}`, {}", fault.name()));
                    continue;
                }
                let verdict = match is_reached {
                    true if fault.has_another() => judge_with_another(plan, &stage, &orders)?,
                    true => judge(plan, &stage, &expectation)?,
                    false => (SafetyVerdict::NotReached, Vec::new()),
                };
                let row = row(number, label, Some(fault), verdict, &stage);
                report.rows.push(row);
            }
        }
    }
    let seen = theatre.seen.borrow();
    let of_several = plan.one_of.iter().flatten();
    report
        .unseen
        .extend(of_several.filter(|name| !seen.contains(*name)).map(|name| {
            format!("`{name}` of `.one_of(..)`: no case had this effect, so check its name")
        }));
    report.unseen.extend(
        expectation
            .not_compared()
            .iter()
            .map(|name| format!("`{name}`, as it differs between two runs without a fault")),
    );
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
    let most = match is_wait_for_socket(theatre.plan, point) {
        true => TRIES_FOR_SOCKET,
        false => TRIES,
    };
    let mut tries = 0;
    loop {
        let mut stage = match is_warm {
            true => theatre.warm_stage()?,
            false => theatre.stage()?,
        };
        let process = stage.play(point.clone(), fault)?;
        tries += 1;
        if process.gate.played() || tries == most {
            return Ok((stage, process.gate.played()));
        }
    }
}

/// Returns the time just before the next midnight (UTC), so that the event is delivered again on another day.
fn before_midnight(now: EpochMillis) -> EpochMillis {
    const DAY: i64 = 86_400_000;
    let since_midnight = now.get().rem_euclid(DAY);
    EpochMillis::new(now.get() - since_midnight + DAY - 500)
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
    for (is_given, missing) in [
        (
            !plan.others.is_empty(),
            "the event of another operation, such as the order of another user, which can come between a crash and its redelivery: \
             give it with `.another(..)`",
        ),
        (
            !plan.changed.is_empty(),
            "an event with the same key and another content: give it with `.changed(..)`",
        ),
        (
            plan.is_changed_by_delivery,
            "what each delivery of the event changes, such as a receive count: make it with `.delivered_as(..)`",
        ),
    ] {
        if !is_given {
            unseen.push(missing.to_owned());
        }
    }
    unseen.push(
        "what a new process changes and a delivery here does not: the process id, a `static`, the environment, the real clock. A \
         token or an amount must not depend on them"
            .to_owned(),
    );
    #[cfg(feature = "postgres")]
    if plan.postgres.is_some() {
        unseen.push(
            "locks of a killed process: its transactions are rolled back at once, and a server can take longer".to_owned(),
        );
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
    let (expectation, mut stage, process) = effect_of(theatre, &[EVENT])?;
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
    if let Some(names) = plan
        .one_of
        .iter()
        .find(|names| !names.iter().any(|name| all.has(name)))
    {
        return Err(Failure::new(format!(
            "the delivery without a fault had no effect of `.one_of({names:?})`: name counts, tables, or requests such as `POST /charges`"
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
    let alone = process.gate.lone_writes().into_iter();
    report.notes.extend(alone.map(|write| {
        format!("`{write}` was committed by itself, not in the transaction of the response.")
    }));
    if had_more {
        report.unseen.push(more_points());
    }
    stage.shared.advance(Duration::from_secs(1));
    stage.deliver(EVENT, None)?;
    let verdict = judge(plan, &stage, &expectation)?;
    let point = "delivered again".to_owned();
    report.rows.push(row(0, point, None, verdict, &stage));
    if let Some(time) = plan.retried_for {
        stage.shared.advance(time);
        stage.deliver(EVENT, None)?;
        let (verdict, mut findings) = judge(plan, &stage, &expectation)?;
        if !verdict.is_safe() {
            let longer = "the window has ended before: make `expires_after` longer than the sender's retries, as a setting and where the handler calls it";
            findings.push(longer.to_owned());
        }
        let point = "delivered at the end of the retries".to_owned();
        let verdict = (verdict, findings);
        report.rows.push(row(0, point, None, verdict, &stage));
    }
    Ok((expectation, trace))
}

/// Plays the events of other operations, and those with another content. Returns what the event and the first other one change, in
/// both orders.
fn other_events(
    theatre: &Theatre<'_>,
    expectation: &Expectation,
    rows: &mut Vec<Row>,
) -> Result<Vec<Expectation>, Failure> {
    let plan = theatre.plan;
    let mut orders = Vec::new();
    for (index, event) in plan.others.iter().enumerate() {
        let alone = effect_of(theatre, &[*event])?.0;
        let mut stage = theatre.stage()?;
        let verdict = judge_after(&mut stage, (EVENT, *event), &alone, &plan.ignored)?;
        let is_safe = verdict.0.is_safe();
        let point = numbered("another event", index);
        rows.push(row(0, point, None, verdict, &stage));
        if index > 0 || !is_safe {
            continue;
        }
        for order in [[EVENT, *event], [*event, EVENT]] {
            orders.push(effect_of(theatre, &order)?.0);
        }
        stage.shared.advance(Duration::from_secs(1));
        stage.deliver(EVENT, None)?;
        let verdict = judge_with_another(plan, &stage, &orders)?;
        let point = "delivered again after another event".to_owned();
        rows.push(row(0, point, None, verdict, &stage));
        let mut stage = theatre.stage()?;
        let verdict = judge_after(&mut stage, (*event, EVENT), expectation, &plan.ignored)?;
        rows.push(row(
            0,
            "after another event".to_owned(),
            None,
            verdict,
            &stage,
        ));
    }
    for (index, event) in theatre.plan.changed.iter().enumerate() {
        let mut stage = theatre.stage()?;
        let verdict = judge_changed(&mut stage, *event)?;
        let point = numbered("changed event", index);
        rows.push(row(0, point, None, verdict, &stage));
    }
    Ok(orders)
}

/// Finds the effects that happen where no fault can fall. A second world shares the fakes of the first, but what it does under a
/// lock of a fake is kept aside. A count of the first world that the second one changes is such an effect.
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

/// Delivers events once in an empty world, and once in another one. Returns what they change, and the first world with the process of
/// the last event. The responses are those to the last event.
fn effect_of<'a>(
    theatre: &'a Theatre<'_>,
    events: &[usize],
) -> Result<(Expectation, Stage<'a>, Arc<Process>), Failure> {
    let mut stage = theatre.stage()?;
    let before = stage.snapshot()?;
    stage.shared.watch(true);
    let mut process = None;
    for event in events {
        process = Some(stage.deliver(*event, None)?);
    }
    let (Some(process), Some(event)) = (process, events.last()) else {
        return Err(Failure::new("there is no event to deliver"));
    };
    let earlier = stage.shared.watch(false);
    let after = stage.snapshot()?;
    let mut another = theatre.stage_at(ANOTHER_TIME, "another-request")?;
    for event in events {
        another.deliver(*event, None)?;
    }
    let response = |stage: &Stage<'_>| {
        let response = stage.response_to(*event)?;
        Some(comparable(response, &theatre.plan.ignored))
    };
    let expectation = Expectation {
        before,
        after,
        again: another.snapshot()?,
        earlier,
        responses: (response(&stage), response(&another)),
    };
    Ok((expectation, stage, process))
}

fn numbered(name: &str, index: usize) -> String {
    match index {
        0 => name.to_owned(),
        index => format!("{name} {}", index + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_delivered_again_on_another_day() {
        for now in [0, 1, 86_399_999, 1_800_000_000_000] {
            let start = before_midnight(EpochMillis::new(now)).get();
            assert!(start > now - 500 && start <= now + 86_400_000, "{now}");
            assert_ne!(start / 86_400_000, (start + 1_000) / 86_400_000, "{now}");
        }
    }
}
