//! What a request costs, what other transactions do to it, and what a lost one means.

use std::time::Duration;

use idempotency_core::protocol::condition::{claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Data, Field, OwnerToken, Record, RecordId, Status, StoredEvent};
use idempotency_core::store::{
    Change, Condition, Consistency, ScanRequest, SendLog, Store, StoreErrorKind, StoreReply,
    StoreRequest, StoreScan, Write,
};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_postgres::PostgresStore;
use idempotency_postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection};

use idempotency_tests::postgres::{database, database_url, execute, server, store, url};
use idempotency_tests::valkey::Frozen;
use idempotency_tests::{Proxy, WireFault};

const NOW: EpochMillis = EpochMillis::new(1_700_000_000_500);

fn id() -> RecordId {
    RecordId::new("pay#1")
}

fn owner(number: u8) -> OwnerToken {
    OwnerToken::from_bytes([number; 16])
}

/// Sends a claim whose lease has this end.
pub(crate) async fn claim(store: &PostgresStore, number: u8, log: &SendLog) -> StoreReply {
    let put = Write::Put(Record {
        expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(NOW.get() + 60_000)),
        status: Field::Value(Status::InProgress),
        owner: Field::Value(owner(number)),
        ..Record::default()
    });
    let claimable = claimable(NOW, OnTimeout::Rerun);
    store
        .send(StoreRequest::write(&id(), &put, &claimable), log)
        .await
}

async fn complete(store: &PostgresStore, number: u8, response: &str) -> StoreReply {
    let set = Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(response)),
        ..Record::default()
    };
    let update = Write::Update(Change {
        set,
        remove: Vec::new(),
    });
    let fence = held_by(&owner(number));
    store
        .send(StoreRequest::write(&id(), &update, &fence), &SendLog::new())
        .await
}

/// Returns the record as the store reads it.
pub(crate) async fn found(store: &PostgresStore) -> Option<Record> {
    let read = StoreRequest::Read(&id(), Consistency::Strong);
    match store.send(read, &SendLog::new()).await {
        StoreReply::Found { record, .. } => record,
        other => panic!("{other:?}"),
    }
}

fn within(milliseconds: u64) -> SendLog {
    SendLog::with_limit(Duration::from_millis(milliseconds))
}

#[tokio::test]
async fn each_request_is_one_round_trip() {
    let proxy = Proxy::before_postgres(server()).await.unwrap();
    let url = url(proxy.address(), "postgres", &database().await);
    let plain = store(&url, 1);
    // The first of each kind is prepared.
    claim(&plain, 1, &SendLog::new()).await;
    complete(&plain, 9, "1").await;
    found(&plain).await;
    proxy.requests();
    let refused = claim(&plain, 2, &SendLog::new()).await;
    assert!(matches!(
        refused,
        StoreReply::ConditionFailed {
            existing: Some(_),
            maybe_applied: false,
            ..
        }
    ));
    assert_eq!(proxy.requests().len(), 1);
    assert!(matches!(
        complete(&plain, 1, "1").await,
        StoreReply::Applied {
            maybe_again: false,
            ..
        }
    ));
    assert_eq!(proxy.requests().len(), 1);
    found(&plain).await;
    assert_eq!(proxy.requests().len(), 1);
    let pooled = PostgresStore::builder()
        .url(&url)
        .transaction_pooler()
        .build()
        .unwrap();
    // The check at the start finds the schema of the table too.
    pooled.warm_up(false).await.unwrap();
    proxy.requests();
    claim(&pooled, 2, &SendLog::new()).await;
    assert_eq!(proxy.requests().len(), 4);
}

#[tokio::test]
async fn requests_that_wait_for_a_connection_get_one_of_those_before() {
    let store = store(&database_url(&database().await), 2);
    let log = SendLog::new();
    let claims = (0..40).map(|number| claim(&store, number, &log));
    let claims = futures_util::future::join_all(claims).await;
    let is_applied = |reply: &&StoreReply| matches!(reply, StoreReply::Applied { .. });
    assert_eq!(claims.iter().filter(is_applied).count(), 1);
    let is_refused = |reply: &&StoreReply| matches!(reply, StoreReply::ConditionFailed { .. });
    assert_eq!(claims.iter().filter(is_refused).count(), 39);
}

