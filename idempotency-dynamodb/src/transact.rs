//! The user's writes and the completion in one `TransactWriteItems`.
//!
//! A handler stages writes with the builders of the SDK. When it has returned its response, they and the completion of its key go
//! out as one request: all of them are applied and the response is stored, or nothing is.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;

use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Delete, Put, TransactWriteItem, Update,
};
use dynamodb_lean_client::sdk::{is_about_size, without_values};
use idempotency_core::operation::{Call, StageError};
use idempotency_core::store::{RejectedWrite, Rejection, Staged, StagedWrites};

use crate::limits::{LARGEST_ITEM, LARGEST_TRANSACTION};
use crate::value::Item;

/// The most writes that a handler can stage. DynamoDB accepts 100 items, and the record of the call is one of them.
const MAX_STAGED: usize = 99;

/// A write cannot be a part of a transaction. It was not staged, and nothing was sent.
///
/// The text names the write by its position and its table, never by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    message: String,
}

impl LimitError {
    fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for LimitError {}

/// The staged writes of one call.
#[derive(Default)]
pub(crate) struct Writes {
    items: Vec<TransactWriteItem>,
    /// The estimated size of all items, in bytes.
    bytes: usize,
}

impl Writes {
    /// Stages a write.
    ///
    /// # Errors
    ///
    /// If the transaction would exceed a limit of DynamoDB. Then nothing is staged.
    pub(crate) fn push(&mut self, item: TransactWriteItem) -> Result<(), LimitError> {
        let number = self.items.len() + 1;
        if number > MAX_STAGED {
            return Err(LimitError::new(format!(
                "a transaction has at most 100 items, one of which is the record of the call, so at most {MAX_STAGED} writes can \
                 be staged"
            )));
        }
        let write = Write::of(&item).ok_or_else(|| {
            LimitError::new(format!(
                "write {number} must be exactly one put, update, delete or condition check"
            ))
        })?;
        write.check(number)?;
        let bytes = self.bytes + write.bytes();
        if bytes > LARGEST_TRANSACTION {
            return Err(LimitError::new(format!(
                "with write {number} ({}) the items of the transaction have about {bytes} bytes, and DynamoDB accepts at most 4 MB",
                write.name()
            )));
        }
        if let Some(other) = self.same_item(&write) {
            return Err(LimitError::new(format!(
                "write {number} ({}) and write {} have the same item: DynamoDB accepts one operation for each item of a transaction",
                write.name(),
                other + 1
            )));
        }
        self.bytes = bytes;
        self.items.push(item);
        Ok(())
    }

    /// Returns the position of the staged write of the same item, counted from zero.
    ///
    /// Two puts can be compared only if another write of their table shows which attributes are its key. What is not found here is
    /// refused by DynamoDB.
    fn same_item(&self, write: &Write<'_>) -> Option<usize> {
        let staged = || self.items.iter().filter_map(Write::of);
        let keys = staged().chain(Some(*write));
        let key_names: Vec<&str> = keys
            .filter(|other| other.table() == write.table())
            .find_map(|other| other.key())
            .map(|key| key.keys().map(String::as_str).collect())
            .unwrap_or_default();
        if key_names.is_empty() {
            return None;
        }
        staged().position(|other| other.has(write.table, write.attributes, &key_names))
    }

    /// Returns the position of the staged write of this item, counted from zero.
    pub(crate) fn position_of(&self, table: &str, key: &Item) -> Option<usize> {
        let names: Vec<&str> = key.keys().map(String::as_str).collect();
        let mut writes = self.items.iter().filter_map(Write::of);
        writes.position(|write| write.has(table, key, &names))
    }

    /// Returns the items of the request.
    pub(crate) fn items(&self) -> &[TransactWriteItem] {
        &self.items
    }

    /// Returns the estimated size of all items, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the name of a staged write in errors, such as ``update of table `accounts` ``.
    pub(crate) fn name(&self, index: usize) -> String {
        let write = self.items.get(index).and_then(Write::of);
        write.map_or_else(|| "unknown".to_owned(), |write| write.name().to_string())
    }
}

impl StagedWrites for Writes {
    fn count(&self) -> usize {
        self.items.len()
    }

