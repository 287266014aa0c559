//! The transaction that a handler writes in: it is begun through its call, and handed back to it.

use std::ops::{Deref, DerefMut};

use super::super::request::timeout;
use super::Call;
use crate::error::{Error, ErrorKind};
use crate::protocol::policy::Policy;
use crate::protocol::{begin_limit, open_limit};
use crate::store::{SendLog, StoreError, StoreErrorKind};

/// An open transaction of the store that keeps the record of its call. The handler reads and writes in it.
///
/// It commits together with the response, and only then: [`commit_with_response`](Self::commit_with_response) hands it back to its call,
/// which adds the completion of the key when the handler has returned its response. If the claim is gone, if another transaction was
/// first, or if the handler fails, all of it is rolled back. While it is open no step of the call runs.
///
/// It is rolled back if it is dropped. A handler that drops it must not return a response that counts on it: such a call ends in
/// [`TransactionRejected`](ErrorKind::TransactionRejected), unless it began another one or called [`rollback`](Self::rollback).
#[must_use = "it is rolled back when it is dropped: end it with `commit_with_response` or `rollback`"]
pub struct CallTransaction<T> {
    // It is dropped first, so that it is rolled back before the call can begin another one.
    open: T,
    begun: Begun,
}

/// Tells the call what became of a transaction that it has begun.
struct Begun {
    call: Call,
    has_ended: bool,
}

impl<T: Send + 'static> CallTransaction<T> {
    /// Hands the transaction back. It commits with the response of the handler, if that is stored.
    pub fn commit_with_response(self) {
        let Self { open, mut begun } = self;
        begun.has_ended = true;
        begun.call.0.staging.hand_back(Box::new(open));
    }

    /// Rolls the transaction back, for a response that counts on none of its writes.
    pub fn rollback(self) {
        let Self { open, mut begun } = self;
        drop(open);
        begun.end(true);
    }
}

impl Begun {
    fn end(&mut self, is_meant: bool) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.call.0.staging.roll_back(is_meant);
            self.call.transacts(false);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl<T: Deref> Deref for CallTransaction<T> {
    type Target = T::Target;

    fn deref(&self) -> &T::Target {
        &self.open
    }
}

impl<T: DerefMut> DerefMut for CallTransaction<T> {
    fn deref_mut(&mut self) -> &mut T::Target {
        &mut self.open
    }
}

impl Call {
    /// Begins a transaction of the store of the record, in the form `T` of that store. A call has one at a time.
    ///
    /// It is for the crate of a store, which adds a method with its own type.
    ///
    /// # Errors
    ///
    /// [`TransactionRejected`](ErrorKind::TransactionRejected), if none may begin here: the handler has ended, the run is outside of an
    /// operation or has no confirmed claim because the store failed, a step of the call is open, the handler of another operation runs
    /// here, or the call has a transaction or staged writes already. As after a refused [`stage`](Self::stage) the call cannot complete any
    /// more. [`StoreFailed`](ErrorKind::StoreFailed), if the store could not begin it, or has no transactions of this form.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Codec, Errors}, error::Error, operation::{Call, CompiledOperation}};
    /// # use idempotency_core::{example, store::{MemoryStore, MemoryTransaction}};
    /// # use std::sync::Arc;
    /// async fn pay(call: Call) -> Result<i64, Error> {
    ///     let mut transaction = call.open_transaction::<Box<MemoryTransaction>>().await?;
    ///     transaction.add("shop", 5);
    ///     let balance = transaction.balance("shop");
    ///     transaction.commit_with_response();
    ///     Ok(balance)
    /// }
    /// # let store = Arc::new(MemoryStore::new());
    /// # let backend = example::backend_over(store.clone());
    /// # let operation = CompiledOperation::new("shop::pay", &Settings::default(), &Variables::default()).unwrap();
    /// # example::ready(async {
    /// # let order = operation.identify(r#"{"order_id": 7}"#, None)?;
    /// # for _duplicate in [false, true] {
    /// #     let paid = operation.run(&backend, &order, None, Codec::json(), Errors::new(|error| error), pay).await?;
    /// #     assert_eq!((*paid.response(), store.balance("shop")), (5, 5));
    /// # }
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn open_transaction<T: Send + 'static>(&self) -> Result<CallTransaction<T>, Error> {
        let begins = self.0.staging.begin(self.misplaced());
        if let Err(why) = begins {
            // What a clone does after the end is no part of the run.
            if let Some(steps) = self.0.steps.as_ref().filter(|_| !self.has_ended()) {
                steps.refuse();
            }
            let rejected = self.error_of(ErrorKind::TransactionRejected);
            return Err(rejected.with_detail(why));
        }
        // From here on a future that is dropped ends it.
        let mut begun = Begun {
            call: self.clone(),
            has_ended: false,
        };
        self.transacts(true);
        let open = self.begin_in_store().await.map_err(|error| {
            begun.end(true);
            let failed = self.error_of(ErrorKind::StoreFailed);
            let detail = format!("no transaction was begun: {error}");
            failed.with_detail(detail).with_source(error)
        })?;
        Ok(CallTransaction { open, begun })
    }

    async fn begin_in_store<T: 'static>(&self) -> Result<T, StoreError> {
        let backend = &self.0.backend;
        let store = backend.store();
        let store_timeout = match &self.0.terms {
            Some(terms) => terms.policy.store_timeout,
            None => Policy::default().store_timeout,
        };
        let limit = begin_limit(self.now(), self.0.ends.get(), store_timeout);
        let terms = self.0.terms.as_ref();
        let left = terms.and_then(|it| open_limit(self.now(), it.lease, self.0.ends.get()));
        let log = SendLog::with_limit(limit);
        log.reading();
        let begun = timeout(store.begin(left), || backend.clock().sleep(limit)).await;
        let open = begun.unwrap_or_else(|| Err(log.timed_out(store).1))?;
        open.downcast().map(|open| *open).map_err(|_| {
            let text = format!(
                "{} has transactions of another form: use the crate of the store that keeps the records",
                store.name()
            );
            StoreError::new(StoreErrorKind::Rejected, text)
        })
    }

    /// Tells the steps that a transaction is open, or no more.
    fn transacts(&self, in_transaction: bool) {
        if let Some(steps) = &self.0.steps {
            steps.transacts(in_transaction);
        }
    }
}

#[cfg(test)]
mod tests;
