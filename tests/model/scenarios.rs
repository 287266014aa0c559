//! The scenarios that every test run explores, each about one subject.

mod reading_first;
mod staging;
mod steps;
mod unprotected;

pub(crate) use crate::operator::{
    decided_beside_a_takeover, decided_in_one_process, decided_while_holding, quiet_decided,
};
pub(crate) use reading_first::*;
pub(crate) use staging::*;
pub(crate) use steps::*;
pub(crate) use unprotected::*;

use super::bounds::{Bounds, Delivery, Ending, Python};

/// All endings of a handler.
pub(crate) const ALL_ENDINGS: &[Ending] = &[
    Ending::Responds,
    Ending::RespondsTooLarge,
    Ending::RespondsWithoutJson,
    Ending::RespondsUnreadably,
    Ending::RespondsUnstored,
    Ending::Fails,
    Ending::FailsUnreported,
    Ending::Panics,
];
/// The endings that differ under `hold`.
pub(crate) const REPORTED_OR_NOT: &[Ending] = &[
    Ending::Responds,
    Ending::Fails,
    Ending::FailsUnreported,
    Ending::Panics,
];
/// The endings that differ in the mark that a release leaves.
const FAILS_REPORTED_OR_NOT: &[Ending] =
    &[Ending::Responds, Ending::Fails, Ending::FailsUnreported];
pub(crate) const RESPONDS_OR_FAILS: &[Ending] = &[Ending::Responds, Ending::Fails];
pub(crate) const STORED_OR_NOT: &[Ending] = &[Ending::Responds, Ending::RespondsUnstored];

/// Returns a delivery with the default settings.
pub(crate) fn plain() -> Delivery {
    Delivery::plain()
}

