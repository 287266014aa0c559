//! After the handler: a completion that is one transaction with the writes that the handler staged.
//!
//! A transaction that is rejected, or given up before a send of it can have been applied, ends with a release under the fence. Only this release shows that no send of the transaction was
//! applied, and that none will be: a send that arrives later finds another record, or none. There is one exception: if a send of the
//! claim is on its way too, it can make the claim again, and the fence with it.

use super::super::classify::is_claim_of;
use super::super::effect::{Effect, WriteResult};
use super::super::limits::backoff;
use super::super::policy::OnTimeout;
use super::super::resolution::{Refusal, RefusalDetail};
use super::super::run::UNREPORTED;
use super::super::terms::CallTerms;
use super::completion::{free_key, has_time_for, not_stored, stored};
use super::state::{Completing, Next, State, refuse};
use crate::error::ErrorKind;
use crate::time::EpochMillis;

/// Handles a completion that met the transaction of another call, or was throttled. It was not applied, so it is sent again for as long as the lease runs.
pub(super) fn conflict(call: &CallTerms, now: EpochMillis, completing: Completing) -> Next {
    let conflicts = completing.conflicts.saturating_add(1);
    let pause = backoff(conflicts);
    if !has_time_for(pause, now, &completing) {
        return give_up(call, now, completing);
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
    free(call, now, completing, ErrorKind::TransactionRejected)
}

/// Ends a completion that was sent often enough. If no send of a transaction can have been applied, the key is freed: a retry then runs
/// at once, and not after the lease.
pub(super) fn give_up(call: &CallTerms, now: EpochMillis, completing: Completing) -> Next {
    // Without staged writes the effects of the run stay, so no other run may follow it at once.
    if completing.maybe_applied || !completing.staged {
        return not_stored(&completing, ErrorKind::CompletionUnknown);
    }
    free(call, now, completing, ErrorKind::CompletionUnknown)
}

fn free(call: &CallTerms, now: EpochMillis, completing: Completing, kind: ErrorKind) -> Next {
    let lost_step = completing.held.has_lost_step;
    if lost_step && call.policy.on_timeout == OnTimeout::Hold {
        // An operator must decide, so the claim stays.
        return refuse(if completing.maybe_applied {
            ErrorKind::CompletionUnknown.into()
        } else {
            ended(kind, None)
        });
    }
    // The mark alone: the record may have no room for more.
    let failure = if completing.held.has_unreported {
        UNREPORTED
    } else {
        kind.name()
    };
    let effect = free_key(call, now, failure, completing.held, false);
    (State::Freeing { completing, kind }, effect)
}

/// Handles the result of the release after a transaction that was rejected or given up. `kind` is the error of this end.
pub(super) fn released(
    call: &CallTerms,
    now: EpochMillis,
    completing: Completing,
    kind: ErrorKind,
    result: WriteResult,
) -> Next {
    let detail = match result {
        // The fence held until now, so no send was applied. A send of the claim that comes now makes the claim again, and a send of
        // the transaction after it finds the fence.
        WriteResult::Applied { .. }
            if completing.maybe_applied && completing.held.may_come_again =>
        {
            return refuse(ErrorKind::CompletionUnknown);
        }
        // No send can be applied any more.
        WriteResult::Applied { .. } => {
            return refuse(ended(kind, Some(RefusalDetail::Released)));
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
    refuse(ended(kind, detail))
}

fn ended(kind: ErrorKind, detail: Option<RefusalDetail>) -> Refusal {
    Refusal { kind, detail }
}
