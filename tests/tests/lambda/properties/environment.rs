//! Environment variables: any values give a configuration, or an error that names one of the variables.
//!
//! Time and its units: the ends of leases and windows, to the millisecond, at any time.

use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::{Client, Config};
use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::example::ready;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::condition::claimable;
use idempotency_core::protocol::policy::{OnTimeout, Policy};
use idempotency_core::protocol::{RecordState, classify};
use idempotency_core::record::OwnerToken;
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::TableConfig;
use idempotency_lambda::{Deadline, Operation};
use idempotency_testkit::ManualClock;
use idempotency_tests::End::{Ran, Replayed};
use idempotency_tests::{End, Harness, end, keyed};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::json;

use super::cases;
use super::strategies::{on_timeout, terms, words};
use crate::order;

/// The variables that an operation reads, without the prefix `IDEMPOTENCY_`.
const OF_OPERATIONS: &str = "CIRCUIT_BREAKER DISABLED EXPIRES_AFTER HASH KEY_PREFIX KEY_REQUIRED LEASE STORE_TIMEOUT \
                             LOCAL_CACHE LOOKUP ON_ERROR ON_IN_PROGRESS ON_STORE_ERROR ON_TIMEOUT";

/// Values that are valid or nearly valid.
const VALUES: &str = "true TRUE 0 1 -1 +1 1h 1ms 0s 1.5s -1s 99999999999999999999 18446744073709551615 \
                      18446744073709551615s 584542046090years 9999999999999y md5 MD5 sha256 sha3 claim-first \
                      read-first reject wait rerun hold release record fail run-unprotected #tenant= a#tenant=b id \
                      status \u{0} １";

/// Returns random values, and values that are nearly valid.
fn value() -> impl Strategy<Value = String> {
    let spaced = prop::sample::select(vec!["", " ", "yes ", "1 h", "1s 1ns"]);
    prop_oneof![
        8 => words(VALUES),
        1 => spaced.prop_map(str::to_owned),
        4 => "[0-9]{1,30}(ns|us|ms|s|m|h|d|w|M|y|years)?",
        4 => any::<String>(),
        4 => vec(any::<char>(), 200..700).prop_map(String::from_iter),
    ]
}

fn variables(names: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<(String, String)>> {
    btree_map(names, value(), 0..4).prop_map(|variables| variables.into_iter().collect())
}

fn of_operations() -> impl Strategy<Value = Vec<(String, String)>> {
    let ours = words(OF_OPERATIONS).prop_map(|name| format!("IDEMPOTENCY_{name}"));
    variables(prop_oneof![14 => ours, 1 => words("POWERTOOLS_IDEMPOTENCY_DISABLED")])
}

fn of_tables() -> impl Strategy<Value = Vec<(String, String)>> {
    let names = [TableConfig::VARIABLES, &["AWS_LAMBDA_FUNCTION_NAME"]].concat();
    variables(prop::sample::select(names).prop_map(str::to_owned))
}

fn is_known(name: &str) -> bool {
    Variables::is_known(name) || TableConfig::VARIABLES.contains(&name)
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn any_variables_make_an_operation_or_an_error_that_names_one_of_them(variables in of_operations()) {
        let found = Variables::from_iter(variables.clone());
        match CompiledOperation::new("shop::charge", &Settings::default(), &found) {
            Ok(operation) => {
                let start = EpochMillis::new(0);
                prop_assert!(operation.lease(None).end(start) > start);
                prop_assert!(operation.policy().store_timeout.as_millis() >= 1);
                prop_assert!(operation.policy().expires_after.as_secs() >= 1);
                prop_assert_eq!(operation.policy().expires_after.subsec_nanos(), 0);
                prop_assert!((1..=512).contains(&operation.key_prefix().len()));
                let identity = operation.identify("[1]", None);
                prop_assert!(identity.is_ok(), "{:?}", identity);
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(error.is_about_variable(), "{}", text);
                let named = variables.iter().any(|(name, value)| {
                    text.starts_with(&ConfigurationError::value(name, value, "").to_string())
                });
                prop_assert!(named, "{}", text);
            }
        }
    }

    #[test]
    fn any_variables_make_a_store_or_an_error_that_names_the_mistake(
        variables in of_tables(),
        table in prop::option::of(value()),
    ) {
        let mut found = variables;
        found.extend(table.map(|table| ("IDEMPOTENCY_TABLE".to_owned(), table)));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-west-1"))
            .build();
        let made = TableConfig::from_variables(&Variables::from_iter(found))
            .and_then(|table| table.builder().client(Client::from_conf(config)).build());
        if let Err(error) = made {
            let text = error.to_string();
            let named = text.starts_with("IDEMPOTENCY_") || text.contains("attribute") || text.contains("table");
            prop_assert!(named, "{}", text);
        }
    }

    #[test]
    fn any_name_is_known_or_reported_with_a_known_name_or_ignored_unless_it_has_our_prefix(
        name in prop_oneof!["\\PC{0,40}", "IDEMPOTENCY_\\PC{0,30}"],
    ) {
        let found = Variables::from_iter([(name.clone(), "1".to_owned())]);
        let reported = found.unknown(TableConfig::VARIABLES);
        for unknown in &reported {
            prop_assert_eq!(&unknown.name, &name);
            prop_assert!(is_known(unknown.nearest) && !is_known(&name));
        }
        let is_ours = name.starts_with("IDEMPOTENCY_");
        prop_assert!(is_known(&name) || !is_ours || reported.len() == 1);
    }
}

/// The changes of daylight saving time in Europe in 2024: 01:00 UTC of the last Sundays of March and October.
const CHANGES: [i64; 2] = [1_711_846_800, 1_729_990_800];

/// Returns milliseconds since the epoch: around 2024, in the hours before a change of daylight saving time, any time until 2096, and
/// near the largest value.
fn now() -> impl Strategy<Value = i64> {
    let changes = prop::sample::select(&CHANGES[..]);
    prop_oneof![
        2 => (changes, 0..3 * 3_600_000_i64).prop_map(|(change, before)| change * 1_000 - before),
        4 => 1_700_000_000_000..1_800_000_000_000_i64,
        2 => 0..4_000_000_000_000_i64,
        2 => (0..4_000_000_000_i64, -1..=1_i64).prop_map(|(second, by)| (second * 1_000 + by).max(0)),
        1 => i64::MAX - 2_000_000..=i64::MAX - 1_000_000,
    ]
}

/// Returns the length of a lease, and a policy.
fn policy() -> impl Strategy<Value = (Duration, Policy)> {
    let lease = prop_oneof![4 => 1_000..86_400_000_u64, 1 => any::<u64>().prop_map(|lease| lease.max(1_000))];
    let window = prop_oneof![2 => 1..10_u64, 4 => 1..1_000_000_u64, 1 => any::<u64>().prop_map(|window| window.max(1))];
    (lease, window, on_timeout()).prop_map(|(lease, window, on_timeout)| {
        let mut policy = Policy::default();
        policy.expires_after = Duration::from_secs(window);
        policy.on_timeout = on_timeout;
        (Duration::from_millis(lease), policy)
    })
}

/// Returns the time left of a call in milliseconds; `None` if no deadline is known.
fn left() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(1_000..900_000_u64)
}

