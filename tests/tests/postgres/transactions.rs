//! The SQL of a handler in the transaction of its response: how it is used and misused, and what each fault leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idempotency_core::config::Variables;
use idempotency_core::error::ErrorKind;
use idempotency_core::operation::Call;
use idempotency_core::record::Status;
use idempotency_lambda::BoxError;
use idempotency_postgres::Begin as _;
use idempotency_postgres::sqlx::{
    self, AssertSqlSafe, Connection as _, PgConnection, query, query_scalar,
};
use idempotency_tests::WireFault;
use idempotency_tests::postgres::{database, database_url, execute, server, store, url};

use crate::bank::{Bank, Late, add, pay};

/// The message of PgBouncer for a server that ended.
const SERVER_ENDED: &[u8] = b"E\0\0\0\x30SFATAL\0VFATAL\0C08P01\0Mserver conn crashed?\0\0";

#[tokio::test]
async fn the_writes_commit_with_the_response_and_a_duplicate_gets_it() {
    // One connection is enough.
    let bank = Bank::new(1).await;
    for _duplicate in [false, true] {
        assert_eq!(bank.call(1, pay).await.unwrap(), 7);
        assert_eq!(bank.balances().await, (7, 13));
    }
    assert_eq!(bank.call(2, pay).await.unwrap(), 4);
}

#[tokio::test]
async fn a_handler_that_fails_rolls_back_and_frees_its_key_over_the_same_connection() {
    let bank = Bank::new(1).await;
    let declined = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        // The condition of the table.
        add(&mut tx, "alice", -30).await
    });
    let error = declined.await.unwrap_err();
    assert!(
        error.to_string().contains("accounts_balance_check"),
        "{error}"
    );
    let declined = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        tx.commit_with_response();
        Err("declined".into())
    });
    assert_eq!(declined.await.unwrap_err().to_string(), "declined");
    assert_eq!(bank.balances().await, (10, 10));
    let rolled_back = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        tx.rollback();
        pay(call).await
    });
    assert_eq!(rolled_back.await.unwrap(), 7);
}

#[tokio::test]
async fn a_savepoint_is_part_of_the_transaction() {
    let bank = Bank::new(1).await;
    let paid = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        let mut savepoint = tx.begin().await?;
        assert!(add(&mut savepoint, "alice", -30).await.is_err());
        savepoint.rollback().await?;
        let mut savepoint = tx.begin().await?;
        add(&mut savepoint, "bob", 3).await?;
        savepoint.commit().await?;
        // It is dropped, so it is rolled back.
        let mut savepoint = tx.begin().await?;
        add(&mut savepoint, "bob", 5).await?;
        drop(savepoint);
        // It is never ended, so it commits with the rest.
        let mut savepoint = tx.begin().await?;
        let left = add(&mut savepoint, "alice", -3).await?;
        std::mem::forget(savepoint);
        tx.commit_with_response();
        Ok(left)
    });
    assert_eq!(paid.await.unwrap(), 7);
    assert_eq!(bank.balances().await, (7, 13));
    // The connection is whole.
    assert_eq!(bank.call(2, pay).await.unwrap(), 4);
}

#[tokio::test]
async fn a_transaction_waits_no_longer_than_the_lease_and_the_next_one_is_free() {
    let bank = Bank::new(1).await;
    let shown = |call: Call| async move {
        let mut tx = call.begin().await?;
        let mut limits = Vec::new();
        for limit in ["lock_timeout", "idle_in_transaction_session_timeout"] {
            let show = "SELECT setting::bigint FROM pg_settings WHERE name = $1";
            let limit: i64 = query_scalar(show).bind(limit).fetch_one(&mut *tx).await?;
            limits.push(limit);
        }
        tx.commit_with_response();
        assert_eq!(limits[0], limits[1]);
        Ok(limits[0])
    };
    let limit = bank.call(1, shown).await.unwrap();
    assert!((1_000..=900_000).contains(&limit), "{limit}");
    let left: String = query_scalar("SHOW lock_timeout")
        .fetch_one(bank.store.pool())
        .await
        .unwrap();
    assert_eq!(left, "0");
    // A process that is lost renews nothing, and the next run waits for its locks.
    let mut renewing = Bank::new(1).await;
    let renew = [("IDEMPOTENCY_RENEW".to_owned(), "true".to_owned())];
    renewing.variables = Variables::from_iter(renew);
    assert_eq!(renewing.call(1, shown).await.unwrap(), 30_000);
}

