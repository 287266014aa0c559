//! `idempotency cost` and `idempotency plan`.

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
fn a_response_that_fits_no_record_is_not_reckoned_as_one_record() {
    run("cost --response 409344").exits(0).prints("| 400 W ");
    run("cost --response 409345").fails(2, "stored in pieces");
}

#[test]
fn the_readme_shows_a_plan_as_it_is_printed() {
    let ran = run("plan --rate 0.1/s --lifetime 1h --own-bytes 300").exits(0);
    assert!(
        include_str!("../../README.md").contains(&ran.stdout),
        "{ran:?}"
    );
}

#[test]
fn the_largest_rate_of_a_plan_holds() {
    let json = run("plan --rate 600/m --lifetime 1h --json").json(1);
    let largest = json["largest_rate"].as_f64().unwrap();
    run(&format!("plan --rate {largest} --lifetime 1h")).exits(0);
}
