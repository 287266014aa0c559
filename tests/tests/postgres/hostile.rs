//! Handlers that a careful author would not write, and servers that cannot keep a promise: a clear error, and nothing lost.

use std::sync::Mutex;

use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::Call;
use idempotency_lambda::BoxError;
use idempotency_postgres::sqlx::{self, query, query_scalar};
use idempotency_postgres::{Begin as _, MIGRATION};
use idempotency_tests::postgres::{
    Server, database, database_url, empty_database, execute, store, told, url,
};
use tokio::sync::Barrier;

use crate::bank::{Bank, Late, add, pay};

/// Asserts that nothing is paid and the key is free: the next call pays.
async fn is_free(bank: &Bank) {
    assert_eq!(bank.balances().await, (10, 10));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
    assert_eq!(bank.balances().await, (7, 13));
}

/// Moves one between two accounts, and waits between its two statements.
async fn transfer(call: Call, from: &str, to: &str, both: &Barrier) -> Result<i64, BoxError> {
    let mut tx = call.begin().await?;
    add(&mut tx, from, -1).await?;
    both.wait().await;
    add(&mut tx, to, 1).await?;
    tx.commit_with_response();
    Ok(1)
}

#[tokio::test]
async fn of_two_handlers_that_deadlock_one_pays_and_the_other_pays_when_it_is_called_again() {
    let bank = Bank::new(4).await;
    let both = Barrier::new(2);
    let (one, other) = tokio::join!(
        bank.call(1, |call| transfer(call, "alice", "bob", &both)),
        bank.call(2, |call| transfer(call, "bob", "alice", &both)),
    );
    let (first, lost) = match (&one, &other) {
        (Ok(_), Err(lost)) => (1, lost),
        (Err(lost), Ok(_)) => (2, lost),
        both => panic!("{both:?}"),
    };
    assert!(lost.to_string().contains("deadlock detected"), "{lost}");
    let alone = Barrier::new(1);
    let again = |key: u32| {
        let alone = &alone;
        bank.call(key, move |call| async move {
            let (from, to) = if key == 1 {
                ("alice", "bob")
            } else {
                ("bob", "alice")
            };
            transfer(call, from, to, alone).await
        })
    };
    assert_eq!(
        bank.balances().await,
        if first == 1 { (9, 11) } else { (11, 9) }
    );
    for key in [1, 2] {
        assert_eq!(again(key).await.unwrap(), 1);
    }
    assert_eq!(bank.balances().await, (10, 10));
}

/// A handler that locks the record of another call meets the completion of that call.
#[tokio::test]
async fn a_completion_that_deadlocks_with_a_handler_frees_its_key_or_commits() {
    let bank = Bank::new(4).await;
    let (both, record) = (&Barrier::new(2), &Mutex::new(None));
    let (completes, locks) = tokio::join!(
        bank.call(1, |call| async move {
            *record.lock().unwrap() = call.key().map(ToString::to_string);
            let mut tx = call.begin().await?;
            add(&mut tx, "bob", 1).await?;
            both.wait().await;
            both.wait().await;
            tx.commit_with_response();
            Ok(1)
        }),
        bank.call(2, |call| async move {
            let mut tx = call.begin().await?;
            both.wait().await;
            let record = record.lock().unwrap().clone();
            let lock = query("SELECT FROM idempotency WHERE id = $1 FOR UPDATE").bind(record);
            lock.execute(&mut *tx).await?;
            both.wait().await;
            add(&mut tx, "bob", 1).await?;
            tx.commit_with_response();
            Ok(1)
        }),
    );
    let ended = [completes, locks];
    let paid = ended.iter().filter(|it| it.is_ok()).count();
    assert_eq!(
        bank.balances().await,
        (10, 10 + i64::try_from(paid).unwrap())
    );
    assert_eq!(paid, 1, "{ended:?}");
    // A retry runs at once.
    for key in [1, 2] {
        let again = bank.call(key, |call| async move {
            let mut tx = call.begin().await?;
            add(&mut tx, "bob", 1).await?;
            tx.commit_with_response();
            Ok(1)
        });
        assert_eq!(again.await.unwrap(), 1);
    }
    assert_eq!(bank.balances().await, (10, 12));
}

#[tokio::test]
async fn a_handler_that_begins_two_transactions_or_keeps_one_pays_nothing() {
    let bank = Bank::new(3).await;
    let rejected = ErrorKind::TransactionRejected;
    bank.fails(
        1,
        rejected,
        "was refused when it was begun",
        |call| async move {
            let mut tx = call.begin().await?;
            add(&mut tx, "alice", -3).await?;
            assert!(call.begin().await.is_err());
            tx.commit_with_response();
            Ok(7)
        },
    )
    .await;
    let kept = &Mutex::new(None);
    bank.fails(1, rejected, "", |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        *kept.lock().unwrap() = Some(tx);
        Ok(7)
    })
    .await;
    // Its end comes too late.
    let mut tx = kept.lock().unwrap().take().unwrap();
    add(&mut tx, "bob", 3).await.unwrap();
    tx.commit_with_response();
    is_free(&bank).await;
}

