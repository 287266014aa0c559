//! Looks at the record of a key, or deletes it, without a run.

use super::driver::Driver;
use super::request::{send, wrong_reply};
use crate::error::{Error, ErrorKind};
use crate::outcome::{KeyState, Source};
use crate::protocol::decision::{NotEvicted, evictable_by_code, evicted, looked_at};
use crate::protocol::{RecordState, UNREADABLE_DATA};
use crate::record::Record;
use crate::store::{Consistency, StoreError, StoreReply, StoreRequest, Write};
use crate::time::EpochMillis;

impl<R> Driver<'_, R> {
    /// Returns what the call would meet now, by the record in the store.
    pub(crate) async fn lookup(&self) -> Result<KeyState<R>, Error> {
        let (record, unreadable) = self.read().await?;
        let Some(record) = record else {
            return Ok(KeyState::Free);
        };
        let lease_end = self.running_until(&record);
        Ok(match looked_at(&record, self.now(), &self.call) {
            RecordState::Claimable | RecordState::Resumable => KeyState::Free,
            RecordState::PayloadMismatch => KeyState::PayloadMismatch,
            RecordState::Replay => {
                KeyState::Completed(self.stored_response(&record, Source::Store, false)?)
            }
            RecordState::ResponseUnavailable => KeyState::CompletedWithoutResponse,
            RecordState::Unresolved => KeyState::Held,
            RecordState::InProgress | RecordState::OwnClaim | RecordState::OwnClaimExpired => {
                KeyState::InProgress { until: lease_end }
            }
            RecordState::Corrupt(defect) => {
                // The store knows more about this defect than the protocol.
                let reason = unreadable.filter(|_| defect == UNREADABLE_DATA);
                KeyState::Corrupt(reason.unwrap_or_else(|| defect.to_owned()))
            }
        })
    }

    /// Deletes the record, unless its run may go on, it is held, or it belongs to another payload. Returns false if there is none.
    ///
    /// The cache of this process forgets the key too.
    pub(crate) async fn evict(&self) -> Result<bool, Error> {
        let evicted = match self.read().await?.0 {
            Some(record) => self.delete(&record).await?,
            None => false,
        };
        let cache = self.backend.cache();
        cache.remove(self.key_prefix, &self.call.id);
        Ok(evicted)
    }

    async fn delete(&self, read: &Record) -> Result<bool, Error> {
        let unchanged = evictable_by_code(read, self.now(), &self.call)
            .map_err(|kind| self.not_evicted(kind, read))?;
        let request = StoreRequest::write(&self.call.id, &Write::Delete, &unchanged);
        let (existing, maybe_applied) = match self.send(request).await {
            StoreReply::Applied { .. } => return Ok(true),
            StoreReply::ConditionFailed {
                existing: Some(existing),
                maybe_applied,
                ..
            } => (Some(existing), maybe_applied),
            // Not every store brings the record back.
            StoreReply::ConditionFailed { maybe_applied, .. } => {
                (self.read().await?.0, maybe_applied)
            }
            StoreReply::Failed {
                error,
                maybe_applied: true,
            } => {
                let doubt = format!("the record may have been evicted: {error}");
                return Err(self.failed(error).with_detail(doubt));
            }
            StoreReply::Failed { error, .. } => return Err(self.failed(error)),
            _ => return Err(self.failed(wrong_reply(self.backend))),
        };
        let changed = |what| {
            let detail =
                format!("the record changed after it was read, and {what}: look at it again");
            Err(self.error(ErrorKind::Contended).with_detail(detail))
        };
        match evicted(existing.as_ref(), maybe_applied) {
            Ok(()) => Ok(true),
            Err(NotEvicted::Missing) => Ok(false),
            Err(NotEvicted::Changed) => changed("was not evicted"),
            Err(NotEvicted::MaybeEvicted) => changed("may have been evicted before that"),
        }
    }

    /// Returns the error of a record that may not be evicted.
    fn not_evicted(&self, kind: ErrorKind, read: &Record) -> Error {
        let error = self.error(kind);
        if kind != ErrorKind::AlreadyInProgress {
            return error.with_detail("its record was not evicted");
        }
        match self.running_until(read) {
            Some(end) => error
                .with_detail(format!("its record was not evicted: retry when its lease has ended at {end}"))
                .with_lease_end(end),
            None if read.is_undoing() => error.with_detail(
                "its record was not evicted, because not all of its steps are undone: run the same call again first",
            ),
            None => error.with_detail(
                "its record was not evicted, because it has no lease that can be read: find out that its call does not run, then use \
                 `idempotency evict --force`",
            ),
        }
    }

    /// Returns the end of the lease of this record, if it is known and has not passed.
    fn running_until(&self, record: &Record) -> Option<EpochMillis> {
        let end = record.in_progress_expiration.value().copied();
        end.filter(|end| *end >= self.now())
    }

    /// Returns the record, and why its response cannot be read.
    async fn read(&self) -> Result<(Option<Record>, Option<String>), Error> {
        let request = StoreRequest::Read(&self.call.id, Consistency::Strong);
        match self.send(request).await {
            StoreReply::Found { record, unreadable } => Ok((record, unreadable)),
            StoreReply::Failed { error, .. } => Err(self.failed(error)),
            _ => Err(self.failed(wrong_reply(self.backend))),
        }
    }

    /// Sends one request, which may take as long as the requests before a handler.
    async fn send(&self, request: StoreRequest<'_>) -> StoreReply {
        let (now, longest) = (self.now(), self.call.policy.store_timeout);
        let left = self.call.deadline.map(|end| now.until(end));
        let limit = left.map_or(longest, |left| left.min(longest));
        let end = send(self.backend, request, limit, &mut ()).await;
        end.reply()
    }

    fn failed(&self, cause: StoreError) -> Error {
        let error = self.error(ErrorKind::StoreFailed);
        error.with_detail(cause.to_string()).with_source(cause)
    }
}

#[cfg(test)]
mod tests;
