//! A check: its builder, its plan without the types of its user, and its run (the faultless runs, then each fault at each point).

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::{BoxError, SystemClock, with_backend, with_invocation};
use serde::Serialize;

use super::effects::Expectation;
use super::ending::{Ending, comparable};
use super::ending::{judge, judge_after, judge_changed, judge_with_another, row};
use super::gate::{FaultKind, MAX_NOTED, Point, Trace};
use super::process::{Local, Process};
use super::provider::{Listener, Provider};
use super::report::{Row, SafetyReport, SafetyVerdict};
use super::stage::{Stage, Theatre};
use super::world::World;
use super::{RECORDS, Server};
#[cfg(feature = "dynamodb")]
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

/// Delivers the event with this number in a process.
pub(super) type Handler = Arc<dyn Fn(World, usize) -> Local<Ending> + Send + Sync>;

/// Counts an effect.
pub(super) type Count = Box<dyn Fn(World) -> Local<i64> + Send + Sync>;

/// Puts something into the world of a scenario before the first delivery.
pub(super) type Prepare = Arc<dyn Fn(World) -> Local<()> + Send + Sync>;

/// The number of the event whose effect is checked.
pub(super) const EVENT: usize = 0;

/// What a check plays, without the types of its user.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) counts: Arc<Vec<(String, Count)>>,
    pub(super) prepare: Vec<Prepare>,
    #[cfg(feature = "dynamodb")]
    pub(super) tables: Vec<TableSpec>,
    pub(super) provider: Option<Provider>,
    /// The URL of a database, and what is in it before the first delivery.
    #[cfg(feature = "postgres")]
    pub(super) postgres: Option<(String, String)>,
    /// JSON pointers into responses, to what can differ.
    pub(super) ignored: Vec<String>,
    /// The numbers of the events of other operations.
    pub(super) others: Vec<usize>,
    /// The numbers of the events that have the key of the event and another content.
    pub(super) changed: Vec<usize>,
    /// True if each delivery changes the event.
    pub(super) is_changed_by_delivery: bool,
    /// The names of effects that are not compared.
    pub(super) ignored_effects: Vec<String>,
    /// For each effect that can happen in several ways, their names.
    pub(super) one_of: Vec<Vec<String>>,
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

#[cfg(feature = "dynamodb")]
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

/// How much later the second faultless run starts than the first, so that their times differ.
const ANOTHER_TIME: Duration = Duration::from_secs(133_333);

/// How many ways through the function a check plays at most.
const MAX_COURSES: usize = 5;

/// How often a scenario is played at most, until its point is reached.
const TRIES: usize = 2;

/// The same for a point that is a wait for a socket: the machine decides whether a run has this wait.
const TRIES_FOR_SOCKET: usize = 6;

/// The points of a faultless run.
struct Course {
    /// True if the caches of the program were warm.
    is_warm: bool,
    trace: Trace,
}

/// Plays all scenarios.
pub(super) fn play(plan: &Plan, handler: &Handler) -> Result<SafetyReport, Failure> {
    let listener = match &plan.provider {
        Some(_) => Some(Arc::new(Listener::bind().map_err(Failure::of_thread)?)),
        None => None,
    };
    let theatre = Theatre {
        plan,
        handler,
        server: Server::start()?,
        listener,
        #[cfg(feature = "postgres")]
        postgres: match &plan.postgres {
            Some((url, setup)) => Some(Arc::new(super::postgres::Server::start(url, setup)?)),
            None => None,
        },
        start: before_midnight(SystemClock.now()),
        rerun_in_another_second: Cell::new(true),
        stale_reads: RefCell::default(),
        seen: RefCell::default(),
    };
    let mut report = SafetyReport::empty();
    report.unseen = unseen(plan);
    let (expectation, first) = without_faults(&theatre, &mut report)?;
    let orders = other_events(&theatre, &expectation, &mut report.rows)?;
    beyond_reach(&theatre, &mut report.rows)?;
    let mut number = 0;
    for course in courses(&theatre, first, &mut report)? {
        let mark = if course.is_warm { " (warm)" } else { "" };
        for (point, label) in course.trace {
            number += 1;
            let faults = FaultKind::ALL.into_iter().filter(|fault| {
                let can_be = match fault {
                    FaultKind::CrashThenLate => !course.is_warm,
                    other if other.has_another() => !orders.is_empty() && !course.is_warm,
                    _ => true,
                };
                can_be && point.has(*fault)
            });
            for fault in faults {
                let (stage, is_reached) = scenario(&theatre, course.is_warm, (&point, fault))?;
                let label = format!("{label}{mark}");
                // The requests before and after this wait are points of their own, so the effects around it were played.
                if !is_reached && is_wait_for_socket(plan, &point) {
                    report.unplayed.push(format!("`{label}`, {}", fault.name()));
                    continue;
                }
                let verdict = match is_reached {
                    true if fault.has_another() => judge_with_another(plan, &stage, &orders)?,
                    true => judge(plan, &stage, &expectation)?,
                    false => (SafetyVerdict::NotReached, Vec::new()),
                };
                let row = row(number, label, Some(fault), verdict, &stage);
                report.rows.push(row);
            }
        }
    }
    let seen = theatre.seen.borrow();
    let of_several = plan.one_of.iter().flatten();
    report
        .unseen
        .extend(of_several.filter(|name| !seen.contains(*name)).map(|name| {
            format!("`{name}` of `.one_of(..)`: no case had this effect, so check its name")
        }));
    report.unseen.extend(
        expectation
            .not_compared()
            .iter()
            .map(|name| format!("`{name}`, as it differs between two runs without a fault")),
    );
    let stale = theatre.stale_reads.borrow();
    report.unseen.extend(stale.iter().map(|read| {
        format!("`{read}` with an earlier state, as it is eventually consistent: set `consistent_read(true)` if a run decides by it")
    }));
    Ok(report)
}

