//! Runs each case once, for callgrind: `benches/instructions.sh` counts the instructions of each.
//!
//! `instructions run [case]` runs them, `instructions names [case]` prints their names in the same order. `case` chooses those
//! whose name has it.

use std::hint::black_box;

use idempotency_benches::cases;

/// The function that callgrind counts. It must not be inlined: callgrind finds it by its name.
#[inline(never)]
fn counted_case(run: &mut dyn FnMut()) {
    run();
    // Without this the call above is a jump, and callgrind does not see where this function ends.
    black_box(());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names_only = arguments.first().is_some_and(|what| what == "names");
    let filter = arguments.get(1).map_or("", String::as_str);
    for case in cases::all(filter) {
        if names_only {
            println!("{}", case.name);
            continue;
        }
        // The first run fills what is initialised once.
        (case.prepare)()();
        counted_case(&mut *(case.prepare)());
    }
}
