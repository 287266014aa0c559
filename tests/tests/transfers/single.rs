//! One transfer: applied once, rejected, replayed, fenced, with faults on the wire.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_lambda::{BoxError, ErrorKind};
use idempotency_testkit::dynamodb::Fault;
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_tests::ours;

use super::bank::{Bank, TIMEOUT, Transfer};

fn five() -> Transfer {
    Transfer {
        number: 1,
        from: "alice",
        to: "bob",
        amount: 5,
    }
}

async fn balances(bank: &Bank) -> (i64, i64) {
    (bank.balance("alice").await, bank.balance("bob").await)
}

#[tokio::test]
async fn a_transfer_is_applied_once_and_its_duplicate_gets_the_same_receipt() {
    let bank = Bank::open("once", 10).await;
    let receipt = bank.transfer(five()).await.unwrap();
    assert_eq!(bank.transfer(five()).await.unwrap(), receipt);
    assert_eq!((balances(&bank).await, bank.runs()), ((5, 15), 1));
    let operations: Vec<_> = bank.database.as_ref().unwrap().requests();
    let operations: Vec<_> = operations
        .iter()
        .map(|request| request.operation.as_str())
        .collect();
    let [.., claim, transaction, duplicate, _, _] = operations[..] else {
        panic!("{operations:?}");
    };
    assert_eq!(
        [claim, transaction, duplicate],
        ["PutItem", "TransactWriteItems", "PutItem"]
    );
}

#[tokio::test]
async fn a_transfer_without_funds_is_rejected_and_can_be_sent_again_when_there_are_some() {
    let bank = Bank::open("poor", 3).await;
    let error = bank.transfer(five()).await.unwrap_err();
    let error = ours(&error);
    assert_eq!(error.kind(), ErrorKind::TransactionRejected);
    assert!(error.handler_ran() && error.has_unconfirmed_writes());
    let rejection = error.rejection().unwrap();
    assert_eq!(rejection.writes().len(), 1);
    let write = rejection.write(0).unwrap();
    let item: &HashMap<String, AttributeValue> = write.item().unwrap();
    assert!(write.is_condition() && item["balance"] == AttributeValue::N("3".to_owned()));
    let text = error.to_string();
    assert!(
        text.contains("write 1 of 3 (update of table `accounts-poor`): ConditionalCheckFailed"),
        "{text}"
    );
    assert_eq!((balances(&bank).await, bank.entry(1).await), ((3, 3), None));
    bank.set_balance("alice", 9).await;
    bank.transfer(five()).await.unwrap();
    assert_eq!((balances(&bank).await, bank.runs()), ((4, 8), 2));
}

#[tokio::test]
async fn a_lost_reply_on_the_wire_is_sent_again_and_applied_once() {
    let bank = Bank::open("lost", 10).await;
    let database = bank.database.as_ref().unwrap();
    for fault in [
        Fault::on("TransactWriteItems").drop_reply(),
        Fault::on("TransactWriteItems").internal_error_although_applied(),
        Fault::on("TransactWriteItems").throttle(),
    ] {
        database.inject(fault);
    }
    let receipt = bank.transfer(five()).await.unwrap();
    assert_eq!(balances(&bank).await, (5, 15));
    assert_eq!(
        bank.entry(1).await.map(|entry| (entry.applied, entry.run)),
        Some((1, receipt.run))
    );
}

#[tokio::test]
async fn a_transaction_that_the_store_forgets_is_recognised_by_the_record() {
    // Each request is another one for the database, so that its token is not the only protection.
    for fault in [
        StoreFault::LoseReply,
        StoreFault::Resend,
        StoreFault::Delay,
        StoreFault::LoseRequest,
    ] {
        let bank = Bank::open("recognised", 10).await;
        let store = Arc::new(FaultyStore::new(bank.store()));
        store.inject(StoreOperation::Transact, 1, fault);
        let process = bank.process(store.clone());
        let receipt = bank
            .deliver(process, five(), async || Ok(()))
            .await
            .unwrap();
        store.deliver().await;
        let entry = bank.entry(1).await.unwrap();
        assert_eq!((entry.applied, entry.run), (1, receipt.run), "{fault:?}");
        assert_eq!(balances(&bank).await, (5, 15), "{fault:?}");
    }
}

