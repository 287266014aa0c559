//! A bank in memory: the fake of these tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use idempotency_testkit::retry_safety::World;

/// A bank. It charges on each request, unless the request has the token of an earlier one.
#[derive(Default)]
pub(crate) struct Bank {
    charges: Mutex<Charges>,
}

#[derive(Default)]
struct Charges {
    count: usize,
    by_token: BTreeMap<String, usize>,
}

impl Bank {
    /// Charges, and returns the number of the charge. The bank takes 20 ms before and after it.
    pub(crate) async fn charge(&self, token: Option<&str>) -> usize {
        wait().await;
        let number = self.charge_now(token);
        wait().await;
        number
    }

    /// Charges at once.
    pub(crate) fn charge_now(&self, token: Option<&str>) -> usize {
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = token.and_then(|token| charges.by_token.get(token)) {
            return *known;
        }
        charges.count += 1;
        let number = charges.count;
        if let Some(token) = token {
            charges.by_token.insert(token.to_owned(), number);
        }
        number
    }

    pub(crate) fn count(&self) -> usize {
        self.charges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count
    }
}

/// Counts the charges of a world.
pub(crate) async fn charges(world: World) -> usize {
    world.fake::<Bank>().count()
}

/// The mails that were sent.
#[derive(Default)]
pub(crate) struct Outbox(Mutex<usize>);

impl Outbox {
    pub(crate) fn send(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// Counts the mails of a world.
pub(crate) async fn mails(world: World) -> usize {
    *world
        .fake::<Outbox>()
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

async fn wait() {
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
}
