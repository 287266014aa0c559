//! Many transfers at once, each delivered several times, with faults in one request of three. Then the books are checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use futures_util::StreamExt;
use futures_util::stream;
use idempotency_core::clock::Clock;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::ErrorKind;
use idempotency_tests::{START, ours};

use super::bank::{Bank, Receipt, TIMEOUT, Transfer, WINDOW};
use super::faults::{Dice, Flaky};

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
    let all: Vec<_> = (1..=transfers())
        .map(|number| {
            let (from, to) = if dice.percent(50) {
                ("alice", "bob")
            } else {
                ("bob", "alice")
            };
            let amount = 1 + dice.below(9) as i64;
            Transfer {
                number,
                from,
                to,
                amount,
            }
        })
        .collect();
    let callers = Mutex::new(Callers::default());
    // Near one another, and in another order: duplicates meet.
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
                assert_eq!(
                    ours(&error).kind(),
                    ErrorKind::TransactionRejected,
                    "{error}"
                );
                callers.lock().unwrap().rejected += 1;
            }
        }
    }
    let taken = EpochMillis::new(START).until(bank.clock.now());
    assert!(
        taken < WINDOW,
        "no window may end, but {taken:?} have passed"
    );
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
    late: &Mutex<Vec<Arc<Flaky<idempotency_dynamodb::DynamoDbStore>>>>,
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
