//! The verdict on a scenario, and the row of the report that it becomes.

use serde_json::Value;

use super::effects::{Difference, Expectation, Kind};
use super::ending::{Ending, are_equal, comparable, first_difference, status};
use super::gate::FaultKind;
use super::plan::{EVENT, Failure, Plan};
use super::report::{Row, SafetyVerdict};
use super::stage::{Delivery, Stage};

/// The verdict on a scenario, and what was found.
type Judgement = (SafetyVerdict, Vec<String>);

const SAFE: Judgement = (SafetyVerdict::Ok, Vec::new());

/// Judges a scenario in which the event was delivered to its end.
pub(super) fn judge(
    plan: &Plan,
    stage: &Stage<'_>,
    expectation: &Expectation,
) -> Result<Judgement, Failure> {
    let world = stage.snapshot()?;
    let differences = expectation.compare(&world);
    if let Some(judgement) = judge_effects(plan, stage, &differences) {
        return Ok(judgement);
    }
    let response = stage.response_to(EVENT);
    let response = response.map(|response| comparable(response, &plan.ignored));
    let disagrees = || expectation.disagreement(&world, response.as_ref()?);
    let different = responses(stage, &plan.ignored)
        .or_else(disagrees)
        .or_else(|| runs(stage, &plan.ignored));
    Ok(judge_responses(different))
}

/// Judges a scenario in which another event was delivered before this one was done. `orders` are the worlds in which one was done after
/// the other, in both orders. The world must be as one of them.
pub(super) fn judge_with_another(
    plan: &Plan,
    stage: &Stage<'_>,
    orders: &[Expectation],
) -> Result<Judgement, Failure> {
    let world = stage.snapshot()?;
    let differences = orders.iter().map(|order| order.compare(&world));
    let nearest = differences.min_by_key(Vec::len).unwrap_or_default();
    if let Some(judgement) = judge_effects(plan, stage, &nearest) {
        return Ok(judgement);
    }
    Ok(judge_responses(responses(stage, &plan.ignored)))
}

/// Judges what happened to the effects. `None` if each happened once, and the sender has a final response.
fn judge_effects(plan: &Plan, stage: &Stage<'_>, differences: &[Difference]) -> Option<Judgement> {
    let of = |kind: Kind| {
        let those = differences.iter().filter(move |found| found.kind == kind);
        those.map(|found: &Difference| found.text.clone())
    };
    let (twice, lost): (Vec<_>, Vec<_>) = (of(Kind::Twice).collect(), of(Kind::Lost).collect());
    if !twice.is_empty() {
        return Some((SafetyVerdict::EffectTwice, twice));
    }
    if !plan.fails && stage.response_to(EVENT).is_none() {
        return Some(unfinished(stage, lost));
    }
    (!lost.is_empty()).then_some((SafetyVerdict::EffectLost, lost))
}

fn judge_responses(different: Option<String>) -> Judgement {
    match different {
        Some(different) => (SafetyVerdict::ResponsesDiffer, vec![different]),
        None => SAFE,
    }
}

/// Returns the row of a scenario.
pub(super) fn row(
    number: usize,
    point: String,
    fault: Option<FaultKind>,
    (verdict, findings): Judgement,
    stage: &Stage<'_>,
) -> Row {
    let mut deliveries: Vec<_> = stage.deliveries.iter().collect();
    deliveries.sort_by_key(|delivery| delivery.number);
    let deliveries = deliveries.iter().map(|delivery| {
        let text = delivery.ending.text();
        match delivery.event {
            EVENT => text,
            _ => format!("another event: {text}"),
        }
    });
    Row {
        number,
        point,
        fault: fault.map(FaultKind::name),
        verdict,
        findings,
        deliveries: deliveries.collect(),
    }
}

