//! The operator's command on one server and on a cluster: the program that `tests/scripts/valkey.sh` has built.

use std::process::Command;
use std::sync::Arc;

use idempotency_lambda::BoxError;
use idempotency_tests::End;
use idempotency_tests::valkey::{Cluster, Server};
use idempotency_valkey::ValkeyStore;
use serde_json::{Value, json};

use super::{Calls, charge, store};

/// The variable with the path of the command.
const COMMAND: &str = "IDEMPOTENCY_COMMAND";

/// Runs the command on a server, and returns the JSON that it prints.
fn run(server: &Server, arguments: &[&str]) -> Value {
    let Some(program) = std::env::var_os(COMMAND) else {
        panic!("{COMMAND} names no program: run tests/scripts/valkey.sh")
    };
    let output = Command::new(program)
        .args(arguments)
        .arg("--json")
        .env("IDEMPOTENCY_STORE", "valkey")
        .env("IDEMPOTENCY_VALKEY_URL", server.url())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {printed}{complained}"
    );
    serde_json::from_str(&printed).unwrap()
}

/// Reads, lists, resolves and evicts records through this server.
async fn operate(store: &Arc<ValkeyStore>, server: &Server) {
    let calls = Calls::default();
    let key = |order: &str| idempotency_tests::id(&charge(), &json!(order)).to_string();
    assert_eq!(calls.call(store, "1").await, End::Ran(1));
    let get = run(server, &["get", &key("1"), "--show-data"]);
    assert_eq!(
        (&get["state"], &get["data"]),
        (&json!("completed"), &json!("1"))
    );

    // More claims than one page has, whose runs did not report their end.
    let orders: Vec<_> = (2..40).map(|order| order.to_string()).collect();
    for order in &orders {
        let (begun, begins) = tokio::sync::oneshot::channel();
        let dropped = calls.call_with(store, order.as_str(), async || {
            let _ = begun.send(());
            std::future::pending().await
        });
        tokio::select! { biased; _ = dropped => unreachable!("it is stuck"), _ = begins => {} }
    }
    assert_eq!(run(server, &["list", "--held", "--yes"])["keys"], json!([]));
    for order in &orders {
        super::end_lease(store, order).await;
    }
    let listed = run(server, &["list", "--held", "--yes"]);
    let mut listed: Vec<_> = listed["keys"].as_array().unwrap().iter().collect();
    listed.sort_by_key(|row| row["key"].to_string());
    let mut keys: Vec<_> = orders.iter().map(|order| key(order)).collect();
    keys.sort();
    let found: Vec<_> = listed.iter().map(|row| row["key"].clone()).collect();
    assert_eq!(found, keys);
    assert!(
        listed.iter().all(|row| row["state"] == "lease_over"),
        "{listed:?}"
    );

    let by = ["--by", "ana", "--reason", "paid", "--yes"];
    let completed = key("2");
    run(
        server,
        &[&["resolve", &completed, "--completed", "77"][..], &by].concat(),
    );
    assert_eq!(calls.call(store, "2").await, End::Replayed(77));
    let runs = calls.runs();
    run(
        server,
        &[&["resolve", &key("3"), "--rerun"][..], &by].concat(),
    );
    assert_eq!(calls.call(store, "3").await, End::Ran(runs + 1));
    run(server, &["evict", &key("1"), "--yes"]);
    assert_eq!(calls.call(store, "1").await, End::Ran(runs + 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_reads_lists_resolves_and_evicts_records() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    operate(&store(&server.url()), &server).await;
    let cluster = Cluster::start()?;
    operate(&store(&cluster.servers[0].url()), &cluster.servers[1]).await;
    Ok(())
}
