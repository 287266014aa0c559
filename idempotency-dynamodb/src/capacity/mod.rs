//! What each path of a call costs, in DynamoDB's capacity units.
//!
//! The figures follow from DynamoDB's documented rules and the requests of the protocol. `tests/tests/dynamodb/capacity.rs` of the
//! repository compares them with the units that a database reports for each request. `idempotency cost` prints them.

mod steps;

pub use steps::StepResults;

use std::ops::Add;

use idempotency_core::protocol::policy::Lookup;
use idempotency_core::store::Consistency;

/// Returns the write units of one write. `bytes` is the larger of the item before and after it; of a refused write, the item that
/// refused it.
///
/// # Examples
///
/// ```
/// use idempotency_dynamodb::capacity::write_units;
/// assert_eq!((write_units(0), write_units(1_024), write_units(1_025)), (1.0, 1.0, 2.0));
/// ```
pub fn write_units(bytes: usize) -> f64 {
    units(bytes, 1_024)
}

/// Returns the read units of one read of an item of this size. An item that does not exist has no bytes.
///
/// # Examples
///
/// ```
/// use idempotency_core::store::Consistency;
/// use idempotency_dynamodb::capacity::read_units;
/// assert_eq!(read_units(4_097, Consistency::Strong), 2.0);
/// assert_eq!(read_units(4_097, Consistency::Eventual), 1.0);
/// assert_eq!(read_units(0, Consistency::Eventual), 0.5);
/// ```
pub fn read_units(bytes: usize, consistency: Consistency) -> f64 {
    let whole = units(bytes, 4_096);
    match consistency {
        Consistency::Strong => whole,
        Consistency::Eventual => whole / 2.0,
    }
}

fn units(bytes: usize, unit: usize) -> f64 {
    // An item has at most 400 KB, so the number is small.
    let units = u32::try_from(bytes.div_ceil(unit).max(1)).unwrap_or(u32::MAX);
    f64::from(units)
}

/// Capacity that requests consume.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Capacity {
    /// Write units.
    pub write: f64,
    /// Read units.
    pub read: f64,
}

impl Capacity {
    fn of_write(bytes: usize) -> Self {
        Self {
            write: write_units(bytes),
            read: 0.0,
        }
    }

    fn of_read(bytes: usize, consistency: Consistency) -> Self {
        Self {
            write: 0.0,
            read: read_units(bytes, consistency),
        }
    }
}

impl Add for Capacity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            write: self.write + other.write,
            read: self.read + other.read,
        }
    }
}

/// The size of one record as DynamoDB counts it: names and values of all attributes.
///
/// # Examples
///
/// ```
/// use idempotency_dynamodb::capacity::RecordSize;
/// let size = RecordSize::of_response(4_000);
/// assert_eq!((size.claim, size.completed), (256, 4_256));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSize {
    /// The bytes of the claim.
    pub claim: usize,
    /// The bytes of the completed record.
    pub completed: usize,
}

impl RecordSize {
    /// How many bytes are reckoned for all attributes but the response. A record whose key prefix and path have 40 bytes together
    /// takes about 220.
    pub const OTHER_ATTRIBUTES: usize = 256;

    /// Returns the size of a record whose response has this many bytes as JSON text, in one attribute and not compressed.
    pub fn of_response(bytes: usize) -> Self {
        Self {
            claim: Self::OTHER_ATTRIBUTES,
            completed: Self::OTHER_ATTRIBUTES + bytes,
        }
    }
}

/// A path of a call, as the requests that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// The first call of a key: it claims, runs and completes.
    FirstRun,
    /// A duplicate of a finished call.
    Duplicate,
    /// A duplicate of a running call, under `on_in_progress = "reject"`.
    InProgress,
    /// The same under `wait`, with one read after a pause, which finds the response.
    Waited,
    /// The handler failed, under `on_error = "release"`; also a response that is not stored.
    Released,
    /// The handler failed, under `on_error = "record"`.
    Recorded,
    /// The read at a cold start.
    WarmUp,
}

impl Path {
    /// All paths.
    pub const ALL: [Self; 7] = [
        Self::FirstRun,
        Self::Duplicate,
        Self::InProgress,
        Self::Waited,
        Self::Released,
        Self::Recorded,
        Self::WarmUp,
    ];

