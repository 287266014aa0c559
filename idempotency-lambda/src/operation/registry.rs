//! Every operation of the program: the annotated functions, registered at link time, and those built in code.
//!
//! [`init`](crate::init) checks the annotated functions before the first event. If it is not called, the same errors come
//! at each call.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::store::Store;
#[cfg(feature = "http")]
use idempotency_http::HttpOperation;

use super::Operation;
#[cfg(feature = "http")]
use super::http_rules::RegisteredHttp;
use crate::process;

/// Every annotated function of the program.
#[linkme::distributed_slice]
pub static OPERATIONS: [&'static RegisteredOperation];

/// Checks that no annotated function shares its key prefix by mistake.
///
/// It needs no variable but those of the prefix, so it comes before all other checks.
pub(crate) fn check_prefixes() -> Result<(), Error> {
    OPERATIONS
        .iter()
        .try_for_each(|operation| operation.check_prefix())
}

/// Checks the settings of every annotated function.
pub(crate) fn check_settings() -> Result<(), Error> {
    OPERATIONS
        .iter()
        .try_for_each(|operation| operation.operation(None).map(drop))
}

/// Returns the key prefix of the program's only operation, or `None` if there are several or none.
pub(crate) fn only_prefix() -> Option<String> {
    let registered = OPERATIONS.iter().filter_map(|operation| operation.prefix());
    let built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = registered.chain(built.keys().map(String::as_str));
    let only = all.next()?.to_owned();
    all.next().is_none().then_some(only)
}

/// True if an operation that was built in code uses the global backend.
static BUILT_WITHOUT_A_STORE: AtomicBool = AtomicBool::new(false);
/// True if an operation that was built in code has a store of its own.
static BUILT_WITH_A_STORE: AtomicBool = AtomicBool::new(false);

/// True if an operation that uses the global backend keeps events in its records.
static STORES_EVENTS: AtomicBool = AtomicBool::new(false);

/// Notes that an operation that uses the global backend keeps events in its records.
pub(crate) fn note_events() {
    STORES_EVENTS.store(true, Ordering::Relaxed);
}

/// Returns true if a known operation that uses the global backend keeps events in its records.
pub(crate) fn stores_events() -> bool {
    STORES_EVENTS.load(Ordering::Relaxed)
}

/// Notes whether an operation that was built in code has a store of its own.
pub(crate) fn note_built(has_its_own_store: bool) {
    let built = if has_its_own_store {
        &BUILT_WITH_A_STORE
    } else {
        &BUILT_WITHOUT_A_STORE
    };
    built.store(true, Ordering::Relaxed);
}

/// Returns true if the process needs the global backend: a known operation has no store of its own, or no operation is
/// known.
pub(crate) fn needs_global_backend() -> bool {
    let none = OPERATIONS.is_empty() && !BUILT_WITH_A_STORE.load(Ordering::Relaxed);
    none || BUILT_WITHOUT_A_STORE.load(Ordering::Relaxed)
        || OPERATIONS
            .iter()
            .any(|operation| !operation.has_its_own_store)
}

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
    with_store: Mutex<Option<(Arc<dyn Store>, Operation)>>,
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
        self.operation(None)?;
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
            let rules = http.rules(self.path, &self.settings)?;
            let (rules, operation) = Operation::compile_http(rules, claimant, &self.settings)?;
            http.keep(rules);
            return Ok(operation);
        }
        let operation = Operation::compile(claimant, &self.settings, process::variables())?;
        if !self.has_its_own_store && operation.compiled().stores_events() {
            note_events();
        }
        Ok(operation)
    }

    /// Returns the operation, compiled at the first call, with the store that `store = ..` gives. The same store keeps its cache from call
    /// to call.
    ///
    /// # Errors
    ///
    /// If a variable or a setting cannot be used, or if another operation has the key prefix. The handler has not run.
    pub(crate) fn operation(
        &'static self,
        store: Option<Arc<dyn Store>>,
    ) -> Result<Operation, Error> {
        let compiled = match self.operation.get() {
            Some(compiled) => compiled,
            None => {
                // If `init` was not called, nothing else has checked the variables that this operation does not read.
                process::check_variables()?;
                self.operation.get_or_init(|| self.compile())
            }
        };
        let operation = compiled.as_ref().map_err(|error| self.error(error))?;
        let Some(store) = store else {
            return Ok(operation.clone());
        };
        let mut last = self
            .with_store
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(match &*last {
            Some((known, operation)) if Arc::ptr_eq(known, &store) => operation.clone(),
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
        claim(&claimant, prefix, &self.settings, process::variables())
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

/// An operation that claims a key prefix.
#[derive(Clone, Copy)]
pub(crate) enum Claimant<'a> {
    /// An annotated function.
    Registered(&'static RegisteredOperation),
    /// An operation that is built in code, by its path.
    Built(&'a str),
}

impl Claimant<'_> {
    /// Returns the path of the operation.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Registered(operation) => operation.path,
            Self::Built(path) => path,
        }
    }

    fn is(&self, operation: &'static RegisteredOperation) -> bool {
        matches!(self, Self::Registered(registered) if std::ptr::eq(*registered, operation))
    }
}

impl fmt::Display for Claimant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(operation) => operation.fmt(f),
            Self::Built(path) => f.write_str(path),
        }
    }
}

