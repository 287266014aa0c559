//! `idempotency key` on one event.

use serde_json::json;

use crate::{Ran, command, run, run_on};

const EVENT: &str = r#"{"body": {"user_id": "u-1", "order_id": 42, "amount": 100}}"#;

fn key(options: &[&str], event: &str) -> Ran {
    let expression = "body.[user_id, order_id]";
    let fixed = [
        "key",
        "--expression",
        expression,
        "--prefix",
        "payments.app.handler",
    ];
    run_on(
        command(&[&fixed, options].concat()),
        event.as_bytes().to_vec(),
    )
}

#[test]
fn only_the_key_is_printed_so_that_another_command_can_use_it() {
    let ran = key(&[], EVENT);
    assert_eq!(ran.code, Some(0));
    assert_eq!(
        ran.stdout,
        "payments.app.handler#e31b8b84a9be62e9ae878d3fb2b80004\n"
    );
}

#[test]
fn the_text_and_the_validation_digest_are_printed_on_request() {
    let ran = key(&["--explain", "--validate", "body.amount", "-"], EVENT);
    assert_eq!(
        ran.stdout,
        "payments.app.handler#e31b8b84a9be62e9ae878d3fb2b80004\n\
         validation  f899139df5e1059396431415e770c6dd\n\
         text        [\"u-1\", 42]\n"
    );
    let ran = key(&["--json", "--tenant", "blue"], EVENT);
    let expected = json!({
        "key": "payments.app.handler#tenant=blue#e31b8b84a9be62e9ae878d3fb2b80004",
        "text": "[\"u-1\", 42]",
        "validation": null,
    });
    assert_eq!(ran.json(), expected);
}

#[test]
fn the_event_can_be_a_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/event.json");
    let ran = key(&[file], "");
    assert!(
        ran.stdout.ends_with("#e31b8b84a9be62e9ae878d3fb2b80004\n"),
        "{ran:?}"
    );
    let nothing = key(&["no/such/file.json"], "");
    assert_eq!(nothing.code, Some(1));
    assert!(
        nothing
            .stderr
            .contains("`no/such/file.json` cannot be read"),
        "{nothing:?}"
    );
}

#[test]
fn an_event_without_a_key_has_its_own_exit_code() {
    let ran = key(&[], r#"{"body": {}}"#);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""));
    assert!(ran.stderr.contains("the event has no key"));
    let ran = key(&["--json"], r#"{"body": {}}"#);
    assert_eq!((ran.code, ran.json()), (Some(5), json!({ "no_key": true })));
}

#[test]
fn an_input_that_is_not_an_event_is_an_error() {
    let ran = key(&[], "{");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("invalid JSON"), "{ran:?}");
    let ran = run_on(command(&["key"]), vec![0xff]);
    assert!(ran.stderr.contains("not UTF-8 at byte 0"), "{ran:?}");
}

#[test]
fn a_variable_that_cannot_be_understood_is_wrong_usage() {
    let mut command = command(&["key"]);
    command.env("IDEMPOTENCY_HASH", "md6");
    assert_eq!(run(command).code, Some(2));
}
