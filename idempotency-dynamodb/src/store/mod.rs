//! The store: one request for each operation, unless the client has to send again, or a response is in pieces.

use std::fmt;

use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Data, Record, RecordId};
use idempotency_core::store::{
    Consistency, RecordWrite, SendLog, Store, StoreError, StoreErrorKind, StoreLimits, StoreReply,
    StoreRequest, TransactionRequest, Write,
};

use self::events::Events;
use self::items::WARM_UP_ID;
use self::pieces::WrittenPieces;
use crate::item::{self, size};
use crate::large::{Form, PieceName, Settings};
use crate::limits::{LARGEST_ITEM, LARGEST_RESPONSE, LONGEST_BESIDE_EVENT, TOKEN_LIFETIME};
use crate::request::{Request, TRANSACT};
use crate::sends::Sends;
use crate::transact::{self, Cancellation, Writes};
use crate::transport::{Reply, sdk_write};
use crate::value::{Item, NamedValue, to_item};

mod events;
mod items;
mod pieces;
mod scan;

pub(crate) use events::{EventForm, read_event};
pub(crate) use items::Items;

/// A store of records in a DynamoDB table.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_core::store::Store;
/// use idempotency_dynamodb::DynamoDbStore;
///
/// let client = idempotency_dynamodb::default_client().await?;
/// let store = DynamoDbStore::builder().table("idempotency").client(client).build()?;
/// store.warm_up(false).await?;
/// # Ok(())
/// # }
/// ```
pub struct DynamoDbStore {
    items: Items,
    /// How large responses are stored.
    large: Settings,
    written: WrittenPieces,
    events: Events,
}

impl DynamoDbStore {
    /// Returns the store of these items. `unencrypted_events` waives the check of the table before an event is written.
    pub(crate) fn new(items: Items, large: Settings, unencrypted_events: bool) -> Self {
        Self {
            items,
            large,
            written: WrittenPieces::default(),
            events: Events::new(unencrypted_events),
        }
    }

    /// Returns the name or ARN of the table.
    pub fn table(&self) -> &str {
        &self.items.table.name
    }

    /// Performs a write, after a check of the table's keys if there was none, and after the pieces of its response.
    ///
    /// # Errors
    ///
    /// If it failed. `log` says if it may have been applied.
    async fn write(
        &self,
        record: RecordWrite<'_>,
        log: &SendLog,
    ) -> Result<StoreReply, StoreError> {
        let RecordWrite { id, write, .. } = record;
        let form = self.prepare(id, write, log).await?;
        let request = self.request(record, &form)?;
        let sends = Sends::new(log, &self.items.table, request.target());
        match self.items.transport.send(request, &sends).await? {
            Reply::Success(replaced) => Ok(match write {
                Write::Put(_) => {
                    StoreReply::replaced(replaced.map(|item| self.items.replaced(item)))
                }
                _ => StoreReply::applied(),
            }),
            Reply::ConditionFailed(existing) => self.refused(id, existing, log).await,
        }
    }

    /// Reads a record.
    async fn read(
        &self,
        id: &RecordId,
        consistency: Consistency,
        log: &SendLog,
    ) -> Result<StoreReply, StoreError> {
        let consistent = consistency == Consistency::Strong;
        let Some(item) = self.items.get(id.as_str(), consistent, log).await? else {
            return Ok(StoreReply::found(None));
        };
        let (record, unreadable) = self.items.record(id, item, log).await?;
        Ok(StoreReply::Found {
            record: Some(record),
            unreadable,
        })
    }

    /// Returns the reply to a write, with what `log` says of its sends. Forgets which pieces are written, unless the write of their
    /// record can be sent again.
    fn ended(
        &self,
        id: Option<&RecordId>,
        reply: Result<StoreReply, StoreError>,
        log: &SendLog,
    ) -> StoreReply {
        let is_sent_again = matches!(&reply, Err(error) if error.kind().is_transient());
        if let (Some(id), false) = (id, is_sent_again) {
            self.written.forget(id);
        }
        reply.unwrap_or_else(StoreReply::failed).add_notes(log)
    }

