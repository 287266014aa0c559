//! Larger scenarios, which are explored only on request.

use super::check::explore;
use super::scenarios::larger;

/// The variable that requests them: `long`, or `long:` and a part of the name of some.
const VARIABLE: &str = "IDEMPOTENCY_MODEL";

#[test]
fn long() {
    // Each of them is read, also if none is explored.
    let larger: Vec<_> = larger().collect();
    let requested = std::env::var(VARIABLE).unwrap_or_default();
    let Some(chosen) = requested.strip_prefix("long") else {
        println!("larger scenarios are explored with {VARIABLE}=long, in the release profile");
        return;
    };
    let part = chosen.strip_prefix(':').unwrap_or_default();
    let chosen: Vec<_> = larger
        .into_iter()
        .filter(|it| it.name.contains(part))
        .collect();
    assert!(!chosen.is_empty(), "no scenario has `{part}` in its name");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for scenario in chosen {
        explore(scenario, Vec::new(), threads);
    }
}
