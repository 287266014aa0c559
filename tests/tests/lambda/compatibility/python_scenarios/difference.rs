//! The known differences, and the situations in which each is expected.

use std::collections::BTreeSet;

use serde_json::Value;

use super::scenario::Outcome;

/// A deliberate difference between this framework and Python: the first cell of its row in the compatibility page.
pub(crate) type Difference = &'static str;

/// Returns the differences that a step must have, no more and no fewer.
pub(crate) fn expected(scenario: &str, step: usize, theirs: &Outcome) -> BTreeSet<Difference> {
    let in_every_request = theirs.calls.iter().flat_map(|call| match call.op.as_str() {
        "PutItem" => vec![
            "owner attribute",
            "operation attribute",
            "replaced record",
            "stricter claim",
        ],
        "UpdateItem" if has_spaces(&call.params) => {
            vec!["fenced completion", "compact text"]
        }
        "UpdateItem" => vec!["fenced completion"],
        "DeleteItem" => vec!["fenced release"],
        _ => Vec::new(),
    });
    in_every_request.chain(of_its_own(scenario, step)).collect()
}

fn has_spaces(update: &Value) -> bool {
    let data = &update["ExpressionAttributeValues"][":response_data"]["S"];
    data.as_str().is_some_and(|text| text.contains("\": "))
}

/// Returns the difference that a scenario was recorded for.
fn of_its_own(scenario: &str, step: usize) -> Option<Difference> {
    Some(match (scenario, step) {
        (
            "replay_of_zero"
            | "replay_of_false"
            | "replay_of_empty_string"
            | "replay_of_empty_list"
            | "replay_of_empty_object",
            1,
        ) => "falsy responses",
        ("no_lambda_context" | "no_lambda_context_then_duplicate", 0) => "lease without a deadline",
        ("local_cache_expired", _) => "window covers the lease",
        ("update_fails_then_after_timeout", 0) => "repeated completion",
        ("response_over_400kb", _) => "response too large",
        ("completed_data_empty_text", 0) => "empty data",
        ("status_unknown" | "status_expired_literal", 0) => "unknown status",
        ("disabled_env_''", 0) => "empty variable",
        _ => return None,
    })
}
