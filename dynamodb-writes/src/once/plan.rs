//! The planner: what it costs to keep the keys in the item, and whether the item can hold them.

use std::fmt;
use std::time::Duration;

use super::layout::{BEHIND, Layout, MOST_OLD, PROMISED};
use dynamodb_lean_client::sdk::LARGEST_ITEM;

/// The bytes of one write unit.
const WRITE_UNIT: u64 = 1024;

/// The write units that one partition takes in a second. All writes of one item go to one partition.
const PARTITION: f64 = 1_000.0;

/// The longest lifetime of a key, and the largest clock skew.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The longest name that the attributes begin with, in bytes.
const LONGEST_PREFIX: usize = 64;

/// Returns the plan of items that take `writes_per_second` each and must know a key for `lifetime` after its first use.
///
/// The rate is that of the busiest item, at its peak, with duplicates: a duplicate takes the same write units.
///
/// # Examples
///
/// ```
/// use dynamodb_writes::once;
/// use std::time::Duration;
///
/// let hour = Duration::from_secs(3600);
/// let estimate = once::plan(0.1, hour).own_bytes(300).estimate()?;
/// assert_eq!((estimate.item_bytes(), estimate.write_units()), (7_554, 8));
///
/// // Each write takes the write units of the whole item, so a marker item is cheaper here, and the only way below.
/// assert!(estimate.is_marker_cheaper());
/// let busy = once::plan(10.0, hour).estimate()?;
/// assert!(!busy.holds());
/// assert!((3.8..4.0).contains(&busy.largest_rate()));
/// # Ok::<(), once::PlanError>(())
/// ```
pub fn plan(writes_per_second: f64, lifetime: Duration) -> Plan {
    Plan {
        rate: writes_per_second,
        lifetime,
        key_bytes: 12,
        own_bytes: 500,
        clock_skew: Duration::from_secs(60),
        prefix: "once_".to_owned(),
    }
}

/// How often items are written, and how long they know a key: made by [`plan`](plan()).
#[derive(Clone, Debug, PartialEq)]
#[must_use = "pass it to `Once::new`"]
pub struct Plan {
    rate: f64,
    lifetime: Duration,
    key_bytes: usize,
    own_bytes: u64,
    clock_skew: Duration,
    prefix: String,
}

impl Plan {
    /// Sets what the item takes without the keys, in bytes; 500 by default.
    pub fn own_bytes(mut self, own_bytes: u64) -> Self {
        self.own_bytes = own_bytes;
        self
    }

    /// Sets the bytes that are stored of the digest of a key, 8 to 32; 12 by default.
    ///
    /// Two keys with one digest would count as one. With `n` keys in the item, that happens to a new key with a probability of
    /// `n` in 256 to the power of this number: for 30,000 keys, 4 in 10^25 with 12 bytes and 2 in 10^15 with 8.
    pub fn key_bytes(mut self, key_bytes: usize) -> Self {
        self.key_bytes = key_bytes;
        self
    }

    /// Sets how far the clocks of the writers may differ, the time of a request included; one minute by default.
    ///
    /// Keys are kept for longer by it, so that they are known for the whole lifetime by each clock. A writer that differs by more is
    /// refused.
    pub fn clock_skew(mut self, clock_skew: Duration) -> Self {
        self.clock_skew = clock_skew;
        self
    }