#[tokio::test]
async fn what_a_handler_commits_itself_stays() {
    let bank = Bank::new(1).await;
    let rejected = ErrorKind::TransactionRejected;
    let says = "rolls back what it has not committed itself";
    bank.fails(1, rejected, says, |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        sqlx::raw_sql("COMMIT").execute(&mut *tx).await?;
        drop(tx);
        Ok(7)
    })
    .await;
    assert_eq!(bank.balances().await, (7, 10));
    bank.fails(1, rejected, "aborted by a statement", |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        let next = sqlx::raw_sql("COMMIT; BEGIN; SELECT 1 / 0");
        next.execute(&mut *tx).await.unwrap_err();
        tx.commit_with_response();
        Ok(7)
    })
    .await;
    assert_eq!(bank.balances().await, (4, 10));
}

#[tokio::test]
async fn a_handler_that_ends_its_transaction_in_a_chain_gets_no_success() {
    for (end, balances) in [
        ("COMMIT AND CHAIN", (7, 10)),
        ("ROLLBACK AND CHAIN", (10, 10)),
    ] {
        let bank = Bank::new(1).await;
        let unknown = ErrorKind::CompletionUnknown;
        bank.fails(
            1,
            unknown,
            "ended its transaction itself",
            |call| async move {
                let mut tx = call.begin().await?;
                add(&mut tx, "alice", -3).await?;
                sqlx::raw_sql(end).execute(&mut *tx).await?;
                tx.commit_with_response();
                Ok(7)
            },
        )
        .await;
        assert_eq!(bank.balances().await, balances, "{end}");
    }
}

#[tokio::test]
async fn settings_that_make_a_completion_impossible_roll_back_and_free_the_key() {
    for setting in ["SET TRANSACTION READ ONLY", "SET LOCAL ROLE pg_monitor"] {
        let bank = Bank::new(2).await;
        let sets = bank.call(1, |call| async move {
            let mut tx = call.begin().await?;
            add(&mut tx, "alice", -3).await?;
            sqlx::raw_sql(setting).execute(&mut *tx).await?;
            tx.commit_with_response();
            Ok(7)
        });
        let error = sets.await.unwrap_err();
        let known = error.downcast_ref::<Error>().unwrap();
        assert_eq!(known.kind(), ErrorKind::TransactionRejected, "{error}");
        assert!(
            error.to_string().contains("let the handler set no"),
            "{error}"
        );
        is_free(&bank).await;
    }
}

#[tokio::test]
async fn a_search_path_that_stays_does_not_lead_to_another_table_of_records() {
    let bank = Bank::new(1).await;
    let tenant =
        "CREATE SCHEMA tenant; CREATE TABLE tenant.idempotency (LIKE idempotency INCLUDING ALL)";
    execute(&bank.url, tenant).await;
    // Before the first request of the process too.
    let mut first = bank.store.pool().acquire().await.unwrap();
    let set = sqlx::raw_sql("SET search_path = tenant, public");
    set.execute(&mut *first).await.unwrap();
    drop(first);
    for _ in 0..2 {
        let sets = bank.call(1, |call| async move {
            let mut tx = call.begin().await?;
            let left = add(&mut tx, "alice", -3).await?;
            let set = sqlx::raw_sql("SET search_path = tenant, public");
            set.execute(&mut *tx).await?;
            tx.commit_with_response();
            Ok(left)
        });
        assert_eq!(sets.await.unwrap(), 7);
    }
    let records = "SELECT (SELECT count(*) FROM public.idempotency) - (SELECT count(*) FROM tenant.idempotency)";
    let records = query_scalar::<_, i64>(records).fetch_one(bank.store.pool());
    assert_eq!(records.await.unwrap(), 1);
}

#[tokio::test]
async fn a_trigger_that_raises_an_error_at_the_commit_is_a_rejection() {
    let bank = Bank::new(1).await;
    let refuse = "
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'card 4242 is blocked'; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
            WHEN (NEW.balance = 7) EXECUTE FUNCTION refuse()";
    execute(&bank.url, refuse).await;
    let rejected = ErrorKind::TransactionRejected;
    // The text of the trigger can quote a row.
    let unquoted = "refused the commit (SQLSTATE P0001): see the log of the server;";
    bank.fails(1, rejected, unquoted, pay).await;
    execute(&bank.url, "DROP TRIGGER refuse ON accounts").await;
    is_free(&bank).await;
}

