//! The order of the contestants within a round.

/// A small generator of random numbers (SplitMix64). A seed gives the same order again.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns `0..count` in a random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let chosen = (self.next() % (last as u64 + 1)) as usize;
            order.swap(last, chosen);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_index_and_a_seed_gives_it_again() {
        let orders = |seed| {
            let mut random = Random::new(seed);
            [random.order(9), random.order(9)]
        };
        let [mut first, second] = orders(1);
        assert_ne!(first, second);
        assert_eq!(orders(1)[1], second);
        first.sort_unstable();
        assert_eq!(first, (0..9).collect::<Vec<_>>());
    }
}