#[tokio::test]
async fn a_transaction_without_a_free_connection_says_how_many_are_needed_and_opens_no_other() {
    let database = database().await;
    let role = format!("one_{database}");
    let create =
        format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 1; GRANT ALL ON idempotency TO {role}");
    execute(&database_url(&database), &create).await;
    let one = store(&url(server(), &role, &database), 1);
    let bank = Bank::over(&database_url(&database), one).await;
    let store = bank.store.clone();
    let words = "a connection for each call at a time";
    bank.fails(1, ErrorKind::StoreFailed, words, |call| async move {
        let _held = store.pool().acquire().await?;
        pay(call).await
    })
    .await;
}

#[tokio::test]
async fn a_savepoint_that_cannot_begin_lets_no_write_through() {
    for is_dropped in [false, true] {
        // Its replies come through a task of this runtime, so none is there at the first poll.
        let (bank, _) = Bank::behind_a_proxy().await;
        let bank_of_task = bank.clone();
        let goes_on = move |call: Call| async move {
            let mut tx = call.begin().await?;
            if is_dropped {
                tokio::select! {
                    biased;
                    _ = tx.begin() => panic!("it was not dropped"),
                    () = std::future::ready(()) => {}
                }
            } else {
                assert!(add(&mut tx, "alice", -30).await.is_err());
                assert!(tx.begin().await.is_err());
            }
            add(&mut tx, "bob", 3).await?;
            Err("declined".into())
        };
        let task = tokio::spawn(async move { bank_of_task.call(1, goes_on).await });
        let panic = task.await.unwrap_err().into_panic();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("a savepoint could not begin"), "{text}");
        assert_eq!(bank.balances().await, (10, 10));
        assert_eq!(bank.call(2, pay).await.unwrap(), 7);
    }
}

/// Ignores the error of a statement, which has aborted the transaction.
async fn ignores(call: Call) -> Result<i64, BoxError> {
    let mut tx = call.begin().await?;
    add(&mut tx, "bob", 3).await?;
    assert!(add(&mut tx, "alice", -30).await.is_err());
    tx.commit_with_response();
    Ok(7)
}

#[tokio::test]
async fn an_aborted_transaction_is_rejected() {
    let bank = Bank::new(1).await;
    let rejected = ErrorKind::TransactionRejected;
    bank.fails(1, rejected, "aborted by a statement that failed", ignores)
        .await;
    assert_eq!(bank.balances().await, (10, 10));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
}

#[tokio::test]
async fn the_error_of_a_statement_that_was_dropped_is_not_that_of_the_completion() {
    let (bank, _) = Bank::behind_a_proxy().await;
    let rejected = ErrorKind::TransactionRejected;
    let aborted = "aborted by a statement that failed";
    let drops = |call: Call| async move {
        let mut tx = call.begin().await?;
        tokio::select! {
            biased;
            _ = sqlx::raw_sql("SELECT 's3cr3t'::int").execute(&mut *tx) => panic!("it was not dropped"),
            () = std::future::ready(()) => {}
        }
        tx.commit_with_response();
        Ok(7)
    };
    bank.fails(1, rejected, aborted, drops).await;
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
}

