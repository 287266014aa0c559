//! One scenario: a world of its own, what its processes share, and the deliveries of events in it.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::SystemClock;
use serde_json::Value;

use super::effects::{Items, Snapshot};
use super::ending::Ending;
use super::gate::{Completions, FaultKind, Message, Point};
use super::plan::{EVENT, Failure, Plan};
use super::process::{End, Local, Process, TIMEOUT};
use super::provider::{Http, Listener};
use super::world::World;
use super::{Database, RECORDS, Server};
use crate::lock::lock;

/// How often an event is delivered until there is a final response, the first time included.
const DELIVERIES: usize = 5;

const A_DAY: Duration = Duration::from_secs(86_400);

/// The pause before the sender delivers an event again at once.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Delivers the event with this number in a process.
pub(super) type Handler = Arc<dyn Fn(World, usize) -> Local<Ending> + Send + Sync>;

/// What all scenarios of a check share.
pub(super) struct Theatre<'a> {
    pub(super) plan: &'a Plan,
    pub(super) handler: &'a Handler,
    pub(super) server: Server,
    pub(super) listener: Option<Arc<Listener>>,
    #[cfg(feature = "postgres")]
    pub(super) postgres: Option<Arc<super::postgres::Server>>,
    /// When each scenario starts.
    pub(super) start: EpochMillis,
    /// True until one scenario had its rerun in another second of the real clock than its first run. A response with the time in
    /// seconds differs there.
    pub(super) rerun_in_another_second: Cell<bool>,
    /// The requests that read what can be out of date.
    pub(super) stale_reads: RefCell<BTreeSet<String>>,
    /// Those names of effects that can happen in several ways that were seen in some scenario.
    pub(super) seen: RefCell<BTreeSet<String>>,
}

/// A scenario.
pub(super) struct Stage<'a> {
    theatre: &'a Theatre<'a>,
    pub(super) shared: Arc<ScenarioWorld>,
    /// The deliveries that have ended, in the order of their ends.
    pub(super) deliveries: Vec<Delivery>,
    started: u32,
}

/// A delivery that has ended.
pub(super) struct Delivery {
    pub(super) number: u32,
    /// The number of the event.
    pub(super) event: usize,
    pub(super) ending: Ending,
    /// The stored forms of the responses that it asked to store.
    pub(super) completions: Completions,
    /// True if it changed nothing that can be seen, although an earlier one had already asked to store a response.
    pub(super) repeats: bool,
}

impl Theatre<'_> {
    /// Sets the stage of a scenario: empty tables, then what the check puts into them.
    pub(super) fn stage(&self) -> Result<Stage<'_>, Failure> {
        self.stage_at(Duration::ZERO, "request")
    }

    /// Sets the stage at a later time, with other request ids.
    pub(super) fn stage_at(
        &self,
        later: Duration,
        salt: &'static str,
    ) -> Result<Stage<'_>, Failure> {
        self.stage_with(later, salt, Arc::default(), false)
    }

    /// Sets the stage of a scenario, and then delivers the event once in another world. So the caches of the program (its statics)
    /// are warm, also those that `prepare` empties.
    pub(super) fn warm_stage(&self) -> Result<Stage<'_>, Failure> {
        let stage = self.stage()?;
        self.stage()?.deliver(EVENT, None)?;
        Ok(stage)
    }

    /// Sets a stage that shares the fakes of `seen`. What its processes do under a lock of a fake cannot be seen in `seen`.
    pub(super) fn stage_aside(&self, seen: &Stage<'_>) -> Result<Stage<'_>, Failure> {
        let fakes = Arc::clone(&seen.shared.fakes);
        self.stage_with(Duration::ZERO, "request", fakes, true)
    }

    fn stage_with(
        &self,
        later: Duration,
        salt: &'static str,
        fakes: Arc<Fakes>,
        aside: bool,
    ) -> Result<Stage<'_>, Failure> {
        let database = self.server.database(self.plan)?;
        let http = match (&self.plan.provider, &self.listener) {
            (Some(provider), Some(listener)) => {
                Some(Http::new(provider.clone(), Arc::clone(listener)))
            }
            _ => None,
        };
        let stage = Stage {
            theatre: self,
            shared: Arc::new(ScenarioWorld {
                database,
                http,
                #[cfg(feature = "postgres")]
                postgres: match &self.postgres {
                    Some(server) => Some(server.schema()?),
                    None => None,
                },
                fakes,
                now: AtomicI64::new(self.start.plus(later).get()),
                watched: Mutex::default(),
                salt,
                settle: self.plan.settle,
                aside,
            }),
            deliveries: Vec::new(),
            started: 0,
        };
        for prepare in &self.plan.prepare {
            let prepare = Arc::clone(prepare);
            stage.observe("`prepare`", move |world| prepare(world))?;
        }
        Ok(stage)
    }
}

