//! Compares both plays of a step: responses, numbers of runs, requests and items.

use std::collections::BTreeSet;

use idempotency_lambda::{BoxError, ErrorKind};
use idempotency_testkit::dynamodb::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conditions::{Conditions, LetThrough, Moment, Owner, Standing};
use super::difference::Difference;
use super::ours::CallResult;
use super::scenario::{Call, Item, Outcome};

/// The result of a comparison.
#[derive(Default)]
pub(crate) struct Comparison {
    /// The known differences.
    pub(crate) differences: BTreeSet<Difference>,
    /// All other differences.
    pub(crate) unexplained: Vec<String>,
}

impl Comparison {
    fn is(&mut self, difference: Difference) {
        self.differences.insert(difference);
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.unexplained.push(what());
        }
    }

    /// Records a difference unless both are equal.
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, theirs: T, ours: T) {
        self.expect(theirs == ours, || {
            format!("{what}: theirs {theirs:?}, ours {ours:?}")
        });
    }
}

/// Compares one step.
pub(crate) async fn step(
    theirs: &Outcome,
    ours: &CallResult,
    conditions: &Conditions,
) -> Result<Comparison, BoxError> {
    let mut found = Comparison::default();
    responses(&mut found, theirs, ours);
    if !found.differences.contains("empty variable") {
        found.same("runs", theirs.function_executions, ours.runs);
        operations(&mut found, theirs, ours);
        for (call, request) in theirs.calls.iter().zip(&ours.requests) {
            compare_request(&mut found, call, request, ours, conditions).await?;
        }
        items(&mut found, &theirs.items_after, &ours.items);
    }
    // Python also warns of a missing deadline, but then it claims.
    let unprotected = !theirs.warnings.is_empty() && theirs.calls.is_empty();
    found.same("a run without a claim", unprotected, ours.bypassed);
    Ok(found)
}

fn responses(found: &mut Comparison, theirs: &Outcome, ours: &CallResult) {
    let class = theirs.error.as_ref().map(|error| error.class.as_str());
    match (class, &theirs.returned, &ours.result) {
        (None, Some(Value::Null), Ok(response)) if is_falsy(response) => {
            found.is("falsy responses");
        }
        (None, Some(Value::Null), Err(Some(ErrorKind::CorruptRecord))) => {
            found.is("empty data");
        }
        (None, Some(Value::String(text)), Ok(Value::String(response))) if text != response => {
            // A long text is recorded by its length.
            let length = format!("<string len {}>", response.len());
            found.same("response", text, &length);
        }
        (None, Some(returned), Ok(response)) => found.same("response", returned, response),
        (Some(class), None, Err(kind)) if means(class, *kind, ours.runs) => {}
        (
            Some("IdempotencyPersistenceLayerError" | "IdempotencyInconsistentStateError"),
            None,
            Err(Some(ErrorKind::CorruptRecord)),
        ) => found.is("unknown status"),
        (Some("IdempotencyPersistenceLayerError"), None, Ok(Value::String(response)))
            if response.len() > 400 * 1024 =>
        {
            found.is("response too large");
        }
        (
            Some("IdempotencyAlreadyInProgressError"),
            None,
            Err(Some(ErrorKind::ResponseUnavailable)),
        ) => found.is("response too large"),
        (Some("ValueError"), None, Ok(_)) => found.is("empty variable"),
        (class, returned, result) => found.unexplained.push(format!(
            "response: theirs {class:?} {returned:?}, ours {result:?}"
        )),
    }
}

/// Returns true if Python treats a response as missing. `null` is not included.
fn is_falsy(response: &Value) -> bool {
    [json!(0), json!(false), json!(""), json!([]), json!({})].contains(response)
}

/// Returns true if a Python exception and our error mean the same.
fn means(class: &str, kind: Option<ErrorKind>, runs: usize) -> bool {
    let Some(kind) = kind else {
        return class == "RuntimeError";
    };
    match class {
        "IdempotencyAlreadyInProgressError" => kind == ErrorKind::AlreadyInProgress,
        "IdempotencyValidationError" => kind == ErrorKind::PayloadMismatch,
        // Our error says whether the handler ran.
        "IdempotencyPersistenceLayerError" if runs == 0 => kind == ErrorKind::StoreFailed,
        "IdempotencyPersistenceLayerError" => kind == ErrorKind::CompletionUnknown,
        "JSONDecodeError" => kind == ErrorKind::CorruptRecord,
        "ValueError" => kind == ErrorKind::Configuration,
        _ => false,
    }
}

