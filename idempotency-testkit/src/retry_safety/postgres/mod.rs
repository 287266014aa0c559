//! PostgreSQL: a schema for each scenario, in a database of the test. The statements of a process pass its gate.

mod session;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idempotency_core::future::BoxFuture;
use idempotency_core::store::{
    OpenTransaction, SendLog, Store, StoreError, StoreLimits, StoreReply, StoreRequest,
};
use idempotency_lambda::ConfigurationError;
use idempotency_postgres::sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use idempotency_postgres::sqlx::{self, AssertSqlSafe, Connection as _, PgConnection};
use idempotency_postgres::{MIGRATION, PostgresStore, pool_options};

pub(super) use self::session::{serve, take_connections};
use self::wire::State;
use super::RECORDS;
use super::effects::Items;
use super::gate::completion;
use super::plan::Failure;
use super::process::Process;
use super::provider::Listener;
use super::world::World;
use crate::lock::lock;
use crate::wire::Background;

/// The limit of a transaction that the framework begins: the server ends it when the lease of its call has expired.
const LIMIT: &str = "idle_in_transaction_session_timeout";

/// How long the server may take to end a session.
const END_WITHIN: Duration = Duration::from_secs(60);

/// The database of a check, and the SQL that makes what is there before the first delivery.
pub(super) struct Server {
    background: Background,
    admin: PgPool,
    options: PgConnectOptions,
    setup: String,
    listener: Listener,
}

/// The schema of one scenario. It is dropped with it.
pub(super) struct Schema {
    server: Arc<Server>,
    name: String,
    sessions: Mutex<Vec<Session>>,
}

/// A session of a process.
struct Session {
    delivery: u32,
    /// The process of the server.
    pid: i32,
    /// True while it is in a transaction that the server ends when the lease of its call has expired.
    ends_itself: bool,
}

impl World {
    /// Returns how to connect to the PostgreSQL of this world, for a pool of the function.
    ///
    /// # Panics
    ///
    /// If the check has none: set it with [`RetrySafety::postgres`](super::RetrySafety::postgres).
    pub fn postgres(&self) -> PgConnectOptions {
        match &self.process().shared.postgres {
            Some(schema) => schema.options(),
            None => panic!("the check has no PostgreSQL: set it with `.postgres(..)`"),
        }
    }
}

/// The store of a process. It notes the responses that are stored.
struct NotedStore {
    store: PostgresStore,
    process: Arc<Process>,
}

/// Returns the store of a process, over the table of the framework in the schema.
pub(super) fn store(
    schema: &Schema,
    process: &Arc<Process>,
) -> Result<Arc<dyn Store>, ConfigurationError> {
    let pool = pool_options().connect_lazy_with(schema.options());
    let store = PostgresStore::builder().pool(pool).unencrypted_events(true);
    Ok(Arc::new(NotedStore {
        store: store.build()?,
        process: Arc::clone(process),
    }))
}

impl Store for NotedStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        if let Some((key, stored)) = completion(request) {
            self.process.gate.completes_with(key, stored);
        }
        self.store.send(request, log)
    }

    fn begin(&self, left: Option<Duration>) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        self.store.begin(left)
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits()
    }

    fn name(&self) -> String {
        self.store.name()
    }
}

/// Returns the failure of the database of the check.
fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!(
        "the PostgreSQL of the check cannot be used: {error}"
    ))
}

impl Server {
    pub(super) fn start(url: &str, setup: &str) -> Result<Self, Failure> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| failed("its URL cannot be read"))?
            .ssl_mode(PgSslMode::Disable);
        if options.get_socket().is_some() || options.get_host().starts_with('/') {
            return Err(failed("its URL names a socket: write a host and a port"));
        }
        let background = Background::start("retry-safety-postgres").map_err(failed)?;
        let admin = {
            let _context = background.handle().enter();
            PgPoolOptions::new()
                .max_connections(2)
                .connect_lazy_with(options.clone())
        };
        let server = Self {
            background,
            admin,
            options: options.clone(),
            setup: setup.to_owned(),
            listener: Listener::bind().map_err(failed)?,
        };
        // A pool would try again and again, and not say why it fails.
        server.blocking(async move { PgConnection::connect_with(&options).await.map(drop) })?;
        Ok(server)
    }

    /// Creates a schema.
    pub(super) fn schema(self: &Arc<Self>) -> Result<Schema, Failure> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(1);
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let schema = Schema {
            server: Arc::clone(self),
            name: format!("retry_safety_{}_{number}", std::process::id()),
            sessions: Mutex::default(),
        };
        let name = &schema.name;
        let setup = &self.setup;
        self.execute(format!(
            "CREATE SCHEMA {name}; SET search_path TO {name}, public; {MIGRATION}; {setup}"
        ))?;
        Ok(schema)
    }

    /// Executes statements, and returns the first two columns of the rows of the last one.
    fn rows(&self, text: String) -> Result<Vec<(String, String)>, Failure> {
        let admin = self.admin.clone();
        self.blocking(async move { sqlx::query_as(AssertSqlSafe(text)).fetch_all(&admin).await })
    }

    fn execute(&self, text: String) -> Result<(), Failure> {
        let admin = self.admin.clone();
        self.blocking(async move {
            sqlx::raw_sql(AssertSqlSafe(text))
                .execute(&admin)
                .await
                .map(drop)
        })
    }

    /// Runs `work` on the background runtime, and blocks this thread until it is done.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, sqlx::Error>> + Send + 'static,
    ) -> Result<T, Failure> {
        let (send, receive) = sync_channel(1);
        self.background.handle().spawn(async move {
            let _ = send.send(work.await);
        });
        let done = receive.recv().map_err(failed)?;
        done.map_err(failed)
    }
}

