//! Powertools for AWS Lambda (Python) and this framework in the same 45 situations.
//!
//! Every difference is a [`Difference`] and a row of `docs/reference/compatibility.md`. The test expects it in certain
//! situations and in no others.
//!
//! | module | content |
//! |---|---|
//! | `scenario` | the recorded situations |
//! | `ours` | plays a situation with this framework |
//! | `compare` | compares requests, items and responses |
//! | `conditions` | compares conditions by the records that they let through |
//! | `difference` | the differences, and the situations in which each is expected |

mod compare;
mod conditions;
mod difference;
mod ours;
mod scenario;

use std::collections::BTreeSet;

use conditions::Conditions;
use difference::{Difference, expected};
use idempotency_lambda::BoxError;
use ours::Play;
use scenario::Scenario;

const COMPATIBILITY: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/reference/compatibility.md"
));

/// Returns what is wrong with a scenario; nothing if it is as expected.
async fn check(scenario: &Scenario, conditions: &Conditions) -> Result<Vec<String>, BoxError> {
    let play = Play::start(scenario).await?;
    let mut wrong = Vec::new();
    for (number, (step, theirs)) in scenario.steps.iter().zip(&scenario.results).enumerate() {
        let ours = play.step(step).await?;
        let found = compare::step(theirs, &ours, conditions).await?;
        let expected = expected(&scenario.id, number, theirs);
        let place = format!("{}, step {number}", scenario.id);
        let unexplained = found.unexplained.iter();
        wrong.extend(unexplained.map(|what| format!("{place}: {what}")));
        if found.differences != expected {
            let differences = &found.differences;
            wrong.push(format!("{place}: {differences:?} and not {expected:?}"));
        }
    }
    Ok(wrong)
}

#[tokio::test]
async fn every_scenario_goes_as_in_python_except_for_the_differences_that_are_written_down()
-> Result<(), BoxError> {
    let scenarios = scenario::all();
    assert_eq!(scenarios.len(), 45);
    let conditions = Conditions::start().await?;
    let mut wrong = Vec::new();
    for scenario in &scenarios {
        assert_eq!(scenario.steps.len(), scenario.results.len());
        wrong.extend(check(scenario, &conditions).await?);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn every_difference_is_expected_of_a_scenario_and_is_a_row_of_the_compatibility_page() {
    let mut met: BTreeSet<Difference> = BTreeSet::new();
    for scenario in scenario::all() {
        for (number, theirs) in scenario.results.iter().enumerate() {
            met.extend(expected(&scenario.id, number, theirs));
        }
    }
    for difference in &met {
        let row = format!("| {difference} |");
        let has_row = COMPATIBILITY.contains(&row);
        assert!(has_row, "the page has no row that begins with `{row}`");
    }
    assert_eq!(met.len(), 15);
}
