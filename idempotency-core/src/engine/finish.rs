//! Turns the end of a call into the result that the caller gets.

use super::Errors;
use super::driver::Driver;
use super::request::Reasons;
use super::run::Ran;
use crate::error::{Error, ErrorKind};
use crate::event::Report;
use crate::outcome::{NoResponse, Outcome, Replay};
use crate::protocol::{
    CallEnd, ClaimEnd, Refusal, RefusalDetail, Resolution, Source, StagedEnd, UNREADABLE_DATA,
    recorded_path,
};
use crate::record::Record;

impl<R> Driver<'_, R> {
    /// Returns the caller's result. `ran` is what the handler has left, if it ran.
    pub(super) fn finish<E>(
        &self,
        end: CallEnd,
        ran: Option<Ran<R, E>>,
        errors: Errors<E>,
        reasons: Reasons,
        report: &mut Report<'_>,
    ) -> Result<Outcome<R>, NoResponse<E>> {
        report.ended(&end);
        match (end.resolution, ran) {
            (Resolution::Own(record), Some(Ran { output, .. })) => {
                match (end.claim, reasons.error) {
                    (None, Some(error)) => {
                        report.note(format!("its response is not stored: {error}"));
                    }
                    (Some(ClaimEnd::Kept), Some(error)) => report.note(format!(
                        "duplicates get `AlreadyInProgress` until the lease ends, because the end of the run is not recorded: {error}"
                    )),
                    _ => {}
                }
                if let (Some(ClaimEnd::Kept), Ok(Err(error))) = (end.claim, &output)
                    && let Some(why) = (errors.unreported)(error)
                {
                    report.note(why);
                }
                let response = NoResponse::of_output(output)?;
                let outcome = match report.bypass() {
                    Some(why) => Outcome::bypassed(response, why),
                    None => Outcome::executed(response, self.call.id.clone(), record.is_some()),
                };
                Ok(match end.staged {
                    Some(StagedEnd::Dropped) => outcome.with_dropped_writes(),
                    _ => outcome,
                })
            }
            (Resolution::Replay { record, source }, ran) => self
                .replay(&record, source, ran.is_some(), report)
                .map_err(NoResponse::Refused),
            (Resolution::Refuse(refusal), ran) => {
                let has_ran = ran.is_some();
                let refused_write = ran.and_then(|ran| ran.refused);
                let error = self.refusal(&refusal, has_ran, refused_write, reasons);
                Err(NoResponse::Refused(match end.staged {
                    None | Some(StagedEnd::Applied) => error,
                    _ => error.with_unconfirmed_writes(),
                }))
            }
            // Unreachable: the protocol resolves a call as `Own` only after a run.
            (Resolution::Own(_), None) => Err(NoResponse::Refused(self.contradiction(false))),
        }
    }

    /// Puts the confirmed record into the local cache, unless it came from there.
    pub(super) fn remember(&self, end: &CallEnd) {
        let (Some(limits), Some(record)) = (self.cache, end.confirmed_record()) else {
            return;
        };
        if !matches!(&end.resolution, Resolution::Replay { source, .. } if *source == Source::Cache)
        {
            let id = self.call.id.clone();
            let cache = self.backend.cache();
            cache.insert(self.key_prefix, limits, id, record.clone());
        }
    }

    fn replay(
        &self,
        record: &Record,
        source: Source,
        ran: bool,
        report: &mut Report<'_>,
    ) -> Result<Outcome<R>, Error> {
        let outcome = self.stored_response(record, source, ran)?;
        if let (Some(own), Some(other)) = (&self.call.operation, record.operation.value())
            && recorded_path(own) != recorded_path(other)
            && !self.shares_prefix
        {
            let (own, other) = (recorded_path(own), recorded_path(other));
            report.note(format!(
                "the response was stored by the operation `{other}`, and this is `{own}`: give each operation a `key_prefix` \
                 of its own, unless this one was renamed"
            ));
        }
        Ok(outcome)
    }

    /// Returns the response that this record holds. `ran` says whether the handler was started.
    pub(super) fn stored_response(
        &self,
        record: &Record,
        source: Source,
        ran: bool,
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
        let replay = match record.operation.value() {
            Some(recorded) => replay.claimed_by(recorded),
            None => replay,
        };
        Ok(Outcome::replayed(response, replay))
    }

    /// Returns the error of a refusal. `refused_write` is why a write was refused when the handler staged it.
    fn refusal(
        &self,
        refusal: &Refusal,
        ran: bool,
        refused_write: Option<&'static str>,
        reasons: Reasons,
    ) -> Error {
        let error = self.error(refusal.kind).with_handler_ran(ran);
        if let (ErrorKind::TransactionRejected, Some(why)) = (refusal.kind, refused_write) {
            return error.with_detail(why);
        }
        match (refusal.kind, &refusal.detail, reasons.error) {
            (ErrorKind::AlreadyInProgress, Some(RefusalDetail::LeaseEnd(end)), _) => error
                .with_detail(format!("retry later; its lease ends at {end}"))
                .with_lease_end(*end),
            (ErrorKind::AlreadyInProgress, ..) => error.with_detail("retry later"),
            (ErrorKind::Contended, ..) => error.with_detail("retry"),
            (_, Some(RefusalDetail::LostInAStep), _) => error
                .with_detail("a write of a step or of an undo found this, so the handler's result is not used")
                .with_unfinished_steps(),
            (_, Some(RefusalDetail::NotUndone(why)), _) => {
                error.with_detail(why.clone()).with_unfinished_steps()
            }
            // The store knows more about this defect than the protocol.
            (_, Some(RefusalDetail::Defect(defect)), _) => match reasons.unreadable {
                Some(reason) if *defect == UNREADABLE_DATA => error.with_detail(reason),
                _ => error.with_detail(*defect),
            },
            (_, Some(RefusalDetail::CircuitOpen(until)), _) => error
                .with_detail(format!(
                    "nothing was sent, because requests failed repeatedly and the circuit breaker is open until {until}: \
                     retry after that"
                ))
                .with_circuit_open_until(*until),
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
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.key_prefix)
            .with_key(self.call.id.clone(), self.backend.store().name())
    }
}
