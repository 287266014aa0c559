//! Transfers of money between two accounts: the handler stages the writes, and they are applied together with its response.
//!
//! Kills at every request, lost replies, slow owners, writes that arrive late. At the end the balances are exact, and each response
//! agrees with the ledger. `TRANSFERS=10000 cargo test -p idempotency-tests --test dynamodb balances_are_exact` makes more transfers;
//! `TRANSFERS_DYNAMODB_ENDPOINT` names a DynamoDB to use instead of the embedded one, such as AWS's DynamoDB Local.
//!
//! One transfer: applied once, rejected, replayed, fenced, with faults on the wire.
//!
//! A kill at every request of a transfer, before and after it is applied. The rows are in `crashes.md`.
//!
//! Many transfers at once, each delivered several times, with faults in one request of three. Then the balances must agree with the ledger.

mod bank;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt, stream};
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_dynamodb::DynamoDbStore;
use idempotency_lambda::{BoxError, ErrorKind};
use idempotency_testkit::dynamodb::Fault;
use idempotency_testkit::store::StoreOperation::Transact;
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_tests::{START, ours};

use super::{DEATHS, assert_published, kill, said};
use bank::{Bank, Dice, Entry, Flaky, Receipt, TIMEOUT, Transfer, WINDOW};

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
    let requests = bank.database.as_ref().unwrap().requests();
    let requests = requests.iter().map(|request| request.operation.as_str());
    let requests: Vec<_> = requests.collect();
    // At the end the balances are read.
    let of_transfers = &requests[requests.len() - 5..requests.len() - 2];
    assert_eq!(of_transfers, ["PutItem", "TransactWriteItems", "PutItem"]);
}

#[tokio::test]
async fn a_transfer_without_funds_is_rejected_and_can_be_sent_again_when_there_are_some() {
    let bank = Bank::open("poor", 3).await;
    let error = bank.transfer(five()).await.unwrap_err();
    let error = ours(&error);
    assert_eq!(error.kind(), ErrorKind::TransactionRejected);
    assert!(error.handler_ran() && error.has_unconfirmed_writes());
    let rejection = error.rejection().unwrap();
    assert!(rejection.write(1).is_none());
    let write = rejection.write(0).unwrap();
    let item: &HashMap<String, AttributeValue> = write.item().unwrap();
    assert!(write.is_condition() && item["balance"] == AttributeValue::N("3".to_owned()));
    let named = "write 1 of 3 (update of table `accounts-poor`): ConditionalCheckFailed";
    assert!(error.to_string().contains(named), "{error}");
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
    assert_eq!(bank.entry(1).await, Some(once(&receipt)));
}

/// Returns the entry of a transfer that was applied once, by the run of this receipt.
fn once(receipt: &Receipt) -> Entry {
    let run = receipt.run;
    Entry { applied: 1, run }
}

/// Delivers the transfer to a process with these faults. Returns its store, and what the caller gets.
async fn with_faults(
    bank: &Bank,
    faults: &[(StoreOperation, usize, StoreFault)],
) -> (Arc<FaultyStore<DynamoDbStore>>, Result<Receipt, BoxError>) {
    let store = Arc::new(FaultyStore::new(bank.store()));
    for (operation, nth, fault) in faults {
        store.inject(*operation, *nth, *fault);
    }
    let process = bank.process(store.clone());
    let ended = bank.deliver(process, five(), async || Ok(())).await;
    (store, ended)
}

#[tokio::test]
async fn a_transaction_that_the_store_forgets_is_recognised_by_the_record() {
    use StoreFault::{Delay, LoseReply, LoseRequest, Resend};
    // Each request is another one for the database, so that its token is not the only protection.
    for fault in [LoseReply, Resend, Delay, LoseRequest] {
        let bank = Bank::open("recognised", 10).await;
        let (store, receipt) = with_faults(&bank, &[(Transact, 1, fault)]).await;
        store.deliver().await;
        let entry = bank.entry(1).await;
        assert_eq!(entry, Some(once(&receipt.unwrap())), "{fault:?}");
        assert_eq!(balances(&bank).await, (5, 15), "{fault:?}");
    }
}

#[tokio::test]
async fn a_transaction_that_meets_others_is_sent_again_for_as_long_as_there_is_time() {
    let bank = Bank::open("conflict", 10).await;
    let conflicts: Vec<_> = (1..=9)
        .map(|nth| (Transact, nth, StoreFault::Conflict))
        .collect();
    let (store, receipt) = with_faults(&bank, &conflicts).await;
    receipt.unwrap();
    assert_eq!(store.count(Transact), 10);
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
    // The first send is on its way when the second one is rejected.
    let delay = (Transact, 1, StoreFault::Delay);
    let (store, rejected) = with_faults(&bank, &[delay]).await;
    let kind = ours(&rejected.unwrap_err()).kind();
    assert_eq!(kind, ErrorKind::TransactionRejected);
    bank.set_balance("alice", 9).await;
    store.deliver().await;
    assert_eq!((balances(&bank).await, bank.entry(1).await), ((9, 3), None));
}

