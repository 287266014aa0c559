//! The store: one statement for each request, or two.

use std::fmt;
use std::sync::OnceLock;

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Field, Record, RecordId, StoredEvent};
use idempotency_core::store::events::{keeps_event, permit_events};
use idempotency_core::store::{
    Consistency, OpenTransaction, RecordWrite, ScanPage, ScanRequest, SendLog, Store, StoreError,
    StoreErrorKind, StoreLimits, StoreReply, StoreRequest, StoreScan, TransactionRequest, Write,
};
use sqlx::Row as _;
use sqlx::postgres::{PgPool, PgRow};

use crate::check::{self, TableFinding};
use crate::columns::{self, restored};
use crate::connection::{Connections, InUse, LONGEST_WAIT};
use crate::failure::{Failure, Next, POOLER, READ_ONLY};
use crate::limits::LARGEST_RESPONSE;
use crate::statement::{Form, Statements};
use crate::table::TableName;
use crate::transaction::PostgresTransaction;

/// How often a request is sent if other transactions are faster each time.
const MOST_SENDS: usize = 16;

/// A store of records in a table of PostgreSQL.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_core::store::Store;
/// use idempotency_postgres::PostgresStore;
///
/// let store = PostgresStore::builder().url("postgres://app@db.internal/shop?sslmode=verify-full").build()?;
/// store.warm_up(false).await?;
/// # Ok(())
/// # }
/// ```
pub struct PostgresStore {
    pub(crate) connections: Connections,
    pub(crate) table: TableName,
    pub(crate) statements: OnceLock<Statements>,
    /// True if events may be kept.
    pub(crate) unencrypted_events: bool,
}

impl PostgresStore {
    /// Returns the pool of connections that the store uses. From now on each request returns its connection to it, by a round trip of `sqlx`.
    pub fn pool(&self) -> &PgPool {
        self.connections.pool()
    }

    /// Returns the statements. Without a check at the start the first request asks for the schema of the table.
    pub(crate) async fn statements(&self, used: &mut InUse<'_>) -> Result<&Statements, Failure> {
        if let Some(statements) = self.statements.get() {
            return Ok(statements);
        }
        let found = used.text(self.table.lookup()).await;
        let found = found.map_err(Failure::unapplied)?;
        let name = found.first().and_then(|row| row.try_get(0).ok());
        let name = name.ok_or_else(|| self.unreadable().unapplied())?;
        Ok(self.statements.get_or_init(|| Statements::new(name)))
    }

    /// Performs a write. Sends it again while other transactions are faster: such a send changed nothing.
    async fn write(&self, record: RecordWrite<'_>, log: &SendLog) -> Result<StoreReply, Failure> {
        self.check_length(record.write)?;
        if keeps_event(record.write) {
            permit_events(self.unencrypted_events, self).map_err(Failure::before_send)?;
        }
        let mut moved = false;
        for _ in 0..MOST_SENDS {
            let mut used = self.connections.acquire(log).await?;
            match self.try_write(record, &mut used, Some(log)).await {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(failure) => match failure.next {
                    Next::Again => {}
                    Next::AgainElsewhere if !moved => moved = true,
                    _ => return Err(failure),
                },
            }
        }
        Err(self.too_busy())
    }

    /// Sends a write once. `None` if another transaction was faster: nothing was changed.
    ///
    /// Without a `log` it is part of the transaction of a handler, and applied when that commits.
    ///
    /// # Errors
    ///
    /// If a statement failed, or if a step was sent to a record without steps.
    async fn try_write(
        &self,
        record: RecordWrite<'_>,
        used: &mut InUse<'_>,
        log: Option<&SendLog>,
    ) -> Result<Option<StoreReply>, Failure> {
        let (write, condition) = (record.write, record.condition);
        let statements = self.statements(used).await?;
        let applied = |replaced| {
            Ok(Some(match write {
                Write::Put(_) => StoreReply::replaced(replaced),
                _ => StoreReply::applied(),
            }))
        };
        let unapplied = || log.into_iter().for_each(|log| log.ended(false, None));
        let refused = |found| Ok(Some(StoreReply::condition_failed(found)));
        let inserts = log.is_some()
            && condition.holds(None)
            && matches!(write, Write::Put(_) | Write::Update(_));
        if inserts {
            let insert = statements.write(record, Form::Insert, used.wait());
            let mark = Some(insert.mark.to_string());
            let Some(row) = used.send(insert, log).await?.1 else {
                unapplied();
                return Ok(None);
            };
            let found = match self.record(&row)? {
                (flag, _) if flag != mark => return Err(self.unreadable()),
                (_, None) => return applied(None),
                (_, Some(found)) => found,
            };
            unapplied();
            if !condition.holds(Some(&found)) {
                return refused(Some(found));
            }
        }
        let form = log.map_or(Form::InOpen, |_| Form::Change);
        let change = statements.write(record, form, used.wait());
        let (changed, row) = used.send(change, log).await?;
        if changed > 0 {
            let row = row.map(|row| self.record(&row)).transpose()?;
            return applied(row.and_then(|(_, replaced)| replaced));
        }
        unapplied();
        if inserts {
            return Ok(None);
        }
        if let Some(log) = log {
            log.refused();
            log.reading();
        } else {
            used.check_open().await?;
        }
        let found = self.found(record.id, used, Consistency::Strong, false);
        let found = found.await;
        unapplied();
        let found = found.map_err(Failure::unapplied)?;
        match (write, found) {
            (_, found) if !condition.holds(found.as_ref()) => refused(found),
            // There is nothing to delete.
            (Write::Delete, None) => applied(None),
            (Write::Step { .. }, Some(Record { steps, .. })) if steps.exists() => Ok(None),
            (Write::Step { .. }, _) => {
                let text = "the record has no steps: its claim was made without them".to_owned();
                Err(self.failed(StoreErrorKind::Rejected, text))
            }
            _ => Ok(None),
        }
    }

