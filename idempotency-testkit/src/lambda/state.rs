//! The state of one process: which invocations wait, which run, and whether the process is alive.

use std::collections::{HashMap, HashSet, VecDeque};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use tokio::sync::{Notify, oneshot, watch};

use super::invocation::{EXIT, InvokeError, Reply, end_text};
use super::log::Log;
use crate::lock::lock;

pub(super) type Outcome = Result<Reply, InvokeError>;

/// An invocation that the process has not taken yet.
pub(super) struct Event {
    pub(super) request_id: String,
    pub(super) payload: String,
    pub(super) headers: HeaderMap,
    pub(super) deadline: Deadline,
    pub(super) enforce: bool,
    pub(super) reply: oneshot::Sender<Outcome>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Deadline {
    /// This long after the process has taken the event.
    In(Duration),
    /// At this time, in milliseconds since the epoch; 0 means none.
    At(u64),
}

/// An event that the process has taken.
pub(super) struct TakenEvent {
    pub(super) request_id: String,
    pub(super) run: u64,
    pub(super) payload: String,
    pub(super) headers: HeaderMap,
    pub(super) deadline_ms: u64,
    /// The time until the deadline, if the deadline is enforced.
    pub(super) enforce_in: Option<Duration>,
}

struct ActiveRun {
    /// Distinguishes this run from an earlier one with the same request id, whose timer may still run.
    run: u64,
    reply: oneshot::Sender<Outcome>,
    log_from: usize,
    timed_out: bool,
}

/// Why a response of the process is rejected.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Rejection {
    Unknown,
    Second,
}

/// The phase of the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    Starting,
    Ready,
    Ended,
}

pub(super) struct State {
    tables: Mutex<Tables>,
    pub(super) log: Log,
    pub(super) phase: watch::Sender<Phase>,
    /// Wakes the process if it waits for its next event.
    pub(super) queued: Notify,
    /// Requests the end of the process.
    pub(super) kill: Notify,
}