/// The settings that make two operations under one prefix the same one. If they differ, equal ids do not mean equal calls.
#[derive(PartialEq, Eq)]
struct KeySettings {
    key: Option<String>,
    validate: Option<String>,
    hash: HashAlgorithm,
}

/// An operation that was built in code.
struct BuiltOperation {
    path: String,
    key_settings: KeySettings,
    shares: bool,
    /// True if no other operation shares the prefix.
    is_alone: bool,
}

/// The operations that were built in code, by their prefixes. It has one entry for each prefix, however often an operation
/// is built, so that a function which builds its operation at each call does not grow.
static BUILT: Mutex<BTreeMap<String, BuiltOperation>> = Mutex::new(BTreeMap::new());

/// Claims `prefix` for an operation.
///
/// Returns true if the operation is new: for an annotated function always, and for an operation that is built in code the first time. The
/// same path, built again with the same `key`, `validate` and `hash`, is the same operation.
///
/// # Errors
///
/// If another operation of the program has the prefix, unless both have `shared_key_prefix`.
pub(crate) fn claim(
    claimant: &Claimant<'_>,
    prefix: &str,
    settings: &Settings,
    variables: &Variables,
) -> Result<bool, ConfigurationError> {
    let shares = settings.shares_key_prefix();
    let twin = OPERATIONS.iter().copied().find(|other| {
        let both_share = shares && other.settings.shares_key_prefix();
        !claimant.is(other) && other.prefix() == Some(prefix) && !both_share
    });
    if let Some(twin) = twin {
        return Err(shared(&claimant.to_string(), &twin.to_string(), prefix));
    }
    match *claimant {
        // An operation that is built in code is compared with this one when it is built.
        Claimant::Registered(_) => Ok(true),
        Claimant::Built(path) => {
            let text = |setting: Option<&str>| setting.map(str::to_owned);
            let key_settings = KeySettings {
                key: text(settings.key.as_deref()),
                validate: text(settings.validate.as_deref()),
                hash: settings.hash(variables)?,
            };
            claim_built(path, prefix, key_settings, shares)
        }
    }
}

