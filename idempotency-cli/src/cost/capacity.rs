//! What each path of a call costs, in DynamoDB's capacity units.
//!
//! The figures follow from DynamoDB's documented rules and the requests of the protocol. `tests.rs` compares them with the units
//! that a database reports for each request.

use std::ops::Add;

use idempotency_core::protocol::policy::Lookup;
use idempotency_core::store::Consistency;

fn units(bytes: usize, unit: usize) -> f64 {
    // An item has at most 400 KB, so the number is small.
    let units = u32::try_from(bytes.div_ceil(unit).max(1)).unwrap_or(u32::MAX);
    f64::from(units)
}

/// Capacity that requests consume.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Capacity {
    /// Write units.
    pub(super) write: f64,
    /// Read units.
    pub(super) read: f64,
}

impl Capacity {
    /// Returns the capacity of one write. `bytes` is the larger of the item before and after it; of a refused write, the item that
    /// refused it.
    pub(super) fn of_write(bytes: usize) -> Self {
        Self {
            write: units(bytes, 1_024),
            read: 0.0,
        }
    }

    /// Returns the capacity of one read of an item of this size. An item that does not exist has no bytes.
    pub(super) fn of_read(bytes: usize, consistency: Consistency) -> Self {
        let whole = units(bytes, 4_096);
        let read = match consistency {
            Consistency::Strong => whole,
            Consistency::Eventual => whole / 2.0,
        };
        Self { write: 0.0, read }
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

/// The longest response that fits one item of 400 KB, in bytes.
pub(super) const LARGEST_RESPONSE: usize = 400 * 1_024 - RecordSize::OTHER_ATTRIBUTES;

/// The size of one record as DynamoDB counts it: names and values of all attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordSize {
    /// The bytes of the claim.
    pub(super) claim: usize,
    /// The bytes of the completed record.
    pub(super) completed: usize,
}

impl RecordSize {
    /// How many bytes are reckoned for all attributes but the response. A record whose key prefix and path have 40 bytes together
    /// takes about 220.
    pub(super) const OTHER_ATTRIBUTES: usize = 256;

    /// Returns the size of a record whose response has this many bytes as JSON text, in one attribute and not compressed.
    pub(super) fn of_response(bytes: usize) -> Self {
        Self {
            claim: Self::OTHER_ATTRIBUTES,
            completed: Self::OTHER_ATTRIBUTES + bytes,
        }
    }
}

/// A path of a call, as the requests that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
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
    pub(super) const ALL: [Self; 7] = [
        Self::FirstRun,
        Self::Duplicate,
        Self::InProgress,
        Self::Waited,
        Self::Released,
        Self::Recorded,
        Self::WarmUp,
    ];

    /// Returns the requests of the path in their order, each with what it consumes. `!` marks a write whose condition fails.
    fn request_costs(self, lookup: Lookup, size: RecordSize) -> Vec<(&'static str, Capacity)> {
        let RecordSize { claim, completed } = size;
        let write = |action, bytes| (action, Capacity::of_write(bytes));
        let read = |bytes, consistency| ("GetItem", Capacity::of_read(bytes, consistency));
        let put = write("PutItem", claim);
        // The bytes that the read before the claim finds, and the requests after that read.
        let (found, after) = match self {
            Self::FirstRun => (0, vec![put, write("UpdateItem", completed)]),
            Self::Recorded => (0, vec![put, write("UpdateItem", claim)]),
            Self::Released => (0, vec![put, write("DeleteItem", claim)]),
            Self::Duplicate if lookup == Lookup::ReadFirst => (completed, vec![]),
            Self::Duplicate => (completed, vec![write("PutItem!", completed)]),
            Self::InProgress => (claim, vec![write("PutItem!", claim)]),
            Self::Waited => {
                let again = read(completed, Consistency::Strong);
                (claim, vec![write("PutItem!", claim), again])
            }
            Self::WarmUp => return vec![read(0, Consistency::Eventual)],
        };
        let first = lookup == Lookup::ReadFirst;
        let first = first.then(|| read(found, Consistency::Eventual));
        first.into_iter().chain(after).collect()
    }

