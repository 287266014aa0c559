//! A short soak: this test program, started again as [`the_function`], on a table with faulty requests.
//!
//! `tests/scripts/soak.sh` runs longer and compares us with the library for Python.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::history::Promise;
use idempotency_tests::soak::{Plan, ROLE, Report, Side, check, run, serve};

/// Serves events in a process that the local Lambda started. In the test run it does nothing.
#[tokio::test]
async fn the_function() {
    if std::env::var_os(ROLE).is_some() {
        serve().await.unwrap();
    }
}

fn unprotected() -> Result<Side, BoxError> {
    let ours = Side::of_this_program()?;
    let protected = ours.command;
    Ok(Side {
        command: Arc::new(move || {
            let mut command = protected();
            command.env("IDEMPOTENCY_DISABLED", "true");
            command
        }),
        ..ours
    })
}

/// A short plan: few keys and short deadlines.
fn plan(name: &str, keys: u64) -> Plan {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    Plan {
        keys,
        clients: 8,
        processes: 1,
        deadlines: vec![Duration::from_secs(1), Duration::from_secs(2)],
        overruns: 40,
        kill_every: Some(Duration::from_secs(1)),
        stop_every: Some(Duration::from_secs(1)),
        ..Plan::new(1, folder)
    }
}

#[tokio::test]
async fn no_promise_breaks_while_processes_die_and_requests_fail() -> Result<(), BoxError> {
    let plan = plan("soak", 60);
    let history = run(&Side::of_this_program()?, &plan).await?;
    let report = Report::of_kept_promises(&history, &plan);
    assert!(report.responses > 0, "{report}");
    assert!(report.went_wrong() >= 10, "{report}");
    Ok(())
}

/// With runs that are longer than a lease without renewals, and freezes that are longer than one with them.
#[tokio::test]
async fn no_promise_breaks_on_a_server_that_renews_its_leases() -> Result<(), BoxError> {
    let plan = Plan {
        server: true,
        deadlines: vec![Duration::from_secs(10)],
        overruns: 150,
        ..plan("soak-server", 60)
    };
    let history = run(&Side::of_this_program()?, &plan).await?;
    let report = Report::of_kept_promises(&history, &plan);
    assert!(history.renewals() > 0, "{report}");
    assert!(report.went_wrong() >= 10, "{report}");
    Ok(())
}

#[tokio::test]
async fn an_unprotected_function_breaks_the_promises() -> Result<(), BoxError> {
    let calm = Plan {
        faults: 0,
        kill_every: None,
        stop_every: None,
        ..plan("soak-unprotected", 10)
    };
    let broken = check(&run(&unprotected()?, &calm).await?, true);
    for promise in [
        Promise::OneResponse,
        Promise::StoredResponse,
        Promise::RunWithoutClaim,
    ] {
        let found = broken.iter().any(|(_, broken)| broken.promise == promise);
        assert!(found, "{promise:?}");
    }
    Ok(())
}