    /// Sets how the names of the attributes that hold the keys begin; `once_` by default.
    ///
    /// Two independent counters in one item need two names.
    pub fn attributes(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Returns what the plan costs.
    ///
    /// # Errors
    ///
    /// [`PlanError::Invalid`] if a number is out of its range.
    pub fn estimate(&self) -> Result<Estimate, PlanError> {
        let layout = self.layout()?;
        Ok(Estimate::new(self, &layout))
    }

    /// Returns where the keys are kept, without regard to the rate: items of different rates share it.
    pub(super) fn layout(&self) -> Result<Layout, PlanError> {
        let invalid = |what: &str| Err(PlanError::Invalid(what.to_owned()));
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return invalid("the rate must be a number above 0");
        }
        if self.lifetime < Duration::from_secs(1) || self.lifetime > LONGEST {
            return invalid("the lifetime of a key must be 1 s to 366 days");
        }
        if self.clock_skew < Duration::from_secs(1) || self.clock_skew > LONGEST {
            return invalid("the clock skew must be 1 s to 366 days");
        }
        if !(8..=32).contains(&self.key_bytes) {
            return invalid("the bytes of a key must be 8 to 32");
        }
        if self.prefix.is_empty() || self.prefix.len() > LONGEST_PREFIX {
            return invalid("the name of the attributes must have 1 to 64 bytes");
        }
        // The promised buckets cover the lifetime and the skew, and one bucket covers the skew.
        let (lifetime, skew) = (whole_seconds(self.lifetime), whole_seconds(self.clock_skew));
        let share = (lifetime + skew).div_ceil(PROMISED.unsigned_abs());
        Ok(Layout {
            prefix: self.prefix.clone(),
            bucket: i64::try_from(share.max(skew)).unwrap_or(i64::MAX),
            key_bytes: self.key_bytes,
        })
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// What a plan costs, and what it can hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    rate: f64,
    largest_rate: f64,
    item_bytes: u64,
    average_bytes: u64,
    own_bytes: u64,
    bytes_per_key: u64,
    keys: u64,
    remembered_at_most: Duration,
}

impl Estimate {
    fn new(plan: &Plan, layout: &Layout) -> Self {
        let bucket = layout.bucket.unsigned_abs();
        let skew = whole_seconds(plan.clock_skew);
        // The current bucket and those behind are full when the next one begins. Writers whose clocks are ahead or behind move keys
        // by at most the skew.
        let kept = (BEHIND.unsigned_abs() + 1) * bucket + skew;
        let written = |rate: f64, seconds: u64| (rate * seconds as f64).ceil() as u64;
        let most = |rate| written(rate, kept).saturating_add(MOST_OLD);
        let bytes = |keys| layout.size(keys).saturating_add(plan.own_bytes);
        let holds = |rate: f64| {
            let bytes = bytes(most(rate));
            bytes <= LARGEST_ITEM as u64 && rate * units(bytes) as f64 <= PARTITION
        };
        // The size grows with the rate, so the largest rate that holds is between these two.
        let (mut holding, mut too_high) = (0.0, PARTITION);
        for _ in 0..64 {
            let middle = (holding + too_high) / 2.0;
            if holds(middle) {
                holding = middle;
            } else {
                too_high = middle;
            }
        }
        Self {
            rate: plan.rate,
            largest_rate: if holds(PARTITION) { PARTITION } else { holding },
            item_bytes: bytes(most(plan.rate)),
            average_bytes: bytes(written(plan.rate, kept - bucket / 2 - skew)),
            own_bytes: plan.own_bytes,
            bytes_per_key: layout.bytes_per_key(),
            keys: most(plan.rate),
            remembered_at_most: Duration::from_secs(kept),
        }
    }

    /// Returns true if the item can hold its rate: it has at most 400 KB, and its writes take at most 1,000 write units a second.
    pub fn holds(&self) -> bool {
        self.item_bytes <= LARGEST_ITEM as u64 && self.rate * self.write_units() as f64 <= PARTITION
    }

    /// Returns the largest rate that an item can hold, in writes a second.
    pub fn largest_rate(&self) -> f64 {
        self.largest_rate
    }

    /// Returns the largest size of the item at the planned rate, in bytes.
    pub fn item_bytes(&self) -> u64 {
        self.item_bytes
    }

    /// Returns the number of keys in the item at its largest, some of them old: they stay in an item that was idle.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns what one key takes, in bytes.
    pub fn bytes_per_key(&self) -> u64 {
        self.bytes_per_key
    }

    /// Returns the write units of one write when the item is at its largest. Duplicates take them as well.
    pub fn write_units(&self) -> u64 {
        units(self.item_bytes)
    }

    /// Returns the write units of one write at the planned rate on average.
    pub fn average_write_units(&self) -> u64 {
        units(self.average_bytes)
    }

    /// Returns how long a key can be known at most.
    pub fn remembered_at_most(&self) -> Duration {
        self.remembered_at_most
    }

