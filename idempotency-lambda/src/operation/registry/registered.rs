//! An annotated function: what the attribute wrote, and the [`Operation`] that is compiled from it once.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use idempotency_core::config::{ConfigurationError, Settings};
use idempotency_core::error::{Error, ErrorKind};
#[cfg(feature = "http")]
use idempotency_http::HttpOperation;

use super::prefixes::{self, Claimant};
#[cfg(feature = "http")]
use crate::http::handler::RegisteredHttp;
use crate::operation::Operation;
use crate::operation::StoreHandle;
use crate::process;

/// An annotated function. Its calls share the compiled operation and, with `store = ..`, the cache of that store.
pub struct RegisteredOperation {
    path: &'static str,
    place: &'static str,
    settings: Settings,
    has_its_own_store: bool,
    /// The rules of a handler of HTTP events.
    #[cfg(feature = "http")]
    http: Option<&'static RegisteredHttp>,
    prefix: OnceLock<Option<String>>,
    operation: OnceLock<Result<Operation, ConfigurationError>>,
    /// The operation with the store that `store = ..` gave last.
    with_store: Mutex<Option<(StoreHandle, Operation)>>,
}

impl RegisteredOperation {
    /// Returns the function at `path`, annotated at `place` (file and line).
    pub const fn new(path: &'static str, place: &'static str, settings: Settings) -> Self {
        Self {
            path,
            place,
            settings,
            has_its_own_store: false,
            #[cfg(feature = "http")]
            http: None,
            prefix: OnceLock::new(),
            operation: OnceLock::new(),
            with_store: Mutex::new(None),
        }
    }

    /// Returns the same function, annotated with `store = ..`: it never uses the global backend.
    #[must_use]
    pub const fn with_its_own_store(mut self) -> Self {
        self.has_its_own_store = true;
        self
    }

    /// Returns the same function, annotated as a handler of HTTP events.
    #[cfg(feature = "http")]
    #[must_use]
    pub const fn with_http(mut self, http: &'static RegisteredHttp) -> Self {
        self.http = Some(http);
        self
    }

    /// Returns the HTTP rules of a handler of HTTP events.
    #[cfg(feature = "http")]
    pub(crate) fn http_rules(&self) -> Option<&'static RegisteredHttp> {
        self.http
    }

    /// Returns the HTTP rules, compiled with the operation at the first call.
    ///
    /// # Errors
    ///
    /// As [`operation`](Self::operation).
    #[cfg(feature = "http")]
    pub(crate) fn http(&'static self) -> Result<&'static HttpOperation, Error> {
        self.operation()?;
        self.http.and_then(RegisteredHttp::compiled).ok_or_else(|| {
            // Unreachable: the attribute that runs HTTP has written the rules.
            self.error(&ConfigurationError::new("the function has no HTTP rules"))
        })
    }

    /// Compiles what the attribute wrote.
    fn compile(&'static self) -> Result<Operation, ConfigurationError> {
        let claimant = Claimant::Registered(self);
        #[cfg(feature = "http")]
        if let Some(http) = self.http {
            return http.compile(claimant, &self.settings);
        }
        let operation = Operation::compile(claimant, &self.settings, process::variables())?;
        if !self.has_its_own_store && operation.compiled().stores_events() {
            super::note_events();
        }
        Ok(operation)
    }

    /// Returns the operation, compiled at the first call.
    ///
    /// # Errors
    ///
    /// If a variable or a setting cannot be used, or if another operation has the key prefix. The handler has not run.
    pub(crate) fn operation(&'static self) -> Result<&'static Operation, Error> {
        // If `init` was not called, nothing else has checked the variables that this operation does not read.
        process::check_variables()?;
        self.operation
            .get_or_init(|| self.compile())
            .as_ref()
            .map_err(|error| self.error(error))
    }

    /// Returns the operation for one call, with the store that `store = ..` gives. The same store keeps its cache from call to call.
    ///
    /// # Errors
    ///
    /// As [`operation`](Self::operation).
    pub(crate) fn over(&'static self, store: Option<StoreHandle>) -> Result<Operation, Error> {
        let operation = self.operation()?;
        let Some(store) = store else {
            return Ok(operation.clone());
        };
        let mut last = self
            .with_store
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(match &*last {
            Some((known, operation)) if Arc::ptr_eq(&known.0, &store.0) => operation.clone(),
            _ => {
                let operation = operation.with_store(store.clone());
                *last = Some((store, operation.clone()));
                operation
            }
        })
    }

    /// Checks that no other operation has the key prefix.
    pub(super) fn check_prefix(&'static self) -> Result<(), Error> {
        // A prefix that cannot be used is reported by `operation`.
        let Some(prefix) = self.prefix() else {
            return Ok(());
        };
        let claimant = Claimant::Registered(self);
        prefixes::claim(&claimant, prefix, &self.settings, process::variables())
            .map(drop)
            .map_err(|error| self.error(&error))
    }

    /// Returns the key prefix, or `None` if it cannot be used.
    ///
    /// It depends on two variables only, so that a wrong value of another variable does not hide a shared prefix.
    pub(super) fn prefix(&self) -> Option<&str> {
        let prefix = || {
            let prefix = self.settings.key_prefix(process::variables(), self.path);
            prefix.ok()
        };
        self.prefix.get_or_init(prefix).as_deref()
    }

    /// Returns the path of the function.
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// Returns what the attribute wrote.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns true if the attribute has a `store = ..`.
    pub(super) fn has_its_own_store(&self) -> bool {
        self.has_its_own_store
    }

    fn error(&self, error: &ConfigurationError) -> Error {
        if error.is_about_variable() {
            // The error is about a variable of the process, not about this function.
            return process::configuration_error(error);
        }
        Error::new(ErrorKind::Configuration, self.path)
            .with_detail(format!("{error} ({})", self.place))
    }
}

/// Writes the function's path and its place in the source.
impl fmt::Display for RegisteredOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.path, self.place)
    }
}