#[tokio::test]
async fn a_rejection_whose_release_fails_is_unknown_after_a_lost_send_and_certain_without() {
    let unreleased = (StoreOperation::Update, 1, StoreFault::Throttle);
    let lost = (Transact, 1, StoreFault::LoseRequest);
    for (faults, kind) in [
        (&[unreleased][..], ErrorKind::TransactionRejected),
        (&[lost, unreleased], ErrorKind::CompletionUnknown),
    ] {
        let bank = Bank::open("unreleased", 3).await;
        let (_, ended) = with_faults(&bank, faults).await;
        let error = ended.unwrap_err();
        assert_eq!(ours(&error).kind(), kind);
        assert!(ours(&error).has_unconfirmed_writes());
    }
}

#[tokio::test]
async fn the_staged_writes_of_a_handler_that_fails_are_not_applied() {
    let bank = Bank::open("fails", 10).await;
    let process = bank.process(Arc::new(bank.store()));
    let failed = bank.deliver(process, five(), async || Err(BoxError::from("declined")));
    assert_eq!(failed.await.unwrap_err().to_string(), "declined");
    assert_eq!(balances(&bank).await, (10, 10));
    assert_eq!(bank.entry(1).await, None);
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
    assert_eq!(balances(&bank).await, (10, 10));
    assert_eq!(bank.entry(1).await, None);
    bank.transfer(five()).await.unwrap();
    assert_eq!((balances(&bank).await, bank.runs()), ((5, 15), 2));
}

/// The requests at which the process dies: on which path, which request.
const STEPS: &[(&str, &str, StoreOperation)] = &[
    ("transfer", "claim", StoreOperation::Put),
    ("transfer", "transaction", Transact),
    ("rejected", "transaction", Transact),
    ("rejected", "release", StoreOperation::Update),
    ("after a lost reply", "second transaction", Transact),
];

async fn retry(bank: &Bank, transfer: Transfer) -> String {
    let before = bank.runs();
    let retry = bank.transfer(transfer).await;
    said(retry.map(|receipt| (receipt.run, receipt.run <= before)))
}

/// Plays a kill before or after a request is applied. Returns the row.
async fn row(
    (path, name, operation): (&str, &str, StoreOperation),
    (when, fault): (&str, StoreFault),
) -> String {
    let funds = if path == "rejected" { 3 } else { 10 };
    let bank = Bank::open("kills", funds).await;
    let store = Arc::new(FaultyStore::new(bank.store()));
    let nth = if path == "after a lost reply" {
        store.inject(Transact, 1, StoreFault::LoseReply);
        2
    } else {
        1
    };
    store.inject(operation, nth, fault);
    let call = bank.deliver(bank.process(store.clone()), five(), async || Ok(()));
    kill(&store, call, name).await;
    let early = retry(&bank, five()).await;
    bank.clock.advance(TIMEOUT * 2);
    let late = retry(&bank, five()).await;
    let (alice, bob) = balances(&bank).await;
    let applied = bank.entry(1).await.map_or(0, |entry| entry.applied);
    assert_eq!(alice + bob, 2 * funds, "{path}, {when} the {name}");
    assert_eq!(alice, funds - 5 * applied, "{path}, {when} the {name}");
    format!("| {path} | {when} the {name} | {early} | {late} | {applied} |")
}

#[tokio::test]
async fn a_kill_at_every_request_leads_to_at_most_one_application() {
    let mut rows = Vec::new();
    for step in STEPS {
        for death in DEATHS {
            rows.push(row(*step, death).await);
        }
    }
    assert_published(&rows);
}

/// The number of transfers that a test run makes.
const TRANSFERS: usize = 150;

/// The number of deliveries of each transfer with faults.
const DELIVERIES: usize = 3;

/// How many deliveries are in progress at a time.
const AT_A_TIME: usize = 8;

fn transfers() -> usize {
    let number = std::env::var("TRANSFERS");
    number.map_or(TRANSFERS, |number| number.parse().unwrap())
}

/// What the callers of the transfers got.
#[derive(Default)]
struct Callers {
    receipts: BTreeMap<usize, Vec<Receipt>>,
    rejected: usize,
    unknown: usize,
    killed: usize,
    replayed: usize,
}

