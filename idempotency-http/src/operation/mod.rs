//! The operation: one protected part of an HTTP service, with its rules.
//!
//! | file | what it holds |
//! |---|---|
//! | `builder` | from settings to an operation |
//! | `key` | the `Idempotency-Key` header |
//! | `caller` | where the caller of a request comes from |
//! | `fingerprint` | what must be equal in a duplicate |
//! | `target` | the path and the query that the client sent |
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
mod target;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    LINK, ORIGIN,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use idempotency_core::config::Settings;
use idempotency_core::operation::CompiledOperation;

use crate::problem::Problem;
use crate::reply::FailureReport;
use crate::rules::Rules;

pub use builder::{HttpOperationBuilder, HttpTarget};
pub use call::HttpCall;
pub(crate) use call::{TOO_LARGE, unprotected};
pub(crate) use identify::{Event, Head};

pub use event::RequestEvent;
pub(crate) use target::Target;

use caller::CallerRule;
use event::EventRule;
use fingerprint::FingerprintRule;
use key::KeyRule;
use target::UriFunction;

/// A user's function from an error of this framework to its response.
type ErrorResponse = dyn Fn(&Problem) -> http::Response<Bytes> + Send + Sync;

/// A user's function from the headers of a request to those that are added to a response which the handler does not make.
type AddedHeaders = dyn Fn(&HeaderMap) -> HeaderMap + Send + Sync;

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
/// let headers = http::HeaderMap::new();
/// assert!(operation.protects(&http::Method::POST, &headers));
/// assert!(!operation.protects(&http::Method::GET, &headers));
///
/// let error = HttpOperation::builder("shop::payments").build().unwrap_err();
/// assert!(error.to_string().contains("client B can send the key of client A and read A's response"));
/// # Ok::<(), idempotency_http::Error>(())
/// ```
#[derive(Clone)]
pub struct HttpOperation(Arc<Inner>);

struct Inner {
    operation: Arc<CompiledOperation>,
    /// What makes two requests the same call, as a text.
    sameness: String,
    caller: CallerRule,
    /// The headers that the caller is taken from. A repeated one is no caller.
    caller_headers: Vec<String>,
    /// What the user should look at, although the operation can be used.
    advice: Vec<String>,
    key: KeyRule,
    fingerprint: FingerprintRule,
    /// True if each path has keys of its own.
    key_per_path: bool,
    uri_from: Option<Arc<UriFunction>>,
    events: EventRule,
    methods: Vec<Method>,
    rules: Rules,
    /// True if a response that is not in the store is not sent: under `Refuse`, unless `store_when` can be the reason.
    refuses_unstored: bool,
    max_request_body: usize,
    replayed_header: Option<HeaderName>,
    error_response: Option<Arc<ErrorResponse>>,
    added_headers: Option<Arc<AddedHeaders>>,
    /// A bit for each method that is not protected: the operation has warned of a key under it.
    has_warned: AtomicU8,
    /// True if the operation has warned of a path that may not be the one that the client sent.
    has_warned_of_path: AtomicBool,
    key_required: bool,
    /// The `Link` of problems to the documentation for clients.
    documentation: Option<HeaderValue>,
    /// How many bytes of memory the event of one request may take.
    memory_limit: usize,
}

/// The change to the headers of a response that the handler does not make: a replay, or the response to an error.
pub(crate) struct HeaderRule {
    origin: Option<HeaderValue>,
    added: Option<HeaderMap>,
}

impl HeaderRule {
    /// Adds the headers of `add_headers`, which alone say then which origin is allowed. Removes the CORS headers that were stored for
    /// another origin: this origin must not get what the service allows the other one.
    pub(crate) fn apply(self, headers: &mut HeaderMap) {
        let stored = headers.get(ACCESS_CONTROL_ALLOW_ORIGIN);
        let is_for_this_origin = stored.is_some() && stored == self.origin.as_ref();
        let is_for_all = stored.is_some_and(|origin| origin == "*");
        let is_decided = self.added.is_some();
        if !is_for_this_origin || is_decided {
            headers.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
        }
        if !is_for_this_origin && !is_for_all {
            headers.remove(ACCESS_CONTROL_EXPOSE_HEADERS);
        }
        if is_decided || !is_for_this_origin && !is_for_all {
            headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
        }
        headers.extend(self.added.unwrap_or_default());
    }
}

impl HttpOperation {
    /// Returns a builder of the operation at `path`, such as `shop::payments`: the path names the operation in records, and its
    /// default key prefix is made from it.
    pub fn builder(path: impl Into<String>) -> HttpOperationBuilder {
        HttpOperationBuilder::for_target(path, Settings::new(), ())
    }