#[tokio::test]
async fn a_transaction_without_a_record_is_no_success_either_if_it_was_rolled_back() {
    let mut bank = Bank::new(1).await;
    bank.variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "true".to_owned())]);
    let rejected = ErrorKind::TransactionRejected;
    bank.fails(1, rejected, "aborted by a statement that failed", ignores)
        .await;
    let ends = |call: Call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        query("ROLLBACK").execute(&mut *tx).await?;
        tx.commit_with_response();
        Ok(7)
    };
    let unknown = ErrorKind::CompletionUnknown;
    bank.fails(1, unknown, "ended its transaction itself", ends)
        .await;
    assert_eq!(bank.balances().await, (10, 10));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
    assert_eq!(bank.call(1, pay).await.unwrap(), 4, "there is no record");
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_is_a_rejection() {
    let bank = Bank::new(1).await;
    execute(
        &bank.url,
        "CREATE TABLE payments (account text REFERENCES accounts (id) DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    let rejected = ErrorKind::TransactionRejected;
    let unknown = |call: Call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "bob", 3).await?;
        query("INSERT INTO payments VALUES ('eve')")
            .execute(&mut *tx)
            .await?;
        tx.commit_with_response();
        Ok(7)
    };
    let named = "refused the commit (`payments_account_fkey`, SQLSTATE 23503)";
    bank.fails(1, rejected, named, unknown).await;
    assert_eq!(bank.balances().await, (10, 10));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
}

#[tokio::test]
async fn a_handler_that_ends_its_transaction_itself_gets_no_success_and_its_claim_stays() {
    for (end, balances) in [
        ("COMMIT", (7, 10)),
        ("COMMIT; BEGIN", (7, 10)),
        ("ROLLBACK; BEGIN", (10, 10)),
    ] {
        let bank = Bank::new(1).await;
        let key = Arc::new(std::sync::Mutex::new(None));
        let ends = |call: Call| {
            let key = key.clone();
            async move {
                *key.lock().unwrap() = call.key().cloned();
                let mut tx = call.begin().await?;
                add(&mut tx, "alice", -3).await?;
                sqlx::raw_sql(AssertSqlSafe(end)).execute(&mut *tx).await?;
                tx.commit_with_response();
                Ok(7)
            }
        };
        let unknown = ErrorKind::CompletionUnknown;
        bank.fails(1, unknown, "ended its transaction itself", ends)
            .await;
        assert_eq!(bank.balances().await, balances, "{end}");
        let key = key.lock().unwrap().clone().unwrap();
        assert_eq!(bank.status(&key).await, Some(Status::InProgress));
    }
}

#[tokio::test]
async fn a_late_owner_gets_the_winners_response_and_applies_nothing() {
    let bank = Bank::new(4).await;
    let other = bank.clone();
    let paid = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        let read = "SELECT balance FROM accounts WHERE id = 'alice'";
        let before: i64 = query_scalar(read).fetch_one(&mut *tx).await?;
        assert_eq!(other.call_at(Late(60), 1, pay).await?, 7);
        add(&mut tx, "bob", 5).await?;
        tx.commit_with_response();
        Ok(before)
    });
    assert_eq!(paid.await.unwrap(), 7);
    assert_eq!(bank.balances().await, (7, 13));
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_is_read() {
    for fault in [WireFault::LoseReply, WireFault::Replace(SERVER_ENDED)] {
        let (bank, proxy) = Bank::behind_a_proxy().await;
        proxy.inject_into("COMMIT", fault);
        assert_eq!(bank.call(1, pay).await.unwrap(), 7);
        assert_eq!(bank.balances().await, (7, 13));
    }
}

#[tokio::test]
async fn a_transaction_that_the_server_ends_frees_its_key_and_names_the_setting() {
    let bank = Bank::new(1).await;
    let unknown = ErrorKind::CompletionUnknown;
    let setting = "idle_in_transaction_session_timeout";
    let mut other = PgConnection::connect(&bank.url).await.unwrap();
    bank.fails(1, unknown, setting, |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        let own: i32 = query_scalar("SELECT pg_backend_pid()")
            .fetch_one(&mut *tx)
            .await?;
        let limit = "SET LOCAL idle_in_transaction_session_timeout = 1";
        query(limit).execute(&mut *tx).await?;
        let runs = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)";
        while query_scalar(runs).bind(own).fetch_one(&mut other).await? {}
        tx.commit_with_response();
        Ok(7)
    })
    .await;
    assert_eq!(bank.balances().await, (10, 10));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
}

