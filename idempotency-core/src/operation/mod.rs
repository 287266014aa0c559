//! An operation: one protected function with its configuration, and how it is called.

mod identity;

pub use identity::Identity;

use std::future::Future;
use std::panic::resume_unwind;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::CacheLimits;
use crate::config::{ConfigurationError, KeyRequired, Settings, Variables};
use crate::engine::{Backend, Codec, Driver, Ending, StoreWhen, run_unprotected};
use crate::error::{Error, ErrorKind};
use crate::event::Report;
use crate::key::{Expression, HashAlgorithm};
use crate::outcome::Outcome;
use crate::protocol::Call;
use crate::protocol::policy::Policy;
use crate::time::EpochMillis;

/// A protected function's whole configuration, compiled once. It owns what it has: two operations share nothing.
///
/// ```
/// use idempotency_core::config::{Settings, Variables};
/// use idempotency_core::operation::Operation;
/// let settings = Settings { key: Some("order_id".to_owned()), ..Settings::default() };
/// let operation = Operation::new("shop::orders::place", &settings, &Variables::default()).unwrap();
/// assert_eq!(operation.key_prefix(), "local.shop.orders.place");
/// ```
#[derive(Debug)]
pub struct Operation {
    key_prefix: String,
    /// The path, as records name it.
    path: String,
    shares_prefix: bool,
    key: Option<Expression>,
    validate: Option<Expression>,
    key_required: KeyRequired,
    hash: HashAlgorithm,
    policy: Policy,
    local_cache: Option<CacheLimits>,
    store_when: Option<Expression>,
    /// How many bytes one identification may take.
    memory_limit: usize,
    disabled: bool,
}

