//! The listing of a store's records, for an operator: a page at a time.

use super::{Condition, Consistency, Store, StoreError};
use crate::future::BoxFuture;
use crate::record::{Attribute, Record, RecordId, StoredEvent};

/// A store whose records can be listed.
///
/// No call of an operation lists records. An operator's command does, and what it serves is a store with this trait.
///
/// An implementation keeps these promises:
///
/// - A record that exists during the whole listing, and that the request asks for, is in one of the pages. It may be in two.
/// - A page reads a bounded number of records. It can be empty although more records follow.
/// - [`ScanPage::next`] is a text, with which another process can go on.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{MemoryStore, ScanRequest, StoreScan};
/// # idempotency_core::example::ready(async {
/// let store = MemoryStore::new();
/// for id in ["pay#1", "pay#2", "ship#1"] {
///     store.insert(RecordId::new(id), Record::default());
/// }
/// let first = store.scan(ScanRequest { prefix: "pay#", limit: 1, ..ScanRequest::default() }).await?;
/// assert_eq!(first.records[0].0.as_str(), "pay#1");
/// let rest = store.scan(ScanRequest { prefix: "pay#", after: first.next.as_deref(), ..ScanRequest::default() }).await?;
/// assert_eq!((rest.records.len(), rest.next), (1, None));
/// # Ok::<(), idempotency_core::store::StoreError>(())
/// # }).unwrap();
/// ```
pub trait StoreScan: Store {
    /// Reads one page.
    ///
    /// # Errors
    ///
    /// If the store cannot be read, or if `after` is not from a page of this store.
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>>;

    /// Returns what a record keeps of the event of its call, or `None` if it keeps nothing or there is no record.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or if what it keeps is damaged.
    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>>;
}

/// A request for one page of a listing.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest<'a> {
    /// Only records whose id begins with this text. Empty: all.
    pub prefix: &'a str,
    /// Only records for which this condition on their attributes holds. It has no `NoRecord`. `None`: all.
    pub filter: Option<&'a Condition>,
    /// How current the page has to be.
    pub consistency: Consistency,
    /// The most records that are read for the page, at least 1. Those that are left out by the filter count. A store may end the page
    /// earlier.
    pub limit: usize,
    /// The [`next`](ScanPage::next) of the page before, of a listing with the same prefix. `None`: the first page.
    pub after: Option<&'a str>,
}

/// Asks for the first 1,000 records, as they are or as they were.
impl Default for ScanRequest<'_> {
    fn default() -> Self {
        Self {
            prefix: "",
            filter: None,
            consistency: Consistency::Eventual,
            limit: 1_000,
            after: None,
        }
    }
}

/// One page of a listing.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    /// The records, each without its response, the results of its steps and its event: a [read](super::StoreRequest::Read) has them.
    pub records: Vec<(RecordId, Record)>,
    /// How many records were read, also for those that are left out.
    pub read: usize,
    /// What the page cost, in the unit in which the store bills reads. `None` for a store that does not bill them.
    pub billed: Option<f64>,
    /// Where the next page begins. `None`: this is the last one.
    pub next: Option<String>,
}

/// The attributes that a listing does not show. They can be long, and have personal data.
#[doc(hidden)]
pub const UNLISTED: [Attribute; 3] = [Attribute::Data, Attribute::Event, Attribute::Steps];

impl Record {
    /// Returns the record as a listing shows it.
    #[doc(hidden)]
    #[must_use]
    pub fn listed(mut self) -> Self {
        for attribute in UNLISTED {
            self.copy(attribute, &Self::default());
        }
        self
    }
}
