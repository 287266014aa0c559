//! Requests and replies that are late: after the time of their request, or after their connection has ended.

use std::time::Duration;

use futures_util::future::join_all;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::Call;
use idempotency_lambda::BoxError;
use idempotency_tests::WireFault;

use crate::bank::{Bank, Late, pay};

/// Later than the time of each request.
const LATER: Duration = Duration::from_secs(60 * 60);

/// Soon, but after the connection has ended.
const SOON: Duration = Duration::from_millis(50);

/// Asserts that the call of this key has paid, once.
async fn has_paid_once(bank: &Bank) {
    assert_eq!(bank.call_at(Late(30), 1, pay).await.unwrap(), 7);
    assert_eq!(bank.balances().await, (7, 13));
}

#[tokio::test]
async fn a_claim_whose_reply_is_late_is_no_run_or_one() {
    let (bank, proxy) = Bank::behind_a_proxy().await;
    proxy.inject_into("BIND", WireFault::DelayReply(LATER));
    let error = bank.call(1, pay).await.unwrap_err();
    assert_eq!(kind(&error), ErrorKind::StoreFailed, "{error}");
    assert_eq!(bank.balances().await, (10, 10));
    has_paid_once(&bank).await;
    proxy.inject_into("BIND", WireFault::DelayReply(SOON));
    assert_eq!(bank.call(2, pay).await.unwrap(), 4);
}

#[tokio::test]
async fn a_claim_that_arrives_after_its_connection_takes_nothing_from_the_run() {
    let (bank, proxy) = Bank::behind_a_proxy().await;
    proxy.inject_into("BIND", WireFault::Late(SOON));
    assert_eq!(bank.call(1, pay).await.unwrap(), 7);
    proxy.late_request().await;
    has_paid_once(&bank).await;
}

#[tokio::test]
async fn a_commit_whose_reply_is_late_is_read_and_never_sent_again() {
    let faults = [
        WireFault::DelayReply(LATER),
        WireFault::DelayReply(SOON),
        WireFault::CutReply,
    ];
    let calls = faults.map(|fault| async move {
        let (bank, proxy) = Bank::behind_a_proxy().await;
        proxy.inject_into("COMMIT", fault);
        assert_eq!(bank.call(1, pay).await.unwrap(), 7, "{fault:?}");
        let sent = proxy.requests().into_iter();
        assert_eq!(sent.filter(|it| it.command == "COMMIT").count(), 1);
        has_paid_once(&bank).await;
    });
    join_all(calls).await;
}

#[tokio::test]
async fn a_commit_that_arrives_after_its_connection_pays_once() {
    let (bank, proxy) = Bank::behind_a_proxy().await;
    proxy.inject_into("COMMIT", WireFault::Late(Duration::from_millis(300)));
    // The release of its claim waits for the transaction, so it never frees a key that is paid.
    match bank.call(1, pay).await {
        Ok(left) => assert_eq!(left, 7),
        Err(error) => assert_eq!(kind(&error), ErrorKind::CompletionUnknown, "{error}"),
    }
    proxy.late_request().await;
    has_paid_once(&bank).await;
}

#[tokio::test]
async fn a_commit_that_does_not_arrive_in_time_frees_no_key_that_it_may_still_pay() {
    let (bank, proxy) = Bank::behind_a_proxy().await;
    proxy.inject_into("COMMIT", WireFault::Delay(LATER));
    let error = bank.call(1, pay).await.unwrap_err();
    assert_eq!(kind(&error), ErrorKind::CompletionUnknown, "{error}");
    let error = bank.call(1, pay).await.unwrap_err();
    assert_eq!(kind(&error), ErrorKind::AlreadyInProgress, "{error}");
    assert_eq!(bank.balances().await, (10, 10));
    // Now the server sees the end of the connection.
    proxy.cut();
    has_paid_once(&bank).await;
}

#[tokio::test]
async fn a_completion_that_is_late_applies_nothing() {
    let faults = [
        WireFault::DelayReply(LATER),
        WireFault::Delay(LATER),
        WireFault::Late(SOON),
        WireFault::CutReply,
        WireFault::CutRequest,
    ];
    let calls = faults.map(|fault| async move {
        let (bank, proxy) = Bank::behind_a_proxy().await;
        let completes = |call: Call| async {
            let left = pay(call).await?;
            proxy.inject_into("BIND", fault);
            Ok::<_, BoxError>(left)
        };
        let error = bank.call(1, completes).await.unwrap_err();
        assert_eq!(kind(&error), ErrorKind::CompletionUnknown, "{error}");
        proxy.cut();
        assert_eq!(bank.balances().await, (10, 10), "{fault:?}");
        has_paid_once(&bank).await;
    });
    join_all(calls).await;
}

fn kind(error: &BoxError) -> ErrorKind {
    let error = error.downcast_ref::<Error>();
    error.map_or_else(|| panic!("another error"), Error::kind)
}
