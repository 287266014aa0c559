//! `idempotency plan`.

use crate::{command, run};

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
    assert_eq!(ran.code, Some(0), "{ran:?}");
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
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let json = ran.json();
    assert_eq!(json["holds"], false);
    assert_eq!(json["keys"], 51_864);
    assert_eq!(json["write_units"], 660);
    let largest = json["largest_rate"].as_f64().unwrap();
    assert!((3.8..4.0).contains(&largest), "{json}");
    let holding = format!("{largest}");
    let again = run(command(&["plan", "--rate", &holding, "--lifetime", "1h"]));
    assert_eq!(again.code, Some(0), "{again:?}");
}

#[test]
fn numbers_out_of_their_range_are_wrong_usage() {
    for plan in [
        ["plan", "--rate", "0", "--lifetime", "1h"],
        ["plan", "--rate", "2/w", "--lifetime", "1h"],
        ["plan", "--rate", "2", "--lifetime", "soon"],
        ["plan", "--rate", "2", "--lifetime", "0s"],
    ] {
        let ran = run(command(&plan));
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}
