//! `idempotency cost` and `idempotency plan`.

use serde_json::{Value, json};

use crate::run;

/// The page that shows the tables.
const PAGE: &str = include_str!("../../../docs/reference/cost.md");

#[test]
fn the_page_about_cost_shows_the_tables_of_its_commands() {
    let commands = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("$ idempotency "));
    assert_eq!(commands.clone().count(), 1);
    for line in commands {
        for table in run(line).exits(0).stdout.split("\n\n") {
            assert!(PAGE.contains(table.trim_end()), "missing:\n{table}");
        }
    }
}

#[test]
fn without_prices_only_units_are_printed() {
    let ran = run("cost --response 4000").exits(0).hides("1 000 000");
    let text = ran.prints("| 4 KB").prints("| 5 W ").stdout;
    assert_eq!(text.lines().count(), 9, "{text}");
}

/// A first run takes two write units, a duplicate one, and a read half a unit.
const PRICES: &str = "cost --response 500 --write-price 10 --read-price 2 --duplicates 50";

#[test]
fn prices_and_shares_are_the_users() {
    let text = run(PRICES).exits(0).stdout;
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
fn json_has_the_figures_of_the_tables() {
    let units = run("cost --json --response 4000 --response 500").json(0);
    assert_eq!(units["lookup"], "claim-first");
    let sizes = units["responses"].as_array().unwrap();
    assert_eq!(sizes.len(), 2);
    assert_eq!(sizes[0]["bytes"], 4_000);
    assert_eq!(sizes[0].get("duplicates"), None, "there are no prices");
    let duplicate = json!({
        "path": "duplicate",
        "requests": [{ "action": "PutItem", "refused": true }],
        "write_units": 5.0,
        "read_units": 0.0,
    });
    assert_eq!(sizes[0]["paths"][1], duplicate);
    let money = run(&format!("{PRICES} --json")).json(0);
    assert_eq!(money["money_is_for_calls"], 1e6);
    let size = &money["responses"][0];
    assert_eq!(size["paths"][0]["path"], "first_run");
    assert_eq!(size["duplicates"][1]["lookup"], "read-first");
    let near = |figure: &Value, expected: f64| {
        let difference = figure.as_f64().unwrap() - expected;
        assert!(difference.abs() < 1e-9, "{expected}: {size}");
    };
    near(&size["paths"][0]["money"], 20.0);
    near(&size["duplicates"][0]["money"], 15.0);
    near(&size["duplicates"][1]["money"], 11.0);
    near(&size["read_first_pays_above_percent"], 10.0);
}

#[test]
fn a_plan_that_holds_prints_its_costs() {
    let ran = run("plan --rate 0.1/s --lifetime 1h --own-bytes 300").exits(0);
    let expected = "\
rate          0.1 writes a second; the largest is 3.8
key known     for 1h at least, 1h 26m 24s at most
item          7554 bytes at most, of 409600; 543 keys of 13 bytes
write units   8 a write at most, 7 on average
marker item   4 write units a write; the largest rate is 500
cheaper       a marker item in the same transaction
holds         yes
";
    assert_eq!(ran.stdout, expected);
    let readme = include_str!("../../README.md");
    assert!(readme.contains(expected), "the README shows it");
}

#[test]
fn a_plan_that_does_not_hold_says_the_largest_rate_and_fails() {
    let json = run("plan --rate 600/m --lifetime 1h --json").json(1);
    assert_eq!(json["holds"], false);
    assert_eq!(json["keys"], 51_864);
    assert_eq!(json["write_units"], 660);
    let largest = json["largest_rate"].as_f64().unwrap();
    assert!((3.8..4.0).contains(&largest), "{json}");
    run(&format!("plan --rate {largest} --lifetime 1h")).exits(0);
}
