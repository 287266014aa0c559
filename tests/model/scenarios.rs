//! The scenarios: the rows of `scenarios.txt`, which says what its columns are.

use super::bounds::Bounds;
use super::promises::Goal;

/// Returns the columns of each row. Those that are missing at its end are empty.
fn rows() -> impl Iterator<Item = [&'static str; 5]> {
    let lines = include_str!("scenarios.txt").lines();
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let mut columns = row.split('|').map(str::trim);
        let found = std::array::from_fn(|_| columns.next().unwrap_or_default());
        assert_eq!(columns.next(), None, "`{row}` has more than five columns");
        found
    })
}

/// Returns the bounds of a scenario.
pub(crate) fn bounds(scenario: &str) -> Bounds {
    let row = rows().find(|[known, ..]| *known == scenario);
    let row = row.unwrap_or_else(|| panic!("there is no scenario `{scenario}`"));
    let [_, title, calls, words, _] = row;
    Bounds::of(title, calls, words)
}

/// Returns each scenario that every test run explores, with the goals that it must reach.
pub(crate) fn with_goals() -> impl Iterator<Item = (&'static str, Vec<Goal>)> {
    let rows = rows().filter(|[.., goals]| !goals.is_empty());
    rows.map(|[scenario, .., goals]| (scenario, goals.split(' ').map(Goal::of).collect()))
}

/// Returns the larger scenarios, which are explored only on request.
pub(crate) fn larger() -> impl Iterator<Item = Bounds> {
    let rows = rows().filter(|[scenario, ..]| *scenario == "larger");
    rows.map(|[_, title, calls, words, _]| Bounds::of(title, calls, words))
}