#[tokio::test]
async fn balances_are_exact_and_each_receipt_agrees_with_the_ledger() {
    let (each, seed) = (40, 7);
    let bank = Bank::open_anywhere("crowd", each).await;
    let dice = Dice::new(seed);
    let transfer = |number| {
        let accounts = ["alice", "bob"];
        let from = usize::from(!dice.percent(50));
        // One of each 50 transfers is more than both accounts have, so it is rejected in every order.
        let amount = match number % 50 {
            0 => 2 * each + 1,
            _ => 1 + dice.below(9) as i64,
        };
        Transfer {
            number,
            from: accounts[from],
            to: accounts[1 - from],
            amount,
        }
    };
    let all: Vec<_> = (1..=transfers()).map(transfer).collect();
    let callers = Mutex::new(Callers::default());
    // The deliveries of a transfer are near one another, in random order, so that duplicates meet.
    let mut deliveries: Vec<_> = all.iter().cycle().take(all.len() * DELIVERIES).collect();
    deliveries.sort_by_cached_key(|transfer| (transfer.number / 8, dice.below(1_000)));
    let late = Mutex::new(Vec::new());
    stream::iter(deliveries)
        .for_each_concurrent(AT_A_TIME, |transfer| {
            deliver(&bank, *transfer, &dice, &callers, &late)
        })
        .await;
    // Long after every lease the callers send again, without faults.
    bank.clock.advance(TIMEOUT * 4);
    for transfer in &all {
        match bank.transfer(*transfer).await {
            Ok(receipt) => note(&callers, receipt),
            Err(error) => {
                let kind = ours(&error).kind();
                assert_eq!(kind, ErrorKind::TransactionRejected, "{error}");
                callers.lock().unwrap().rejected += 1;
            }
        }
    }
    let taken = EpochMillis::new(START).until(bank.clock.now());
    assert!(taken < WINDOW, "no window may end, but {taken:?} passed");
    // What was held back arrives last.
    for store in late.into_inner().unwrap() {
        let store: Arc<Flaky<_>> = store;
        store.store.deliver().await;
    }
    check(&bank, each, &all, &callers.into_inner().unwrap()).await;
}

async fn deliver(
    bank: &Bank,
    transfer: Transfer,
    dice: &Dice,
    callers: &Mutex<Callers>,
    late: &Mutex<Vec<Arc<Flaky<DynamoDbStore>>>>,
) {
    let store = Arc::new(Flaky::new(bank.store(), dice.clone()));
    late.lock().unwrap().push(Arc::clone(&store));
    let process = bank.process(store.clone());
    let is_slow = dice.percent(5);
    let call = bank.deliver(process, transfer, async || {
        if is_slow {
            // Its lease, and that of every call in progress, ends. Another delivery takes over.
            bank.clock.advance(TIMEOUT * 2);
            let _ = Box::pin(bank.transfer(transfer))
                .await
                .map(|receipt| note(callers, receipt));
        }
        Ok(())
    });
    let ended = tokio::select! {
        ended = call => Some(ended),
        () = store.store.hung() => None,
    };
    match ended {
        None => callers.lock().unwrap().killed += 1,
        Some(Ok(receipt)) => note(callers, receipt),
        Some(Err(error)) => {
            let mut callers = callers.lock().unwrap();
            match ours(&error).kind() {
                ErrorKind::TransactionRejected => callers.rejected += 1,
                ErrorKind::AlreadyInProgress => {}
                ErrorKind::CompletionUnknown
                | ErrorKind::LostOwnership
                | ErrorKind::StoreFailed
                | ErrorKind::NoTimeLeft
                | ErrorKind::Contended => callers.unknown += 1,
                other => panic!("{other:?}: {error}"),
            }
        }
    }
    if dice.percent(20) {
        store.store.deliver().await;
    }
}

fn note(callers: &Mutex<Callers>, receipt: Receipt) {
    let mut callers = callers.lock().unwrap();
    let receipts = callers.receipts.entry(receipt.transfer).or_default();
    receipts.push(receipt);
    let again = receipts.len() > 1;
    callers.replayed += usize::from(again);
}

async fn check(bank: &Bank, each: i64, all: &[Transfer], callers: &Callers) {
    let mut expected = BTreeMap::from([("alice", each), ("bob", each)]);
    let mut applied = 0;
    for transfer in all {
        let receipts = callers.receipts.get(&transfer.number);
        let Some(entry) = bank.entry(transfer.number).await else {
            assert_eq!(receipts, None, "{transfer:?} was not applied");
            continue;
        };
        assert_eq!(entry.applied, 1, "{transfer:?}");
        let receipts = receipts.unwrap_or_else(|| panic!("{transfer:?} was applied"));
        for receipt in receipts {
            assert_eq!(receipt.run, entry.run, "{transfer:?}");
        }
        *expected.get_mut(transfer.from).unwrap() -= transfer.amount;
        *expected.get_mut(transfer.to).unwrap() += transfer.amount;
        applied += 1;
    }
    for (account, balance) in expected {
        assert_eq!(bank.balance(account).await, balance, "{account}");
    }
    println!(
        "{} transfers: {applied} applied, {} runs, {} kills, {} unknown, {} rejections, {} replays",
        all.len(),
        bank.runs(),
        callers.killed,
        callers.unknown,
        callers.rejected,
        callers.replayed,
    );
    assert!(applied > 0 && callers.killed > 0 && callers.unknown > 0);
    assert!(callers.rejected > 0 && callers.replayed > 0 && bank.runs() > applied);
}
