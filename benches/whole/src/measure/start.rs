//! The start of a process, with the first event already waiting, as on Lambda.

use std::time::Duration;

use super::Run;
use crate::contestants::Contestant;
use crate::event::{Events, Shape};
use crate::failure::{Failure, fail};
use crate::process::Process;
use crate::samples::{Measure, Setting};
use crate::server::Server;

pub(super) async fn measure(
    run: &mut Run<'_>,
    setting: Setting,
    contestants: &[&Contestant],
) -> Result<(), Failure> {
    let server = Server::start(&setting).await?;
    // The first round reads the programs from the disk.
    for round in 0..=run.options.starts(&setting) {
        for index in run.order(contestants.len()) {
            let samples = started(run, setting, &server, contestants[index]).await?;
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

/// Starts a process, sends it one event, and ends it.
async fn started(
    run: &mut Run<'_>,
    setting: Setting,
    server: &Server,
    contestant: &Contestant,
) -> Result<[(Measure, f64); 4], Failure> {
    let shape = Shape {
        kind: contestant.event,
        event_bytes: setting.event_bytes,
        receipt_bytes: setting.receipt_bytes,
    };
    let event = Events::new(shape, run.next_series()).next();
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
        return fail(format!(
            "`{}` did other work than the others: {requests:?}",
            contestant.name
        ));
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
