//! A check of a function, and what its user sets.

use std::sync::Arc;
use std::time::Duration;

use idempotency_lambda::{BoxError, with_backend, with_invocation};
use serde::Serialize;

use super::ending::Ending;
use super::plan::{Count, Failure, Plan};
use super::play::play;
use super::process::Local;
use super::provider::Provider;
use super::report::SafetyReport;
use super::stage::Handler;
use super::world::World;
#[cfg(feature = "dynamodb")]
use crate::dynamodb::TableSpec;

/// How long a process waits for what is on its way to or from a provider.
const SETTLE: Duration = Duration::from_millis(3);

/// A check of a function. [`retry_safety`](super::retry_safety()) starts it, [`run`](Self::run) plays it.
#[must_use = "a check does nothing until `run`"]
pub struct RetrySafety<E> {
    handler: Arc<dyn Fn(World, E) -> Local<Ending> + Send + Sync>,
    deliver: Option<Arc<dyn Fn(E, u32) -> E + Send + Sync>>,
    events: Vec<E>,
    counts: Vec<(String, Count)>,
    plan: Plan,
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
            plan: Plan::default(),
        }
    }

    /// Adds an effect: how often it has happened in this world, or the sum of what was booked.
    ///
    /// The items of the function's own tables and the requests that a provider applied need no effect: they are compared anyway.
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
    #[cfg(feature = "dynamodb")]
    pub fn table(mut self, table: TableSpec) -> Self {
        self.plan.tables.push(table);
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
        self.plan.prepare.push(Arc::new(move |world| {
            let prepare = Arc::clone(&prepare);
            Box::pin(async move { prepare(world).await })
        }));
        self
    }

    /// Gives the world a provider: an HTTP server at [`World::url`], whose requests are points where faults happen.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.plan.provider = Some(provider);
        self.plan.settle = self.plan.settle.max(SETTLE);
        self
    }

    /// Gives the world a PostgreSQL, and keeps the records there: each statement of the function is a point where faults happen, and the
    /// rows of its tables are compared.
    ///
    /// `url` is that of a database for tests, without TLS. Each scenario has a schema of its own there (`retry_safety_..`), first in the
    /// search path, so `setup` creates the function's tables and first rows without the name of a schema. The table of the records is there already.
    /// What it writes in `call.begin()` needs no pool of the function; others connect as [`World::postgres`] says.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::BoxError;
    /// # use idempotency_postgres::sqlx::postgres::PgPoolOptions;
    /// # use idempotency_testkit::retry_safety::{World, retry_safety};
    /// let check = retry_safety(7_u64, async |world: World, _order: u64| {
    ///     let _pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(world.postgres());
    ///     // Call the function here.
    ///     Ok::<(), BoxError>(())
    /// });
    /// let accounts = "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint); INSERT INTO accounts VALUES ('a', 100)";
    /// let check = check.postgres("postgres://test@127.0.0.1/test", accounts);
    /// # let _ = check;
    /// ```
    #[cfg(feature = "postgres")]
    pub fn postgres(mut self, url: &str, setup: &str) -> Self {
        self.plan.postgres = Some((url.to_owned(), setup.to_owned()));
        self.plan.settle = self.plan.settle.max(SETTLE);
        self
    }

    /// Makes each process wait this long for its sockets, in real time, before virtual time moves.
    ///
    /// It is needed for a server of the test's own, on another thread or runtime, and must be longer than the server takes for a
    /// reply. A check with a provider waits at least 3 ms. No fault falls inside of such a server: a report says so.
    pub fn settle(mut self, settle: Duration) -> Self {
        self.plan.settle = self.plan.settle.max(settle);
        self.plan.own_server = true;
        self
    }

    /// Says for how long the sender can deliver the event again, such as the retention of a queue. The event is then delivered at
    /// the end of that time too: it finds a window (`expires_after`) that is shorter.
    pub fn retried_for(mut self, time: Duration) -> Self {
        self.plan.retried_for = Some(time);
        self
    }

    /// Adds an event of another operation, such as the order of another user. It must have an effect of its own after the event
    /// was done.
    pub fn another(mut self, event: E) -> Self {
        self.plan.others.push(self.events.len());
        self.events.push(event);
        self
    }

    /// Adds an event with the key of the event and another content, such as another amount. It must be refused.
    pub fn changed(mut self, event: E) -> Self {
        self.plan.changed.push(self.events.len());
        self.events.push(event);
        self
    }

    /// Changes the event of each delivery (from 1), as its source does: a receive count, a request id, a time of arrival.
    pub fn delivered_as(mut self, change: impl Fn(E, u32) -> E + Send + Sync + 'static) -> Self {
        self.deliver = Some(Arc::new(change));
        self.plan.is_changed_by_delivery = true;
        self
    }

    /// Leaves out a part of responses, a JSON pointer such as `/created_at`, when they are compared. In an HTTP response with a
    /// JSON body the body is a part: `/body/created_at`.
    pub fn ignore(mut self, pointer: &str) -> Self {
        self.plan.ignored.push(pointer.to_owned());
        self
    }

    /// Leaves out an effect that is meant to happen in each run, such as a count of attempts: an attribute `accounts.attempts`, a
    /// table `audit`, a request to the provider `POST /attempts`, or the name of a count. A report names it.
    ///
    /// If the faultless run has nothing of this name, the check fails.
    pub fn ignore_effect(mut self, name: &str) -> Self {
        self.plan.ignored_effects.push(name.to_owned());
        self
    }

    /// Says that these effects are one: it happens in one of these ways, such as a charge at one of two providers, or a mail that
    /// waits in an outbox while its service is down. Each name is as in [`ignore_effect`](Self::ignore_effect); of a table the items
    /// are counted.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::BoxError;
    /// # use idempotency_testkit::retry_safety::{World, retry_safety};
    /// # let check = retry_safety(7_u64, async |_: World, _: u64| Ok::<(), BoxError>(()));
    /// let check = check.one_of(["POST /first-bank/charges", "POST /second-bank/charges"]);
    /// # let _ = check;
    /// ```
    pub fn one_of<const N: usize>(mut self, names: [&str; N]) -> Self {
        self.plan.one_of.push(names.map(str::to_owned).into());
        self
    }

    /// Says that the faultless run ends with an error, as for a declined card. Then no final response is expected.
    pub fn fails(mut self) -> Self {
        self.plan.fails = true;
        self
    }

    /// Says that the function has no effect that can be seen. Then its responses alone are compared.
    pub fn without_effect(mut self) -> Self {
        self.plan.without_effect = true;
        self
    }

    /// Plays the faultless run, then each fault at each of its points, in a world of its own each time.
    ///
    /// It runs on threads of its own, so it can be awaited in any runtime. A scenario takes some milliseconds.
    pub async fn run(self) -> SafetyReport {
        let (handler, plan) = self.plan();
        let (send, receive) = tokio::sync::oneshot::channel();
        let check = std::thread::Builder::new().name("retry-safety-check".to_owned());
        let started = check.spawn(move || {
            let _ = send.send(play(&plan, &handler).unwrap_or_else(SafetyReport::failed));
        });
        if let Err(error) = started {
            return SafetyReport::failed(Failure::of_thread(error));
        }
        let report = receive.await;
        report.unwrap_or_else(|_| SafetyReport::failed("the thread of the check panicked"))
    }

    fn plan(self) -> (Handler, Plan) {
        let (handler, deliver, events) = (self.handler, self.deliver, self.events);
        let mut plan = self.plan;
        plan.counts = Arc::new(self.counts);
        let handler: Handler = Arc::new(move |world, number| {
            let mut event = events[number].clone();
            if let Some(deliver) = &deliver {
                event = deliver(event, world.delivery());
            }
            handler(world, event)
        });
        (handler, plan)
    }
}
