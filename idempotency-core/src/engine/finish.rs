//! Turns the protocol's resolution into the result that the caller is given.

use super::driver::{Driver, Ending};
use super::handler::Finished;
use crate::error::{Error, ErrorKind};
use crate::event::Report;
use crate::outcome::{Outcome, Replay};
use crate::protocol::{Completion, Refusal, Resolution, Source, recorded_path};
use crate::record::Record;
use crate::store::StoreError;

impl<R> Driver<'_, R> {
    pub(super) fn conclude<E>(
        &self,
        verdict: Resolution,
        finished: Option<Finished<R, E>>,
        trouble: Option<StoreError>,
        report: &mut Report<'_>,
    ) -> Result<Outcome<R>, Ending<E>> {
        let ran = finished.is_some();
        match (verdict, finished) {
            (Resolution::Own(stored), Some(finished)) => self.own(&stored, finished, report),
            (Resolution::Replay { record, source }, _) => self
                .replay(&record, source, ran, report)
                .map_err(Ending::Refused),
            (Resolution::Refuse(refusal), _) => {
                Err(Ending::Refused(self.refusal(&refusal, ran, trouble)))
            }
            // The protocol tells of an own result only after a run.
            (Resolution::Own(_), None) => Err(Ending::Refused(self.contradiction(false))),
        }
    }

    /// Keeps what is confirmed.
    pub(super) fn remember(&self, verdict: &Resolution) {
        if let (Some(bounds), Some(record)) = (self.cache, verdict.confirmed_record())
            && !matches!(
                verdict,
                Resolution::Replay {
                    source: Source::Cache,
                    ..
                }
            )
        {
            self.backend.cache().insert(
                self.operation,
                bounds,
                self.call.id.clone(),
                record.clone(),
            );
        }
    }

    fn own<E>(
        &self,
        stored: &Completion,
        finished: Finished<R, E>,
        report: &mut Report<'_>,
    ) -> Result<Outcome<R>, Ending<E>> {
        report.claim_ended(stored);
        match finished {
            Finished::Answered(answer) => {
                let is_stored = matches!(stored, Completion::Stored(_));
                Ok(Outcome::executed(answer, self.call.id.clone(), is_stored))
            }
            Finished::Failed(error) => Err(Ending::Failed(error, None)),
            Finished::Panicked(panic) => Err(Ending::Panicked(panic, None)),
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
        // serde's own message may quote the answer: place and kind are enough.
        let answer = (self.codec.read)(data).map_err(|error| {
            let detail = format!(
                "`{}`, line {}, column {}",
                std::any::type_name::<R>(),
                error.line(),
                error.column()
            );
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
            return Ok(Outcome::replayed(answer, replay));
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
        Ok(Outcome::replayed(answer, replay.claimed_by(recorded)))
    }

    fn refusal(&self, refusal: &Refusal, ran: bool, trouble: Option<StoreError>) -> Error {
        let error = match refusal {
            Refusal::AlreadyInProgress { until } => {
                let error = self.error(ErrorKind::AlreadyInProgress);
                match until {
                    Some(until) => error.with_detail(format!(
                        "retry later; its lease ends at {until} since the epoch"
                    )),
                    None => error.with_detail("retry later"),
                }
            }
            Refusal::PayloadMismatch => self.error(ErrorKind::PayloadMismatch),
            Refusal::Unresolved => self.error(ErrorKind::Unresolved),
            Refusal::CorruptRecord(what) => self.error(ErrorKind::CorruptRecord).with_detail(*what),
            Refusal::Contended => self.error(ErrorKind::Contended),
            Refusal::NoTimeLeft => self.error(ErrorKind::NoTimeLeft),
            Refusal::ResponseUnavailable => self.error(ErrorKind::ResponseUnavailable),
            Refusal::LostOwnership => self.error(ErrorKind::LostOwnership),
            Refusal::CompletionUnknown => self.error(ErrorKind::CompletionUnknown),
            Refusal::Unrepresentable => self.error(ErrorKind::ResponseNotSerializable),
            Refusal::StoreFailed => self.error(ErrorKind::StoreFailed),
        };
        let error = error.with_handler_ran(ran);
        match (trouble, refusal) {
            (Some(trouble), Refusal::StoreFailed | Refusal::CompletionUnknown) => {
                error.with_detail(trouble.to_string()).with_source(trouble)
            }
            _ => error,
        }
    }

    /// Returns the error of a branch that the protocol never takes; `ran` says whether the handler was started.
    pub(super) fn contradiction(&self, ran: bool) -> Error {
        self.error(ErrorKind::Internal).with_handler_ran(ran)
    }

    /// An error of this call, with its key.
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.operation).with_key(self.call.id.clone(), self.backend.store().name())
    }
}
