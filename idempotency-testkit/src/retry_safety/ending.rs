//! The verdict on a scenario: how its deliveries ended for the sender of the event, whether the sender delivers the event again, and
//! how two responses differ.

use std::error::Error;

use idempotency_lambda::{BoxError, ErrorKind, diagnostic};
use serde::Serialize;
use serde_json::Value;

use super::check::{EVENT, Failure, Plan};
use super::effects::{Difference, Expectation, Kind};
use super::gate::FaultKind;
use super::report::{Row, SafetyVerdict};
use super::stage::{Delivery, Stage};

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// The function returned this response.
    Response(Value),
    /// The function returned an error: its name and its text.
    Failed { name: String, message: String },
    /// The function panicked.
    Panicked,
    /// The process was killed.
    Killed,
    /// The time of the invocation ended.
    TimedOut,
}

impl Ending {
    /// Returns the ending of a function that returned.
    pub(super) fn of<R: Serialize, E: Into<BoxError>>(result: Result<R, E>) -> Self {
        match result {
            Ok(response) => match serde_json::to_value(response) {
                Ok(response) => Self::Response(response),
                Err(error) => Self::Failed {
                    name: "NotSerializable".to_owned(),
                    message: error.to_string(),
                },
            },
            Err(error) => {
                let error: BoxError = error.into();
                let message = chain(&*error);
                let name = diagnostic(error).error_type;
                Self::Failed { name, message }
            }
        }
    }

    /// Returns the response if it is final: the sender does not deliver the event again.
    pub(super) fn final_response(&self) -> Option<&Value> {
        match self {
            Self::Response(response) if is_final(response) => Some(response),
            _ => None,
        }
    }

    /// Returns true if the framework holds the key until an operator decides.
    pub(super) fn is_held(&self) -> bool {
        self.is_refusal(ErrorKind::Unresolved, "urn:idempotency:outcome-unknown")
    }

    /// Returns true if the steps of the key may not be undone. Over HTTP other calls end so too.
    fn is_not_undone(&self) -> bool {
        self.is_refusal(ErrorKind::StepNotUndone, "urn:idempotency:not-confirmed")
    }

    /// Returns true if the event was refused because its key was used for another payload.
    pub(super) fn is_mismatch(&self) -> bool {
        self.is_refusal(ErrorKind::PayloadMismatch, "urn:idempotency:key-reused")
    }

    /// Returns true if the framework refused the call with this error, or over HTTP with this type of a problem.
    fn is_refusal(&self, error: ErrorKind, kind: &str) -> bool {
        match self {
            Self::Failed { name, .. } => name == error.name(),
            Self::Response(response) => problem(response).as_deref() == Some(kind),
            Self::Panicked | Self::Killed | Self::TimedOut => false,
        }
    }

    /// Returns what a report says of the delivery.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Response(response) => match status(response) {
                Some(status) if !is_final(response) => format!("status {status}"),
                Some(status) => format!("response with status {status}"),
                None if !is_final(response) => "records were returned to their source".to_owned(),
                None => "response".to_owned(),
            },
            Self::Failed { name, .. } => format!("error {name}"),
            Self::Panicked => "panic".to_owned(),
            Self::Killed => "killed".to_owned(),
            Self::TimedOut => "its time ended".to_owned(),
        }
    }
}

/// Returns the text of an error and of its causes. The errors of the SDK say in a cause what went wrong.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns false for a response after which the event, or a part of it, is delivered again: a partial batch response that names
/// records, and a status that asks for a retry.
fn is_final(response: &Value) -> bool {
    let returned = response["batchItemFailures"].as_array();
    if returned.is_some_and(|returned| !returned.is_empty()) {
        return false;
    }
    !status(response).is_some_and(|status| matches!(status, 409 | 425 | 429) || status >= 500)
}

/// Returns the status of an HTTP response.
fn status(response: &Value) -> Option<u64> {
    response["statusCode"].as_u64()
}

/// Returns the type of the problem, if the response has one.
fn problem(response: &Value) -> Option<String> {
    status(response)?;
    let body: Value = serde_json::from_str(response["body"].as_str()?).ok()?;
    body["type"].as_str().map(str::to_owned)
}

/// The header that a replay has in addition.
const REPLAYED: &str = "idempotent-replayed";

/// Returns the response in the form in which it is compared: the JSON text in a body as JSON, and without the parts at `ignored`
/// (JSON pointers).
pub(super) fn comparable(response: &Value, ignored: &[String]) -> Value {
    let mut response = response.clone();
    if response["statusCode"].is_u64() {
        for headers in ["headers", "multiValueHeaders"] {
            if let Some(headers) = response[headers].as_object_mut() {
                headers.retain(|name, _| !name.eq_ignore_ascii_case(REPLAYED));
            }
        }
        let body = response["body"].as_str();
        if let Some(body) = body.and_then(|body| serde_json::from_str(body).ok()) {
            response["body"] = body;
        }
    }
    for pointer in ignored {
        remove(&mut response, pointer);
    }
    response
}

