//! Annotated functions: their settings as the attribute wrote them, registered at link time.
//!
//! `run` checks all of them before the first event. Under plain `lambda_runtime::run` the same errors come at every call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use idempotency_core::config::{ConfigurationError, Settings};
use idempotency_core::engine::Environment;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::operation::Operation;
use idempotency_core::protocol::policy::{OnError, OnInProgress, OnTimeout};

use crate::process;
use crate::store::StoreHandle;

/// Every annotated function of the program.
#[linkme::distributed_slice]
pub static OPERATIONS: [&'static StaticOperation];

/// The settings of an attribute, as constants.
#[derive(Debug)]
pub struct Spec {
    pub key: Option<&'static str>,
    pub validate: Option<&'static str>,
    pub key_required: Option<bool>,
    pub key_prefix: Option<&'static str>,
    pub hash: Option<HashAlgorithm>,
    pub expires_after: Option<Duration>,
    pub lease: Option<Duration>,
    pub local_cache: Option<usize>,
    pub local_cache_bytes: Option<usize>,
    pub on_in_progress: Option<OnInProgress>,
    pub on_timeout: Option<OnTimeout>,
    pub on_error: Option<OnError>,
    pub store_when: Option<&'static str>,
}

impl Spec {
    fn settings(&self) -> Settings {
        Settings {
            key: self.key.map(str::to_owned),
            validate: self.validate.map(str::to_owned),
            key_required: self.key_required,
            key_prefix: self.key_prefix.map(str::to_owned),
            hash: self.hash,
            expires_after: self.expires_after,
            lease: self.lease,
            local_cache: self.local_cache,
            local_cache_bytes: self.local_cache_bytes,
            on_in_progress: self.on_in_progress,
            on_timeout: self.on_timeout,
            on_error: self.on_error,
            store_when: self.store_when.map(str::to_owned),
        }
    }
}

/// An annotated function: its configuration, compiled once, and nothing else that two calls could meet in, except the
/// environment around a `store = ..` of its own, which holds that store's cache.
#[derive(Debug)]
pub struct StaticOperation {
    path: &'static str,
    place: &'static str,
    spec: Spec,
    compiled: OnceLock<Result<Operation, ConfigurationError>>,
    prefix_is_free: OnceLock<Result<(), ConfigurationError>>,
    own: Mutex<Option<(StoreHandle, Environment)>>,
}

impl StaticOperation {
    /// The function at `path`, annotated at `place`.
    pub const fn new(path: &'static str, place: &'static str, spec: Spec) -> Self {
        Self {
            path,
            place,
            spec,
            compiled: OnceLock::new(),
            prefix_is_free: OnceLock::new(),
            own: Mutex::new(None),
        }
    }

    /// Its path, by which errors know it.
    pub(crate) fn path(&self) -> &'static str {
        self.path
    }

    /// Its compiled configuration.
    pub(crate) fn operation(&self) -> Result<&Operation, Error> {
        // Under plain `lambda_runtime::run` nothing else has checked what this operation does not read.
        process::check()?;
        self.compiled
            .get_or_init(|| {
                let settings = self.spec.settings();
                process::note_overridden(self.path, &settings, process::variables());
                Operation::new(self.path, &settings, process::variables())
            })
            .as_ref()
            .map_err(|error| self.error(error))
    }

    /// The environment around a store of its own. The same store keeps its cache from call to call.
    pub(crate) fn environment_over(&self, store: StoreHandle) -> Environment {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        match &*own {
            Some((known, environment)) if Arc::ptr_eq(&known.0, &store.0) => environment.clone(),
            _ => {
                let environment = process::environment_with(Arc::clone(&store.0));
                *own = Some((store, environment.clone()));
                environment
            }
        }
    }

    /// Whether its prefix is its alone. Two operations with one prefix could be given each other's answers; where both
    /// attributes name it, that is what somebody wants.
    pub(crate) fn check_prefix(&self) -> Result<(), Error> {
        let prefix = self.operation()?.key_prefix();
        let free = self.prefix_is_free.get_or_init(|| match self.twin(prefix) {
            None => Ok(()),
            Some(twin) => Err(ConfigurationError::new(format!(
                "{} at {} and {} at {} share the key prefix `{prefix}`: give each a `key_prefix = \"..\"` of its own",
                self.path, self.place, twin.path, twin.place
            ))),
        });
        match free {
            Ok(()) => Ok(()),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Another operation with the same prefix, unless both attributes name it.
    fn twin(&self, prefix: &str) -> Option<&'static Self> {
        OPERATIONS.iter().copied().find(|other| {
            let named = self.spec.key_prefix.is_some() && other.spec.key_prefix.is_some();
            let same = || matches!(other.operation(), Ok(other) if other.key_prefix() == prefix);
            !std::ptr::eq(self, *other) && !named && same()
        })
    }

    fn error(&self, error: &ConfigurationError) -> Error {
        if error.is_of_a_variable() {
            // It is the process's, and this function only the first to read it.
            return process::configuration(error);
        }
        Error::new(ErrorKind::Configuration, self.path)
            .with_detail(format!("{error} ({})", self.place))
    }
}

/// The prefixes of operations that were built in code, and the paths they were built for.
static BUILT: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Notes the prefix of an operation that was built in code, and finds another operation that has it already.
pub(crate) fn claim_prefix(path: &str, prefix: &str) -> Result<(), ConfigurationError> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let holder = built
        .entry(prefix.to_owned())
        .or_insert_with(|| path.to_owned());
    let annotated = OPERATIONS.iter().find(|operation| {
        matches!(operation.operation(), Ok(operation) if operation.key_prefix() == prefix)
    });
    let twin = match annotated {
        Some(annotated) => annotated.path,
        None if holder != path => holder.as_str(),
        None => return Ok(()),
    };
    Err(ConfigurationError::new(format!(
        "{path} and {twin} share the key prefix `{prefix}`: give each a `key_prefix` of its own"
    )))
}

/// Checks every annotated function's settings.
pub(crate) fn check() -> Result<(), Error> {
    OPERATIONS
        .iter()
        .try_for_each(|operation| operation.check_prefix())
}
