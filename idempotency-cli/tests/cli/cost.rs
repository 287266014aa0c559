//! `idempotency cost`.

use crate::{command, run};

/// The page that shows the tables.
const PAGE: &str = include_str!("../../../docs/reference/cost.md");

fn output(arguments: &[&str]) -> String {
    let ran = run(command(arguments));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout
}

#[test]
fn the_page_about_cost_shows_the_tables_of_its_commands() {
    let commands: Vec<_> = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("$ idempotency "))
        .collect();
    assert_eq!(commands.len(), 2);
    for arguments in commands {
        let arguments: Vec<_> = arguments.split(' ').collect();
        for table in output(&arguments).split("\n\n") {
            assert!(PAGE.contains(table.trim_end()), "missing:\n{table}");
        }
    }
}

#[test]
fn without_prices_only_units_are_printed() {
    let text = output(&["cost", "--response", "4000"]);
    assert_eq!(text.lines().count(), 9, "{text}");
    assert!(text.contains("| 4 KB"), "{text}");
    assert!(text.contains("| 5 W "), "{text}");
    assert!(!text.contains("1 000 000"), "{text}");
}

#[test]
fn prices_and_shares_are_the_users() {
    let text = output(&[
        "cost",
        "--response",
        "500",
        "--write-price",
        "10",
        "--read-price",
        "2",
        "--duplicates",
        "50",
    ]);
    // A first run takes two write units, a duplicate one, and a read half a unit.
    for row in [
        ["50 %, `claim-first`", "15.00"],
        ["50 %, `read-first`", "11.00"],
        ["`read-first` is cheaper above", "10.00 %"],
    ] {
        let found = text.lines().any(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells == row
        });
        assert!(found, "{row:?} is missing:\n{text}");
    }
}

#[test]
fn wrong_values_are_refused_with_what_is_accepted() {
    for (arguments, expected) in [
        (["--lookup", "both"], "`claim-first`, `read-first`"),
        (["--duplicates", "101"], "write a number from 0 to 100"),
        (["--write-price", "free"], "write a price"),
        (["--write-price", "inf"], "write a price"),
        (["--write-price", "1"], "--read-price"),
    ] {
        let ran = run(command(&[&["cost"], arguments.as_slice()].concat()));
        assert_eq!(ran.code, Some(2), "{arguments:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}