/// Returns true if the machine decides whether a run has this wait, and not the function alone.
fn is_wait_for_socket(plan: &Plan, point: &Point) -> bool {
    !plan.settle.is_zero() && matches!(point, Point::Await(..))
}

/// Plays a fault at a point. Returns the stage, and whether the point was reached.
fn scenario<'a>(
    theatre: &'a Theatre<'_>,
    is_warm: bool,
    (point, fault): (&Point, FaultKind),
) -> Result<(Stage<'a>, bool), Failure> {
    let most = match is_wait_for_socket(theatre.plan, point) {
        true => TRIES_FOR_SOCKET,
        false => TRIES,
    };
    let mut tries = 0;
    loop {
        let mut stage = match is_warm {
            true => theatre.warm_stage()?,
            false => theatre.stage()?,
        };
        let process = stage.play(point.clone(), fault)?;
        tries += 1;
        if process.gate.played() || tries == most {
            return Ok((stage, process.gate.played()));
        }
    }
}

/// Returns the time just before the next midnight (UTC), so that the event is delivered again on another day.
fn before_midnight(now: EpochMillis) -> EpochMillis {
    const DAY: i64 = 86_400_000;
    let since_midnight = now.get().rem_euclid(DAY);
    EpochMillis::new(now.get() - since_midnight + DAY - 500)
}

/// Returns what this check does not look at.
fn unseen(plan: &Plan) -> Vec<String> {
    let ignored = plan.ignored_effects.iter();
    let mut unseen: Vec<_> = ignored
        .map(|name| format!("`{name}`, which the check ignores"))
        .collect();
    if plan.retried_for.is_none() {
        let window = "a delivery after the window (`expires_after`) has ended: say how long the sender delivers again, with \
                      `.retried_for(..)`";
        unseen.push(window.to_owned());
    }
    for (is_given, missing) in [
        (
            !plan.others.is_empty(),
            "the event of another operation, such as the order of another user, which can come between a crash and its redelivery: \
             give it with `.another(..)`",
        ),
        (
            !plan.changed.is_empty(),
            "an event with the same key and another content: give it with `.changed(..)`",
        ),
        (
            plan.is_changed_by_delivery,
            "what each delivery of the event changes, such as a receive count: make it with `.delivered_as(..)`",
        ),
    ] {
        if !is_given {
            unseen.push(missing.to_owned());
        }
    }
    unseen.push(
        "what a new process changes and a delivery here does not: the process id, a `static`, the environment, the real clock. A \
         token or an amount must not depend on them"
            .to_owned(),
    );
    #[cfg(feature = "postgres")]
    if plan.postgres.is_some() {
        unseen.push(
            "locks of a killed process: its transactions are rolled back at once, and a server can take longer".to_owned(),
        );
    }
    if plan.own_server {
        unseen.push("faults inside of a server of the test's own".to_owned());
    }
    unseen
}