    fn what(&self) -> &'static str {
        "writes of DynamoDB items (a test performs them with the `EmbeddedDynamoDb` of `idempotency-testkit`)"
    }
}

/// Returns these writes as the staged writes of a transaction, for a test of a store. A handler stages with its call.
///
/// # Errors
///
/// If a limit of DynamoDB is exceeded.
pub fn staged(items: impl IntoIterator<Item = TransactWriteItem>) -> Result<Staged, LimitError> {
    let mut writes = Writes::default();
    for item in items {
        writes.push(item)?;
    }
    Ok(Staged::new(writes))
}

/// Returns the error of a transaction that would be too large with its record, if it would be.
pub(crate) fn too_large(staged: usize, record: usize) -> Option<LimitError> {
    let bytes = staged + record;
    (bytes > LARGEST_TRANSACTION).then(|| {
        LimitError::new(format!(
            "the staged writes and the record have about {bytes} bytes, and DynamoDB accepts at most 4 MB"
        ))
    })
}

// How a handler stages writes: `call.transaction()`.

/// Adds [`transaction`](Self::transaction) to [`Call`].
pub trait Transactional {
    /// Returns the transaction of this call: what is staged in it is applied together with the completion of the key, or not at all.
    ///
    /// Two transactions of one call are the same one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use aws_sdk_dynamodb::types::{AttributeValue, Update};
    /// use idempotency_core::operation::Call;
    /// use idempotency_dynamodb::transact::Transactional;
    ///
    /// # type BoxError = Box<dyn std::error::Error + Send + Sync>;
    /// /// Takes an amount from an account, if it is there.
    /// fn take(call: &Call, account: &str, amount: u32) -> Result<(), BoxError> {
    ///     let take = Update::builder()
    ///         .table_name("accounts")
    ///         .key("id", AttributeValue::S(account.into()))
    ///         .update_expression("SET balance = balance - :amount")
    ///         .condition_expression("balance >= :amount")
    ///         .expression_attribute_values(":amount", AttributeValue::N(amount.to_string()));
    ///     call.transaction().update(take.build()?)?;
    ///     Ok(())
    /// }
    /// ```
    fn transaction(&self) -> Transaction;
}

impl Transactional for Call {
    fn transaction(&self) -> Transaction {
        Transaction { call: self.clone() }
    }
}

/// The writes that a handler stages. Nothing is sent before the handler has returned its response.
///
/// - All of them are applied and the response is stored, or nothing is. If the handler returns an error, panics, or returns a
///   response that by policy is not stored, none of them is applied.
/// - Over HTTP the status decides, also of an `Err` in axum: 409 and 500 drop them; 402 and 422 are stored, and apply them.
/// - A condition that does not hold ends the call in `TransactionRejected`, with the position of the write and, if the write asks for
///   it (`return_values_on_condition_check_failure`), the current item as a `HashMap<String, AttributeValue>`. The key is free again.
/// - A handler cannot read what it has staged.
/// - A write is refused in a step, and in the handler of another operation inside. After a refusal a response of the handler ends in
///   `TransactionRejected`: return the error.
/// - The items may be of any table of the account and the region. The function needs the permission for each write:
///   `dynamodb:PutItem`, `dynamodb:UpdateItem`, `dynamodb:DeleteItem`, `dynamodb:ConditionCheckItem`.
/// - At most 99 writes, 4 MB, one write for each item.
#[derive(Clone)]
pub struct Transaction {
    call: Call,
}

impl Transaction {
    /// Stages a put.
    ///
    /// # Errors
    ///
    /// If a limit of DynamoDB is exceeded, if a step of the call is open, if the handler of another operation runs here, or if the handler
    /// of the call has ended. Nothing was staged or sent.
    pub fn put(self, put: Put) -> Result<Self, StageError<LimitError>> {
        self.write(TransactWriteItem::builder().put(put).build())
    }

