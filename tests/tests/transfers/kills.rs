//! A kill at every request of a transfer, before and after it is applied. The rows are published in `docs/evidence/reliability.md`.

use std::sync::Arc;

use idempotency_lambda::ErrorKind;
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_tests::ours;

use super::bank::{Bank, TIMEOUT, Transfer};

/// The requests at which the process dies: on which path, which request.
const STEPS: &[(&str, &str, StoreOperation)] = &[
    ("transfer", "claim", StoreOperation::Put),
    ("transfer", "transaction", StoreOperation::Transact),
    ("rejected", "transaction", StoreOperation::Transact),
    ("rejected", "release", StoreOperation::Delete),
    (
        "after a lost reply",
        "second transaction",
        StoreOperation::Transact,
    ),
];

async fn retry(bank: &Bank, transfer: Transfer) -> String {
    let before = bank.runs();
    match bank.transfer(transfer).await {
        Ok(receipt) if receipt.run > before => format!("runs: run {}", receipt.run),
        Ok(receipt) => format!("the response of run {}", receipt.run),
        Err(error) => match ours(&error).kind() {
            ErrorKind::AlreadyInProgress => "in progress".to_owned(),
            other => other.name().to_owned(),
        },
    }
}

/// Plays a kill before or after a request is applied. Returns the row.
async fn row(path: &str, name: &str, operation: StoreOperation, fault: StoreFault) -> String {
    let funds = if path == "rejected" { 3 } else { 10 };
    let bank = Bank::open("kills", funds).await;
    let transfer = Transfer {
        number: 1,
        from: "alice",
        to: "bob",
        amount: 5,
    };
    let store = Arc::new(FaultyStore::new(bank.store()));
    let nth = if path == "after a lost reply" {
        store.inject(StoreOperation::Transact, 1, StoreFault::LoseReply);
        2
    } else {
        1
    };
    store.inject(operation, nth, fault);
    let process = bank.process(store.clone());
    tokio::select! {
        _ = bank.deliver(process, transfer, async || Ok(())) => panic!("{path}, {name}: the call ended"),
        () = store.hung() => {}
    }
    let early = retry(&bank, transfer).await;
    bank.clock.advance(TIMEOUT * 2);
    let late = retry(&bank, transfer).await;
    let when = if fault == StoreFault::Hang {
        "before"
    } else {
        "after"
    };
    let (alice, bob) = (bank.balance("alice").await, bank.balance("bob").await);
    let applied = bank.entry(1).await.map_or(0, |entry| entry.applied);
    assert_eq!(alice + bob, 2 * funds, "{path}, {when} the {name}");
    assert_eq!(alice, funds - 5 * applied, "{path}, {when} the {name}");
    format!("| {path} | {when} the {name} | {early} | {late} | {applied} |")
}

#[tokio::test]
async fn a_kill_at_every_request_leads_to_at_most_one_application() {
    let mut rows = Vec::new();
    for (path, name, operation) in STEPS {
        for fault in [StoreFault::Hang, StoreFault::HangAfter] {
            rows.push(row(path, name, *operation, fault).await);
        }
    }
    let published = include_str!("../../../docs/evidence/reliability.md");
    let missing: Vec<_> = rows
        .iter()
        .filter(|row| !published.contains(row.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/evidence/reliability.md does not say:\n{}",
        rows.join("\n")
    );
}
