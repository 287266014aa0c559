//! What was measured: for each setting, measure and contestant, one sample for each round, and those of its calls.

use serde::Serialize;

use crate::contestants::{Contestant, Kind, Part};
use crate::server::ServerKind;

/// The conditions under which a number was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    pub part: Part,
    pub server: ServerKind,
    /// The size that was asked for. The events of a kind that cannot be so small are larger.
    pub event_bytes: usize,
    pub receipt_bytes: usize,
    /// Records in the local cache.
    pub records: usize,
    /// Invocations in flight.
    pub in_flight: usize,
}

impl Setting {
    /// Returns true if each process has only a share of a core.
    pub fn is_small(&self) -> bool {
        self.part == Part::Small
    }
}

/// What a number measures.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    FreshCpu,
    FreshWall,
    DuplicateCpu,
    DuplicateWall,
    /// Of a call among several in flight, from its event to its response.
    FreshLatency,
    DuplicateLatency,
    /// From the start of the process to its first poll for an event.
    FirstPoll,
    /// From the start of the process to the response to its first event. The event is sent before the process is ready.
    FirstResponse,
    /// From the first poll to the response to the first event.
    FirstCall,
    /// CPU time until the first response.
    StartCpu,
    PeakMemory,
}

impl Measure {
    pub fn unit(self) -> &'static str {
        match self {
            Self::PeakMemory => "KiB",
            Self::FirstPoll | Self::FirstResponse | Self::FirstCall | Self::StartCpu => "ms",
            _ => "us",
        }
    }
}

/// The samples of one contestant for one setting and measure.
struct Series {
    setting: Setting,
    measure: Measure,
    contestant: String,
    /// By round; compared with the same round of another contestant.
    rounds: Vec<f64>,
    /// By call, for the percentiles of times.
    calls: Vec<f64>,
}

#[derive(Default)]
pub struct Samples {
    series: Vec<Series>,
}

/// A line of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    #[serde(flatten)]
    pub setting: Setting,
    pub contestant: String,
    pub measure: Measure,
    pub unit: &'static str,
    #[serde(flatten)]
    pub summary: Summary,
    /// To the better hand-written contestant of the group, round by round.
    pub ratio: Option<Ratio>,
}

/// The ratio of two contestants in the same rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    pub to: String,
    #[serde(flatten)]
    pub summary: Summary,
}

impl Samples {
    /// Adds the value of a round.
    pub fn add(&mut self, setting: Setting, measure: Measure, contestant: &str, value: f64) {
        self.of(setting, measure, contestant).rounds.push(value);
    }

    /// Adds the values of the calls in the round.
    pub fn add_calls(
        &mut self,
        setting: Setting,
        measure: Measure,
        contestant: &str,
        values: impl IntoIterator<Item = f64>,
    ) {
        let series = self.of(setting, measure, contestant);
        let from = series.calls.len();
        series.calls.extend(values);
        let round = Summary::of(&series.calls[from..]);
        series.rounds.extend(round.map(|round| round.median));
    }

    fn of(&mut self, setting: Setting, measure: Measure, contestant: &str) -> &mut Series {
        let found = self.series.iter().position(|series| {
            series.setting == setting
                && series.measure == measure
                && series.contestant == contestant
        });
        let index = found.unwrap_or_else(|| {
            self.series.push(Series {
                setting,
                measure,
                contestant: contestant.to_owned(),
                rounds: Vec::new(),
                calls: Vec::new(),
            });
            self.series.len() - 1
        });
        &mut self.series[index]
    }

    /// Returns the results.
    pub fn lines(&self, contestants: &[Contestant]) -> Vec<Line> {
        let line = |series: &Series| {
            let of_calls = if series.calls.is_empty() {
                &series.rounds
            } else {
                &series.calls
            };
            Some(Line {
                setting: series.setting,
                contestant: series.contestant.clone(),
                measure: series.measure,
                unit: series.measure.unit(),
                summary: Summary::of(of_calls)?,
                ratio: self.ratio(series, contestants),
            })
        };
        self.series.iter().filter_map(line).collect()
    }

