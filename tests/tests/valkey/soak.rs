//! A short soak over Valkey: servers that renew their leases are killed and frozen, and their Valkey server is restarted, frozen and cut
//! off. `tests/scripts/soak.sh` runs longer.

use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_tests::Folder;
use idempotency_tests::soak::{Plan, ROLE, Report, Side, SoakStore, run, serve};

/// Serves requests in a process that the soak started. In the test run it does nothing.
#[tokio::test]
async fn the_function() {
    if std::env::var_os(ROLE).is_some() {
        serve().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_promise_breaks_while_servers_die_and_connections_fail() -> Result<(), BoxError> {
    let folder = Folder::new("soak")?;
    let plan = Plan {
        keys: 600,
        clients: 24,
        events: 4,
        overruns: 20,
        kill_every: Some(Duration::from_secs(1)),
        stop_every: Some(Duration::from_secs(1)),
        trouble_every: Some(Duration::from_secs(1)),
        store: SoakStore::Valkey,
        server: true,
        ..Plan::new(1, folder.path().to_owned())
    };
    let history = run(&Side::of_this_program()?, &plan).await?;
    let report = Report::of_kept_promises(&history, &plan);
    assert!(history.renewals() > 0, "{report}");
    assert!(report.went_wrong() >= 10, "{report}");
    Ok(())
}
