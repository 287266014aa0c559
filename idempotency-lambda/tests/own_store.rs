//! A program with a store of its own. It needs neither the feature `dynamodb` nor IDEMPOTENCY_TABLE.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use idempotency_lambda::store::{
    BoxFuture, MemoryStore, SendLog, Store, StoreLimits, StoreReply, StoreRequest,
};
use idempotency_lambda::time::{Clock, EpochMillis};
use idempotency_lambda::{
    Backend, BoxError, Call, Context, Deadline, ErrorKind, LambdaEvent, Operation, SystemRandom,
    backend_over, idempotent, set_global_backend,
};
use serde_json::{Value, json};

/// A store that counts the writes that calls ask for. Conditions and records are left to a store in memory.
#[derive(Default)]
struct CountingStore {
    inner: MemoryStore,
    writes: AtomicUsize,
}

impl Store for CountingStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        if let StoreRequest::Write(_) = request {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.send(request, log)
    }

    fn limits(&self) -> StoreLimits {
        self.inner.limits()
    }

    fn name(&self) -> String {
        "counting store".to_owned()
    }
}

/// A clock that stands still.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(0)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

static STORE: LazyLock<Arc<CountingStore>> = LazyLock::new(Arc::default);

#[idempotent(key = "order_id", key_required = "all", store = STORE.clone())]
async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "charged": event.payload["amount"] }))
}

fn event(amount: u32) -> LambdaEvent<Value> {
    LambdaEvent::new(
        json!({ "order_id": 7, "amount": amount }),
        Context::default(),
    )
}

// One test, because the global backend is set once for a process.
#[tokio::test]
async fn a_function_with_stores_of_its_own_needs_no_table_and_no_feature() {
    idempotency_lambda::init().await.unwrap();
    for amount in [10, 99] {
        let response = handler(event(amount)).await.unwrap();
        assert_eq!(response, json!({ "charged": 10 }));
    }
    let writes = STORE.writes.load(Ordering::Relaxed);
    assert_eq!(
        writes, 3,
        "a claim, a completion, and the claim of the duplicate"
    );

    // From here on an operation needs the global backend.
    let refund = Operation::builder("refund")
        .key("order_id")
        .build()
        .unwrap();
    let error = idempotency_lambda::init().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let remedies: &[_] = if cfg!(feature = "dynamodb") {
        &["IDEMPOTENCY_TABLE"]
    } else {
        &[
            "the feature `dynamodb`",
            "`set_global_backend`",
            "`store = ..`",
            "IDEMPOTENCY_STORE to `memory`",
        ]
    };
    for remedy in remedies {
        assert!(error.to_string().contains(remedy), "{error}");
    }

    let global = Arc::new(CountingStore::default());
    let random = Arc::new(SystemRandom);
    let backend = Backend::new(global.clone(), Arc::new(Stopped), random);
    set_global_backend(backend).unwrap();
    idempotency_lambda::init().await.unwrap();
    let order = json!({ "order_id": 7 });
    let refunded = refund.run(&order, Deadline::Inherited, || async {
        Ok::<_, BoxError>(10)
    });
    assert_eq!(refunded.await.unwrap().into_response(), 10);
    assert_eq!(global.writes.load(Ordering::Relaxed), 2);
    let (order, end) = (json!({ "order_id": 8 }), EpochMillis::new(5_000));
    let left = refund.run(&order, Deadline::At(end), |call: Call| async move {
        Ok::<_, BoxError>(call.time_left())
    });
    let left = left.await.unwrap().into_response();
    let by_the_clock_of_the_backend = Some(Duration::from_secs(5));
    assert_eq!(left, by_the_clock_of_the_backend);
    let again = set_global_backend(backend_over(global)).unwrap_err();
    assert!(
        again.to_string().contains("has a backend already"),
        "{again}"
    );
}
