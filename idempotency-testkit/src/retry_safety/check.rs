//! The builder of a check, and what it plays, without the types of its user.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use idempotency_lambda::{BoxError, with_backend, with_invocation};
use serde::Serialize;

use super::ending::Ending;
use super::process::Local;
use super::provider::Provider;
use super::report::SafetyReport;
use super::run;
use super::world::World;
use crate::dynamodb::{DatabaseError, TableSpec};

/// How long a process waits for what is on its way to or from a provider.
const SETTLE: Duration = Duration::from_millis(3);

/// A check of a function. [`retry_safety`](super::retry_safety()) starts it, [`run`](Self::run) plays it.
#[must_use = "a check does nothing until `run`"]
pub struct RetrySafety<E> {
    handler: Arc<dyn Fn(World, E) -> Local<Ending> + Send + Sync>,
    deliver: Option<Arc<dyn Fn(E, u32) -> E + Send + Sync>>,
    events: Vec<E>,
    counts: Vec<(String, Count)>,
    prepare: Vec<Prepare>,
    tables: Vec<TableSpec>,
    provider: Option<Provider>,
    ignored: Vec<String>,
    others: Vec<usize>,
    changed: Vec<usize>,
    ignored_effects: Vec<String>,
    retried_for: Option<Duration>,
    settle: Duration,
    own_server: bool,
    fails: bool,
    without_effect: bool,
}

impl<E: Clone + Send + Sync + 'static> RetrySafety<E> {
    pub(super) fn new<F, R, X>(event: E, handler: F) -> Self
    where
        F: AsyncFn(World, E) -> Result<R, X> + Send + Sync + 'static,
        R: Serialize + 'static,
        X: Into<BoxError> + 'static,
    {
        let handler = Arc::new(handler);
        Self {
            handler: Arc::new(move |world, event| {
                let handler = Arc::clone(&handler);
                Box::pin(async move {
                    let backend = match world.backend() {
                        Ok(backend) => backend,
                        Err(error) => {
                            return Ending::of(Err::<(), _>(BoxError::from(error.to_string())));
                        }
                    };
                    let context = world.context();
                    let call = async move { handler(world, event).await };
                    Ending::of(with_backend(backend, with_invocation(&context, call)).await)
                })
            }),
            deliver: None,
            events: vec![event],
            counts: Vec::new(),
            prepare: Vec::new(),
            tables: vec![TableSpec::new(super::RECORDS)],
            provider: None,
            ignored: Vec::new(),
            others: Vec::new(),
            changed: Vec::new(),
            ignored_effects: Vec::new(),
            retried_for: None,
            settle: Duration::ZERO,
            own_server: false,
            fails: false,
            without_effect: false,
        }
    }

    /// Adds an effect: how often it has happened in this world, or the sum of what was booked.
    ///
    /// The items of the function's own tables and the requests that a provider applied are compared without it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::BoxError;
    /// # use idempotency_testkit::retry_safety::{World, retry_safety};
    /// # use std::sync::Mutex;
    /// # #[derive(Default)]
    /// # struct Outbox(Mutex<Vec<u64>>);
    /// # let check = retry_safety(7_u64, async |_: World, _: u64| Ok::<(), BoxError>(()));
    /// let check = check.effect("mails", async |world| world.fake::<Outbox>().0.lock().unwrap().len());
    /// # let _ = check;
    /// ```
    pub fn effect<F, C>(mut self, name: &str, count: F) -> Self
    where
        F: AsyncFn(World) -> C + Send + Sync + 'static,
        C: TryInto<i64> + 'static,
    {
        let count = Arc::new(count);
        let count = Box::new(move |world| -> Local<i64> {
            let count = Arc::clone(&count);
            Box::pin(async move { count(world).await.try_into().unwrap_or(i64::MAX) })
        });
        self.counts.push((name.to_owned(), count));
        self
    }

    /// Adds a table of the function's own. Its items are compared after each scenario.
    ///
    /// The table `idempotency`, which the framework uses, is there already.
    pub fn table(mut self, table: TableSpec) -> Self {
        self.tables.push(table);
        self
    }

    /// Puts something into the world of each scenario before the first delivery, such as the balance of an account.
    ///
    /// # Examples
    ///
    /// ```
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_lambda::BoxError;
    /// # use idempotency_testkit::dynamodb::TableSpec;
    /// # use idempotency_testkit::retry_safety::{World, retry_safety};
    /// # let check = retry_safety(7_u64, async |_: World, _: u64| Ok::<(), BoxError>(()));
    /// let check = check.table(TableSpec::new("accounts")).prepare(async |world| {
    ///     let put = world.dynamodb().put_item().table_name("accounts");
    ///     let put = put.item("id", AttributeValue::S("a-1".into()));
    ///     put.item("balance", AttributeValue::N("100".into())).send().await.unwrap();
    /// });
    /// # let _ = check;
    /// ```
    pub fn prepare<F>(mut self, prepare: F) -> Self
    where
        F: AsyncFn(World) + Send + Sync + 'static,
    {
        let prepare = Arc::new(prepare);
        self.prepare.push(Arc::new(move |world| {
            let prepare = Arc::clone(&prepare);
            Box::pin(async move { prepare(world).await })
        }));
        self
    }

    /// Gives the world a provider: an HTTP server at [`World::url`], whose requests are points where faults happen.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = Some(provider);
        self.settle = self.settle.max(SETTLE);
        self
    }

    /// Makes each process wait this long for its sockets, in real time, before virtual time moves.
    ///
    /// It is needed for a server of the test's own, on another thread or runtime, and must be longer than the server takes for a
    /// reply. A check with a provider waits at least 3 ms. No fault falls inside of such a server: a report says so.
    pub fn settle(mut self, settle: Duration) -> Self {
        self.settle = self.settle.max(settle);
        self.own_server = true;
        self
    }

    /// Says for how long the sender can deliver the event again, such as the retention of a queue. The event is then delivered at
    /// the end of that time too: it finds a window (`expires_after`) that is shorter.
    pub fn retried_for(mut self, time: Duration) -> Self {
        self.retried_for = Some(time);
        self
    }

    /// Adds an event of another operation, such as the order of another user. It must have an effect of its own after the event
    /// was done.
    pub fn another(mut self, event: E) -> Self {
        self.others.push(self.events.len());
        self.events.push(event);
        self
    }

    /// Adds an event with the key of the event and another content, such as another amount. It must be refused.
    pub fn changed(mut self, event: E) -> Self {
        self.changed.push(self.events.len());
        self.events.push(event);
        self
    }

    /// Changes the event of each delivery (from 1), as its source does: a receive count, a request id, a time of arrival.
    pub fn delivered_as(mut self, change: impl Fn(E, u32) -> E + Send + Sync + 'static) -> Self {
        self.deliver = Some(Arc::new(change));
        self
    }

    /// Leaves out a part of responses, a JSON pointer such as `/created_at`, when they are compared. In an HTTP response with a
    /// JSON body the body is a part: `/body/created_at`.
    pub fn ignore(mut self, pointer: &str) -> Self {
        self.ignored.push(pointer.to_owned());
        self
    }

    /// Leaves out an effect that is meant to happen in each run, such as a count of attempts: an attribute `accounts.attempts`, a
    /// table `audit`, a request to the provider `POST /attempts`, or the name of a count. A report names it.
    ///
    /// If the faultless run has nothing of this name, the check fails.
    pub fn ignore_effect(mut self, name: &str) -> Self {
        self.ignored_effects.push(name.to_owned());
        self
    }

    /// Says that the faultless run ends with an error, as for a declined card. Then no final response is expected.
    pub fn fails(mut self) -> Self {
        self.fails = true;
        self
    }

    /// Says that the function has no effect that can be seen. Then its responses alone are compared.
    pub fn without_effect(mut self) -> Self {
        self.without_effect = true;
        self
    }

    /// Plays the faultless run, then each fault at each of its points, in a world of its own each time.
    ///
    /// It runs on threads of its own, so it can be awaited in any runtime. A scenario takes some milliseconds.
    pub async fn run(self) -> SafetyReport {
        let plan = self.plan();
        let (send, receive) = tokio::sync::oneshot::channel();
        let check = std::thread::Builder::new().name("retry-safety-check".to_owned());
        let started = check.spawn(move || {
            let _ = send.send(run::play(&plan).unwrap_or_else(SafetyReport::failed));
        });
        if let Err(error) = started {
            return SafetyReport::failed(Failure::of_thread(error));
        }
        let report = receive.await;
        report.unwrap_or_else(|_| SafetyReport::failed("the thread of the check panicked"))
    }

    fn plan(self) -> Plan {
        let (handler, deliver, events) = (self.handler, self.deliver, self.events);
        Plan {
            handler: Arc::new(move |world, number| {
                let mut event = events[number].clone();
                if let Some(deliver) = &deliver {
                    event = deliver(event, world.delivery());
                }
                handler(world, event)
            }),
            counts: Arc::new(self.counts),
            prepare: self.prepare,
            tables: self.tables,
            provider: self.provider,
            ignored: self.ignored,
            others: self.others,
            changed: self.changed,
            ignored_effects: self.ignored_effects,
            retried_for: self.retried_for,
            settle: self.settle,
            own_server: self.own_server,
            fails: self.fails,
            without_effect: self.without_effect,
        }
    }
}

