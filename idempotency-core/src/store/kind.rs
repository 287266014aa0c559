//! A kind of store that the variable `IDEMPOTENCY_STORE` can name.

use std::sync::Arc;

use super::{Store, StoreScan};
use crate::config::{ConfigurationError, Variables};
use crate::future::BoxFuture;

/// A kind of store: its name, its variables, and how a store of it is opened.
///
/// `S` is what the program uses the store as ([`StoreUse`]).
pub struct StoreKind<S: ?Sized> {
    /// The value of `IDEMPOTENCY_STORE`.
    pub name: &'static str,
    /// The names of all variables that describe a store of this kind.
    pub variables: &'static [&'static str],
    /// What a start of a function with this kind warns of.
    pub warning: Option<&'static str>,
    /// Checks every variable of the kind without a connection, even if another kind is chosen.
    pub check: fn(&Variables) -> Result<(), ConfigurationError>,
    /// Opens the store that the variables describe.
    pub open: Open<S>,
}

type Open<S> = for<'a> fn(&'a Variables) -> BoxFuture<'a, Result<Arc<S>, ConfigurationError>>;

/// What a program uses an opened store as: a function as `dyn Store`, and the operator's command as `dyn StoreScan`. So a function does not
/// link what lists records.
pub trait StoreUse: Send + Sync {
    /// Shares the store.
    fn shared(store: impl StoreScan + 'static) -> Arc<Self>;
}

impl StoreUse for dyn Store {
    fn shared(store: impl StoreScan + 'static) -> Arc<Self> {
        Arc::new(store)
    }
}

impl StoreUse for dyn StoreScan {
    fn shared(store: impl StoreScan + 'static) -> Arc<Self> {
        Arc::new(store)
    }
}