    /// Prepares a write: checks the table's keys if they were not checked yet, chooses the forms of the response and of the event, and
    /// writes the pieces of the response.
    ///
    /// # Errors
    ///
    /// If the write cannot be sent, or if the response is longer than any that is stored. The write was not applied.
    async fn prepare<'a>(
        &self,
        id: &RecordId,
        write: &'a Write,
        log: &SendLog,
    ) -> Result<WriteForm<'a>, StoreError> {
        if matches!(write, Write::Put(_)) {
            self.items.check_keys(log).await?;
        }
        let stored = stored(write);
        let event = stored.and_then(|record| record.event.value());
        // Boxed, so that the future of every other write stays small.
        if event.is_some() {
            Box::pin(self.events.check(&self.items, log)).await?;
        }
        let long = stored.and_then(|record| Some((record, record.data.value()?)));
        let long = long.filter(|(_, data)| self.large.concern(data.as_str().len()));
        let response = match (write, long) {
            (Write::Step { result, .. }, _) => Form::of_step(result, self.large)
                .ok_or_else(|| self.items.table.step_too_large(result.as_str().len()))?,
            (_, Some((record, data))) => self.form_of_long(id, write, record, data)?,
            (_, None) => Form::Plain,
        };
        if let (Form::Split(pieces), Some(record)) = (&response, stored) {
            let expiration = record.expiration.value().copied();
            // Boxed, so that the future of every other write stays small.
            Box::pin(self.written.write(&self.items, id, pieces, expiration, log)).await?;
        }
        let event = EventForm::of(event);
        Ok(WriteForm { response, event })
    }

    /// Returns the reply to a write whose condition did not hold for this item.
    ///
    /// # Errors
    ///
    /// If the request for a piece of its response failed. Then the current record is not known, nor the meaning of the refusal.
    async fn refused(
        &self,
        id: &RecordId,
        existing: Option<Item>,
        log: &SendLog,
    ) -> Result<StoreReply, StoreError> {
        log.refused();
        let Some(item) = existing.filter(|item| !item.is_empty()) else {
            return Ok(StoreReply::condition_failed(None));
        };
        let (record, unreadable) = self.items.record(id, item, log).await?;
        Ok(StoreReply::ConditionFailed {
            existing: Some(record),
            unreadable,
            maybe_applied: false,
        })
    }

    /// Chooses the form of a long response: what fits into the item beside the other attributes of the write.
    ///
    /// # Errors
    ///
    /// If the response is longer than any that is stored.
    fn form_of_long<'a>(
        &self,
        id: &RecordId,
        write: &Write,
        record: &Record,
        data: &'a Data,
    ) -> Result<Form<'a>, StoreError> {
        let set: Vec<_> = item::attributes(record)
            .filter(|(attribute, _)| *attribute != Attribute::Data)
            .collect();
        let attributes = set
            .iter()
            .map(|(attribute, value)| (self.items.names.of(*attribute), *value));
        let mut taken = size::of(attributes.chain(self.items.key(id.as_str(), 0)));
        if matches!(write, Write::Update(_)) {
            taken += size::kept(&self.items.names, &set);
        }
        let form = Form::of(
            data,
            self.large,
            &self.items.names,
            LARGEST_ITEM.saturating_sub(taken),
            id.as_str().len() + PieceName::MORE_BYTES <= self.items.longest_id(),
        );
        form.ok_or_else(|| self.items.table.too_long(data.as_str().len()))
    }

    /// Returns the request of a write.
    ///
    /// # Errors
    ///
    /// If the record is too large. The attributes that an update keeps are not known here; DynamoDB counts them.
    fn request<'a>(
        &'a self,
        record: RecordWrite<'a>,
        WriteForm { response, event }: &'a WriteForm<'a>,
    ) -> Result<Request<'a>, StoreError> {
        let RecordWrite {
            id,
            write,
            condition,
        } = record;
        let key = |more| self.items.key(id.as_str(), more);
        let extra = response.extra();
        let named = extra.map(|(attribute, value)| (self.items.names.extra(attribute), value));
        Ok(match write {
            Write::Put(record) => {
                let mut item = key(item::MOST_ATTRIBUTES);
                let attributes = item::attributes(record)
                    .map(|attribute| event.apply(response.apply(attribute)));
                item.extend(
                    attributes.map(|(attribute, value)| (self.items.names.of(attribute), value)),
                );
                item.extend(named);
                self.fits(item.iter().copied())?;
                Request::Put {
                    item,
                    expressions: self.items.shapes.condition(condition),
                    // A claim brings back what it replaces, at no cost: then a takeover is known.
                    returns_replaced: *condition != Condition::NoRecord,
                    returns_existing: true,
                }
            }
            Write::Update(change) => {
                let key = key(0);
                let mut set = Vec::with_capacity(item::MOST_ATTRIBUTES);
                let attributes = item::attributes(&change.set);
                set.extend(attributes.map(|attribute| event.apply(response.apply(attribute))));
                let attributes = set
                    .iter()
                    .map(|(attribute, value)| (self.items.names.of(*attribute), *value));
                let attributes = attributes.chain(key.iter().copied());
                self.fits(attributes.chain(named))?;
                let remove = &change.remove;
                Request::Update {
                    key,
                    expressions: self.items.shapes.update(&set, extra, remove, condition),
                }
            }
            Write::Delete => Request::Delete {
                key: key(0),
                expressions: self.items.shapes.condition(condition),
            },
            Write::Step { name, result } => {
                let value = response.step(result);
                let bytes = size::of([(name.as_str(), value)]);
                if bytes > LARGEST_ITEM {
                    return Err(self.items.table.step_too_large(bytes));
                }
                Request::Update {
                    key: key(0),
                    expressions: self.items.shapes.step(name, value, condition),
                }
            }
        })
    }

    fn fits<'a>(
        &self,
        attributes: impl IntoIterator<Item = NamedValue<'a>>,
    ) -> Result<(), StoreError> {
        let bytes = size::of(attributes);
        if bytes > LARGEST_ITEM {
            return Err(self.items.table.too_large(bytes, self.large.split));
        }
        Ok(())
    }
}

