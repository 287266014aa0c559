//! The scenarios of calls that read the record before they claim it.

use super::super::bounds::{Bounds, Python};
use super::{REPORTED_OR_NOT, RESPONDS_OR_FAILS, STORED_OR_NOT, plain};

/// Returns a scenario of three calls that read first, with a lost reply and a failure of the store.
pub(crate) fn reading_first() -> Bounds {
    let reads = || plain().reading_first();
    Bounds::new(
        "some read first",
        vec![plain().ending(RESPONDS_OR_FAILS), reads()],
    )
    .with(|it| {
        it.ticks = 3;
        it.stale = 2;
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls that read first, whose window ends and whose record is evicted.
pub(crate) fn stale_reads() -> Bounds {
    let reads = || plain().reading_first();
    Bounds::new("stale reads, windows end", vec![reads(), reads()]).with(|it| {
        it.ticks = 3;
        it.window_s = 1;
        it.ttl = true;
        it.stale = 2;
        it.skews = &[0, 1];
        it.faults.evictions = 1;
    })
}

/// Returns a scenario of three calls that read first, one of them with another payload.
pub(crate) fn two_payloads_reading_first() -> Bounds {
    let reads = || plain().reading_first();
    Bounds::new(
        "two payloads, all read first",
        vec![
            reads().of_payload("p"),
            reads().of_payload("p"),
            reads().of_payload("q").ending(STORED_OR_NOT),
        ],
    )
    .with(|it| {
        it.ticks = 3;
        it.stale = 2;
    })
}

/// Returns a scenario of two calls that read first and hold.
pub(crate) fn holding_and_reading_first() -> Bounds {
    let call = || plain().reading_first().holding().ending(REPORTED_OR_NOT);
    Bounds::new(
        "all calls hold and read first",
        vec![call(), call().recording()],
    )
    .with(|it| {
        it.stale = 2;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls that read first in one process, beside a call of another process.
pub(crate) fn reading_first_in_one_process() -> Bounds {
    let reads = || plain().reading_first().in_one_process();
    Bounds::new(
        "in one process, some read first",
        vec![plain(), reads(), reads().waiting().leased(2)],
    )
    .with(|it| {
        it.ticks = 2;
        it.stale = 1;
    })
}

/// Returns a scenario of a call that waits and one that reads first beside a Python run that ends within its lease.
pub(crate) fn reading_first_beside_python() -> Bounds {
    Bounds::new(
        "beside Python, both read first",
        vec![
            plain().reading_first().leased(2),
            plain().reading_first().waiting().leased(2),
        ],
    )
    .with(|it| {
        it.python = Some(Python {
            lease: 1,
            outlives: false,
        });
        it.ticks = 3;
        it.window_s = 1;
        it.stale = 2;
        it.skews = &[0, 1];
    })
}

/// Returns a scenario of two calls without faults that read first, whose window ends.
pub(crate) fn quiet_reading_first() -> Bounds {
    let reads = || plain().reading_first();
    Bounds::new("two calls that read first", vec![reads(), reads()]).with(|it| {
        it.window_s = 1;
        it.stale = 1;
    })
}

/// Returns a scenario of two calls without faults that read first, of different payloads.
pub(crate) fn quiet_payloads_reading_first() -> Bounds {
    let reads = || plain().reading_first();
    Bounds::new(
        "two calls of two payloads that read first",
        vec![reads().of_payload("p"), reads().of_payload("q")],
    )
    .with(|it| it.stale = 1)
}

/// Returns a scenario of two calls that may fail, with a lost reply and stale states.
pub(crate) fn stale_after_a_loss() -> Bounds {
    let call = || plain().ending(RESPONDS_OR_FAILS).leased(2);
    Bounds::new("a lost reply and stale states", vec![call(), call()]).with(|it| {
        it.stale = 2;
        it.faults.lost_replies = 1;
    })
}
