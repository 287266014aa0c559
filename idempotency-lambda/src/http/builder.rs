//! The settings of a protected HTTP service on Lambda.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use idempotency_core::config::{ConfigurationError, KeyRequired, Settings, Variables};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_http::{HttpOperation, HttpOperationBuilder as Rules, Problem, Unstorable};

use super::HttpLayer;
use super::host::LambdaHost;
use crate::operation::Operation;
use crate::operation::registry::{Claimant, note_built};
use crate::process;
use crate::start;
use crate::store::StoreHandle;

/// Collects the HTTP rules of an operation. [`OperationBuilder::http`](crate::OperationBuilder::http) starts it.
///
/// The settings that every operation has come before `http()`. Of these, `key` and `validate` are expressions over the request
/// as an event in API Gateway's payload format 2.0. Without `key` the key is the `Idempotency-Key` header, and without
/// `validate` the fingerprint is method, path, query and body.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::Operation;
/// use std::time::Duration;
///
/// let idempotent = Operation::builder("shop::payments")
///     .expires_after(Duration::from_secs(24 * 60 * 60))
///     .http()
///     .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
///     .build()?;
/// assert_eq!(idempotent.key_prefix(), "local.shop.payments");
/// # Ok::<(), idempotency_lambda::Error>(())
/// ```
///
/// A key belongs to one client. Without a rule for the caller nothing is built:
///
/// ```
/// # use idempotency_lambda::Operation;
/// let error = Operation::builder("shop::payments").http().build().unwrap_err();
/// assert!(error.to_string().contains("the caller is missing"), "{error}");
/// ```
#[must_use = "a layer is made by `build`"]
pub struct HttpLayerBuilder {
    path: String,
    /// The settings before `http()`, for the comparison of two operations under one prefix.
    settings: Settings,
    /// The rules that make two requests the same call, as they were written, for the same comparison.
    identity: Vec<String>,
    variables: Option<Variables>,
    store: Option<StoreHandle>,
    rules: Rules,
}

impl HttpLayerBuilder {
    pub(crate) fn new(
        path: String,
        settings: Settings,
        variables: Option<Variables>,
        store: Option<StoreHandle>,
    ) -> Self {
        Self {
            rules: HttpOperation::builder(path.as_str()).settings(settings.clone()),
            path,
            settings,
            identity: Vec::new(),
            variables,
            store,
        }
    }

    fn map(mut self, change: impl FnOnce(Rules) -> Rules) -> Self {
        self.rules = change(self.rules);
        self
    }

    fn identified_by(mut self, rule: &str, value: &str) -> Self {
        self.identity.push(format!("{rule} {value}"));
        self
    }

    /// Takes the caller from an expression over the request as an event, such as
    /// `requestContext.authorizer.jwt.claims.[iss, sub]`, or `iam_caller(@)` for requests that are signed with IAM.
    ///
    /// `requestContext` is what API Gateway, the load balancer or the function URL sent: a client cannot write it. A request in
    /// which the expression finds nothing, or not every part of a list, is refused with 403. [`build`](Self::build) refuses an
    /// expression that selects the ARN or the id of an IAM session: clients share it, or it changes while they retry.
    pub fn caller(self, expression: impl Into<String>) -> Self {
        let expression = expression.into();
        self.identified_by("caller", &expression)
            .map(|rules| rules.caller(expression))
    }

    /// Takes the caller from a header that an authorizer or a proxy sets, and that a client cannot set.
    ///
    /// A request without the header, or with several, is refused with 403.
    pub fn caller_header(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.identified_by("caller_header", &name)
            .map(|rules| rules.caller_header(name))
    }

    /// Takes the caller from the head of the request, such as an extension that an authentication layer outside added.
    ///
    /// A request for which the function returns `None` or an empty text is refused with 403.
    pub fn caller_from(
        self,
        caller: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.identified_by("caller_from", "")
            .map(|rules| rules.caller_from(caller))
    }

    /// Lets all clients share their keys: a client that knows or guesses the key of another client reads that client's
    /// response.
    pub fn shared_by_all_callers(self) -> Self {
        self.identified_by("shared_by_all_callers", "")
            .map(Rules::shared_by_all_callers)
    }

    /// Takes the key from another header than `Idempotency-Key`.
    pub fn key_header(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.identified_by("key_header", &name)
            .map(|rules| rules.key_header(name))
    }

    /// Compares nothing: a key that is used again for another request gets the stored response.
    pub fn without_fingerprint(self) -> Self {
        self.identified_by("without_fingerprint", "")
            .map(Rules::without_fingerprint)
    }

    /// Takes the key from an expression over the request as an event, such as `powertools_json(body).order_id`.
    pub fn key(mut self, expression: impl Into<Cow<'static, str>>) -> Self {
        let expression = expression.into();
        self.settings.key = Some(expression.clone());
        self.map(|rules| rules.key(expression))
    }

    /// Adds something to the default fingerprint, as an expression over the request as an event, such as `header(@, 'host')`: what
    /// else must be equal in a duplicate, beside method, path, query and body.
    pub fn fingerprint_also(self, expression: impl Into<String>) -> Self {
        let expression = expression.into();
        self.identified_by("fingerprint_also", &expression)
            .map(|rules| rules.fingerprint_also(expression))
    }

    /// Sets what must be equal in a duplicate instead of query and body, as an expression over the request as an event. Method and
    /// path are always compared. Default: method, path, query and body.
    pub fn fingerprint(mut self, expression: impl Into<Cow<'static, str>>) -> Self {
        let expression = expression.into();
        self.settings.validate = Some(expression.clone());
        self.map(|rules| rules.fingerprint(expression))
    }

