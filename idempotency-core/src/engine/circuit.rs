//! The circuit breaker of a backend: asked before the first request of a call, and told how its requests end.

use std::time::Duration;

use super::Backend;
use crate::event::{CircuitChange, Report};
use crate::protocol::{Admission, Circuit, StoreReply};
use crate::time::EpochMillis;

/// Returns whether a call may ask the store now. Its requests may take `at_most`.
pub(super) fn ask(backend: &Backend, at_most: Duration, report: &mut Report<'_>) -> Admission {
    let now = backend.clock().now();
    let admission = backend.breaker().admit(now, at_most);
    if let Admission::Open { until } = admission {
        report.circuit_open(until);
    }
    admission
}

/// Takes what the result of a request says of the store.
pub(super) fn take(
    backend: &Backend,
    now: EpochMillis,
    reply: StoreReply,
    report: &mut Report<'_>,
) {
    let mut breaker = backend.breaker();
    if breaker.take(now, reply) {
        report.circuit(match breaker.circuit() {
            Circuit::Closed => CircuitChange::Closed,
            Circuit::Open | Circuit::HalfOpen => CircuitChange::Opened,
        });
    }
}
