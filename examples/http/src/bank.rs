//! A simulated bank. It pays on every request, without duplicate detection, so that the API must prevent duplicates.

use std::sync::atomic::{AtomicBool, Ordering};

/// A client of the bank: the state that the handlers share.
#[derive(Debug)]
pub struct Bank {
    reachable: AtomicBool,
}

/// The bank could not be reached. It has not paid.
#[derive(Debug)]
pub struct Unreachable;

impl Bank {
    /// Returns a client. A bank that is not `reachable` refuses its first request.
    pub fn new(reachable: bool) -> Self {
        Self {
            reachable: AtomicBool::new(reachable),
        }
    }

    /// Pays `amount` back and returns the id of the refund, a new one for each request.
    ///
    /// # Errors
    ///
    /// If the bank cannot be reached.
    pub async fn refund(
        &self,
        payment_id: &str,
        amount: u64,
        request_id: &str,
    ) -> Result<String, Unreachable> {
        tracing::info!(request_id, payment_id, amount, "refunding the payment");
        if !self.reachable.swap(true, Ordering::Relaxed) {
            return Err(Unreachable);
        }
        Ok(format!("ref-{request_id}"))
    }
}
