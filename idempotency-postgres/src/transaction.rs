//! The transaction that a handler writes in. It commits together with the completion of the key.

use std::ops::{Deref, DerefMut};

use idempotency_core::error::Error;
use idempotency_core::future::BoxFuture;
use idempotency_core::operation::{Call, CallTransaction};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgTransactionManager;
use sqlx::{PgConnection, Postgres};
use sqlx_core::transaction::TransactionManager as _;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::limits::TEST_WITHIN;

/// Begins the transaction of a call.
pub trait Begin {
    /// Begins a transaction of the database that has the record of this call. The handler reads and writes in it with `sqlx`, and ends it
    /// with [`commit_with_response`](CallTransaction::commit_with_response): it then commits with the response, or not at all.
    ///
    /// It has the isolation level of the role, which is READ COMMITTED by default; `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE` as its first
    /// statement sets another one. The row of the record is not locked before the completion. If another transaction was first (SQLSTATE
    /// 40001, 40P01), all is rolled back, and a retry of the call runs again.
    ///
    /// # Errors
    ///
    /// As [`Call::open_transaction`].
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::operation::Call;
    /// use idempotency_postgres::Begin as _;
    /// use idempotency_postgres::sqlx::{query, query_scalar};
    ///
    /// /// Returns what is left in the account.
    /// async fn pay(call: Call, account: i64, amount: i64) -> Result<i64, Box<dyn std::error::Error>> {
    ///     let mut tx = call.begin().await?;
    ///     let balance: i64 = query_scalar("SELECT balance FROM accounts WHERE id = $1 FOR UPDATE")
    ///         .bind(account)
    ///         .fetch_one(&mut *tx)
    ///         .await?;
    ///     if balance < amount {
    ///         return Err("declined".into());
    ///     }
    ///     let pay = "UPDATE accounts SET balance = balance - $2 WHERE id = $1";
    ///     query(pay).bind(account).bind(amount).execute(&mut *tx).await?;
    ///     tx.commit_with_response();
    ///     Ok(balance - amount)
    /// }
    /// ```
    fn begin(&self) -> BoxFuture<'_, Result<CallTransaction<PostgresTransaction>, Error>>;
}

impl Begin for Call {
    fn begin(&self) -> BoxFuture<'_, Result<CallTransaction<PostgresTransaction>, Error>> {
        Box::pin(self.open_transaction())
    }
}

/// The connection of a transaction. If it is dropped, the transaction is rolled back.
pub struct PostgresTransaction(pub(crate) Option<PoolConnection<Postgres>>);

/// The connection is taken only by the store, which then has the whole transaction.
const HELD: &str = "the handler holds the connection of its transaction";

/// `sqlx` then rolls the whole transaction back, and would commit each statement that follows by itself.
const ROLLED_BACK: &str = "a savepoint could not begin, or was dropped while it began, so the transaction was rolled back: return an error, and \
                           write no more in it";

#[allow(clippy::expect_used)]
impl Deref for PostgresTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.0.as_deref().expect(HELD)
    }
}

#[allow(clippy::expect_used)]
impl DerefMut for PostgresTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        let connection = self.0.as_deref_mut().expect(HELD);
        assert!(is_open(connection), "{ROLLED_BACK}");
        connection
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        match self.0.take() {
            Some(connection) if depth(&connection) == 1 => give_back(connection),
            // What the handler sent is not known, so it is closed.
            Some(connection) => drop(connection.detach()),
            None => {}
        }
    }
}

/// Rolls back what is open, and returns the connection to its pool. That waits for the server without a limit, but a statement that the handler
/// has given up can go on for long, and the server can be gone: then the connection is closed. It is too outside of a runtime, where it cannot
/// be returned.
pub(crate) fn give_back(mut connection: PoolConnection<Postgres>) {
    let Ok(runtime) = Handle::try_current() else {
        return drop(connection.detach());
    };
    // Before the next statement of the connection.
    while is_open(&connection) {
        PgTransactionManager::start_rollback(&mut connection);
    }
    // What is dropped at the end of the time is closed.
    runtime.spawn(async move { timeout(TEST_WITHIN, connection.return_to_pool()).await });
}

/// Returns true unless `sqlx` has ended the transaction.
pub(crate) fn is_open(connection: &PgConnection) -> bool {
    depth(connection) > 0
}

/// Returns how many transactions are open: one, and its savepoints.
fn depth(connection: &PgConnection) -> usize {
    PgTransactionManager::get_transaction_depth(connection)
}
