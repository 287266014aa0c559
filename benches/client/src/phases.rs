//! Where the CPU time of a fresh call goes, over a loopback connection. A phase is the time between two marks, in the thread of the call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Backend, Codec, Errors};
use idempotency_core::error::Error;
use idempotency_core::future::BoxFuture;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::store::{SendLog, Store, StoreLimits, StoreReply, StoreRequest};
use idempotency_dynamodb::DynamoDbStore;
use orders::{AsCharge, Item, Order, Receipt};
use rustix::time::{ClockId, clock_gettime};

use crate::ours::{Bench, DEADLINE};

/// Returns the CPU time of this thread, in nanoseconds.
fn cpu() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The marks of one call.
#[derive(Clone, Default)]
struct Marks(Arc<Mutex<Vec<i64>>>);

impl Marks {
    fn mark(&self) {
        self.0.lock().unwrap().push(cpu());
    }
}

/// A store that marks when a request begins and ends.
struct MarkingStore {
    store: Arc<DynamoDbStore>,
    marks: Marks,
}

impl Store for MarkingStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            self.marks.mark();
            let reply = self.store.send(request, log).await;
            self.marks.mark();
            reply
        })
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits()
    }

    fn name(&self) -> String {
        self.store.name()
    }
}

/// The phases of a call between its marks.
const PHASES: [&str; 8] = [
    "select and digest",
    "begin",
    "claim",
    "start the handler",
    "handler",
    "serialise",
    "complete",
    "end",
];

/// Returns an order whose JSON has about this many bytes.
fn order(number: usize, bytes: usize) -> Order {
    let item = |number: usize| Item {
        sku: format!("sku-{number:08}"),
        quantity: 1 + number as u32 % 9,
        price: 1.25 * number as f64,
        note: Some("packed with care, not by the kettle".to_owned()),
    };
    let mut order = Order {
        user_id: "u-1".to_owned(),
        order_id: format!("o-{number}"),
        amount: 4200,
        currency: "EUR".to_owned(),
        receipt_bytes: 100,
        items: vec![item(0)],
    };
    let length = |order: &Order| serde_json::to_vec(order).unwrap().len();
    let (empty, each) = (
        length(&order),
        length(&Order {
            items: vec![item(0), item(1)],
            ..order.clone()
        }),
    );
    let items = bytes.saturating_sub(empty) / (each - empty);
    order.items.extend((1..=items).map(item));
    order
}

/// Prints the median of each phase, in microseconds, for events of these sizes.
pub(crate) async fn print(store: Arc<DynamoDbStore>, calls: usize) {
    let settings = Settings {
        key: Some("[user_id, order_id]".into()),
        validate: Some("amount".into()),
        ..Settings::default()
    };
    let operation = CompiledOperation::new("shop::charge", &settings, &Variables::default());
    let operation = operation.unwrap();
    let marks = Marks::default();
    let marked = MarkingStore {
        store,
        marks: marks.clone(),
    };
    let backend = Backend::new(Arc::new(marked), Arc::new(Bench), Arc::new(Bench));
    println!("| event | {} |", PHASES.join(" | "));
    for (size, bytes) in [
        ("0.2 KB", 200),
        ("4 KB", 4096),
        ("64 KB", 65_536),
        ("1 MB", 1_048_576),
    ] {
        let mut spent: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for number in 0..calls {
            let event = order(number, bytes);
            marks.0.lock().unwrap().clear();
            marks.mark();
            let identity = operation.identify_value(&event, None).unwrap();
            marks.mark();
            let handler = async |_| {
                marks.mark();
                let charge = event.charge().unwrap();
                let receipt = Receipt {
                    payment_id: format!("pay-{}-{}", charge.order_id, charge.user_id),
                    amount: charge.amount,
                    currency: charge.currency.to_owned(),
                    text: "x".repeat(charge.receipt_bytes),
                };
                marks.mark();
                Ok::<_, Error>(receipt)
            };
            let errors = Errors::new(|error: Error| error);
            let codec = Codec::json();
            let call = operation.run(&backend, &identity, Some(DEADLINE), codec, errors, handler);
            let outcome = call.await.unwrap();
            marks.mark();
            assert_eq!(outcome.response().amount, 4200);
            let at = marks.0.lock().unwrap();
            assert_eq!(at.len(), PHASES.len() + 1, "{size}");
            // The first calls open the connection and fill caches.
            if number >= calls / 10 {
                for (phase, pair) in at.windows(2).enumerate() {
                    spent.entry(phase).or_default().push(pair[1] - pair[0]);
                }
            }
        }
        let medians = spent.into_values().map(|mut times| {
            times.sort_unstable();
            format!("{:.1}", times[times.len() / 2] as f64 / 1_000.0)
        });
        println!("| {size} | {} |", medians.collect::<Vec<_>>().join(" | "));
    }
}
