//! A short soak over PostgreSQL with transfers of money: servers that renew their leases are killed and frozen, and their PostgreSQL server
//! is restarted, frozen and cut off. `tests/scripts/soak.sh` runs longer.

use std::sync::Arc;
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::history::Promise;
use idempotency_tests::Folder;
use idempotency_tests::soak::{Plan, ROLE, Report, Side, SoakStore, check, run, serve};

/// Serves requests in a process that the soak started. In the test run it does nothing.
#[tokio::test]
async fn the_function() {
    if std::env::var_os(ROLE).is_some() {
        serve().await.unwrap();
    }
}

/// A short plan without trouble.
fn plan(folder: &Folder) -> Plan {
    Plan {
        keys: 10,
        clients: 24,
        processes: 1,
        events: 8,
        overruns: 0,
        faults: 0,
        kill_every: None,
        stop_every: None,
        trouble_every: None,
        store: SoakStore::Postgres { transfers: true },
        server: true,
        ..Plan::new(1, folder.path().to_owned())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_books_are_exact_while_servers_die_and_connections_fail() -> Result<(), BoxError> {
    let folder = Folder::new("soak")?;
    let every = Some(Duration::from_secs(1));
    let plan = Plan {
        keys: 120,
        overruns: 20,
        faults: 20,
        kill_every: every,
        stop_every: every,
        trouble_every: every,
        ..plan(&folder)
    };
    let history = run(&Side::of_this_program()?, &plan).await?;
    let report = Report::of_kept_promises(&history, &plan);
    assert!(
        history.transfers() > 0 && history.renewals() > 0,
        "{report}"
    );
    assert!(report.went_wrong() >= 10, "{report}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unprotected_function_breaks_the_promises() -> Result<(), BoxError> {
    let folder = Folder::new("soak")?;
    let ours = Side::of_this_program()?;
    let protected = ours.command;
    let unprotected = Side {
        command: Arc::new(move || {
            let mut command = protected();
            command.env("IDEMPOTENCY_DISABLED", "true");
            command
        }),
        ..ours
    };
    let broken = check(&run(&unprotected, &plan(&folder)).await?, true);
    for promise in [Promise::OneResponse, Promise::StagedAlone] {
        let found = broken.iter().any(|(_, broken)| broken.promise == promise);
        assert!(found, "{promise:?}");
    }
    Ok(())
}