    fn ratio(&self, series: &Series, contestants: &[Contestant]) -> Option<Ratio> {
        let named = |name: &str| {
            contestants
                .iter()
                .find(|contestant| contestant.name == name)
        };
        let own = named(&series.contestant)?;
        let better = self.series.iter().filter(|other| {
            other.setting == series.setting
                && other.measure == series.measure
                && other.rounds.len() == series.rounds.len()
                && named(&other.contestant)
                    .is_some_and(|other| other.kind == Kind::ByHand && other.group == own.group)
        });
        let better = better.min_by(|one, two| {
            let median =
                |series: &Series| Summary::of(&series.rounds).map_or(f64::MAX, |all| all.median);
            median(one).total_cmp(&median(two))
        })?;
        let ratios = series
            .rounds
            .iter()
            .zip(&better.rounds)
            .map(|(own, other)| own / other);
        Some(Ratio {
            to: better.contestant.clone(),
            summary: Summary::of(&ratios.collect::<Vec<_>>())?,
        })
    }
}

/// The median and the percentiles of some samples.
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

/// Returns the percentile of sorted samples. Between two samples it is interpolated.
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

    const SETTING: Setting = Setting {
        part: Part::Warm,
        server: ServerKind::Stub,
        event_bytes: 200,
        receipt_bytes: 100,
        records: 0,
        in_flight: 1,
    };

    fn contestants() -> Vec<Contestant> {
        let contestant = |name: &str, kind: &str, group: &str| {
            let json = serde_json::json!({
                "name": name, "label": name, "language": "Rust", "kind": kind, "event": "order", "group": group,
                "command": [name], "parts": ["warm"],
            });
            serde_json::from_value(json).unwrap()
        };
        vec![
            contestant("slow", "by-hand", "typed"),
            contestant("fast", "by-hand", "typed"),
            contestant("fastest", "by-hand", "value"),
            contestant("ours", "ours", "typed"),
        ]
    }

    fn line(samples: &Samples, name: &str) -> Line {
        let mut lines = samples.lines(&contestants());
        lines.retain(|line| line.contestant == name);
        assert_eq!(lines.len(), 1);
        lines.remove(0)
    }

    #[test]
    fn the_ratio_is_to_the_better_hand_written_one_of_the_group_round_by_round() {
        let mut samples = Samples::default();
        // The machine is half as fast in the third round.
        for (name, value) in [
            ("slow", 40.0),
            ("fast", 20.0),
            ("fastest", 1.0),
            ("ours", 10.0),
        ] {
            for slower in [1.0, 1.0, 2.0] {
                samples.add(SETTING, Measure::FreshCpu, name, value * slower);
            }
        }
        let ours = line(&samples, "ours");
        assert_eq!((ours.summary.median, ours.summary.samples), (10.0, 3));
        let ratio = ours.ratio.unwrap();
        assert_eq!(ratio.to, "fast");
        let (median, p10, p90) = (ratio.summary.median, ratio.summary.p10, ratio.summary.p90);
        assert_eq!((median, p10, p90), (0.5, 0.5, 0.5));
    }

    #[test]
    fn there_is_no_ratio_to_other_settings_or_measures() {
        let mut samples = Samples::default();
        let other = Setting {
            event_bytes: 4096,
            ..SETTING
        };
        samples.add(other, Measure::FreshCpu, "fast", 1.0);
        samples.add(SETTING, Measure::FreshWall, "fast", 1.0);
        samples.add(SETTING, Measure::FreshCpu, "ours", 1.0);
        assert!(line(&samples, "ours").ratio.is_none());
    }

    #[test]
    fn percentiles_of_times_are_by_call_and_ratios_by_round() {
        let mut samples = Samples::default();
        for (name, faster) in [("fast", 1.0), ("ours", 2.0)] {
            let calls = [1.0, 2.0, 90.0].map(|value| value / faster);
            samples.add_calls(SETTING, Measure::FreshWall, name, calls);
            samples.add_calls(SETTING, Measure::FreshWall, name, calls);
        }
        let ours = line(&samples, "ours");
        assert_eq!(ours.summary.samples, 6);
        let ratio = ours.ratio.unwrap().summary;
        assert_eq!((ratio.median, ratio.samples), (0.5, 2));
    }

    #[test]
    fn percentiles_lie_between_their_neighbours() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.median, summary.samples), (2.5, 4));
        assert!((summary.p90 - 3.7).abs() < 1e-9);
        assert!(Summary::of(&[]).is_none());
    }
}