fn charge(lease: Duration, policy: &Policy) -> Operation {
    keyed(|of| {
        of.lease(lease)
            .expires_after(policy.expires_after)
            .on_timeout(policy.on_timeout)
    })
}

/// Makes a first call at this time, whose handler takes so many milliseconds.
fn first_call(charge: &Operation, now: i64, left: Option<u64>, took: u64) -> Harness {
    let harness = Harness::with_clock(ManualClock::at(now));
    let deadline = left.map(|left| harness.deadline_in(Duration::from_millis(left)));
    let deadline = deadline.unwrap_or(Deadline::Inherited);
    let handler = async |run| {
        harness.pass(took);
        Ok(run)
    };
    let process = harness.backend.clone();
    let call = harness.call_in(process, deadline, charge, order(), handler);
    assert_eq!(end(ready(call)), Ran(1));
    harness
}

/// Makes a call in another process at this time.
fn duplicate(harness: &Harness, charge: &Operation, at: i64) -> End<usize> {
    harness.clock.set(at);
    let (process, deadline) = (harness.another_process(), Deadline::Inherited);
    let call = harness.call_in(process, deadline, charge, order(), async |run| Ok(run));
    end(ready(call))
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn a_claim_lives_through_its_lease_to_the_millisecond(now in now(), left in left(), (lease, policy) in policy()) {
        let (_, record) = first_call(&charge(lease, &policy), now, left, 0).puts().remove(0);
        let lease_end = *record.in_progress_expiration.value().unwrap();
        let expiration = *record.expiration.value().unwrap();
        let lasts = left.map_or(lease, Duration::from_millis);
        prop_assert_eq!(lease_end, EpochMillis::new(now).plus(lasts));
        // TTL deletes a record after its second has passed, so a claim must not expire before its lease.
        prop_assert!(expiration >= lease_end.ceil_to_seconds());
        prop_assert!(i128::from(expiration.get()) * 1_000 >= i128::from(lease_end.get()));

        for at in [now, lease_end.get().saturating_sub(1).max(now), lease_end.get()] {
            let at = EpochMillis::new(at);
            prop_assert!(!claimable(at, policy.on_timeout).holds(Some(&record)), "at {}", at);
        }
        if let Some(after) = lease_end.get().checked_add(1) {
            let other = terms(OwnerToken::from_bytes([2; 16]), policy.clone());
            let judged = classify(&record, EpochMillis::new(after), &other);
            let expected = match policy.on_timeout {
                OnTimeout::Hold => RecordState::Unresolved,
                _ => RecordState::Claimable,
            };
            prop_assert_eq!(judged, expected);
        }
    }

    #[test]
    fn a_response_is_replayed_through_the_last_second_of_its_window_and_no_longer(
        now in now(),
        left in left(),
        took in 0..900_000_u64,
        (lease, policy) in policy(),
    ) {
        let charge = charge(lease, &policy);
        let harness = first_call(&charge, now, left, took);
        let (done, record) = (harness.now().get(), harness.record(&charge, &json!(7)));
        let end = record.expiration.value().unwrap().get();
        prop_assert_eq!(EpochSeconds::new(end), EpochMillis::new(done).floor_to_seconds().plus(policy.expires_after));

        let last = end.saturating_mul(1_000).saturating_add(999);
        for at in [done, done + (last - done) / 2, last] {
            prop_assert_eq!(duplicate(&harness, &charge, at), Replayed(1), "at {}", at);
        }
        if let Some(after) = last.checked_add(1) {
            prop_assert_eq!(duplicate(&harness, &charge, after), Ran(2));
        }
    }

    #[test]
    fn rounding_to_seconds_never_moves_a_time_by_a_second(at: i64) {
        let (down, up) = (EpochMillis::new(at).floor_to_seconds(), EpochMillis::new(at).ceil_to_seconds());
        let (down, up, at) = (i128::from(down.get()) * 1_000, i128::from(up.get()) * 1_000, i128::from(at));
        prop_assert!(down <= at && at < down + 1_000);
        prop_assert!(up >= at && at > up - 1_000);
    }
}
