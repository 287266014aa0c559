//! Runs the demo as `cargo run` does.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn demo(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn the_demo_keeps_every_promise_and_shows_each_in_100_columns() {
    let output = demo(&[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let timeline = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{timeline}\n{errors}");
    assert_eq!(errors, "");
    for words in [
        "stored response",
        "cached response",
        "ran, failed",
        "ran, killed",
        "refused",
        "422 key-reused",
        "409 in-progress",
        "IdempotencyKeyMissing",
        "the handler runs unprotected",
        "of another user",
        "Put Delete",
        "this would be the second charge",
        "Idempotency-Key",
        "400 key-missing",
        "account locked",
        "not started",
        "Every promise was kept",
        "In CloudWatch: Executed",
        "README.md",
    ] {
        assert!(
            timeline.contains(words),
            "`{words}` is missing in\n{timeline}"
        );
    }
    assert!(
        !timeline.contains('\x1b'),
        "colours are for a terminal only"
    );
    for line in timeline.lines() {
        assert!(line.chars().count() <= 100, "more than 100 columns: {line}");
    }
}

#[test]
fn help_has_two_lines_and_an_unknown_argument_is_an_error() {
    let help = demo(&["--help"]);
    assert!(help.status.success());
    assert_eq!(String::from_utf8(help.stdout).unwrap().lines().count(), 2);
    let unknown = demo(&["--fast"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        String::from_utf8(unknown.stderr)
            .unwrap()
            .contains("unknown argument `--fast`")
    );
    let without_file = demo(&["--metrics"]);
    assert_eq!(without_file.status.code(), Some(1));
    let error = String::from_utf8(without_file.stderr).unwrap();
    assert!(error.contains("`--metrics` needs a file"), "{error}");
}
