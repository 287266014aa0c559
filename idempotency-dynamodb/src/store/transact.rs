//! Performs a transaction: the write of the record and the staged writes of the handler, in one `TransactWriteItems`.

use idempotency_core::record::RecordId;
use idempotency_core::store::{
    RecordWrite, SendLog, StoreError, StoreErrorKind, StoreReply, TransactionRequest,
};

use super::{DynamoDbStore, EventForm};
use crate::item::Item;
use crate::item::size;
use crate::sends::{Sends, TRANSACT};
use crate::transact::{self, Cancellation, Writes};
use crate::transport::{TransactReply, to_value, transact_item};

impl DynamoDbStore {
    /// Performs a transaction, after the pieces of its response.
    ///
    /// # Errors
    ///
    /// If it failed. `log` says if it may have been applied.
    pub(super) async fn transact(
        &self,
        transaction: TransactionRequest<'_>,
        log: &SendLog,
    ) -> Result<StoreReply, StoreError> {
        let TransactionRequest {
            record,
            staged,
            token,
        } = transaction;
        let Some(writes) = staged.downcast_ref::<Writes>() else {
            return Err(staged.unsupported(&self.table_ref.to_string()));
        };
        let items = self.items(writes, record, log).await?;
        let sends = Sends::new(log, &self.table_ref, TRANSACT);
        let reasons = match self.transport.transact(items, token, &sends).await? {
            TransactReply::Applied => return Ok(StoreReply::applied()),
            TransactReply::Cancelled(reasons) => reasons,
        };
        Err(match Cancellation::of(reasons, record.is_some(), writes) {
            Cancellation::Record(existing) => match record {
                Some(record) => return self.refused(record.id, existing, log).await,
                None => self
                    .table_ref
                    .cancelled(StoreErrorKind::Rejected, "no reason"),
            },
            Cancellation::Staged(rejection) => {
                return Ok(StoreReply::Rejected {
                    rejection,
                    maybe_applied: false,
                });
            }
            Cancellation::RecordTooLarge => self.table_ref.record_too_large(),
            Cancellation::Conflict => self
                .table_ref
                .cancelled(StoreErrorKind::Conflict, "TransactionConflict"),
            Cancellation::Throttled(code) => {
                self.table_ref.cancelled(StoreErrorKind::Throttled, &code)
            }
            Cancellation::Unknown(codes) => {
                self.table_ref.cancelled(StoreErrorKind::Rejected, &codes)
            }
        })
    }

    /// Returns the items of the request, that of the record first.
    ///
    /// # Errors
    ///
    /// If a limit is exceeded. Nothing was sent but pieces of the response.
    async fn items(
        &self,
        writes: &Writes,
        record: Option<RecordWrite<'_>>,
        log: &SendLog,
    ) -> Result<Vec<aws_sdk_dynamodb::types::TransactWriteItem>, StoreError> {
        let staged = writes.items();
        let Some(RecordWrite {
            id,
            write,
            condition,
        }) = record
        else {
            return Ok(staged.to_vec());
        };
        if let Some(index) = writes.position_of(self.table(), &self.key_item(id)) {
            return Err(self.table_ref.own_item(index));
        }
        let form = self.prepare(id, write, log).await?;
        let event = EventForm::of(write);
        let record = self.request(id, write, &form, &event, condition)?;
        let bytes = size::of(record.attributes());
        if let Some(error) = transact::too_large(writes.bytes(), bytes) {
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

    /// Returns the key of a record as the SDK represents it.
    fn key_item(&self, id: &RecordId) -> Item {
        let key = self.key(id.as_str(), 0).into_iter();
        key.map(|(name, value)| (name.to_owned(), to_value(value)))
            .collect()
    }
}
