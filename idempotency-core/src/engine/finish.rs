//! Turns the protocol's resolution into the result that the caller gets.

use super::driver::Driver;
use super::handler::Finished;
use super::request::Reasons;
use crate::error::{Error, ErrorKind};
use crate::event::{Report, StagedEnd};
use crate::outcome::{Ending, Outcome, Replay};
use crate::protocol::{
    Completion, Refusal, RefusalDetail, Resolution, Source, UNREADABLE_DATA, recorded_path,
};
use crate::record::Record;
use crate::store::StoreError;

impl<R> Driver<'_, R> {
    /// Returns the caller's result. `finished` is the handler's own result, if it ran.
    pub(super) fn finish<E>(
        &self,
        resolution: Resolution,
        finished: Option<Finished<R, E>>,
        reasons: Reasons,
        report: &mut Report<'_>,
    ) -> Result<Outcome<R>, Ending<E>> {
        let ran = finished.is_some();
        match (resolution, finished) {
            (Resolution::Own(completion), Some(finished)) => {
                if let (Completion::Unclaimed, Some(error)) = (&completion, reasons.error) {
                    report.note(format!("its response is not stored: {error}"));
                }
                self.own(&completion, finished, report)
            }
            (Resolution::Replay { record, source }, _) => self
                .replay(&record, source, ran, report)
                .map_err(Ending::Refused),
            (Resolution::Refuse(refusal), _) => {
                match refusal.detail {
                    Some(RefusalDetail::Released) => report.claim_ended(&Completion::Released),
                    Some(RefusalDetail::NotReleased) => {
                        report.claim_ended(&Completion::NotReleased);
                    }
                    _ => {}
                }
                let mut error = self.refusal(&refusal, ran, reasons.error);
                // The store knows more about this defect than the protocol.
                if refusal.detail == Some(RefusalDetail::Defect(UNREADABLE_DATA))
                    && let Some(reason) = reasons.unreadable
                {
                    error = error.with_detail(reason);
                }
                Err(Ending::Refused(error))
            }
            // Unreachable: the protocol resolves a call as `Own` only after a run.
            (Resolution::Own(_), None) => Err(Ending::Refused(self.contradiction(false))),
        }
    }

    /// Returns what became of the writes that the handler staged.
    pub(super) fn staged_end(&self, resolution: &Resolution) -> StagedEnd {
        match resolution {
            Resolution::Own(Completion::Stored(_) | Completion::WithoutResponse) => {
                StagedEnd::Applied
            }
            Resolution::Own(_) => StagedEnd::Dropped,
            Resolution::Replay { record, .. } => {
                if record.owner.value() == Some(&self.call.owner) {
                    StagedEnd::Applied
                } else {
                    StagedEnd::Dropped
                }
            }
            Resolution::Refuse(refusal) => match refusal.kind {
                ErrorKind::TransactionRejected => StagedEnd::Rejected,
                // The claim is released only if no send was applied.
                ErrorKind::CompletionUnknown if refusal.detail.is_some() => StagedEnd::Dropped,
                // The key is completed without the response.
                ErrorKind::ResponseNotSerializable => StagedEnd::Applied,
                _ => StagedEnd::Unknown,
            },
        }
    }

    /// Puts the confirmed record into the local cache, unless it came from there.
    pub(super) fn remember(&self, resolution: &Resolution) {
        if let (Some(limits), Some(record)) = (self.cache, resolution.confirmed_record())
            && !matches!(
                resolution,
                Resolution::Replay {
                    source: Source::Cache,
                    ..
                }
            )
        {
            self.backend.cache().insert(
                self.operation,
                limits,
                self.call.id.clone(),
                record.clone(),
            );
        }
    }

    fn own<E>(
        &self,
        completion: &Completion,
        finished: Finished<R, E>,
        report: &mut Report<'_>,
    ) -> Result<Outcome<R>, Ending<E>> {
        report.claim_ended(completion);
        let unprotected = report.bypass();
        match finished {
            Finished::Returned(response) => Ok(match unprotected {
                Some(why) => Outcome::bypassed(response, why),
                None => {
                    let stored = matches!(completion, Completion::Stored(_));
                    Outcome::executed(response, self.call.id.clone(), stored)
                }
            }),
            Finished::Failed(error, unreported) => {
                if let (Completion::Kept, Some(why)) = (completion, unreported) {
                    report.note(why);
                }
                Err(Ending::Failed(error, unprotected))
            }
            Finished::Panicked(panic) => Err(Ending::Panicked(panic, unprotected)),
        }
    }

    fn replay(
        &self,
        record: &Record,
        source: Source,
        ran: bool,
        report: &mut Report<'_>,
    ) -> Result<Outcome<R>, Error> {
        let data = record.data.value().map_or("", |data| data.as_str());
        let response = self.codec.read(data).map_err(|error| {
            // Type and place only: serde's own message may quote the response.
            let detail = format!("`{}`{}", std::any::type_name::<R>(), error.place());
            self.error(ErrorKind::ResponseTypeChanged)
                .with_detail(detail)
                .with_handler_ran(ran)
        })?;
        let replay = Replay::new(
            self.call.id.clone(),
            source,
            record.expiration.value().copied(),
        );
        let Some(recorded) = record.operation.value() else {
            return Ok(Outcome::replayed(response, replay));
        };
        let other = recorded_path(recorded);
        if let Some(own) = self.call.operation.as_deref().map(recorded_path)
            && own != other
            && !self.shares_prefix
        {
            report.note(format!(
                "the response was stored by the operation `{other}`, and this is `{own}`: give each operation a `key_prefix` \
                 of its own, unless this one was renamed"
            ));
        }
        Ok(Outcome::replayed(response, replay.claimed_by(recorded)))
    }

    fn refusal(&self, refusal: &Refusal, ran: bool, store_error: Option<StoreError>) -> Error {
        let error = self.error(refusal.kind).with_handler_ran(ran);
        match (refusal.kind, refusal.detail, store_error) {
            (ErrorKind::AlreadyInProgress, Some(RefusalDetail::LeaseEnd(end)), _) => error
                .with_detail(format!("retry later; its lease ends at {end}"))
                .with_lease_end(end),
            (ErrorKind::AlreadyInProgress, ..) => error.with_detail("retry later"),
            (_, Some(RefusalDetail::LostInAStep), _) => error
                .with_detail("a step found this, so the handler's result is not used")
                .with_loss_in_a_step(),
            (_, Some(RefusalDetail::Defect(defect)), _) => error.with_detail(defect),
            (_, Some(RefusalDetail::CircuitOpen(until)), _) => error
                .with_detail(format!(
                    "nothing was sent, because requests failed repeatedly and the circuit breaker is open until {until}: \
                     retry after that"
                ))
                .with_circuit_open_until(until),
            (
                ErrorKind::StoreFailed
                | ErrorKind::CompletionUnknown
                | ErrorKind::TransactionRejected,
                _,
                Some(cause),
            ) => error.with_detail(cause.to_string()).with_source(cause),
            _ => error,
        }
    }

    /// Returns the error of a branch that the protocol never takes. `ran` says whether the handler was started.
    pub(super) fn contradiction(&self, ran: bool) -> Error {
        self.error(ErrorKind::Internal).with_handler_ran(ran)
    }

    /// Returns an error of this call, with its key.
    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.operation).with_key(self.call.id.clone(), self.backend.store().name())
    }
}
