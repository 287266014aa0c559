use idempotency_core::config::ConfigurationError;
use idempotency_core::error::ErrorKind;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Policy, Steps,
};

use std::time::Duration;

use super::*;
use crate::HttpOperation;

fn builder() -> HttpOperationBuilder {
    HttpOperation::builder("shop::pay").variables(Variables::default())
}

/// Returns a builder with a rule for the caller.
fn scoped() -> HttpOperationBuilder {
    builder().caller_header("x-user-id")
}

#[track_caller]
fn refused(builder: HttpOperationBuilder) -> String {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let text = error.to_string();
    let (_, detail) = text.split_once("the configuration is wrong: ").unwrap();
    detail.to_owned()
}

/// Checks that the text says first what is wrong.
#[track_caller]
fn is_refused(builder: HttpOperationBuilder, text: &str) {
    let refused = refused(builder);
    assert!(refused.starts_with(text), "{refused}");
}

#[test]
fn an_operation_needs_one_rule_for_the_caller() {
    let text = refused(builder());
    for part in [
        "client B can send the key of client A and read A's response",
        "caller_header",
        "caller_from",
        "shared_by_all_callers()",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(builder().shared_by_all_callers().build().is_ok());
    let twice = "the caller is set twice";
    is_refused(scoped().shared_by_all_callers(), twice);
    is_refused(builder().caller("a").caller("b"), twice);
    is_refused(scoped().caller_from(|_| None), twice);
}

#[test]
fn the_configuration_page_has_the_defaults_of_http() {
    let page = include_str!("../../../../docs/reference/configuration.md");
    let rules = builder().rules;
    let mib = |bytes: usize| format!("{} MiB", bytes / 1024 / 1024);
    let sizes = [rules.max_request_body, rules.stored.max_body].map(mib);
    let methods: Vec<_> = rules.methods.iter().map(Method::as_str).collect();
    for (setting, default) in [
        ("largest body of a request", sizes.join(", ")),
        ("protected methods", methods.join(", ")),
        (
            "header of a replay",
            format!("`{}`", rules.replayed_header.unwrap()),
        ),
        (
            "a response that cannot be stored",
            format!("`{:?}`", rules.stored.on_unstorable),
        ),
    ] {
        let start = format!("| {setting}");
        let row = page.lines().find(|line| line.starts_with(&start));
        let end = format!("| {default} |");
        assert!(
            row.is_some_and(|row| row.ends_with(&end)),
            "{setting}: {default}"
        );
    }
}

#[test]
fn a_wrong_setting_is_named_with_what_to_write() {
    for (setting, builder) in [
        ("caller", builder().caller("[a")),
        ("key", scoped().key("[a")),
        ("fingerprint", scoped().fingerprint("[a")),
    ] {
        is_refused(builder, &format!("`{setting}`: invalid JMESPath"));
    }
    for (setting, builder) in [
        ("caller_header", builder().caller_header("a b")),
        ("key_header", scoped().key_header("a b")),
        ("stored_headers", scoped().stored_headers(["x-a", "a b"])),
        ("replayed_header", scoped().replayed_header("a b")),
    ] {
        let text = format!("{setting} is `a b`: write the name of a header");
        is_refused(builder, &text);
    }
    for (name, remedy) in [
        ("Set-Cookie", "a cookie"),
        ("Connection", "it belongs to one connection"),
        ("content-length", "it belongs to one connection"),
    ] {
        let text = format!("stored_headers is `{name}`: leave it out: {remedy}");
        is_refused(scoped().stored_headers([name]), &text);
    }
    for url in ["a b", "a>b", ""] {
        let text = format!("documentation is `{url}`: write an address");
        is_refused(scoped().documentation(url), &text);
    }
    let cookie = scoped().replayed_header("set-cookie");
    is_refused(cookie, "replayed_header is `set-cookie`");
    is_refused(builder().caller(" "), "caller is ` `: leave it out");
    is_refused(scoped().key(""), "key is ``: leave it out");
    is_refused(scoped().methods([]), "`methods` is empty");
    is_refused(scoped().key_prefix(""), "key_prefix is ``");
    is_refused(scoped().lease(Duration::ZERO), "lease is `0ns`");
    let with_steps = scoped().steps(Steps::Keep).without_fingerprint();
    is_refused(with_steps, "`steps` need a fingerprint");
    let held = || scoped().on_timeout(OnTimeout::Hold);
    let released = held().on_unstorable(Unstorable::Release);
    is_refused(released, "`on_unstorable` is `Release`");
    assert!(held().on_unstorable(Unstorable::Refuse).build().is_ok());
    let narrow = held().stored_statuses(|status| status.is_success());
    is_refused(narrow, "`stored_statuses` does not store 301");
    let narrow = held().stored_statuses(|status| status != StatusCode::NOT_FOUND);
    let text = "`stored_statuses` does not store 404, and under `on_timeout = \"hold\"` a response that is not stored and has no \
                `FailureReport` holds its key until an operator decides: store it, and add `FailureReport` to the extensions of a \
                response whose handler had no effect, or write `on_timeout = \"rerun\"`";
    is_refused(narrow, text);
    assert!(held().stored_statuses(|_| true).build().is_ok());
}

#[test]
fn what_is_compared_is_said_once() {
    let text = "`fingerprint_rfc8785` says what is compared";
    let scoped = || scoped().fingerprint_rfc8785(["/a"]);
    is_refused(scoped().fingerprint("body"), text);
    is_refused(scoped().fingerprint_also("body"), text);
    is_refused(scoped().without_fingerprint(), text);
    for wrong in ["", "a", "/a~"] {
        let wrong = scoped().fingerprint_rfc8785([wrong]);
        is_refused(wrong, "fingerprint_rfc8785 is `");
    }
    let [list, none] = [scoped(), scoped().fingerprint_rfc8785([])];
    let per_path = scoped().key_per_path(true);
    let identities = [&list, &none, &per_path].map(|builder| builder.identity().key);
    assert!(identities[0] != identities[1] && identities[0] != identities[2]);
    assert!([list, none, per_path].map(|builder| builder.build().is_ok()) == [true; 3]);
}

#[test]
fn the_settings_of_an_operation_are_those_of_http() {
    let settings = Settings {
        key: Some("header(@, 'x-order')".into()),
        validate: Some("[a".into()),
        ..Settings::new()
    };
    let scoped = || scoped().settings(settings.clone());
    is_refused(scoped(), "`fingerprint`: invalid");
    let operation = scoped().fingerprint("body").build().unwrap();
    assert!(format!("{operation:?}").contains("x-order"));
    let operation = scoped().fingerprint("body").key_header("order");
    assert!(format!("{:?}", operation.build().unwrap()).contains("Header(\"order\")"));
}

#[test]
fn every_policy_has_a_method() {
    let [minute, second] = [60, 1].map(Duration::from_secs);
    let operation = scoped()
        .expires_after(minute)
        .lookup(Lookup::ReadFirst)
        .on_in_progress(OnInProgress::Wait)
        .on_timeout(OnTimeout::Rerun)
        .on_error(OnError::Record)
        .on_store_error(OnStoreError::RunUnprotected)
        .circuit_breaker(true)
        .steps(Steps::Forget)
        .store_timeout(second)
        .build();
    let mut expected = Policy::default();
    expected.lookup = Lookup::ReadFirst;
    expected.on_in_progress = OnInProgress::Wait;
    expected.on_error = OnError::Record;
    expected.on_store_error = OnStoreError::RunUnprotected;
    expected.circuit_breaker = true;
    expected.steps = Steps::Forget;
    (expected.expires_after, expected.store_timeout) = (minute, second);
    assert_eq!(operation.unwrap().compiled().policy(), &expected);
    let held = scoped().on_timeout(OnTimeout::Hold).build().unwrap();
    assert_eq!(held.compiled().policy().on_timeout, OnTimeout::Hold);
}

#[test]
fn variables_stand_for_settings_that_are_missing() {
    let with = |name: &str, value: &str| {
        let variable = (name.to_owned(), value.to_owned());
        scoped().variables(Variables::from_iter([variable]))
    };
    let named = with("IDEMPOTENCY_KEY_PREFIX", "eu").build().unwrap();
    assert_eq!(named.compiled().key_prefix(), "eu.shop.pay");
    // A server can run on Lambda too.
    let named = with("AWS_LAMBDA_FUNCTION_NAME", "web").build().unwrap();
    assert_eq!(named.compiled().key_prefix(), "web.shop.pay");
    let wrong = with("IDEMPOTENCY_KEY_REQUIRED", "perhaps");
    is_refused(wrong, "IDEMPOTENCY_KEY_REQUIRED is `perhaps`");
}

#[test]
fn the_program_can_compile_the_settings_itself() {
    let minute = Duration::from_secs(60);
    let operation = scoped().expires_after(minute);
    let operation = operation.build_with(|path, settings, variables| {
        assert_eq!(path, "shop::pay");
        assert_eq!(settings.expires_after, Some(minute));
        assert_eq!(settings.key_required, Some(KeyRequired::All));
        CompiledOperation::new("shop::refund", settings, variables).map(Arc::new)
    });
    let operation = operation.unwrap();
    assert_eq!(operation.compiled().key_prefix(), "local.shop.refund");
    let refused = scoped().build_with(|_, _, _| Err(ConfigurationError::new("no")));
    assert_eq!(refused.unwrap_err().to_string(), "no");
}

#[test]
fn debug_shows_the_rules_and_no_variables() {
    let variables = Variables::from_iter([("SECRET".to_owned(), "s3cr3t".to_owned())]);
    let builder = HttpOperation::builder("shop::pay").variables(variables);
    let builder = builder.caller_from(|_| None);
    assert!(!format!("{builder:?}").contains("s3cr3t"));
    let operation = builder.build().unwrap();
    assert_eq!(
        format!("{operation:?}"),
        r#"HttpOperation { key_prefix: "local.shop.pay", key: Header("idempotency-key"), caller: Function, methods: [POST, PATCH], .. }"#
    );
}