    /// Returns the requests of the path, in their order. `!` marks a write whose condition fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::protocol::policy::Lookup;
    /// use idempotency_dynamodb::capacity::Path;
    /// assert_eq!(Path::Duplicate.requests(Lookup::ClaimFirst), ["PutItem!"]);
    /// assert_eq!(Path::Duplicate.requests(Lookup::ReadFirst), ["GetItem"]);
    /// ```
    pub fn requests(self, lookup: Lookup) -> Vec<&'static str> {
        let after_the_read = match self {
            Self::FirstRun | Self::Recorded => vec!["PutItem", "UpdateItem"],
            Self::Released => vec!["PutItem", "DeleteItem"],
            Self::InProgress => vec!["PutItem!"],
            Self::Waited => vec!["PutItem!", "GetItem"],
            Self::Duplicate if lookup == Lookup::ReadFirst => vec![],
            Self::Duplicate => vec!["PutItem!"],
            Self::WarmUp => return vec!["GetItem"],
        };
        let read = (lookup == Lookup::ReadFirst).then_some("GetItem");
        read.into_iter().chain(after_the_read).collect()
    }

    /// Returns what the path consumes.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::protocol::policy::Lookup;
    /// use idempotency_dynamodb::capacity::{Path, RecordSize};
    /// let size = RecordSize::of_response(4_000);
    /// assert_eq!(Path::Duplicate.capacity(Lookup::ClaimFirst, size).write, 5.0);
    /// assert_eq!(Path::Duplicate.capacity(Lookup::ReadFirst, size).read, 1.0);
    /// ```
    pub fn capacity(self, lookup: Lookup, size: RecordSize) -> Capacity {
        let RecordSize { claim, completed } = size;
        let refused = Capacity::of_write;
        let eventual = |bytes| Capacity::of_read(bytes, Consistency::Eventual);
        // What the read before the claim finds.
        let (found, then) = match self {
            Self::FirstRun => (0, Capacity::of_write(claim) + Capacity::of_write(completed)),
            Self::Released | Self::Recorded => {
                (0, Capacity::of_write(claim) + Capacity::of_write(claim))
            }
            Self::Duplicate if lookup == Lookup::ReadFirst => (completed, Capacity::default()),
            Self::Duplicate => (completed, refused(completed)),
            Self::InProgress => (claim, refused(claim)),
            Self::Waited => {
                let read = Capacity::of_read(completed, Consistency::Strong);
                (claim, refused(claim) + read)
            }
            Self::WarmUp => return eventual(0),
        };
        match lookup {
            Lookup::ReadFirst => eventual(found) + then,
            _ => then,
        }
    }
}

/// Returns what a first run with staged writes consumes: the claim, and one transaction with the completion and these items, of
/// which each costs twice its units. `staged` has the size of each item in bytes, the larger of before and after.
///
/// # Examples
///
/// ```
/// use idempotency_dynamodb::capacity::{RecordSize, first_run_with_transaction};
/// let two_small_items = first_run_with_transaction(RecordSize::of_response(500), [100, 100]);
/// assert_eq!(two_small_items.write, 7.0);
/// ```
pub fn first_run_with_transaction(
    size: RecordSize,
    staged: impl IntoIterator<Item = usize>,
) -> Capacity {
    let items = staged.into_iter().chain([size.completed]);
    let transaction: f64 = items.map(|bytes| 2.0 * write_units(bytes)).sum();
    Capacity::of_write(size.claim)
        + Capacity {
            write: transaction,
            read: 0.0,
        }
}

/// What one unit costs, in any currency. A unit of the same kind costs the same on demand and, at full use, provisioned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// One write unit.
    pub write: f64,
    /// One read unit.
    pub read: f64,
}

impl Prices {
    /// Returns what this capacity costs.
    pub fn of(self, capacity: Capacity) -> f64 {
        capacity.write * self.write + capacity.read * self.read
    }

    /// Returns what a call costs on average, if this share of the calls (0 to 1) are duplicates of finished calls, and the
    /// others run.
    pub fn average(self, lookup: Lookup, size: RecordSize, duplicates: f64) -> f64 {
        let of = |path: Path| self.of(path.capacity(lookup, size));
        (1.0 - duplicates) * of(Path::FirstRun) + duplicates * of(Path::Duplicate)
    }

    /// Returns the share of duplicates of finished calls (0 to 1) above which `read-first` is cheaper than `claim-first`; `None`
    /// if it never is.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_dynamodb::capacity::{Prices, RecordSize};
    /// // A write unit costs five times as much as a read unit.
    /// let prices = Prices { write: 5.0, read: 1.0 };
    /// let share = prices.read_first_pays_above(RecordSize::of_response(500)).unwrap();
    /// assert!((share - 0.1).abs() < 1e-9);
    /// ```
    pub fn read_first_pays_above(self, size: RecordSize) -> Option<f64> {
        let of = |path: Path, lookup| self.of(path.capacity(lookup, size));
        let extra = of(Path::FirstRun, Lookup::ReadFirst) - of(Path::FirstRun, Lookup::ClaimFirst);
        let saved =
            of(Path::Duplicate, Lookup::ClaimFirst) - of(Path::Duplicate, Lookup::ReadFirst);
        // p * saved = (1 - p) * extra
        (saved > 0.0).then(|| extra / (extra + saved))
    }
}

#[cfg(test)]
mod tests;
