//! The parts of the benchmark.

mod cache;
mod calls;
mod start;

use crate::contestants::{Contestant, Part};
use crate::failure::{Failure, fail};
use crate::options::Options;
use crate::process::Share;
use crate::samples::{Samples, Setting};
use crate::server::ServerKind;

/// The receipt of an ordinary call, in bytes.
const RECEIPT: usize = 100;

/// Measures everything that the options ask for.
pub async fn all(options: &Options, contestants: &[Contestant]) -> Result<Samples, Failure> {
    let mut run = Run {
        options,
        random: fastrand::Rng::with_seed(options.seed),
        samples: Samples::default(),
        series: 0,
    };
    for setting in settings(options) {
        let chosen: Vec<_> = contestants
            .iter()
            .filter(|contestant| contestant.takes_part(setting.part))
            .collect();
        if chosen.is_empty() {
            continue;
        }
        eprintln!(
            "{:?} on {}: events of {} bytes, {} records in the cache, {} in flight",
            setting.part,
            setting.server.name(),
            setting.event_bytes,
            setting.records,
            setting.in_flight
        );
        match setting.part {
            Part::Cold => start::measure(&mut run, setting, &chosen).await?,
            Part::Cache => cache::measure(&mut run, setting, &chosen).await?,
            Part::Small => {
                if let Err(failure) = Share::new() {
                    eprintln!("not measured: {failure}");
                    continue;
                }
                start::measure(&mut run, setting, &chosen).await?;
                calls::measure(&mut run, setting, &chosen).await?;
            }
            Part::Warm | Part::Sizes | Part::InFlight | Part::Slow | Part::Large => {
                calls::measure(&mut run, setting, &chosen).await?;
            }
        }
    }
    Ok(run.samples)
}

/// What the parts share.
struct Run<'a> {
    options: &'a Options,
    random: fastrand::Rng,
    samples: Samples,
    series: u32,
}

impl Run<'_> {
    /// Returns `0..count` in a random order.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.random.shuffle(&mut order);
        order
    }

    /// Returns the number of a process, from which its events are made.
    fn next_series(&mut self) -> u32 {
        self.series += 1;
        self.series
    }
}

fn settings(options: &Options) -> Vec<Setting> {
    let sizes = [200, 4 * 1024, 64 * 1024];
    let growing = [1024, 16 * 1024, 256 * 1024];
    let setting = |part, server, event_bytes| Setting {
        part,
        server,
        event_bytes,
        receipt_bytes: RECEIPT,
        records: 0,
        in_flight: 1,
    };
    let mut settings = Vec::new();
    for part in [Part::Warm, Part::Cold] {
        for server in ServerKind::ALL.iter().copied() {
            settings.extend(sizes.map(|size| setting(part, server, size)));
        }
    }
    settings.extend(growing.map(|size| Setting {
        receipt_bytes: size,
        ..setting(Part::Sizes, ServerKind::Stub, size)
    }));
    settings.extend([10, options.many_records].map(|records| Setting {
        records,
        ..setting(Part::Cache, ServerKind::Stub, 4 * 1024)
    }));
    settings.extend([1, 8, 64].map(|in_flight| Setting {
        in_flight,
        ..setting(Part::InFlight, ServerKind::Stub, 4 * 1024)
    }));
    settings.push(Setting {
        in_flight: 64,
        ..setting(Part::Slow, ServerKind::Stub, 4 * 1024)
    });
    settings.push(setting(Part::Small, ServerKind::StubTls, 4 * 1024));
    settings.push(setting(Part::Large, ServerKind::Stub, 1024 * 1024));
    settings.retain(|setting| options.wants(setting));
    settings
}

/// Fails if a file is missing, before anything is measured.
pub fn check_programs(contestants: &[Contestant]) -> Result<(), Failure> {
    for contestant in contestants {
        if let Some(program) = contestant.program()
            && !program.exists()
        {
            let program = program.display();
            return fail(format!(
                "`{}` was not built: there is no {program}",
                contestant.name
            ));
        }
    }
    Ok(())
}
