//! A cluster: its slots, a failover, and a slot that moves.

use futures_util::future::join_all;
use idempotency_core::record::{Field, OwnerToken, Record};
use idempotency_core::store::{
    Condition, Consistency, Replaced, ScanRequest, StoreReply, StoreScan as _, Write,
};
use idempotency_lambda::BoxError;
use idempotency_testkit::store::StoreExt;
use idempotency_tests::End;
use idempotency_tests::valkey::{Cluster, Server, record};
use idempotency_valkey::ValkeyStore;
use serde_json::json;

use super::{Calls, charge, plant, record_key, started, store};

/// The orders of a test, whose keys are in all parts of the cluster.
fn orders() -> impl Iterator<Item = String> {
    (0..30).map(|order| order.to_string())
}

/// Returns the URL of a server, for a user who has the permissions that the page names.
fn url(cluster: &Cluster, at: usize) -> String {
    let page = include_str!("../../../docs/guide/valkey.md");
    let (_, permissions) = page.split_once("The user needs `").unwrap();
    let (permissions, _) = permissions.split_once('`').unwrap();
    let words = format!("ACL SETUSER app on >s3cr3t -@all ~idempotency:* {permissions}");
    let words: Vec<_> = words.split(' ').collect();
    for server in &cluster.servers {
        assert_eq!(server.ask(&words).text(), "OK");
    }
    let url = cluster.servers[at].url();
    url.replace("//", "//app:s3cr3t@")
}

async fn expect(calls: &Calls, store: &std::sync::Arc<ValkeyStore>) {
    let ended = join_all(orders().map(|order| calls.call(store, order))).await;
    for (order, ended) in orders().zip(ended) {
        assert!(matches!(ended, End::Replayed(_)), "{order}: {ended:?}");
    }
}

/// Returns an order whose key the second server has.
fn order_of_second(servers: &[Server]) -> String {
    let of_second = |order: &String| {
        let found = servers[1].ask(&["EXISTS", &record_key(order)]).text();
        !found.starts_with("MOVED")
    };
    let mut orders = (100..).map(|order| order.to_string());
    orders.find(of_second).unwrap()
}

/// Lets the slot of an order's key be on its way from the second to the third server. Returns the slot, and the id of the third.
fn move_slot(servers: &[Server], order: &str) -> [String; 2] {
    let key = record_key(order);
    let slot = servers[1].ask(&["CLUSTER", "KEYSLOT", &key]).text();
    let [second, third] = [1, 2].map(|at| servers[at].ask(&["CLUSTER", "MYID"]).text());
    servers[2].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &second]);
    servers[1].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &third]);
    [slot, third]
}