impl Operation {
    /// Compiles the configuration of the operation at `path` (`crate::module::function`).
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::Operation};
    /// let settings = Settings { key: Some("order_id".to_owned()), ..Settings::default() };
    /// assert!(Operation::new("shop::place", &settings, &Variables::default()).is_ok());
    /// let settings = Settings { key: Some("[order_id".to_owned()), ..Settings::default() };
    /// let error = Operation::new("shop::place", &settings, &Variables::default()).unwrap_err();
    /// assert!(error.to_string().starts_with("`key`: invalid JMESPath expression"));
    /// ```
    ///
    /// # Errors
    /// The first setting that cannot be understood, with its value and what is accepted.
    pub fn new(
        path: &str,
        settings: &Settings,
        variables: &Variables,
    ) -> Result<Self, ConfigurationError> {
        let policy = settings.policy(variables)?;
        if settings.shared_key_prefix && settings.key_prefix.is_none() {
            return Err(ConfigurationError::new(
                "`shared_key_prefix` needs a `key_prefix`: the default prefix is of one operation alone",
            ));
        }
        Ok(Self {
            key_prefix: settings.key_prefix(variables, path)?,
            path: path.to_owned(),
            shares_prefix: settings.shared_key_prefix,
            key: compile("key", settings.key.as_deref())?,
            validate: compile("validate", settings.validate.as_deref())?,
            key_required: settings.key_required(variables)?,
            hash: settings.hash(variables)?,
            policy,
            local_cache: settings.local_cache(variables)?,
            store_when: compile("store_when", settings.store_when.as_deref())?,
            memory_limit: Settings::memory_limit(variables),
            disabled: Settings::disabled(variables)?,
        })
    }

    /// The operation's name in its keys.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::Operation};
    /// let operation = Operation::new("shop::place", &Settings::default(), &Variables::default())?;
    /// assert_eq!(operation.key_prefix(), "local.shop.place");
    /// # Ok::<(), ConfigurationError>(())
    /// ```
    pub fn key_prefix(&self) -> &str {
        &self.key_prefix
    }

    /// How the operation treats what stands in its way.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::Operation, protocol::policy::OnInProgress};
    /// let settings = Settings { on_in_progress: Some(OnInProgress::Wait), ..Settings::default() };
    /// let operation = Operation::new("shop::place", &settings, &Variables::default())?;
    /// assert_eq!(operation.policy().on_in_progress, OnInProgress::Wait);
    /// # Ok::<(), ConfigurationError>(())
    /// ```
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether protection is switched off.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::Operation};
    /// let variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "true".to_owned())]);
    /// assert!(Operation::new("shop::place", &Settings::default(), &variables)?.is_disabled());
    /// # Ok::<(), ConfigurationError>(())
    /// ```
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Runs `handler` under the protocol, as the call that `identity` names.
    ///
    /// `deadline` is when the invocation ends, where that is known; else the configured lease counts. The handler is
    /// built and polled at most once, and only under a claim; with [`Identity::bypass`] it runs unprotected.
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::Backend, error::Error, operation::Operation};
    /// # use idempotency_core::{owner::*, store::MemoryStore, time::*};
    /// # use std::{pin::pin, sync::Arc, task::{Context, Poll, Waker}};
    /// # let backend = idempotency_core::example::backend();
    /// # let operation = Operation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// # let calls = async {
    /// let order = operation.identify(r#"{"order_id": 7}"#, None)?;
    /// for replayed in [false, true] {
    ///     let handler = || async { Ok::<_, Error>("placed".to_owned()) };
    ///     let outcome = operation.run(&backend, &order, None, handler).await?;
    ///     assert_eq!(outcome.is_replayed(), replayed);
    ///     assert_eq!(outcome.response(), "placed");
    /// }
    /// # Ok::<(), Error>(())
    /// # };
    /// # assert!(matches!(pin!(calls).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))));
    /// ```
    ///
    /// # Errors
    /// The handler's own, or one of this framework's, which says whether the handler ran.
    ///
    /// # Panics
    /// If the handler panics. Its claim is released first; under `hold` it is kept for an operator.
    pub fn run<R, E, F, Fut>(
        &self,
        backend: &Backend,
        identity: &Identity,
        deadline: Option<EpochMillis>,
        handler: F,
    ) -> impl Future<Output = Result<Outcome<R>, E>>
    where
        R: Serialize + DeserializeOwned,
        E: From<Error>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<R, E>>,
    {
        self.run_with(backend, identity, deadline, Codec::json(), E::from, handler)
    }

    /// As [`run`](Self::run), with the answer's codec and the error's conversion handed in instead of required of the
    /// types: for macros, whose users should be told once what their types lack.
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::*, error::Error, operation::Operation};
    /// # use idempotency_core::{owner::*, store::MemoryStore, time::*};
    /// # use std::{pin::pin, sync::Arc, task::{Context, Poll, Waker}};
    /// # let backend = idempotency_core::example::backend();
    /// # let operation = Operation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// # let call = async {
    /// # let order = operation.identify(r#"{"order_id": 7}"#, None).map_err(|error| error.to_string())?;
    /// // `String` is no `From<Error>`; the conversion is handed in.
    /// let convert = |error: Error| error.to_string();
    /// let handler = || async { Ok::<_, String>(42) };
    /// let outcome = operation.run_with(&backend, &order, None, Codec::json(), convert, handler).await?;
    /// assert_eq!(outcome.response(), &42);
    /// # Ok::<(), String>(())
    /// # };
    /// # assert!(matches!(pin!(call).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))));
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_with<R, E, F, Fut>(
        &self,
        backend: &Backend,
        identity: &Identity,
        deadline: Option<EpochMillis>,
        codec: Codec<R>,
        convert: fn(Error) -> E,
        handler: F,
    ) -> impl Future<Output = Result<Outcome<R>, E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<R, E>>,
    {
        // Each async function that takes another's future holds it twice; boxed here, it is moved once.
        let handler = Box::new(handler);
        let handler = move || Box::pin(handler());
        async move {
            let mut report = Report::new(&self.key_prefix, identity.key(), backend.clock());
            let mut result = self
                .protect(backend, identity, deadline, codec, &mut report, handler)
                .await;
            report.end(&mut result);
            result.map_err(|ending| match ending {
                Ending::Refused(error) => convert(error),
                Ending::Failed(error, _) => error,
                Ending::Panicked(panic, _) => resume_unwind(panic),
            })
        }
    }

    async fn protect<R, E, F, Fut>(
        &self,
        backend: &Backend,
        identity: &Identity,
        deadline: Option<EpochMillis>,
        codec: Codec<R>,
        report: &mut Report<'_>,
        handler: F,
    ) -> Result<Outcome<R>, Ending<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<R, E>>,
    {
        if let Some(warning) = self.warning(identity) {
            report.note(warning);
        }
        let (id, validation) = match identity.protected() {
            Ok(identity) => identity,
            Err(why) => return run_unprotected(handler, why, report).await,
        };
        let now = backend.clock().now();
        let untrusted = |detail: String| {
            Ending::Refused(self.error(ErrorKind::Environment).with_detail(detail))
        };
        if now.get() < 0 {
            return Err(untrusted(
                "the clock is before 1970: set it right".to_owned(),
            ));
        }
        let owner = backend
            .owner_token()
            .map_err(|error| untrusted(error.to_string()))?;
        let driver = Driver {
            backend,
            operation: &self.key_prefix,
            shares_prefix: self.shares_prefix,
            cache: self.local_cache,
            store_when: StoreWhen {
                expression: self.store_when.as_ref(),
                memory_limit: self.memory_limit,
            },
            codec,
            call: Call {
                id: id.clone(),
                owner,
                validation: validation.map(str::to_owned),
                deadline,
                operation: Some(self.path.clone()),
                policy: self.policy.clone(),
            },
        };
        driver.drive(report, handler).await
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, &self.key_prefix)
    }
}

fn compile(
    setting: &str,
    expression: Option<&str>,
) -> Result<Option<Expression>, ConfigurationError> {
    expression
        .map(|text| {
            if text.trim().is_empty() {
                // Taken at its word it would switch validation off, or make the whole payload the key.
                let remedy = "leave it out, or write an expression";
                return Err(ConfigurationError::value(setting, text, remedy));
            }
            Expression::compile(text)
                .map_err(|error| ConfigurationError::new(format!("`{setting}`: {error}")))
        })
        .transpose()
}