impl Stage<'_> {
    /// Delivers the event with this fault until there is a final response, as its sender does, and then once more.
    pub(super) fn play(&mut self, point: Point, fault: FaultKind) -> Result<Arc<Process>, Failure> {
        let plan = self.theatre.plan;
        let first = self.deliver(EVENT, Some((point, fault)))?;
        let other = plan.others.first().filter(|_| fault.has_another());
        if let (FaultKind::CrashThenAnother, Some(other)) = (fault, other) {
            self.shared.advance(AT_ONCE);
            self.deliver(*other, None)?;
        }
        let pause = match (fault, plan.retried_for) {
            (FaultKind::CrashThenLate, Some(time)) => time,
            (FaultKind::CrashThenLate, None) => self.rest_of_window()?,
            _ => AT_ONCE,
        };
        self.deliver_until_done(EVENT, pause)?;
        if let Some(other) = other {
            self.deliver_until_done(*other, AT_ONCE)?;
        }
        self.shared.advance(AT_ONCE);
        self.deliver(EVENT, None)?;
        Ok(first)
    }

    /// Returns the time until just before the records of this scenario expire, at most a day.
    fn rest_of_window(&self) -> Result<Duration, Failure> {
        let end = self.shared.expiration()?.unwrap_or_default();
        let rest = end.saturating_sub(self.shared.now().get() / 1_000);
        let rest = Duration::from_secs(rest.try_into().unwrap_or_default());
        // A later delivery can come after the next lease too.
        let rest = rest.saturating_sub(2 * (TIMEOUT + AT_ONCE));
        Ok(rest.clamp(AT_ONCE, A_DAY))
    }

    /// Delivers an event again until there is a final response, first after this pause.
    fn deliver_until_done(&mut self, event: usize, mut pause: Duration) -> Result<(), Failure> {
        while self.response_to(event).is_none() && self.of(event).count() < DELIVERIES {
            self.shared.advance(pause);
            if self.has_completion() && self.theatre.rerun_in_another_second.take() {
                wait_for_the_next_second();
            }
            self.deliver(event, None)?;
            pause = TIMEOUT + AT_ONCE;
        }
        Ok(())
    }

    /// Returns the deliveries of an event that have ended.
    pub(super) fn of(&self, event: usize) -> impl Iterator<Item = &Delivery> {
        self.deliveries
            .iter()
            .filter(move |delivery| delivery.event == event)
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
        let (handler, world) = (Arc::clone(self.theatre.handler), World::new(&process));
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
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.shared.postgres {
            schema.end_sessions(number)?;
        }
        let repeats = match before {
            Some(before) => before == self.snapshot()?,
            None => false,
        };
        let stale = process.gate.stale_reads();
        self.theatre.stale_reads.borrow_mut().extend(stale);
        self.deliveries.push(Delivery {
            number,
            event,
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
            #[cfg(feature = "postgres")]
            if let Some(schema) = &self.shared.postgres {
                schema.end_late_transactions(paused.delivery)?;
            }
        }
        let event = match self.theatre.plan.others.first() {
            Some(other) if fault == FaultKind::AnotherMeanwhile => *other,
            _ => event,
        };
        self.deliver_after(!paused.gate.completions().is_empty(), event, None)?;
        Ok(())
    }

    /// Returns what can be seen of the world now, without what the check ignores.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Failure> {
        let plan = self.theatre.plan;
        let seen = self.all()?.without(&plan.ignored_effects);
        let of_several = plan.one_of.iter().flatten();
        let of_several = of_several.filter(|name| seen.has(name)).cloned();
        self.theatre.seen.borrow_mut().extend(of_several);
        Ok(plan.one_of.iter().fold(seen, Snapshot::with_one_of))
    }

    /// Returns all that can be seen of the world now.
    pub(super) fn all(&self) -> Result<Snapshot, Failure> {
        let mut snapshot = Snapshot {
            items: self.shared.items()?,
            ..Snapshot::default()
        };
        if let Some(http) = &self.shared.http {
            snapshot.requests = http.applied();
        }
        if self.theatre.plan.counts.is_empty() {
            return Ok(snapshot);
        }
        let counts = self.theatre.plan.counts.clone();
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

    /// Returns the final response to an event that was there first.
    pub(super) fn response_to(&self, event: usize) -> Option<&Value> {
        let mut endings = self.of(event).map(|delivery| &delivery.ending);
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
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.shared.postgres {
            schema.end_sessions(0)?;
        }
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

/// The world of one scenario.
pub(super) struct ScenarioWorld {
    pub(super) database: Database,
    /// The provider, if the check has one.
    pub(super) http: Option<Http>,
    /// The schema in PostgreSQL, if the check has one.
    #[cfg(feature = "postgres")]
    pub(super) postgres: Option<super::postgres::Schema>,
    fakes: Arc<Fakes>,
    now: AtomicI64,
    /// The items after each request, while they are watched.
    watched: Mutex<Option<Vec<Items>>>,
    /// Makes request ids differ between two faultless runs.
    pub(super) salt: &'static str,
    /// How long a process waits for its sockets, in real time, before virtual time moves. Zero if it has none.
    pub(super) settle: Duration,
    /// True if what the processes do to the fakes must not be seen.
    pub(super) aside: bool,
}

/// The fakes of a scenario, by their types.
type Fakes = Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>;

impl ScenarioWorld {
    /// Returns the fake of this type. The first call makes it.
    pub(super) fn fake<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut fakes = lock(&self.fakes);
        let fake = fakes
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // Its key is its type, so this never makes another one.
        Arc::clone(fake).downcast().unwrap_or_default()
    }

    /// Returns the time of the world when no process runs.
    pub(super) fn now(&self) -> EpochMillis {
        EpochMillis::new(self.now.load(Ordering::Acquire))
    }

    pub(super) fn set_now(&self, now: EpochMillis) {
        self.now.fetch_max(now.get(), Ordering::AcqRel);
    }

    /// Moves the time of the world. No process may run meanwhile.
    pub(super) fn advance(&self, duration: Duration) {
        self.set_now(self.now().plus(duration));
    }

    /// Returns the items of the function's own tables.
    fn items(&self) -> Result<Items, Failure> {
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.postgres {
            let mut items = schema.items()?;
            items.extend(self.database.items(RECORDS)?);
            return Ok(items);
        }
        Ok(self.database.items(RECORDS)?)
    }

    /// Returns when the first record of the framework expires, in seconds.
    fn expiration(&self) -> Result<Option<i64>, Failure> {
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.postgres {
            return schema.expiration();
        }
        Ok(self.database.expiration()?)
    }

    /// Starts or ends noting the items after each request. Returns what was noted until now.
    pub(super) fn watch(&self, watch: bool) -> Vec<Items> {
        let next = watch.then(Vec::new);
        let mut watched = lock(&self.watched);
        std::mem::replace(&mut *watched, next).unwrap_or_default()
    }

    /// Notes the items, if they are watched. Called after each request.
    pub(super) fn note_items(&self) {
        let mut watched = lock(&self.watched);
        if let Some(watched) = &mut *watched
            && let Ok(items) = self.items()
        {
            watched.push(items);
        }
    }

    /// Returns the listener of the provider.
    pub(super) fn listener(&self) -> Option<&Listener> {
        self.http.as_ref().map(|http| &*http.listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_is_dropped_with_its_runtime() {
        let server = Server::start().unwrap();
        let shared = Arc::new(ScenarioWorld {
            database: server.database(&Plan::default()).unwrap(),
            http: None,
            #[cfg(feature = "postgres")]
            postgres: None,
            fakes: Arc::default(),
            now: AtomicI64::new(0),
            watched: Mutex::default(),
            salt: "",
            settle: Duration::ZERO,
            aside: false,
        });
        let (process, _messages) = Process::new(&shared, 1, None);
        let known = Arc::downgrade(&process);
        let work = || -> Local<()> { Box::pin(tokio::task::yield_now()) };
        assert!(matches!(
            process.start(work).unwrap().join(),
            Ok(End::Done(()))
        ));
        assert!(known.upgrade().is_none());
    }
}