/// Judges the delivery of an event after one of another operation: it must have its own effect. `alone` is its effect without the
/// event before.
pub(super) fn judge_after(
    stage: &mut Stage<'_>,
    (first, second): (usize, usize),
    alone: &Expectation,
    ignored: &[String],
) -> Result<Judgement, Failure> {
    stage.deliver(first, None)?;
    let before = stage.snapshot()?;
    stage.deliver(second, None)?;
    let after = stage.snapshot()?;
    // The event of the check comes second if the order of the two is the other one.
    let (verdict, [this, other]) = match second {
        EVENT => (
            SafetyVerdict::EffectLost,
            ["this event", "the event of another operation"],
        ),
        _ => (
            SafetyVerdict::WrongKey,
            ["the event of another operation", "this event"],
        ),
    };
    let ended = stage.deliveries.last().map(|delivery| &delivery.ending);
    let is_done_alone = alone.responses.0.is_some();
    if let Some(ending) = ended.filter(|ending| is_done_alone && ending.final_response().is_none())
    {
        let finding = format!("after {other}, {this} ended with: {}", ending.text());
        return Ok((SafetyVerdict::Stuck, vec![finding]));
    }
    if alone.sees_an_effect() && before == after {
        let finding = format!(
            "after {other}, {this} had no effect: it got the response of the first one, so both have one key. Add to the key what \
             distinguishes them, such as the user"
        );
        return Ok((verdict, vec![finding]));
    }
    let mut missing = alone.missing(&before, &after);
    let response = |event| Some(comparable(stage.response_to(event)?, ignored));
    if let (Some(to_this), Some(to_other)) = (response(second), response(first))
        && let Some(place) = alone.leak(&to_this, &to_other)
    {
        let place = at(&place);
        missing.push(format!(
            "the response to {this} has a value of the response to {other}{place}"
        ));
    }
    if missing.is_empty() {
        return Ok(SAFE);
    }
    let finding = format!(
        "after {other}, {this} did not do what it does alone: a token, an item, a guard or a cache does not distinguish them, as if \
         it lacked the user (if they are meant to share something, name it with `.ignore_effect(..)` or `.ignore(..)`)"
    );
    missing.insert(0, finding);
    Ok((verdict, missing))
}

/// Judges the delivery of an event that has the key of the event before and another content: it must be refused.
pub(super) fn judge_changed(stage: &mut Stage<'_>, changed: usize) -> Result<Judgement, Failure> {
    stage.deliver(EVENT, None)?;
    let before = stage.snapshot()?;
    stage.deliver(changed, None)?;
    let has_effect = before != stage.snapshot()?;
    if has_effect {
        let finding = "an event with another content had an effect of its own, so its key differs: it counts as another operation. \
                       Let the key name the operation alone, and set `validate` for the rest";
        return Ok((SafetyVerdict::WrongKey, vec![finding.to_owned()]));
    }
    let last = stage.deliveries.last().map(|delivery| &delivery.ending);
    let is_done = |ending: &Ending| {
        let refused = |response: &Value| matches!(status(response), Some(400..500));
        !ending.is_mismatch()
            && ending
                .final_response()
                .is_some_and(|response| !refused(response))
    };
    if last.is_some_and(is_done) {
        let finding = "an event with another content got the response of this one, and was not done: set `validate`";
        return Ok((SafetyVerdict::WrongKey, vec![finding.to_owned()]));
    }
    Ok(SAFE)
}

/// Judges a scenario in which no delivery got a final response.
fn unfinished(stage: &Stage<'_>, lost: Vec<String>) -> Judgement {
    let last = stage.of(EVENT).last();
    let not_undone = stage.of(EVENT).filter(|it| it.ending.is_not_undone());
    if last.is_some_and(|delivery| delivery.ending.is_held()) {
        // A fault ends one delivery. More of them fail by what the handler or an undo does.
        if not_undone.count() > 1 {
            let finding = "its steps are not undone, also by runs without a fault, so the key is held until an operator decides";
            return (SafetyVerdict::Stuck, vec![finding.to_owned()]);
        }
        let finding = "the key is held until an operator decides (`on_timeout = \"hold\"`)";
        return (SafetyVerdict::Held, vec![finding.to_owned()]);
    }
    let last = last
        .map(|delivery| delivery.ending.text())
        .unwrap_or_default();
    let mut findings = vec![format!(
        "no delivery got a final response, and the last one ended with: {last}"
    )];
    findings.extend(lost);
    (SafetyVerdict::Stuck, findings)
}

/// Compares the final responses that the senders got.
fn responses(stage: &Stage<'_>, ignored: &[String]) -> Option<String> {
    let mut responses = stage.of(EVENT).filter_map(|delivery| {
        let response = delivery.ending.final_response()?;
        Some((delivery.number, comparable(response, ignored)))
    });
    let (first, response) = responses.next()?;
    responses.find_map(|(number, other)| {
        let place = first_difference(&response, &other)?;
        Some(format!(
            "the responses of deliveries {first} and {number} differ{}",
            at(&place)
        ))
    })
}

/// Compares the responses that the runs made. If a later run changed nothing, the effect is that of the earlier run. Then the later
/// response must be equal to the earlier one.
fn runs(stage: &Stage<'_>, ignored: &[String]) -> Option<String> {
    let repeating = stage.deliveries.iter().filter(|run| run.repeats);
    repeating.into_iter().find_map(|later| {
        let differs = |earlier: &&Delivery| {
            let mut both = later.completions.iter().filter_map(|(key, stored)| {
                Some((stored, earlier.completions.get(key)?))
            });
            both.any(|(stored, other)| !are_equal(stored, other, ignored))
        };
        let earlier = stage.deliveries.iter().find(differs)?;
        Some(format!(
            "delivery {} repeated the run of delivery {} and changed nothing, but made another response",
            later.number, earlier.number
        ))
    })
}

fn at(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!(" at `{place}`")
    }
}
