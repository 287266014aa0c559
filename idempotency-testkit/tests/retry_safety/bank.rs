//! The fakes of these tests: a bank, an outbox, marks. None of them waits, unless it says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use idempotency_testkit::retry_safety::{Mutex, World};

/// A bank. It charges on each request, unless the request has the token of an earlier one.
#[derive(Default)]
pub(crate) struct Bank(Mutex<Charges>);

#[derive(Default)]
struct Charges {
    count: usize,
    by_token: BTreeMap<String, usize>,
}

impl Bank {
    /// Charges, and returns the number of the charge.
    pub(crate) fn charge(&self, token: Option<&str>) -> usize {
        let mut charges = self.0.lock().unwrap();
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

    /// Charges in 40 ms.
    pub(crate) async fn charge_slowly(&self, token: Option<&str>) -> usize {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let number = self.charge(token);
        tokio::time::sleep(Duration::from_millis(20)).await;
        number
    }
}

/// Counts the charges of a world.
pub(crate) async fn charges(world: World) -> usize {
    world.fake::<Bank>().0.lock().unwrap().count
}

/// The mails that were sent.
#[derive(Default)]
pub(crate) struct Outbox(Mutex<usize>);

impl Outbox {
    pub(crate) fn send(&self) {
        *self.0.lock().unwrap() += 1;
    }
}

/// Counts the mails of a world.
pub(crate) async fn mails(world: World) -> usize {
    *world.fake::<Outbox>().0.lock().unwrap()
}

/// What the function notes for itself.
#[derive(Default)]
pub(crate) struct Marks(Mutex<BTreeSet<String>>);

impl Marks {
    /// Marks this. Returns true if it was not marked before.
    pub(crate) fn mark(&self, name: &str) -> bool {
        self.0.lock().unwrap().insert(name.to_owned())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().contains(name)
    }
}
