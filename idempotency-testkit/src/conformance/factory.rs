//! The interface between the suite and a store: it creates stores, and does what the `Store` trait cannot. It also writes records
//! as other programs do: in the store's own types, with missing attributes or attributes of a wrong type.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Attribute, Record, RecordId};
use idempotency_core::store::{OpenTransaction, Staged, StagedWrites, Store, StoreScan};

use crate::store::StoreOperation;

/// The future of what a factory does.
type FactoryFuture<'a, T> = BoxFuture<'a, Result<T, Box<dyn Error + Send + Sync>>>;

/// Creates the stores under test, and does to their records what the [`Store`] trait cannot.
///
/// All stores of one factory share their records, as two processes share one table. [`sharing`] makes a factory that offers nothing
/// else.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use idempotency_core::record::RecordId;
/// use idempotency_core::store::{MemoryStore, Store};
/// use idempotency_core::future::BoxFuture;
/// use idempotency_testkit::conformance::{ForeignRecord, StoreFactory};
///
/// type BoxError = Box<dyn std::error::Error + Send + Sync>;
///
/// struct InMemory(Arc<MemoryStore>);
///
/// impl StoreFactory for InMemory {
///     fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
///         let store: Arc<dyn Store> = self.0.clone();
///         Box::pin(async move { Ok(store) })
///     }
///
///     fn plant<'a>(&'a self, id: &'a RecordId, foreign: &'a ForeignRecord) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
///         self.0.insert(id.clone(), foreign.reads_as.clone());
///         Some(Box::pin(async { Ok(()) }))
///     }
/// }
/// ```
pub trait StoreFactory: Send + Sync {
    /// Returns a store over the records that all stores of this factory share.
    ///
    /// # Errors
    ///
    /// If the store cannot be created. Each case that needed it fails with this text.
    fn store(&self) -> FactoryFuture<'_, Arc<dyn Store>>;

    /// Writes a record without the store, as another program would; returns `None` if that is not possible.
    ///
    /// # Errors
    ///
    /// If the write fails. The case fails with this text.
    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<FactoryFuture<'a, ()>> {
        let _ = (id, foreign);
        None
    }

    /// Returns a store whose records can be listed, over the same records; `None` if they cannot be.
    ///
    /// # Errors
    ///
    /// If the store cannot be created. The case fails with this text.
    fn listing(&self) -> Option<FactoryFuture<'_, Arc<dyn StoreScan>>> {
        None
    }

    /// Arranges that the next request of this kind is applied and its reply is lost. Returns true if that could be arranged.
    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        let _ = operation;
        false
    }

    /// Returns the length of the longest response, in bytes, if the store knows one apart from the largest record
    /// ([`Store::limits`]), for example because it compresses or splits responses. The suite needs records of 301 KB.
    fn largest_response(&self) -> Option<usize> {
        None
    }

    /// Returns writes for a transaction of this store: they take one from what is left under `name`, on the condition that one is
    /// left. An unused name has `limit` left. [`staged`] makes the value. Returns `None` if the store performs no
    /// transactions.
    fn take_one(&self, name: &str, limit: u32) -> Option<Staged> {
        let _ = (name, limit);
        None
    }

    /// Begins a transaction, as [`Store::begin`] of this store does, and takes one in it from what is left under `name`. Returns `None` if
    /// the store has none.
    ///
    /// # Errors
    ///
    /// If it cannot be begun. The case fails with this text.
    fn open_taking_one<'a>(&'a self, name: &'a str) -> Option<FactoryFuture<'a, OpenTransaction>> {
        let _ = name;
        None
    }

    /// Returns how many such writes were applied to `name`.
    ///
    /// # Errors
    ///
    /// If that cannot be read. The case fails with this text.
    fn taken<'a>(&'a self, name: &'a str) -> FactoryFuture<'a, u32> {
        Box::pin(async move { Err(format!("the factory does not know `{name}`").into()) })
    }
}

/// Returns writes as a handler stages them, for [`StoreFactory::take_one`].
pub fn staged(writes: impl StagedWrites) -> Staged {
    Staged::new(writes)
}

/// Returns a factory of this one store. Cases that need more than the [`Store`] trait are skipped.
pub fn sharing(store: Arc<impl Store + 'static>) -> impl StoreFactory {
    SharedStore(store)
}

struct SharedStore(Arc<dyn Store>);

impl StoreFactory for SharedStore {
    fn store(&self) -> FactoryFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Ok(Arc::clone(&self.0)) })
    }
}

/// A value in one of the types that a table knows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ForeignValue {
    /// A text.
    Text(String),
    /// A number, as decimal text.
    Number(String),
    /// A boolean.
    Bool(bool),
    /// A null value (the attribute is present).
    Null,
    /// Bytes.
    Bytes(Vec<u8>),
    /// An ordered list of values.
    List(Vec<ForeignValue>),
    /// Named values.
    Map(BTreeMap<String, ForeignValue>),
}

/// A record as another program writes it, and the record that a store must read.
///
/// A store without a type of these values writes the closest type that it has, such that `reads_as` holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignRecord {
    /// The attributes except the id, under their default names.
    pub attributes: BTreeMap<String, ForeignValue>,
    /// The record that a store must read.
    pub reads_as: Record,
}

impl ForeignRecord {
    pub(super) fn with(self, attribute: Attribute, value: ForeignValue) -> Self {
        self.with_unknown(attribute.default_name(), value)
    }

    pub(super) fn with_unknown(mut self, name: &str, value: ForeignValue) -> Self {
        self.attributes.insert(name.to_owned(), value);
        self
    }
}

impl ForeignValue {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn number(number: impl ToString) -> Self {
        Self::Number(number.to_string())
    }
}
