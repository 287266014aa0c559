//! The connections: how they are opened, tested after a pause, and never used again in an unknown state.

use std::pin::pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_core::config::ConfigurationError;
use idempotency_core::future::BoxFuture;
use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{
    PgConnectOptions, PgPool, PgPoolOptions, PgRow, PgSslMode, PgTransactionManager,
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, SqlSafeStr as _};
use sqlx_core::transaction::TransactionManager as _;
use tokio::time::{Instant, timeout};

use crate::failure::{Failure, Next, Whom, is_rejection};
use crate::limits::TEST_WITHIN;
use crate::statement::{self, IN_TRANSACTION, Reply, Statement};
use crate::table::TableName;
use crate::transaction::{PostgresTransaction, give_back, is_open};

/// A connection that was not used for longer than this is tested before it is used.
pub(crate) const TEST_AFTER: Duration = Duration::from_secs(5);

/// How long connections are kept from the pool. It then closes those that no request needs, and those that are old.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

/// How long a request without a limit waits for a connection: the start, and an operator.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// After this time such a request tries a connection of its own. The start of a function has 2 s.
const SAY_WHY_AFTER: Duration = Duration::from_secs(1);

/// How long a statement without a limit waits for another transaction.
const WAIT_WITHOUT_LIMIT: Duration = Duration::from_secs(5);

/// The longest time that a statement waits for another transaction. The server accepts no more than 24 days.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What is left of the time of a request for its reply.
const REPLY_RESERVE: Duration = Duration::from_millis(100);

/// After this time a password is asked for again. A token of IAM is valid for 15 minutes.
const PASSWORD_AFTER: Duration = Duration::from_secs(10 * 60);

type Password = dyn Fn() -> BoxFuture<'static, Result<String, Box<dyn std::error::Error + Send + Sync>>>
    + Send
    + Sync;

/// Where the passwords of new connections come from.
#[derive(Clone)]
pub(crate) struct Passwords {
    pub(crate) next: Arc<Password>,
    /// When it was asked for, in milliseconds since the epoch. The clock of the system goes on while a function is frozen.
    pub(crate) asked: Arc<AtomicU64>,
}

/// What a store does with a pool that it has made, and that no other part of the program uses.
#[derive(Default)]
pub(crate) struct Own {
    test_after: Duration,
    /// When a connection was closed last, by the clock of the system. A failover breaks all at once: those from before are tested.
    closed: Arc<AtomicU64>,
    kept: Mutex<Kept>,
}

/// The connections that are kept from the pool.
#[derive(Default)]
struct Kept {
    spare: Vec<Spare>,
    /// Since when, by the clock of the system.
    since: u64,
    /// How many requests wait for one of the pool. Then none is kept.
    waiting: usize,
}

/// A request that waits for a connection of the pool.
struct Waiting<'a>(&'a Own);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.kept().waiting -= 1;
    }
}

impl Kept {
    /// Keeps a connection that was used until now. Returns those that go back to the pool: all, if a request waits, or after a time.
    fn keep(&mut self, spare: Spare) -> Vec<Spare> {
        let now = spare.used;
        self.spare.push(spare);
        let is_due = Duration::from_millis(now.abs_diff(self.since)) >= KEPT_FOR;
        if !is_due && self.waiting == 0 {
            return Vec::new();
        }
        self.since = now;
        std::mem::take(&mut self.spare)
    }
}

impl Own {
    pub(crate) fn new(test_after: Duration) -> Self {
        let own = Self {
            test_after,
            ..Self::default()
        };
        own.kept().since = now();
        own
    }

    pub(crate) fn pool_options(&self) -> PgPoolOptions {
        pool_options(self.test_after, Arc::clone(&self.closed))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection that was used last, and whether it needs no test.
    fn spare(&self) -> Option<(Spare, bool)> {
        let spare = self.kept().spare.pop()?;
        let is_fresh = is_fresh(since(spare.used), self.test_after, &self.closed);
        Some((spare, is_fresh))
    }

    /// Returns all to the pool, and keeps none while a request waits for one of it.
    fn wait(&self) -> Waiting<'_> {
        let mut kept = self.kept();
        kept.waiting += 1;
        kept.spare.clear();
        Waiting(self)
    }
}

