//! What a server keeps of what it has acknowledged: all with an append-only file, and not all in a failover of an asynchronous replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use idempotency_lambda::BoxError;
use idempotency_tests::End;
use idempotency_tests::valkey::{Server, Tunnel};
use tokio::sync::Notify;

use super::{Calls, field, store};

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
    tunnel.hold();
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
    drop(Arc::clone(&after));
    Ok(())
}
