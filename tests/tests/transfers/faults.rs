//! A store of one process that loses requests and replies, holds writes back, and whose process can be killed at a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idempotency_core::future::BoxFuture;
use idempotency_core::random::Random;
use idempotency_core::store::{SendLog, Store, StoreReply, StoreRequest, Write};
use idempotency_testkit::SeededRandom;
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};

/// Random choices that are the same for the same seed.
#[derive(Clone)]
pub(crate) struct Dice(Arc<SeededRandom>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(SeededRandom::new(seed)))
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        let [a, b, c, d, ..] = self.0.bytes().unwrap();
        u64::from(u32::from_le_bytes([a, b, c, d])) % end
    }

    /// Returns true in `chance` of 100 calls, on average.
    pub(crate) fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// The store of one process, with a fault in some of its requests.
pub(crate) struct Flaky<S> {
    pub(crate) store: FaultyStore<S>,
    dice: Dice,
    /// How many requests it takes before the process is killed.
    left: AtomicUsize,
}

impl<S: Store> Flaky<S> {
    pub(crate) fn new(store: S, dice: Dice) -> Self {
        let kill = dice.percent(15);
        let left = if kill {
            dice.below(5) as usize
        } else {
            usize::MAX
        };
        Self {
            store: FaultyStore::new(store),
            dice,
            left: AtomicUsize::new(left),
        }
    }

    /// Chooses the fault of the next request of this kind.
    fn arrange(&self, operation: StoreOperation) {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        let fault = if left == 0 {
            self.left.store(usize::MAX, Ordering::Relaxed);
            Some(match self.dice.below(2) {
                0 => StoreFault::Hang,
                _ => StoreFault::HangAfter,
            })
        } else {
            match self.dice.below(20) {
                0 | 1 => Some(StoreFault::LoseReply),
                2 => Some(StoreFault::LoseRequest),
                3 => Some(StoreFault::Throttle),
                4 if operation != StoreOperation::Read => Some(StoreFault::Delay),
                5 => Some(StoreFault::Resend),
                6 if operation == StoreOperation::Transact => Some(StoreFault::Conflict),
                7 => Some(StoreFault::OmitItem),
                _ => None,
            }
        };
        if let Some(fault) = fault {
            self.store.inject(operation, 1, fault);
        }
    }
}

impl<S: Store> Store for Flaky<S> {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        self.arrange(match request {
            StoreRequest::Read(..) => StoreOperation::Read,
            StoreRequest::Transact(_) => StoreOperation::Transact,
            StoreRequest::Write(record) => match record.write {
                Write::Put(_) => StoreOperation::Put,
                Write::Update(_) => StoreOperation::Update,
                Write::Delete => StoreOperation::Delete,
                Write::Step { .. } => StoreOperation::Step,
            },
        });
        self.store.send(request, log)
    }

    fn name(&self) -> String {
        self.store.name()
    }
}