    /// Returns the record. A consistent read of a standby fails, also if the write before it went to the primary.
    async fn found(
        &self,
        id: &RecordId,
        used: &mut InUse<'_>,
        consistency: Consistency,
        event: bool,
    ) -> Result<Option<Record>, Failure> {
        let statements = self.statements(used).await?;
        let row = used.send(statements.read(id, event), None).await?.1;
        let row = row.ok_or_else(|| self.unreadable())?;
        let (is_standby, record) = self.record(&row)?;
        if consistency == Consistency::Strong && is_standby.as_deref() == Some("true") {
            let text = format!("{} cannot be read: {READ_ONLY}", self.name());
            return Err(self.failed(StoreErrorKind::Unreachable, text));
        }
        Ok(record)
    }

    fn record(&self, row: &PgRow) -> Result<(Option<String>, Option<Record>), Failure> {
        columns::read(row).ok_or_else(|| self.unreadable())
    }

    /// Completes the key in the transaction of a handler, and commits that. Rolls it back if the claim is gone.
    async fn commit(
        &self,
        transaction: TransactionRequest<'_>,
        open: PostgresTransaction,
        log: &SendLog,
    ) -> Result<StoreReply, Failure> {
        let mut used = self.connections.go_on(open, log);
        used.settle().await?;
        if let Some(record) = transaction.record {
            // Without a reply the state of the connection is not known, so it is closed.
            let completed = self.complete(record, &mut used).await?;
            if !matches!(completed, StoreReply::Applied { .. }) {
                used.roll_back();
                return Ok(completed);
            }
        } else {
            used.check_open().await?;
        }
        log.sending();
        let committed = used.commit().await;
        if let Err(failure) = &committed {
            log.ended(failure.maybe_applied, None);
        }
        committed.map(|()| StoreReply::applied())
    }

    async fn complete(
        &self,
        record: RecordWrite<'_>,
        used: &mut InUse<'_>,
    ) -> Result<StoreReply, Failure> {
        self.check_length(record.write)?;
        for _ in 0..MOST_SENDS {
            if let Some(reply) = self.try_write(record, used, None).await? {
                return Ok(reply);
            }
        }
        Err(self.too_busy())
    }

    /// Returns an error if the response of a write is too large, or the result of its step.
    fn check_length(&self, write: &Write) -> Result<(), Failure> {
        let data = match write {
            Write::Put(record) => record.data.value(),
            Write::Update(change) => change.set.data.value(),
            Write::Step { result, .. } => Some(result),
            Write::Delete => None,
        };
        let bytes = data.map_or(0, |data| data.as_str().len());
        if bytes <= LARGEST_RESPONSE {
            return Ok(());
        }
        Err(self.failed(StoreErrorKind::TooLarge, format!(
            "the response has {bytes} bytes and {} stores at most {LARGEST_RESPONSE}: return less from the handler, or a reference to \
             where it is stored",
            self.name()
        )))
    }

    /// Returns the failure of a write that lost too many races.
    fn too_busy(&self) -> Failure {
        self.failed(StoreErrorKind::Conflict, format!(
            "other transactions changed the record of {} during each of {MOST_SENDS} sends: look for what writes it so often",
            self.name()
        ))
    }

    /// Reads a record.
    async fn read(
        &self,
        id: &RecordId,
        consistency: Consistency,
        log: &SendLog,
    ) -> Result<StoreReply, Failure> {
        let mut used = self.connections.acquire(log).await?;
        log.reading();
        let found = self.found(id, &mut used, consistency, false).await;
        log.ended(false, None);
        Ok(StoreReply::found(found?))
    }

    /// Returns a failure of a request that was not applied.
    fn failed(&self, kind: StoreErrorKind, text: String) -> Failure {
        Failure::before_send(StoreError::new(kind, text))
    }

    /// Returns the failure of a reply that is not that of the statement.
    fn unreadable(&self) -> Failure {
        let text = format!(
            "the reply of {} is not that of the statement that was sent: check that a server of PostgreSQL has this address, or {POOLER}",
            self.name()
        );
        Failure {
            maybe_applied: true,
            ..self.failed(StoreErrorKind::Rejected, text)
        }
    }

