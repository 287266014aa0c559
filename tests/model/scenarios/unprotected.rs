//! The scenarios of a store that fails before the handler: calls that run all the same, and the circuit breaker.

use super::super::bounds::Bounds;
use super::{RESPONDS_OR_FAILS, plain};

/// Returns a scenario of two calls that run unprotected if the store fails.
pub(crate) fn unprotected() -> Bounds {
    let call = || plain().unprotected();
    Bounds::new(
        "all run unprotected",
        vec![call().ending(RESPONDS_OR_FAILS), call()],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of a call that runs unprotected beside one that does not.
pub(crate) fn some_unprotected() -> Bounds {
    Bounds::new(
        "one runs unprotected",
        vec![plain().unprotected(), plain().recording()],
    )
    .with(|it| {
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
        it.faults.delays = 1;
    })
}

/// Returns a scenario of two calls of one process that run unprotected if the store fails.
pub(crate) fn unprotected_in_one_process() -> Bounds {
    let call = || plain().unprotected().in_one_process();
    Bounds::new(
        "all run unprotected in one process",
        vec![call(), call().waiting().leased(3)],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.failures = 2;
    })
}

/// Returns a scenario of two calls that hold, whose policy to run unprotected has no effect.
pub(crate) fn unprotected_under_hold() -> Bounds {
    let call = || plain().unprotected().holding().with_breaker();
    Bounds::new("all hold, and would run unprotected", vec![call(), call()]).with(|it| {
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls that ask the circuit breaker.
pub(crate) fn breaker() -> Bounds {
    let call = || plain().with_breaker();
    Bounds::new(
        "a circuit breaker",
        vec![call().ending(RESPONDS_OR_FAILS), call().reading_first()],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
    })
}

/// Returns a scenario of two calls that ask the circuit breaker, one of which then runs unprotected.
pub(crate) fn breaker_and_unprotected() -> Bounds {
    Bounds::new(
        "a circuit breaker, one runs unprotected",
        vec![plain().with_breaker().unprotected(), plain().with_breaker()],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
    })
}

/// Returns a scenario of two calls without faults that ask the circuit breaker.
pub(crate) fn quiet_breaker() -> Bounds {
    let call = || plain().with_breaker();
    Bounds::new("two calls that ask the breaker", vec![call(), call()])
}

/// Returns a scenario of two calls that may run unprotected, and one failure of the store.
pub(crate) fn failing_unprotected() -> Bounds {
    let call = || plain().unprotected();
    Bounds::new("two calls that may run unprotected", vec![call(), call()])
        .with(|it| it.faults.failures = 1)
}

/// Returns a scenario of two calls and one failure of the store.
pub(crate) fn failing() -> Bounds {
    Bounds::new("two calls, one failure", vec![plain(), plain()]).with(|it| it.faults.failures = 1)
}