/// The connections of a store.
pub(crate) struct Connections {
    pool: PgPool,
    own: Option<Own>,
    /// True if each statement is prepared in a transaction of its own, as a pooler needs that keeps none: four round trips. Otherwise each
    /// connection prepares a statement once, and keeps it: one round trip.
    is_pooled: bool,
    passwords: Option<Passwords>,
    pub(crate) whom: Whom,
}

/// Returns how to connect to the server of a URL: with TLS, unless the URL switches it off.
///
/// # Errors
///
/// If it is no URL of PostgreSQL. The text does not quote it, because it can have a password.
pub(crate) fn options(setting: &str, url: &str) -> Result<PgConnectOptions, ConfigurationError> {
    let wrong = |what: &str| {
        ConfigurationError::new(format!(
            "{setting} {what}: write `postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full`, with `%40` for `@` and so on in the \
             password"
        ))
    };
    let schemes = ["postgres://", "postgresql://"];
    if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(wrong("is no URL of PostgreSQL"));
    }
    // `sqlx` would log the value of a parameter that it does not know.
    let (_, query) = url.split_once('?').unwrap_or_default();
    let names = query.split('&').filter_map(|it| it.split('=').next());
    let names: Vec<_> = names.filter(|it| !it.is_empty()).collect();
    // No name is quoted: it can be the rest of a password that has a `?`.
    if !names
        .iter()
        .all(|it| PARAMETERS.split(", ").any(|known| known == *it))
    {
        let what = format!("has a parameter that is not one of {PARAMETERS}");
        return Err(wrong(&what));
    }
    let options = PgConnectOptions::from_str(url).map_err(|_| wrong("cannot be read"))?;
    Ok(secured(options, names.contains(&"sslmode")))
}

/// The parameters of a URL that are accepted. `options` is none of them, because a pooler refuses it, nor is `statement-cache-capacity`: without a
/// cache each request would leave a prepared statement behind.
const PARAMETERS: &str = "sslmode, sslrootcert, sslcert, sslkey, host, hostaddr, port, dbname, user, password, application_name";

/// Returns the same options, which never fall back to a connection without TLS. Only the URL switches it off, not the variable PGSSLMODE.
/// A socket of this machine has none.
fn secured(options: PgConnectOptions, is_in_url: bool) -> PgConnectOptions {
    // A pooler refuses `extra_float_digits`, and no value here is a float.
    let options = options.extra_float_digits(None);
    // With the brackets of a URL `sqlx` takes an address of IPv6 for a name.
    let host = options.get_host().trim_matches(['[', ']']).to_owned();
    let options = options.host(&host);
    let is_socket = options.get_socket().is_some() || options.get_host().starts_with('/');
    let mode = match options.get_ssl_mode() {
        _ if is_socket => PgSslMode::Disable,
        PgSslMode::Allow | PgSslMode::Prefer => PgSslMode::Require,
        PgSslMode::Disable if !is_in_url => PgSslMode::Require,
        mode => mode,
    };
    options.ssl_mode(mode)
}

/// Returns the options of a pool for a function: one connection, which is tested before it is used after a pause, or after one was `closed`.
pub(crate) fn pool_options(test_after: Duration, closed: Arc<AtomicU64>) -> PgPoolOptions {
    let used = Arc::new(AtomicU64::new(now()));
    PgPoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .before_acquire(move |connection, meta| {
            // Lambda may have frozen the process: then the clock of `idle_for` can have stopped, and the clock of the system has not.
            let paused = meta
                .idle_for
                .max(since(used.swap(now(), Ordering::Relaxed)));
            let is_fresh = is_fresh(paused, test_after, &closed);
            Box::pin(async move { Ok(is_fresh || is_alive(Ok(connection)).await) })
        })
}

/// Returns true if a connection needs no test after this pause: it was used after one was `closed`.
fn is_fresh(paused: Duration, test_after: Duration, closed: &AtomicU64) -> bool {
    paused < test_after.min(since(closed.load(Ordering::Relaxed)))
}

