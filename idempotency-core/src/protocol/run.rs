//! Which run of its key a handler's run is, and what a failure in the record says of the runs before it.

use super::CallTerms;
use super::classify::is_claim_of;
use super::decision::FREED;
use crate::record::{Field, Record};
use crate::time::EpochMillis;

/// The recorded failure, or its beginning, if an effect of a run may have happened that no run has reported. The next run must not
/// believe that it is the first.
pub(super) const UNREPORTED: &str = "unreported";

/// Which run of its key a handler's run is, as far as its claim shows.
///
/// It is for the handler and decides nothing. A run that is not the first must expect that the effects of an earlier one have
/// happened.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::Run;
/// # use idempotency_core::{record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let end = EpochMillis::new(30_000);
/// # let killed = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(end),
/// #     ..Record::default() };
/// assert_eq!(Run::replacing(None, &call), Run::First);
/// // The claim of a process that was killed.
/// assert!(matches!(Run::replacing(Some(&killed), &call), Run::Rerun { lease_ended: Some(at), .. } if at == end));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Run {
    /// Each earlier run of the key in this window has reported its end: it returned an error. The claim replaced nothing, a completed
    /// record whose window had ended, or the failure of such a run.
    ///
    /// An effect that such a run had before it returned its error has happened all the same. This does not count runs without a confirmed
    /// claim, runs of a function in another language that shares the key, and runs whose record an operator evicted.
    First,
    /// The claim replaced one whose lease had expired: the run of that claim ended without a result, or still runs.
    #[non_exhaustive]
    Rerun {
        /// When that lease ended. `None` if the claim had no lease, which is possible for a claim of another language.
        lease_ended: Option<EpochMillis>,
    },
    /// It is not known whether an effect of an earlier run has happened. The reply to the claim was lost, or the store does not report
    /// what the claim replaced, or an operator has freed the key. Or the last run left a mark:
    ///
    /// - It was not certainly the first, or it panicked.
    /// - Its response was not stored, or its staged writes were not applied.
    /// - A step of it has no record.
    Unknown,
    /// The run has no confirmed claim: the call is not protected, or the store failed and the operation has
    /// `on_store_error = "run-unprotected"`. An earlier run of the key may have happened.
    Unprotected,
}

impl Run {
    /// Returns which run follows the claim of `call`, which replaced this record. `None` is a claim that replaced nothing.
    pub fn replacing(replaced: Option<&Record>, call: &CallTerms) -> Self {
        let Some(record) = replaced else {
            return Self::First;
        };
        if !record.is_claim() {
            return Self::First;
        }
        // An earlier send of the same claim, whose reply was lost. What that one replaced is not known.
        if is_claim_of(record, call) {
            return Self::Unknown;
        }
        match &record.failure {
            Field::Absent => Self::Rerun {
                lease_ended: record.in_progress_expiration.value().copied(),
            },
            Field::Value(failure) if is_reported(failure) && !record.is_undoing() => Self::First,
            // An operator can be wrong, and a run that was freed while its lease ran may still have its effect.
            Field::Value(_) | Field::Unreadable => Self::Unknown,
        }
    }
}

/// Returns true if a recorded failure is that of a first run, which has reported it.
fn is_reported(failure: &str) -> bool {
    failure != FREED && !failure.starts_with(UNREPORTED)
}

#[cfg(test)]
mod tests {
    use super::super::tests::script::{check_records, show_run};
    use super::*;

    #[test]
    fn a_run_is_the_first_only_if_no_earlier_effect_is_unreported() {
        check_records(include_str!("tests/run.txt"), |replaced, call| {
            show_run(Run::replacing(replaced, call))
        });
    }
}
