//! Tests of the values of the attribute's arguments.

use quote::ToTokens;

use super::literal::LONGEST_PREFIX;
use super::*;

fn checked(setting: &str) -> syn::Result<Value> {
    let mut arguments = crate::arguments::Arguments::parse(setting.parse().unwrap());
    assert!(
        arguments.errors.is_empty(),
        "{setting}: {:?}",
        arguments.errors
    );
    check(arguments.all.remove(0))
}

fn constant(setting: &str) -> Constant {
    match checked(setting).unwrap() {
        Value::Constant(constant) => constant,
        _ => panic!("{setting} is not a constant"),
    }
}

fn error(setting: &str) -> String {
    checked(setting)
        .err()
        .unwrap_or_else(|| panic!("{setting} was accepted"))
        .to_string()
}

fn payload_of(setting: &str) -> String {
    match checked(setting).unwrap() {
        Value::Payload(payload) => payload.to_token_stream().to_string(),
        _ => panic!("{setting} is not a payload"),
    }
}

#[test]
fn each_setting_is_read() {
    assert_eq!(constant("key = \"a.b\""), Constant::Text("a.b".into()));
    assert_eq!(
        constant("key = r#\"a.\"b c\"\"#"),
        Constant::Text("a.\"b c\"".into())
    );
    for (written, variant) in [("true", "Any"), ("false", "No"), ("\"all\"", "All")] {
        assert_eq!(
            constant(&format!("key_required = {written}")),
            Constant::Choice("KeyRequired", variant)
        );
    }
    assert_eq!(constant("local_cache = 1_000"), Constant::Number(1_000));
    assert_eq!(
        constant("expires_after = \"1h 30m\""),
        Constant::Time(Duration::from_secs(5_400))
    );
    assert_eq!(
        constant("lease = \"1ms\""),
        Constant::Time(Duration::from_millis(1))
    );
    assert_eq!(
        constant("hash = \"SHA512\""),
        Constant::Choice("HashAlgorithm", "Sha512")
    );
    assert_eq!(
        constant("on_in_progress = \"wait\""),
        Constant::Choice("OnInProgress", "Wait")
    );
    assert_eq!(
        constant("lookup = \"read-first\""),
        Constant::Choice("Lookup", "ReadFirst")
    );
    assert_eq!(
        constant("on_timeout = \"hold\""),
        Constant::Choice("OnTimeout", "Hold")
    );
    assert_eq!(
        constant("on_error = \"record\""),
        Constant::Choice("OnError", "Record")
    );
    assert_eq!(
        constant("on_store_error = \"run-unprotected\""),
        Constant::Choice("OnStoreError", "RunUnprotected")
    );
    assert_eq!(constant("circuit_breaker = true"), Constant::Bool(true));
    assert_eq!(
        constant("steps = \"keep\""),
        Constant::Choice("Steps", "Keep")
    );
}

#[test]
fn a_literal_from_a_macro_is_accepted() {
    let mut value: Expr = syn::parse_str("\"a\"").unwrap();
    value = Expr::Group(syn::ExprGroup {
        attrs: Vec::new(),
        group_token: syn::token::Group::default(),
        expr: Box::new(value),
    });
    let name = Ident::new("key", Span::call_site());
    assert!(check(Setting { name, value }).is_ok());
}

#[test]
fn a_wrong_expression_is_shown_with_a_caret_at_its_place() {
    let error = error("key = \"body.[user_id,\"");
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "`key` is not an expression that can be used:",
            "body.[user_id,"
        ]
    );
    assert!(lines[2].trim_start().starts_with('^'), "{error}");
}

#[test]
fn an_empty_expression_is_an_error() {
    assert_eq!(
        error("key = \"\""),
        "`key` is empty: leave it out for the whole payload"
    );
    assert_eq!(
        error("store_when = \" \""),
        "`store_when` is empty: leave it out for storing every response"
    );
}

#[test]
fn the_name_of_a_constant_is_accepted() {
    for setting in [
        "key = KEY",
        "key_prefix = settings::PREFIX",
        "validate = crate::keys::amount",
        "key_required = REQUIRED",
        "expires_after = WINDOW",
        "lease = N",
        "local_cache = SIZE",
        "on_timeout = OnTimeout::Hold",
        "on_error = Record",
        "on_store_error = OnStoreError::Fail",
        "circuit_breaker = BREAKER",
        "hash = HASH",
    ] {
        assert!(matches!(checked(setting), Ok(Value::Path(_))), "{setting}");
    }
    for setting in [
        "key = order_id",
        "expires_after = window",
        "on_timeout = hold",
        "key_required = True",
    ] {
        assert!(checked(setting).is_err(), "{setting}");
    }
}

