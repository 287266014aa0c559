//! Builds an operation from settings: this file has those of HTTP, `settings` those of every operation, and `build` checks them.

mod build;
mod settings;

pub use build::HttpTarget;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use idempotency_core::config::{KeyRequired, Settings, Variables};

use super::caller::CallerRule;
use super::target::UriFunction;
use super::{AddedHeaders, ErrorResponse};
use crate::problem::Problem;
use crate::rules::{Rules, Unstorable};

/// Builds an [`HttpOperation`](crate::HttpOperation).
///
/// # Examples
///
/// ```
/// use idempotency_http::{HttpOperation, OnTimeout};
/// use std::time::Duration;
///
/// let operation = HttpOperation::builder("shop::payments")
///     .caller_header("x-user-id")
///     .expires_after(Duration::from_secs(24 * 3600))
///     .on_timeout(OnTimeout::Hold)
///     .stored_headers(["x-receipt"])
///     .build()?;
/// # Ok::<(), idempotency_http::Error>(())
/// ```
#[must_use = "call `build`"]
pub struct HttpOperationBuilder<T = ()> {
    /// What the rules are built for.
    target: T,
    rules: HttpSettings,
}

/// The rules, before they are checked.
struct HttpSettings {
    path: String,
    settings: Settings,
    variables: Option<Variables>,
    caller: Vec<Caller>,
    key_header: Option<String>,
    has_fingerprint: bool,
    fingerprint_also: Option<String>,
    /// The members that a comparison by RFC 8785 leaves out.
    fingerprint_rfc8785: Option<Vec<String>>,
    key_per_path: bool,
    uri_from: Option<Arc<UriFunction>>,
    methods: Vec<Method>,
    stored_headers: Vec<String>,
    stored: Rules,
    max_request_body: usize,
    replayed_header: Option<String>,
    error_response: Option<Arc<ErrorResponse>>,
    added_headers: Option<Arc<AddedHeaders>>,
    documentation: Option<String>,
}

/// A rule for the caller, before it is checked.
type Caller = CallerRule<String, String>;

impl HttpOperationBuilder {
    /// Sets the settings that every operation has. It replaces those of earlier calls.
    #[doc(hidden)]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.rules.settings = settings;
        self
    }

    /// Sets the environment variables that stand for missing settings. Default: the variables of the process.
    pub fn variables(mut self, variables: Variables) -> Self {
        self.rules.variables = Some(variables);
        self
    }
}

impl<T> HttpOperationBuilder<T> {
    /// Starts the rules of the operation at `path`, for a sister crate that builds them into something else.
    #[doc(hidden)]
    pub fn for_target(path: impl Into<String>, settings: Settings, target: T) -> Self {
        let rules = HttpSettings {
            path: path.into(),
            settings,
            variables: None,
            caller: Vec::new(),
            key_header: None,
            has_fingerprint: true,
            fingerprint_also: None,
            fingerprint_rfc8785: None,
            key_per_path: false,
            uri_from: None,
            methods: vec![Method::POST, Method::PATCH],
            stored_headers: Vec::new(),
            stored: Rules::default(),
            max_request_body: 10 * 1024 * 1024,
            replayed_header: Some("idempotent-replayed".to_owned()),
            error_response: None,
            added_headers: None,
            documentation: None,
        };
        Self { target, rules }
    }

    /// Takes the caller from an expression over the request as an event, such as
    /// `requestContext.authorizer.jwt.claims.[iss, sub]`, or `iam_caller(@)` for requests that are signed with IAM.
    ///
    /// The event has the shape of API Gateway's payload format 2.0. A request in which the expression finds nothing, or not
    /// every part of a list, or a repeated header, is refused with 403. [`build`](Self::build) refuses an expression for a value that
    /// clients share, or that changes while they retry, and warns of one that may.
    pub fn caller(mut self, expression: impl Into<String>) -> Self {
        self.rules
            .caller
            .push(Caller::Expression(expression.into()));
        self
    }

    /// Takes the caller from a header that an authenticating proxy sets.
    ///
    /// The proxy must remove what a client sends in this header. A request without the header, or with several, is refused
    /// with 403. [`build`](Self::build) judges the header as [`caller`](Self::caller) does.
    pub fn caller_header(mut self, name: impl Into<String>) -> Self {
        self.rules.caller.push(Caller::Header(name.into()));
        self
    }

    /// Takes the caller from the head of the request, such as an extension that an authentication layer added.
    ///
    /// A request for which the function returns `None` or an empty text is refused with 403. A function that reads a header must refuse
    /// a repeated one: `HeaderMap::get` returns its first value.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_http::HttpOperation;
    ///
    /// #[derive(Clone)]
    /// struct User { id: String } // inserted by the layer that authenticates, outside of this one
    ///
    /// let operation = HttpOperation::builder("shop::payments")
    ///     .caller_from(|parts| Some(parts.extensions.get::<User>()?.id.clone()))
    ///     .build()?;
    /// # Ok::<(), idempotency_http::Error>(())
    /// ```
    pub fn caller_from(
        mut self,
        caller: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.rules.caller.push(Caller::Function(Arc::new(caller)));
        self
    }