/// How a write stores what can be long.
struct WriteForm<'a> {
    response: Form<'a>,
    event: EventForm,
}

/// Returns the record that a write puts, or what it sets. `None` if it stores no response and no event.
fn stored(write: &Write) -> Option<&Record> {
    match write {
        Write::Put(record) => Some(record),
        // The removal takes precedence.
        Write::Update(change) if change.remove.contains(&Attribute::Data) => None,
        Write::Update(change) => Some(&change.set),
        Write::Delete | Write::Step { .. } => None,
    }
}

impl Store for DynamoDbStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        log.preparing();
        // A future for each kind, so that none has the size of the largest.
        match request {
            StoreRequest::Write(record) => Box::pin(async move {
                let reply = self.write(record, log).await;
                self.ended(Some(record.id), reply, log)
            }),
            StoreRequest::Transact(transaction) => Box::pin(async move {
                let reply = self.transact(transaction, log).await;
                self.ended(transaction.record.map(|record| record.id), reply, log)
            }),
            StoreRequest::Read(id, consistency) => Box::pin(async move {
                let reply = self.read(id, consistency, log).await;
                reply.unwrap_or_else(StoreReply::failed)
            }),
        }
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits {
            // A response beyond it is split.
            record: (!self.large.split).then_some(LARGEST_ITEM),
            beside_event: Some(LONGEST_BESIDE_EVENT),
            steps: Some(LARGEST_RESPONSE),
            token: TOKEN_LIFETIME,
        }
    }

    /// Returns the table, and the endpoint if it is not one of AWS.
    fn name(&self) -> String {
        match self.items.table.configured_endpoint() {
            Some(endpoint) => format!("DynamoDB table `{}` at {endpoint}", self.table()),
            None => format!("DynamoDB table `{}`", self.table()),
        }
    }

    fn timeout_advice(&self, was_sent: bool) -> String {
        if was_sent {
            return self.items.table.network_advice();
        }
        "either the credentials took too long (fetch them before the first event, with the store's `warm_up`), or the client held the send \
         back under its own rate limit (adaptive retry mode: use the standard mode)"
            .to_owned()
    }

    /// Reads a key that no record has; the cost is 0.5 read units. This connects, fetches credentials, and detects a missing
    /// table, other keys or a denied `dynamodb:GetItem` before the first event. On a table with a sort key the first claim
    /// makes this read if there was none before. For events it reads how the table is encrypted (`dynamodb:DescribeTable`).
    fn warm_up(&self, keeps_events: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.items.get(WARM_UP_ID, false, &SendLog::new()).await?;
            if keeps_events {
                self.events.check(&self.items, &SendLog::new()).await?;
            }
            Ok(())
        })
    }
}

