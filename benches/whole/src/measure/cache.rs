//! Duplicates in a local cache that has few or many records.

use super::Run;
use crate::block::{self, Calls};
use crate::contestants::Contestant;
use crate::event::{Event, Events, Shape};
use crate::failure::{Failure, fail};
use crate::process::Process;
use crate::samples::{Measure, Setting};
use crate::server::Server;

/// Events that are sent at a time while the cache is filled.
const BATCH: usize = 1000;

pub(super) async fn measure(
    run: &mut Run<'_>,
    setting: Setting,
    contestants: &[&Contestant],
) -> Result<(), Failure> {
    for contestant in contestants {
        let server = Server::start(&setting).await?;
        let process = Process::start(contestant, &server, &setting).await?;
        process.ready().await?;
        let shape = Shape {
            kind: contestant.event,
            event_bytes: setting.event_bytes,
            receipt_bytes: setting.receipt_bytes,
        };
        let mut events = Events::new(shape, run.next_series());
        let mut sent: Vec<(u32, String)> = Vec::new();
        while sent.len() < setting.records {
            let batch = events.take(BATCH.min(setting.records - sent.len()));
            let filled = block::run(contestant, &process, &server, Calls::Fresh, &batch, 1).await?;
            sent.extend(batch.iter().map(|event| event.number).zip(filled.payments));
        }
        // The records are asked for in an order that no processor's cache can follow.
        let order = run.order(sent.len());
        let mut next = order.iter().cycle();
        for round in 0..=run.options.rounds {
            let chosen: Vec<_> = next
                .by_ref()
                .take(run.options.calls)
                .map(|index| &sent[*index])
                .collect();
            let again: Vec<Event> = chosen
                .iter()
                .map(|(number, _)| events.sent(*number))
                .collect();
            let duplicates =
                block::run(contestant, &process, &server, Calls::Duplicate, &again, 1).await?;
            let first = chosen.iter().map(|(_, payment)| payment);
            if !first.eq(&duplicates.payments) {
                return fail(format!("`{}` ran again for a duplicate", contestant.name));
            }
            // The first one is for warming up.
            if round > 0 {
                let cpu = duplicates.cpu.as_secs_f64() * 1e6 / again.len() as f64;
                let wall = duplicates.wall.iter().map(|wall| wall.as_secs_f64() * 1e6);
                let (name, samples) = (&contestant.name, &mut run.samples);
                samples.add(setting, Measure::DuplicateCpu, name, cpu);
                samples.add_calls(setting, Measure::DuplicateWall, name, wall);
            }
        }
        let memory = process.peak_memory()? as f64;
        run.samples
            .add(setting, Measure::PeakMemory, &contestant.name, memory);
        process.end().await;
    }
    Ok(())
}
