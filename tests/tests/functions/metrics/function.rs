//! The function whose metrics are tested: an outer call for each event, and inner calls as the event asks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use idempotency_lambda::{BoxError, LambdaEvent, MemoryStore, idempotent, in_current_invocation};
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

/// The number of handlers that wait for each other.
pub(crate) const TOGETHER: usize = 64;

static ARRIVED: AtomicUsize = AtomicUsize::new(0);
static ALL_HERE: Notify = Notify::const_new();
static RELEASED: Notify = Notify::const_new();
static TASK: Mutex<Option<JoinHandle<Result<u64, BoxError>>>> = Mutex::const_new(None);

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    inner: u64,
    #[serde(rename = "do", default)]
    does: String,
}

#[idempotent(key = "id", validate = "note || 'none'", key_required = true)]
pub(crate) async fn outer(event: LambdaEvent<Value>) -> Result<u64, BoxError> {
    let id = event.payload["id"].as_u64().unwrap_or_default();
    let job: Job = serde_json::from_value(event.payload)?;
    match job.does.as_str() {
        "fail" => return Err("s3cr3t".into()),
        "panic" => panic!("s3cr3t"),
        "meet" => meet().await,
        "build a wrong operation" => {
            let refund = idempotency_lambda::Operation::builder("shop::refund");
            refund.key("[id").build()?;
        }
        "hang" => std::future::pending().await,
        "abandon" => {
            let stuck = inner(id, true);
            tokio::select! { biased; _ = stuck => {}, () = std::future::ready(()) => {} }
        }
        "leave a task" => {
            let task = tokio::spawn(in_current_invocation(async move {
                RELEASED.notified().await;
                inner(id, false).await
            }));
            *TASK.lock().await = Some(task);
        }
        "call a throttled store" => {
            for n in 0..THROTTLED {
                throttled(id * 1_000 + n).await?;
            }
        }
        "wait for the task" => {
            RELEASED.notify_one();
            if let Some(task) = TASK.lock().await.take() {
                task.await??;
            }
        }
        _ => {}
    }
    for n in 0..job.inner {
        inner(id * 1_000 + n, false).await?;
    }
    Ok(id)
}

#[idempotent(payload = id, key_prefix = "inner")]
async fn inner(id: u64, is_stuck: bool) -> Result<u64, BoxError> {
    if is_stuck {
        std::future::pending::<()>().await;
    }
    Ok(id)
}

/// The number of calls whose store throttles each request.
pub(crate) const THROTTLED: u64 = 50;

static THROTTLING: LazyLock<Arc<FaultyStore<MemoryStore>>> = LazyLock::new(|| {
    let store = FaultyStore::new(MemoryStore::new());
    (1..=100).for_each(|nth| store.inject(StoreOperation::Put, nth, StoreFault::Throttle));
    Arc::new(store)
});

#[idempotent(
    payload = id,
    key_prefix = "throttled",
    store = THROTTLING.clone(),
    on_store_error = "run-unprotected",
    circuit_breaker = true,
)]
async fn throttled(id: u64) -> Result<u64, BoxError> {
    Ok(id)
}

/// The handler of a batch.
#[idempotent(sqs, key_prefix = "batch")]
pub(crate) async fn message(id: u64) -> Result<u64, BoxError> {
    Ok(id)
}

/// Waits until all handlers of [`TOGETHER`] are here.
async fn meet() {
    let mut all = std::pin::pin!(ALL_HERE.notified());
    all.as_mut().enable();
    if ARRIVED.fetch_add(1, Ordering::SeqCst) + 1 == TOGETHER {
        ALL_HERE.notify_waiters();
    } else if tokio::time::timeout(Duration::from_secs(60), all)
        .await
        .is_err()
    {
        panic!("the other invocations did not arrive");
    }
}
