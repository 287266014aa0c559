//! Annotated functions: their settings as the attribute wrote them, registered at link time.
//!
//! `run` checks all of them before the first event. Under plain `lambda_runtime::run` the same errors come at every call.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use idempotency_core::config::{ConfigurationError, KeyRequired, Settings};
use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::operation::Operation;
use idempotency_core::protocol::policy::{OnError, OnInProgress, OnTimeout};

use crate::notice::warn;
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
    pub key_required: Option<KeyRequired>,
    pub key_prefix: Option<&'static str>,
    pub shared_key_prefix: Option<bool>,
    pub hash: Option<HashAlgorithm>,
    pub expires_after: Option<Duration>,
    pub lease: Option<Duration>,
    pub store_timeout: Option<Duration>,
    pub local_cache: Option<usize>,
    pub local_cache_bytes: Option<usize>,
    pub on_in_progress: Option<OnInProgress>,
    pub on_timeout: Option<OnTimeout>,
    pub on_error: Option<OnError>,
    pub store_when: Option<&'static str>,
}

impl Spec {
    /// Returns true if the attribute says that other operations have its prefix too.
    fn shares(&self) -> bool {
        self.shared_key_prefix == Some(true)
    }

    fn settings(&self) -> Settings {
        Settings {
            key: self.key.map(str::to_owned),
            validate: self.validate.map(str::to_owned),
            key_required: self.key_required,
            key_prefix: self.key_prefix.map(str::to_owned),
            shared_key_prefix: self.shares(),
            hash: self.hash,
            expires_after: self.expires_after,
            lease: self.lease,
            store_timeout: self.store_timeout,
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
    has_its_own_store: bool,
    compiled: OnceLock<Result<Operation, ConfigurationError>>,
    prefix: OnceLock<Option<String>>,
    prefix_is_free: OnceLock<Result<(), ConfigurationError>>,
    own: Mutex<Option<(StoreHandle, Backend)>>,
}

impl StaticOperation {
    /// The function at `path`, annotated at `place`.
    pub const fn new(path: &'static str, place: &'static str, spec: Spec) -> Self {
        Self {
            path,
            place,
            spec,
            has_its_own_store: false,
            compiled: OnceLock::new(),
            prefix: OnceLock::new(),
            prefix_is_free: OnceLock::new(),
            own: Mutex::new(None),
        }
    }

    /// The same function, annotated with `store = ..`: it never asks for the process's store.
    pub const fn with_its_own_store(mut self) -> Self {
        self.has_its_own_store = true;
        self
    }

    /// Its compiled configuration.
    pub(crate) fn operation(&self) -> Result<&Operation, Error> {
        // Under plain `lambda_runtime::run` nothing else has checked what this operation does not read.
        process::check()?;
        self.compiled
            .get_or_init(|| {
                let settings = self.spec.settings();
                process::note_overridden(self.path, &settings, process::variables());
                let operation = Operation::new(self.path, &settings, process::variables())?;
                operation.advice().iter().for_each(|advice| warn(advice));
                Ok(operation)
            })
            .as_ref()
            .map_err(|error| self.error(error))
    }

    /// The environment around a store of its own. The same store keeps its cache from call to call.
    pub(crate) fn environment_over(&self, store: StoreHandle) -> Backend {
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

    /// Returns its prefix; nothing where it has none that could be used, which is reported when it is compiled.
    ///
    /// It depends on two variables alone, so that an unusable value of another one does not hide a twin.
    fn prefix(&self) -> Option<&str> {
        let prefix = || {
            let settings = self.spec.settings();
            settings.key_prefix(process::variables(), self.path).ok()
        };
        self.prefix.get_or_init(prefix).as_deref()
    }

    /// Checks that no other annotated function has its prefix, unless both say that they share it.
    ///
    /// Two operations with one prefix are given each other's responses.
    pub(crate) fn check_prefix(&self) -> Result<(), Error> {
        let free = self.prefix_is_free.get_or_init(|| match self.twin() {
            None => Ok(()),
            Some(twin) => Err(shared(
                &format!("{} at {}", self.path, self.place),
                &format!("{} at {}", twin.path, twin.place),
                self.prefix().unwrap_or_default(),
            )),
        });
        free.as_ref().map_err(|error| self.error(error)).copied()
    }

    fn twin(&self) -> Option<&'static Self> {
        let prefix = self.prefix()?;
        let annotated = OPERATIONS.iter().copied();
        annotated
            .filter(|other| !std::ptr::eq(self, *other))
            .find(|other| {
                other.prefix() == Some(prefix) && !(self.spec.shares() && other.spec.shares())
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

fn shared(one: &str, other: &str, prefix: &str) -> ConfigurationError {
    ConfigurationError::new(format!(
        "{one} and {other} share the key prefix `{prefix}`, so that one would be given the responses of the other: give \
         each a `key_prefix` of its own (if they are one operation, write `shared_key_prefix = true` on both)"
    ))
}

/// What makes two operations under one prefix the same one: where it differs, equal ids do not mean equal calls.
#[derive(PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) key: Option<String>,
    pub(crate) validate: Option<String>,
    pub(crate) hash: HashAlgorithm,
}

/// An operation that was built in code.
struct Built {
    path: String,
    fingerprint: Fingerprint,
    shares: bool,
    /// Whether no other operation shares the prefix.
    is_alone: bool,
}

/// The operations that were built in code, by their prefixes. One entry for each prefix, however often its operation is
/// built, so that a function which builds its operation at each call does not grow.
static BUILT: Mutex<BTreeMap<String, Built>> = Mutex::new(BTreeMap::new());

/// Notes the prefix of an operation that is built in code.
///
/// Returns true the first time.
///
/// # Errors
/// If another operation of the program has the prefix, unless both say that they share it. The same path built again with
/// the same fingerprint is the same operation.
pub(crate) fn claim_prefix(
    path: &str,
    prefix: &str,
    fingerprint: Fingerprint,
    shares: bool,
) -> Result<bool, ConfigurationError> {
    let annotated = OPERATIONS.iter().find(|operation| {
        operation.prefix() == Some(prefix) && !(shares && operation.spec.shares())
    });
    if let Some(twin) = annotated {
        let twin = format!("{} at {}", twin.path, twin.place);
        return Err(shared(path, &twin, prefix));
    }
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    match built.entry(prefix.to_owned()) {
        Entry::Vacant(free) => {
            free.insert(Built {
                path: path.to_owned(),
                fingerprint,
                shares,
                is_alone: true,
            });
            Ok(true)
        }
        Entry::Occupied(mut taken) => {
            let taken = taken.get_mut();
            let is_same = taken.path == path && taken.fingerprint == fingerprint;
            if is_same && taken.is_alone {
                taken.shares &= shares;
            } else if taken.shares && shares {
                taken.is_alone &= is_same;
            } else if taken.path == path {
                return Err(built_twice(path, prefix));
            } else {
                return Err(shared(path, &taken.path, prefix));
            }
            Ok(false)
        }
    }
}

fn built_twice(path: &str, prefix: &str) -> ConfigurationError {
    ConfigurationError::new(format!(
        "two operations are called `{path}` and share the key prefix `{prefix}`, but are built with another `key`, \
         `validate` or `hash`, so that one would be given the responses of the other: give each a path or a `key_prefix` \
         of its own (if they are one operation, set `shared_key_prefix` on both)"
    ))
}

/// Checks that no two annotated functions share a prefix.
pub(crate) fn check_prefixes() -> Result<(), Error> {
    OPERATIONS
        .iter()
        .try_for_each(|operation| operation.check_prefix())
}

/// Checks every annotated function's settings.
pub(crate) fn check() -> Result<(), Error> {
    OPERATIONS
        .iter()
        .try_for_each(|operation| operation.operation().map(drop))
}

/// Whether an operation that was built in code asks for the process's store, and whether one has its own.
static BUILT_WITHOUT_A_STORE: AtomicBool = AtomicBool::new(false);
static BUILT_WITH_A_STORE: AtomicBool = AtomicBool::new(false);

/// Notes whether an operation that was built in code has a store of its own.
pub(crate) fn note_built(has_its_own_store: bool) {
    let built = if has_its_own_store {
        &BUILT_WITH_A_STORE
    } else {
        &BUILT_WITHOUT_A_STORE
    };
    built.store(true, Ordering::Relaxed);
}

/// Returns whether the process needs a store: unless there are operations, and each known one has a store of its own.
pub(crate) fn needs_the_process_store() -> bool {
    let without = |operation: &&StaticOperation| !operation.has_its_own_store;
    let none = OPERATIONS.is_empty() && !BUILT_WITH_A_STORE.load(Ordering::Relaxed);
    none || OPERATIONS.iter().any(without) || BUILT_WITHOUT_A_STORE.load(Ordering::Relaxed)
}
