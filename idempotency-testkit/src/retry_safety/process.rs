//! One process: a thread with a runtime of its own, whose timers are virtual, and the clock that moves with them.
//!
//! The end of the process ends its spawned tasks and closes its connections, as a kill does. Virtual time moves when all tasks of
//! the process wait for timers. A process with sockets must first get what is on its way to them: it waits some real time.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use idempotency_core::future::BoxFuture;
use idempotency_core::time::{Clock, EpochMillis};
use tokio::runtime::Builder;

use super::gate::{FaultKind, Gate, Message, Point, Service};
use super::provider;
use super::stage::ScenarioWorld;
use crate::lock::lock;

/// How long one invocation can take, in virtual time. Leases end then too.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a process waits, in real time, before it looks at its sockets again.
const LOOK: Duration = Duration::from_micros(200);

thread_local! {
    static CURRENT: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
}

/// A process that has one invocation.
pub(super) struct Process {
    pub(super) shared: Arc<ScenarioWorld>,
    pub(super) gate: Gate,
    /// The number of the delivery that the process gets, from 1; 0 for the check itself.
    pub(super) delivery: u32,
    epoch: Epoch,
    /// The call of a client whose sends are refused.
    refused: Mutex<Option<String>>,
    /// The services that reply with errors until the process ends.
    down: Mutex<Vec<Service>>,
    /// When the process was last seen to do something.
    active: Mutex<Instant>,
}

/// How the work of a process ended.
pub(super) enum End<T> {
    Done(T),
    Panicked,
    Killed,
    TimedOut,
}

/// What became of a request.
pub(super) enum RequestFate<T> {
    /// It was not performed, and its reply is an error.
    Refused,
    /// It was performed, and its connection breaks before the reply.
    Lost,
    Done(T),
}

/// The future of a process. It stays on the thread of the process.
pub(super) type Local<T> = Pin<Box<dyn Future<Output = T>>>;

impl Process {
    /// Returns a process that has not started, and its messages.
    pub(super) fn new(
        shared: &Arc<ScenarioWorld>,
        delivery: u32,
        plan: Option<(Point, FaultKind)>,
    ) -> (Arc<Self>, Receiver<Message>) {
        let (gate, messages) = Gate::new(plan);
        let process = Self {
            shared: Arc::clone(shared),
            gate,
            delivery,
            epoch: Epoch::default(),
            refused: Mutex::default(),
            down: Mutex::default(),
            active: Mutex::new(Instant::now()),
        };
        (Arc::new(process), messages)
    }

    /// Returns the process that the running thread belongs to.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns the time of the world.
    pub(super) fn now(&self) -> EpochMillis {
        self.epoch.now().unwrap_or_else(|| self.shared.now())
    }

