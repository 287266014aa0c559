//! Which run of its key a handler's run is.

use super::classify::{is_claim_of, is_takeover};
use super::terms::CallTerms;
use crate::record::{Record, Status};
use crate::time::EpochMillis;

/// The recorded failure of a call that took over a claim with steps, and did not run. How the run before it ended is not known.
pub(super) const NOT_RUN: &str = "not run";

/// The beginning of the recorded failure of a run in which the effect of a step happened, perhaps, and was not recorded.
pub(super) const STEP_NOT_RECORDED: &str = "step not recorded";

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
    /// The claim replaced no claim of another run.
    ///
    /// An earlier run that reported its failure leaves the key free, so the run after it is a first one too. So is the run
    /// after the end of the window. After a failure that left a step without its record it is [`Unknown`](Self::Unknown).
    First,
    /// The claim replaced one whose lease had expired: the run of that claim ended without a result, or still runs.
    #[non_exhaustive]
    Rerun {
        /// When that lease ended. `None` if the claim had no lease, as that of another language can.
        lease_ended: Option<EpochMillis>,
    },
    /// It is not known whether an effect of an earlier run has happened: the reply to the claim was lost, the store does not report what
    /// the claim replaced, a step of the earlier run was not recorded, or a call between the two took over and did not run.
    Unknown,
    /// The run has no confirmed claim: the call is not protected, or the store failed and the operation has
    /// `on_store_error = "run-unprotected"`. An earlier run of the key may have happened.
    Unprotected,
}

impl Run {
    /// Returns which run follows the claim of `call`, which replaced this record. `None` is a claim that replaced nothing.
    pub fn replacing(replaced: Option<&Record>, call: &CallTerms) -> Self {
        match replaced {
            // An earlier send of the same claim, whose reply was lost. What that one replaced is not known.
            Some(own) if is_claim_of(own, call) => Self::Unknown,
            Some(other) if is_unclear(other) => Self::Unknown,
            Some(other) if is_takeover(other, call) => Self::Rerun {
                lease_ended: other.in_progress_expiration.value().copied(),
            },
            _ => Self::First,
        }
    }
}

/// Returns true if the record has a failure that does not say whether the effects before it are recorded.
fn is_unclear(record: &Record) -> bool {
    record.status.value() == Some(&Status::InProgress)
        && record
            .failure
            .value()
            .is_some_and(|failure| failure == NOT_RUN || failure.starts_with(STEP_NOT_RECORDED))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::call;
    use super::*;
    use crate::record::Field;

    fn claim() -> Record {
        Record {
            status: Field::Value(Status::InProgress),
            in_progress_expiration: Field::Value(EpochMillis::new(7)),
            ..Record::default()
        }
    }

    #[test]
    fn a_run_on_no_record_or_on_a_result_is_the_first() {
        let completed = Record {
            status: Field::Value(Status::Completed),
            ..claim()
        };
        let failed = Record {
            failure: Field::Value("Timeout".to_owned()),
            ..claim()
        };
        for replaced in [None, Some(&completed), Some(&failed)] {
            assert_eq!(
                Run::replacing(replaced, &call()),
                Run::First,
                "{replaced:?}"
            );
        }
    }

    #[test]
    fn a_run_on_a_claim_without_a_result_is_a_rerun() {
        let rerun = |at| Run::Rerun { lease_ended: at };
        let run = Run::replacing(Some(&claim()), &call());
        assert_eq!(run, rerun(Some(EpochMillis::new(7))));
        for lease in [Field::Absent, Field::Unreadable] {
            let of_another_language = Record {
                in_progress_expiration: lease,
                ..claim()
            };
            let run = Run::replacing(Some(&of_another_language), &call());
            assert_eq!(run, rerun(None));
        }
    }

    #[test]
    fn a_run_after_a_failure_that_leaves_a_step_open_knows_nothing_of_it() {
        for (failure, run) in [
            ("not run", Run::Unknown),
            ("step not recorded: shop::Timeout", Run::Unknown),
            ("shop::NotRun", Run::First),
        ] {
            let failed = Record {
                failure: Field::Value(failure.to_owned()),
                ..claim()
            };
            assert_eq!(Run::replacing(Some(&failed), &call()), run, "{failure}");
        }
    }

    #[test]
    fn a_claim_that_replaced_its_own_earlier_send_does_not_know_what_that_one_replaced() {
        let own = Record {
            owner: Field::Value(call().owner),
            ..claim()
        };
        assert_eq!(Run::replacing(Some(&own), &call()), Run::Unknown);
    }
}
