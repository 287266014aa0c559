//! Building an operation in code.

use std::borrow::Cow;
use std::time::Duration;

use idempotency_core::config::{ConfigurationError, KeyRequired, Settings, Variables};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Steps,
};

use super::Operation;
use super::registry::{self, Claimant};
use crate::process;
use crate::start;
use crate::store::StoreHandle;

/// Collects the settings of an [`Operation`].
///
/// A setting that is left out comes from its environment variable, then from the default.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{OnInProgress, Operation};
/// use std::time::Duration;
///
/// let charge = Operation::builder("payments::charge")
///     .key("order_id")
///     .validate("amount")
///     .expires_after(Duration::from_secs(24 * 60 * 60))
///     .on_in_progress(OnInProgress::Wait)
///     .build()?;
/// assert_eq!(charge.key_prefix(), "local.payments.charge");
/// # Ok::<(), idempotency_lambda::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "an operation is made by `build`"]
pub struct OperationBuilder {
    path: String,
    settings: Settings,
    store: Option<StoreHandle>,
    variables: Option<Variables>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)+) => {
        $(
            $(#[$doc])*
            pub fn $name(mut self, $name: $type) -> Self {
                self.settings.$name = Some($name);
                self
            }
        )+
    };
}

macro_rules! text_setters {
    ($($(#[$doc:meta])* $name:ident;)+) => {
        $(
            $(#[$doc])*
            pub fn $name(mut self, $name: impl Into<String>) -> Self {
                self.settings.$name = Some(Cow::Owned($name.into()));
                self
            }
        )+
    };
}

impl OperationBuilder {
    pub(super) fn new(path: String) -> Self {
        Self {
            path,
            settings: Settings::default(),
            store: None,
            variables: None,
        }
    }

    text_setters! {
        /// Sets the JMESPath expression that selects the key. Without it the whole payload is the key.
        key;
        /// Sets the JMESPath expression of the part that must be equal in a duplicate.
        ///
        /// A call with the same key and another value of this part gets
        /// [`PayloadMismatch`](crate::ErrorKind::PayloadMismatch), not a replay.
        validate;
        /// Sets the whole key prefix, instead of the function's name and the path.
        ///
        /// # Examples
        ///
        /// ```
        /// # use idempotency_lambda::{Error, Operation};
        /// let charge = Operation::builder("charge").key_prefix("payments.charge").build()?;
        /// assert_eq!(charge.key_prefix(), "payments.charge");
        /// # Ok::<(), Error>(())
        /// ```
        key_prefix;
        /// Sets the JMESPath expression over the response that decides whether it is stored, such as `status == 'paid'`.
        ///
        /// The call of a response that is not stored releases its claim, so that the next call runs the handler again.
        store_when;
        /// Sets what the record keeps of the event, for debugging and for `idempotency replay`: `all`, or a JMESPath expression that
        /// selects it, such as `{order_id: order_id, amount: amount}`. `off` keeps nothing, also if the variable says to keep it.
        ///
        /// At most 64 KiB are kept. The table must be encrypted with a key of KMS, unless this is waived. Keep no more than an
        /// operator may read.
        store_event;
    }

    setters! {
        /// Sets the digest of keys and of the validated part.
        hash: HashAlgorithm;
        /// Sets how long a response is replayed: whole seconds, at least one.
        ///
        /// # Examples
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// # use std::time::Duration;
        /// let charge = Operation::builder("charge").expires_after(Duration::from_secs(24 * 60 * 60));
        /// assert!(charge.build().is_ok());
        /// let never = Operation::builder("charge").expires_after(Duration::ZERO);
        /// assert!(never.build().is_err());
        /// ```
        expires_after: Duration;
        /// Sets how long a claim lasts if no deadline is known.
        lease: Duration;
        /// Sets how long the requests to the store before the handler may take together. The default is 3 s.
        ///
        /// The limit is never more than half of the time that is left. A wait for another call does not count.
        store_timeout: Duration;
        /// Sets how many responses are kept in the memory of the process. 0 switches the local cache off.
        local_cache: usize;
        /// Sets how many bytes of memory the kept responses may take. 0 switches the local cache off.
        ///
        /// A record counts as the length of its texts and 512 bytes. A record that is larger than the limit is not kept.
        local_cache_bytes: usize;
        /// Sets whether a call reads the record before it claims the key.
        ///
        /// [`Lookup::ReadFirst`] makes a duplicate of a finished call cheaper, and a first call dearer and slower.
        lookup: Lookup;
        /// Sets what a duplicate does while the first call still runs.
        on_in_progress: OnInProgress;
        /// Sets what to do with a claim whose lease expired before it was completed.
        on_timeout: OnTimeout;
        /// Sets what to do with a claim whose handler returned an error.
        on_error: OnError;
        /// Sets what a call does that could not claim its key, because the store failed before the handler ran.
        ///
        /// [`OnStoreError::RunUnprotected`] runs the handler all the same: duplicates can then run too. It contradicts
        /// [`OnTimeout::Hold`], and [`build`](Self::build) refuses both together.
        on_store_error: OnStoreError;
        /// Sets whether a call asks the circuit breaker before it asks the store. The default is false.
        ///
        /// When the store has failed five times in a row, the breaker ends calls at once instead of letting each of them wait for
        /// `store_timeout`. The operations of a process that use it share it.
        circuit_breaker: bool;
        /// Sets whether the operation has steps, and what a failed run does with their results.
        ///
        /// [`Steps::Keep`] keeps them: a retry goes on after the last step. [`Steps::Forget`] deletes them.
        steps: Steps;
    }

    /// Allows other operations of the program to have the same `key_prefix`, because all of them are one operation.
    ///
    /// A call of one is then a duplicate of a call of another. Each of these operations must allow it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::Operation;
    /// let charge = |path| Operation::builder(path).key_prefix("shop.charge.shared");
    /// assert!(charge("http::charge").shared_key_prefix(true).build().is_ok());
    /// assert!(charge("queue::charge").shared_key_prefix(true).build().is_ok());
    /// assert!(charge("cron::charge").build().is_err());
    /// ```
    pub fn shared_key_prefix(mut self, shared: bool) -> Self {
        self.settings.shared_key_prefix = Some(shared);
        self
    }

    /// Sets which parts of its key a payload must have. Default: [`KeyRequired::All`], every part.
    ///
    /// `true` refuses only a payload without a key, and takes one that lacks a part of it. `false` runs a payload without a key
    /// unprotected.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{Deadline, Error, ErrorKind, KeyRequired, Operation};
    /// # use serde_json::json;
    /// let ship = |required| Operation::builder("ship").key("[user_id, order_id]").key_required(required).build();
    /// let payload = json!({"user_id": "u-1"});
    /// let error = ship(KeyRequired::All)?.identify(&payload, Deadline::Inherited).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::KeyMissing);
    /// assert!(ship(KeyRequired::Any)?.identify(&payload, Deadline::Inherited)?.key().is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn key_required(mut self, required: impl Into<KeyRequired>) -> Self {
        self.settings.key_required = Some(required.into());
        self
    }

    /// Sets a store for this operation, instead of the global backend's.
    pub fn store(mut self, store: impl Into<StoreHandle>) -> Self {
        self.store = Some(store.into());
        self
    }

    /// Sets the environment variables to read, instead of the process's.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{Error, Operation, Variables};
    /// let variables = Variables::from_iter([("IDEMPOTENCY_KEY_PREFIX".to_owned(), "shop".to_owned())]);
    /// let operation = Operation::builder("payments::charge").variables(variables).build()?;
    /// assert_eq!(operation.key_prefix(), "shop.payments.charge");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn variables(mut self, variables: Variables) -> Self {
        self.variables = Some(variables);
        self
    }

    /// Starts the rules of an HTTP service under this operation, whose [`build`](crate::http::HttpLayerBuilder::build)
    /// returns a tower layer.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_lambda::Operation;
    ///
    /// let idempotent = Operation::builder("shop::payments")
    ///     .http()
    ///     .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
    ///     .build()?;
    /// assert_eq!(idempotent.key_prefix(), "local.shop.payments");
    /// # Ok::<(), idempotency_lambda::Error>(())
    /// ```
    #[cfg(feature = "http")]
    pub fn http(self) -> crate::http::HttpLayerBuilder {
        crate::http::HttpLayerBuilder::new(self.path, self.settings, self.variables, self.store)
    }

    /// Checks and compiles the settings.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used: the error has its value and what is accepted. Also if another operation of the program
    /// has the key prefix: an operation with another path, or with the same path and another `key`, `validate` or `hash`. Before the
    /// first invocation the error is also reported to Lambda, which then ends the process: build operations that may fail later.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{ErrorKind, Operation};
    /// let error = Operation::builder("payments::charge").key("[order_id").build().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Configuration);
    /// ```
    pub fn build(self) -> Result<Operation, Error> {
        let checked = match self.variables {
            None => process::check_variables(),
            Some(_) => Ok(()),
        };
        let compiled = checked.and_then(|()| {
            self.compile().map_err(|(path, error)| {
                Error::new(ErrorKind::Configuration, path).with_detail(error.to_string())
            })
        });
        compiled.map_err(start::reported)
    }

    fn compile(self) -> Result<Operation, (String, ConfigurationError)> {
        let variables = self
            .variables
            .as_ref()
            .unwrap_or_else(|| process::variables());
        let claimant = Claimant::Built(&self.path);
        let compiled = Operation::compile(claimant, &self.settings, variables);
        let operation = compiled.map_err(|error| (self.path, error))?;
        registry::note_built(self.store.is_some());
        if self.store.is_none() && operation.compiled().stores_events() {
            registry::note_events();
        }
        Ok(match self.store {
            Some(store) => operation.with_store(store),
            None => operation,
        })
    }
}
