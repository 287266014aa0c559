//! What one process is doing: which invocations wait, which run, and whether its process lives.

use super::log::Log;
use super::outcome::{InvokeError, Reply, ended};
use hyper::HeaderMap;
use std::collections::{HashMap, HashSet, VecDeque};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, oneshot, watch};

pub(super) type Outcome = Result<Reply, InvokeError>;

/// An invocation on its way to the process.
pub(super) struct Event {
    pub(super) request_id: String,
    pub(super) payload: String,
    pub(super) headers: HeaderMap,
    pub(super) deadline: Deadline,
    pub(super) enforce: bool,
    pub(super) answer: oneshot::Sender<Outcome>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Deadline {
    /// So long after the process has taken the event.
    In(Duration),
    /// At this time, in ms since the epoch; 0 is none.
    At(u64),
}

/// An event that the process has taken.
pub(super) struct Taken {
    pub(super) request_id: String,
    pub(super) run: u64,
    pub(super) payload: String,
    pub(super) headers: HeaderMap,
    pub(super) deadline_ms: u64,
    /// How much time is left, if its end is to be enforced.
    pub(super) enforce_in: Option<Duration>,
}

struct Running {
    /// Tells this run from an earlier one with the same request id, whose timer may still tick.
    run: u64,
    answer: oneshot::Sender<Outcome>,
    log_from: usize,
    timed_out: bool,
}

/// Why an answer of the process is not accepted.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Refused {
    Unknown,
    Second,
}

/// The life of the process.
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
    /// Wakes a process that waits for its next event.
    pub(super) queued: Notify,
    /// Asks for the end of the process.
    pub(super) kill: Notify,
}

#[derive(Default)]
struct Tables {
    queue: VecDeque<Event>,
    running: HashMap<String, Running>,
    finished: HashSet<String>,
    runs: u64,
    init_error: Option<(String, String)>,
    killed: bool,
    /// The error of all invocations since the end of the process.
    end: Option<End>,
}

#[derive(Clone)]
enum End {
    Init(String, String),
    Exited(Option<ExitStatus>),
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

    /// Queues an event, or answers it at once if the process is gone.
    pub(super) fn push(&self, event: Event) {
        let mut tables = self.tables();
        if let Some(end) = &tables.end {
            let error = end.error(&self.log, 0);
            let _ = event.answer.send(Err(error));
            return;
        }
        tables.queue.push_back(event);
        drop(tables);
        self.queued.notify_one();
    }

    /// Queues the event if the process lives and has room for it; otherwise gives it back.
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

    /// Waits for the next event. Nothing is taken from the queue before the wait is over: a process that is killed while
    /// it waits takes no event with it.
    pub(super) async fn next(&self) -> Taken {
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

    fn take(&self) -> Option<Taken> {
        self.log.drain();
        let mut tables = self.tables();
        let event = loop {
            let event = tables.queue.pop_front()?;
            if !tables.running.contains_key(&event.request_id) {
                break event;
            }
            let reason = "this request id is running already: choose another one";
            let _ = event.answer.send(Err(InvokeError::Invalid { reason }));
        };
        // One permit may stand for several events.
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
            Running {
                run,
                answer: event.answer,
                log_from: self.log.len(),
                timed_out: false,
            },
        );
        Some(Taken {
            request_id: event.request_id,
            run,
            payload: event.payload,
            headers: event.headers,
            deadline_ms,
            enforce_in: (event.enforce && deadline_ms != 0).then_some(left),
        })
    }

    /// Gives the caller what the process sent for this request.
    pub(super) fn answer(&self, request_id: &str, sent: Sent) -> Result<(), Refused> {
        self.log.drain();
        let mut tables = self.tables();
        let Some(running) = tables.running.remove(request_id) else {
            let second = tables.finished.contains(request_id);
            return Err(if second {
                Refused::Second
            } else {
                Refused::Unknown
            });
        };
        tables.finished.insert(request_id.to_owned());
        drop(tables);
        let log = self.log.since(running.log_from);
        let request_id = request_id.to_owned();
        let outcome = match sent {
            Sent::Payload(payload) => Ok(Reply {
                payload,
                request_id,
                log,
            }),
            Sent::Error(error_type, error_message) => Err(InvokeError::Function {
                error_type,
                error_message,
                request_id,
                log,
            }),
        };
        let _ = running.answer.send(outcome);
        Ok(())
    }

    /// The process says that it cannot start: it is given nothing to do any more.
    pub(super) fn init_error(&self, error_type: String, error_message: String) {
        self.tables().init_error = Some((error_type, error_message));
        self.kill.notify_one();
    }

    /// Ends the process if this run of the request still goes on.
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

    /// Asks for the end of the process.
    pub(super) fn kill(&self) {
        let mut tables = self.tables();
        if tables.end.is_none() {
            tables.killed = true;
            drop(tables);
            self.kill.notify_one();
        }
    }

    /// The process is gone: whoever waits for it is told. Only the first call counts.
    pub(super) fn ended(&self, status: Option<ExitStatus>) {
        self.log.close();
        let mut tables = self.tables();
        if tables.end.is_some() {
            return;
        }
        let end = match tables.init_error.take() {
            Some((error_type, message)) => End::Init(error_type, message),
            None if *self.phase.borrow() == Phase::Starting
                && !tables.killed
                && status.is_some() =>
            {
                End::Init(
                    "Runtime.ExitError".to_owned(),
                    format!(
                        "the process ended before it asked for an event ({})",
                        ended(&status)
                    ),
                )
            }
            None => End::Exited(status),
        };
        tables.end = Some(end.clone());
        // Before anyone is told: who hears of the end must find it.
        self.phase.send_replace(Phase::Ended);
        for event in tables.queue.drain(..) {
            let _ = event.answer.send(Err(end.error(&self.log, 0)));
        }
        for (_, running) in tables.running.drain() {
            let error = if running.timed_out {
                let log = self.log.since(running.log_from);
                InvokeError::TimedOut { log }
            } else {
                end.error(&self.log, running.log_from)
            };
            let _ = running.answer.send(Err(error));
        }
    }

    /// The error of an invocation that comes after the end of the process; `None` while it lives.
    pub(super) fn end_error(&self) -> Option<InvokeError> {
        let end = self.tables().end.clone()?;
        Some(end.error(&self.log, 0))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a process sent for a request.
pub(super) enum Sent {
    Payload(String),
    /// Type and message.
    Error(String, String),
}

impl End {
    fn error(&self, log: &Log, log_from: usize) -> InvokeError {
        let log = log.since(log_from);
        match self {
            Self::Init(error_type, error_message) => InvokeError::Init {
                error_type: error_type.clone(),
                error_message: error_message.clone(),
                log,
            },
            Self::Exited(status) => InvokeError::Exited {
                status: *status,
                log,
            },
        }
    }
}