impl fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDbStore")
            .field("table", &self.items.table.name)
            .field("region", &self.items.table.region)
            .finish_non_exhaustive()
    }
}

// Performs a transaction: the write of the record and the staged writes of the handler, in one `TransactWriteItems`.

impl DynamoDbStore {
    /// Performs a transaction, after the pieces of its response.
    ///
    /// # Errors
    ///
    /// If it failed. `log` says if it may have been applied.
    async fn transact(
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
            return Err(staged.unsupported(&self.items.table.to_string()));
        };
        let items = self.transact_items(writes, record, log).await?;
        let sends = Sends::new(log, &self.items.table, TRANSACT);
        let Some(reasons) = self.items.transport.transact(items, token, &sends).await? else {
            return Ok(StoreReply::applied());
        };
        Err(match Cancellation::of(reasons, record.is_some(), writes) {
            Cancellation::Record(existing) => match record {
                Some(record) => return self.refused(record.id, existing, log).await,
                // Unreachable: only a transaction with a record has this reason.
                None => self
                    .items
                    .table
                    .cancelled(StoreErrorKind::Rejected, "no reason"),
            },
            Cancellation::Staged(rejection) => {
                return Ok(StoreReply::Rejected {
                    rejection,
                    maybe_applied: false,
                });
            }
            Cancellation::RecordTooLarge => self.items.table.record_too_large(),
            Cancellation::Conflict => self
                .items
                .table
                .cancelled(StoreErrorKind::Conflict, "TransactionConflict"),
            Cancellation::Throttled(code) => {
                self.items.table.cancelled(StoreErrorKind::Throttled, &code)
            }
            Cancellation::Unknown(codes) => {
                self.items.table.cancelled(StoreErrorKind::Rejected, &codes)
            }
        })
    }

    /// Returns the items of the request, that of the record first.
    ///
    /// # Errors
    ///
    /// If a limit is exceeded. Nothing was sent but pieces of the response.
    async fn transact_items(
        &self,
        writes: &Writes,
        record: Option<RecordWrite<'_>>,
        log: &SendLog,
    ) -> Result<Vec<aws_sdk_dynamodb::types::TransactWriteItem>, StoreError> {
        let staged = writes.items();
        let Some(record) = record else {
            return Ok(staged.to_vec());
        };
        let key = to_item(self.items.key(record.id.as_str(), 0));
        if let Some(index) = writes.position_of(self.table(), &key) {
            return Err(self.items.table.own_item(index));
        }
        let form = self.prepare(record.id, record.write, log).await?;
        let request = self.request(record, &form)?;
        let bytes = size::of(request.attributes());
        if let Some(error) = transact::too_large(writes.bytes(), bytes) {
            let error = StoreError::new(StoreErrorKind::Rejected, error.to_string());
            return Err(error);
        }
        let record = sdk_write(self.table(), request);
        let record = record.map_err(|error| self.items.table.not_built(error))?;
        let mut items = Vec::with_capacity(staged.len() + 1);
        items.push(record.into_transact_item());
        items.extend_from_slice(staged);
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::Client;
    use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
    use idempotency_core::record::{Field, Status};
    use idempotency_core::store::Change;

    use super::*;
    use crate::value::Value;

    /// Returns a store whose client sends nothing, and which compresses nothing.
    pub(super) fn store(is_composite: bool) -> DynamoDbStore {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("eu-west-1"));
        let builder = DynamoDbStore::builder().table("payments");
        let builder = builder.client(Client::from_conf(config.build()));
        let builder = builder.compress_above(None);
        let store = match is_composite {
            true => builder.composite_key("sk", "shop").build(),
            false => builder.build(),
        };
        store.unwrap()
    }

    fn completed() -> Record {
        Record {
            status: Field::Value(Status::Completed),
            ..Record::default()
        }
    }

    #[test]
    fn a_response_is_split_if_the_item_exceeds_its_limit_by_one_byte() {
        let (store, id, record) = (store(false), RecordId::new("shop#1"), completed());
        let change = Change {
            set: completed(),
            remove: Vec::new(),
        };
        let status = [(Attribute::Status, Value::Text(""))];
        let kept = size::kept(&store.items.names, &status);
        // The names and values of the key, the status and, without its value, the response.
        let beside = "id".len() + "shop#1".len() + "statusCOMPLETED".len() + "data".len();
        for (write, others) in [
            (Write::Put(completed()), beside),
            (Write::Update(change), beside + kept),
        ] {
            let is_split = |bytes: usize| {
                let data = Data::new("x".repeat(bytes));
                let form = store.form_of_long(&id, &write, &record, &data);
                matches!(form, Ok(Form::Split(_)))
            };
            let room = LARGEST_ITEM - others;
            assert_eq!([room, room + 1].map(is_split), [false, true]);
        }
    }

    #[test]
    fn an_item_and_the_result_of_a_step_may_have_as_many_bytes_as_an_item() {
        let (store, id) = (store(false), RecordId::new("shop#1"));
        let fits = |bytes: usize| {
            let text = "x".repeat(bytes - "s".len());
            let attribute = [("s", Value::Text(&text))];
            let write = Write::Step {
                name: "s".into(),
                result: Data::new(text.clone()),
            };
            let record = RecordWrite {
                id: &id,
                write: &write,
                condition: &Condition::NoRecord,
            };
            let form = WriteForm {
                response: Form::Plain,
                event: EventForm::of(None),
            };
            let sent = store.request(record, &form).is_ok();
            (store.fits(attribute).is_ok(), sent)
        };
        assert_eq!(fits(LARGEST_ITEM), (true, true));
        assert_eq!(fits(LARGEST_ITEM + 1), (false, false));
    }

    #[test]
    fn an_update_that_removes_the_response_stores_none() {
        for (remove, expected) in [
            (vec![Attribute::Data], false),
            (vec![Attribute::Steps], true),
        ] {
            let set = completed();
            let update = Write::Update(Change { set, remove });
            assert_eq!(stored(&update).is_some(), expected);
        }
    }

    #[test]
    fn a_record_has_a_limit_only_if_a_long_response_is_not_split() {
        let mut store = store(false);
        assert_eq!(store.limits().record, None);
        store.large.split = false;
        assert_eq!(store.limits().record, Some(LARGEST_ITEM));
    }

    #[test]
    fn an_id_is_as_long_as_the_key_that_has_it_may_be() {
        let longest = [false, true].map(|is_composite| store(is_composite).items.longest_id());
        assert_eq!(longest, [2_048, 1_024]);
    }
}
