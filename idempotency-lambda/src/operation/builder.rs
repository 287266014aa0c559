//! Building an operation in code.

use std::borrow::Cow;
use std::time::Duration;

use idempotency_core::config::{ConfigurationError, KeyRequired, Settings, Variables};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::{OnError, OnInProgress, OnTimeout};

use super::Operation;
use super::registry::{self, Claimant};
use crate::process;
use crate::store::StoreHandle;

/// The settings of an [`Operation`] to be; what is left out comes from the environment variables, then from the defaults.
///
/// ```
/// use idempotency_lambda::{OnInProgress, Operation};
/// use std::time::Duration;
/// let operation = Operation::builder("payments::charge")
///     .key("order_id")
///     .validate("amount")
///     .expires_after(Duration::from_secs(24 * 60 * 60))
///     .on_in_progress(OnInProgress::Wait)
///     .build()
///     .unwrap();
/// # let _ = operation;
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
        /// The JMESPath expression of the key; the whole payload where it is left out.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// let charge = Operation::builder("charge").key("body.[user_id, order_id]");
        /// assert!(charge.build().is_ok());
        /// ```
        key;
        /// The JMESPath expression of the part that must be the same in a duplicate.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// // The same order with another amount is then an error, not a replay.
        /// let charge = Operation::builder("charge").key("order_id").validate("amount");
        /// assert!(charge.build().is_ok());
        /// ```
        validate;
        /// The operation's name in its keys, instead of the function's name and the path.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// let charge = Operation::builder("charge").key_prefix("payments.charge").build().unwrap();
        /// assert_eq!(charge.key_prefix(), "payments.charge");
        /// ```
        key_prefix;
        /// The JMESPath expression over the response that decides whether it is stored.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// let charge = Operation::builder("charge").store_when("status == 'paid'");
        /// assert!(charge.build().is_ok());
        /// ```
        store_when;
    }

    setters! {
        /// The digest of keys and validation.
        ///
        /// ```
        /// # use idempotency_lambda::{HashAlgorithm, Operation};
        /// let charge = Operation::builder("charge").hash(HashAlgorithm::Sha256);
        /// assert!(charge.build().is_ok());
        /// ```
        hash: HashAlgorithm;
        /// How long an answer is replayed, in whole seconds.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// # use std::time::Duration;
        /// let charge = Operation::builder("charge").expires_after(Duration::from_secs(24 * 60 * 60));
        /// assert!(charge.build().is_ok());
        /// let never = Operation::builder("charge").expires_after(Duration::ZERO);
        /// assert!(never.build().is_err(), "at least one second");
        /// ```
        expires_after: Duration;
        /// How long a claim lasts where no deadline is known.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// # use std::time::Duration;
        /// let charge = Operation::builder("charge").lease(Duration::from_secs(60));
        /// assert!(charge.build().is_ok());
        /// ```
        lease: Duration;
        /// How long the requests to the store before the handler may take together; 3 s unless it is set.
        ///
        /// It is never more than half of the time that is left. A wait for another call does not count.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// # use std::time::Duration;
        /// let charge = Operation::builder("charge").store_timeout(Duration::from_millis(500));
        /// assert!(charge.build().is_ok());
        /// ```
        store_timeout: Duration;
        /// How many answers are kept in the process's memory; 0 is off.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// let charge = Operation::builder("charge").local_cache(1_000);
        /// assert!(charge.build().is_ok());
        /// ```
        local_cache: usize;
        /// How many bytes of memory the kept responses may take; 0 is off. Each record counts as its texts and 512 bytes, and
        /// one that is larger than the bound is not kept.
        ///
        /// ```
        /// # use idempotency_lambda::Operation;
        /// let charge = Operation::builder("charge").local_cache(1_000).local_cache_bytes(2 * 1024 * 1024);
        /// assert!(charge.build().is_ok());
        /// ```
        local_cache_bytes: usize;
        /// What a duplicate does while the first call still runs.
        ///
        /// ```
        /// # use idempotency_lambda::{OnInProgress, Operation};
        /// let charge = Operation::builder("charge").on_in_progress(OnInProgress::Wait);
        /// assert!(charge.build().is_ok());
        /// ```
        on_in_progress: OnInProgress;
        /// What a claim whose lease ended without a completion is taken for.
        ///
        /// ```
        /// # use idempotency_lambda::{OnTimeout, Operation};
        /// let charge = Operation::builder("charge").on_timeout(OnTimeout::Hold);
        /// assert!(charge.build().is_ok());
        /// ```
        on_timeout: OnTimeout;
        /// What becomes of a claim whose handler failed.
        ///
        /// ```
        /// # use idempotency_lambda::{OnError, Operation};
        /// let charge = Operation::builder("charge").on_error(OnError::Record);
        /// assert!(charge.build().is_ok());
        /// ```
        on_error: OnError;
    }

    /// Says that other operations of the program may have the same `key_prefix`, because all of them are one operation: a
    /// call of one is a duplicate of a call of the other. Each of them must say so.
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

    /// Sets what a payload must have of its key: `true` refuses one without a key, [`KeyRequired::All`] also one that
    /// lacks a part of it.
    ///
    /// ```
    /// # use idempotency_lambda::{KeyRequired, Operation};
    /// let charge = Operation::builder("charge").key("order_id").key_required(true);
    /// assert!(charge.build().is_ok());
    /// let ship = Operation::builder("ship").key("[user_id, order_id]").key_required(KeyRequired::All);
    /// assert!(ship.build().is_ok());
    /// ```
    pub fn key_required(mut self, required: impl Into<KeyRequired>) -> Self {
        self.settings.key_required = Some(required.into());
        self
    }

    /// A store of the operation's own, instead of the process's.
    ///
    /// ```
    /// # use idempotency_lambda::{Operation, MemoryStore};
    /// # use std::sync::Arc;
    /// let store = Arc::new(MemoryStore::new());
    /// let operation = Operation::builder("payments::charge").store(&store).build();
    /// assert!(operation.is_ok());
    /// ```
    pub fn store(mut self, store: impl Into<StoreHandle>) -> Self {
        self.store = Some(store.into());
        self
    }

    /// The environment variables to read instead of the process's own.
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

    /// The operation with these settings, checked and compiled.
    ///
    /// ```
    /// # use idempotency_lambda::{ErrorKind, Operation};
    /// let error = Operation::builder("payments::charge").key("[order_id").build().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Configuration);
    /// ```
    ///
    /// # Errors
    /// The first setting that cannot be understood, with its value and what is accepted. Also if another operation of the
    /// program has the key prefix: one of another path, or of the same path with another `key`, `validate` or `hash`.
    pub fn build(self) -> Result<Operation, Error> {
        if self.variables.is_none() {
            process::check_variables()?;
        }
        self.compile().map_err(|(path, error)| {
            Error::new(ErrorKind::Configuration, path).with_detail(error.to_string())
        })
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
        Ok(match self.store {
            Some(store) => operation.with_store(store),
            None => operation,
        })
    }
}
