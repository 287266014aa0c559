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
    // The seconds differ. The program has compared the rest of each event with its step.
    for words in [
        "\n1  A payment and its duplicates",
        "\n9  An event delivered again, with a local cache",
        " 1 order o-1001, 42.00 EUR         6f8b8596 ran             Put Update  201 pay-1\n",
        "   └ entry e-4                     -        not started     none        to repeat\n",
        "27 the same, to another process    caf6f8c0 stored response Put✗        parcel-25\n",
        "the handler runs unprotected",
        "this would be the second charge",
        "Every promise was kept: 27 events sent, 17 handler runs, ",
        "7 of 14 payment events reached the card gateway",
        "Executed 15, Failed 1, Replayed 9, Refused 6 (InProgress 2, PayloadMismatch 2).",
        "README.md",
    ] {
        assert!(shown.contains(words), "`{words}` is missing in\n{shown}");
    }
    for line in shown.lines() {
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
