//! Runs each case, for callgrind: `benches/instructions.sh` counts the instructions of each.
//!
//! | arguments | what it does |
//! |---|---|
//! | `run [case]` | runs each case, as often as `names` says |
//! | `names [case]` | prints the name of each case in the same order, how often it is run, and the bytes of its event |
//!
//! `case` chooses the cases whose name contains it; `up-to-256KB` before it leaves out the events of 6 MB.

use std::hint::black_box;

use idempotency_benches::cases::{self, Case};

/// The largest event, in bytes, of a case that is counted [`RUNS`] times. Hash maps and the allocator's lists differ from run to run,
/// so the lowest count is compared.
const SMALL: usize = 80 * 1024;
const RUNS: usize = 5;

/// The function that callgrind counts. It must not be inlined: callgrind finds it by its name.
#[inline(never)]
fn counted_case(run: &mut dyn FnMut()) {
    run();
    // Without this the call above is a jump, and callgrind does not see where this function ends.
    black_box(());
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let what = arguments.next().unwrap_or_default();
    let without_largest = arguments
        .next_if(|argument| argument == "up-to-256KB")
        .is_some();
    let filter = arguments.next().unwrap_or_default();
    let chosen = |name: &str| !(without_largest && name.ends_with("/6MB"));
    let cases = cases::all(&filter);
    for case in cases.iter().filter(|case| chosen(&case.name)) {
        if what == "names" {
            println!("{} {} {}", case.name, runs(case), case.bytes);
            continue;
        }
        // The first run fills what is initialised once.
        (case.prepare)()();
        for _ in 0..runs(case) {
            counted_case(&mut *(case.prepare)());
        }
    }
}

fn runs(case: &Case) -> usize {
    if case.bytes <= SMALL { RUNS } else { 1 }
}