    /// Stages an update.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn update(self, update: Update) -> Result<Self, StageError<LimitError>> {
        self.write(TransactWriteItem::builder().update(update).build())
    }

    /// Stages a deletion.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(self, delete: Delete) -> Result<Self, StageError<LimitError>> {
        self.write(TransactWriteItem::builder().delete(delete).build())
    }

    /// Stages the check of a condition, which changes nothing.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn check(self, check: ConditionCheck) -> Result<Self, StageError<LimitError>> {
        self.write(TransactWriteItem::builder().condition_check(check).build())
    }

    /// Stages a write in the form of the SDK, such as one that another library has built.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put), or if it is not exactly one write.
    pub fn write(self, item: TransactWriteItem) -> Result<Self, StageError<LimitError>> {
        self.call.stage(|writes: &mut Writes| writes.push(item))?;
        Ok(self)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

// One staged write: its table, its key, its size, and its name in errors.

/// A staged write, as the parts that its limits are about.
#[derive(Clone, Copy)]
struct Write<'a> {
    kind: &'static str,
    table: &'a str,
    /// The key of an update, a delete or a check; the whole item of a put.
    attributes: &'a Item,
    is_put: bool,
    values: Option<&'a HashMap<String, AttributeValue>>,
}

/// Returns the name of a table that a request names by its name or its ARN.
fn table_name(table: &str) -> &str {
    table.rsplit_once(":table/").map_or(table, |(_, name)| name)
}

impl<'a> Write<'a> {
    /// Returns the write of an item of a transaction. `None` if it has none, or more than one.
    fn of(item: &'a TransactWriteItem) -> Option<Self> {
        let of = |kind, table, attributes, values| Self {
            kind,
            table,
            attributes,
            is_put: item.put().is_some(),
            values,
        };
        let put = item.put().map(|it| {
            let values = it.expression_attribute_values();
            of("put into", it.table_name(), it.item(), values)
        });
        let update = item.update().map(|it| {
            let values = it.expression_attribute_values();
            of("update of", it.table_name(), it.key(), values)
        });
        let delete = item.delete().map(|it| {
            let values = it.expression_attribute_values();
            of("delete from", it.table_name(), it.key(), values)
        });
        let check = item.condition_check().map(|it| {
            let values = it.expression_attribute_values();
            of("check of", it.table_name(), it.key(), values)
        });
        let mut writes = [put, update, delete, check].into_iter().flatten();
        let first = writes.next();
        first.filter(|_| writes.next().is_none())
    }

    /// Checks the table, the key and the size of the write, the `number`th, counted from one.
    fn check(&self, number: usize) -> Result<(), LimitError> {
        let refuse = |what: String| {
            Err(LimitError::new(format!(
                "write {number} ({}) {what}",
                self.name()
            )))
        };
        if self.table.is_empty() {
            return refuse("names no table".to_owned());
        }
        if self.attributes.is_empty() {
            return refuse("has no key".to_owned());
        }
        if !self.is_put && self.attributes.values().any(is_empty) {
            return refuse("has an empty value in its key".to_owned());
        }
        let bytes = item_bytes(self.attributes);
        if bytes > LARGEST_ITEM {
            return refuse(format!(
                "has {bytes} bytes, and an item has at most {}",
                LARGEST_ITEM
            ));
        }
        Ok(())
    }

    /// Returns the name of the table.
    fn table(&self) -> &'a str {
        table_name(self.table)
    }

    /// Returns the key, unless it is hidden in the item of a put.
    fn key(&self) -> Option<&'a Item> {
        (!self.is_put).then_some(self.attributes)
    }

    /// Returns true if the write has the item with this key.
    fn has(&self, table: &str, key: &Item, key_names: &[&str]) -> bool {
        let same = |name: &&str| match (self.attributes.get(*name), key.get(*name)) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => false,
        };
        self.table() == table_name(table) && key_names.iter().all(same)
    }

    /// Returns the estimated size of the write: what the request contains. The size of the item that an update leaves is not known.
    fn bytes(&self) -> usize {
        item_bytes(self.attributes) + self.values.map_or(0, item_bytes)
    }

    /// Returns the name of the write in errors, such as ``update of table `accounts` ``.
    fn name(&self) -> impl fmt::Display + use<> {
        format!("{} table `{}`", self.kind, self.table)
    }
}

fn is_empty(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::S(text) => text.is_empty(),
        AttributeValue::B(bytes) => bytes.as_ref().is_empty(),
        _ => false,
    }
}

/// Returns the size of attributes, as DynamoDB counts it.
fn item_bytes(item: &HashMap<String, AttributeValue>) -> usize {
    let attributes = item.iter();
    attributes
        .map(|(name, value)| name.len() + value_bytes(value))
        .sum()
}

