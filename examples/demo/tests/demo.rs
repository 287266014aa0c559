//! Runs the demo as `cargo run` does.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn demo(args: &[&str]) -> Output {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.args(args).output().unwrap()
}

#[test]
fn the_demo_keeps_every_promise_and_shows_each_in_100_columns() {
    let output = demo(&[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}\n{errors}");
    assert_eq!(errors, "");
    let script = include_str!("../src/scenes.txt");
    assert_eq!(shown.lines().count(), script.lines().count(), "{shown}");
    for (expected, line) in script.lines().zip(shown.lines()) {
        // The seconds differ.
        let (before, after) = expected.split_once("{}").unwrap_or((expected, ""));
        let is_shown = line.starts_with(before) && line.ends_with(after);
        assert!(is_shown, "`{expected}` is missing in\n{shown}");
        assert!(line.chars().count() <= 100, "more than 100 columns: {line}");
    }
}

#[test]
fn help_has_two_lines_and_an_unknown_argument_is_an_error() {
    let help = demo(&["--help"]);
    assert!(help.status.success());
    assert_eq!(String::from_utf8(help.stdout).unwrap().lines().count(), 2);
    for (args, reason) in [
        ("--fast", "unknown argument `--fast`"),
        ("--metrics", "`--metrics` needs a file"),
    ] {
        let output = demo(&[args]);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(reason), "{error}");
    }
}