#[tokio::test]
async fn what_a_handler_leaves_on_its_connection_is_no_part_of_the_next_call() {
    let bank = Bank::new(1).await;
    // It reads one of many rows.
    let reads = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        let left = add(&mut tx, "alice", -3).await?;
        add(&mut tx, "bob", 3).await?;
        tokio::select! {
            biased;
            _ = query("SELECT generate_series(1, 100000)").fetch_all(&mut *tx) => {}
            () = std::future::ready(()) => {}
        }
        tx.commit_with_response();
        Ok(left)
    });
    assert_eq!(reads.await.unwrap(), 7);
    // It copies, and does not end that.
    let rejected = ErrorKind::TransactionRejected;
    let aborted = "aborted by a statement that failed";
    let copies = |call: Call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        let mut copy = tx.copy_in_raw("COPY accounts FROM STDIN").await?;
        copy.send(&b"eve\t5\n"[..]).await?;
        drop(copy);
        tx.commit_with_response();
        Ok(4)
    };
    bank.fails(2, rejected, aborted, copies).await;
    assert_eq!(bank.balances().await, (7, 13));
    assert_eq!(bank.call(2, pay).await.unwrap(), 4);
    assert_eq!(bank.balances().await, (4, 16));
}

/// `timeout(..)` around a statement does this, and so does a client that disconnects.
#[tokio::test]
async fn a_statement_that_a_handler_gives_up_keeps_its_connection_from_no_other_call() {
    let bank = Bank::new(1).await;
    let gives_up = bank.call(1, |call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        tokio::select! {
            biased;
            _ = sqlx::raw_sql("SELECT pg_sleep(60)").execute(&mut *tx) => {}
            () = std::future::ready(()) => {}
        }
        Err("too slow".into())
    });
    assert_eq!(gives_up.await.unwrap_err().to_string(), "too slow");
    while bank.call(2, |_| async { Ok(2) }).await.is_err() {}
    let runs = query_scalar::<_, i64>(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(60)' AND state = 'active'",
    );
    assert_eq!(runs.fetch_one(bank.store.pool()).await.unwrap(), 1);
    assert_eq!(bank.balances().await, (10, 10));
}

#[tokio::test]
async fn a_connection_that_a_handler_made_useless_is_replaced() {
    for (spoils, code) in [("DEALLOCATE ALL", "26000"), ("SET ROLE half", "42501")] {
        let bank = Bank::new(1).await;
        let half = "DO $$ BEGIN CREATE ROLE half; EXCEPTION WHEN duplicate_object THEN END $$; \
                    GRANT SELECT, UPDATE ON idempotency, accounts TO half";
        execute(&bank.url, half).await;
        let forgets = bank.call(1, |call| async move {
            let mut tx = call.begin().await?;
            let left = add(&mut tx, "alice", -3).await?;
            sqlx::raw_sql(spoils).execute(&mut *tx).await?;
            tx.commit_with_response();
            Ok(left)
        });
        assert_eq!(forgets.await.unwrap(), 7);
        let refused = bank.call(2, pay).await.unwrap_err();
        assert!(refused.to_string().contains(code), "{refused}");
        assert_eq!(bank.call(2, pay).await.unwrap(), 4);
    }
}

#[tokio::test]
async fn a_transaction_that_is_dropped_in_a_thread_without_a_runtime_is_rolled_back() {
    let bank = Bank::new(1).await;
    let dropped = "it dropped its transaction";
    let rejected = ErrorKind::TransactionRejected;
    let drops = |call: Call| async move {
        let mut tx = call.begin().await?;
        add(&mut tx, "alice", -3).await?;
        std::thread::spawn(move || drop(tx)).join().unwrap();
        Ok(7)
    };
    bank.fails(1, rejected, dropped, drops).await;
    is_free(&bank).await;
}

#[tokio::test]
async fn a_transaction_behind_a_pooler_in_statement_mode_is_refused_and_pays_nothing() {
    let database = database().await;
    let pooled = store(
        &url(told("POSTGRES_STATEMENT_POOLER"), "postgres", &database),
        1,
    );
    let bank = Bank::over(&database_url(&database), pooled).await;
    let error = bank.call(1, pay).await.unwrap_err();
    assert!(
        error.to_string().contains("statement mode cannot be used"),
        "{error}"
    );
    assert_eq!(bank.balances().await, (10, 10));
}

#[tokio::test]
async fn a_server_that_became_a_standby_pays_nothing_and_says_where_to_connect() {
    let mut server = Server::start(&[]);
    let database = empty_database(server.address()).await;
    let url = url(server.address(), "postgres", &database);
    execute(&url, MIGRATION).await;
    let bank = Bank::over(&url, store(&url, 1)).await;
    let turned = &mut server;
    let pays = bank.call(1, |call| async move {
        let paid = pay(call).await;
        turned.restart_as_standby();
        paid
    });
    let error = pays.await.unwrap_err();
    let known = error.downcast_ref::<Error>().unwrap();
    assert_eq!(known.kind(), ErrorKind::CompletionUnknown, "{error}");
    for key in [1, 2] {
        let error = bank.call_at(Late(60), key, pay).await.unwrap_err();
        assert!(
            error.to_string().contains("connect to the primary"),
            "{error}"
        );
    }
    assert_eq!(bank.balances().await, (10, 10));
    server.restart_as_primary();
    assert_eq!(bank.call_at(Late(60), 1, pay).await.unwrap(), 7);
    assert_eq!(bank.balances().await, (7, 13));
}