    /// Starts the process. `work` makes its future, on its thread.
    pub(super) fn start<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce() -> Local<T> + Send + 'static,
    ) -> io::Result<JoinHandle<End<T>>> {
        let named = thread::Builder::new().name(format!("delivery-{}", self.delivery));
        named.spawn(move || {
            let end = catch_unwind(AssertUnwindSafe(|| self.run(work)));
            self.gate.end();
            CURRENT.set(None);
            end.unwrap_or(End::Panicked)
        })
    }

    fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> Local<T>) -> End<T> {
        CURRENT.set(Some(Arc::clone(self)));
        let (of_threads, parked) = (Arc::clone(self), Arc::clone(self));
        // After each task the runtime polls the future that ends the process, so that no other task runs after a kill.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .event_interval(1)
            .on_thread_start(move || CURRENT.set(Some(Arc::clone(&of_threads))))
            .on_thread_park(move || parked.settle())
            .build();
        let Ok(runtime) = runtime else {
            return End::Panicked;
        };
        let end = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                self.epoch.set(self.shared.now());
                provider::serve(self);
                #[cfg(feature = "postgres")]
                super::postgres::serve(self);
                let end = self.invoke(work()).await;
                self.shared.set_now(self.now());
                end
            })
        }));
        // A task that blocks its thread cannot be killed: it is left behind.
        runtime.shutdown_background();
        end.unwrap_or(End::Panicked)
    }

    /// Runs the work as one invocation: until it is done, its time ends, or the process is killed.
    async fn invoke<T>(self: &Arc<Self>, mut work: Local<T>) -> End<T> {
        let mut deadline = std::pin::pin!(tokio::time::sleep(TIMEOUT));
        let woken = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        let end = std::future::poll_fn(|context| {
            woken.forward_to(context.waker());
            self.gate.set_supervisor(context.waker());
            if woken.take() {
                self.touch();
                if self.gate.is_dead() {
                    return Poll::Ready(End::Killed);
                }
                #[cfg(feature = "postgres")]
                self.gate.go_on();
                let mut context = Context::from_waker(&waker);
                let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context)));
                if self.gate.is_dead() {
                    return Poll::Ready(End::Killed);
                }
                match polled {
                    Ok(Poll::Ready(done)) => return Poll::Ready(End::Done(done)),
                    Ok(Poll::Pending) => {
                        let fault = self.gate.wait();
                        self.play(fault);
                    }
                    Err(_) => return Poll::Ready(End::Panicked),
                }
            }
            if self.gate.is_dead() {
                return Poll::Ready(End::Killed);
            }
            deadline.as_mut().poll(context).map(|()| End::TimedOut)
        })
        .await;
        if matches!(end, End::TimedOut) {
            self.gate.kill();
        }
        if matches!(end, End::Done(_)) {
            let fault = self.gate.response();
            self.play(fault);
            if !self.gate.is_dead() {
                self.run_background_tasks(deadline).await;
            }
        }
        end
    }

    /// Lets spawned tasks go on after the response, until they have ended or the time of the invocation ends.
    async fn run_background_tasks(&self, mut deadline: Pin<&mut tokio::time::Sleep>) {
        let metrics = tokio::runtime::Handle::current().metrics();
        std::future::poll_fn(|context| {
            self.gate.set_supervisor(context.waker());
            if self.gate.is_dead() || metrics.num_alive_tasks() == 0 {
                return Poll::Ready(());
            }
            deadline.as_mut().poll(context)
        })
        .await;
    }

    /// Lets a request pass the gate, with the fault that is planned there. A killed process waits without end.
    pub(super) async fn pass<T>(
        self: &Arc<Self>,
        service: Service,
        label: String,
        refuses: impl FnOnce(Option<FaultKind>) -> bool,
        perform: impl FnOnce(Option<FaultKind>) -> T,
    ) -> RequestFate<T> {
        if self.gate.is_dead() {
            return std::future::pending().await;
        }
        let fault = self.gate.request(service, label);
        if fault == Some(FaultKind::Outage) {
            lock(&self.down).push(service);
        }
        if refuses(fault) || lock(&self.down).contains(&service) {
            return RequestFate::Refused;
        }
        let crashes_after = fault.is_some_and(FaultKind::is_crash_after);
        if !crashes_after {
            self.play(fault);
        }
        if self.gate.is_dead() {
            return std::future::pending().await;
        }
        let done = perform(fault);
        self.touch();
        match fault {
            _ if crashes_after => {
                self.play(fault);
                std::future::pending().await
            }
            Some(FaultKind::NoReply) => std::future::pending().await,
            Some(FaultKind::LostReply) => RequestFate::Lost,
            _ => RequestFate::Done(done),
        }
    }

    /// Plays a fault that stops the process or its thread. Other faults are those of a request.
    pub(super) fn play(self: &Arc<Self>, fault: Option<FaultKind>) {
        match fault {
            Some(FaultKind::CrashBefore) => self.gate.kill(),
            Some(fault) if fault.is_crash_after() => self.gate.kill(),
            Some(
                fault @ (FaultKind::Duplicate | FaultKind::AnotherMeanwhile | FaultKind::Takeover),
            ) => {
                self.shared.set_now(self.now());
                provider::take_connections(self);
                #[cfg(feature = "postgres")]
                super::postgres::take_connections(self);
                self.gate.pause(fault);
                // The timers of the process stood still too.
                self.epoch.set(self.shared.now());
            }
            _ => {}
        }
    }

    /// Notes a use of a fake, and plays the fault. Returns true if the process is killed after it.
    ///
    /// A fake is used without an await, so a kill unwinds the stack of the function from here.
    pub(super) fn use_fake(self: &Arc<Self>, label: String) -> bool {
        self.touch();
        let fault = self.gate.request(Service::Fake, label);
        if fault.is_some_and(FaultKind::is_crash_after) {
            return true;
        }
        self.play(fault);
        if self.gate.is_dead() {
            self.kill_here();
        }
        false
    }

    /// Kills the process, and unwinds the stack of the function.
    pub(super) fn kill_here(&self) {
        self.gate.kill();
        // A second panic would end the program. What a destructor does now cannot be seen from outside.
        if !thread::panicking() {
            resume_unwind(Box::new("killed by `retry_safety`"));
        }
    }

    /// Returns true if nothing that the process does to a fake may be seen: it is dead, or its run is aside.
    pub(super) fn is_aside(&self) -> bool {
        self.shared.aside || self.gate.is_dead()
    }

    /// Refuses all sends of this call of the SDK.
    pub(super) fn refuse(&self, call: &str) {
        *lock(&self.refused) = Some(call.to_owned());
    }

    /// Returns true if the sends of this call are refused.
    pub(super) fn refuses(&self, call: &str) -> bool {
        let refused = lock(&self.refused);
        refused.as_deref() == Some(call)
    }

    /// Notes that the process does something.
    pub(super) fn touch(&self) {
        *lock(&self.active) = Instant::now();
    }

    /// Notes that the function waits for PostgreSQL.
    #[cfg(feature = "postgres")]
    pub(super) fn exchange(&self) {
        self.touch();
        self.gate.waits_for_reply();
    }

    /// Keeps the runtime from moving virtual time while something can be on its way to a socket. Called before the runtime waits.
    fn settle(&self) {
        if self.shared.settle.is_zero() {
            return;
        }
        let active = *lock(&self.active);
        if active.elapsed() < self.shared.settle {
            thread::sleep(LOOK);
            // The runtime then looks at its sockets, and does not wait.
            self.gate.wake_supervisor();
        }
    }
}

