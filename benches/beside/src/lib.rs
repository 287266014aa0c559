//! What the comparisons of a store with requests by hand share: the settings of both sides, how a block of calls is measured, and the ratios.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::time::{ClockId, clock_gettime};

/// How long a claim lasts.
pub const LEASE: Duration = Duration::from_secs(30);
/// How long a response is replayed.
pub const WINDOW: Duration = Duration::from_secs(3_600);
/// The largest ratio that the store may have.
pub const LIMIT: f64 = 1.10;

/// The name of each measure.
pub const MEASURES: [(&str, fn(&Took) -> f64); 2] =
    [("wall", |took| took.wall), ("CPU", |took| took.cpu)];

/// The time of one call, in microseconds: the mean of a block of calls.
#[derive(Clone, Copy, Default)]
pub struct Took {
    wall: f64,
    cpu: f64,
}

fn cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

/// Measures a block of this many calls.
pub async fn measured(calls: usize, block: impl Future<Output = Result<()>>) -> Result<Took> {
    let (began, cpu_before) = (Instant::now(), cpu()?);
    block.await?;
    let (wall, cpu) = (began.elapsed(), cpu()? - cpu_before);
    let of_one = |time: Duration| time.as_secs_f64() / calls as f64 * 1e6;
    Ok(Took {
        wall: of_one(wall),
        cpu: of_one(cpu),
    })
}

/// Returns the median of some values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&mut values.collect::<Vec<_>>(), 0.5)
}

/// The ratios of some blocks: the median, and the range without the lowest and the highest tenth.
pub struct Ratio {
    low: f64,
    median: f64,
    high: f64,
}

impl Ratio {
    /// Returns the ratios of blocks on one side by those on the other.
    pub fn of(ours: impl Iterator<Item = f64>, by_hand: impl Iterator<Item = f64>) -> Self {
        let ratios = ours.zip(by_hand).map(|(ours, by_hand)| ours / by_hand);
        let mut ratios: Vec<_> = ratios.collect();
        let [low, median, high] = [0.1, 0.5, 0.9].map(|share| quantile(&mut ratios, share));
        Self { low, median, high }
    }

    pub fn is_within_limit(&self) -> bool {
        self.median <= LIMIT
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, median, high } = self;
        write!(f, "{median:.2} ({low:.2} to {high:.2})")
    }
}

/// Returns the value below which this share of the values are.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values[(last * share).round() as usize]
}

/// Returns the exit code of the program. With less than ten rounds a ratio means nothing, so no limit fails.
pub fn end(is_met: bool, rounds: u64) -> ExitCode {
    if !is_met && rounds >= 10 {
        eprintln!("a limit is not met");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