/// Returns true if the server replies over this connection.
async fn is_alive(connection: Result<&mut PgConnection, sqlx::Error>) -> bool {
    let ping = async { connection?.ping().await };
    matches!(timeout(TEST_WITHIN, ping).await, Ok(Ok(())))
}

/// The connection of the last request, which the next one takes. The pool tests each connection that is returned to it, by a round trip that
/// the next request would wait for.
struct Spare {
    connection: Option<PoolConnection<Postgres>>,
    /// When it was used last, by the clock of the system.
    used: u64,
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.connection.take().into_iter().for_each(give_back);
    }
}

/// Returns the time of the system, in milliseconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Returns the time since a time of the system. Zero if that was set back.
fn since(then: u64) -> Duration {
    Duration::from_millis(now().saturating_sub(then))
}

impl Connections {
    pub(crate) fn new(
        pool: PgPool,
        own: Option<Own>,
        is_pooled: bool,
        passwords: Option<Passwords>,
        table: &TableName,
    ) -> Self {
        let options = pool.connect_options();
        let server = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or(options.get_username());
        let plain = table.plain();
        let whom = Whom {
            name: format!("PostgreSQL table `{plain}` of `{database}` at {server}"),
            table: table.to_string(),
            role: options.get_username().to_owned(),
        };
        Self {
            pool,
            own,
            is_pooled,
            passwords,
            whom,
        }
    }

    /// Returns the pool. From then on no connection is kept from it.
    pub(crate) fn pool(&self) -> &PgPool {
        if let Some(own) = &self.own {
            // The program can wait for one at any time.
            std::mem::forget(own.wait());
        }
        &self.pool
    }

    /// Takes a connection, within the time of the request. Nothing is sent yet, except for a test of the connection.
    pub(crate) async fn acquire(&self, log: &SendLog) -> Result<InUse<'_>, Failure> {
        let limit = log.limit();
        let mut used = InUse {
            connection: None,
            of: self,
            deadline: limit.map(|limit| Instant::now() + limit),
            is_whole: false,
            in_open: false,
        };
        let own = self.own.as_ref();
        if let Some((mut spare, is_fresh)) = own.and_then(Own::spare) {
            used.connection = spare.connection.take();
            used.is_whole = is_fresh || is_alive(used.open()).await;
            if used.is_whole {
                return Ok(used);
            }
            // It is closed before another one is opened.
            drop(used.connection.take().map(PoolConnection::detach));
        }
        let _waiting = own.map(Own::wait);
        let acquired = match limit {
            Some(within) => self.acquire_of_pool(within).await,
            None => Box::pin(self.acquire_or_say_why()).await,
        };
        used.connection = Some(acquired?);
        used.is_whole = true;
        // Not by a shorter timer: a timer that ends before all others makes the runtime of Tokio wake itself, by two system calls.
        let reserve = REPLY_RESERVE.min(limit.unwrap_or_default() / 2);
        if used.left().is_some_and(|left| left < reserve) {
            return Err(self.whom.connecting(sqlx::Error::PoolTimedOut));
        }
        Ok(used)
    }

    /// Takes a connection for the start, or for an operator. The pool tries again while a server refuses connections, and does not say so.
    async fn acquire_or_say_why(&self) -> Result<PoolConnection<Postgres>, Failure> {
        self.renew_password(CONNECT_WITHIN).await?;
        let mut acquiring = pin!(self.acquire_of_pool(CONNECT_WITHIN));
        if let Ok(acquired) = timeout(SAY_WHY_AFTER, &mut acquiring).await {
            return acquired;
        }
        let options = self.pool.connect_options();
        let connecting = PgConnection::connect_with(&options);
        self.within(CONNECT_WITHIN, connecting).await?;
        acquiring.await
    }

    async fn acquire_of_pool(&self, within: Duration) -> Result<PoolConnection<Postgres>, Failure> {
        self.renew_password(within).await?;
        // The future is large: it is made in the box, and not copied into it.
        let acquiring = Box::into_pin(Box::write(Box::new_uninit(), self.pool.acquire()));
        let acquired = self.within(within, acquiring).await;
        if let (Err(failure), Some(passwords)) = (&acquired, &self.passwords)
            && failure.error.kind() == StoreErrorKind::Credentials
        {
            // The password may have been changed.
            passwords.asked.store(0, Ordering::Relaxed);
        }
        acquired
    }

    async fn within<T>(
        &self,
        limit: Duration,
        connecting: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, Failure> {
        let connected = timeout(limit, connecting).await;
        let connected = connected.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        connected.map_err(|error| self.whom.connecting(error))
    }

    /// Goes on with the transaction of a handler.
    pub(crate) fn go_on(&self, mut open: PostgresTransaction, log: &SendLog) -> InUse<'_> {
        InUse {
            connection: open.0.take(),
            of: self,
            deadline: log.limit().map(|limit| Instant::now() + limit),
            is_whole: false,
            in_open: true,
        }
    }

    /// Asks for a new password if the last one is old. Connections that are open stay open.
    async fn renew_password(&self, within: Duration) -> Result<(), Failure> {
        let Some(passwords) = &self.passwords else {
            return Ok(());
        };
        if since(passwords.asked.load(Ordering::Relaxed)) < PASSWORD_AFTER {
            return Ok(());
        }
        let asked = timeout(within, (passwords.next)()).await;
        match asked.unwrap_or_else(|_| Err(format!("it did not end within {within:?}").into())) {
            Ok(password) => {
                let options = (*self.pool.connect_options()).clone().password(&password);
                self.pool.set_connect_options(options);
                passwords.asked.store(now(), Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                let text = format!(
                    "there is no password for {}: correct the function that gives it ({error})",
                    self.whom.name
                );
                let error = StoreError::new(StoreErrorKind::Credentials, text);
                Err(Failure::before_send(error))
            }
        }
    }
}

