//! The operation: one protected part of an HTTP service, with its rules.
//!
//! | file | what it holds |
//! |---|---|
//! | `builder` | from settings to an operation |
//! | `key` | the `Idempotency-Key` header |
//! | `caller` | the client that a key belongs to |
//! | `fingerprint` | what must be equal in a duplicate |
//! | `event` | what the expressions look at in the event of a request |
//! | `identify` | from a request to the identity of its call |
//! | `call` | the run of a call |

mod builder;
mod call;
mod caller;
mod event;
mod fingerprint;
mod identify;
mod key;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::LINK;
use http::{HeaderName, HeaderValue, Method};
use idempotency_core::operation::CompiledOperation;

use crate::host::Host;
use crate::problem::Problem;
use crate::rules::Rules;
use crate::service::HttpIdempotencyLayer;

pub use builder::HttpOperationBuilder;
pub use call::HttpCall;
pub(crate) use call::{TOO_LARGE, unprotected};
pub(crate) use identify::Head;

pub use event::RequestEvent;

use caller::CallerRule;
use event::EventRule;
use fingerprint::FingerprintRule;
use key::KeyRule;

/// A user's function from an error of this framework to its response.
type ErrorResponse = dyn Fn(&Problem) -> http::Response<Bytes> + Send + Sync;

/// One protected part of an HTTP service: its key, its caller, its fingerprint, and what is stored.
///
/// A clone is a handle to the same operation.
///
/// # Examples
///
/// ```
/// use idempotency_http::HttpOperation;
///
/// let operation = HttpOperation::builder("shop::payments").caller_header("x-user-id").build()?;
/// assert!(operation.protects(&http::Method::POST) && !operation.protects(&http::Method::GET));
///
/// let error = HttpOperation::builder("shop::payments").build().unwrap_err();
/// assert!(error.to_string().contains("client B can send the key of client A and read A's response"));
/// # Ok::<(), idempotency_http::ConfigurationError>(())
/// ```
#[derive(Clone)]
pub struct HttpOperation(Arc<Inner>);

struct Inner {
    operation: Arc<CompiledOperation>,
    caller: CallerRule,
    key: KeyRule,
    fingerprint: FingerprintRule,
    events: EventRule,
    methods: Vec<Method>,
    rules: Rules,
    /// True if a response that is not in the store is not sent: under `Refuse`, unless `store_when` can be why.
    refuses_unstored: bool,
    max_request_body: usize,
    replayed_header: Option<HeaderName>,
    error_response: Option<Arc<ErrorResponse>>,
    /// The `Link` of problems to the documentation for clients.
    documentation: Option<HeaderValue>,
    /// True if a handler gets its call.
    gives_call: bool,
    /// How many bytes of memory the event of one request may take.
    memory_limit: usize,
}

impl HttpOperation {
    /// Returns a builder of the operation at `path`, such as `shop::payments`: the path names the operation in records, and its
    /// default key prefix is made from it.
    pub fn builder(path: impl Into<String>) -> HttpOperationBuilder {
        HttpOperationBuilder::new(path.into())
    }

    /// Returns the tower layer of this operation. `host` is a [`Backend`](crate::Backend), or what a platform provides.
    pub fn layer<H: Host>(&self, host: H) -> HttpIdempotencyLayer<H> {
        HttpIdempotencyLayer::new(self.clone(), host)
    }

    /// Returns true if requests of this method are protected.
    pub fn protects(&self, method: &Method) -> bool {
        self.0.methods.contains(method)
    }

    /// Returns the operation that the calls run under.
    pub fn compiled(&self) -> &Arc<CompiledOperation> {
        &self.0.operation
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// Returns true if a handler gets its call.
    pub(crate) fn gives_call(&self) -> bool {
        self.0.gives_call
    }

    pub(crate) fn max_request_body(&self) -> usize {
        self.0.max_request_body
    }

    /// Returns the response for a refused request.
    pub(crate) fn refuse(&self, problem: &Problem) -> http::Response<Bytes> {
        if let Some(response) = &self.0.error_response {
            return response(problem);
        }
        let mut response = problem.response();
        if let Some(link) = &self.0.documentation {
            response.headers_mut().insert(LINK, link.clone());
        }
        response
    }
}

impl fmt::Debug for HttpOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOperation")
            .field("key_prefix", &self.0.operation.key_prefix())
            .field("key", &self.0.key)
            .field("caller", &self.0.caller)
            .field("methods", &self.0.methods)
            .finish_non_exhaustive()
    }
}
