//! The known differences, and the situations in which each is expected.

use std::collections::BTreeSet;

use serde_json::Value;

use super::scenario::Outcome;

/// A deliberate difference between this framework and Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// A claim, and so the record, has an owner attribute.
    OwnerAttribute,
    /// A claim, and so the record, has an operation attribute.
    OperationAttribute,
    /// A claim asks for the record that it replaces.
    ReplacedRecord,
    /// A live claim whose window has ended is not replaced.
    StricterClaim,
    /// A completion applies only to its own claim.
    FencedCompletion,
    /// A release applies only to its own claim.
    FencedRelease,
    /// The stored response has no spaces between its tokens.
    CompactText,
    /// A response such as `0` replays as itself.
    FalsyResponse,
    /// A claim has a lease also if no deadline is known.
    LeaseWithoutDeadline,
    /// A claim's window never ends before its lease.
    WindowCoversLease,
    /// A completion that failed is sent again.
    RepeatedCompletion,
    /// A response too large for its record still completes it.
    LargeResponse,
    /// A completed record whose data is the empty text is corrupt.
    EmptyData,
    /// A record with an unknown status is corrupt at once.
    UnknownStatus,
    /// An empty variable counts as not set.
    EmptyVariable,
}

impl Difference {
    pub(crate) const ALL: [Self; 15] = [
        Self::OwnerAttribute,
        Self::OperationAttribute,
        Self::ReplacedRecord,
        Self::StricterClaim,
        Self::FencedCompletion,
        Self::FencedRelease,
        Self::CompactText,
        Self::FalsyResponse,
        Self::LeaseWithoutDeadline,
        Self::WindowCoversLease,
        Self::RepeatedCompletion,
        Self::LargeResponse,
        Self::EmptyData,
        Self::UnknownStatus,
        Self::EmptyVariable,
    ];

    /// Returns the first cell of its row in the compatibility page.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OwnerAttribute => "owner attribute",
            Self::OperationAttribute => "operation attribute",
            Self::ReplacedRecord => "replaced record",
            Self::StricterClaim => "stricter claim",
            Self::FencedCompletion => "fenced completion",
            Self::FencedRelease => "fenced release",
            Self::CompactText => "compact text",
            Self::FalsyResponse => "falsy responses",
            Self::LeaseWithoutDeadline => "lease without a deadline",
            Self::WindowCoversLease => "window covers the lease",
            Self::RepeatedCompletion => "repeated completion",
            Self::LargeResponse => "response too large",
            Self::EmptyData => "empty data",
            Self::UnknownStatus => "unknown status",
            Self::EmptyVariable => "empty variable",
        }
    }
}

/// Returns the differences that a step must have, no more and no fewer.
pub(crate) fn expected(scenario: &str, step: usize, theirs: &Outcome) -> BTreeSet<Difference> {
    let in_every_request = theirs.calls.iter().flat_map(|call| match call.op.as_str() {
        "PutItem" => vec![
            Difference::OwnerAttribute,
            Difference::OperationAttribute,
            Difference::ReplacedRecord,
            Difference::StricterClaim,
        ],
        "UpdateItem" if has_spaces(&call.params) => {
            vec![Difference::FencedCompletion, Difference::CompactText]
        }
        "UpdateItem" => vec![Difference::FencedCompletion],
        "DeleteItem" => vec![Difference::FencedRelease],
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
        ) => Difference::FalsyResponse,
        ("no_lambda_context" | "no_lambda_context_then_duplicate", 0) => {
            Difference::LeaseWithoutDeadline
        }
        ("local_cache_expired", _) => Difference::WindowCoversLease,
        ("update_fails_then_after_timeout", 0) => Difference::RepeatedCompletion,
        ("response_over_400kb", _) => Difference::LargeResponse,
        ("completed_data_empty_text", 0) => Difference::EmptyData,
        ("status_unknown" | "status_expired_literal", 0) => Difference::UnknownStatus,
        ("disabled_env_''", 0) => Difference::EmptyVariable,
        _ => return None,
    })
}
