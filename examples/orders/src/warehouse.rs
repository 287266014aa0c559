//! The warehouse of the example, which keeps one reservation for each order.

use std::collections::BTreeMap;
#[cfg(not(test))]
use std::sync::Mutex;
use std::sync::PoisonError;

use idempotency_lambda::BoxError;
// In the check of `retry_safety` each lock is a point where faults happen.
#[cfg(test)]
use idempotency_testkit::retry_safety::Mutex;

use crate::{Order, Reservation};

/// A simulated warehouse. It keeps one reservation for each order: a rerun that asks again gets the same one. It writes each request to
/// the log.
#[derive(Debug, Default)]
pub struct Warehouse(Mutex<Stock>);

#[derive(Debug, Default)]
struct Stock {
    /// The pieces of all requests.
    requested: u32,
    /// The reserved pieces of each order.
    reserved: BTreeMap<String, u32>,
}

impl Warehouse {
    /// Reserves the items of an order.
    ///
    /// # Errors
    ///
    /// If the order is empty.
    pub async fn reserve(&self, order: Order) -> Result<Reservation, BoxError> {
        if order.items.is_empty() {
            // The framework logs no text of an error, because it can quote the message.
            tracing::warn!(order_id = order.order_id, "the order is empty");
            return Err("the order is empty".into());
        }
        tracing::info!(order_id = order.order_id, "reserving stock");
        let pieces = order.items.iter().map(|item| item.quantity).sum();
        let mut stock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stock.requested += pieces;
        let order_id = order.order_id;
        let reserved = *stock.reserved.entry(order_id.clone()).or_insert(pieces);
        Ok(Reservation { order_id, reserved })
    }

    /// Returns how many pieces were asked for, in all requests.
    pub fn requested(&self) -> u32 {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .requested
    }

    /// Returns how many pieces are reserved.
    pub fn reserved(&self) -> u32 {
        let stock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stock.reserved.values().sum()
    }
}