    /// Returns the requests of the path, in their order. `!` marks a write whose condition fails.
    pub(super) fn requests(self, lookup: Lookup) -> impl Iterator<Item = &'static str> {
        let requests = self.request_costs(lookup, RecordSize::of_response(0));
        requests.into_iter().map(|(request, _)| request)
    }

    /// Returns what the path consumes.
    pub(super) fn capacity(self, lookup: Lookup, size: RecordSize) -> Capacity {
        let requests = self.request_costs(lookup, size).into_iter();
        requests.fold(Capacity::default(), |sum, (_, capacity)| sum + capacity)
    }
}

/// What one unit costs, in any currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prices {
    /// One write unit.
    pub(super) write: f64,
    /// One read unit.
    pub(super) read: f64,
}

impl Prices {
    /// Returns what this capacity costs.
    pub(super) fn of(self, capacity: Capacity) -> f64 {
        capacity.write * self.write + capacity.read * self.read
    }

    /// Returns what a call costs on average, if this share of the calls (0 to 1) are duplicates of finished calls, and the
    /// others run.
    pub(super) fn average(self, lookup: Lookup, size: RecordSize, duplicates: f64) -> f64 {
        let of = |path: Path| self.of(path.capacity(lookup, size));
        (1.0 - duplicates) * of(Path::FirstRun) + duplicates * of(Path::Duplicate)
    }

    /// Returns the share of duplicates of finished calls (0 to 1) above which `read-first` is cheaper than `claim-first`; `None`
    /// if it never is.
    pub(super) fn read_first_pays_above(self, size: RecordSize) -> Option<f64> {
        let of = |path: Path, lookup| self.of(path.capacity(lookup, size));
        let extra = of(Path::FirstRun, Lookup::ReadFirst) - of(Path::FirstRun, Lookup::ClaimFirst);
        let saved =
            of(Path::Duplicate, Lookup::ClaimFirst) - of(Path::Duplicate, Lookup::ReadFirst);
        // p * saved = (1 - p) * extra
        (saved > 0.0).then(|| extra / (extra + saved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_rounded_up_and_an_empty_item_costs_as_much_as_one_byte() {
        for (bytes, write, strong, eventual) in [
            (0, 1.0, 1.0, 0.5),
            (1, 1.0, 1.0, 0.5),
            (1_024, 1.0, 1.0, 0.5),
            (1_025, 2.0, 1.0, 0.5),
            (4_096, 4.0, 1.0, 0.5),
            (4_097, 5.0, 2.0, 1.0),
            (409_600, 400.0, 100.0, 50.0),
        ] {
            let read = |consistency| Capacity::of_read(bytes, consistency).read;
            assert_eq!(Capacity::of_write(bytes).write, write, "{bytes}");
            assert_eq!(read(Consistency::Strong), strong, "{bytes}");
            assert_eq!(read(Consistency::Eventual), eventual, "{bytes}");
        }
    }

    #[test]
    fn the_larger_record_of_a_write_counts() {
        let size = RecordSize::of_response(40_000);
        let first = Path::FirstRun.capacity(Lookup::ClaimFirst, size);
        assert_eq!((first.write, first.read), (1.0 + 40.0, 0.0));
        let failed = Path::Released.capacity(Lookup::ClaimFirst, size);
        assert_eq!((failed.write, failed.read), (2.0, 0.0));
    }

    #[test]
    fn at_the_share_both_lookups_cost_the_same_and_beyond_it_read_first_costs_less() {
        let prices = Prices {
            write: 0.625,
            read: 0.125,
        };
        for response in [0, 500, 1_000, 4_000, 40_000, 400_000] {
            let size = RecordSize::of_response(response);
            let share = prices.read_first_pays_above(size).unwrap();
            let average = |lookup, share| prices.average(lookup, size, share);
            let (claim, read) = (Lookup::ClaimFirst, Lookup::ReadFirst);
            assert!((average(claim, share) - average(read, share)).abs() < 1e-9);
            assert!(average(read, share + 0.01) < average(claim, share + 0.01));
            assert!(average(read, share - 0.001) > average(claim, share - 0.001));
        }
    }

    #[test]
    fn read_first_never_pays_if_a_read_costs_more_than_the_write() {
        let prices = Prices {
            write: 1.0,
            read: 3.0,
        };
        let size = RecordSize::of_response(100);
        assert_eq!(prices.read_first_pays_above(size), None);
    }
}
