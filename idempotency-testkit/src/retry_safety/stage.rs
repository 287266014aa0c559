//! One scenario: a world of its own, and the deliveries of events in it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use idempotency_core::clock::Clock;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::SystemClock;
use serde_json::Value;

use super::database::Server;
use super::effects::Snapshot;
use super::ending::Ending;
use super::fault::{FaultKind, Point};
use super::gate::{Completions, Message};
use super::plan::{Failure, Plan};
use super::process::{End, Local, Process, TIMEOUT};
use super::provider::{Http, Listener};
use super::shared::Shared;
use super::world::World;

/// How often an event is delivered until there is a final response, the first time included.
const DELIVERIES: usize = 5;

/// The pause before the sender delivers an event again at once.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What all scenarios of a check share.
pub(super) struct Theatre<'a> {
    pub(super) plan: &'a Plan,
    pub(super) server: Server,
    pub(super) listener: Option<Arc<Listener>>,
    /// When each scenario starts.
    pub(super) start: EpochMillis,
    /// True until one scenario had its rerun in another second of the real clock than its first run. A response with the time in
    /// seconds differs there.
    pub(super) rerun_in_another_second: Cell<bool>,
}

/// A scenario.
pub(super) struct Stage<'a> {
    plan: &'a Plan,
    pub(super) shared: Arc<Shared>,
    /// The deliveries that have ended, in the order of their ends.
    pub(super) deliveries: Vec<Delivery>,
    started: u32,
    rerun_in_another_second: &'a Cell<bool>,
}

/// A delivery that has ended.
pub(super) struct Delivery {
    pub(super) number: u32,
    pub(super) ending: Ending,
    /// The stored forms of the responses that it asked to store.
    pub(super) completions: Completions,
    /// True if it changed nothing that can be seen, although an earlier one had already asked to store a response.
    pub(super) repeats: bool,
}

impl Theatre<'_> {
    /// Sets the stage of a scenario: empty tables, then what the check puts into them.
    pub(super) fn stage(&self, later: Duration, salt: &'static str) -> Result<Stage<'_>, Failure> {
        let database = self.server.database(&self.plan.tables)?;
        let http = match (&self.plan.provider, &self.listener) {
            (Some(provider), Some(listener)) => {
                Some(Http::new(provider.clone(), Arc::clone(listener)))
            }
            _ => None,
        };
        let stage = Stage {
            plan: self.plan,
            shared: Shared::new(
                database,
                http,
                self.start.plus(later),
                salt,
                self.plan.settle,
            ),
            deliveries: Vec::new(),
            started: 0,
            rerun_in_another_second: &self.rerun_in_another_second,
        };
        for prepare in &self.plan.prepare {
            let prepare = Arc::clone(prepare);
            stage.observe("`prepare`", move |world| prepare(world))?;
        }
        Ok(stage)
    }
}

