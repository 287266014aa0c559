//! Tests of the settings.

use super::*;
use crate::operation::CompiledOperation;

fn with(name: &str, value: &str) -> Variables {
    Variables::from_iter([(name.to_owned(), value.to_owned())])
}

fn nothing() -> Variables {
    Variables::default()
}

#[test]
fn a_setting_overrides_its_variable_and_a_variable_overrides_the_default() {
    let variables = with("IDEMPOTENCY_EXPIRES_AFTER", "30m");
    let expires_after = |settings: &Settings, variables: &Variables| {
        settings.policy(variables).unwrap().expires_after.as_secs()
    };
    let set = Settings {
        expires_after: Some(Duration::from_secs(5)),
        ..Settings::default()
    };
    assert_eq!(expires_after(&set, &variables), 5);
    assert_eq!(expires_after(&Settings::default(), &variables), 30 * 60);
    assert_eq!(expires_after(&Settings::default(), &nothing()), 60 * 60);
}

#[test]
fn an_invalid_variable_is_named_with_its_value_and_what_is_accepted() {
    let cases = [
        (
            "IDEMPOTENCY_ON_TIMEOUT",
            "retry",
            "write one of `rerun`, `hold`",
        ),
        (
            "IDEMPOTENCY_ON_ERROR",
            "keep",
            "write one of `release`, `record`",
        ),
        (
            "IDEMPOTENCY_ON_IN_PROGRESS",
            "block",
            "write one of `reject`, `wait`",
        ),
        (
            "IDEMPOTENCY_LOOKUP",
            "read_first",
            "write one of `claim-first`, `read-first`",
        ),
        (
            "IDEMPOTENCY_LEASE",
            "soon",
            "write a duration such as `30s`, `15m` or `1h`",
        ),
        ("IDEMPOTENCY_EXPIRES_AFTER", "10ms", "write at least `1s`"),
        (
            "IDEMPOTENCY_ON_STORE_ERROR",
            "run",
            "write one of `fail`, `run-unprotected`",
        ),
        (
            "IDEMPOTENCY_CIRCUIT_BREAKER",
            "5",
            "write `true` or `false`",
        ),
    ];
    for (name, value, remedy) in cases {
        let error = Settings::default().policy(&with(name, value)).unwrap_err();
        assert_eq!(error.to_string(), format!("{name} is `{value}`: {remedy}"));
    }
}

#[test]
fn the_case_of_a_choice_does_not_matter() {
    let policy = Settings::default().policy(&with("IDEMPOTENCY_ON_TIMEOUT", "Hold"));
    assert_eq!(policy.unwrap().on_timeout, OnTimeout::Hold);
    let policy = Settings::default().policy(&with("IDEMPOTENCY_ON_ERROR", "RECORD"));
    assert_eq!(policy.unwrap().on_error, OnError::Record);
}

#[test]
fn a_store_that_fails_refuses_calls_and_no_breaker_is_asked_unless_a_setting_says_so() {
    let policy = Settings::default().policy(&nothing()).unwrap();
    assert_eq!(policy.on_store_error, OnStoreError::Fail);
    assert!(!policy.circuit_breaker);
    let policy = Settings::default().policy(&with("IDEMPOTENCY_ON_STORE_ERROR", "Run-Unprotected"));
    assert_eq!(policy.unwrap().on_store_error, OnStoreError::RunUnprotected);
    let on = with("IDEMPOTENCY_CIRCUIT_BREAKER", "on");
    assert!(Settings::default().policy(&on).unwrap().circuit_breaker);
    let off = Settings {
        circuit_breaker: Some(false),
        ..Settings::default()
    };
    assert!(!off.policy(&on).unwrap().circuit_breaker);
}

#[test]
fn an_operation_that_holds_cannot_run_unprotected() {
    let holds = Settings {
        on_timeout: Some(OnTimeout::Hold),
        ..Settings::default()
    };
    let unprotected = with("IDEMPOTENCY_ON_STORE_ERROR", "run-unprotected");
    let error = holds.policy(&unprotected).unwrap_err();
    assert!(error.is_about_variable(), "{error}");
    assert!(
        error
            .to_string()
            .contains("write `on_store_error = \"fail\"`"),
        "{error}"
    );
    let fails = Settings {
        on_store_error: Some(OnStoreError::Fail),
        ..holds
    };
    assert!(fails.policy(&unprotected).is_ok());
}

#[test]
fn truth_values_are_those_of_the_python_library() {
    for text in ["true", "1", "yes", "ON", "t", "Y"] {
        assert_eq!(
            Settings::disabled(&with("POWERTOOLS_IDEMPOTENCY_DISABLED", text)),
            Ok(true)
        );
    }
    for text in ["false", "0", "no", "OFF", "f", "n"] {
        assert_eq!(
            Settings::disabled(&with("IDEMPOTENCY_DISABLED", text)),
            Ok(false)
        );
    }
    assert!(Settings::disabled(&with("IDEMPOTENCY_DISABLED", "banana")).is_err());
}

#[test]
fn the_default_prefix_is_the_function_and_the_path_of_the_operation() {
    let variables = with("AWS_LAMBDA_FUNCTION_NAME", "shop-prod");
    let prefix = Settings::default().key_prefix(&variables, "shop::orders::place");
    assert_eq!(prefix.unwrap(), "shop-prod.shop.orders.place");
}