fn value_bytes(value: &AttributeValue) -> usize {
    /// The bytes of a list or a map, beside one for each of its elements.
    const NESTED: usize = 3;
    let number = |digits: &String| digits.len().div_ceil(2) + 1;
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => number(digits),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Ns(numbers) => numbers.iter().map(number).sum(),
        AttributeValue::Bs(all) => all.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::L(list) => {
            let elements = list.iter().map(|value| value_bytes(value) + 1);
            NESTED + elements.sum::<usize>()
        }
        AttributeValue::M(map) => NESTED + map.len() + item_bytes(map),
        // Booleans and null, and what a later SDK adds.
        _ => 1,
    }
}

// What the cancellation of a transaction means.
//
// DynamoDB gives one reason for each item of the request, in their order. The record comes first, and decides first: if its
// condition failed, the claim is lost, also if a staged write was refused. If another transaction has the record, nothing is
// known of it, so nothing is concluded from the staged writes.

/// What the cancellation of a transaction means.
pub(crate) enum Cancellation {
    /// The condition on the record did not hold. Contains the current item, if DynamoDB returned one.
    Record(Option<Item>),
    /// The record would be too large.
    RecordTooLarge,
    /// Staged writes were rejected.
    Staged(Rejection),
    /// Another transaction with one of the items is in progress.
    Conflict,
    /// A table or index has too little capacity at the moment. Contains the code.
    Throttled(String),
    /// The reasons do not say why. Contains the codes.
    Unknown(String),
}

impl Cancellation {
    /// Explains the reasons of a transaction of a record, if it has one, and these writes.
    pub(crate) fn of(
        mut reasons: Vec<CancellationReason>,
        has_record: bool,
        writes: &Writes,
    ) -> Self {
        let codes = || -> Vec<&str> { reasons.iter().map(code).collect() };
        if reasons.len() != writes.items().len() + usize::from(has_record) {
            return Self::Unknown(codes().join(", "));
        }
        let all = codes().join(", ");
        if has_record {
            let record = reasons.remove(0);
            match code(&record) {
                RejectedWrite::CONDITION => return Self::Record(record.item),
                TOO_LARGE => return Self::RecordTooLarge,
                INVALID if record.message().is_some_and(is_about_size) => {
                    return Self::RecordTooLarge;
                }
                CONFLICT => return Self::Conflict,
                throttled if is_throttled(throttled) => {
                    return Self::Throttled(throttled.to_owned());
                }
                NONE => {}
                _ => return Self::Unknown(all),
            }
        }
        let is_final = |reason: &CancellationReason| {
            let code = code(reason);
            code != NONE && code != CONFLICT && !is_throttled(code)
        };
        if reasons.iter().any(is_final) {
            let rejected = reasons.into_iter().enumerate();
            let rejected = rejected.filter(|(_, reason)| is_final(reason));
            let rejected = rejected.map(|(index, reason)| rejected_write(index, reason, writes));
            return Self::Staged(Rejection::new(writes.items().len(), rejected.collect()));
        }
        if reasons.iter().any(|reason| code(reason) == CONFLICT) {
            return Self::Conflict;
        }
        match reasons.iter().map(code).find(|code| is_throttled(code)) {
            Some(throttled) => Self::Throttled(throttled.to_owned()),
            None => Self::Unknown(all),
        }
    }
}

/// Returns a rejected write. DynamoDB's message is quoted for a write that it does not accept, unless it can contain values.
fn rejected_write(index: usize, reason: CancellationReason, writes: &Writes) -> RejectedWrite {
    let code = code(&reason).to_owned();
    let mut write = RejectedWrite::new(index, writes.name(index), code);
    if !write.is_condition()
        && let Some(message) = reason.message.as_deref().and_then(without_values)
    {
        write = write.with_message(message);
    }
    match reason.item.filter(|item| !item.is_empty()) {
        Some(item) => write.with_item(item),
        None => write,
    }
}

const NONE: &str = "None";
const CONFLICT: &str = "TransactionConflict";
const INVALID: &str = "ValidationError";
const TOO_LARGE: &str = "ItemCollectionSizeLimitExceeded";

fn code(reason: &CancellationReason) -> &str {
    reason.code().unwrap_or(NONE)
}