/// Plays the faultless run and later deliveries. Returns what it changes, and its points.
fn without_faults(
    theatre: &Theatre<'_>,
    report: &mut SafetyReport,
) -> Result<(Expectation, Trace), Failure> {
    let plan = theatre.plan;
    let (expectation, mut stage, process) = effect_of(theatre, &[EVENT])?;
    let (trace, had_more) = process.gate.trace();
    if let Some(delivery) = stage.deliveries.first()
        && !plan.fails
        && delivery.ending.final_response().is_none()
    {
        let ending = match &delivery.ending {
            Ending::Failed { name, message } => format!("error {name}: {message}"),
            other => other.text(),
        };
        return Err(Failure::new(format!(
            "the delivery without a fault ended with: {ending}\n(if it is meant to fail, say so with `.fails()`)"
        )));
    }
    let all = stage.all()?;
    if let Some(name) = plan.ignored_effects.iter().find(|name| !all.has(name)) {
        return Err(Failure::new(format!(
            "the delivery without a fault had no effect `{name}`, so it cannot be ignored: name a count, a table, an attribute \
             such as `accounts.attempts`, or a request such as `POST /attempts`"
        )));
    }
    if let Some(names) = plan
        .one_of
        .iter()
        .find(|names| !names.iter().any(|name| all.has(name)))
    {
        return Err(Failure::new(format!(
            "the delivery without a fault had no effect of `.one_of({names:?})`: name counts, tables, or requests such as `POST /charges`"
        )));
    }
    if !expectation.sees_an_effect() && !plan.without_effect {
        return Err(Failure::new(
            "the delivery without a fault had no effect that can be seen, so this check would prove nothing: count the effect \
             with `.effect(..)`, add the function's table with `.table(..)`, or let it use the provider of `.provider(..)` \
             (if it has no effect, say so with `.without_effect()`)",
        ));
    }
    if !trace.iter().any(|(_, label)| label.contains(RECORDS)) {
        report.notes.push(format!(
            "The function made no request to the table `{RECORDS}`: nothing protects it. A call in a spawned task needs \
             `in_current_invocation`."
        ));
    }
    let alone = process.gate.lone_writes().into_iter();
    report.notes.extend(alone.map(|write| {
        format!("`{write}` was committed by itself, not in the transaction of the response.")
    }));
    if had_more {
        report.unseen.push(more_points());
    }
    stage.shared.advance(Duration::from_secs(1));
    stage.deliver(EVENT, None)?;
    let verdict = judge(plan, &stage, &expectation)?;
    let point = "delivered again".to_owned();
    report.rows.push(row(0, point, None, verdict, &stage));
    if let Some(time) = plan.retried_for {
        stage.shared.advance(time);
        stage.deliver(EVENT, None)?;
        let (verdict, mut findings) = judge(plan, &stage, &expectation)?;
        if !verdict.is_safe() {
            let longer = "the window has ended before: make `expires_after` longer than the sender's retries, as a setting and where the handler calls it";
            findings.push(longer.to_owned());
        }
        let point = "delivered at the end of the retries".to_owned();
        let verdict = (verdict, findings);
        report.rows.push(row(0, point, None, verdict, &stage));
    }
    Ok((expectation, trace))
}

/// Plays the events of other operations, and those with another content. Returns what the event and the first other one change, in
/// both orders.
fn other_events(
    theatre: &Theatre<'_>,
    expectation: &Expectation,
    rows: &mut Vec<Row>,
) -> Result<Vec<Expectation>, Failure> {
    let plan = theatre.plan;
    let mut orders = Vec::new();
    for (index, event) in plan.others.iter().enumerate() {
        let alone = effect_of(theatre, &[*event])?.0;
        let mut stage = theatre.stage()?;
        let verdict = judge_after(&mut stage, (EVENT, *event), &alone, &plan.ignored)?;
        let is_safe = verdict.0.is_safe();
        let point = numbered("another event", index);
        rows.push(row(0, point, None, verdict, &stage));
        if index > 0 || !is_safe {
            continue;
        }
        for order in [[EVENT, *event], [*event, EVENT]] {
            orders.push(effect_of(theatre, &order)?.0);
        }
        stage.shared.advance(Duration::from_secs(1));
        stage.deliver(EVENT, None)?;
        let verdict = judge_with_another(plan, &stage, &orders)?;
        let point = "delivered again after another event".to_owned();
        rows.push(row(0, point, None, verdict, &stage));
        let mut stage = theatre.stage()?;
        let verdict = judge_after(&mut stage, (*event, EVENT), expectation, &plan.ignored)?;
        rows.push(row(
            0,
            "after another event".to_owned(),
            None,
            verdict,
            &stage,
        ));
    }
    for (index, event) in theatre.plan.changed.iter().enumerate() {
        let mut stage = theatre.stage()?;
        let verdict = judge_changed(&mut stage, *event)?;
        let point = numbered("changed event", index);
        rows.push(row(0, point, None, verdict, &stage));
    }
    Ok(orders)
}

