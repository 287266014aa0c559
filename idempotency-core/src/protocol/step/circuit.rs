//! The circuit breaker, before the first request of a call.

use super::super::breaker::{Admission, StoreHealth};
use super::super::effect::{Effect, Input, WriteErrorKind, WriteResult};
use super::super::resolution::{Refusal, RefusalDetail};
use super::super::terms::CallTerms;
use super::claim::{first_request, is_too_late, requests_end};
use super::state::{Next, State, refuse};
use crate::error::ErrorKind;
use crate::time::EpochMillis;

/// Asks the breaker for admission. A call asks once at most.
pub(super) fn ask(call: &CallTerms, now: EpochMillis, wait_until: EpochMillis) -> Next {
    if is_too_late(call, now) {
        return refuse(ErrorKind::NoTimeLeft);
    }
    let at_most = now.until(requests_end(call, now, wait_until));
    (
        State::AskingCircuit(wait_until),
        Effect::CheckCircuit(at_most),
    )
}

/// Handles the breaker's reply. An open circuit is a failure of the store, found without a request.
pub(super) fn replied(
    call: &CallTerms,
    now: EpochMillis,
    wait_until: EpochMillis,
    admission: Admission,
) -> Next {
    match admission {
        Admission::Admitted => first_request(call, now, wait_until),
        Admission::Open { until } => refuse(Refusal {
            kind: ErrorKind::StoreFailed,
            detail: Some(RefusalDetail::CircuitOpen(until)),
        }),
    }
}

/// Returns what a result of a request before the handler says of the store; `None` if it says nothing.
///
/// A refusal that an operator must correct does not pass, so it neither opens nor closes a circuit.
pub(super) fn store_reply(state: &State, input: &Input) -> Option<StoreHealth> {
    let asks = matches!(
        state,
        State::LookingUp(_) | State::Claiming(_) | State::Reading(_)
    );
    match input {
        _ if !asks => None,
        Input::Written(WriteResult::Applied { .. } | WriteResult::ConditionFailed { .. })
        | Input::Read(_) => Some(StoreHealth::Replied),
        Input::Written(WriteResult::Failed { kind, .. }) => match kind {
            WriteErrorKind::Transient => Some(StoreHealth::Failed),
            WriteErrorKind::Refused | WriteErrorKind::Conflict => Some(StoreHealth::Replied),
            WriteErrorKind::TooLarge | WriteErrorKind::Permanent => None,
        },
        Input::ReadFailed => Some(StoreHealth::Failed),
        _ => None,
    }
}
