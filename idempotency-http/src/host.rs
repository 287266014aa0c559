//! What surrounds a request: the store, the deadline and the tenant of its call.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use http::Extensions;
use http::request::Parts;
use idempotency_core::engine::Backend;
use idempotency_core::error::Error;
use idempotency_core::store::Store;
use idempotency_core::system::{SystemClock, SystemRandom};
use idempotency_core::time::EpochMillis;
use serde_json::Value;

/// Where the calls of requests run.
///
/// A server has one backend for all requests: [`Backend`] itself is a host. A platform with invocations, such as Lambda, has
/// a host of its own, which knows the deadline and the tenant of each request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no host of requests",
    label = "of a store write `idempotency_http::backend(store)`"
)]
pub trait Host: Clone + Send + Sync + 'static {
    /// Returns the backend, deadline and tenant of the request's call.
    ///
    /// It is called once for each protected request, before anything is claimed. `operation` is the key prefix, for the
    /// error.
    ///
    /// # Errors
    ///
    /// If they are not known, and must not be guessed. The handler does not run.
    fn place(
        &self,
        operation: &str,
        request: &Parts,
    ) -> impl Future<Output = Result<Place, Error>> + Send;

    /// Returns true if [`place`](Self::place) refuses each request of this source. Then a request with a method that is not protected does not
    /// pass either: the platform may have made up the method.
    #[doc(hidden)]
    fn refuses_source(&self, request: &Extensions) -> bool {
        let _ = request;
        false
    }

    /// Returns what the platform knows about the request, for expressions: the member `requestContext` of its event, such as
    /// the claims that an authorizer has checked. `None` if the platform knows nothing.
    fn request_context(&self, request: &Parts) -> Option<Value> {
        let _ = request;
        None
    }

    /// Returns the path that the client sent, if the platform knows it: a router outside of the layer can have changed the URI of
    /// `request`. `None` takes the path from the URI, or from what the router has kept of it.
    fn sent_path(&self, request: &Parts) -> Option<String> {
        let _ = request;
        None
    }

    /// Notes that an operation with these rules uses a key prefix. Returns false if one with other rules uses it. A platform with a list
    /// of its operations checks it there.
    #[doc(hidden)]
    fn claim_prefix(&self, prefix: &str, rules: &str) -> bool {
        let _ = (prefix, rules);
        true
    }

    /// Returns true if the handler may get `body` as text, when it is UTF-8.
    ///
    /// `body` is the body of a protected request before it is read, for a platform whose body type distinguishes text from
    /// bytes and whose handlers match on it. Default: true.
    fn may_be_text(&self, body: &dyn Any) -> bool {
        let _ = body;
        true
    }
}

/// The backend, deadline and tenant of one call.
#[derive(Clone, Debug)]
pub struct Place {
    /// The store, clock and cache of the call.
    pub backend: Backend,
    /// When the call ends: the lease of its claim ends then too. `None` gives the claim the configured lease.
    pub deadline: Option<EpochMillis>,
    /// The tenant, which is a part of the key. `None` if the host has no tenants.
    pub tenant: Option<String>,
}

/// One backend for all requests, without deadlines and tenants.
impl Host for Backend {
    async fn place(&self, _operation: &str, _request: &Parts) -> Result<Place, Error> {
        Ok(Place {
            backend: self.clone(),
            deadline: None,
            tenant: None,
        })
    }

    fn claim_prefix(&self, prefix: &str, rules: &str) -> bool {
        Backend::claim_prefix(self, prefix, rules)
    }
}

/// Returns a backend over `store`, with the operating system's clock and random source, and an empty cache.
///
/// It needs a tokio runtime with timers when it is used.
///
/// # Examples
///
/// ```
/// use idempotency_http::{MemoryStore, backend};
///
/// let backend = backend(MemoryStore::new());
/// assert_eq!(backend.store().name(), "memory");
/// ```
pub fn backend(store: impl Store + 'static) -> Backend {
    Backend::new(
        Arc::new(store),
        Arc::new(SystemClock),
        Arc::new(SystemRandom),
    )
}