/// Returns true if two stored responses are the same in all parts that are compared.
pub(super) fn are_equal(a: &str, b: &str, ignored: &[String]) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (read(a), read(b)) {
        (Some(a), Some(b)) => comparable(&a, ignored) == comparable(&b, ignored),
        _ => a == b,
    }
}

/// Returns the place, as a JSON pointer, of the first difference.
pub(super) fn first_difference(a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let below = match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => first_difference(a, b)?,
                    _ => String::new(),
                };
                // As RFC 6901 writes a name in a pointer.
                let name = name.replace('~', "~0").replace('/', "~1");
                Some(format!("/{name}{below}"))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().find_map(|(index, (a, b))| {
                let below = first_difference(a, b)?;
                Some(format!("/{index}{below}"))
            })
        }
        _ => (a != b).then(String::new),
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(elements)) => {
            let index = name.parse().ok().filter(|index| *index < elements.len());
            if let Some(index) = index {
                let _: Value = elements.remove(index);
            }
        }
        _ => {}
    }
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_that_asks_for_a_retry_is_not_final() {
        let is_final = |response: Value| Ending::Response(response).final_response().is_some();
        assert!(is_final(json!({ "paid": true })));
        assert!(is_final(json!({ "statusCode": 201 })));
        assert!(is_final(json!({ "statusCode": 402 })));
        assert!(is_final(json!({ "batchItemFailures": [] })));
        for status in [409, 425, 429, 500, 503] {
            assert!(!is_final(json!({ "statusCode": status })), "{status}");
        }
        let returned = json!([{ "itemIdentifier": "m-1" }]);
        assert!(!is_final(json!({ "batchItemFailures": returned })));
    }

    #[test]
    fn the_place_of_a_difference_is_the_member_that_is_ignored() {
        for mut more in [json!({ "a/b": 1, "c~d": 2 }), json!({ "a": null })] {
            while let Some(place) = first_difference(&more, &json!({})) {
                remove(&mut more, &place);
            }
            assert_eq!(more, json!({}));
        }
    }

    #[test]
    fn a_problem_of_the_framework_is_recognised_in_an_http_response() {
        let problem = |kind: &str| {
            let body = json!({ "type": kind }).to_string();
            Ending::Response(json!({ "statusCode": 500, "body": body }))
        };
        assert!(problem("urn:idempotency:outcome-unknown").is_held());
        assert!(!problem("urn:idempotency:in-progress").is_held());
        assert!(problem("urn:idempotency:key-reused").is_mismatch());
        assert!(!Ending::Response(json!({ "paid": true })).is_held());
    }

    #[test]
    fn an_error_of_the_framework_has_its_stable_name() {
        let error = idempotency_lambda::Error::new(ErrorKind::Unresolved, "charge");
        assert!(Ending::of(Err::<(), _>(error)).is_held());
        let own = Ending::of(Err::<(), BoxError>("declined".into()));
        assert!(!own.is_held());
        assert_eq!(own.final_response(), None);
    }

    fn replayed(body: &str) -> Value {
        json!({ "statusCode": 201, "headers": { "Idempotent-Replayed": "true" }, "body": body })
    }

    #[test]
    fn a_replay_differs_from_the_first_response_in_its_header_alone() {
        let first = json!({ "statusCode": 201, "headers": {}, "body": "{\"id\":1}" });
        let same = comparable(&replayed("{ \"id\": 1 }"), &[]);
        assert_eq!(comparable(&first, &[]), same);
        let other = comparable(&replayed("{\"id\":2}"), &[]);
        assert_eq!(
            first_difference(&comparable(&first, &[]), &other).as_deref(),
            Some("/body/id")
        );
    }

    #[test]
    fn an_ignored_part_is_not_compared_also_inside_a_body() {
        let ignored = ["/body/at".to_owned(), "/at".to_owned()];
        let a = comparable(&replayed("{\"id\":1,\"at\":1}"), &ignored);
        let b = comparable(&replayed("{\"id\":1,\"at\":2}"), &ignored);
        assert_eq!(a, b);
        assert!(are_equal(
            r#"{"at":1,"id":1}"#,
            r#"{"at":2,"id":1}"#,
            &ignored
        ));
        assert!(!are_equal(
            r#"{"at":1,"id":1}"#,
            r#"{"at":1,"id":2}"#,
            &ignored
        ));
        assert!(!are_equal("no JSON", "another", &ignored));
    }

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let difference = |a: Value, b: Value| first_difference(&a, &b);
        assert_eq!(
            difference(
                json!({ "a": [1, { "b": 2 }] }),
                json!({ "a": [1, { "b": 2 }] })
            ),
            None
        );
        assert_eq!(
            difference(
                json!({ "a": [1, { "b": 2 }] }),
                json!({ "a": [1, { "b": 3 }] })
            )
            .as_deref(),
            Some("/a/1/b")
        );
        assert_eq!(
            difference(json!({}), json!({ "a": 1 })).as_deref(),
            Some("/a")
        );
        assert_eq!(difference(json!(1), json!(2)).as_deref(), Some(""));
    }
}
