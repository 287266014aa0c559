//! Runs each case, for callgrind: `benches/instructions.sh` counts the instructions of each.
//!
//! | arguments | what it does |
//! |---|---|
//! | `run [case]` | runs each case, as often as `names` says |
//! | `names [case]` | prints the name of each case in the same order, how often it is run, and the bytes of its event |
//! | `time [case]` | prints the median time of each case in nanoseconds, and its ratio to `serde_json` skipping the 4 KB event |
//!
//! `case` chooses the cases whose name has it; `up-to-256KB` before it leaves out the events of 6 MB.

use std::hint::black_box;
use std::time::Instant;

use idempotency_benches::cases::{self, Case};

/// How many bytes an event may have that is counted several times. Hash maps and the allocator's lists differ from run to run, and
/// the lowest count is compared.
const SMALL: usize = 80 * 1024;
const RUNS: usize = 5;
/// How often a case is timed.
const TIMES: usize = 301;
/// What times are compared with.
const REFERENCE: &str = "reference/ignored_any/4KB";

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
    match what.as_str() {
        "names" => {
            for case in cases::all(&filter).iter().filter(|case| chosen(&case.name)) {
                println!("{} {} {}", case.name, runs(case), case.bytes);
            }
        }
        "time" => time(cases::all(&filter).iter().filter(|case| chosen(&case.name))),
        _ => {
            for case in cases::all(&filter).iter().filter(|case| chosen(&case.name)) {
                // The first run fills what is initialised once.
                (case.prepare)()();
                for _ in 0..runs(case) {
                    counted_case(&mut *(case.prepare)());
                }
            }
        }
    }
}

fn runs(case: &Case) -> usize {
    if case.bytes <= SMALL { RUNS } else { 1 }
}

/// Prints the median times. The reference is timed in turn with each case, so that both see the same load of the machine.
fn time<'c>(cases: impl Iterator<Item = &'c Case>) {
    let references = cases::all(REFERENCE);
    let reference = &references[0];
    for case in cases {
        let mut times = (Vec::with_capacity(TIMES), Vec::with_capacity(TIMES));
        for _ in 0..TIMES {
            times.0.push(timed(case));
            times.1.push(timed(reference));
        }
        let (own, other) = (median(times.0), median(times.1));
        #[allow(clippy::cast_precision_loss)]
        let ratio = own as f64 / other as f64;
        println!("{:<32} {own:>12} ns {ratio:>8.2}", case.name);
    }
}

fn timed(case: &Case) -> u128 {
    let mut run = (case.prepare)();
    let began = Instant::now();
    run();
    began.elapsed().as_nanos()
}

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times[times.len() / 2]
}
