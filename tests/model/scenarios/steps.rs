//! The scenarios of calls with steps.

use super::{REPORTED_OR_NOT, RESPONDS_OR_FAILS, STORED_OR_NOT, plain};
use crate::bounds::{Bounds, Delivery, Python};

fn keeping() -> Delivery {
    plain().keeping_steps()
}

/// Returns a scenario of two calls with a step, a lost reply and a failure of the store.
pub(crate) fn with_a_step() -> Bounds {
    let call = || keeping().ending(RESPONDS_OR_FAILS);
    Bounds::new("with a step", vec![call(), call()]).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls with two steps.
pub(crate) fn with_two_steps() -> Bounds {
    let call = || keeping().ending(RESPONDS_OR_FAILS);
    Bounds::new("with two steps", vec![call(), call()]).with(|it| {
        it.ticks = 3;
        it.steps = 2;
    })
}

/// Returns a scenario of two calls with a step whose clocks are off by up to a tick.
pub(crate) fn a_step_and_clocks_off() -> Bounds {
    Bounds::new("a step, clocks off by a tick", vec![keeping(), keeping()]).with(|it| {
        it.ticks = 3;
        it.skews = &[-1, 0, 1];
        it.faults.delays = 1;
    })
}

/// Returns a scenario of two calls with a step that know no deadline.
pub(crate) fn a_step_without_deadline() -> Bounds {
    let call = || keeping().without_deadline();
    Bounds::new("a step, no deadline known", vec![call(), call()]).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls with a step that hold.
pub(crate) fn a_step_under_hold() -> Bounds {
    let call = || keeping().holding().ending(REPORTED_OR_NOT);
    Bounds::new("a step, all calls hold", vec![call(), call().recording()]).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls with a step; a failed run of one of them forgets it.
pub(crate) fn a_forgotten_step() -> Bounds {
    let call = || plain().ending(RESPONDS_OR_FAILS);
    Bounds::new(
        "a step that a failure forgets",
        vec![
            call().forgetting_steps().recording(),
            call().keeping_steps().ending(STORED_OR_NOT),
        ],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of three calls with a step, one of them with another payload.
pub(crate) fn a_step_of_two_payloads() -> Bounds {
    let call = |payload| keeping().of_payload(payload).ending(RESPONDS_OR_FAILS);
    Bounds::new(
        "a step, two payloads",
        vec![call("p"), call("p"), call("q")],
    )
    .with(|it| it.ticks = 2)
}

/// Returns a scenario of two calls with a step whose window ends, and a TTL that deletes.
pub(crate) fn a_step_and_windows_end() -> Bounds {
    let call = || keeping().ending(RESPONDS_OR_FAILS);
    Bounds::new("a step, windows end", vec![call(), call()]).with(|it| {
        it.window_s = 1;
        it.ttl = true;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls, and an eviction by an operator. Only one of the calls has a step.
pub(crate) fn a_step_beside_none() -> Bounds {
    Bounds::new("a step beside a call without", vec![keeping(), plain()]).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.evictions = 1;
    })
}

/// Returns a scenario of two calls with a step beside a Python run that ends within its lease; one of them waits.
pub(crate) fn a_step_beside_python() -> Bounds {
    Bounds::new(
        "a step beside Python",
        vec![keeping().leased(1), keeping().waiting().leased(3)],
    )
    .with(|it| {
        it.python = Some(Python {
            lease: 1,
            outlives: false,
        });
        it.ticks = 3;
        it.window_s = 1;
    })
}

/// Returns a scenario of two calls with a step, of which one runs unprotected if the store fails.
pub(crate) fn a_step_and_unprotected() -> Bounds {
    let call = || keeping().ending(RESPONDS_OR_FAILS);
    Bounds::new(
        "a step, one runs unprotected",
        vec![call().unprotected(), call()],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls with a step, without faults.
pub(crate) fn quiet_step() -> Bounds {
    Bounds::new("two calls with a step", vec![keeping(), keeping()])
}

/// Returns a scenario of two calls with a step, without faults, whose handlers may fail.
pub(crate) fn quiet_failing_step() -> Bounds {
    let call = || keeping().ending(RESPONDS_OR_FAILS);
    Bounds::new("two calls with a step that may fail", vec![call(), call()])
}

/// Returns a scenario of two calls with a step, without faults, with different payloads.
pub(crate) fn quiet_step_of_two_payloads() -> Bounds {
    let calls = vec![keeping().of_payload("p"), keeping().of_payload("q")];
    Bounds::new("two calls of two payloads with a step", calls)
}
