//! After the handler: a completion that is one transaction with the writes that the handler staged.
//!
//! A transaction that is rejected ends with a release under the fence. Only this release shows that no send of the transaction was
//! applied, and that none will be: a send that arrives later finds another record, or none. There is one exception: if a send of the
//! claim is on its way too, it can make the claim again, and the fence with it.

use super::super::classify::is_claim_of;
use super::super::effect::{Effect, WriteResult};
use super::super::policy::OnTimeout;
use super::super::resolution::{Refusal, RefusalDetail};
use super::super::run::STEP_NOT_RECORDED;
use super::super::terms::CallTerms;
use super::completion::{free_key, has_time_for, stored};
use super::state::{Completing, Next, State, backoff, refuse};
use crate::error::ErrorKind;
use crate::time::EpochMillis;

/// Handles a transaction that met another one. It was not applied, so it is sent again for as long as the lease runs.
pub(super) fn conflict(now: EpochMillis, completing: Completing) -> Next {
    let conflicts = completing.conflicts.saturating_add(1);
    let pause = backoff(conflicts);
    if !has_time_for(pause, now, &completing) {
        return refuse(ErrorKind::CompletionUnknown);
    }
    let completing = Completing {
        conflicts,
        tries: completing.tries.saturating_sub(1),
        ..completing
    };
    (State::RetryingCompletion(completing), Effect::Pause(pause))
}

/// Frees the key after a transaction that was rejected, or that the store does not accept.
pub(super) fn reject(call: &CallTerms, now: EpochMillis, completing: Completing) -> Next {
    let lost_step = completing.held.has_lost_step;
    if lost_step && call.policy.on_timeout == OnTimeout::Hold {
        // An operator must decide, so the claim stays.
        return refuse(if completing.maybe_applied {
            ErrorKind::CompletionUnknown.into()
        } else {
            rejected(None)
        });
    }
    let failure = if lost_step {
        // The next run must not believe that it is the first.
        STEP_NOT_RECORDED
    } else {
        ErrorKind::TransactionRejected.name()
    };
    let effect = free_key(call, now, failure, completing.held, false);
    (State::Rejecting(completing), effect)
}

/// Handles the result of the release after a rejected transaction.
pub(super) fn released(
    call: &CallTerms,
    now: EpochMillis,
    completing: Completing,
    result: WriteResult,
) -> Next {
    let detail = match result {
        // The fence held until now, so no send was applied. A send of the claim that comes now makes the claim again, and a send of
        // the transaction after it finds the fence.
        WriteResult::Applied | WriteResult::AppliedMaybeAgain
            if completing.maybe_applied && completing.held.may_come_again =>
        {
            return refuse(ErrorKind::CompletionUnknown);
        }
        // No send can be applied any more.
        WriteResult::Applied | WriteResult::AppliedMaybeAgain => {
            return refuse(rejected(Some(RefusalDetail::Released)));
        }
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } => {
            if is_claim_of(&existing, call) {
                // The condition holds for this record, and yet it failed: what is stored is unknown.
                return refuse(ErrorKind::CompletionUnknown);
            }
            // Another call has the key, and can apply its own writes. Or an operator has freed it.
            return stored(call, now, &completing, existing)
                .unwrap_or_else(|| refuse(ErrorKind::LostOwnership));
        }
        WriteResult::ConditionFailed { existing: None, .. } => None,
        WriteResult::Rejected { .. } | WriteResult::Failed { .. } => {
            if completing.maybe_applied {
                return refuse(ErrorKind::CompletionUnknown);
            }
            Some(RefusalDetail::NotReleased)
        }
    };
    if completing.maybe_applied {
        // An earlier send can have been applied in a window that has ended since, or before an eviction.
        return refuse(ErrorKind::LostOwnership);
    }
    refuse(rejected(detail))
}

fn rejected(detail: Option<RefusalDetail>) -> Refusal {
    Refusal {
        kind: ErrorKind::TransactionRejected,
        detail,
    }
}