    /// Lets all clients share their keys: a client that knows or guesses the key of another client reads that client's
    /// response.
    ///
    /// It fits a service with one client, or responses that every client may see.
    pub fn shared_by_all_callers(mut self) -> Self {
        self.rules.caller.push(Caller::Shared);
        self
    }

    /// Takes the key from another header than `Idempotency-Key`, by the same rules.
    pub fn key_header(mut self, name: impl Into<String>) -> Self {
        self.rules.key_header = Some(name.into());
        self.rules.settings.key = None;
        self
    }

    /// Takes the key from an expression over the request as an event, such as `powertools_json(body).order_id`.
    pub fn key(mut self, expression: impl Into<Cow<'static, str>>) -> Self {
        self.rules.settings.key = Some(expression.into());
        self.rules.key_header = None;
        self
    }

    /// Gives each path its own keys: the same key of a caller under another path is another request.
    ///
    /// Without it the second path gets 422. The path is the one that the client sent, with every part, such as the id of a session; a
    /// retry needs the same path. It changes the key of every record.
    pub fn key_per_path(mut self, per_path: bool) -> Self {
        self.rules.key_per_path = per_path;
        self
    }

    /// Sets what must be equal in a duplicate instead of query and body, as an expression over the request as an event. Method and
    /// path are always compared. Default: method, path, query and body.
    pub fn fingerprint(mut self, expression: impl Into<Cow<'static, str>>) -> Self {
        self.rules.settings.validate = Some(expression.into());
        self.rules.has_fingerprint = true;
        self
    }