#[tokio::test]
async fn a_transaction_that_meets_others_is_sent_again_for_as_long_as_there_is_time() {
    let bank = Bank::open("conflict", 10).await;
    let store = Arc::new(FaultyStore::new(bank.store()));
    for nth in 1..=9 {
        store.inject(StoreOperation::Transact, nth, StoreFault::Conflict);
    }
    let process = bank.process(store.clone());
    bank.deliver(process, five(), async || Ok(()))
        .await
        .unwrap();
    assert_eq!(store.count(StoreOperation::Transact), 10);
    assert_eq!(balances(&bank).await, (5, 15));
}

#[tokio::test]
async fn a_slow_owner_applies_nothing_and_gets_the_winners_receipt() {
    let bank = Bank::open("slow", 10).await;
    let slow = bank.process(Arc::new(bank.store()));
    let receipt = bank.deliver(slow, five(), async || {
        bank.clock.advance(TIMEOUT * 2);
        bank.transfer(five()).await.map(drop)
    });
    assert_eq!(receipt.await.unwrap().run, 2);
    assert_eq!((balances(&bank).await, bank.runs()), ((5, 15), 2));
}

#[tokio::test]
async fn a_late_transaction_of_a_rejected_call_is_not_applied() {
    let bank = Bank::open("late", 3).await;
    let store = Arc::new(FaultyStore::new(bank.store()));
    // The first send is on its way when the second one is rejected.
    store.inject(StoreOperation::Transact, 1, StoreFault::Delay);
    let process = bank.process(store.clone());
    let error = bank
        .deliver(process, five(), async || Ok(()))
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::TransactionRejected);
    bank.set_balance("alice", 9).await;
    store.deliver().await;
    assert_eq!((balances(&bank).await, bank.entry(1).await), ((9, 3), None));
}

#[tokio::test]
async fn a_rejection_whose_release_fails_is_unknown_after_a_lost_send_and_certain_without() {
    for (lost, kind) in [
        (false, ErrorKind::TransactionRejected),
        (true, ErrorKind::CompletionUnknown),
    ] {
        let bank = Bank::open("unreleased", 3).await;
        let store = Arc::new(FaultyStore::new(bank.store()));
        if lost {
            store.inject(StoreOperation::Transact, 1, StoreFault::LoseRequest);
        }
        store.inject(StoreOperation::Delete, 1, StoreFault::Throttle);
        let process = bank.process(store);
        let error = bank
            .deliver(process, five(), async || Ok(()))
            .await
            .unwrap_err();
        assert_eq!(ours(&error).kind(), kind);
        assert!(ours(&error).has_unconfirmed_writes());
    }
}

#[tokio::test]
async fn a_handler_that_fails_has_staged_its_writes_for_nothing() {
    let bank = Bank::open("fails", 10).await;
    let process = bank.process(Arc::new(bank.store()));
    let failed = bank.deliver(process, five(), async || Err(BoxError::from("declined")));
    assert_eq!(failed.await.unwrap_err().to_string(), "declined");
    assert_eq!(
        (balances(&bank).await, bank.entry(1).await),
        ((10, 10), None)
    );
}

#[tokio::test]
async fn an_evicted_claim_applies_nothing_and_its_retry_applies_once() {
    let bank = Bank::open("evicted", 10).await;
    let process = bank.process(Arc::new(bank.store()));
    let evicted = bank.deliver(process, five(), async || {
        bank.evict_all().await;
        Ok(())
    });
    let error = evicted.await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::LostOwnership);
    assert!(ours(&error).has_unconfirmed_writes());
    assert_eq!(
        (balances(&bank).await, bank.entry(1).await),
        ((10, 10), None)
    );
    bank.transfer(five()).await.unwrap();
    assert_eq!((balances(&bank).await, bank.runs()), ((5, 15), 2));
}