/// Relates the time of the world to the timers of one runtime.
#[derive(Default)]
pub(super) struct Epoch(Mutex<Option<(EpochMillis, tokio::time::Instant)>>);

impl Epoch {
    /// Sets the time of the world that it is now.
    pub(super) fn set(&self, now: EpochMillis) {
        *lock(&self.0) = Some((now, tokio::time::Instant::now()));
    }

    /// Returns the time of the world. `None` before the runtime has started.
    pub(super) fn now(&self) -> Option<EpochMillis> {
        let (then, since) = (*lock(&self.0))?;
        // Rounded up, as the timers of the runtime are.
        let elapsed = since.elapsed();
        Some(then.plus(elapsed.saturating_add(Duration::from_nanos(999_999))))
    }
}

/// The clock of the backend of a process.
pub(super) struct ProcessClock(pub(super) Arc<Process>);

impl Clock for ProcessClock {
    fn now(&self) -> EpochMillis {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Notes that the work of a process was woken. Its supervisor is woken for other reasons too, and must not poll the work then.
struct WakeFlag {
    work: AtomicBool,
    supervisor: Mutex<Option<Waker>>,
}

impl Default for WakeFlag {
    fn default() -> Self {
        Self {
            work: AtomicBool::new(true),
            supervisor: Mutex::default(),
        }
    }
}

impl WakeFlag {
    fn take(&self) -> bool {
        self.work.swap(false, Ordering::AcqRel)
    }

    fn forward_to(&self, waker: &Waker) {
        *lock(&self.supervisor) = Some(waker.clone());
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.work.store(true, Ordering::Release);
        let supervisor = lock(&self.supervisor).clone();
        if let Some(supervisor) = supervisor {
            supervisor.wake();
        }
    }
}
