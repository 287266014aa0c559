//! Fixed values for the examples in this crate's documentation and for its unit tests. Not part of the public API.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::Backend;
use crate::future::BoxFuture;
use crate::owner::OwnerToken;
use crate::protocol::Call;
use crate::protocol::policy::Policy;
use crate::random::{Random, RandomError};
use crate::record::RecordId;
use crate::store::{MemoryStore, Store};
use crate::time::EpochMillis;

/// A clock that stands still at the epoch, and a random source whose bytes are all 7.
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(0)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Random for Fixed {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok([7; 16])
    }
}

/// Returns a backend over an empty store in memory.
pub fn backend() -> Backend {
    backend_over(Arc::new(MemoryStore::new()))
}

/// Returns a backend over `store`.
pub fn backend_over(store: Arc<dyn Store>) -> Backend {
    Backend::new(store, Arc::new(Fixed), Arc::new(Fixed))
}

/// Returns a call of the record `a#1` with the default policy, without deadline and validation.
pub fn call() -> Call {
    Call {
        id: RecordId::new("a#1"),
        owner: OwnerToken::from_bytes([1; 16]),
        validation: None,
        deadline: None,
        operation: None,
        policy: Policy::default(),
    }
}

/// Returns the output of a future that completes at its first poll.
///
/// # Panics
/// If the future is pending.
#[track_caller]
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}