    /// Sets whether a request must have a key. Default: true. With false, a request without a key runs unprotected, with a
    /// warning.
    pub fn key_required(mut self, required: bool) -> Self {
        self.settings.key_required = Some(KeyRequired::from(required));
        self.map(|rules| rules.key_required(required))
    }

    /// Sets the methods that are protected. Default: POST and PATCH. Requests of other methods pass unchanged: the first one that
    /// has a key in the key's header is a warning.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.map(|rules| rules.methods(methods))
    }

    /// Stores these headers too, beyond those that describe the body and the result, such as `content-type`, `etag` and
    /// `location`. `Set-Cookie` and the headers of one connection are never stored: [`build`](Self::build) refuses them.
    pub fn stored_headers<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.map(|rules| rules.stored_headers(names))
    }

    /// Sets which statuses are stored. Default: 2xx, 301 to 303, and 4xx except 401, 403, 408, 409, 425 and 429. A server
    /// error is never stored.
    pub fn stored_statuses(
        self,
        statuses: impl Fn(StatusCode) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.map(|rules| rules.stored_statuses(statuses))
    }

    /// Sets what to do with a response that cannot be stored: a stream, or a body above the limit. Default:
    /// [`Unstorable::Complete`].
    pub fn on_unstorable(self, policy: Unstorable) -> Self {
        self.map(|rules| rules.on_unstorable(policy))
    }

    /// Stores responses of unknown length too, if they end below the limit. Default: false.
    pub fn collect_streams(self, collect: bool) -> Self {
        self.map(|rules| rules.collect_streams(collect))
    }

    /// Sets the most bytes of a request's body. Default: 10 MiB, above the limit of Lambda. A larger body is refused with 413.
    pub fn max_request_body(self, bytes: usize) -> Self {
        self.map(|rules| rules.max_request_body(bytes))
    }

    /// Sets the most bytes of a response's body that are stored. Default: 1 MiB. Lambda returns at most 6 MB, and
    /// DynamoDB holds that.
    pub fn max_response_body(self, bytes: usize) -> Self {
        self.map(|rules| rules.max_response_body(bytes))
    }

    /// Sets the header of a replay, whose value is `true`. `None` switches it off. Default: `idempotent-replayed`.
    pub fn replayed_header<'a>(self, name: impl Into<Option<&'a str>>) -> Self {
        self.map(|rules| rules.replayed_header(name))
    }

    /// Sets the address of your documentation for clients: each error has it as `Link: <..>; rel="describedby"`. The draft asks
    /// for it.
    pub fn documentation(self, url: impl Into<String>) -> Self {
        self.map(|rules| rules.documentation(url))
    }

    /// Adds headers to the responses that the handler does not make: replays and errors of this framework. It is for a service that
    /// sends CORS or security headers itself. `headers` gets the headers of the request. Its headers replace those of the same
    /// names.
    pub fn add_headers(
        self,
        headers: impl Fn(&HeaderMap) -> HeaderMap + Send + Sync + 'static,
    ) -> Self {
        self.map(|rules| rules.add_headers(headers))
    }

    /// Replaces the responses of this framework: texts, status, headers. [`Problem::response`] is the response to start from.
    pub fn error_response(
        self,
        response: impl Fn(&Problem) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.map(|rules| rules.error_response(response))
    }

    /// Checks and compiles the settings.
    ///
    /// # Errors
    ///
    /// If there is no rule for the caller, if a setting cannot be used, or if another operation of the program has the key
    /// prefix.
    pub fn build(self) -> Result<HttpLayer, Error> {
        self.compiled().map_err(start::reported)
    }

    fn compiled(self) -> Result<HttpLayer, Error> {
        if self.variables.is_none() {
            process::check_variables()?;
        }
        let Self {
            path,
            mut settings,
            identity,
            variables,
            store,
            rules,
        } = self;
        if !identity.is_empty() {
            let key = settings.key.unwrap_or_default();
            settings.key = Some(format!("{key} {}", identity.join(", ")).into());
        }
        let variables = variables.unwrap_or_else(|| process::variables().clone());
        let claimant = Claimant::Built(&path);
        let (http, operation) =
            compile(rules.variables(variables), claimant, &settings).map_err(|error| {
                Error::new(ErrorKind::Configuration, path.as_str()).with_detail(error.to_string())
            })?;
        note_built(store.is_some());
        let operation = match store {
            Some(store) => operation.with_store(store),
            None => operation,
        };
        Ok(HttpLayer::new(&http, LambdaHost::new(operation)))
    }
}

/// Compiles the rules, and the operation under them. `identity` has the settings that make two operations the same one.
///
/// # Errors
///
/// If a variable or a setting cannot be used, or if another operation has the key prefix.
pub(super) fn compile(
    rules: Rules,
    claimant: Claimant<'_>,
    identity: &Settings,
) -> Result<(HttpOperation, Operation), ConfigurationError> {
    let mut compiled = None;
    let http = rules.build_with(|_, settings, variables| {
        let operation = Operation::compile_as(claimant, settings, identity, variables)?;
        Ok(compiled.insert(operation).shared())
    })?;
    // Unreachable: without an operation there are no rules.
    let missing = || ConfigurationError::new("the operation was not compiled");
    Ok((http, compiled.ok_or_else(missing)?))
}

impl fmt::Debug for HttpLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLayerBuilder")
            .field("path", &self.path)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