fn claim_built(
    path: &str,
    prefix: &str,
    key_settings: KeySettings,
    shares: bool,
) -> Result<bool, ConfigurationError> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    match built.entry(prefix.to_owned()) {
        Entry::Vacant(free) => {
            free.insert(BuiltOperation {
                path: path.to_owned(),
                key_settings,
                shares,
                is_alone: true,
            });
            Ok(true)
        }
        Entry::Occupied(mut taken) => {
            let taken = taken.get_mut();
            let is_same = taken.path == path && taken.key_settings == key_settings;
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

fn shared(one: &str, other: &str, prefix: &str) -> ConfigurationError {
    ConfigurationError::new(format!(
        "{one} and {other} share the key prefix `{prefix}`, so one would get the responses of the other: give each \
         a `key_prefix` of its own (if they are one operation, write `shared_key_prefix = true` on both)"
    ))
}

fn built_twice(path: &str, prefix: &str) -> ConfigurationError {
    ConfigurationError::new(format!(
        "two operations are called `{path}` and share the key prefix `{prefix}`, but are built with another `key`, \
         `validate` or `hash`, so one would get the responses of the other: give each a path or a `key_prefix` of \
         its own (if they are one operation, set `shared_key_prefix` on both)"
    ))
}

#[cfg(test)]
mod tests {
    use idempotency_core::store::MemoryStore;

    use super::*;

    #[test]
    fn an_operation_shares_its_prefix_only_if_each_time_it_is_built_it_does() {
        let claim = |path, shares| {
            let key_settings = KeySettings {
                key: None,
                validate: None,
                hash: HashAlgorithm::Md5,
            };
            claim_built(path, "registry.shares", key_settings, shares)
        };
        assert_eq!(claim("pay", true).ok(), Some(true));
        assert_eq!(claim("pay", false).ok(), Some(false));
        assert!(claim("refund", true).is_err());
    }

    /// Returns an annotated function, of a program that has no other one in the slice.
    fn annotated(path: &'static str, change: impl FnOnce(&mut Settings)) -> RegisteredOperation {
        let mut settings = Settings::new();
        change(&mut settings);
        RegisteredOperation::new(path, "lib.rs:1", settings)
    }

    #[test]
    fn an_annotated_function_keeps_the_operation_of_the_store_that_it_used_last() {
        let function = annotated("registry::kept", |_| {}).with_its_own_store();
        let function: &'static _ = Box::leak(Box::new(function));
        let [one, other]: [Arc<dyn Store>; 2] = [(); 2].map(|()| Arc::new(MemoryStore::new()) as _);
        let of = |store: &Arc<dyn Store>| function.operation(Some(store.clone())).unwrap();
        let first = of(&one);
        assert!(Arc::ptr_eq(&first.0, &of(&one).0));
        assert!(!Arc::ptr_eq(&first.0, &of(&other).0));
    }

    /// Runs in a process of its own, because other tests build operations too.
    #[test]
    fn only_an_operation_without_a_store_of_its_own_needs_the_global_one() {
        const CHILD: &str = "OPERATIONS_OF_ONE_TEST";
        if std::env::var_os(CHILD).is_none() {
            let name = "only_an_operation_without_a_store_of_its_own_needs_the_global_one";
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &format!("operation::registry::tests::{name}")])
                .env(CHILD, "yes")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{text}"
            );
            return;
        }
        let built = |path: &str| Operation::builder(path).key("id");
        assert!(needs_global_backend());
        assert_eq!(only_prefix(), None);
        let own = built("registry::own").store(Arc::new(MemoryStore::new()));
        own.store_event("all").build().unwrap();
        assert!(!needs_global_backend());
        assert_eq!(only_prefix().as_deref(), Some("local.registry.own"));
        built("registry::global").build().unwrap();
        assert!(needs_global_backend());
        assert_eq!(only_prefix(), None);
        // Events are checked in the global store alone.
        let keeps = |it: &mut Settings| it.store_event = Some("all".into());
        let own = annotated("registry::of_own", keeps).with_its_own_store();
        Box::leak(Box::new(own)).operation(None).unwrap();
        assert!(!stores_events());
        let global = annotated("registry::of_global", keeps);
        Box::leak(Box::new(global)).operation(None).unwrap();
        assert!(stores_events());
    }
}