fn operations(found: &mut Comparison, theirs: &Outcome, ours: &CallResult) {
    let wanted: Vec<_> = theirs.calls.iter().map(|call| call.op.as_str()).collect();
    let sent = ours.requests.iter();
    let sent: Vec<_> = sent.map(|request| request.operation.as_str()).collect();
    let unknown_status = found.differences.contains("unknown status");
    match sent.strip_prefix(wanted.as_slice()) {
        Some([]) => {}
        Some(more)
            if wanted.last() == Some(&"UpdateItem")
                && more.iter().all(|op| *op == "UpdateItem") =>
        {
            let first = &ours.requests[wanted.len() - 1].body;
            let repeated = &ours.requests[wanted.len()..];
            let same = repeated.iter().all(|request| request.body == *first);
            found.expect(same, || "a repeated completion is another one".to_owned());
            found.is("repeated completion");
        }
        // Python claims three times before it gives up.
        None if unknown_status && sent == ["PutItem"] && wanted == ["PutItem"; 3] => {}
        _ => found.same("requests", wanted, sent),
    }
}

async fn compare_request(
    found: &mut Comparison,
    theirs: &Call,
    ours: &Request,
    played: &CallResult,
    conditions: &Conditions,
) -> Result<(), BoxError> {
    let (wanted, sent) = (&theirs.params, &ours.body);
    found.same("parameters", parameters(wanted), parameters(sent));
    for name in ["TableName", "Key", "ConsistentRead"] {
        found.same(name, &wanted[name], &sent[name]);
    }
    let moment = Moment {
        now_ms: claimed_at(theirs).unwrap_or_default(),
        owner: token(&played.requests),
    };
    match theirs.op.as_str() {
        "PutItem" => {
            let returned = "ReturnValuesOnConditionCheckFailure";
            found.same(returned, &wanted[returned], &sent[returned]);
            if wanted["ReturnValues"].is_null() && sent["ReturnValues"] == "ALL_OLD" {
                found.is("replaced record");
            }
            claim(found, &wanted["Item"], &sent["Item"]);
            let theirs = conditions.let_through(wanted, &moment).await?;
            let ours = conditions.let_through(sent, &moment).await?;
            found.expect(!theirs.is_empty() && ours.is_subset(&theirs), || {
                format!(
                    "a claim replaces what Python's does not: {:?}",
                    ours.difference(&theirs)
                )
            });
            let refused: LetThrough = theirs.difference(&ours).copied().collect();
            found.expect(refused.iter().all(|s| s.is_some_and(is_live)), || {
                format!("a claim is refused what Python's replaces: {refused:?}")
            });
            if !refused.is_empty() {
                found.is("stricter claim");
            }
        }
        "UpdateItem" => {
            completion(found, &changes(wanted), &changes(sent));
            let through = conditions.let_through(sent, &moment).await?;
            fence(found, "fenced completion", wanted, &through);
        }
        "DeleteItem" => {
            let through = conditions.let_through(sent, &moment).await?;
            fence(found, "fenced release", wanted, &through);
        }
        _ => {}
    }
    Ok(())
}

/// Returns the parameters of a request without those of its condition and of the record that it replaces.
fn parameters(body: &Value) -> BTreeSet<&str> {
    let condition = [
        "ConditionExpression",
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "ReturnValuesOnConditionCheckFailure",
        "ReturnValues",
    ];
    let names = body.as_object().into_iter().flat_map(|body| body.keys());
    names
        .map(String::as_str)
        .filter(|name| !condition.contains(name))
        .collect()
}

/// Returns the time of a claim, taken from its condition.
fn claimed_at(claim: &Call) -> Option<i64> {
    let now = &claim.params["ExpressionAttributeValues"][":now_in_millis"]["N"];
    now.as_str()?.parse().ok()
}

/// Returns the owner token of the claim among the requests.
fn token(requests: &[Request]) -> &str {
    let claim = requests
        .iter()
        .find_map(|request| request.body["Item"]["owner"]["S"].as_str());
    claim.unwrap_or("no owner")
}

/// Returns true for a claim whose lease runs, also if its window has ended.
fn is_live(standing: Standing) -> bool {
    standing.status == Some("INPROGRESS")
        && standing.expiration == Some(-1)
        && matches!(standing.lease, Some(0 | 1))
}