fn is_throttled(code: &str) -> bool {
    code == "ProvisionedThroughputExceeded" || code == "ThrottlingError"
}

/// The limits of staged writes, and the meaning of cancellations.
#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::primitives::Blob;
    use aws_sdk_dynamodb::types::{
        AttributeValue, CancellationReason, ConditionCheck, Delete, Put, TransactWriteItem, Update,
    };
    use idempotency_core::store::RejectedWrite;

    use super::*;

    fn text(value: &str) -> AttributeValue {
        AttributeValue::S(value.to_owned())
    }

    fn put(table: &str, id: &str) -> TransactWriteItem {
        let put = Put::builder().table_name(table).item("id", text(id));
        let put = put.item("total", AttributeValue::N("5".to_owned()));
        let put = put.build().unwrap();
        TransactWriteItem::builder().put(put).build()
    }

    fn update(table: &str, id: &str) -> TransactWriteItem {
        let update = Update::builder().table_name(table).key("id", text(id));
        let update = update.update_expression("SET a = :a");
        let update = update.expression_attribute_values(":a", text("x"));
        let update = update.build().unwrap();
        TransactWriteItem::builder().update(update).build()
    }

    fn delete(table: &str, key: (&str, AttributeValue)) -> TransactWriteItem {
        let delete = Delete::builder().table_name(table).key(key.0, key.1);
        let delete = delete.build().unwrap();
        TransactWriteItem::builder().delete(delete).build()
    }

    fn check(table: &str, id: &str) -> TransactWriteItem {
        let check = ConditionCheck::builder().table_name(table);
        let check = check.condition_expression("attribute_exists(id)");
        let check = check.key("id", text(id)).build().unwrap();
        TransactWriteItem::builder().condition_check(check).build()
    }

    /// Returns the deletion of an item with a binary key.
    fn binary(key: &[u8]) -> TransactWriteItem {
        delete("t", ("id", AttributeValue::B(Blob::new(key))))
    }

    fn writes_of(items: impl IntoIterator<Item = TransactWriteItem>) -> Result<Writes, String> {
        let mut writes = Writes::default();
        for item in items {
            writes.push(item).map_err(|error| error.to_string())?;
        }
        Ok(writes)
    }

    #[test]
    fn ninety_nine_writes_can_be_staged() {
        let writes = |count: usize| writes_of((0..count).map(|n| update("t", &n.to_string())));
        assert_eq!(writes(99).unwrap().count(), 99);
        assert!(
            Writes::default()
                .what()
                .starts_with("writes of DynamoDB items")
        );
        let error = writes(100).err().unwrap();
        assert!(error.contains("at most 99 writes"), "{error}");
    }

    #[test]
    fn two_operations_of_any_kind_on_one_item_are_refused() {
        for (first, second) in [
            (update("t", "1"), update("t", "1")),
            (update("t", "1"), delete("t", ("id", text("1")))),
            (check("t", "1"), update("t", "1")),
            (put("t", "1"), delete("t", ("id", text("1")))),
            (check("t", "1"), put("t", "1")),
            (
                update("arn:aws:dynamodb:eu-west-1:1:table/t", "1"),
                check("t", "1"),
            ),
        ] {
            let error = writes_of([first, second]).err().unwrap();
            for words in ["write 2", "write 1 have the same item", "`t`"] {
                assert!(error.contains(words), "{error}");
            }
        }
        // The key of the table is known from the third write only. DynamoDB refuses two puts alone.
        assert!(writes_of([put("t", "1"), put("t", "1")]).is_ok());
        let three = [update("t", "2"), put("t", "1"), put("t", "1")];
        let error = writes_of(three).err().unwrap();
        assert!(
            error.starts_with("write 3 (put into table `t`) and write 2 have"),
            "{error}"
        );
        assert!(writes_of([update("t", "1"), update("u", "1"), put("t", "2")]).is_ok());
        // The key of another table says nothing about this one: both puts have the same `total`.
        let other = delete("u", ("total", AttributeValue::N("5".to_owned())));
        assert!(writes_of([other, put("t", "1"), put("t", "2")]).is_ok());
    }

    #[test]
    fn a_write_without_a_key_a_table_or_an_operation_is_refused() {
        let nothing = TransactWriteItem::builder().build();
        let error = writes_of([nothing]).err().unwrap();
        assert_eq!(
            error,
            "write 1 must be exactly one put, update, delete or condition check"
        );
        for (item, why) in [
            (update("", "1"), "names no table"),
            (update("t", ""), "has an empty value in its key"),
            (binary(b""), "has an empty value in its key"),
        ] {
            let error = writes_of([item]).err().unwrap();
            assert!(error.ends_with(why), "{error}");
        }
        // An attribute of a put need not be its key.
        assert!(writes_of([binary(b"1"), put("t", "")]).is_ok());
    }

    #[test]
    fn items_of_more_than_400_kb_and_transactions_of_more_than_4_mb_are_refused() {
        let large = |id: &str, bytes: usize| {
            let put = Put::builder().table_name("t").item("id", text(id));
            let put = put.item("b", AttributeValue::B(Blob::new(vec![0; bytes])));
            let put = put.build().unwrap();
            TransactWriteItem::builder().put(put).build()
        };
        let error = writes_of([large("1", 400 * 1024)]).err().unwrap();
        let begin = "write 1 (put into table `t`) has 409604 bytes";
        assert!(error.starts_with(begin), "{error}");
        // Ten of 409,600 bytes, the most that an item can have, and one of the 98,304 bytes that are left.
        let writes = |bytes: usize| {
            let ten = (0..10).map(|n| large(&n.to_string(), 409_596));
            writes_of(ten.chain([large("10", bytes)]))
        };
        assert_eq!(writes(98_299).unwrap().count(), 11);
        let error = writes(98_300).err().unwrap();
        assert!(
            error.starts_with("with write 11 ") && error.ends_with("4 MB"),
            "{error}"
        );
        assert!(writes_of([large("1", 409_597)]).is_err());
        assert!(too_large(4 * 1024 * 1024, 1).is_some() && too_large(4 * 1024 * 1024, 0).is_none());
    }

    #[test]
    fn a_value_of_each_type_has_the_size_that_dynamodb_counts() {
        use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, Ss};

        let bytes = |length| Blob::new(vec![0; length]);
        let numbers = || vec!["17".to_owned(), "1234567".to_owned()];
        let map = HashMap::from([("ab".to_owned(), text("c")), ("d".to_owned(), Null(true))]);
        for (value, size) in [
            (text("é1"), 3),
            (N("1234567".to_owned()), 5),
            (B(bytes(4)), 4),
            (Ss(numbers()), 9),
            (Ns(numbers()), 7),
            (Bs(vec![bytes(4), bytes(2)]), 6),
            (L(vec![text("abc"), Bool(true)]), 9),
            (M(map), 10),
            (Bool(false), 1),
        ] {
            assert_eq!(value_bytes(&value), size, "{value:?}");
        }
    }

    #[test]
    fn a_refused_write_is_not_staged() {
        let mut writes = writes_of([update("t", "1")]).unwrap();
        // Its key and the value of its expression, each with its name.
        assert_eq!(writes.bytes(), "id1".len() + ":ax".len());
        assert!(writes.push(delete("t", ("id", text("1")))).is_err());
        assert_eq!((writes.count(), writes.bytes()), (1, 6));
    }

    #[test]
    fn the_item_of_the_record_is_found_among_the_staged_writes() {
        let writes = writes_of([update("t", "1"), put("records", "shop#1")]).unwrap();
        let key = |id: &str| Item::from([("id".to_owned(), text(id))]);
        let arn = "arn:aws:dynamodb:eu-west-1:1:table/records";
        assert_eq!(writes.position_of(arn, &key("shop#1")), Some(1));
        assert_eq!(writes.position_of("records", &key("shop#2")), None);
    }

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).build()
    }

    const FAILED: &str = RejectedWrite::CONDITION;

    /// Says what a cancellation means: for staged writes, how many were rejected, and whether by their conditions alone.
    fn meaning(cancellation: Cancellation) -> String {
        match cancellation {
            Cancellation::Record(None) => "record".to_owned(),
            Cancellation::Record(Some(_)) => "record with its item".to_owned(),
            Cancellation::RecordTooLarge => "record too large".to_owned(),
            Cancellation::Staged(rejection) => {
                let count = rejection.writes().len();
                format!("staged {count} {}", rejection.is_by_conditions())
            }
            Cancellation::Conflict => "conflict".to_owned(),
            Cancellation::Throttled(_) => "throttled".to_owned(),
            Cancellation::Unknown(_) => "unknown".to_owned(),
        }
    }

    #[test]
    fn the_reasons_of_a_record_and_two_staged_writes_mean_what_their_row_says() {
        for (codes, expected) in [
            // The condition on the record decides first.
            ("Failed None None", "record"),
            ("Failed Failed Failed", "record"),
            ("Failed TransactionConflict Failed", "record"),
            // Nothing is concluded from the staged writes while another transaction has the record.
            ("TransactionConflict Failed None", "conflict"),
            ("ThrottlingError Failed None", "throttled"),
            (
                "ItemCollectionSizeLimitExceeded None None",
                "record too large",
            ),
            ("ValidationError None None", "unknown"),
            // A staged write that is rejected decides before conflicts and throttling.
            ("None Failed TransactionConflict", "staged 1 true"),
            ("None Failed ValidationError", "staged 2 false"),
            ("None Failed Other", "staged 2 false"),
            // Conflicts and throttling of staged items are temporary.
            ("None TransactionConflict None", "conflict"),
            ("None TransactionConflict ThrottlingError", "conflict"),
            ("None None ProvisionedThroughputExceeded", "throttled"),
            // Reasons that do not fit the request explain nothing.
            ("", "unknown"),
            ("None None None", "unknown"),
            ("Failed", "unknown"),
            ("Other None None", "unknown"),
            ("Other Failed None", "unknown"),
        ] {
            let writes = writes_of([update("accounts", "1"), put("orders", "2")]).unwrap();
            let named = codes.split_whitespace();
            let named = named.map(|code| if code == "Failed" { FAILED } else { code });
            let cancellation = Cancellation::of(named.map(reason).collect(), true, &writes);
            assert_eq!(meaning(cancellation), expected, "{codes}");
        }
    }

    #[test]
    fn a_too_large_record_and_a_too_large_staged_item_have_different_meanings() {
        let writes = writes_of([update("accounts", "1")]).unwrap();
        let size = || {
            CancellationReason::builder()
                .code("ValidationError")
                .message("Item size to update has exceeded the maximum allowed size")
                .build()
        };
        let of = |reasons| meaning(Cancellation::of(reasons, true, &writes));
        assert_eq!(of(vec![size(), reason("None")]), "record too large");
        assert_eq!(of(vec![reason("None"), size()]), "staged 1 false");
    }

    #[test]
    fn the_message_of_dynamodb_is_quoted_unless_a_condition_failed() {
        const QUOTED: &str = "The provided key element does not match the schema";

        let writes = writes_of([update("accounts", "1")]).unwrap();
        for (code, is_quoted) in [("ValidationError", true), (FAILED, false)] {
            let reason = CancellationReason::builder().code(code);
            let reason = reason.message(format!("{QUOTED}: 5")).build();
            let Cancellation::Staged(rejection) = Cancellation::of(vec![reason], false, &writes)
            else {
                panic!("the write is rejected");
            };
            let text = rejection.to_string();
            assert_eq!(text.contains(QUOTED), is_quoted, "{text}");
        }
    }

    #[test]
    fn the_old_item_is_returned_and_never_shown() {
        let writes = writes_of([update("accounts", "1")]).unwrap();
        let failed = || CancellationReason::builder().code(FAILED);
        let failed_with = failed().item("balance", text("s3cr3t")).build();
        let Cancellation::Staged(rejection) = Cancellation::of(vec![failed_with], false, &writes)
        else {
            panic!("the condition failed");
        };
        let item = rejection.write(0).and_then(|write| write.item::<Item>());
        assert_eq!(item.unwrap()["balance"], text("s3cr3t"));
        assert!(!format!("{rejection} {rejection:?}").contains("s3cr3t"));
        // Without an item DynamoDB can send an empty one.
        let empty = failed().set_item(Some(Item::new()));
        for reason in [failed().build(), empty.build()] {
            let Cancellation::Staged(rejection) = Cancellation::of(vec![reason], false, &writes)
            else {
                panic!("the condition failed");
            };
            assert!(rejection.writes()[0].item::<Item>().is_none());
        }
    }
}