impl Schema {
    fn listener(&self) -> &Listener {
        &self.server.listener
    }

    fn options(&self) -> PgConnectOptions {
        let address = self.listener().address;
        let options = self.server.options.clone();
        let options = options.host(&address.ip().to_string()).port(address.port());
        options.options([("search_path", format!("{},public", self.name))])
    }

    /// Connects to the server.
    fn connect(&self) -> io::Result<TcpStream> {
        let options = &self.server.options;
        TcpStream::connect((options.get_host(), options.get_port()))
    }

    /// Notes what a session waits in after a statement.
    fn note(&self, pid: i32, state: State, statement: &str) {
        for session in lock(&self.sessions).iter_mut().filter(|it| it.pid == pid) {
            let is_limited = session.ends_itself || statement.contains(LIMIT);
            session.ends_itself = state == State::InTransaction && is_limited;
        }
    }

    /// Cancels what a session executes, if a lock of another session keeps it from going on.
    fn cancel_if_blocked(&self, pid: i32) {
        let cancel = format!(
            "SELECT pg_cancel_backend({pid})::text, '' WHERE cardinality(pg_blocking_pids({pid})) > 0"
        );
        // The session waits on, and is asked again.
        let _ = self.server.rows(cancel);
    }

    /// Ends the sessions of a process that has ended, and waits for it: the locks of a killed process must not last.
    pub(super) fn end_sessions(&self, delivery: u32) -> Result<(), Failure> {
        self.end(|session| session.delivery == delivery)
    }

    fn end_session(&self, pid: i32) {
        // The server ends it too, but later.
        let _ = self.end(|session| session.pid == pid);
    }

    /// Ends the transactions that the server ends when a lease has expired.
    pub(super) fn end_late_transactions(&self, delivery: u32) -> Result<(), Failure> {
        self.end(|session| session.delivery == delivery && session.ends_itself)
    }

    fn end(&self, ends: impl Fn(&Session) -> bool) -> Result<(), Failure> {
        let pids: Vec<_> = lock(&self.sessions)
            .extract_if(.., |session| ends(session))
            .map(|session| session.pid.to_string())
            .collect();
        if pids.is_empty() {
            return Ok(());
        }
        // A function of the server that waits too would look every 100 ms alone.
        let pids = pids.join(", ");
        let end = format!(
            "SELECT pid::text, pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE pid IN ({pids})"
        );
        let started = Instant::now();
        while !self.server.rows(end.clone())?.is_empty() {
            if started.elapsed() > END_WITHIN {
                return Err(failed("it does not end the session of a killed process"));
            }
        }
        Ok(())
    }

    /// Returns the rows of the function's own tables, in the form of DynamoDB's items.
    pub(super) fn items(&self) -> Result<Items, Failure> {
        let name = &self.name;
        let tables = self.server.rows(format!(
            "SELECT c.relname::text, format('SELECT %s, coalesce((SELECT jsonb_object_agg(e.key, jsonb_build_object(CASE jsonb_typeof(e.value) \
             WHEN ''number'' THEN ''N'' WHEN ''array'' THEN ''L'' WHEN ''object'' THEN ''JSON'' ELSE ''S'' END, \
             CASE WHEN jsonb_typeof(e.value) IN (''array'', ''object'') THEN e.value ELSE to_jsonb(e.value #>> ''{{}}'') END)) \
             FROM jsonb_each(to_jsonb(t)) e WHERE e.value <> ''null'')::text, ''{{}}'') FROM {name}.%I t', \
             coalesce((SELECT string_agg(format('t.%I::text', a.attname), ' || '', '' || ' ORDER BY a.attnum) FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) WHERE i.indrelid = c.oid AND i.indisprimary), \
             't::text || '' '' || row_number() OVER (PARTITION BY t::text)'), c.relname) \
             FROM pg_class c WHERE c.relnamespace = '{name}'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition \
             AND c.relname <> '{RECORDS}'"
        ))?;
        let mut items = Items::new();
        for (table, select) in tables {
            let rows = self.server.rows(select)?.into_iter();
            let rows: Result<BTreeMap<_, _>, _> = rows
                .map(|(key, item)| Ok((key, serde_json::from_str(&item)?)))
                .collect();
            items.insert(
                table,
                rows.map_err(|error: serde_json::Error| failed(error))?,
            );
        }
        Ok(items)
    }

    /// Returns when the first record of the framework expires, in seconds.
    pub(super) fn expiration(&self) -> Result<Option<i64>, Failure> {
        let name = &self.name;
        let rows = self.server.rows(format!(
            "SELECT coalesce(min(expiration)::text, ''), '' FROM {name}.{RECORDS}"
        ))?;
        Ok(rows.first().and_then(|(end, _)| end.parse().ok()))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let name = &self.name;
        let _ = self.end(|_| true);
        // One that is left disturbs no other scenario.
        let _ = self.server.execute(format!(
            "SET client_min_messages = error; DROP SCHEMA {name} CASCADE"
        ));
    }
}
