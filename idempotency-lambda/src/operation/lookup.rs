//! Looks at the record of a payload, or deletes it, without a run.

use std::future::Future;

use idempotency_core::engine::Codec;
use idempotency_core::error::Error;
use idempotency_core::outcome::KeyState;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{IdentifiedCall, Operation};
use crate::event::Payload;
use crate::invocation::Deadline;

impl Operation {
    /// Returns what a call with this payload would meet now: nothing, a call in progress, a stored response.
    ///
    /// The key is that of [`run`](Self::run), with the prefix, the tenant and the validated part. The record is read from the store,
    /// consistently: not from the local cache, nor from the calls in progress of this process. The next moment can change it, so it is no
    /// protection: only a run claims.
    ///
    /// A record does not say when its response was stored, only when its window ends: [`Replay::expires_at`](crate::Replay::expires_at).
    ///
    /// # Errors
    ///
    /// Those of [`identify`](Self::identify). Also if the store cannot be read, or if the stored response does not fit `R`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{BoxError, MemoryStore};
    /// # use std::sync::Arc;
    /// use idempotency_lambda::{Deadline, KeyState, Operation};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// # let charge = Operation::builder("payments::charge").store(Arc::new(MemoryStore::new())).build()?;
    /// charge.run(&7, Deadline::Inherited, || async { Ok::<_, BoxError>("paid".to_owned()) }).await?;
    /// let found: KeyState<String> = charge.lookup(&7, Deadline::Inherited).await?;
    /// match found {
    ///     KeyState::Completed(outcome) => assert_eq!(outcome.response(), "paid"),
    ///     KeyState::InProgress { until } => println!("a call runs until {until:?} at the latest"),
    ///     other => println!("{other:?}"),
    /// }
    /// assert!(charge.evict(&7, Deadline::Inherited).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lookup<'a, R, P, D>(
        &'a self,
        payload: &P,
        deadline: D,
    ) -> impl Future<Output = Result<KeyState<R>, Error>> + use<'a, R, P, D>
    where
        R: Serialize + DeserializeOwned,
        P: Payload + ?Sized,
        D: Into<Deadline>,
    {
        // As in a run: the payload may have changed when the future is first polled.
        let call = IdentifiedCall::looking_at(self, payload, deadline.into());
        async move { call?.lookup().await }
    }

    /// Deletes the record of this payload: the next call runs the handler. Returns false if there is no record.
    ///
    /// The key is that of [`run`](Self::run). Recorded steps are deleted too, so the next run repeats each of them. The local cache of
    /// this process forgets the key. Other processes can replay the response from their caches until its window ends, and so can this
    /// one if it was replaying it at that moment. Pieces of a large response stay until they expire.
    ///
    /// # Errors
    ///
    /// Those of [`identify`](Self::identify). Also, and nothing is deleted:
    ///
    /// - [`AlreadyInProgress`](crate::ErrorKind::AlreadyInProgress): a run may go on, because the lease of its claim has not ended. A
    ///   second run would overlap with it.
    /// - [`Unresolved`](crate::ErrorKind::Unresolved): the key is held. Its run may have had its effect: use `idempotency resolve`.
    /// - [`PayloadMismatch`](crate::ErrorKind::PayloadMismatch): the record is that of another payload.
    /// - [`Contended`](crate::ErrorKind::Contended): another call or an operator changed the record in this moment: look at it again.
    /// - [`KeyMissing`](crate::ErrorKind::KeyMissing): the payload has no key.
    /// - [`Configuration`](crate::ErrorKind::Configuration): protection is switched off.
    ///
    /// After [`StoreFailed`](crate::ErrorKind::StoreFailed) the record may have been deleted, if the text says so.
    pub fn evict<'a, P, D>(
        &'a self,
        payload: &P,
        deadline: D,
    ) -> impl Future<Output = Result<bool, Error>> + use<'a, P, D>
    where
        P: Payload + ?Sized,
        D: Into<Deadline>,
    {
        let call = IdentifiedCall::looking_at(self, payload, deadline.into());
        async move { call?.evict().await }
    }
}

impl IdentifiedCall {
    async fn lookup<R: Serialize + DeserializeOwned>(self) -> Result<KeyState<R>, Error> {
        let (backend, deadline) = (self.operation.backend().await?, self.invocation.deadline);
        let operation = self.operation.compiled();
        let found = operation.lookup(&backend, &self.identity, deadline, Codec::json());
        found.await
    }

    async fn evict(self) -> Result<bool, Error> {
        let (backend, deadline) = (self.operation.backend().await?, self.invocation.deadline);
        let operation = self.operation.compiled();
        operation.evict(&backend, &self.identity, deadline).await
    }
}
