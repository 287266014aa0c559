//! The parts of the benchmark: calls one after the other and in flight, a cache of many records, starts.

use std::time::Duration;

use anyhow::bail;

use crate::block::{self, Block, Calls, Ready};
use crate::contestants::{Contestant, Kind, Part};
use crate::event::{Event, Events, Shape};
use crate::options::Options;
use crate::process::{Process, Share};
use crate::report::name;
use crate::samples::{Measure, Samples, Setting};
use crate::server::{Server, ServerKind};

/// The receipt of an ordinary call, in bytes.
const RECEIPT: usize = 100;

/// Measures everything that the options ask for.
pub async fn all(options: &Options, contestants: &[Contestant]) -> anyhow::Result<Samples> {
    let mut run = Run {
        options,
        random: fastrand::Rng::with_seed(options.seed),
        samples: Samples::default(),
        series: 0,
    };
    let settings = settings(options);
    let nothing = "no setting matches --parts, --servers and --sizes";
    anyhow::ensure!(!settings.is_empty(), nothing);
    for setting in settings {
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
            name(setting.server),
            setting.event_bytes,
            setting.records,
            setting.in_flight
        );
        match setting.part {
            Part::Cold => start(&mut run, setting, &chosen).await?,
            Part::Cache => cache(&mut run, setting, &chosen).await?,
            Part::Small => {
                if let Err(failure) = Share::new() {
                    eprintln!("not measured: {failure}");
                    continue;
                }
                start(&mut run, setting, &chosen).await?;
                calls(&mut run, setting, &chosen).await?;
            }
            Part::Warm | Part::Sizes | Part::InFlight | Part::Slow | Part::Large => {
                calls(&mut run, setting, &chosen).await?;
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
pub fn check_programs(contestants: &[Contestant]) -> anyhow::Result<()> {
    for contestant in contestants {
        if let Some(program) = contestant.program()
            && !program.exists()
        {
            let program = program.display();
            bail!("`{}` was not built: there is no {program}", contestant.name);
        }
    }
    Ok(())
}

/// What the blocks of one round took.
#[derive(Default)]
struct Round {
    fresh: Cost,
    duplicates: Cost,
}

#[derive(Default)]
struct Cost {
    cpu: Duration,
    elapsed: Duration,
    wall: Vec<Duration>,
}

/// Measures calls of processes that have started: in each round every contestant makes a block of fresh calls and one of their
/// duplicates, in a random order and then in the reverse order.
async fn calls(
    run: &mut Run<'_>,
    setting: Setting,
    contestants: &[&Contestant],
) -> anyhow::Result<()> {
    // Each process has its own memory layout and hash seeds, which can cost or save some percent for its whole life.
    for _ in 0..run.options.generations(&setting) {
        let server = Server::start(&setting).await?;
        let mut all = Vec::new();
        for contestant in contestants {
            all.push(ready(run, &setting, &server, contestant).await?);
        }
        for ready in &mut all {
            let count = run.options.warm_up(&setting);
            blocks(ready, count, &mut Round::default()).await?;
        }
        for _ in 0..run.options.rounds {
            let order = run.order(all.len());
            let mut rounds: Vec<_> = all.iter().map(|_| Round::default()).collect();
            // Because of the reverse order, a drift of the machine's speed adds the same to all.
            for index in order.iter().chain(order.iter().rev()).copied() {
                let count = run.options.calls.max(setting.in_flight);
                blocks(&mut all[index], count, &mut rounds[index]).await?;
            }
            for (ready, round) in all.iter().zip(rounds) {
                add(run, setting, ready.contestant, round);
            }
        }
        for ready in all {
            end(run, setting, ready).await?;
        }
    }
    Ok(())
}

/// Starts a process, and waits until it is ready for calls.
async fn ready<'a>(
    run: &mut Run<'_>,
    setting: &Setting,
    server: &'a Server,
    contestant: &'a Contestant,
) -> anyhow::Result<Ready<'a>> {
    let process = Process::start(contestant, server, setting).await?;
    process.ready().await?;
    Ok(Ready {
        contestant,
        process,
        events: Events::new(Shape::of(contestant, setting), run.next_series()),
        server,
        in_flight: setting.in_flight,
    })
}

/// Notes the memory of a process, and ends it.
async fn end(run: &mut Run<'_>, setting: Setting, ready: Ready<'_>) -> anyhow::Result<()> {
    let memory = ready.process.peak_memory()? as f64;
    let name = &ready.contestant.name;
    run.samples.add(setting, Measure::PeakMemory, name, memory);
    ready.process.end().await;
    Ok(())
}

async fn blocks(ready: &mut Ready<'_>, count: usize, round: &mut Round) -> anyhow::Result<()> {
    let events = ready.events.take(count);
    let fresh = block::run(ready, Calls::Fresh, &events).await?;
    if ready.contestant.kind != Kind::Bare {
        let duplicates = block::run(ready, Calls::Duplicate, &events).await?;
        same_payments(ready.contestant, fresh.payments.iter(), &duplicates)?;
        round.duplicates.add(duplicates);
    }
    round.fresh.add(fresh);
    Ok(())
}

/// Fails if a duplicate got another response than the first call.
fn same_payments<'a>(
    contestant: &Contestant,
    first: impl Iterator<Item = &'a String>,
    duplicates: &Block,
) -> anyhow::Result<()> {
    if !first.eq(&duplicates.payments) {
        bail!("`{}` ran again for a duplicate", contestant.name);
    }
    Ok(())
}