impl<E> fmt::Debug for RetrySafety<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetrySafety").finish_non_exhaustive()
    }
}

/// Delivers the event with this number in a process.
pub(super) type Handler = Arc<dyn Fn(World, usize) -> Local<Ending> + Send + Sync>;

/// Counts an effect.
pub(super) type Count = Box<dyn Fn(World) -> Local<i64> + Send + Sync>;

/// Puts something into the world of a scenario before the first delivery.
pub(super) type Prepare = Arc<dyn Fn(World) -> Local<()> + Send + Sync>;

/// The number of the event whose effect is checked.
pub(super) const EVENT: usize = 0;

/// A check.
pub(super) struct Plan {
    pub(super) handler: Handler,
    pub(super) counts: Arc<Vec<(String, Count)>>,
    pub(super) prepare: Vec<Prepare>,
    pub(super) tables: Vec<TableSpec>,
    pub(super) provider: Option<Provider>,
    /// JSON pointers into responses, to what can differ.
    pub(super) ignored: Vec<String>,
    /// The numbers of the events of other operations.
    pub(super) others: Vec<usize>,
    /// The numbers of the events that have the key of the event and another content.
    pub(super) changed: Vec<usize>,
    /// The names of effects that are not compared.
    pub(super) ignored_effects: Vec<String>,
    /// For how long the sender can deliver the event again.
    pub(super) retried_for: Option<Duration>,
    /// How long a process waits for its sockets, in real time, before virtual time moves.
    pub(super) settle: Duration,
    /// True if the function asks a server of the test's own.
    pub(super) own_server: bool,
    /// True if the faultless run ends with an error.
    pub(super) fails: bool,
    /// True if the faultless run has no effect.
    pub(super) without_effect: bool,
}

/// Why a check could not run.
#[derive(Debug)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn of_thread(error: io::Error) -> Self {
        Self(format!("no thread could be started: {error}"))
    }
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
