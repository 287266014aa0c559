//! Handlers: the attribute leaves no warning behind and changes no signature.
#![warn(missing_docs, clippy::all, clippy::pedantic)]
#![allow(clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

use idempotency_lambda::{BoxError, Context, LambdaEvent, Raw, Replay, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    id: u64,
    amount: String,
}

#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error("closed")]
    Closed,
    #[error(transparent)]
    Idempotency(#[from] idempotency_lambda::Error),
}

type Reply<T> = Result<T, BoxError>;

#[idempotent]
async fn plain(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    if event.payload.id == 0 {
        return Ok(0);
    }
    let amount: u64 = event.payload.amount.parse()?;
    Ok(amount)
}

#[idempotent]
async fn unused(event: LambdaEvent<Order>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(())
}

#[idempotent(key = "id")]
async fn raw(event: LambdaEvent<Raw<Order>>) -> Result<u64, BoxError> {
    Ok(event.payload.id)
}

#[idempotent(key = "[id, amount]")]
async fn with_anyhow(event: LambdaEvent<Order>) -> anyhow::Result<u64> {
    anyhow::ensure!(event.payload.id > 0, "no order");
    Ok(event.payload.amount.parse()?)
}

#[idempotent]
async fn own_error(event: LambdaEvent<Order>) -> Result<Order, ShopError> {
    if event.payload.id == 0 {
        return Err(ShopError::Closed);
    }
    Ok(event.payload)
}

#[idempotent]
async fn destructured(LambdaEvent { payload, .. }: LambdaEvent<Order>) -> Reply<Order> {
    Ok(payload)
}

#[idempotent]
async fn mutable_parts(
    LambdaEvent {
        mut payload,
        context: _,
    }: LambdaEvent<Order>,
) -> Reply<Order> {
    payload.id += 1;
    Ok(payload)
}

#[idempotent]
async fn ignored(_: LambdaEvent<Order>) -> Reply<()> {
    Ok(())
}

#[idempotent]
async fn mutable(mut event: LambdaEvent<Order>) -> Reply<Order> {
    event.payload.id += 1;
    Ok(event.payload)
}

/// Every setting at once.
#[idempotent(
    key = "id",
    validate = "amount",
    key_required = true,
    key_prefix = "shop.every",
    hash = "sha256",
    expires_after = "1h 30m",
    store_timeout = "500ms",
    lease = "30s",
    renew = false,
    renew_at_most = "1h",
    local_cache = 1_000,
    local_cache_bytes = 1_048_576,
    lookup = "read-first",
    on_in_progress = "wait",
    on_timeout = "hold",
    on_error = "record",
    on_store_error = "fail",
    circuit_breaker = true,
    steps = "off",
    store_when = "id > `0`",
    store_event = "{id: id}",
    on_replay = mark,
    payload = event.payload,
)]
#[must_use = "the response is for the caller"]
#[inline]
pub async fn every_setting(
    #[allow(unused_mut)] mut event: LambdaEvent<Order>,
) -> Result<Order, ShopError> {
    #![allow(clippy::unused_async)]
    Ok(event.payload)
}

fn mark(order: Order, _: &Replay) -> Order {
    order
}

#[idempotent(on_replay = |mut order, replay| { order.amount = replay.key().to_string(); order })]
async fn with_closure(event: LambdaEvent<Order>) -> Reply<Order> {
    Ok(event.payload)
}

mod nested {
    use super::{BoxError, LambdaEvent, Order, idempotent};

    #[idempotent(key = "id")]
    pub(super) async fn outer(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
        #[idempotent(payload = id)]
        async fn inner(id: u64) -> Result<u64, BoxError> {
            Ok(id)
        }

        Ok(inner(event.payload.id).await? + super::plain(event).await?)
    }
}

// A literal and a block from a `macro_rules!` are accepted.
macro_rules! handler {
    ($name:ident, $key:literal, $body:expr) => {
        #[idempotent(key = $key)]
        async fn $name(event: LambdaEvent<Order>) -> Reply<u64> {
            $body
        }
    };
}

handler!(generated, "id", Ok(1));

/// A body that always panics.
#[idempotent]
async fn never(event: LambdaEvent<Order>) -> Reply<u64> {
    panic!("order {}", event.payload.id)
}

fn event() -> LambdaEvent<Order> {
    let payload = Order {
        id: 1,
        amount: "2".to_owned(),
    };
    LambdaEvent {
        payload,
        context: Context::default(),
    }
}

fn sends<T: Send>(_: T) {}

/// Calls what is above.
pub fn main() {
    sends(plain(event()));
    sends(unused(event()));
    sends(raw as fn(LambdaEvent<Raw<Order>>) -> _);
    sends(with_anyhow(event()));
    sends(own_error(event()));
    sends(destructured(event()));
    sends(mutable_parts(event()));
    sends(ignored(event()));
    sends(mutable(event()));
    sends(every_setting(event()));
    sends(with_closure(event()));
    sends(nested::outer(event()));
    sends(generated(event()));
    sends(never(event()));
}