impl Cost {
    fn add(&mut self, block: Block) {
        self.cpu += block.cpu;
        self.elapsed += block.elapsed;
        self.wall.extend(block.wall);
    }
}

fn add(run: &mut Run<'_>, setting: Setting, contestant: &Contestant, round: Round) {
    let name = &contestant.name;
    let measures = [
        (
            round.fresh,
            Measure::FreshCpu,
            Measure::FreshWall,
            Measure::FreshLatency,
        ),
        (
            round.duplicates,
            Measure::DuplicateCpu,
            Measure::DuplicateWall,
            Measure::DuplicateLatency,
        ),
    ];
    for (taken, cpu, wall, latency) in measures {
        if taken.wall.is_empty() {
            continue;
        }
        let of_each = |time| micros(time) / taken.wall.len() as f64;
        run.samples.add(setting, cpu, name, of_each(taken.cpu));
        let each = of_each(taken.elapsed);
        let calls = taken.wall.into_iter().map(micros);
        if setting.in_flight == 1 {
            run.samples.add_calls(setting, wall, name, calls);
        } else {
            // Calls in flight wait for each other. So `wall` is the elapsed time for each call: the inverse of the throughput.
            run.samples.add(setting, wall, name, each);
            run.samples.add_calls(setting, latency, name, calls);
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Events that are sent at a time while the cache is filled.
const BATCH: usize = 1000;

/// Measures duplicates in a local cache that has few or many records.
async fn cache(
    run: &mut Run<'_>,
    setting: Setting,
    contestants: &[&Contestant],
) -> anyhow::Result<()> {
    for contestant in contestants {
        let server = Server::start(&setting).await?;
        let mut ready = ready(run, &setting, &server, contestant).await?;
        let mut sent: Vec<(u32, String)> = Vec::new();
        while sent.len() < setting.records {
            let batch = BATCH.min(setting.records - sent.len());
            let batch = ready.events.take(batch);
            let filled = block::run(&ready, Calls::Fresh, &batch).await?;
            sent.extend(batch.iter().map(|event| event.number).zip(filled.payments));
        }
        // In a random order, so that the processor cannot predict which record comes next.
        let order = run.order(sent.len());
        let mut next = order.iter().cycle();
        for round in 0..=run.options.rounds {
            let chosen: Vec<_> = next
                .by_ref()
                .take(run.options.calls)
                .map(|index| &sent[*index])
                .collect();
            let again = chosen.iter().map(|(number, _)| ready.events.make(*number));
            let again: Vec<Event> = again.collect();
            let duplicates = block::run(&ready, Calls::Duplicate, &again).await?;
            let first = chosen.iter().map(|(_, payment)| payment);
            same_payments(contestant, first, &duplicates)?;
            // The first round warms the process up, and is not counted.
            if round > 0 {
                let mut taken = Round::default();
                taken.duplicates.add(duplicates);
                add(run, setting, contestant, taken);
            }
        }
        end(run, setting, ready).await?;
    }
    Ok(())
}

/// Measures the start of a process, with the first event already waiting, as on Lambda.
async fn start(
    run: &mut Run<'_>,
    setting: Setting,
    contestants: &[&Contestant],
) -> anyhow::Result<()> {
    let server = Server::start(&setting).await?;
    // The first round is not counted: it reads the programs from the disk.
    for round in 0..=run.options.starts(&setting) {
        for index in run.order(contestants.len()) {
            let samples = start_once(run, setting, &server, contestants[index]).await?;
            if round > 0 {
                for (measure, value) in samples {
                    run.samples
                        .add(setting, measure, &contestants[index].name, value);
                }
            }
        }
    }
    Ok(())
}

/// Starts a process, sends it one event, and ends it. Returns the measures of this start.
async fn start_once(
    run: &mut Run<'_>,
    setting: Setting,
    server: &Server,
    contestant: &Contestant,
) -> anyhow::Result<[(Measure, f64); 4]> {
    let event = Events::new(Shape::of(contestant, &setting), run.next_series()).next();
    server.take_requests();
    let process = Process::start(contestant, server, &setting).await?;
    let pending = process.send(&event.text);
    process.ready().await?;
    let polled = process.started.elapsed();
    let response = process.response(pending.await)?;
    let responded = process.started.elapsed();
    let cpu = process.cpu()?;
    event.payment_id(&response)?;
    let requests = server.take_requests();
    let writes = |operation: &str| requests.get(operation).copied().unwrap_or_default();
    if (writes("PutItem"), writes("UpdateItem")) != (1, 1) {
        bail!(
            "`{}` did other work than the others: {requests:?}",
            contestant.name
        );
    }
    process.end().await;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok([
        (Measure::FirstPoll, ms(polled)),
        (Measure::FirstResponse, ms(responded)),
        (Measure::FirstCall, ms(responded - polled)),
        (Measure::StartCpu, ms(cpu)),
    ])
}
