//! What a server keeps of what it has acknowledged: all with an append-only file, and not all in a failover of an asynchronous replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::Duration;

use futures_util::future::join_all;
use idempotency_core::system::SystemClock;
use idempotency_core::time::Clock;
use idempotency_lambda::{Backend, BoxError, Deadline, ErrorKind, OnTimeout, with_backend};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::valkey::{Server, Tunnel};
use idempotency_tests::{End, end, keyed};
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use super::{Calls, field, record_key, started, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_loses_nothing_that_was_acknowledged() -> Result<(), BoxError> {
    let mut server = Server::start(&[])?;
    let (store, calls) = (store(&server.url()), Calls::default());
    let (begun, killed) = (AtomicUsize::new(0), Notify::new());
    // Every other handler ends before the kill, and the rest after it.
    let runs = (0..40).map(|order| {
        let (calls, store, begun, killed) = (&calls, &store, &begun, &killed);
        calls.call_with(store, order.to_string(), async move || {
            begun.fetch_add(1, Ordering::Relaxed);
            if order % 2 == 1 {
                killed.notified().await;
            }
            Ok(())
        })
    });
    let kill = async {
        while begun.load(Ordering::Relaxed) < 40 {
            tokio::task::yield_now().await;
        }
        server.restart()?;
        for order in 0..40 {
            assert_ne!(field(&server, &order.to_string(), "owner"), "", "{order}");
        }
        killed.notify_waiters();
        Ok::<_, BoxError>(())
    };
    let (ended, killed) = tokio::join!(join_all(runs), kill);
    killed?;
    for (order, ended) in ended.iter().enumerate() {
        let is_response = matches!(ended, End::Ran(_) | End::Replayed(_));
        assert!(is_response, "{order}: {ended:?}");
        assert_eq!(field(&server, &order.to_string(), "status"), "COMPLETED");
    }
    server.restart()?;
    for (order, ended) in ended.into_iter().enumerate() {
        let (End::Ran(run) | End::Replayed(run)) = ended else {
            continue;
        };
        let again = calls.call(&store, order.to_string()).await;
        assert_eq!(again, End::Replayed(run));
    }
    assert_eq!(calls.runs(), 40);
    Ok(())
}

/// What the guide says of asynchronous replicas: a failover can lose an acknowledged claim, and then a handler runs twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_an_asynchronous_replica_can_lose_an_acknowledged_claim()
-> Result<(), BoxError> {
    let mut primary = Server::start(&[])?;
    let tunnel = Tunnel::start(primary.address()).await?;
    let port = tunnel.port().to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port])?;
    replica.until("master_link_status", "up")?;
    let calls = Calls::default();
    let (before, after) = (store(&primary.url()), store(&replica.url()));
    assert_eq!(calls.call(&before, "1").await, End::Ran(1));
    while field(&replica, "1", "status") != "COMPLETED" {
        tokio::task::yield_now().await;
    }
    // From here on the replica is behind.
    tunnel.hold().await;
    let mut second = None;
    let first = calls.call_with(&before, "2", async || {
        primary.kill()?;
        tunnel.close();
        replica.ask(&["REPLICAOF", "NO", "ONE"]);
        // What has reached the replica is there.
        assert_eq!(calls.call(&after, "1").await, End::Replayed(1));
        // The claim of the call that still runs is not.
        second = Some(calls.call(&after, "2").await);
        Ok(())
    });
    let first = first.await;
    assert!(matches!(first, End::AfterRun(_)), "{first:?}");
    assert_eq!((second, calls.runs()), (Some(End::Ran(3)), 3));
    Ok(())
}

/// A process whose clock is late, or that comes after a kill, still finds the record.
#[tokio::test]
async fn the_server_keeps_a_record_for_as_long_as_the_page_says() -> Result<(), BoxError> {
    let page = include_str!("../../../docs/guide/valkey.md");
    for kept in [
        "one hour after `expiration` if it is completed, otherwise two weeks after",
        "| a held claim, a half undone key | expires after ten years | the same |",
    ] {
        assert!(page.contains(kept), "{kept}");
    }
    let (hour, day) = (3_600, 24 * 3_600);
    let server = Server::start(&[])?;
    let store = started(&server.url()).await;
    let left = |order: &str| {
        let left = server.ask(&["TTL", &record_key(order)]).text();
        left.parse::<i64>().unwrap()
    };
    // The window is an hour, the deadline of a call is near.
    for (order, on_timeout, expires) in [
        ("1", OnTimeout::Rerun, hour),
        ("2", OnTimeout::Hold, 10 * 365 * day),
    ] {
        let charge = keyed(|it| {
            it.on_timeout(on_timeout)
                .expires_after(Duration::from_secs(3_600))
        });
        let deadline = Deadline::At(SystemClock.now().plus(Duration::from_secs(30)));
        let order_event = json!({ "order_id": order });
        let call = charge.run(&order_event, deadline, || async {
            let claimed = left(order) - 14 * day;
            assert!(
                (expires - 1_800..expires + 120).contains(&claimed),
                "{claimed}"
            );
            Ok::<_, BoxError>(1_u8)
        });
        assert_eq!(
            end(with_backend(super::process(store.clone()), call).await),
            End::Ran(1)
        );
        let completed = left(order) - hour;
        assert!((hour - 1_800..hour + 2).contains(&completed), "{completed}");
    }
    Ok(())
}

/// The claim that a killed run leaves lasts for one lease from its last renewal on. The next call then runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_run_that_renewed_its_lease_blocks_its_key_for_one_lease() -> Result<(), BoxError>
{
    let server = Server::start(&[])?;
    let store = started(&server.url()).await;
    let clock = ManualClock::at(SystemClock.now().get());
    let lease = Duration::from_secs(30);
    let charge = keyed(|operation| operation.renew(true).lease(lease));
    let order = json!({ "order_id": "1" });
    let process = |seed| {
        let random = Arc::new(SeededRandom::new(seed));
        Backend::new(store.clone(), Arc::new(clock.clone()), random)
    };
    let (begun, begins) = oneshot::channel();
    let run = charge.run(&order, Deadline::Inherited, || async {
        let _ = begun.send(());
        std::future::pending::<Result<u8, BoxError>>().await
    });
    let ends = || {
        field(&server, "1", "in_progress_expiration")
            .parse::<i64>()
            .unwrap_or(0)
    };
    let renewal = async {
        begins.await?;
        let claimed = ends();
        // Past a third of the lease.
        clock.advance(lease / 2);
        while ends() == claimed {
            tokio::task::yield_now().await;
        }
        Ok::<_, BoxError>(())
    };
    tokio::select! {
        _ = with_backend(process(1), run) => panic!("the run ended"),
        renewed = renewal => renewed?,
    }
    let left = ends() - clock.now().get();
    assert!((1..=30_000).contains(&left), "{left}");
    let next = || {
        let call = charge.run(&order, Deadline::Inherited, || async {
            Ok::<_, BoxError>(2_u8)
        });
        with_backend(process(2), call)
    };
    assert_eq!(
        end(next().await),
        End::Refused(ErrorKind::AlreadyInProgress)
    );
    clock.advance(Duration::from_millis(u64::try_from(left)? + 1));
    assert_eq!(end(next().await), End::Ran(2));
    Ok(())
}
