//! Calls of processes that have started: rounds in which every contestant makes a block of fresh calls and one of their
//! duplicates, there and back in a random order.

use std::time::Duration;

use super::Run;
use crate::block::{self, Calls};
use crate::contestants::{Contestant, Kind};
use crate::event::{Events, Shape};
use crate::failure::Failure;
use crate::process::Process;
use crate::samples::{Measure, Setting};
use crate::server::Server;

/// One contestant, ready for calls.
struct Ready<'a> {
    contestant: &'a Contestant,
    process: Process,
    events: Events,
}

/// What the blocks of one round took.
#[derive(Default)]
struct Round {
    fresh: Cost,
    duplicates: Cost,
}

#[derive(Default)]
struct Cost {
    calls: u32,
    cpu: Duration,
    elapsed: Duration,
    wall: Vec<Duration>,
}

pub(super) async fn measure(
    run: &mut Run<'_>,
    setting: Setting,
    contestants: &[&Contestant],
) -> Result<(), Failure> {
    // Each process has its own memory layout and hash seeds, which can cost or save some percent for its whole life.
    for _ in 0..run.options.generations(&setting) {
        let server = Server::start(&setting).await?;
        let mut all = Vec::new();
        for contestant in contestants {
            let process = Process::start(contestant, &server, &setting).await?;
            process.ready().await?;
            let shape = Shape {
                kind: contestant.event,
                event_bytes: setting.event_bytes,
                receipt_bytes: setting.receipt_bytes,
            };
            all.push(Ready {
                contestant,
                process,
                events: Events::new(shape, run.next_series()),
            });
        }
        for ready in &mut all {
            let count = run.options.warm_up(&setting);
            let mut unused = Round::default();
            blocks(ready, &server, count, setting.in_flight, &mut unused).await?;
        }
        for _ in 0..run.options.rounds {
            let order = run.order(all.len());
            let mut rounds: Vec<_> = all.iter().map(|_| Round::default()).collect();
            // There and back: a drift of the machine's speed then adds the same to all.
            for index in order.iter().chain(order.iter().rev()).copied() {
                let count = run.options.calls.max(setting.in_flight);
                let round = &mut rounds[index];
                blocks(&mut all[index], &server, count, setting.in_flight, round).await?;
            }
            for (ready, round) in all.iter().zip(rounds) {
                add(run, setting, ready.contestant, round);
            }
        }
        for ready in all {
            let memory = ready.process.peak_memory()? as f64;
            let name = &ready.contestant.name;
            run.samples.add(setting, Measure::PeakMemory, name, memory);
            ready.process.end().await;
        }
    }
    Ok(())
}

async fn blocks(
    ready: &mut Ready<'_>,
    server: &Server,
    count: usize,
    in_flight: usize,
    round: &mut Round,
) -> Result<(), Failure> {
    let (contestant, process) = (ready.contestant, &ready.process);
    let events = ready.events.take(count);
    let fresh = block::run(
        contestant,
        process,
        server,
        Calls::Fresh,
        &events,
        in_flight,
    )
    .await?;
    if contestant.kind != Kind::Bare {
        let calls = Calls::Duplicate;
        let duplicates = block::run(contestant, process, server, calls, &events, in_flight).await?;
        block::same_payments(contestant, &fresh, &duplicates)?;
        round.duplicates.add(duplicates);
    }
    round.fresh.add(fresh);
    Ok(())
}

impl Cost {
    fn add(&mut self, block: block::Block) {
        self.calls += u32::try_from(block.wall.len()).unwrap_or(u32::MAX);
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
        if taken.calls == 0 {
            continue;
        }
        run.samples
            .add(setting, cpu, name, micros(taken.cpu / taken.calls));
        let calls = taken.wall.into_iter().map(micros);
        if setting.in_flight == 1 {
            run.samples.add_calls(setting, wall, name, calls);
        } else {
            // Of several in flight each waits for the others: what counts first is how many end in a time.
            let each = micros(taken.elapsed / taken.calls);
            run.samples.add(setting, wall, name, each);
            run.samples.add_calls(setting, latency, name, calls);
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
