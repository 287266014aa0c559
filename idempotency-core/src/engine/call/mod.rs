//! The call that a handler can ask for.
//!
//! It is made only for a handler that takes it, so that every other handler pays nothing.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the call |
//! | `offered` | how a run offers its call to the handler |
//! | `step` | the steps of the call |
//! | `token` | tokens for effects outside |

mod offered;
mod step;
mod token;

pub(crate) use offered::MadeCall;
pub use offered::{OfferedCall, run_without_claim};
pub use step::Step;
pub use token::Token;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::step::Steps;
use super::Backend;
use super::staging::{StageError, Staging};
use crate::protocol::{CallTerms, Run};
use crate::random::RandomError;
use crate::record::{RecordId, RecordedSteps};
use crate::store::{Staged, StagedWrites};
use crate::time::EpochMillis;

/// The call that a handler runs in: its key, which run of the key it is, the time that is left, and tokens for effects outside.
///
/// A handler gets it if it asks for it. A clone is a handle to the same call.
///
/// # Examples
///
/// ```
/// use idempotency_core::operation::{Call, Run};
///
/// /// Returns the request to a payment provider, with a header that makes the charge safe to repeat.
/// fn charge_request(call: &Call, amount: u64) -> String {
///     let again = if call.run() == Run::First { "" } else { " (perhaps again)" };
///     format!("charge {amount}{again}, Idempotency-Key: {}", call.token("charge"))
/// }
/// # let backend = idempotency_core::example::backend();
/// # let call = Call::unprotected(&backend)?;
/// # assert!(charge_request(&call, 42).starts_with("charge 42 (perhaps again), Idempotency-Key: "));
/// # Ok::<(), idempotency_core::random::RandomError>(())
/// ```
#[derive(Clone)]
pub struct Call(Arc<Inner>);

struct Inner {
    backend: Backend,
    basis: Basis,
    /// When the time for the run ends, if that is known.
    ends: Option<EpochMillis>,
    has_ended: AtomicBool,
    /// What the handler has staged.
    staging: Staging,
}

/// Under what the handler runs.
enum Basis {
    Claim {
        terms: CallTerms,
        run: Run,
        /// `None` if the operation has no steps.
        steps: Option<Steps>,
    },
    /// No confirmed claim, because the store failed. The key is known, so its tokens are those of every other run.
    Unclaimed {
        id: RecordId,
        /// Its steps run, and are not recorded. `None` if the operation has no steps.
        steps: Option<Steps>,
    },
    /// No key. The bytes are random: the tokens of the run are made from them.
    Unprotected { random: [u8; 16], steps: Steps },
}

impl Call {
    /// Returns the call of a run without protection: for a handler that runs outside of an operation, and for its unit tests.
    ///
    /// # Errors
    ///
    /// If the backend's random source fails.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::operation::{Call, Run};
    /// # let backend = idempotency_core::example::backend();
    /// let call = Call::unprotected(&backend)?;
    /// assert_eq!((call.key(), call.run(), call.time_left()), (None, Run::Unprotected, None));
    /// # Ok::<(), idempotency_core::random::RandomError>(())
    /// ```
    pub fn unprotected(backend: &Backend) -> Result<Self, RandomError> {
        let call = Self::without_claim(backend, None)?;
        call.0.staging.refuse();
        Ok(call)
    }

    fn without_claim(backend: &Backend, ends: Option<EpochMillis>) -> Result<Self, RandomError> {
        Ok(Self::of_random(backend, backend.random_bytes()?, ends))
    }

    /// Returns the call of a run under the claim of `terms`. `recorded` are the steps of earlier runs.
    pub(super) fn under_claim(
        backend: &Backend,
        terms: &CallTerms,
        run: Run,
        lease_end: Option<EpochMillis>,
        recorded: Option<&RecordedSteps>,
    ) -> Self {
        let has_steps = terms.policy.steps.are_on();
        let steps = recorded.zip(lease_end).filter(|_| has_steps);
        let basis = Basis::Claim {
            terms: terms.clone(),
            run,
            steps: steps.map(|(recorded, lease_end)| Steps::new(recorded.clone(), lease_end)),
        };
        Self::new(backend, basis, lease_end)
    }

