//! Builds an operation in code.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::{
    ConfigurationError, HostVariables, KeyRequired, Settings, Variables,
};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Steps,
};
use idempotency_core::store::Store;

use super::Operation;
use super::registry::{self, Claimant};
use crate::init_phase;
use crate::process;

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
///
/// An operation can have a prefix of its own. Several operations may share one if each of them allows it:
///
/// ```
/// # use idempotency_lambda::Operation;
/// let charge = |path| Operation::builder(path).key_prefix("shop.charge.shared");
/// let http = charge("http::charge").shared_key_prefix(true).build()?;
/// assert_eq!(http.key_prefix(), "shop.charge.shared");
/// assert!(charge("queue::charge").shared_key_prefix(true).build().is_ok());
/// assert!(charge("cron::charge").build().is_err());
/// # Ok::<(), idempotency_lambda::Error>(())
/// ```
///
/// A payload that lacks a part of its key is refused, unless the setting says otherwise:
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
///
/// A window is at least one second:
///
/// ```
/// # use idempotency_lambda::Operation;
/// # use std::time::Duration;
/// assert!(Operation::builder("charge").expires_after(Duration::ZERO).build().is_err());
/// ```
#[must_use = "an operation is made by `build`"]
pub struct OperationBuilder {
    pub(crate) path: String,
    pub(crate) settings: Settings,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) variables: Option<Variables>,
}

/// Writes the method of each row of the table of settings.
macro_rules! setters {
    ($($name:ident: $type:ident {
        text: $summary:literal $($text:literal)*, example: $example:literal, check: $check:expr, variable: $variable:expr,
        default: $default:literal,
    })+) => {
        impl OperationBuilder {
            $(idempotency_expression::setter! {
                settings; $type, $name, #[doc = concat!("Sets ", $summary)] $(#[doc = ""] #[doc = $text])*
            })+
        }
    };
}

idempotency_expression::settings!(setters);

impl OperationBuilder {
    pub(super) fn new(path: String) -> Self {
        Self {
            path,
            settings: Settings::default(),
            store: None,
            variables: None,
        }
    }

    /// Sets a store for this operation, instead of the global backend's.
    ///
    /// For a store of your own implement [`Store`], and test it with the conformance suite of the crate `idempotency-testkit`.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the environment variables to read, instead of the process's.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{Error, Operation, Variables};
    /// for variable in ["AWS_LAMBDA_FUNCTION_NAME", "IDEMPOTENCY_KEY_PREFIX"] {
    ///     let variables = Variables::from_iter([(variable.to_owned(), "shop".to_owned())]);
    ///     let operation = Operation::builder("payments::charge").variables(variables).build()?;
    ///     assert_eq!(operation.key_prefix(), "shop.payments.charge");
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn variables(mut self, variables: Variables) -> Self {
        self.variables = Some(variables.on(HostVariables::LAMBDA));
        self
    }

    /// Checks and compiles the settings.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used: the error has its value and what is accepted. Also if another operation of the program
    /// has the key prefix: an operation with another path, or with the same path and another `key`, `validate` or `hash`. Before the
    /// first invocation the error is also reported to Lambda, which then ends the process. To handle the error, build the operation in an
    /// invocation, not before.
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
        compiled.map_err(init_phase::reported)
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

impl fmt::Debug for OperationBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationBuilder")
            .field("path", &self.path)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