/// Finds the effects that happen where no fault can fall. A second world shares the fakes of the first, but what it does under a
/// lock of a fake is kept aside. A count of the first world that the second one changes is such an effect.
fn beyond_reach(theatre: &Theatre<'_>, rows: &mut Vec<Row>) -> Result<(), Failure> {
    if theatre.plan.counts.is_empty() || theatre.plan.own_server {
        return Ok(());
    }
    let seen = theatre.stage()?;
    let mut aside = theatre.stage_aside(&seen)?;
    let before = seen.snapshot()?.counts;
    aside.deliver(EVENT, None)?;
    let after = seen.snapshot()?.counts;
    for (name, _) in after
        .iter()
        .filter(|(name, count)| before.get(*name) != Some(*count))
    {
        let finding = format!(
            "`{name}` changes outside of every `retry_safety::Mutex`, so no fault falls between it and what is done beside it"
        );
        let verdict = (SafetyVerdict::NotReached, vec![finding]);
        rows.push(row(0, format!("effect `{name}`"), None, verdict, &seen));
    }
    Ok(())
}

fn more_points() -> String {
    format!(
        "more than the first {MAX_NOTED} waits of the function, and of the uses of a fake at one place"
    )
}

/// Returns the ways through the function: the first run, and those of a program with warm caches, until there is no new one.
fn courses(
    theatre: &Theatre<'_>,
    first: Trace,
    report: &mut SafetyReport,
) -> Result<Vec<Course>, Failure> {
    let points = |trace: &Trace| -> Vec<Point> {
        let points = trace.iter().map(|(point, _)| point.clone());
        points
            .filter(|point| !is_wait_for_socket(theatre.plan, point))
            .collect()
    };
    let mut courses = vec![Course {
        is_warm: false,
        trace: first,
    }];
    loop {
        let mut stage = theatre.warm_stage()?;
        let (trace, had_more) = stage.deliver(EVENT, None)?.gate.trace();
        if had_more {
            report.unseen.push(more_points());
        }
        if courses
            .iter()
            .any(|known| points(&known.trace) == points(&trace))
        {
            return Ok(courses);
        }
        if courses.len() == MAX_COURSES {
            let more = format!(
                "more than {MAX_COURSES} ways through the function: each run has other points"
            );
            report.unseen.push(more);
            return Ok(courses);
        }
        courses.push(Course {
            is_warm: true,
            trace,
        });
    }
}

/// Delivers events once in an empty world, and once in another one. Returns what they change, and the first world with the process of
/// the last event. The responses are those to the last event.
fn effect_of<'a>(
    theatre: &'a Theatre<'_>,
    events: &[usize],
) -> Result<(Expectation, Stage<'a>, Arc<Process>), Failure> {
    let mut stage = theatre.stage()?;
    let before = stage.snapshot()?;
    stage.shared.watch(true);
    let mut process = None;
    for event in events {
        process = Some(stage.deliver(*event, None)?);
    }
    let (Some(process), Some(event)) = (process, events.last()) else {
        return Err(Failure::new("there is no event to deliver"));
    };
    let earlier = stage.shared.watch(false);
    let after = stage.snapshot()?;
    let mut another = theatre.stage_at(ANOTHER_TIME, "another-request")?;
    for event in events {
        another.deliver(*event, None)?;
    }
    let response = |stage: &Stage<'_>| {
        let response = stage.response_to(*event)?;
        Some(comparable(response, &theatre.plan.ignored))
    };
    let expectation = Expectation {
        before,
        after,
        again: another.snapshot()?,
        earlier,
        responses: (response(&stage), response(&another)),
    };
    Ok((expectation, stage, process))
}

fn numbered(name: &str, index: usize) -> String {
    match index {
        0 => name.to_owned(),
        index => format!("{name} {}", index + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_delivered_again_on_another_day() {
        for now in [0, 1, 86_399_999, 1_800_000_000_000] {
            let start = before_midnight(EpochMillis::new(now)).get();
            assert!(start > now - 500 && start <= now + 86_400_000, "{now}");
            assert_ne!(start / 86_400_000, (start + 1_000) / 86_400_000, "{now}");
        }
    }
}
