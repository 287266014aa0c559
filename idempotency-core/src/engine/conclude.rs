//! From the protocol's verdict to what the caller is given.

use std::panic::resume_unwind;

use super::Driver;
use super::handler::Finished;
use crate::error::{Error, ErrorKind};
use crate::outcome::{Outcome, Replay};
use crate::protocol::{Refusal, Source, Stored, Verdict};
use crate::record::Record;
use crate::store::StoreError;

impl<R, E> Driver<'_, R, E> {
    pub(super) fn conclude(
        &self,
        verdict: Verdict,
        finished: Option<Finished<R, E>>,
        trouble: Option<StoreError>,
    ) -> Result<Outcome<R>, E> {
        let ran = finished.is_some();
        match (verdict, finished) {
            (Verdict::Own(stored), Some(finished)) => self.own(&stored, finished),
            (Verdict::Replay { record, source }, _) => {
                self.replay(&record, source, ran).map_err(self.convert)
            }
            (Verdict::Refuse(refusal), _) => {
                let error = self.refusal(&refusal, ran, trouble);
                tracing::warn!(
                    operation = self.operation,
                    key = %self.call.id,
                    outcome = error.kind().name(),
                    handler_ran = ran,
                    "idempotent call refused"
                );
                Err((self.convert)(error))
            }
            // The protocol tells of an own result only after a run.
            (Verdict::Own(_), None) => Err((self.convert)(self.contradiction(false))),
        }
    }

    /// Keeps what is confirmed.
    pub(super) fn remember(&self, verdict: &Verdict) {
        if let (Some(capacity), Some(record)) = (self.cache, verdict.confirmed_record())
            && !matches!(
                verdict,
                Verdict::Replay {
                    source: Source::Cache,
                    ..
                }
            )
        {
            self.environment.cache().insert(
                self.operation,
                capacity,
                self.call.id.clone(),
                record.clone(),
            );
        }
    }

    fn own(&self, stored: &Stored, finished: Finished<R, E>) -> Result<Outcome<R>, E> {
        match finished {
            Finished::Answered(answer) => {
                let is_stored = matches!(stored, Stored::Answer(_));
                tracing::debug!(
                    operation = self.operation,
                    key = %self.call.id,
                    outcome = "executed",
                    stored = is_stored,
                    "idempotent call"
                );
                Ok(Outcome::executed(answer, self.call.id.clone(), is_stored))
            }
            Finished::Failed(error) => {
                tracing::debug!(
                    operation = self.operation,
                    key = %self.call.id,
                    outcome = "failed",
                    "idempotent call"
                );
                Err(error)
            }
            Finished::Panicked(panic) => resume_unwind(panic),
        }
    }

    fn replay(&self, record: &Record, source: Source, ran: bool) -> Result<Outcome<R>, Error> {
        let data = record.data.value().map_or("", |data| data.as_str());
        // serde's own message may quote the answer: place and kind are enough.
        let answer = (self.codec.read)(data).map_err(|error| {
            let detail = format!(
                "`{}`, line {}, column {}",
                std::any::type_name::<R>(),
                error.line(),
                error.column()
            );
            let error = self
                .error(ErrorKind::ResponseTypeChanged)
                .with_detail(detail);
            if ran {
                error.after_the_handler()
            } else {
                error
            }
        })?;
        tracing::debug!(
            operation = self.operation,
            key = %self.call.id,
            outcome = "replayed",
            source = ?source,
            "idempotent call"
        );
        let replay = Replay::new(
            self.call.id.clone(),
            source,
            record.expiration.value().copied(),
        );
        Ok(Outcome::replayed(answer, replay))
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
        let error = if ran {
            error.after_the_handler()
        } else {
            error
        };
        match (trouble, refusal) {
            (Some(trouble), Refusal::StoreFailed | Refusal::CompletionUnknown) => {
                error.with_detail(trouble.to_string()).with_source(trouble)
            }
            _ => error,
        }
    }

    /// Returns the error of a branch that the protocol never takes; `ran` says whether the handler was started.
    pub(super) fn contradiction(&self, ran: bool) -> Error {
        let error = self.error(ErrorKind::Internal);
        if ran {
            error.after_the_handler()
        } else {
            error
        }
    }

    /// An error of this call, with its key.
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.operation)
            .with_key(self.call.id.clone(), self.environment.store().name())
    }
}