#[derive(Default)]
struct Tables {
    queue: VecDeque<Event>,
    running: HashMap<String, ActiveRun>,
    finished: HashSet<String>,
    runs: u64,
    /// The error that the process sent before its first event.
    init_error: Option<InvokeError>,
    killed: bool,
    /// The error of all invocations after the end of the process, without its log.
    end: Option<InvokeError>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            tables: Mutex::default(),
            log: Log::new(),
            phase: watch::Sender::new(Phase::Starting),
            queued: Notify::new(),
            kill: Notify::new(),
        }
    }

    /// Queues an event, or ends it with an error if the process has ended.
    pub(super) fn push(&self, event: Event) {
        let mut tables = self.tables();
        if let Some(end) = &tables.end {
            let error = end.clone().with_log(self.log.since(0));
            let _ = event.reply.send(Err(error));
            return;
        }
        tables.queue.push_back(event);
        drop(tables);
        self.queued.notify_one();
    }

    /// Queues the event if the process is alive and not busy; otherwise returns it.
    pub(super) fn push_if_idle(&self, event: Event, concurrency: usize) -> Option<Event> {
        let mut tables = self.tables();
        let busy = tables.queue.len() + tables.running.len();
        if tables.end.is_some()
            || tables.killed
            || tables.init_error.is_some()
            || busy >= concurrency
        {
            return Some(event);
        }
        tables.queue.push_back(event);
        drop(tables);
        self.queued.notify_one();
        None
    }

    /// Waits for the next event. Takes it from the queue only after the wait: a process that is killed while it waits
    /// loses no event.
    pub(super) async fn next(&self) -> TakenEvent {
        self.phase.send_if_modified(|phase| {
            let starting = *phase == Phase::Starting;
            if starting {
                *phase = Phase::Ready;
            }
            starting
        });
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            self.queued.notified().await;
        }
    }

    fn take(&self) -> Option<TakenEvent> {
        self.log.drain();
        let mut tables = self.tables();
        let event = loop {
            let event = tables.queue.pop_front()?;
            if !tables.running.contains_key(&event.request_id) {
                break event;
            }
            let reason = "an invocation with this request id is running: choose another id";
            let _ = event.reply.send(Err(InvokeError::invalid(reason)));
        };
        // One permit can stand for several events.
        if !tables.queue.is_empty() {
            self.queued.notify_one();
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = match event.deadline {
            Deadline::At(ms) => ms,
            Deadline::In(time) => {
                now.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
            }
        };
        let left = Duration::from_millis(deadline_ms.saturating_sub(now));
        tables.finished.remove(&event.request_id);
        tables.runs += 1;
        let run = tables.runs;
        tables.running.insert(
            event.request_id.clone(),
            ActiveRun {
                run,
                reply: event.reply,
                log_from: self.log.len(),
                timed_out: false,
            },
        );
        Some(TakenEvent {
            request_id: event.request_id,
            run,
            payload: event.payload,
            headers: event.headers,
            deadline_ms,
            enforce_in: (event.enforce && deadline_ms != 0).then_some(left),
        })
    }

    /// Ends an invocation with what the process sent for it.
    pub(super) fn finish(
        &self,
        request_id: &str,
        sent: Result<String, InvokeError>,
    ) -> Result<(), Rejection> {
        self.log.drain();
        let mut tables = self.tables();
        let Some(running) = tables.running.remove(request_id) else {
            let second = tables.finished.contains(request_id);
            return Err(if second {
                Rejection::Second
            } else {
                Rejection::Unknown
            });
        };
        tables.finished.insert(request_id.to_owned());
        drop(tables);
        let log = self.log.since(running.log_from);
        let outcome = match sent {
            Ok(payload) => Ok(Reply { payload, log }),
            Err(error) => Err(error.with_log(log)),
        };
        let _ = running.reply.send(outcome);
        Ok(())
    }

    /// Notes that the process reported an error of its start, and ends the process.
    pub(super) fn init_error(&self, error: InvokeError) {
        self.tables().init_error = Some(error);
        self.kill.notify_one();
    }

    /// Ends the process if this run of the request has not ended.
    pub(super) fn deadline_passed(&self, request_id: &str, run: u64) {
        let mut tables = self.tables();
        let running = tables.running.get_mut(request_id);
        if let Some(running) = running.filter(|running| running.run == run) {
            running.timed_out = true;
            tables.killed = true;
            drop(tables);
            self.kill.notify_one();
        }
    }

    /// Requests the end of the process.
    pub(super) fn kill(&self) {
        let mut tables = self.tables();
        if tables.end.is_none() {
            tables.killed = true;
            drop(tables);
            self.kill.notify_one();
        }
    }

    /// Notes that the process has ended, and ends all its invocations. Only the first call has an effect.
    pub(super) fn ended(&self, status: Option<ExitStatus>) {
        self.log.close();
        let mut tables = self.tables();
        if tables.end.is_some() {
            return;
        }
        let end = match tables.init_error.take() {
            Some(error) => error,
            None if *self.phase.borrow() == Phase::Starting
                && !tables.killed
                && status.is_some() =>
            {
                let how = end_text(status);
                let message = format!("the process ended before it asked for an event ({how})");
                InvokeError::of_init(EXIT, message)
            }
            None => InvokeError::exited(status),
        };
        tables.end = Some(end.clone());
        // Before the invocations are notified, so that their callers see the phase.
        self.phase.send_replace(Phase::Ended);
        for event in tables.queue.drain(..) {
            let _ = event
                .reply
                .send(Err(end.clone().with_log(self.log.since(0))));
        }
        for (_, running) in tables.running.drain() {
            let error = match running.timed_out {
                true => InvokeError::timed_out(),
                false => end.clone(),
            };
            let error = error.with_log(self.log.since(running.log_from));
            let _ = running.reply.send(Err(error));
        }
    }

    /// Returns the error of an invocation after the end of the process; `None` while it is alive.
    pub(super) fn end_error(&self) -> Option<InvokeError> {
        let end = self.tables().end.clone()?;
        Some(end.with_log(self.log.since(0)))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }
}
