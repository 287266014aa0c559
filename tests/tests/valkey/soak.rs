//! A short soak over Valkey: servers that renew their leases are killed and frozen, and their Valkey server is restarted, frozen and cut
//! off. `tests/scripts/soak.sh` runs longer.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_tests::soak::{Plan, ROLE, Report, Side, SoakStore, check, run, serve};

/// Serves requests in a process that the soak started. In the test run it does nothing.
#[tokio::test]
async fn the_function() {
    if std::env::var_os(ROLE).is_some() {
        serve().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_promise_breaks_while_servers_die_and_connections_fail() -> Result<(), BoxError> {
    let side = Side {
        name: "ours",
        command: Arc::new(|| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["soak::the_function", "--exact", "--nocapture"]);
            command
        }),
        ours: true,
    };
    let folder = std::env::temp_dir().join(format!("soak-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
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
        ..Plan::new(1, folder.clone())
    };
    let history = run(&side, &plan).await?;
    let mut report = Report::default();
    report.add(&history, plan.time);
    println!("{report}");
    assert_eq!(check(&history, true), []);
    assert!(history.renewals() > 0, "{report}");
    assert!(report.went_wrong() >= 10, "{report}");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
