//! A cluster: its slots, a failover, and a slot that moves.

use futures_util::future::join_all;
use idempotency_lambda::BoxError;
use idempotency_tests::End;
use idempotency_tests::valkey::{Cluster, Server};

use super::{Calls, record_key, store};

/// The orders of a test, whose keys are in all parts of the cluster.
fn orders() -> impl Iterator<Item = String> {
    (0..30).map(|order| order.to_string())
}

async fn expect(calls: &Calls, store: &std::sync::Arc<idempotency_valkey::ValkeyStore>) {
    let ended = join_all(orders().map(|order| calls.call(store, order))).await;
    for (order, ended) in orders().zip(ended) {
        assert!(matches!(ended, End::Replayed(_)), "{order}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_after_a_failover() -> Result<(), BoxError> {
    let mut cluster = Cluster::start()?;
    let (calls, store) = (Calls::default(), store(&cluster.servers[0].url()));
    for order in orders() {
        assert!(matches!(calls.call(&store, order).await, End::Ran(_)));
    }
    let holds_some = |server: &Server| server.ask(&["DBSIZE"]).text() != "0";
    assert!(cluster.servers.iter().all(holds_some), "each has keys");
    cluster.servers[0].ask(&["WAIT", "1", "10000"]);
    // The server of the URL dies.
    cluster.fail_over()?;
    expect(&calls, &store).await;
    for order in orders() {
        let ended = calls.call(&store, format!("after {order}")).await;
        assert!(matches!(ended, End::Ran(_)), "{ended:?}");
    }
    assert_eq!(calls.runs(), 60);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_a_primary_that_became_a_replica_and_a_slot_that_moves() -> Result<(), BoxError>
{
    let cluster = Cluster::start()?;
    let servers = &cluster.servers;
    // Any server of the cluster is enough, a replica too.
    let (calls, store) = (Calls::default(), store(&servers[3].url()));
    for order in orders() {
        assert!(matches!(calls.call(&store, order).await, End::Ran(_)));
    }
    servers[3].ask(&["CLUSTER", "FAILOVER"]);
    servers[3].until("role", "master")?;
    servers[0].until("role", "slave")?;
    expect(&calls, &store).await;

    // A slot on its way from the second to the third server: a key that is not there any more is asked for at the third.
    let of_second = |order: &String| {
        let key = record_key(order);
        !servers[1]
            .ask(&["EXISTS", &key])
            .text()
            .starts_with("MOVED")
    };
    let order = (100..)
        .map(|order| order.to_string())
        .find(of_second)
        .unwrap();
    let slot = servers[1]
        .ask(&["CLUSTER", "KEYSLOT", &record_key(&order)])
        .text();
    let [second, third] = [1, 2].map(|at| servers[at].ask(&["CLUSTER", "MYID"]).text());
    servers[2].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &second]);
    servers[1].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &third]);
    assert!(matches!(
        calls.call(&store, order.as_str()).await,
        End::Ran(_)
    ));
    assert!(matches!(
        calls.call(&store, order.as_str()).await,
        End::Replayed(_)
    ));
    for server in &servers[1..] {
        server.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &third]);
    }
    assert!(matches!(calls.call(&store, order).await, End::Replayed(_)));
    expect(&calls, &store).await;
    assert_eq!(calls.runs(), 31);
    Ok(())
}