#[tokio::test]
async fn a_commit_that_is_lost_frees_the_key_and_applies_nothing() {
    let (bank, proxy) = Bank::behind_a_proxy().await;
    proxy.inject_into("COMMIT", WireFault::LoseRequest);
    let unknown = ErrorKind::CompletionUnknown;
    bank.fails(1, unknown, "the connection to", pay).await;
    assert_eq!(bank.balances().await, (10, 10));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
}

#[tokio::test]
async fn a_completion_that_is_lost_frees_the_key_and_applies_nothing() {
    let (bank, proxy) = Bank::behind_a_proxy().await;
    for fault in [WireFault::LoseRequest, WireFault::LoseReply] {
        let proxy = proxy.clone();
        let unknown = ErrorKind::CompletionUnknown;
        bank.fails(1, unknown, "the connection to", |call| async move {
            let paid = pay(call).await;
            proxy.inject_into("BIND", fault);
            paid
        })
        .await;
        assert_eq!(bank.balances().await, (10, 10));
    }
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
}

#[tokio::test]
async fn of_two_serializable_transactions_one_is_rolled_back_and_can_be_retried() {
    let bank = Bank::new(4).await;
    let other = bank.clone();
    let serializable = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    let read_all = "SELECT sum(balance)::bigint FROM accounts";
    let first = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        query(serializable).execute(&mut *tx).await?;
        let all: i64 = query_scalar(read_all).fetch_one(&mut *tx).await?;
        let second = other.call(2, |call| async move {
            let mut tx = call.begin().await?;
            query(serializable).execute(&mut *tx).await?;
            let all: i64 = query_scalar(read_all).fetch_one(&mut *tx).await?;
            add(&mut tx, "bob", -all / 4).await?;
            tx.commit_with_response();
            Ok(all)
        });
        assert_eq!(second.await?, 20);
        add(&mut tx, "alice", -all / 4).await?;
        tx.commit_with_response();
        Ok(all)
    });
    let error = first.await.unwrap_err();
    assert!(
        error.to_string().contains("40001") || error.to_string().contains("could not serialize"),
        "{error}"
    );
    assert_eq!(bank.balances().await, (10, 5));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
}

/// Moves one between two accounts, in an order that deadlocks with the other direction.
async fn transfer(call: Call, key: u32, runs: Arc<AtomicU32>) -> Result<i64, BoxError> {
    runs.fetch_add(1, Ordering::Relaxed);
    let (from, to) = if key.is_multiple_of(2) {
        ("alice", "bob")
    } else {
        ("bob", "alice")
    };
    let mut tx = call.begin().await?;
    add(&mut tx, from, -1).await?;
    tokio::task::yield_now().await;
    add(&mut tx, to, 1).await?;
    tx.commit_with_response();
    Ok(i64::from(key))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_that_deadlock_and_lose_replies_are_exact() {
    const KEYS: u32 = 60;
    let (bank, proxy) = Bank::behind_a_proxy().await;
    let timeout = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 20', current_database()); END $$";
    execute(&bank.url, timeout).await;
    let runs = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let (bank, runs, proxy) = (bank.clone(), runs.clone(), proxy.clone());
        tasks.spawn(async move {
            for key in 0..KEYS {
                if key % 16 == worker {
                    let fault = if key.is_multiple_of(2) {
                        WireFault::LoseReply
                    } else {
                        WireFault::LoseRequest
                    };
                    proxy.inject_into("COMMIT", fault);
                }
                for minutes in 0.. {
                    let clock = Late(minutes);
                    let run = |call| transfer(call, key, runs.clone());
                    match bank.call_at(clock, key, run).await {
                        Ok(response) => {
                            assert_eq!(response, i64::from(key));
                            break;
                        }
                        Err(error) => assert!(minutes < 60, "{key}: {error}"),
                    }
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(bank.balances().await, (10, 10), "as many in each direction");
    assert!(runs.load(Ordering::Relaxed) >= KEYS);
}