    /// Returns the write units of the alternative: one transaction with the update and a marker item for the key. A transaction
    /// takes twice the write units of its writes.
    pub fn marker_write_units(&self) -> u64 {
        2 * units(self.own_bytes) + 2
    }

    /// Returns the largest rate of an item with markers, in writes a second. Markers are in partitions of their own.
    pub fn marker_largest_rate(&self) -> f64 {
        PARTITION / (2 * units(self.own_bytes)) as f64
    }

    /// Returns true if a marker item in the same transaction takes fewer write units on average.
    pub fn is_marker_cheaper(&self) -> bool {
        self.marker_write_units() < self.average_write_units()
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {} writes a second an item has up to {} keys and {} bytes (at most 409600) and takes {} write units a write; the \
             largest rate is {:.2} writes a second; a marker item in the same transaction takes {} write units and allows {:.0} \
             writes a second",
            self.rate,
            self.keys,
            self.item_bytes,
            self.write_units(),
            self.largest_rate,
            self.marker_write_units(),
            self.marker_largest_rate(),
        )
    }
}

fn units(bytes: u64) -> u64 {
    bytes.div_ceil(WRITE_UNIT).max(1)
}

/// A plan that cannot be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// A number is out of its range.
    Invalid(String),
    /// The item cannot hold its rate.
    DoesNotHold(Box<Estimate>),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(problem) => f.write_str(problem),
            Self::DoesNotHold(estimate) => write!(
                f,
                "the item cannot hold its rate: {estimate}: plan a lower rate or a shorter lifetime, spread the counter over \
                 several items, or use a marker item"
            ),
        }
    }
}

