use idempotency_core::error::ErrorKind;
use idempotency_core::store::{RejectedWrite, Rejection};

use super::*;

const NOW: EpochMillis = EpochMillis::new(1_000_000);

#[track_caller]
fn of(kind: ErrorKind) -> Problem {
    Problem::of_error(Error::new(kind, "shop"))
}

#[test]
fn every_kind_of_error_has_its_type_status_and_retry_after() {
    for (kind, status, uri, retry_after) in [
        (ErrorKind::AlreadyInProgress, 409, "in-progress", Some(1)),
        (ErrorKind::PayloadMismatch, 422, "key-reused", None),
        (ErrorKind::KeyMissing, 400, "key-missing", None),
        (ErrorKind::InvalidPayload, 400, "request-unreadable", None),
        (ErrorKind::ExpressionFailed, 400, "request-unreadable", None),
        (ErrorKind::Unresolved, 500, "outcome-unknown", None),
        (ErrorKind::CorruptRecord, 500, "outcome-unknown", None),
        (
            ErrorKind::ResponseTypeChanged,
            500,
            "response-unavailable",
            None,
        ),
        (ErrorKind::Contended, 503, "unavailable", Some(1)),
        (ErrorKind::NoTimeLeft, 503, "unavailable", Some(1)),
        (
            ErrorKind::ResponseUnavailable,
            500,
            "response-unavailable",
            None,
        ),
        (
            ErrorKind::ResponseNotSerializable,
            500,
            "response-unavailable",
            None,
        ),
        (ErrorKind::LostOwnership, 500, "not-confirmed", Some(1)),
        (ErrorKind::CompletionUnknown, 500, "not-confirmed", Some(1)),
        (ErrorKind::TransactionRejected, 500, "misconfigured", None),
        (ErrorKind::StoreFailed, 503, "unavailable", Some(1)),
        (ErrorKind::StepRefused, 500, "outcome-unknown", None),
        (ErrorKind::StepNoTimeLeft, 500, "not-confirmed", Some(1)),
        (ErrorKind::StepNotRecorded, 500, "not-confirmed", Some(1)),
        (ErrorKind::StepTypeChanged, 500, "outcome-unknown", None),
        (ErrorKind::Configuration, 500, "misconfigured", None),
        (ErrorKind::Environment, 500, "misconfigured", None),
        (ErrorKind::UnknownInvocation, 500, "misconfigured", None),
        (ErrorKind::Internal, 500, "outcome-unknown", None),
    ] {
        let problem = of(kind);
        assert_eq!(problem.status().as_u16(), status, "{kind:?}");
        assert_eq!(
            problem.reason().type_uri(),
            format!("urn:idempotency:{uri}"),
            "{kind:?}"
        );
        assert_eq!(problem.retry_after(), retry_after, "{kind:?}");
        assert_eq!(problem.detail(), kind.client_message(), "{kind:?}");
        let response = problem.response();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(
            response.headers().contains_key(RETRY_AFTER),
            retry_after.is_some()
        );
    }
}

#[test]
fn a_rejection_is_a_refusal_of_the_request_only_if_every_reason_is_a_condition() {
    let of = |codes: &[&str]| {
        let writes = codes.iter().map(|code| RejectedWrite::new(0, "put", *code));
        let rejection = Rejection::new(2, writes.collect());
        let error = Error::new(ErrorKind::TransactionRejected, "shop");
        Problem::of_error(error.with_source(rejection))
    };
    let condition = RejectedWrite::CONDITION;
    for codes in [&[condition][..], &[condition, condition]] {
        let problem = of(codes);
        assert_eq!(problem.reason(), Reason::Rejected);
        assert_eq!(problem.status(), StatusCode::CONFLICT);
        assert!(problem.detail().contains("a condition on the data"));
    }
    for codes in [&["ValidationError"][..], &[condition, "AccessDenied"], &[]] {
        let problem = of(codes);
        assert_eq!(problem.reason(), Reason::Misconfigured);
        assert_eq!(problem.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let text = ErrorKind::TransactionRejected.client_message();
        assert_eq!(problem.detail(), text);
        assert!(!text.contains("condition") && text.contains("nothing was changed"));
    }
}

#[test]
fn every_kind_of_the_error_reference_is_in_the_table() {
    let page = include_str!("../../../docs/reference/errors.md");
    let table = include_str!("tests.rs");
    let mut kinds = 0;
    for name in page
        .lines()
        .filter_map(|line| line.strip_prefix("### Idempotency"))
    {
        assert!(table.contains(&format!("ErrorKind::{name},")), "{name}");
        kinds += 1;
    }
    assert_eq!(kinds, 24);
}

#[test]
fn the_wait_for_a_call_in_progress_is_as_long_as_it_has_run_and_ends_with_its_lease() {
    let lease = |end: i64, own: i64| {
        let error = Error::new(ErrorKind::AlreadyInProgress, "shop");
        let error = error.with_lease_end(EpochMillis::new(NOW.get() + end));
        Problem::of_call(error, NOW, EpochMillis::new(NOW.get() + own)).retry_after()
    };
    for (end, own, seconds) in [
        (900_000, 900_000, 1),
        (899_000, 900_000, 1),
        (898_999, 900_000, 2),
        (800_000, 900_000, 100),
        (450_000, 900_000, 450),
        (100_500, 900_000, 101),
        (1, 900_000, 1),
        (0, 900_000, 1),
        (-5_000, 900_000, 1),
        // The lease of the other call is longer: how long it has run is not known.
        (900_000, 3_000, 1),
        (i64::MAX - NOW.get(), i64::MAX - NOW.get(), 1),
    ] {
        assert_eq!(lease(end, own), Some(seconds), "{end} {own}");
    }
}

#[test]
fn the_wait_for_an_open_circuit_is_its_end_in_whole_seconds_and_at_least_one() {
    for (end, seconds) in [
        (NOW.get() + 1, 1),
        (NOW.get() + 1_000, 1),
        (NOW.get() + 1_001, 2),
        (NOW.get() + 30_000, 30),
        (NOW.get(), 1),
        (NOW.get() - 5_000, 1),
    ] {
        let end = EpochMillis::new(end);
        let error = Error::new(ErrorKind::StoreFailed, "shop").with_circuit_open_until(end);
        let problem = Problem::of_call(error, NOW, NOW);
        assert_eq!(problem.retry_after(), Some(seconds), "{end}");
        let header = problem.response().headers()[RETRY_AFTER].clone();
        assert_eq!(header, seconds.to_string().as_str());
    }
}

#[test]
fn a_response_has_the_members_of_a_problem_and_nothing_of_the_operator() {
    let response = of(ErrorKind::Unresolved).response();
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(
        problem,
        serde_json::json!({
            "type": "urn:idempotency:outcome-unknown",
            "title": "Outcome is unknown",
            "status": 500,
            "detail": ErrorKind::Unresolved.client_message(),
        })
    );
    let text = std::str::from_utf8(response.body()).unwrap();
    assert!(!text.contains("shop"));
}

#[test]
fn each_reason_has_a_type_and_a_title_of_its_own() {
    let types: std::collections::BTreeSet<_> = Reason::ALL.map(Reason::type_uri).into();
    let titles: std::collections::BTreeSet<_> = Reason::ALL.map(Reason::title).into();
    assert_eq!(
        (types.len(), titles.len()),
        (Reason::ALL.len(), Reason::ALL.len())
    );
}