    /// Returns true if requests of this method are protected.
    ///
    /// The first request of each other method that has a key in the key's header causes a warning in the log: its client relies on a
    /// protection that it does not have. A safe method, such as GET, needs none.
    pub fn protects(&self, method: &Method, headers: &HeaderMap) -> bool {
        if self.0.methods.contains(method) {
            return true;
        }
        // PUT and DELETE; POST and PATCH if they are not listed; any other one.
        let bit = ["PUT", "DELETE", "POST", "PATCH"];
        let bit = 1
            << bit
                .iter()
                .position(|it| *it == method.as_str())
                .unwrap_or(4);
        if let KeyRule::Header(name) = &self.0.key
            && headers.contains_key(name)
            && !method.is_safe()
            && !self.0.operation.is_disabled()
            && self.0.has_warned.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            tracing::warn!(
                operation = self.0.operation.key_prefix(),
                "a {method} request has an idempotency key and ran unprotected, because `methods` does not list {method}: add it, or \
                 tell the client that its retries run again (this warning is logged once for {method})"
            );
        }
        false
    }

    /// Returns what the user should look at, although the operation can be used. [`build_with`](HttpOperationBuilder::build_with) leaves
    /// it to its caller.
    #[doc(hidden)]
    pub fn advice(&self) -> &[String] {
        &self.0.advice
    }

    /// Returns the operation that the calls run under.
    #[doc(hidden)]
    pub fn compiled(&self) -> &Arc<CompiledOperation> {
        &self.0.operation
    }

    /// Returns what makes two requests the same call, as a text.
    pub(crate) fn sameness(&self) -> &str {
        &self.0.sameness
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    pub(crate) fn max_request_body(&self) -> usize {
        self.0.max_request_body
    }

    /// Returns the change to the headers of the response, if the handler does not make it. `request` has the headers of the request.
    pub(crate) fn header_rule(&self, request: &HeaderMap) -> HeaderRule {
        let added = self.0.added_headers.as_ref();
        HeaderRule {
            origin: request.get(ORIGIN).cloned(),
            added: added.map(|added| added(request)),
        }
    }

    /// Returns the response for a refused request. Its extensions tell a layer outside the reason, and whether nothing was done.
    pub(crate) fn refuse(&self, problem: &Problem) -> http::Response<Bytes> {
        let mut response = self.refusal(problem);
        let extensions = response.extensions_mut();
        extensions.insert(problem.reason());
        if let Some(report) = FailureReport::of(problem.error()) {
            extensions.insert(report);
        }
        response
    }

    fn refusal(&self, problem: &Problem) -> http::Response<Bytes> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_allows_another_origin_nothing_of_what_was_stored_for_the_first() {
        let (shop, partner) = ("https://shop.example", "https://partner.example");
        let of_cors = [
            ACCESS_CONTROL_ALLOW_ORIGIN,
            ACCESS_CONTROL_ALLOW_CREDENTIALS,
            ACCESS_CONTROL_EXPOSE_HEADERS,
        ];
        let all = [true; 3];
        for (stored, origin, adds, left) in [
            (Some(shop), Some(shop), false, all),
            (Some(shop), Some(partner), false, [false; 3]),
            (Some(shop), None, false, [false; 3]),
            (Some("*"), Some(partner), false, [true, false, true]),
            (Some("*"), None, false, [true, false, true]),
            (None, Some(partner), false, [false; 3]),
            (Some(shop), Some(shop), true, [true, false, true]),
            (Some("*"), Some(partner), true, [true, false, true]),
            (Some(shop), Some(partner), true, [true, false, false]),
        ] {
            let value = HeaderValue::from_static;
            let mut headers = HeaderMap::from_iter([
                (ACCESS_CONTROL_ALLOW_CREDENTIALS, value("true")),
                (ACCESS_CONTROL_EXPOSE_HEADERS, value("x-total")),
                (LINK, value("<a>")),
            ]);
            headers.extend(stored.map(|stored| (ACCESS_CONTROL_ALLOW_ORIGIN, value(stored))));
            let added = [(ACCESS_CONTROL_ALLOW_ORIGIN, value("https://added.example"))];
            let header_rule = HeaderRule {
                origin: origin.map(value),
                added: adds.then(|| HeaderMap::from_iter(added)),
            };
            header_rule.apply(&mut headers);
            let found = of_cors.clone().map(|name| headers.contains_key(name));
            assert_eq!(found, left, "{stored:?} to {origin:?}, {adds}");
            let is_own =
                headers.get(ACCESS_CONTROL_ALLOW_ORIGIN) == Some(&value("https://added.example"));
            assert_eq!((is_own, headers.contains_key(LINK)), (adds, true));
        }
    }
}