/// Checks the fence of a write: Python's applies to any record, ours only to the claim of its token while it is in progress.
fn fence(found: &mut Comparison, difference: Difference, theirs: &Value, ours: &LetThrough) {
    let own = |standing: &Option<Standing>| {
        standing.is_some_and(|s| s.owner == Some(Owner::Named) && s.status == Some("INPROGRESS"))
    };
    let unconditional = theirs.get("ConditionExpression").is_none();
    let fenced = unconditional && !ours.is_empty() && ours.iter().all(own);
    found.expect(fenced, || {
        format!("{difference}: ours lets through {ours:?}")
    });
    found.is(difference);
}

/// Returns a text of an item.
fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?["S"].as_str()
}

fn claim(found: &mut Comparison, theirs: &Value, ours: &Value) {
    let [mut theirs, mut ours] = [theirs, ours].map(|item| Item::deserialize(item).unwrap());
    if text(&ours, "owner").is_some_and(|token| token.len() == 32) {
        ours.remove("owner");
        found.is("owner attribute");
    }
    if text(&ours, "operation").is_some() {
        ours.remove("operation");
        found.is("operation attribute");
    }
    let (lease, expiration) = ("in_progress_expiration", "expiration");
    if let (None, Some(given)) = (theirs.get(lease), ours.get(lease)) {
        found.is("lease without a deadline");
        theirs.insert(lease.to_owned(), given.clone());
    }
    let number = |item: &Item, name: &str| item.get(name)?["N"].as_str()?.parse::<i64>().ok();
    if let (Some(window), Some(end)) = (number(&theirs, expiration), number(&theirs, lease))
        && window * 1_000 < end
        && number(&ours, expiration) == Some(end.div_euclid(1_000) + i64::from(end % 1_000 > 0))
    {
        found.is("window covers the lease");
        theirs.insert(expiration.to_owned(), ours[expiration].clone());
    }
    found.same("claim", theirs, ours);
}

/// Returns the attributes that an update sets.
fn changes(update: &Value) -> Item {
    let assignments = update["UpdateExpression"].as_str().unwrap();
    let assignments = assignments.strip_prefix("SET ").unwrap().split(", ");
    assignments
        .map(|assignment| {
            let (name, value) = assignment.split_once(" = ").unwrap();
            let name = update["ExpressionAttributeNames"][name].as_str().unwrap();
            let value = &update["ExpressionAttributeValues"][value];
            (name.to_owned(), value.clone())
        })
        .collect()
}

fn completion(found: &mut Comparison, theirs: &Item, ours: &Item) {
    let mut theirs = theirs.clone();
    match (text(&theirs, "data"), text(ours, "data")) {
        (Some(spaced), Some(data)) if spaced != data && is_compact(spaced, data) => {
            found.is("compact text");
            theirs.insert("data".to_owned(), ours["data"].clone());
        }
        (Some("<string len 410002>"), None) => {
            found.is("response too large");
            theirs.remove("data");
        }
        _ => {}
    }
    found.same("completion", &theirs, ours);
}

/// Returns true if `text` is the same JSON without spaces.
fn is_compact(theirs: &str, text: &str) -> bool {
    let parsed = |text| serde_json::from_str::<Value>(text).ok();
    let compact = parsed(theirs).map(|value| value.to_string());
    compact.as_deref() == Some(text)
}

fn items(found: &mut Comparison, theirs: &[Item], ours: &[Item]) {
    found.same("number of items", theirs.len(), ours.len());
    for (theirs, ours) in theirs.iter().zip(ours) {
        let (mut theirs, mut ours) = (theirs.clone(), ours.clone());
        // The comparison of the requests has found these differences already.
        ours.remove("owner");
        ours.remove("operation");
        let lease = "in_progress_expiration";
        if found.differences.contains("lease without a deadline") && !theirs.contains_key(lease) {
            ours.remove(lease);
        }
        if found.differences.contains("response too large") {
            let completed = json!({ "S": "COMPLETED" });
            let status = ours.get("status");
            found.same("status of a large response", Some(&completed), status);
            theirs.insert("status".to_owned(), completed);
        }
        if let (Some(spaced), Some(data)) = (text(&theirs, "data"), text(&ours, "data"))
            && is_compact(spaced, data)
        {
            theirs.insert("data".to_owned(), ours["data"].clone());
        }
        found.same("item", theirs, ours);
    }
}