#[test]
fn the_prefix_variable_names_the_application_and_each_operation_keeps_its_own_prefix() {
    let globals = with("IDEMPOTENCY_KEY_PREFIX", "shop");
    let prefix = |path| Settings::default().key_prefix(&globals, path).unwrap();
    assert_eq!(prefix("orders::charge"), "shop.orders.charge");
    assert_ne!(prefix("orders::charge"), prefix("orders::ship"));
    let whole = Settings {
        key_prefix: Some("charge".into()),
        ..Settings::default()
    };
    assert_eq!(
        whole.key_prefix(&globals, "orders::charge").unwrap(),
        "charge"
    );
    let tenant = with("IDEMPOTENCY_KEY_PREFIX", "a#tenant=b");
    assert!(Settings::default().key_prefix(&tenant, "charge").is_err());
}

#[test]
fn a_prefix_that_the_path_makes_too_long_is_an_error_about_the_variable() {
    let long = |bytes| with("IDEMPOTENCY_KEY_PREFIX", &"a".repeat(bytes));
    let prefix = |bytes| Settings::default().key_prefix(&long(bytes), "shop::charge");
    assert_eq!(prefix(500).unwrap().len(), 512);
    let error = prefix(501).unwrap_err();
    assert!(error.is_about_variable(), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("the key prefix has more than 512 bytes"),
        "{error}"
    );
}

#[test]
fn a_prefix_with_the_mark_of_a_tenant_is_refused() {
    let settings = Settings {
        key_prefix: Some("shop#tenant=a".into()),
        ..Settings::default()
    };
    assert!(settings.key_prefix(&nothing(), "shop").is_err());
}

#[test]
fn the_local_cache_is_off_unless_it_has_a_size() {
    assert_eq!(Settings::default().local_cache(&nothing()), Ok(None));
    let bounds = |records, bytes| {
        let records = NonZeroUsize::new(records).unwrap();
        Ok(Some(CacheLimits { records, bytes }))
    };
    assert_eq!(
        Settings::default().local_cache(&with("IDEMPOTENCY_LOCAL_CACHE", "256")),
        bounds(256, CacheLimits::DEFAULT_BYTES)
    );
    let settings = Settings {
        local_cache: Some(3),
        ..Settings::default()
    };
    let small = with("IDEMPOTENCY_LOCAL_CACHE_BYTES", "1000");
    assert_eq!(settings.local_cache(&small), bounds(3, 1_000));
    let settings = Settings {
        local_cache_bytes: Some(2_000),
        ..settings
    };
    assert_eq!(settings.local_cache(&small), bounds(3, 2_000));
}

#[test]
fn a_size_of_the_local_cache_that_is_not_a_number_is_refused() {
    for (name, value, remedy) in [
        (
            "IDEMPOTENCY_LOCAL_CACHE",
            "many",
            "write a number of records, or 0 for none",
        ),
        // Refused although the cache is off, because the value is wrong once the cache is switched on.
        (
            "IDEMPOTENCY_LOCAL_CACHE_BYTES",
            "8MiB",
            "write a number of bytes, such as `8388608`, without a unit",
        ),
    ] {
        let error = Settings::default()
            .local_cache(&with(name, value))
            .unwrap_err();
        assert_eq!(error.to_string(), format!("{name} is `{value}`: {remedy}"));
    }
}

#[test]
fn an_invalid_variable_is_refused_even_if_a_setting_overrides_it() {
    let all = Settings {
        key_required: Some(KeyRequired::Any),
        key_prefix: Some("charge".into()),
        hash: Some(HashAlgorithm::Md5),
        expires_after: Some(Duration::from_secs(1)),
        lease: Some(Duration::from_secs(1)),
        store_timeout: Some(Duration::from_secs(1)),
        local_cache: Some(1),
        local_cache_bytes: Some(1),
        lookup: Some(Lookup::ReadFirst),
        on_in_progress: Some(OnInProgress::Wait),
        on_timeout: Some(OnTimeout::Hold),
        on_error: Some(OnError::Record),
        on_store_error: Some(OnStoreError::Fail),
        circuit_breaker: Some(true),
        ..Settings::default()
    };
    for (setting, variable, value) in [
        ("key_required", "IDEMPOTENCY_KEY_REQUIRED", "perhaps"),
        ("key_prefix", "IDEMPOTENCY_KEY_PREFIX", "a#tenant=b"),
        ("hash", "IDEMPOTENCY_HASH", "md6"),
        ("expires_after", "IDEMPOTENCY_EXPIRES_AFTER", "1x"),
        ("lease", "IDEMPOTENCY_LEASE", "0s"),
        ("store_timeout", "IDEMPOTENCY_STORE_TIMEOUT", "0s"),
        ("local_cache", "IDEMPOTENCY_LOCAL_CACHE", "many"),
        ("local_cache_bytes", "IDEMPOTENCY_LOCAL_CACHE_BYTES", "8MiB"),
        ("lookup", "IDEMPOTENCY_LOOKUP", "read"),
        ("on_in_progress", "IDEMPOTENCY_ON_IN_PROGRESS", "queue"),
        ("on_timeout", "IDEMPOTENCY_ON_TIMEOUT", "retry"),
        ("on_error", "IDEMPOTENCY_ON_ERROR", "keep"),
        ("on_store_error", "IDEMPOTENCY_ON_STORE_ERROR", "ignore"),
        ("circuit_breaker", "IDEMPOTENCY_CIRCUIT_BREAKER", "half"),
    ] {
        let variables = with(variable, value);
        let error = CompiledOperation::new("shop::charge", &all, &variables).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("{variable} is `{value}`: ")),
            "{error}"
        );
        assert!(error.is_about_variable());
        assert_eq!(all.overridden(&variables), [(setting, variable)]);
        assert_eq!(Settings::default().overridden(&variables), []);
    }
    assert_eq!(all.overridden(&nothing()), []);
}
