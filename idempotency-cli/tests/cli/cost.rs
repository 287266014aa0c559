//! `idempotency cost` and `idempotency plan`.

use crate::{command, run};

/// The page that shows the tables.
const PAGE: &str = include_str!("../../../docs/reference/cost.md");

fn output(arguments: &[&str]) -> String {
    let ran = run(command(arguments));
    ran.exits(0);
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
fn json_has_the_figures_of_the_tables() {
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&output(&[&["cost", "--json"], arguments].concat())).unwrap()
    };
    let units = json(&["--response", "4000", "--response", "500"]);
    assert_eq!(units["lookup"], "claim-first");
    let sizes: Vec<_> = units["responses"].as_array().unwrap().iter().collect();
    assert_eq!(sizes.len(), 2);
    assert_eq!(sizes[0]["bytes"], 4_000);
    assert_eq!(sizes[0].get("duplicates"), None, "there are no prices");
    let duplicate = serde_json::json!({
        "path": "duplicate",
        "requests": [{ "action": "PutItem", "refused": true }],
        "write_units": 5.0,
        "read_units": 0.0,
    });
    assert_eq!(sizes[0]["paths"][1], duplicate);
    let prices = ["--write-price", "10", "--read-price", "2"];
    let money = json(&[&["--response", "500", "--duplicates", "50"], &prices[..]].concat());
    assert_eq!(money["money_is_for_calls"], 1e6);
    let size = &money["responses"][0];
    assert_eq!(size["paths"][0]["path"], "first_run");
    let near = |figure: &serde_json::Value, expected: f64| {
        (figure.as_f64().unwrap() - expected).abs() < 1e-9
    };
    assert!(near(&size["paths"][0]["money"], 20.0), "{size}");
    assert!(near(&size["duplicates"][0]["money"], 15.0), "{size}");
    assert!(near(&size["duplicates"][1]["money"], 11.0), "{size}");
    assert_eq!(size["duplicates"][1]["lookup"], "read-first");
    assert!(near(&size["read_first_pays_above_percent"], 10.0), "{size}");
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
        ran.complains(expected);
    }
}

#[test]
fn a_plan_that_holds_prints_its_costs() {
    let plan = [
        "plan",
        "--rate",
        "0.1/s",
        "--lifetime",
        "1h",
        "--own-bytes",
        "300",
    ];
    let ran = run(command(&plan));
    ran.exits(0);
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
    assert!(
        include_str!("../../README.md").contains(expected),
        "the README shows it"
    );
}

#[test]
fn a_plan_that_does_not_hold_says_the_largest_rate_and_fails() {
    let plan = ["plan", "--rate", "600/m", "--lifetime", "1h", "--json"];
    let ran = run(command(&plan));
    ran.exits(1);
    let json = ran.json();
    assert_eq!(json["holds"], false);
    assert_eq!(json["keys"], 51_864);
    assert_eq!(json["write_units"], 660);
    let largest = json["largest_rate"].as_f64().unwrap();
    assert!((3.8..4.0).contains(&largest), "{json}");
    let holding = format!("{largest}");
    run(command(&["plan", "--rate", &holding, "--lifetime", "1h"])).exits(0);
}

#[test]
fn numbers_out_of_their_range_are_wrong_usage() {
    for plan in [
        ["plan", "--rate", "0", "--lifetime", "1h"],
        ["plan", "--rate", "2/w", "--lifetime", "1h"],
        ["plan", "--rate", "2", "--lifetime", "soon"],
        ["plan", "--rate", "2", "--lifetime", "0s"],
    ] {
        run(command(&plan)).exits(2);
    }
}
