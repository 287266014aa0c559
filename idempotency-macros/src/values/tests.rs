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
fn each_setting_is_read() {
    let choice = Constant::Choice;
    for (setting, value) in [
        ("key = \"a.b\"", Constant::Text("a.b".into())),
        ("key = r#\"a.\"b c\"\"#", Constant::Text("a.\"b c\"".into())),
        ("key_required = true", choice("KeyRequired", "Any")),
        ("key_required = false", choice("KeyRequired", "No")),
        ("key_required = \"all\"", choice("KeyRequired", "All")),
        ("local_cache = 1_000", Constant::Number(1_000)),
        (
            "expires_after = \"1h 30m\"",
            Constant::Time(Duration::from_secs(5_400)),
        ),
        (
            "expires_after = \"2000ms\"",
            Constant::Time(Duration::from_secs(2)),
        ),
        (
            "lease = \"1500ms\"",
            Constant::Time(Duration::from_millis(1_500)),
        ),
        ("lease = \"1ms\"", Constant::Time(Duration::from_millis(1))),
        ("hash = \"SHA512\"", choice("HashAlgorithm", "Sha512")),
        ("on_in_progress = \"wait\"", choice("OnInProgress", "Wait")),
        ("lookup = \"read-first\"", choice("Lookup", "ReadFirst")),
        ("on_timeout = \"hold\"", choice("OnTimeout", "Hold")),
        ("on_error = \"record\"", choice("OnError", "Record")),
        (
            "on_store_error = \"run-unprotected\"",
            choice("OnStoreError", "RunUnprotected"),
        ),
        ("circuit_breaker = true", Constant::Bool(true)),
        ("steps = \"keep\"", choice("Steps", "Keep")),
    ] {
        assert_eq!(constant(setting), value, "{setting}");
    }
}

/// The compiler's own tests, `tests/ui`, have the other texts and their places.
#[test]
fn a_wrong_value_is_an_error_that_says_what_to_write() {
    let longest = "p".repeat(LONGEST_PREFIX);
    assert!(checked(&format!("key_prefix = \"{longest}\"")).is_ok());
    let too_long = format!("key_prefix = \"{longest}p\"");
    for (setting, text) in [
        (
            "store_when = \" \"",
            "`store_when` is empty: leave it out for storing every response",
        ),
        (
            "validate = 3",
            "the value of `validate` is a text: write it in quotes, like `validate = \"amount\"`",
        ),
        (&too_long, "`key_prefix` has 513 bytes: write at most 512"),
        (
            "expires_after = \"1500ms\"",
            "`expires_after` is counted in whole seconds: write a duration without a fraction of a second",
        ),
        (
            "local_cache = 99999999999999999999",
            "`local_cache` is too large: write a smaller number",
        ),
        (
            "local_cache = 5u8",
            "`local_cache` is a number of records; 0 is off",
        ),
        (
            "local_cache_bytes = \"8MiB\"",
            "`local_cache_bytes` is a number of bytes; 0 is off",
        ),
    ] {
        assert_eq!(error(setting), text);
    }
}

#[test]
fn a_payload_is_never_moved_and_an_operator_stays_inside_its_reference() {
    for (payload, generated) in [
        ("self.0", "& self . 0"),
        ("(user, &order.id)", "& (& user , & & order . id ,)"),
        ("[user]", "& (& user ,)"),
        ("(order)", "& (order)"),
        ("a + b", "& (a + b)"),
        ("(a as u64, b)", "& (& (a as u64) , & b ,)"),
    ] {
        assert_eq!(payload_of(&format!("payload = {payload}")), generated);
    }
}