    /// Takes a connection for a request without a limit.
    pub(crate) async fn over_one<T>(
        &self,
        execute: impl AsyncFnOnce(&mut InUse<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let log = SendLog::default();
        let done = async { execute(&mut self.connections.acquire(&log).await?).await };
        done.await.map_err(|failure| failure.error)
    }

    /// Looks at the server, the role and the table.
    #[doc(hidden)]
    pub async fn findings(&self) -> Result<Vec<TableFinding>, StoreError> {
        let look = async |used: &mut InUse<'_>| {
            let rows = used.text(check::statement(&self.table)).await?;
            if let Some(name) = rows.first().and_then(|row| row.try_get("qualified").ok()) {
                self.statements.get_or_init(|| Statements::new(name));
            }
            let findings: Result<Vec<_>, _> = rows.iter().map(TableFinding::read).collect();
            let findings = findings.ok().filter(|findings| !findings.is_empty());
            findings.ok_or_else(|| self.unreadable())
        };
        self.over_one(look).await
    }
}

impl Store for PostgresStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        log.preparing();
        Box::pin(async move {
            // The future of a commit is large, and copied into the box.
            let reply = match request {
                StoreRequest::Write(record) => self.write(record, log).await,
                StoreRequest::Read(id, consistency) => self.read(id, consistency, log).await,
                StoreRequest::Transact(transaction) => match transaction.staged.take_open(self) {
                    Ok(open) => Box::pin(self.commit(transaction, open, log)).await,
                    Err(reply) => return *reply,
                },
            };
            let is_write = !matches!(request, StoreRequest::Read(..));
            let reply = reply.unwrap_or_else(|failure| StoreReply::Failed {
                error: failure.error,
                maybe_applied: is_write && failure.maybe_applied,
            });
            if is_write {
                reply.add_notes(log)
            } else {
                reply
            }
        })
    }

    fn begin(
        &self,
        left: Option<std::time::Duration>,
    ) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        Box::pin(async move {
            // The caller limits the time to less, so that the handler does not wait for long.
            let limit = SendLog::with_limit(LONGEST_WAIT);
            let begun = async { self.connections.acquire(&limit).await?.begin(left).await }.await;
            let open = begun.map_err(|failure| failure.error)?;
            Ok(Box::new(open) as OpenTransaction)
        })
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits {
            steps: Some(LARGEST_RESPONSE),
            ..StoreLimits::NONE
        }
    }

    /// Returns the table, the database and the server.
    fn name(&self) -> String {
        self.connections.whom.name.clone()
    }

    fn timeout_advice(&self, was_sent: bool) -> String {
        const SENT: &str = "check the network to the server, that no other transaction locks the row or the table for long, and that there is a \
                            connection for each call at a time";
        const UNSENT: &str = "no connection was free in time: check that the server can be reached, connect before the first event with the \
                              store's `warm_up`, or set a larger number of connections";
        if was_sent { SENT } else { UNSENT }.to_owned()
    }

    /// Connects, and checks the server, the role and the table. It reads no record.
    fn warm_up(&self, keeps_events: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let findings = self.findings().await?;
            let mut flaws = findings.iter().filter_map(|it| it.flaw(&self.name()));
            flaws.next().map_or(Ok(()), Err)?;
            permit_events(self.unencrypted_events || !keeps_events, self)
        })
    }
}

/// Lists the records in the order of their ids. A page begins after the id that the one before ended with.
impl StoreScan for PostgresStore {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move {
            let mut page = ScanPage::default();
            let list = async |used: &mut InUse<'_>| {
                let statements = self.statements(used).await?;
                used.list(statements.scan(request)).await
            };
            let (_, rows) = self.over_one(list).await?;
            page.read = rows.len();
            for row in &rows {
                let id = restored(row.try_get(1).map_err(|_| self.unreadable().error)?);
                page.next = (rows.len() == request.limit.max(1)).then(|| id.clone());
                let (is_listed, record) = self.record(row).map_err(|failure| failure.error)?;
                if is_listed.as_deref() == Some("true") {
                    let record = record.unwrap_or_default();
                    page.records.push((RecordId::new(id), record));
                }
            }
            Ok(page)
        })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let read = async |used: &mut InUse<'_>| {
                self.found(id, used, Consistency::Eventual, true).await
            };
            let record = self.over_one(read).await?;
            match record.unwrap_or_default().event {
                Field::Absent => Ok(None),
                Field::Value(event) => Ok(Some(event)),
                Field::Unreadable => {
                    let text = format!(
                        "the event of the record `{id}` in {} cannot be read: another program wrote it",
                        self.name()
                    );
                    Err(StoreError::new(StoreErrorKind::Rejected, text))
                }
            }
        })
    }
}

/// Shows the table and the server, and no password.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("table", &self.table.plain())
            .finish_non_exhaustive()
    }
}