#[tokio::test]
async fn a_duplicate_writes_nothing_to_the_log_of_the_server() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    claim(&store, 1, &SendLog::new()).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mut transaction_ids = async || {
        let next =
            sqlx::query_scalar("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint");
        next.fetch_one(&mut connection).await.unwrap()
    };
    // Each write of the server takes a number of a transaction. Other tests may too.
    let mut least = i64::MAX;
    for _ in 0..100 {
        let before: i64 = transaction_ids().await;
        assert!(matches!(
            claim(&store, 2, &SendLog::new()).await,
            StoreReply::ConditionFailed { .. }
        ));
        least = least.min(transaction_ids().await - before);
    }
    assert_eq!(least, 0);
}

#[tokio::test]
async fn a_duplicate_waits_for_no_transaction_that_changes_its_record() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    claim(&store, 1, &SendLog::new()).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    for change in [
        "UPDATE idempotency SET failure = 'no'",
        "DELETE FROM idempotency",
    ] {
        let mut changing = other.begin().await.unwrap();
        sqlx::query(change).execute(&mut *changing).await.unwrap();
        // A wait ends with another reply.
        let duplicate = claim(&store, 2, &SendLog::new()).await;
        assert!(
            matches!(&duplicate, StoreReply::ConditionFailed { existing: Some(found), .. } if found.failure == Field::Absent),
            "{change}: {duplicate:?}"
        );
        changing.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn a_refused_write_is_explained_by_no_standby() {
    let database = database().await;
    let url = database_url(&database);
    // As behind a proxy that sends writes to the primary and reads to a standby.
    let standby = "CREATE SCHEMA standby; CREATE FUNCTION standby.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'";
    let path = format!("ALTER DATABASE {database} SET search_path = standby, pg_catalog, public");
    execute(&url, &format!("{standby}; {path}")).await;
    let store = store(&url, 1);
    assert!(matches!(
        claim(&store, 1, &SendLog::new()).await,
        StoreReply::Applied { .. }
    ));
    let fence = held_by(&owner(2));
    let (id, log) = (id(), SendLog::new());
    let delete = StoreRequest::write(&id, &Write::Delete, &fence);
    let text = format!("{:?}", store.send(delete, &log).await);
    for expected in [
        "connect to the primary",
        "Unreachable",
        "maybe_applied: false",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_row_that_another_transaction_holds_is_a_conflict_in_time() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    claim(&store, 1, &SendLog::new()).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut holding = other.begin().await.unwrap();
    sqlx::query("SELECT FROM idempotency FOR UPDATE")
        .fetch_all(&mut *holding)
        .await
        .unwrap();
    let put = Write::Update(Change::default());
    let fence = held_by(&owner(1));
    let blocked = store
        .send(StoreRequest::write(&id(), &put, &fence), &within(400))
        .await;
    let StoreReply::Failed {
        error,
        maybe_applied: false,
    } = blocked
    else {
        panic!("{blocked:?}");
    };
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
    assert!(
        error
            .to_string()
            .contains("another transaction holds the row"),
        "{error}"
    );
    // A duplicate needs no lock.
    assert!(matches!(
        claim(&store, 2, &within(400)).await,
        StoreReply::ConditionFailed { .. }
    ));
    holding.rollback().await.unwrap();
    assert!(matches!(
        complete(&store, 1, "1").await,
        StoreReply::Applied { .. }
    ));
    // No setting is left in the session.
    let left: String = sqlx::query_scalar("SHOW lock_timeout")
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(left, "0");
}

/// The server waits for the lock of a table before it executes the statement, which sets its own limit.
#[tokio::test]
async fn the_lock_timeout_of_the_role_limits_the_wait_for_a_locked_table() {
    let database = database().await;
    let owner = database_url(&database);
    let role = format!("short_{database}");
    let create = format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON idempotency TO {role}; ALTER ROLE {role} SET lock_timeout = '100ms'"
    );
    execute(&owner, &create).await;
    let mut other = PgConnection::connect(&owner).await.unwrap();
    let mut altering = other.begin().await.unwrap();
    let lock = "LOCK TABLE idempotency IN ACCESS EXCLUSIVE MODE";
    sqlx::query(lock).execute(&mut *altering).await.unwrap();
    let short = store(&url(server(), &role, &database), 1);
    let StoreReply::Failed {
        error,
        maybe_applied: false,
    } = claim(&short, 1, &SendLog::new()).await
    else {
        panic!("the claim did not wait");
    };
    assert_eq!(error.kind(), StoreErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn a_first_claim_waits_no_longer_than_its_time_either() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut holding = other.begin().await.unwrap();
    let insert = "INSERT INTO idempotency (id, status) VALUES ('pay#1', 'INPROGRESS')";
    sqlx::query(insert).execute(&mut *holding).await.unwrap();
    let log = within(400);
    let blocked = claim(&store, 1, &log);
    let blocked = tokio::time::timeout(Duration::from_secs(10), blocked).await;
    let StoreReply::Failed { error, .. } = blocked.unwrap() else {
        panic!("the claim did not wait");
    };
    assert_eq!(error.kind(), StoreErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn a_request_can_have_more_time_than_the_server_waits_for_a_lock() {
    let store = store(&database_url(&database().await), 1);
    let claimed = claim(&store, 1, &within(60 * 86_400_000)).await;
    assert!(matches!(claimed, StoreReply::Applied { .. }), "{claimed:?}");
}

#[tokio::test]
async fn a_claim_that_is_mixed_up_reads_and_inserts_nothing() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    claim(&store, 1, &within(5_000)).await;
    // Another statement has the name of the claim, as behind a pooler: that of another mark.
    let mix_up = "DO $$ DECLARE p record; mark text; BEGIN \
         SELECT name, statement, parameter_types INTO p FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO%'; \
         mark := substring(p.statement FROM '- ([0-9]+)\\)'); \
         EXECUTE format('DEALLOCATE %I', p.name); \
         EXECUTE format('PREPARE %I (%s) AS %s', p.name, array_to_string(p.parameter_types, ', '), replace(p.statement, mark, '7')); END $$";
    let mix_up = format!("SET plan_cache_mode = force_generic_plan; {mix_up}");
    let mix_up = sqlx::raw_sql(AssertSqlSafe(mix_up));
    mix_up.execute(store.pool()).await.unwrap();
    for (delete, quoted) in [
        ("", "is not that of the statement"),
        ("DELETE FROM idempotency", "lock_timeout"),
    ] {
        execute(&url, delete).await;
        let StoreReply::Failed { error, .. } = claim(&store, 2, &within(5_000)).await else {
            panic!("{quoted}: another statement is a claim");
        };
        assert_eq!(error.kind(), StoreErrorKind::Rejected, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(quoted) && text.contains("IDEMPOTENCY_POSTGRES_POOLER"),
            "{text}"
        );
    }
    assert_eq!(found(&store).await, None);
}

#[tokio::test]
async fn a_claim_waits_for_a_claim_that_is_not_committed() {
    let url = database_url(&database().await);
    let store = store(&url, 2);
    for commits in [false, true] {
        let mut other = PgConnection::connect(&url).await.unwrap();
        let mut first = other.begin().await.unwrap();
        sqlx::query("DELETE FROM idempotency")
            .execute(&mut *first)
            .await
            .unwrap();
        first.commit().await.unwrap();
        let mut first = other.begin().await.unwrap();
        let insert = "INSERT INTO idempotency (id, status, owner, in_progress_expiration) VALUES ('pay#1', 'INPROGRESS', 'other', 9e15)";
        sqlx::query(insert).execute(&mut *first).await.unwrap();
        let log = within(5_000);
        let second = claim(&store, 2, &log);
        let ending = async {
            // The claim waits now, or it will.
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            let pool = store.pool();
            while sqlx::query_scalar::<_, i64>(waits)
                .fetch_one(pool)
                .await
                .unwrap()
                == 0
            {}
            if commits {
                first.commit().await.unwrap()
            } else {
                first.rollback().await.unwrap()
            }
        };
        let (second, ()) = tokio::join!(second, ending);
        match second {
            StoreReply::ConditionFailed {
                existing: Some(record),
                maybe_applied: false,
                ..
            } if commits => {
                assert_eq!(record.owner.value().unwrap().as_str(), "other");
            }
            StoreReply::Applied {
                maybe_again: false, ..
            } if !commits => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Asserts that a write whose reply was lost may have been applied.
fn assert_maybe_applied(lost: &StoreReply) {
    assert!(
        matches!(
            lost,
            StoreReply::Failed {
                maybe_applied: true,
                ..
            }
        ),
        "{lost:?}"
    );
}

#[tokio::test]
async fn a_lost_statement_is_maybe_applied_and_the_next_one_gets_its_own_reply() {
    let proxy = Proxy::before_postgres(server()).await.unwrap();
    let url = url(proxy.address(), "postgres", &database().await);
    let store = store(&url, 1);
    store.warm_up(false).await.unwrap();
    for (fault, expected) in [
        (WireFault::LoseRequest, None),
        (WireFault::LoseReply, Some(Field::Value(owner(1)))),
    ] {
        proxy.inject_into("BIND", fault);
        let lost = claim(&store, 1, &SendLog::new()).await;
        assert_maybe_applied(&lost);
        assert_eq!(found(&store).await.map(|record| record.owner), expected);
    }
    // The engine drops a request whose time has ended. The log says what that means.
    proxy.inject_into("BIND", WireFault::Delay(Duration::MAX));
    let log = SendLog::new();
    proxy.requests();
    let is_sent = async {
        while !proxy.requests().iter().any(|it| it.command == "BIND") {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        reply = claim(&store, 2, &log) => panic!("{reply:?}"),
        () = is_sent => {}
    }
    assert!(log.maybe_applied());
    assert_eq!(found(&store).await.unwrap().owner, Field::Value(owner(1)));
}

#[tokio::test]
async fn a_lost_reply_to_the_claim_of_an_expired_record_is_maybe_applied() {
    let proxy = Proxy::before_postgres(server()).await.unwrap();
    let database = database().await;
    let store = store(&url(proxy.address(), "postgres", &database), 1);
    let expired =
        "INSERT INTO idempotency (id, status, expiration) VALUES ('pay#1', 'COMPLETED', 1)";
    execute(&database_url(&database), expired).await;
    // The first one reads the record, the second one changes it.
    let mut statements = 0;
    proxy.choose(move |request| {
        let is_statement = request.command == "BIND";
        statements += usize::from(is_statement);
        (is_statement && statements == 2).then_some(WireFault::LoseReply)
    });
    let lost = claim(&store, 1, &SendLog::new()).await;
    assert_maybe_applied(&lost);
    assert_eq!(found(&store).await.unwrap().owner, Field::Value(owner(1)));
}

#[tokio::test]
async fn an_event_is_kept_only_if_that_is_permitted_and_reads_back() {
    let url = database_url(&database().await);
    let event = StoredEvent::all("{\"card\":\"4242\"}").unwrap();
    let put = Write::Put(Record {
        event: Field::Value(event.clone()),
        ..Record::default()
    });
    let (id, condition) = (id(), Condition::NoRecord);
    let write = StoreRequest::write(&id, &put, &condition);
    let strict = PostgresStore::builder().url(&url).build().unwrap();
    for error in [
        strict.warm_up(true).await.unwrap_err(),
        match strict.send(write, &SendLog::new()).await {
            StoreReply::Failed {
                error,
                maybe_applied: false,
            } => error,
            other => panic!("{other:?}"),
        },
    ] {
        assert_eq!(error.kind(), StoreErrorKind::NotEncrypted);
    }
    let store = store(&url, 1);
    store.warm_up(true).await.unwrap();
    assert_eq!(store.stored_event(&id).await.unwrap(), None);
    store.send(write, &SendLog::new()).await;
    assert_eq!(store.stored_event(&id).await.unwrap(), Some(event));
    execute(&url, "UPDATE idempotency SET event = 'else'").await;
    assert!(store.stored_event(&id).await.is_err());
}

#[tokio::test]
async fn a_connection_that_ended_during_a_pause_costs_no_request() {
    let url = database_url(&database().await);
    let builder = PostgresStore::builder().url(&url);
    let store = builder.test_after(Duration::ZERO).build().unwrap();
    claim(&store, 1, &SendLog::new()).await;
    for _ in 0..3 {
        let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        execute(&url, end).await;
        let refused = claim(&store, 2, &SendLog::new()).await;
        assert!(
            matches!(refused, StoreReply::ConditionFailed { .. }),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn connections_that_broke_together_cost_one_request() {
    let url = database_url(&database().await);
    let store = store(&url, 4);
    let logs = [(); 4].map(|()| SendLog::new());
    // The first turn opens them, and in the second one no request waits, so each is kept.
    for turn in [1, 5] {
        let claims = (turn..).zip(&logs);
        let claims = claims.map(|(number, log)| claim(&store, number, log));
        futures_util::future::join_all(claims).await;
    }
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    execute(&url, end).await;
    let mut failed = 0;
    for _ in 0..4 {
        let reply = claim(&store, 1, &SendLog::new()).await;
        failed += i32::from(matches!(reply, StoreReply::Failed { .. }));
    }
    assert_eq!(failed, 1);
}

#[tokio::test]
async fn a_request_whose_connection_is_dead_gets_that_of_the_next_one() {
    let url = database_url(&database().await);
    let builder = PostgresStore::builder().url(&url);
    let store = builder.test_after(Duration::ZERO).build().unwrap();
    claim(&store, 1, &SendLog::new()).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let dead: i32 = sqlx::query_scalar(others)
        .fetch_one(&mut other)
        .await
        .unwrap();
    // The test of the connection gets no reply. Meanwhile the other request waits for the pool, which has only this one.
    let _dead = Frozen::new(dead.cast_unsigned());
    let (one, two) = (SendLog::new(), SendLog::new());
    let both = futures_util::future::join(claim(&store, 2, &one), claim(&store, 3, &two));
    let (one, two) = both.await;
    for refused in [one, two] {
        assert!(
            matches!(refused, StoreReply::ConditionFailed { .. }),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn connections_that_died_together_are_all_replaced() {
    let url = database_url(&database().await);
    let builder = PostgresStore::builder().url(&url).connections(3);
    let store = builder.test_after(Duration::ZERO).build().unwrap();
    let logs = [SendLog::new(), SendLog::new(), SendLog::new()];
    // The first turn opens them, and in the second one no request waits, so each is kept.
    for turn in [1, 4] {
        let claims = (turn..).zip(&logs);
        let claims = claims.map(|(number, log)| claim(&store, number, log));
        futures_util::future::join_all(claims).await;
    }
    let mut other = PgConnection::connect(&url).await.unwrap();
    let others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let dead: Vec<i32> = sqlx::query_scalar(others)
        .fetch_all(&mut other)
        .await
        .unwrap();
    assert_eq!(dead.len(), 3);
    let _dead: Vec<_> = dead
        .iter()
        .map(|it| Frozen::new(it.cast_unsigned()))
        .collect();
    claim(&store, 7, &logs[0]).await;
    let begun = (0..3).map(|_| store.begin(None));
    for begun in futures_util::future::join_all(begun).await {
        assert!(begun.is_ok());
    }
}

#[tokio::test]
async fn a_table_that_changes_under_a_connection_costs_no_write() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    claim(&store, 1, &SendLog::new()).await;
    execute(
        &url,
        "ALTER TABLE idempotency ALTER status TYPE varchar COLLATE \"C\"",
    )
    .await;
    let refused = claim(&store, 2, &SendLog::new()).await;
    assert!(
        matches!(
            refused,
            StoreReply::ConditionFailed {
                existing: Some(_),
                ..
            }
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn steps_of_another_form_cannot_be_read() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    for steps in [
        "ARRAY['reserve']",
        "ARRAY['reserve', NULL]",
        "'{{reserve, 1}, {charge, 2}}'",
    ] {
        let insert = format!(
            "DELETE FROM idempotency; INSERT INTO idempotency (id, steps) VALUES ('pay#1', {steps})"
        );
        execute(&url, &insert).await;
        assert_eq!(
            found(&store).await.unwrap().steps,
            Field::Unreadable,
            "{steps}"
        );
        let page = store.scan(ScanRequest::default()).await.unwrap();
        assert_eq!(page.records.len(), 1, "{steps}");
    }
}