/// Returns a scenario of two calls, with lost replies and a failure of the store.
pub(crate) fn two_calls() -> Bounds {
    Bounds::new("two calls", vec![plain(), plain()]).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 2;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls whose clocks are off by up to a tick.
pub(crate) fn clocks_off() -> Bounds {
    Bounds::new("clocks off by a tick", vec![plain(), plain()]).with(|it| {
        it.ticks = 3;
        it.skews = &[-1, 0, 1];
        it.faults.lost_replies = 1;
        it.faults.delays = 1;
    })
}

/// Returns a scenario of two calls whose handlers end in every way; one call records failures.
pub(crate) fn every_ending() -> Bounds {
    let any = || plain().ending(ALL_ENDINGS);
    Bounds::new("every ending", vec![any(), any().recording()])
        .with(|it| it.faults.lost_replies = 1)
}

/// Returns a scenario of three calls, one of them with another payload.
pub(crate) fn two_payloads() -> Bounds {
    let calls = vec![
        plain().of_payload("p"),
        plain().of_payload("p"),
        plain().of_payload("q").ending(STORED_OR_NOT),
    ];
    Bounds::new("two payloads", calls).with(|it| {
        it.ticks = 3;
        it.faults.delays = 1;
    })
}

/// Returns a scenario of two calls, and an eviction by an operator.
pub(crate) fn evicted() -> Bounds {
    Bounds::new("evicted by an operator", vec![plain(), plain()]).with(|it| {
        it.faults.lost_replies = 1;
        it.faults.evictions = 1;
    })
}

/// Returns a scenario of two calls whose window ends, and a TTL that deletes.
pub(crate) fn windows_end() -> Bounds {
    Bounds::new("windows end, TTL deletes", vec![plain(), plain()]).with(|it| {
        it.window_s = 1;
        it.ttl = true;
        it.skews = &[0, 1];
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls with ticks of half a second: a window ends at a whole second.
pub(crate) fn half_seconds() -> Bounds {
    Bounds::new("ticks of half a second", vec![plain(), plain()]).with(|it| {
        it.tick_ms = 500;
        it.window_s = 1;
        it.ticks = 6;
        it.ttl = true;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls that know no deadline.
pub(crate) fn without_deadline() -> Bounds {
    let call = || plain().without_deadline();
    Bounds::new("no deadline known", vec![call(), call()]).with(|it| it.faults.lost_replies = 2)
}

/// Returns a scenario of two calls that hold; one of them records failures.
pub(crate) fn every_call_holds() -> Bounds {
    let call = || plain().holding().ending(REPORTED_OR_NOT);
    Bounds::new("all calls hold", vec![call(), call().recording()]).with(|it| {
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
        it.faults.delays = 1;
    })
}

/// Returns a scenario of two calls that record failures; one of them holds.
pub(crate) fn some_hold() -> Bounds {
    let call = || plain().ending(REPORTED_OR_NOT).recording();
    Bounds::new("some hold", vec![call(), call().holding()]).with(|it| {
        it.ticks = 3;
        it.window_s = 1;
        it.ttl = true;
        it.faults.lost_replies = 1;
        it.faults.evictions = 1;
    })
}

/// Returns a scenario of two calls; one of them waits.
pub(crate) fn some_wait() -> Bounds {
    Bounds::new(
        "some wait",
        vec![
            plain().ending(RESPONDS_OR_FAILS),
            plain().waiting().leased(3),
        ],
    )
    .with(|it| {
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of three calls with a local cache, one of them with another payload.
pub(crate) fn cached() -> Bounds {
    let calls = vec![
        plain().of_payload("p").cached(),
        plain().of_payload("p").cached(),
        plain().of_payload("q").cached(),
    ];
    Bounds::new("a local cache", calls).with(|it| {
        it.ticks = 3;
        it.window_s = 1;
        it.ttl = true;
        it.faults.evictions = 1;
    })
}

/// Returns a scenario of two calls of one process; one of them waits.
pub(crate) fn in_one_process() -> Bounds {
    let calls = vec![
        plain().in_one_process().ending(RESPONDS_OR_FAILS),
        plain().in_one_process().waiting().leased(3),
    ];
    Bounds::new("in one process", calls).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls of one process that wait, beside a call of another process.
pub(crate) fn waiting_in_one_process() -> Bounds {
    Bounds::new(
        "beside a call that waits",
        vec![
            plain().ending(RESPONDS_OR_FAILS),
            plain().in_one_process().waiting().leased(3),
            plain().in_one_process().waiting().leased(2),
        ],
    )
    .with(|it| it.ticks = 3)
}

/// Returns a scenario of two calls of one process with a local cache, whose window ends.
pub(crate) fn windows_end_in_one_process() -> Bounds {
    Bounds::new(
        "windows end in one process",
        vec![
            plain().in_one_process().cached(),
            plain().in_one_process().cached().waiting().leased(3),
        ],
    )
    .with(|it| {
        it.window_s = 1;
        it.ttl = true;
        it.skews = &[0, 1];
        it.faults.delays = 1;
    })
}

/// Returns a scenario of two calls of one process that hold.
pub(crate) fn holding_in_one_process() -> Bounds {
    let holding = || plain().in_one_process().holding().ending(REPORTED_OR_NOT);
    Bounds::new(
        "all calls hold in one process",
        vec![holding().recording(), holding().waiting().leased(3)],
    )
    .with(|it| it.faults.lost_replies = 1)
}

/// Returns a scenario of two calls of one process that know no deadline.
pub(crate) fn one_process_without_deadline() -> Bounds {
    let call = || plain().in_one_process().without_deadline();
    Bounds::new(
        "no deadline known in one process",
        vec![call().ending(RESPONDS_OR_FAILS), call().waiting().leased(2)],
    )
    .with(|it| it.faults.lost_replies = 1)
}

/// Returns a scenario of three calls of one process, one of them with another payload.
pub(crate) fn two_payloads_in_one_process() -> Bounds {
    let calls = vec![
        plain()
            .in_one_process()
            .of_payload("p")
            .ending(STORED_OR_NOT),
        plain().in_one_process().of_payload("p").waiting().leased(2),
        plain().in_one_process().of_payload("q"),
    ];
    Bounds::new("two payloads in one process", calls).with(|it| {
        it.ticks = 3;
        it.faults.kills = 1;
    })
}

/// Returns a scenario of two calls beside a Python run that ends within its lease.
pub(crate) fn beside_python() -> Bounds {
    Bounds::new("beside Python", vec![plain().leased(2), plain().leased(2)]).with(|it| {
        it.python = Some(Python {
            lease: 1,
            outlives: false,
        });
        it.ticks = 3;
        it.window_s = 1;
        it.skews = &[0, 1];
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls beside a Python run that outlives its lease.
pub(crate) fn late_python() -> Bounds {
    Bounds::new(
        "beside a Python run that outlives its lease",
        vec![plain().of_payload("p"), plain().of_payload("q")],
    )
    .with(|it| {
        it.python = Some(Python {
            lease: 2,
            outlives: true,
        });
        it.ticks = 3;
        it.window_s = 1;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of one call of which many replies are lost.
pub(crate) fn many_losses() -> Bounds {
    Bounds::new("one call, many losses", vec![plain()]).with(|it| {
        it.ticks = 2;
        it.faults.lost_replies = 4;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls, with a kill as a step of its own.
pub(crate) fn kills() -> Bounds {
    Bounds::new("a kill as a step", vec![plain(), plain()]).with(|it| {
        it.faults.lost_replies = 1;
        it.faults.kills = 1;
    })
}

/// Returns a scenario of three calls and a lost reply.
pub(crate) fn three_calls() -> Bounds {
    Bounds::new("three calls", vec![plain(), plain(), plain()]).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of three calls without faults that may fail.
pub(crate) fn three_runs() -> Bounds {
    let call = || plain().ending(FAILS_REPORTED_OR_NOT);
    Bounds::new("three runs of one key", vec![call(), call(), call()]).with(|it| it.ticks = 3)
}

/// Returns a scenario of two calls without faults.
pub(crate) fn quiet() -> Bounds {
    Bounds::new("two calls, no faults", vec![plain(), plain()])
}

/// Returns a scenario of two calls without faults whose handlers may fail.
pub(crate) fn quiet_failing() -> Bounds {
    let call = || plain().ending(RESPONDS_OR_FAILS);
    Bounds::new("two calls that may fail", vec![call(), call()])
}

/// Returns a scenario of two calls without faults that hold.
pub(crate) fn quiet_holding() -> Bounds {
    let calls = vec![plain().holding(), plain().holding()];
    Bounds::new("two calls that hold", calls)
}

/// Returns a scenario of two calls without faults that hold, and whose handlers may panic.
pub(crate) fn quiet_holding_panics() -> Bounds {
    let call = || plain().holding().ending(REPORTED_OR_NOT);
    Bounds::new("two calls that hold and may panic", vec![call(), call()])
}

/// Returns a scenario of two calls without faults with different payloads.
pub(crate) fn quiet_payloads() -> Bounds {
    let calls = vec![plain().of_payload("p"), plain().of_payload("q")];
    Bounds::new("two calls of two payloads", calls)
}

/// Returns a scenario of two calls without faults with different payloads in one process.
pub(crate) fn quiet_payloads_in_one_process() -> Bounds {
    let calls = vec![
        plain().in_one_process().of_payload("p"),
        plain().in_one_process().of_payload("q").waiting().leased(3),
    ];
    Bounds::new("two calls of two payloads in one process", calls)
}

/// Returns a scenario of two calls without faults in one process.
pub(crate) fn quiet_in_one_process() -> Bounds {
    let calls = vec![
        plain().in_one_process(),
        plain().in_one_process().waiting().leased(3),
    ];
    Bounds::new("two calls in one process", calls)
}

/// Returns a scenario of two calls in one process, one of which waits for a call of another process.
pub(crate) fn quiet_waiting_in_one_process() -> Bounds {
    let waits = plain().in_one_process().waiting().leased(3);
    Bounds::new(
        "beside a call that waits, no faults",
        vec![plain(), waits, plain().in_one_process()],
    )
}

/// Returns a scenario of two calls in one process whose window ends soon.
pub(crate) fn quiet_in_one_process_short_window() -> Bounds {
    Bounds::new(
        "two calls in one process, a short window",
        vec![
            plain().in_one_process(),
            plain().in_one_process().waiting().leased(3),
        ],
    )
    .with(|it| it.window_s = 1)
}

/// Returns a scenario of three calls, two of them in one process, and a store that fails once.
pub(crate) fn failing_in_one_process() -> Bounds {
    let waits = || plain().in_one_process().waiting().leased(3);
    Bounds::new(
        "a store that fails once",
        vec![plain().in_one_process(), waits(), plain()],
    )
    .with(|it| {
        it.ticks = 2;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls without faults whose window is shorter than the lease.
pub(crate) fn quiet_short_window() -> Bounds {
    Bounds::new(
        "a window shorter than the lease",
        vec![plain().leased(3), plain()],
    )
    .with(|it| it.window_s = 1)
}