    /// Compares the body instead of query and body, and JSON as RFC 8785 writes it, without the members at these JSON pointers. Method
    /// and path are always compared.
    ///
    /// **Numbers are compared as doubles**: 1, 1.0 and 1e0 are one, and so are two numbers that differ in more digits than a double has.
    /// Only an integer without fraction and exponent keeps every digit. Null and a missing member differ. A pointer that finds nothing
    /// in a request leaves nothing out. A body that is not JSON, or has two members of one name, is compared byte by byte.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_http::HttpOperation;
    ///
    /// let operation = HttpOperation::builder("shop::orders")
    ///     .caller_header("x-agent-id")
    ///     .fingerprint_rfc8785(["/context", "/push/authentication/token"])
    ///     .build()?;
    /// # Ok::<(), idempotency_http::Error>(())
    /// ```
    pub fn fingerprint_rfc8785<'a>(mut self, without: impl IntoIterator<Item = &'a str>) -> Self {
        let without = without.into_iter().map(str::to_owned);
        self.rules.fingerprint_rfc8785 = Some(without.collect());
        self
    }

    /// Adds something to the default fingerprint: what else must be equal in a duplicate, beside method, path, query and body.
    ///
    /// It is an expression over the request as an event, such as `header(@, 'host')` where one service answers for several
    /// hosts, or `header(@, 'x-account')` where a header changes what the request does.
    pub fn fingerprint_also(mut self, expression: impl Into<String>) -> Self {
        self.rules.fingerprint_also = Some(expression.into());
        self
    }

    /// Takes path and query from the URI that this function returns, for the fingerprint and for expressions. If it returns `None`, they
    /// are taken as without it.
    ///
    /// Default: what the client sent, also inside the nested routers of axum and on Lambda. It is needed for other routers that
    /// hand on a part of the path, and if a middleware outside of all routers rewrites the path.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_http::HttpOperation;
    ///
    /// #[derive(Clone)]
    /// struct Sent(http::Uri); // inserted before the path is rewritten
    ///
    /// let operation = HttpOperation::builder("shop::payments")
    ///     .caller_header("x-user-id")
    ///     .uri_from(|parts| Some(parts.extensions.get::<Sent>()?.0.clone()))
    ///     .build()?;
    /// # Ok::<(), idempotency_http::Error>(())
    /// ```
    pub fn uri_from(mut self, uri: impl Fn(&Parts) -> Option<Uri> + Send + Sync + 'static) -> Self {
        self.rules.uri_from = Some(Arc::new(uri));
        self
    }

    /// Compares nothing: every request of a caller with the same key is a duplicate.
    ///
    /// It is for keys whose records another program writes without a fingerprint, such as a function in another language or an
    /// attribute without `validate`. Otherwise a client that uses a key twice by mistake gets the response of another request.
    pub fn without_fingerprint(mut self) -> Self {
        self.rules.settings.validate = None;
        self.rules.has_fingerprint = false;
        self
    }

    /// Sets whether a request must have a key. Default: true. With false, a request without a key runs unprotected, with a
    /// warning.
    pub fn key_required(mut self, required: impl Into<KeyRequired>) -> Self {
        self.rules.settings.key_required = Some(required.into());
        self
    }

    /// Sets the methods that are protected. Default: POST and PATCH. Requests of other methods pass unchanged. The first of each
    /// method that is not safe, with a key in the key's header, causes a warning in the log.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.rules.methods = methods.into_iter().collect();
        self
    }

    /// Stores these headers too, beyond those that describe the body and the result, such as `content-type`, `etag` and
    /// `location`.
    ///
    /// `Set-Cookie` and the headers of one connection are never stored: [`build`](Self::build) refuses them.
    pub fn stored_headers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.rules
            .stored_headers
            .extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets which statuses are stored. Default: 2xx, 301 to 303, and the 4xx that can be the result of a request, such as 400, 404 and 422.
    ///
    /// A server error is never stored. It is a failure of the handler, as are a 408 and a 499 that are not stored: the policy `on_error`
    /// decides on the claim, which is released by default, and held under `on_timeout = "hold"`. There [`build`](Self::build) refuses
    /// rules that store less than the default, because a response that is not stored holds its key.
    pub fn stored_statuses(
        mut self,
        statuses: impl Fn(StatusCode) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.rules.stored.statuses = Some(Arc::new(statuses));
        self
    }

    /// Sets what to do with a response that cannot be stored. Default: [`Unstorable::Complete`].
    pub fn on_unstorable(mut self, policy: Unstorable) -> Self {
        self.rules.stored.on_unstorable = policy;
        self
    }

    /// Stores responses of unknown length too, if they end below the limit. Default: false, because the client of an endless
    /// stream would wait.
    ///
    /// With true, the client gets the first byte when the body has ended or the limit is reached. It is needed where a layer
    /// inside this one, such as compression, hides the length.
    pub fn collect_streams(mut self, collect: bool) -> Self {
        self.rules.stored.collects_streams = collect;
        self
    }

    /// Sets the most bytes of a request's body. Default: 10 MiB. A larger body is refused with 413.
    pub fn max_request_body(mut self, bytes: usize) -> Self {
        self.rules.max_request_body = bytes;
        self
    }

    /// Sets the most bytes of a response's body that are stored. Default: 1 MiB.
    ///
    /// A store can have a lower limit of its own, such as 6 MB in DynamoDB: a response that it refuses is completed
    /// as under [`Unstorable::Complete`], or refused under [`Unstorable::Refuse`] without `store_when`.
    pub fn max_response_body(mut self, bytes: usize) -> Self {
        self.rules.stored.max_body = bytes;
        self
    }

    /// Sets the header of a replay, whose value is `true`. `None` switches it off. Default: `idempotent-replayed`.
    pub fn replayed_header<'a>(mut self, name: impl Into<Option<&'a str>>) -> Self {
        self.rules.replayed_header = name.into().map(str::to_owned);
        self
    }

    /// Sets the address of your documentation for clients: each error has it as `Link: <..>; rel="describedby"`. The draft asks
    /// for it.
    pub fn documentation(mut self, url: impl Into<String>) -> Self {
        self.rules.documentation = Some(url.into());
        self
    }

    /// Adds headers to the responses that the handler does not make: replays and errors of this framework.
    ///
    /// It is for a service that sends CORS or security headers itself, without a layer outside for them. If a replay lacks these headers,
    /// a browser reports a network error at the retry. `headers` gets the headers of the request, such as `Origin`. The headers that it
    /// returns replace those of the same names. It is called once for each protected request, before the handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue, header};
    /// use idempotency_http::HttpOperation;
    ///
    /// fn cors(request: &HeaderMap) -> HeaderMap {
    ///     let mut headers = HeaderMap::new();
    ///     if request.get(header::ORIGIN).is_some_and(|origin| origin == "https://shop.example") {
    ///         let origin = HeaderValue::from_static("https://shop.example");
    ///         headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    ///     }
    ///     headers
    /// }
    ///
    /// let operation = HttpOperation::builder("shop::payments")
    ///     .caller_header("x-user-id")
    ///     .add_headers(cors) // the handler calls `cors` for its own responses
    ///     .build()?;
    /// # Ok::<(), idempotency_http::Error>(())
    /// ```
    pub fn add_headers(
        mut self,
        headers: impl Fn(&HeaderMap) -> HeaderMap + Send + Sync + 'static,
    ) -> Self {
        self.rules.added_headers = Some(Arc::new(headers));
        self
    }

    /// Replaces the responses of this framework: texts, status, headers. [`Problem::response`] is the response to start from.
    pub fn error_response(
        mut self,
        response: impl Fn(&Problem) -> http::Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.rules.error_response = Some(Arc::new(response));
        self
    }
}

impl<T> fmt::Debug for HttpOperationBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOperationBuilder")
            .field("path", &self.rules.path)
            .field("settings", &self.rules.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