    /// Returns the call of a run without a confirmed claim, because the store failed. `lease_end` is the end of the lease that the
    /// claim would have.
    pub(super) fn unclaimed(
        backend: &Backend,
        terms: &CallTerms,
        lease_end: Option<EpochMillis>,
    ) -> Self {
        let basis = Basis::Unclaimed {
            id: terms.id.clone(),
            steps: terms.policy.steps.are_on().then(Steps::unrecorded),
        };
        let call = Self::new(backend, basis, lease_end);
        // No completion may ever apply what is staged.
        call.0.staging.refuse();
        call
    }

    fn of_random(backend: &Backend, random: [u8; 16], ends: Option<EpochMillis>) -> Self {
        let steps = Steps::unrecorded();
        Self::new(backend, Basis::Unprotected { random, steps }, ends)
    }

    /// Returns the steps of the run. `None` if the operation has none.
    fn steps(&self) -> Option<&Steps> {
        match &self.0.basis {
            Basis::Claim { steps, .. } | Basis::Unclaimed { steps, .. } => steps.as_ref(),
            Basis::Unprotected { steps, .. } => Some(steps),
        }
    }

    /// Returns the steps of a run under a claim. `None` if nothing is recorded.
    fn recorded_steps(&self) -> Option<&Steps> {
        match &self.0.basis {
            Basis::Claim { steps, .. } => steps.as_ref(),
            Basis::Unclaimed { .. } | Basis::Unprotected { .. } => None,
        }
    }

    fn new(backend: &Backend, basis: Basis, ends: Option<EpochMillis>) -> Self {
        Self(Arc::new(Inner {
            backend: backend.clone(),
            basis,
            ends,
            has_ended: AtomicBool::new(false),
            staging: Staging::default(),
        }))
    }

    /// Returns the id of the call's record, or `None` if the call has no key or protection is switched off.
    ///
    /// The id is a hash. It shows nothing of the payload. A run without a confirmed claim, after a failure of the store, has its key.
    pub fn key(&self) -> Option<&RecordId> {
        match &self.0.basis {
            Basis::Claim { terms, .. } => Some(&terms.id),
            Basis::Unclaimed { id, .. } => Some(id),
            Basis::Unprotected { .. } => None,
        }
    }

    /// Returns which run of the key this is: the first, or one after a run that ended without a result.
    pub fn run(&self) -> Run {
        match &self.0.basis {
            Basis::Claim { run, .. } => *run,
            Basis::Unclaimed { .. } | Basis::Unprotected { .. } => Run::Unprotected,
        }
    }

    /// Returns how long the claim of this run still lasts, by the clock of the backend: until the deadline of the invocation, or
    /// where no deadline is known, until the end of the lease. Zero if it has expired.
    ///
    /// After that another call may run the handler too. A run without protection has the time until the deadline of the
    /// invocation, and `None` if no deadline is known.
    pub fn time_left(&self) -> Option<Duration> {
        let now = self.0.backend.clock().now();
        self.0.ends.map(|end| now.until(end))
    }