/// Returns the keys of all records.
async fn listed(store: &ValkeyStore) -> Result<Vec<String>, BoxError> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let request = ScanRequest {
            prefix: "",
            limit: 100,
            after: after.as_deref(),
            filter: None,
            consistency: Consistency::Strong,
        };
        let page = store.scan(request).await?;
        let ids = page.records.iter().map(|(id, _)| id.as_str());
        keys.extend(ids.map(|id| format!("idempotency:{{{id}}}")));
        after = page.next;
        if after.is_none() {
            return Ok(keys);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_after_a_failover() -> Result<(), BoxError> {
    let mut cluster = Cluster::start()?;
    let (calls, store) = (Calls::default(), store(&url(&cluster, 0)));
    for order in orders() {
        assert!(matches!(calls.call(&store, order).await, End::Ran(_)));
    }
    cluster.replicated()?;
    let holds_some = |server: &Server| server.ask(&["DBSIZE"]).text() != "0";
    assert!(cluster.servers.iter().all(holds_some), "each has keys");
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
async fn a_primary_that_hangs_costs_one_call_after_it_was_replaced() -> Result<(), BoxError> {
    let cluster = Cluster::start()?;
    let (calls, store) = (Calls::default(), store(&cluster.servers[0].url()));
    for order in orders() {
        assert!(matches!(calls.call(&store, order).await, End::Ran(_)));
    }
    cluster.replicated()?;
    // Its connections stay, and its kernel accepts new ones.
    let _frozen = cluster.servers[0].freeze();
    cluster.replaced()?;
    let mut failed = 0;
    for order in orders() {
        match calls.call(&store, order).await {
            End::Replayed(_) => {}
            ended => {
                failed += 1;
                assert_eq!(failed, 1, "{ended:?}");
            }
        }
    }
    assert_eq!(calls.runs(), 30);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_a_primary_that_became_a_replica_and_a_slot_that_moves() -> Result<(), BoxError>
{
    let cluster = Cluster::start()?;
    let servers = &cluster.servers;
    // Any server of the cluster is enough, a replica too.
    let (calls, store) = (Calls::default(), store(&url(&cluster, 3)));
    for order in orders() {
        assert!(matches!(calls.call(&store, order).await, End::Ran(_)));
    }
    servers[3].ask(&["CLUSTER", "FAILOVER"]);
    servers[3].until("role", "master")?;
    servers[0].until("role", "slave")?;
    expect(&calls, &store).await;

    // A key that is not there any more is asked for at the third server.
    let order = order_of_second(servers);
    let [slot, third] = move_slot(servers, &order);
    assert!(matches!(
        calls.call(&store, order.as_str()).await,
        End::Ran(_)
    ));
    assert!(matches!(
        calls.call(&store, order.as_str()).await,
        End::Replayed(_)
    ));
    for (change, said) in [("-asking", "+asking`"), ("+asking", "")] {
        servers[2].ask(&["ACL", "SETUSER", "app", change]);
        let error = calls.error(&store, &order).await;
        assert!(
            error.contains(said) && error.is_empty() == said.is_empty(),
            "{error}"
        );
    }
    assert!(listed(&store).await?.contains(&record_key(&order)));
    for server in &servers[1..] {
        server.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &third]);
    }
    assert!(matches!(calls.call(&store, order).await, End::Replayed(_)));
    expect(&calls, &store).await;
    assert_eq!(calls.runs(), 31);
    Ok(())
}

/// Its keys can be on a server whose records were listed before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_fails_if_a_slot_has_moved_meanwhile() -> Result<(), BoxError> {
    let cluster = Cluster::start()?;
    let store = started(&url(&cluster, 0)).await;
    let first = store.scan(ScanRequest::default()).await?;
    let third = cluster.servers[2].ask(&["CLUSTER", "MYID"]).text();
    // One of the second server.
    for server in cluster.servers[..3].iter().rev() {
        let moved = server.ask(&["CLUSTER", "SETSLOT", "8000", "NODE", &third]);
        assert_eq!(moved.text(), "OK");
    }
    let rest = ScanRequest {
        after: first.next.as_deref(),
        ..ScanRequest::default()
    };
    let error = store.scan(rest).await.unwrap_err().to_string();
    assert!(error.contains("list again"), "{error}");
    assert_eq!(listed(&store).await?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_replaces_the_whole_record_of_a_slot_that_moves() -> Result<(), BoxError> {
    let cluster = Cluster::start()?;
    let second = &cluster.servers[1];
    let store = started(&url(&cluster, 1)).await;
    let order = order_of_second(&cluster.servers);
    let key = record_key(&order);
    let killed = [
        ("status", "INPROGRESS"),
        ("owner", "1"),
        ("expiration", "1"),
        ("failure", "Timeout"),
        ("steps", ""),
        ("step:a", "2"),
        ("other", "3"),
    ];
    plant(second, &order, &killed);
    second.ask(&["EXPIRE", &key, "100"]);
    move_slot(&cluster.servers, &order);
    let record = Record {
        owner: Field::Value(OwnerToken::from_record("2".to_owned())),
        ..Record::default()
    };
    let id = idempotency_tests::id(&charge(), &json!(order));
    let reply = store
        .write(&id, Write::Put(record), &Condition::All(Vec::new()))
        .await;
    let StoreReply::Applied {
        replaced: Replaced::Record(old),
        maybe_again: false,
    } = reply
    else {
        panic!("{reply:?}")
    };
    assert_eq!(old.failure, Field::Value("Timeout".to_owned()));
    let fields = record::fields(&second.ask(&["GET", &key]).bytes());
    assert_eq!(fields, [("owner".to_owned(), "2".to_owned())].into());
    assert_eq!(second.ask(&["TTL", &key]).text(), "-1");
    Ok(())
}
