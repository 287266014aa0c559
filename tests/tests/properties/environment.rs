//! Environment variables: any values give a configuration, or an error that names one of the variables.

use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::{Client, Config};
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_dynamodb::TableConfig;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::cases;

/// The variables that an operation reads.
const OF_OPERATIONS: &[&str] = &[
    "IDEMPOTENCY_CIRCUIT_BREAKER",
    "IDEMPOTENCY_DISABLED",
    "IDEMPOTENCY_EXPIRES_AFTER",
    "IDEMPOTENCY_HASH",
    "IDEMPOTENCY_KEY_PREFIX",
    "IDEMPOTENCY_KEY_REQUIRED",
    "IDEMPOTENCY_LEASE",
    "IDEMPOTENCY_STORE_TIMEOUT",
    "IDEMPOTENCY_LOCAL_CACHE",
    "IDEMPOTENCY_LOOKUP",
    "IDEMPOTENCY_ON_ERROR",
    "IDEMPOTENCY_ON_IN_PROGRESS",
    "IDEMPOTENCY_ON_STORE_ERROR",
    "IDEMPOTENCY_ON_TIMEOUT",
    "POWERTOOLS_IDEMPOTENCY_DISABLED",
];

/// The variables that a table's settings read.
const OF_TABLES: &[&str] = &[
    "AWS_LAMBDA_FUNCTION_NAME",
    "IDEMPOTENCY_COMPRESS_ABOVE",
    "IDEMPOTENCY_DATA_ATTR",
    "IDEMPOTENCY_EXPIRY_ATTR",
    "IDEMPOTENCY_IN_PROGRESS_EXPIRY_ATTR",
    "IDEMPOTENCY_KEY_ATTR",
    "IDEMPOTENCY_LARGE_RESPONSES",
    "IDEMPOTENCY_SORT_KEY_ATTR",
    "IDEMPOTENCY_STATIC_PK_VALUE",
    "IDEMPOTENCY_STATUS_ATTR",
    "IDEMPOTENCY_TABLE",
    "IDEMPOTENCY_VALIDATION_ATTR",
];

/// Returns random values, and values that are nearly valid.
fn value() -> impl Strategy<Value = String> {
    let nearly = prop::sample::select(vec![
        "",
        " ",
        "true",
        "TRUE",
        "yes ",
        "0",
        "1",
        "-1",
        "+1",
        "1h",
        "1 h",
        "1ms",
        "0s",
        "1.5s",
        "1s 1ns",
        "-1s",
        "99999999999999999999",
        "18446744073709551615",
        "18446744073709551615s",
        "584542046090years",
        "9999999999999y",
        "md5",
        "MD5",
        "sha256",
        "sha3",
        "claim-first",
        "read-first",
        "reject",
        "wait",
        "rerun",
        "hold",
        "release",
        "record",
        "fail",
        "run-unprotected",
        "#tenant=",
        "a#tenant=b",
        "id",
        "status",
        "\u{0}",
        "１",
    ]);
    prop_oneof![
        2 => nearly.prop_map(str::to_owned),
        1 => "[0-9]{1,30}(ns|us|ms|s|m|h|d|w|M|y|years)?",
        1 => any::<String>(),
        1 => vec(any::<char>(), 200..700).prop_map(String::from_iter),
    ]
}

fn variables(known: &'static [&'static str]) -> impl Strategy<Value = Vec<(String, String)>> {
    btree_map(prop::sample::select(known), value(), 0..4).prop_map(|variables| {
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        variables.into_iter().map(owned).collect()
    })
}

fn is_known(name: &str) -> bool {
    Variables::is_known(name) || TableConfig::VARIABLES.contains(&name)
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn any_variables_make_an_operation_or_an_error_that_names_one_of_them(variables in variables(OF_OPERATIONS)) {
        let found = Variables::from_iter(variables.clone());
        match CompiledOperation::new("shop::charge", &Settings::default(), &found) {
            Ok(operation) => {
                prop_assert!(operation.policy().lease.as_millis() >= 1);
                prop_assert!(operation.policy().store_timeout.as_millis() >= 1);
                prop_assert!(operation.policy().expires_after.as_secs() >= 1);
                prop_assert_eq!(operation.policy().expires_after.subsec_nanos(), 0);
                prop_assert!((1..=512).contains(&operation.key_prefix().len()));
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(error.is_about_variable(), "{}", text);
                let named = variables.iter().any(|(name, value)| {
                    text.starts_with(&format!("{name} is `{value}`: "))
                });
                prop_assert!(named, "{}", text);
            }
        }
    }

    #[test]
    fn an_operation_can_be_used_with_durations_of_any_length(variables in variables(OF_OPERATIONS)) {
        let found = Variables::from_iter(variables);
        if let Ok(operation) = CompiledOperation::new("shop::charge", &Settings::default(), &found) {
            let identity = operation.identify("[1]", None);
            prop_assert!(identity.is_ok(), "{:?}", identity);
        }
    }

    #[test]
    fn any_variables_make_a_store_or_an_error_that_names_the_mistake(
        variables in variables(OF_TABLES),
        table in prop::option::of(value()),
    ) {
        let mut found = variables;
        found.extend(table.map(|table| ("IDEMPOTENCY_TABLE".to_owned(), table)));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-west-1"))
            .build();
        let made = TableConfig::from_variables(&Variables::from_iter(found))
            .and_then(|table| table.store(Client::from_conf(config)));
        if let Err(error) = made {
            let text = error.to_string();
            let named = text.starts_with("IDEMPOTENCY_") || text.contains("attribute") || text.contains("table");
            prop_assert!(named, "{}", text);
        }
    }

    #[test]
    fn any_name_is_known_or_reported_with_a_known_name_or_ignored(name in "\\PC{0,40}") {
        let found = Variables::from_iter([(name, "1".to_owned())]);
        for unknown in found.unknown(TableConfig::VARIABLES) {
            prop_assert!(is_known(unknown.nearest) && !is_known(&unknown.name));
        }
    }

    #[test]
    fn any_unknown_name_with_our_prefix_is_reported(name in "IDEMPOTENCY_\\PC{0,30}") {
        let found = Variables::from_iter([(name.clone(), "1".to_owned())]);
        for unknown in found.unknown(TableConfig::VARIABLES) {
            prop_assert_eq!(&unknown.name, &name);
            prop_assert!(is_known(unknown.nearest));
        }
    }
}