impl std::error::Error for PlanError {}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn estimate(plan: Plan) -> Estimate {
        plan.estimate().unwrap()
    }

    #[test]
    fn the_largest_rate_holds_and_a_little_more_does_not() {
        for (lifetime, own_bytes) in [
            (Duration::from_secs(10), 100),
            (HOUR, 500),
            (HOUR * 24, 500),
            (HOUR * 24 * 30, 100_000),
        ] {
            let at = |rate| estimate(plan(rate, lifetime).own_bytes(own_bytes));
            let largest = at(1.0).largest_rate();
            assert!(at(largest).holds(), "{lifetime:?}");
            assert!(!at(largest * 1.01 + 0.001).holds(), "{lifetime:?}");
            assert!((at(0.001).largest_rate() - largest).abs() < 1e-9);
        }
    }

    #[test]
    fn both_limits_of_dynamodb_are_checked() {
        // Many keys and few writes: the item would be too large.
        let month = estimate(plan(0.02, HOUR * 24 * 31));
        assert!(
            month.item_bytes() > 409_600 && month.rate * (month.write_units() as f64) < 1_000.0
        );
        assert!(!month.holds());
        // Many writes of a large item: the partition takes no more.
        let busy = estimate(plan(3.0, Duration::from_secs(60)).own_bytes(390_000));
        assert!(busy.item_bytes() <= 409_600 && busy.rate * (busy.write_units() as f64) > 1_000.0);
        assert!(!busy.holds());
    }

    #[test]
    fn thirty_thousand_keys_fit_into_one_item() {
        let most = estimate(plan(1.965, 3 * HOUR));
        assert!(most.keys() > 29_990 && most.holds(), "{most}");
        assert_eq!(most.bytes_per_key(), 13);
    }

    #[test]
    fn a_key_is_known_for_the_lifetime_by_each_clock() {
        for seconds in [1, 59, 60, 61, 3_599, 3_600, 1_000_000] {
            for skew in [1, 60, 600] {
                let (lifetime, clock_skew) =
                    (Duration::from_secs(seconds), Duration::from_secs(skew));
                let plan = plan(0.001, lifetime).clock_skew(clock_skew);
                let bucket = plan.layout().unwrap().bucket.unsigned_abs();
                assert!(5 * bucket >= seconds + skew && bucket >= skew);
                let most = estimate(plan).remembered_at_most();
                assert_eq!(most.as_secs(), 7 * bucket + skew);
            }
        }
    }

    #[test]
    fn the_rate_and_the_own_bytes_do_not_change_where_keys_are_kept() {
        let layout = |plan: Plan| plan.layout().unwrap();
        assert_eq!(
            layout(plan(1.0, HOUR)),
            layout(plan(2.0, HOUR).own_bytes(9_000))
        );
        assert_ne!(layout(plan(1.0, HOUR)), layout(plan(1.0, HOUR * 2)));
    }

    #[test]
    fn the_marker_is_cheaper_for_many_keys_and_not_for_few() {
        let few = estimate(plan(0.01, HOUR));
        assert_eq!(
            (few.average_write_units(), few.marker_write_units()),
            (2, 4)
        );
        assert!(!few.is_marker_cheaper());
        let many = estimate(plan(1.0, HOUR));
        assert!(many.is_marker_cheaper());
        assert!((many.marker_largest_rate() - 500.0).abs() < 1e-9);
    }

    #[test]
    fn the_refusal_of_a_rate_has_the_numbers() {
        let error = crate::once::Once::new(plan(10.0, HOUR)).unwrap_err();
        let text = error.to_string();
        for part in [
            "10 writes a second",
            "51864 keys",
            "674927 bytes",
            "660 write units",
            "largest rate is 3.89",
            "takes 4 write units",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn numbers_out_of_their_range_are_refused() {
        let plans = [
            plan(0.0, HOUR),
            plan(-1.0, HOUR),
            plan(f64::NAN, HOUR),
            plan(f64::INFINITY, HOUR),
            plan(1.0, Duration::ZERO),
            plan(1.0, LONGEST * 2),
            plan(0.1, HOUR).clock_skew(Duration::ZERO),
            plan(0.1, HOUR).key_bytes(7),
            plan(0.1, HOUR).key_bytes(33),
            plan(0.1, HOUR).attributes(""),
        ];
        for plan in plans {
            assert!(
                matches!(plan.estimate(), Err(PlanError::Invalid(_))),
                "{plan:?}"
            );
        }
        // The number of keys exceeds an integer: the plan does not hold, and nothing overflows.
        assert!(!estimate(plan(f64::MAX, LONGEST).own_bytes(1)).holds());
    }

    #[test]
    fn the_table_of_the_guide_is_that_of_the_planner() {
        let guide = include_str!("../../../docs/guide/counters.md");
        for (lifetime, hours, text, rate) in [
            (HOUR, 1, "36 an hour", 0.01),
            (HOUR, 1, "360 an hour", 0.1),
            (HOUR, 1, "1 a second", 1.0),
            (HOUR * 24, 24, "0.1 a second", 0.1),
            (HOUR * 3, 3, "1.96 a second", 1.96),
        ] {
            let estimate = estimate(plan(rate, lifetime));
            let kilobytes = estimate.item_bytes() as f64 / 1024.0;
            let decimals = usize::from(kilobytes < 10.0);
            let keys = estimate.keys();
            let keys = match keys / 1_000 {
                0 => keys.to_string(),
                thousands => format!("{thousands},{:03}", keys % 1_000),
            };
            let (units, marker) = (estimate.write_units(), estimate.marker_write_units());
            let row = format!(
                "| {hours} h | {text} | {keys} | {kilobytes:.decimals$} KB | {units} | {marker} |"
            );
            assert!(guide.contains(&row), "{row}");
        }
        let largest = |lifetime| estimate(plan(0.01, lifetime)).largest_rate();
        let (hour, day) = (largest(HOUR), largest(HOUR * 24));
        let sentence = format!("keys of 1 h is {hour:.1} a second, and {day:.2} with keys of 24 h");
        assert!(guide.contains(&sentence), "{sentence}");
        // Where the marker becomes cheaper, in keys held on average.
        let cheaper = (1..1_000).find(|keys| {
            let rate = f64::from(*keys) / 4_758.0;
            estimate(plan(rate, HOUR)).is_marker_cheaper()
        });
        let keys = cheaper.unwrap() / 10 * 10;
        assert!(
            guide.contains(&format!("from about {keys} keys on")),
            "{keys}"
        );
    }
}