    /// Returns the token of this key for the effect with this name: for the idempotency key of a payment provider, or for any
    /// other request that is safe to repeat under a key.
    ///
    /// It is a hash of the record's id and the name, as the text of a UUID (version 8, 36 characters). So it is the same in every
    /// run of the key, on every machine and in every release, and shows nothing of the payload. Another name, key, operation
    /// (key prefix) or tenant has another token. Give each effect of a handler a name of its own.
    ///
    /// # Limits
    ///
    /// - The token does not change when the window expires. A call after the window runs the handler with the same token, so
    ///   the provider still returns its first result if it keeps its keys longer. If the key can be used again on purpose, it
    ///   must contain what makes the new operation another one, such as the order's number.
    /// - A provider forgets its keys too. A rerun is recognised only for as long as the provider keeps them.
    /// - Without a key the token is random: the same in this run, and another one in the next. A run that is unprotected because the
    ///   store failed has a key, and so the same token as every other run of it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Codec, Errors}, error::Error, operation::CompiledOperation};
    /// # let backend = idempotency_core::example::backend();
    /// # let settings = Settings { key_prefix: Some("shop".into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// # idempotency_core::example::ready(async {
    /// let order = operation.identify(r#"{"order_id": 7}"#, None)?;
    /// let run = operation.run_with_offer(&backend, &order, None, Codec::json(), Errors::new(|error| error), |offered| {
    ///     let call = offered.take();
    ///     async move { Ok::<_, Error>(call.token("charge").to_string()) }
    /// });
    /// assert_eq!(run.await?.response(), "8f9595e7-55e3-8328-92fa-5ff48ec22d26");
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn token(&self, name: &str) -> Token {
        match &self.0.basis {
            Basis::Claim { terms, .. } => Token::of_key(&terms.id, name),
            Basis::Unclaimed { id, .. } => Token::of_key(id, name),
            Basis::Unprotected { random, .. } => Token::of_random(random, name),
        }
    }

    /// Changes the writes that this call has staged, in the form of one store. They are applied together with the completion of the
    /// key when the handler has returned its response, or not at all.
    ///
    /// It is for libraries: for DynamoDB `idempotency-dynamodb` adds `call.transaction()`. If `change` fails, it must have changed
    /// nothing.
    ///
    /// # Errors
    ///
    /// If the handler has ended, if the run is outside of an operation, if the writes of another store are staged, or if `change`
    /// fails. Then nothing is staged.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Backend, Codec, Errors}, error::Error, operation::CompiledOperation};
    /// # use idempotency_core::{example, store::{LedgerEntry, MemoryStore, MemoryWrites}};
    /// # use std::{convert::Infallible, sync::Arc};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let backend = example::backend_over(store.clone());
    /// # let operation = CompiledOperation::new("shop::pay", &Settings::default(), &Variables::default()).unwrap();
    /// # example::ready(async {
    /// let order = operation.identify(r#"{"order_id": 7}"#, None)?;
    /// for _duplicate in [false, true] {
    ///     let run = operation.run_with_offer(&backend, &order, None, Codec::json(), Errors::new(|error| error), |offered| {
    ///         let call = offered.take();
    ///         async move {
    ///             let pay = LedgerEntry::add("shop", 5);
    ///             call.stage(|writes: &mut MemoryWrites| Ok::<_, Infallible>(writes.push(pay))).unwrap();
    ///             Ok::<_, Error>("paid".to_owned())
    ///         }
    ///     });
    ///     run.await?;
    /// }
    /// assert_eq!(store.balance("shop"), 5);
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn stage<W, E>(
        &self,
        change: impl FnOnce(&mut W) -> Result<(), E>,
    ) -> Result<(), StageError<E>>
    where
        W: StagedWrites + Default,
    {
        self.0.staging.change(change)
    }

    /// Returns true if the handler has staged writes, and has not ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::operation::Call;
    /// # let backend = idempotency_core::example::backend();
    /// let call = Call::unprotected(&backend)?;
    /// assert!(!call.has_staged());
    /// # Ok::<(), idempotency_core::random::RandomError>(())
    /// ```
    pub fn has_staged(&self) -> bool {
        self.0.staging.has_staged()
    }

    /// Returns true if the run of the handler has ended. What a clone that was kept does after that is no part of the run.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
    }

    /// Ends the call, and returns what its handler has staged.
    fn end(&self) -> Option<Staged> {
        self.0.has_ended.store(true, Ordering::Release);
        if let Some(steps) = self.steps() {
            steps.close();
        }
        self.0.staging.close()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("key", &self.key())
            .field("run", &self.run())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
