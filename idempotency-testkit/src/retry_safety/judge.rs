//! The verdict on a scenario.

use super::check::{EVENT, Failure, Plan};
use super::effects::{Difference, Expectation, Kind};
use super::ending::{are_equal, comparable, first_difference};
use super::gate::FaultKind;
use super::report::{Row, SafetyVerdict};
use super::stage::{Delivery, Stage};

/// Judges a scenario in which the event was delivered to its end.
pub(super) fn judge(
    plan: &Plan,
    stage: &Stage<'_>,
    expectation: &Expectation,
) -> Result<(SafetyVerdict, Vec<String>), Failure> {
    let world = stage.snapshot()?;
    let differences = expectation.compare(&world);
    let of = |kind: Kind| {
        let those = differences.iter().filter(move |found| found.kind == kind);
        those.map(|found: &Difference| found.text.clone())
    };
    let (twice, lost): (Vec<_>, Vec<_>) = (of(Kind::Twice).collect(), of(Kind::Lost).collect());
    if !twice.is_empty() {
        return Ok((SafetyVerdict::EffectTwice, twice));
    }
    if !plan.fails && !stage.has_response() {
        return Ok(unfinished(stage, lost));
    }
    if !lost.is_empty() {
        return Ok((SafetyVerdict::EffectLost, lost));
    }
    let response = stage.final_response();
    let response = response.map(|response| comparable(response, &plan.ignored));
    let disagrees = || expectation.disagreement(&world, response.as_ref()?);
    let different = responses(stage, &plan.ignored)
        .or_else(disagrees)
        .or_else(|| runs(stage, &plan.ignored));
    Ok(match different {
        Some(different) => (SafetyVerdict::ResponsesDiffer, vec![different]),
        None => (SafetyVerdict::Ok, Vec::new()),
    })
}

/// Returns the row of a scenario.
pub(super) fn row(
    number: usize,
    point: String,
    fault: Option<FaultKind>,
    (verdict, findings): (SafetyVerdict, Vec<String>),
    stage: &Stage<'_>,
) -> Row {
    let mut deliveries: Vec<_> = stage.deliveries.iter().collect();
    deliveries.sort_by_key(|delivery| delivery.number);
    let deliveries = deliveries.iter().map(|delivery| delivery.ending.text());
    Row {
        number,
        point,
        fault,
        verdict,
        findings,
        deliveries: deliveries.collect(),
    }
}

/// Judges the delivery of an event that is another operation: it must have its own effect. `alone` is its effect without the
/// event before.
pub(super) fn judge_other(
    stage: &mut Stage<'_>,
    other: usize,
    alone: &Expectation,
) -> Result<(SafetyVerdict, Vec<String>), Failure> {
    stage.deliver(EVENT, None)?;
    let before = stage.snapshot()?;
    stage.deliver(other, None)?;
    let after = stage.snapshot()?;
    let ended = stage.deliveries.last().map(|delivery| &delivery.ending);
    if ended.is_some_and(|ending| ending.final_response().is_none()) {
        let text = ended.map(|ending| ending.text()).unwrap_or_default();
        let finding = format!("the event of another operation ended with: {text}");
        return Ok((SafetyVerdict::Stuck, vec![finding]));
    }
    if alone.sees_an_effect() && before == after {
        let finding = "the event of another operation had no effect: it got the response of this one, so both have one key. Add to \
                       the key what tells them apart, such as the user";
        return Ok((SafetyVerdict::WrongKey, vec![finding.to_owned()]));
    }
    Ok((SafetyVerdict::Ok, Vec::new()))
}

/// Judges the delivery of an event that has the key of the event before and another content: it must be refused.
pub(super) fn judge_changed(
    stage: &mut Stage<'_>,
    changed: usize,
) -> Result<(SafetyVerdict, Vec<String>), Failure> {
    stage.deliver(EVENT, None)?;
    let before = stage.snapshot()?;
    stage.deliver(changed, None)?;
    let has_effect = before != stage.snapshot()?;
    let Some(last) = stage.deliveries.last() else {
        return Ok((SafetyVerdict::Ok, Vec::new()));
    };
    if has_effect {
        let finding = "an event with another content had an effect of its own, so its key differs: it counts as another operation. \
                       Let the key name the operation alone, and set `validate` for the rest";
        return Ok((SafetyVerdict::WrongKey, vec![finding.to_owned()]));
    }
    if last.ending.is_mismatch() {
        return Ok((SafetyVerdict::Ok, Vec::new()));
    }
    let refused = |status: u64| (400..500).contains(&status);
    match last.ending.final_response() {
        None => Ok((SafetyVerdict::Ok, Vec::new())),
        Some(response) if response["statusCode"].as_u64().is_some_and(refused) => {
            Ok((SafetyVerdict::Ok, Vec::new()))
        }
        Some(_) => {
            let finding = "an event with another content got the response of this one, and was not done: set `validate`";
            Ok((SafetyVerdict::WrongKey, vec![finding.to_owned()]))
        }
    }
}

/// Judges a scenario in which no delivery got a final response.
fn unfinished(stage: &Stage<'_>, lost: Vec<String>) -> (SafetyVerdict, Vec<String>) {
    let last = stage.deliveries.last();
    if last.is_some_and(|delivery| delivery.ending.is_held()) {
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
    let mut responses = stage.deliveries.iter().filter_map(|delivery| {
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

/// Compares the responses that the runs made. If a later run changed nothing, the effect is that of the earlier run, and so must
/// be the response.
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