impl Stage<'_> {
    /// Delivers an event until there is a final response, as its sender does, and then once more.
    pub(super) fn play(
        &mut self,
        event: usize,
        fault: Option<(Point, FaultKind)>,
    ) -> Result<Arc<Process>, Failure> {
        let first = self.deliver(event, fault)?;
        let mut pause = AT_ONCE;
        while !self.has_response() && self.deliveries.len() < DELIVERIES {
            self.shared.advance(pause);
            if self.has_completion() && self.rerun_in_another_second.take() {
                wait_for_the_next_second();
            }
            self.deliver(event, None)?;
            pause = TIMEOUT + AT_ONCE;
        }
        self.shared.advance(AT_ONCE);
        self.deliver(event, None)?;
        Ok(first)
    }

    /// Delivers an event once.
    pub(super) fn deliver(
        &mut self,
        event: usize,
        fault: Option<(Point, FaultKind)>,
    ) -> Result<Arc<Process>, Failure> {
        self.deliver_after(self.has_completion(), event, fault)
    }

    /// Returns true if a delivery that has ended had asked to store a response.
    fn has_completion(&self) -> bool {
        self.deliveries
            .iter()
            .any(|known| !known.completions.is_empty())
    }

    fn deliver_after(
        &mut self,
        has_stored: bool,
        event: usize,
        fault: Option<(Point, FaultKind)>,
    ) -> Result<Arc<Process>, Failure> {
        let before = if has_stored {
            Some(self.snapshot()?)
        } else {
            None
        };
        self.started += 1;
        let number = self.started;
        let (process, messages) = Process::new(&self.shared, number, fault);
        let (handler, world) = (Arc::clone(&self.plan.handler), World::new(&process));
        let thread = Arc::clone(&process).start(move || handler(world, event));
        let thread = thread.map_err(Failure::of_thread)?;
        while let Ok(Message::Paused(fault, resume)) = messages.recv() {
            self.play_meanwhile(&process, fault, event)?;
            let _ = resume.send(());
        }
        let ending = match thread.join() {
            Ok(End::Done(ending)) => ending,
            Ok(End::Killed) => Ending::Killed,
            Ok(End::TimedOut) => Ending::TimedOut,
            Ok(End::Panicked) | Err(_) => Ending::Panicked,
        };
        let repeats = match before {
            Some(before) => before == self.snapshot()?,
            None => false,
        };
        self.deliveries.push(Delivery {
            number,
            ending,
            completions: process.gate.completions(),
            repeats,
        });
        Ok(process)
    }

    /// Plays what other processes do while one stands still.
    fn play_meanwhile(
        &mut self,
        paused: &Process,
        fault: FaultKind,
        event: usize,
    ) -> Result<(), Failure> {
        if fault == FaultKind::Takeover {
            self.shared.advance(TIMEOUT + AT_ONCE);
        }
        self.deliver_after(!paused.gate.completions().is_empty(), event, None)?;
        Ok(())
    }

    /// Returns what can be seen of the world now.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Failure> {
        let mut snapshot = Snapshot {
            items: self.shared.database.items(super::RECORDS)?,
            ..Snapshot::default()
        };
        if let Some(http) = &self.shared.http {
            snapshot.requests = http.applied();
        }
        if self.plan.counts.is_empty() {
            return Ok(snapshot);
        }
        let counts = self.plan.counts.clone();
        snapshot.counts = self.observe("an effect", move |world| {
            Box::pin(async move {
                let mut counted = std::collections::BTreeMap::new();
                for (name, count) in &*counts {
                    counted.insert(name.clone(), count(world.clone()).await);
                }
                counted
            })
        })?;
        Ok(snapshot)
    }

    /// Returns true if a delivery has a final response.
    pub(super) fn has_response(&self) -> bool {
        self.final_response().is_some()
    }

    /// Returns the final response of the delivery that had one first.
    pub(super) fn final_response(&self) -> Option<&Value> {
        let mut endings = self.deliveries.iter().map(|delivery| &delivery.ending);
        endings.find_map(Ending::final_response)
    }

    /// Runs code of the check itself in this world.
    fn observe<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(World) -> Local<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let (process, messages): (_, Receiver<_>) = Process::new(&self.shared, 0, None);
        let world = World::new(&process);
        let thread = process.start(move || work(world));
        let thread = thread.map_err(Failure::of_thread)?;
        let ended = thread.join();
        drop(messages);
        match ended {
            Ok(End::Done(done)) => Ok(done),
            Ok(End::TimedOut) => Err(Failure::new(format!("{name} did not end in time"))),
            _ => Err(Failure::new(format!("{name} panicked"))),
        }
    }
}

/// Waits until the second of the real clock ends: for at most 1 s.
fn wait_for_the_next_second() {
    let into = u64::try_from(SystemClock.now().get().rem_euclid(1_000)).unwrap_or_default();
    std::thread::sleep(Duration::from_millis(1_001 - into));
}
