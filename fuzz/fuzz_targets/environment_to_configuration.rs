//! Any variables give a configuration that can be used, or an error that names one of them. Each line of the input is one
//! variable, `name=value`, without the prefix of the name.
#![no_main]

use idempotency_core::config::{ConfigurationError, HostVariables, Settings, Variables};
use idempotency_core::example::call;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::CallTerms;
use idempotency_core::protocol::classify;
use idempotency_core::record::{Field, Record, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::TableConfig;
use libfuzzer_sys::fuzz_target;

/// Returns the full name of a variable.
fn full_name(name: &str) -> String {
    match name {
        "AWS_LAMBDA_FUNCTION_NAME" | "POWERTOOLS_IDEMPOTENCY_DISABLED" => name.to_owned(),
        _ => format!("IDEMPOTENCY_{name}"),
    }
}

fn names_its_cause(error: &ConfigurationError, variables: &[(String, String)]) -> bool {
    let text = error.to_string();
    variables
        .iter()
        .any(|(name, value)| {
            text.starts_with(&ConfigurationError::value(name, value, "").to_string())
        })
        // With the name of the function it makes a prefix that is too long.
        || text.starts_with("the path of the operation is `")
}

fuzz_target!(|text: &str| {
    let given: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (full_name(name), value.to_owned()))
        .collect();
    let variables = Variables::from_iter(given.clone()).on(HostVariables::LAMBDA);
    for unknown in variables.unknown(TableConfig::VARIABLES) {
        assert!(given.iter().any(|(name, _)| *name == unknown.name));
        assert!(
            Variables::is_known(unknown.nearest)
                || TableConfig::VARIABLES.contains(&unknown.nearest)
        );
    }
    let _table = TableConfig::from_variables(&variables);

    let settings = Settings::default();
    let operation = match CompiledOperation::new("shop::charge", &settings, &variables) {
        Ok(operation) => operation,
        Err(error) => {
            assert!(names_its_cause(&error, &given), "{error}");
            return;
        }
    };
    let policy = settings.policy(&variables).expect("the operation has it");
    assert_eq!(operation.policy(), &policy);
    let start = EpochMillis::new(0);
    assert!(operation.lease(None).end(start) > start);
    assert!(policy.store_timeout.as_millis() >= 1);
    assert!(policy.expires_after.as_secs() >= 1 && policy.expires_after.subsec_nanos() == 0);
    assert!((1..=512).contains(&operation.key_prefix().len()));
    assert_eq!(
        settings.key_prefix(&variables, "shop::charge").as_deref(),
        Ok(operation.key_prefix())
    );
    assert!(settings.hash(&variables).is_ok());
    assert!(settings.key_required(&variables).is_ok());
    assert!(settings.local_cache(&variables).is_ok());

    // With durations of any length a call has an identity, and a record can be classified.
    let identity = operation.identify("[1]", None);
    assert!(identity.is_ok(), "{identity:?}");
    let call = CallTerms { policy, ..call() };
    for now in [0, 1_700_000_000_500, i64::MAX] {
        let record = Record {
            status: Field::Value(Status::InProgress),
            expiration: Field::Value(EpochSeconds::new(now / 1_000)),
            in_progress_expiration: Field::Value(EpochMillis::new(now)),
            ..Record::default()
        };
        let _state = classify(&record, EpochMillis::new(now), &call);
    }
});
