//! Functions and methods with a payload of their own.
#![warn(clippy::all, clippy::pedantic)]
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::fmt::Display;
use std::sync::Arc;

use idempotency_lambda::{BoxError, idempotent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
    items: Vec<String>,
}

mod constants {
    use idempotency_lambda::{HashAlgorithm, OnTimeout};
    use std::time::Duration;

    pub(super) const KEY: &str = "id";
    pub(super) const PREFIX: &str = "constants";
    pub(super) const WINDOW: Duration = Duration::from_hours(24);
    pub(super) const SIZE: usize = 64;
    pub(super) const OPERATION: OnTimeout = OnTimeout::Rerun;
    pub(super) const HASH: HashAlgorithm = HashAlgorithm::Sha256;
}
use constants::{KEY, OPERATION, PREFIX};

#[idempotent(
    payload = order,
    key = KEY,
    key_prefix = PREFIX,
    expires_after = constants::WINDOW,
    local_cache = constants::SIZE,
    hash = constants::HASH,
    on_timeout = OPERATION,
    on_error = idempotency_lambda::OnError::Record
)]
async fn constants_as_values(order: &Order) -> Result<u64, BoxError> {
    Ok(order.id)
}

/// A payload that is neither `Sync` nor `Clone`. It is read before the body's future exists.
#[derive(Serialize)]
struct Unshared(Cell<u64>);

#[idempotent(payload = order)]
async fn whole(order: Order) -> Result<Order, BoxError> {
    Ok(order)
}

#[idempotent(payload = (customer, &order.id))]
async fn two(customer: &str, mut order: Order) -> Result<Vec<String>, BoxError> {
    order.items.push(customer.to_owned());
    Ok(order.items)
}

#[idempotent(payload = [first, second.id + 1, u64::from(third)])]
async fn list(first: &u64, second: Order, third: u8) -> Result<Order, BoxError> {
    let _ = (first, third);
    Ok(second)
}

#[idempotent(payload = value)]
async fn unshared(value: Unshared) -> Result<u64, BoxError> {
    Ok(value.0.into_inner())
}

#[idempotent(payload = (a, b))]
async fn patterns((a, b): (u8, u8), [c, ..]: [u8; 3]) -> Result<u8, BoxError> {
    Ok(a + b + c)
}

#[idempotent(payload = value, key_prefix = "generic")]
async fn generic<'a, T, R, const N: usize>(
    value: &'a T,
    others: [T; N],
    label: impl Display + Send,
) -> Result<Vec<R>, BoxError>
where
    T: Serialize + Send + Sync,
    R: Serialize + DeserializeOwned + From<&'a T> + Send,
{
    let _ = (label.to_string(), others);
    Ok(vec![R::from(value)])
}

#[idempotent(payload = left)]
async fn recursive(left: u32) -> Result<u32, BoxError> {
    match left {
        0 => Ok(0),
        _ => Ok(1 + Box::pin(recursive(left - 1)).await?),
    }
}

#[derive(Serialize)]
struct Shop(String);

impl Shop {
    #[idempotent(payload = self.0, key_prefix = "shop.name")]
    async fn name(&self) -> Result<String, BoxError> {
        Ok(self.0.clone())
    }

    #[idempotent(payload = (name, self), key_prefix = "shop.rename")]
    async fn rename(&mut self, name: String) -> Result<usize, BoxError> {
        self.0 = name;
        Ok(self.0.len())
    }

    #[idempotent(payload = self, key_prefix = "shop.close")]
    async fn close(mut self) -> Result<String, BoxError> {
        self.0.push_str(" is closed");
        Ok(self.0)
    }

    #[idempotent(payload = self.0, key_prefix = "shop.shared")]
    async fn shared(self: Arc<Self>) -> Result<usize, BoxError> {
        Ok(self.0.len())
    }

    #[idempotent(payload = name, key_prefix = "shop.open")]
    async fn open(name: &str) -> Result<usize, BoxError> {
        Ok(Self(name.to_owned()).0.len())
    }
}

trait Greets {
    fn greet(&self, name: &str) -> impl Future<Output = Result<String, BoxError>>;
}

impl Greets for Shop {
    #[idempotent(payload = name, key_prefix = "shop.greet")]
    async fn greet(&self, name: &str) -> Result<String, BoxError> {
        Ok(format!("{name}, this is {}", self.0))
    }
}

fn sends<T: Send>(_: T) {}

fn order() -> Order {
    Order {
        id: 1,
        items: Vec::new(),
    }
}

/// Calls what is above.
pub fn main() {
    sends(whole(order()));
    let of_constants = order();
    sends(constants_as_values(&of_constants));
    sends(two("a", order()));
    sends(list(&1, order(), 2));
    sends(unshared(Unshared(Cell::new(1))));
    sends(patterns((1, 2), [3, 4, 5]));
    sends(generic::<u8, u64x::Wrapped, 1>(&1, [2], "label"));
    sends(recursive(3));
    let mut shop = Shop("corner".to_owned());
    sends(shop.name());
    sends(shop.rename("market".to_owned()));
    drop(shop.greet("you"));
    sends(Shop::open("new"));
    sends(Arc::new(Shop("shared".to_owned())).shared());
    sends(shop.close());
}

mod u64x {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub(super) struct Wrapped(u64);

    impl From<&u8> for Wrapped {
        fn from(value: &u8) -> Self {
            Self(u64::from(*value))
        }
    }
}
