//! Building an operation in code.

use std::time::Duration;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::Environment;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::{OnError, OnInProgress, OnTimeout};

use super::Operation;
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
                self.settings.$name = Some($name.into());
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
        key;
        /// The JMESPath expression of the part that must be the same in a duplicate.
        validate;
        /// The operation's name in its keys, instead of the function's name and the path.
        key_prefix;
        /// The JMESPath expression over the response that decides whether it is stored.
        store_when;
    }

    setters! {
        /// Whether a payload without a key is refused instead of running unprotected.
        key_required: bool;
        /// The digest of keys and validation.
        hash: HashAlgorithm;
        /// How long an answer is replayed, in whole seconds.
        expires_after: Duration;
        /// How long a claim lasts where no deadline is known.
        lease: Duration;
        /// How many answers are kept in the process's memory; 0 is off.
        local_cache: usize;
        /// What a duplicate does while the first call still runs.
        on_in_progress: OnInProgress;
        /// What a claim whose lease ended without a completion is taken for.
        on_timeout: OnTimeout;
        /// What becomes of a claim whose handler failed.
        on_error: OnError;
    }

    /// A store of the operation's own.
    pub fn store(mut self, store: impl Into<StoreHandle>) -> Self {
        self.store = Some(store.into());
        self
    }

    /// The environment variables to read instead of the process's own.
    pub fn variables(mut self, variables: Variables) -> Self {
        self.variables = Some(variables);
        self
    }

    /// The operation.
    ///
    /// # Errors
    /// The first setting that cannot be understood, with its value and what is accepted.
    pub fn build(self) -> Result<Operation, Error> {
        let variables = self
            .variables
            .as_ref()
            .unwrap_or_else(|| process::variables());
        let core =
            idempotency_core::operation::Operation::new(&self.path, &self.settings, variables)
                .map_err(|error| {
                    Error::new(ErrorKind::Configuration, self.path.as_str())
                        .with_detail(error.to_string())
                })?;
        Ok(Operation {
            core,
            environment: self
                .store
                .map(|StoreHandle(store)| -> Environment { process::environment_with(store) }),
        })
    }
}
