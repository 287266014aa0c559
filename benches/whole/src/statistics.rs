//! Medians and percentiles.

use serde::Serialize;

/// Some samples in short.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    pub median: f64,
    pub p10: f64,
    pub p90: f64,
    pub p99: f64,
    pub samples: usize,
}

impl Summary {
    /// Returns `None` without samples.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: percentile(&sorted, 50.0)?,
            p10: percentile(&sorted, 10.0)?,
            p90: percentile(&sorted, 90.0)?,
            p99: percentile(&sorted, 99.0)?,
            samples: sorted.len(),
        })
    }
}

/// Returns the percentile of sorted samples, between its two neighbours.
fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = percent / 100.0 * last as f64;
    let (low, part) = (place.floor(), place.fract());
    let (low, high) = (low as usize, (low as usize + 1).min(last));
    Some(sorted[low] + (sorted[high] - sorted[low]) * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_their_neighbours() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.median, summary.samples), (2.5, 4));
        assert!((summary.p90 - 3.7).abs() < 1e-9);
        assert!(Summary::of(&[]).is_none());
    }
}