#[test]
fn a_text_without_quotes_is_an_error_that_shows_the_quotes() {
    assert_eq!(
        error("key = body.user_id"),
        "the value of `key` is a text: write it in quotes, `key = \"body.user_id\"`"
    );
    assert!(error("validate = 3").contains("like `validate = \"amount\"`"));
}

#[test]
fn a_prefix_must_fit_and_must_not_have_the_mark_of_a_tenant() {
    assert!(error("key_prefix = \"\"").contains("is empty"));
    assert!(error("key_prefix = \"a#tenant=b\"").contains("leave out"));
    let longest = "p".repeat(LONGEST_PREFIX);
    assert!(checked(&format!("key_prefix = \"{longest}\"")).is_ok());
    assert_eq!(
        error(&format!("key_prefix = \"{longest}p\"")),
        "`key_prefix` has 513 bytes: write at most 512"
    );
}

#[test]
fn a_wrong_choice_is_an_error_that_lists_the_names() {
    for setting in [
        "on_timeout = \"rerum\"",
        "on_timeout = hold",
        "on_timeout = true",
    ] {
        assert_eq!(error(setting), "`on_timeout` is one of \"rerun\", \"hold\"");
    }
    assert!(error("hash = \"crc32\"").ends_with("\"sha384\", \"sha512\""));
}

#[test]
fn a_duration_has_a_unit_and_a_minimum() {
    for setting in ["lease = 30", "lease = \"30\"", "lease = \"soon\""] {
        assert_eq!(
            error(setting),
            "write a duration such as \"30s\", \"15m\" or \"1h\", or the name of a constant"
        );
    }
    assert_eq!(
        error("expires_after = \"999ms\""),
        "`expires_after` is too short: write at least \"1s\""
    );
    assert_eq!(
        error("lease = \"0s\""),
        "`lease` is too short: write at least \"1ms\""
    );
}

#[test]
fn a_window_is_counted_in_whole_seconds() {
    assert_eq!(
        error("expires_after = \"1500ms\""),
        "`expires_after` is counted in whole seconds: write a duration without a fraction of a second"
    );
    assert!(checked("expires_after = \"2000ms\"").is_ok());
    assert!(checked("lease = \"1500ms\"").is_ok());
}

#[test]
fn a_text_with_a_suffix_is_an_error() {
    assert!(error("key = \"id\"x").contains("is a text"));
}

#[test]
fn a_number_has_no_sign_no_fraction_and_no_other_type() {
    for setting in [
        "local_cache = \"5\"",
        "local_cache = -1",
        "local_cache = 1.5",
        "local_cache = 5u8",
    ] {
        assert_eq!(
            error(setting),
            "`local_cache` is a number of records; 0 is off"
        );
    }
    assert!(error("local_cache = 99999999999999999999").contains("too large"));
    assert_eq!(
        error("local_cache_bytes = \"8MiB\""),
        "`local_cache_bytes` is a number of bytes; 0 is off"
    );
    assert_eq!(
        error("key_required = \"yes\""),
        "`key_required` is `true`, `false` or `\"all\"`"
    );
}

#[test]
fn code_is_written_without_quotes() {
    assert!(
        error("payload = \"order\"").contains("write it without quotes, like `payload = order`")
    );
    assert!(error("store = \"dynamodb\"").contains("belongs in `IDEMPOTENCY_STORE`"));
    assert!(error("on_replay = \"hook\"").contains("write the name of a `fn"));
}

#[test]
fn a_payload_is_never_moved() {
    assert_eq!(payload_of("payload = self.0"), "& self . 0");
    assert_eq!(
        payload_of("payload = (user, &order.id)"),
        "& (& user , & & order . id ,)"
    );
    assert_eq!(payload_of("payload = [user]"), "& (& user ,)");
    assert_eq!(payload_of("payload = (order)"), "& (order)");
}

#[test]
fn an_operator_stays_inside_its_reference() {
    assert_eq!(payload_of("payload = a + b"), "& (a + b)");
    assert_eq!(
        payload_of("payload = (a as u64, b)"),
        "& (& (a as u64) , & b ,)"
    );
}

#[test]
fn an_empty_list_is_not_a_payload() {
    assert!(error("payload = ()").contains("between 1 and 16 elements"));
    assert!(error("payload = []").contains("between 1 and 16 elements"));
}
