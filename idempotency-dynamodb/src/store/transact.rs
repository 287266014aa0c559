//! Performs a transaction: the write of the record and the staged writes of the handler, in one `TransactWriteItems`.

use idempotency_core::record::RecordId;
use idempotency_core::store::{
    RecordWrite, SendLog, StoreError, StoreErrorKind, TransactionRequest, WriteOutcome,
};

use super::{DynamoDbStore, EventForm, not_sent};
use crate::item::Item;
use crate::item::size;
use crate::sends::{Sends, TRANSACT};
use crate::transact::{self, Cancellation, Writes};
use crate::transport::{TransactReply, to_value, transact_item};

/// The staged writes, and the write of the record beside them.
struct Request<'a> {
    writes: &'a Writes,
    record: Option<RecordWrite<'a>>,
}

impl DynamoDbStore {
    /// Performs a transaction, after the pieces of its response.
    pub(super) async fn perform_together(
        &self,
        transaction: TransactionRequest<'_>,
        log: &SendLog,
    ) -> WriteOutcome {
        log.preparing();
        let Some(writes) = transaction.staged.downcast_ref::<Writes>() else {
            return not_sent(transaction.staged.unsupported(&self.table_ref.to_string()));
        };
        let request = Request {
            writes,
            record: transaction.record,
        };
        let items = match self.items(&request, log).await {
            Ok(items) => items,
            Err(error) => return not_sent(error),
        };
        let sends = Sends::new(log, &self.table_ref, TRANSACT);
        let reply = self.transport.transact(items, transaction.token, &sends);
        match reply.await {
            Ok(TransactReply::Applied) => WriteOutcome::Applied,
            Ok(TransactReply::Cancelled(reasons)) => {
                let has_record = request.record.is_some();
                let cancellation = Cancellation::of(reasons, has_record, writes);
                self.cancelled(&request, cancellation, sends.maybe_applied(), log)
                    .await
            }
            Err(error) => WriteOutcome::Failed {
                maybe_applied: sends.maybe_applied(),
                error,
            },
        }
    }

    /// Returns the items of the request, that of the record first.
    ///
    /// # Errors
    ///
    /// If a limit is exceeded. Nothing was sent but pieces of the response.
    async fn items(
        &self,
        request: &Request<'_>,
        log: &SendLog,
    ) -> Result<Vec<aws_sdk_dynamodb::types::TransactWriteItem>, StoreError> {
        let staged = request.writes.items();
        let Some(RecordWrite {
            id,
            write,
            condition,
        }) = request.record
        else {
            return Ok(staged.to_vec());
        };
        if let Some(index) = request.writes.position_of(self.table(), &self.key_item(id)) {
            return Err(self.table_ref.own_item(index));
        }
        let form = self.prepare(id, write, log).await?;
        let event = EventForm::of(write);
        let record = self.request(id, write, &form, &event, condition)?;
        let bytes = size::of(record.attributes());
        if let Some(error) = transact::too_large(request.writes.bytes(), bytes) {
            let error = StoreError::new(StoreErrorKind::Rejected, error.to_string());
            return Err(error);
        }
        let record = transact_item(self.table(), record).map_err(|error| {
            let text = format!("the transaction with {} cannot be made", self.table_ref);
            StoreError::new(StoreErrorKind::Rejected, text).with_source(error)
        })?;
        let mut items = Vec::with_capacity(staged.len() + 1);
        items.push(record);
        items.extend_from_slice(staged);
        Ok(items)
    }

    /// Returns the outcome of a transaction that was cancelled.
    async fn cancelled(
        &self,
        request: &Request<'_>,
        cancellation: Cancellation,
        maybe_applied: bool,
        log: &SendLog,
    ) -> WriteOutcome {
        let error = match (cancellation, request.record) {
            (Cancellation::Record(existing), Some(record)) => {
                log.refused();
                return self.refused(record.id, existing, maybe_applied, log).await;
            }
            (Cancellation::Staged(rejection), _) => {
                return WriteOutcome::Rejected {
                    rejection,
                    maybe_applied,
                };
            }
            (Cancellation::RecordTooLarge, _) => self.table_ref.record_too_large(),
            (Cancellation::Conflict, _) => self
                .table_ref
                .cancelled(StoreErrorKind::Conflict, "TransactionConflict"),
            (Cancellation::Throttled(code), _) => {
                self.table_ref.cancelled(StoreErrorKind::Throttled, &code)
            }
            (Cancellation::Unknown(codes), _) => {
                self.table_ref.cancelled(StoreErrorKind::Rejected, &codes)
            }
            (Cancellation::Record(_), None) => self
                .table_ref
                .cancelled(StoreErrorKind::Rejected, "no reason"),
        };
        WriteOutcome::Failed {
            maybe_applied,
            error,
        }
    }

    /// Returns the key of a record as the SDK represents it.
    fn key_item(&self, id: &RecordId) -> Item {
        let key = self.key(id.as_str(), 0).into_iter();
        key.map(|(name, value)| (name.to_owned(), to_value(value)))
            .collect()
    }
}
