//! Random choices that depend only on a seed and a purpose, not on earlier choices.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// A random source: `splitmix64`.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    /// Returns the source for one purpose, such as one key, under a seed.
    pub(super) fn of(seed: u64, purpose: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, purpose).hash(&mut hasher);
        Self(hasher.finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or 0 if that is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns true in `cases` of 1,000 calls, on average.
    pub(super) fn per_mille(&mut self, cases: u64) -> bool {
        self.below(1_000) < cases
    }

    /// Returns a time between the two bounds, both in milliseconds. The logarithm of the time is uniform, so short times
    /// are as frequent as long ones.
    pub(super) fn spread(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        let share = self.below(1_000) as f64 / 1_000.0;
        let ratio = to_ms as f64 / from_ms as f64;
        Duration::from_secs_f64(from_ms as f64 * ratio.powf(share) / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_purpose_give_the_same_choices() {
        let choices = |seed| {
            let mut chance = Chance::of(seed, ("key", 1));
            (0..8).map(|_| chance.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
    }

    #[test]
    fn spread_times_stay_between_their_bounds() {
        let mut chance = Chance::of(1, "times");
        for _ in 0..1_000 {
            let time = chance.spread(20, 3_000);
            assert!(time >= Duration::from_millis(20) && time <= Duration::from_secs(3));
        }
    }
}
