use idempotency_core::config::ConfigurationError;
use idempotency_core::error::ErrorKind;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::policy::Steps;

use super::*;
use crate::HttpOperation;

fn builder() -> HttpOperationBuilder {
    HttpOperation::builder("shop::pay").variables(Variables::default())
}

#[track_caller]
fn refused(builder: HttpOperationBuilder) -> String {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let text = error.to_string();
    let (_, detail) = text.split_once("the configuration is wrong: ").unwrap();
    detail.to_owned()
}

#[test]
fn an_operation_without_a_caller_is_refused_with_the_attack() {
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
}

#[test]
fn two_rules_for_the_caller_are_refused() {
    for builder in [
        builder().caller_header("x-user-id").shared_by_all_callers(),
        builder().caller("a").caller("b"),
        builder().caller_from(|_| None).caller_header("x-user-id"),
    ] {
        assert!(refused(builder).starts_with("the caller is set twice"));
    }
}

#[test]
fn a_wrong_setting_is_named_with_what_to_write() {
    let scoped = || builder().caller_header("x-user-id");
    let with_steps = Settings {
        steps: Some(Steps::Keep),
        ..Settings::new()
    };
    for (builder, text) in [
        (builder().caller("[a"), "`caller`: invalid JMESPath"),
        (builder().caller(" "), "caller is ` `: leave it out"),
        (
            builder().caller_header("x user"),
            "caller_header is `x user`: write the name of a header",
        ),
        (scoped().key("[a"), "`key`: invalid JMESPath"),
        (scoped().key(""), "key is ``: leave it out"),
        (
            scoped().fingerprint("[a"),
            "`fingerprint`: invalid JMESPath",
        ),
        (
            scoped().key_header(""),
            "key_header is ``: write the name of a header",
        ),
        (
            scoped().stored_headers(["a b"]),
            "stored_headers is `a b`: write the name of a header",
        ),
        (
            scoped().stored_headers(["Set-Cookie"]),
            "stored_headers is `Set-Cookie`: leave it out: a cookie",
        ),
        (
            scoped().stored_headers(["x-a", "Connection"]),
            "stored_headers is `Connection`: leave it out: it belongs to one connection",
        ),
        (
            scoped().stored_headers(["content-length"]),
            "stored_headers is `content-length`: leave it out",
        ),
        (scoped().replayed_header("a b"), "replayed_header is `a b`"),
        (
            scoped().replayed_header("set-cookie"),
            "replayed_header is `set-cookie`",
        ),
        (
            scoped().documentation("a b"),
            "documentation is `a b`: write an address",
        ),
        (
            scoped().documentation("a>b"),
            "documentation is `a>b`: write an address",
        ),
        (
            scoped().documentation(""),
            "documentation is ``: write an address",
        ),
        (scoped().methods([]), "`methods` is empty"),
        (scoped().key_prefix(""), "key_prefix is ``"),
        (
            scoped().settings(with_steps).without_fingerprint(),
            "`steps` need a fingerprint",
        ),
        (scoped().lease(Duration::ZERO), "lease is `0ns`"),
    ] {
        let refused = refused(builder);
        assert!(refused.starts_with(text), "{refused}");
    }
}

#[test]
fn the_settings_of_an_operation_are_those_of_http() {
    let settings = Settings {
        key: Some("header(@, 'x-order')".into()),
        validate: Some("[a".into()),
        ..Settings::new()
    };
    let scoped = || builder().shared_by_all_callers().settings(settings.clone());
    assert!(refused(scoped()).starts_with("`fingerprint`: invalid"));
    let operation = scoped().fingerprint("body").build().unwrap();
    assert!(format!("{operation:?}").contains("x-order"));
    let operation = scoped().fingerprint("body").key_header("order");
    assert!(format!("{:?}", operation.build().unwrap()).contains("Header(\"order\")"));
}

#[test]
fn variables_stand_for_settings_that_are_missing() {
    let prefix_of = |variables: &[(&str, &str)]| {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let builder = HttpOperation::builder("shop::pay").variables(variables.collect());
        let operation = builder.shared_by_all_callers().build();
        operation.map(|operation| operation.compiled().key_prefix().to_owned())
    };
    assert_eq!(prefix_of(&[]).unwrap(), "local.shop.pay");
    let named = prefix_of(&[("IDEMPOTENCY_KEY_PREFIX", "eu")]);
    assert_eq!(named.unwrap(), "eu.shop.pay");
    let wrong = prefix_of(&[("IDEMPOTENCY_KEY_REQUIRED", "perhaps")]);
    assert!(
        wrong
            .unwrap_err()
            .to_string()
            .contains("IDEMPOTENCY_KEY_REQUIRED is `perhaps`")
    );
}

#[test]
fn the_program_can_compile_the_settings_itself() {
    let mut seen = None;
    let operation = builder()
        .caller_header("x")
        .expires_after(Duration::from_secs(60));
    let operation = operation.build_with(|path, settings, variables| {
        seen = Some((path.to_owned(), settings.clone()));
        CompiledOperation::new(path, settings, variables).map(Arc::new)
    });
    let (path, settings) = seen.unwrap();
    assert_eq!(path, "shop::pay");
    assert_eq!(settings.expires_after, Some(Duration::from_secs(60)));
    assert_eq!(settings.key_required, Some(KeyRequired::All));
    assert_eq!(
        operation
            .unwrap()
            .compiled()
            .policy()
            .expires_after
            .as_secs(),
        60
    );
    let refused = builder()
        .caller_header("x")
        .build_with(|_, _, _| Err(ConfigurationError::new("no")));
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