/// A connection with which statements are executed. It is closed if the future of a statement is dropped, or if its state is not known: the
/// reply to one statement must not be read as that to the next one.
pub(crate) struct InUse<'a> {
    connection: Option<PoolConnection<Postgres>>,
    of: &'a Connections,
    deadline: Option<Instant>,
    /// True if another request can use it.
    is_whole: bool,
    /// True if it has the transaction of a handler.
    in_open: bool,
}

impl InUse<'_> {
    /// Returns how long the statement may wait for another transaction, so that its reply comes in time.
    pub(crate) fn wait(&self) -> Duration {
        self.left().map_or(WAIT_WITHOUT_LIMIT, |left| {
            left.saturating_sub(REPLY_RESERVE).min(LONGEST_WAIT)
        })
    }

    /// Returns what is left of the time of the request.
    fn left(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_duration_since(Instant::now()))
    }

    /// Sends a statement with one row in its reply, or none. Returns it, and how many were read or changed. With a log it is noted as a write.
    pub(crate) async fn send(
        &mut self,
        statement: Statement,
        log: Option<&SendLog>,
    ) -> Result<(u64, Option<PgRow>), Failure> {
        if let Some(log) = log {
            log.sending();
        }
        let reply = self.list(statement).await;
        if let (Err(failure), Some(log)) = (&reply, log) {
            log.ended(failure.maybe_applied, None);
        }
        reply.map(|(count, rows)| (count, rows.into_iter().next()))
    }

    /// Sends a statement, and returns the rows of its reply, and how many were read or changed. The reply is read to the end: an error of the
    /// commit comes after the rows.
    pub(crate) async fn list(
        &mut self,
        statement: Statement,
    ) -> Result<(u64, Vec<PgRow>), Failure> {
        self.is_whole = false;
        let is_pooled = self.of.is_pooled;
        let in_own = is_pooled && !self.in_open;
        let rows = async {
            if in_own {
                // A process that is lost before the end leaves the row locked for as long as its request could take.
                self.raw(statement::begin(Some(self.wait()))).await?;
            }
            let arguments = statement.arguments.map_err(sqlx::Error::Encode)?;
            // The text has no value of a call: each is a parameter.
            let query = sqlx::query_with(AssertSqlSafe(statement.text), arguments);
            let (query, open) = (query.persistent(!is_pooled), self.open()?);
            let (changed, rows) = match statement.reply {
                Reply::Count => (query.execute(open).await?.rows_affected(), Vec::new()),
                // It needs fewer allocations.
                Reply::Row => (0, Vec::from_iter(query.fetch_optional(open).await?)),
                Reply::Rows => (0, query.fetch_all(open).await?),
            };
            if in_own {
                self.raw("COMMIT".to_owned()).await?;
            }
            Ok((changed + rows.len() as u64, rows))
        };
        let rows = rows.await;
        if self.in_open {
            return rows.map_err(|error| self.of.whom.completing(error));
        }
        let rows = rows.map_err(|error| self.of.whom.executing(error));
        let is_usable = |it: &Failure| matches!(it.next, Next::Keep | Next::Again) && !is_pooled;
        self.is_whole = rows.as_ref().err().is_none_or(is_usable);
        rows
    }

    /// Begins a transaction for a handler. If the future is dropped, it can have begun, and the connection is closed.
    pub(crate) async fn begin(
        mut self,
        left: Option<Duration>,
    ) -> Result<PostgresTransaction, Failure> {
        self.is_whole = false;
        // One that the handler begins in it is a savepoint.
        let text = AssertSqlSafe(statement::begin(left)).into_sql_str();
        let begun = async { PgTransactionManager::begin(self.open()?, Some(text)).await }.await;
        begun.map_err(|error| self.of.whom.executing(error))?;
        Ok(PostgresTransaction(self.connection.take()))
    }

    /// Reads what is left of the statements that the handler dropped. The error of one says nothing of the completion, and can quote a value: if
    /// it aborted the transaction, the next statement says so.
    pub(crate) async fn settle(&mut self) -> Result<(), Failure> {
        loop {
            match async { self.open()?.flush().await }.await {
                Ok(()) => return Ok(()),
                Err(error) if is_rejection(&error) => {}
                Err(error) => return Err(self.of.whom.completing(error)),
            }
        }
    }

    /// Checks that the transaction of a handler is open and can commit: COMMIT of an aborted one is no error, and applies nothing.
    pub(crate) async fn check_open(&mut self) -> Result<(), Failure> {
        let checked = self.raw(format!("SELECT {IN_TRANSACTION}")).await;
        let checked = checked.map_err(|error| self.of.whom.completing(error));
        checked.map(|_| ())
    }

    /// Commits the transaction of a handler.
    pub(crate) async fn commit(mut self) -> Result<(), Failure> {
        let committed = async {
            let connection = self.open()?;
            // With the savepoints that are left of it.
            while is_open(connection) {
                PgTransactionManager::commit(connection).await?;
            }
            Ok(())
        };
        let committed = committed.await;
        self.is_whole = committed.is_ok();
        committed.map_err(|error| self.of.whom.committing(error))
    }

    /// Rolls the transaction of a handler back.
    pub(crate) fn roll_back(mut self) {
        self.connection.take().into_iter().for_each(give_back);
    }

    /// Executes one text without parameters: one round trip behind every pooler.
    pub(crate) async fn text(&mut self, text: String) -> Result<Vec<PgRow>, Failure> {
        self.is_whole = false;
        let result = self.raw(text).await;
        self.is_whole = result.is_ok() && !self.in_open;
        result.map_err(|error| self.of.whom.executing(error))
    }

    async fn raw(&mut self, text: String) -> Result<Vec<PgRow>, sqlx::Error> {
        let text = sqlx::raw_sql(AssertSqlSafe(text));
        text.fetch_all(self.open()?).await
    }

    /// Returns the connection. Without one the error is that of a closed pool.
    fn open(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        self.connection
            .as_deref_mut()
            .ok_or(sqlx::Error::PoolClosed)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        if !self.is_whole {
            // Closes the socket. A statement that runs may still be applied.
            drop(connection.detach());
            let own = self.of.own.iter();
            return own.for_each(|own| own.closed.store(now(), Ordering::Relaxed));
        }
        let Some(own) = &self.of.own else {
            // Back into the pool.
            return;
        };
        let spare = Spare {
            connection: Some(connection),
            used: now(),
        };
        let returned = own.kept().keep(spare);
        // The lock is open again.
        drop(returned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LARGEST_RESPONSE;

    fn mode(url: &str) -> PgSslMode {
        options("URL", url).unwrap().get_ssl_mode()
    }

    #[test]
    fn the_guide_has_these_numbers() {
        let page = include_str!("../../docs/guide/postgres.md");
        for text in [
            format!("**After a pause of {} s**", TEST_AFTER.as_secs()),
            format!("again after {} minutes", PASSWORD_AFTER.as_secs() / 60),
            format!("to the pool each {} minutes", KEPT_FOR.as_secs() / 60),
            format!("at most {} MiB", LARGEST_RESPONSE / 1024 / 1024),
        ] {
            assert!(page.contains(&text), "{text}");
        }
    }

    #[test]
    fn connections_that_are_kept_return_to_the_pool_after_a_time_and_for_one_who_waits() {
        let start = 1_700_000_000_000;
        let limit = u64::try_from(KEPT_FOR.as_millis()).unwrap();
        let mut kept = Kept {
            since: start,
            ..Kept::default()
        };
        let mut keep = |waiting, used| {
            kept.waiting = waiting;
            let connection = None;
            kept.keep(Spare { connection, used }).len()
        };
        assert_eq!(keep(0, start + 1), 0);
        assert_eq!(keep(0, start + limit - 1), 0);
        // Also those that no request has used since.
        assert_eq!(keep(0, start + limit), 3);
        assert_eq!(keep(0, start + 2 * limit - 1), 0);
        assert_eq!(keep(1, start + 2 * limit - 1), 2);
        // The clock was set back.
        assert_eq!(keep(0, start), 1);
        assert_eq!(keep(0, start + 1), 0);
    }

    #[test]
    fn tls_is_required_unless_the_url_switches_it_off() {
        let url = "postgres://app@db.internal/shop";
        assert!(matches!(mode(url), PgSslMode::Require));
        for (set, expected) in [
            ("prefer", PgSslMode::Require),
            ("allow", PgSslMode::Require),
            ("disable", PgSslMode::Disable),
            ("verify-ca", PgSslMode::VerifyCa),
            ("verify-full", PgSslMode::VerifyFull),
        ] {
            let found = mode(&format!("{url}?sslmode={set}"));
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{set}");
        }
        // As the variable PGSSLMODE sets it.
        let disabled = PgConnectOptions::new_without_pgpass()
            .host("db")
            .ssl_mode(PgSslMode::Disable);
        let found = secured(disabled, false).get_ssl_mode();
        assert!(matches!(found, PgSslMode::Require));
        assert!(matches!(
            mode("postgres://app@%2Frun%2Fpostgresql/shop"),
            PgSslMode::Disable
        ));
        assert!(matches!(
            mode("postgres:///shop?host=/run/postgresql"),
            PgSslMode::Disable
        ));
    }

    #[test]
    fn an_address_of_ipv6_has_no_brackets() {
        let options = options("URL", "postgres://app@[fd00::1]:6000/shop").unwrap();
        assert_eq!((options.get_host(), options.get_port()), ("fd00::1", 6000));
    }

    #[test]
    fn a_wrong_url_is_an_error_that_does_not_quote_it() {
        for url in [
            "s3cr3t",
            "mysql://app:s3cr3t@db/shop",
            "postgres://app:s3cr3t@db:port/shop",
            "postgres://app:s3cr3t@db/shop?sslmode=s3cr3t",
            "postgres://app@db/shop?pasword=s3cr3t",
            "postgres://app:a?s3cr3t@db/shop",
            "postgres://app:a?s3cr3t=@db/shop",
            "postgres://app:a#s3cr3t@db/shop",
            "postgres://app@db/shop?sslmode=require&options=-c%20s3cr3t",
        ] {
            let error = options("URL", url).unwrap_err().to_string();
            assert!(
                error.starts_with("URL ") && !error.contains("s3cr3t"),
                "{error}"
            );
        }
    }
}
