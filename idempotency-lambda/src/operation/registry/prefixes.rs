//! The key prefixes of all operations. Two operations under one prefix would get each other's responses.
//!
//! Annotated functions are all known before the first call, so each is compared with all. Operations that are built in code
//! are compared with the annotated functions and with those built before.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::key::HashAlgorithm;

use super::{OPERATIONS, RegisteredOperation};

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
            Self::Registered(operation) => operation.path(),
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
struct Fingerprint {
    key: Option<String>,
    validate: Option<String>,
    hash: HashAlgorithm,
}

/// An operation that was built in code.
struct Built {
    path: String,
    fingerprint: Fingerprint,
    shares: bool,
    /// True if no other operation shares the prefix.
    is_alone: bool,
}

/// The operations that were built in code, by their prefixes. It has one entry for each prefix, however often an operation
/// is built, so that a function which builds its operation at each call does not grow.
static BUILT: Mutex<BTreeMap<String, Built>> = Mutex::new(BTreeMap::new());

/// Claims `prefix` for an operation.
///
/// Returns true the first time. The same path, built again with the same `key`, `validate` and `hash`, is the same
/// operation.
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
        let both_share = shares && other.settings().shares_key_prefix();
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
            let fingerprint = Fingerprint {
                key: text(settings.key.as_deref()),
                validate: text(settings.validate.as_deref()),
                hash: settings.hash(variables)?,
            };
            claim_built(path, prefix, fingerprint, shares)
        }
    }
}

fn claim_built(
    path: &str,
    prefix: &str,
    fingerprint: Fingerprint,
    shares: bool,
) -> Result<bool, ConfigurationError> {
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
