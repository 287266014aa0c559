//! An operation: one protected function with its configuration, and how it is called.

mod identity;

pub use identity::Identity;

use std::future::Future;
use std::panic::resume_unwind;

use crate::cache::CacheLimits;
use crate::config::{ConfigurationError, KeyRequired, Settings, Variables};
use crate::engine::{Backend, Codec, Driver, StoreWhen, run_unprotected};
use crate::error::{Error, ErrorKind};
use crate::event::Report;
use crate::key::{Expression, Selector};
use crate::outcome::{Ending, Outcome};
use crate::protocol::Call;
use crate::protocol::policy::Policy;
use crate::record::RecordId;
use crate::time::EpochMillis;

/// A protected function's whole configuration, compiled once. It owns what it has: two operations share nothing.
///
/// ```
/// use idempotency_core::config::{Settings, Variables};
/// use idempotency_core::operation::CompiledOperation;
/// let settings = Settings { key: Some("order_id".into()), ..Settings::default() };
/// let operation = CompiledOperation::new("shop::orders::place", &settings, &Variables::default()).unwrap();
/// assert_eq!(operation.key_prefix(), "local.shop.orders.place");
/// ```
#[derive(Debug)]
pub struct CompiledOperation {
    key_prefix: String,
    /// The path, as records name it.
    path: String,
    shares_prefix: bool,
    selector: Selector,
    key_required: KeyRequired,
    policy: Policy,
    local_cache: Option<CacheLimits>,
    store_when: Option<Expression>,
    /// How many bytes one identification may take.
    memory_limit: usize,
    disabled: bool,
}

impl CompiledOperation {
    /// Compiles the configuration of the operation at `path` (`crate::module::function`).
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// let settings = Settings { key: Some("order_id".into()), ..Settings::default() };
    /// assert!(CompiledOperation::new("shop::place", &settings, &Variables::default()).is_ok());
    /// let settings = Settings { key: Some("[order_id".into()), ..Settings::default() };
    /// let error = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap_err();
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
        if settings.shares_key_prefix() && settings.key_prefix.is_none() {
            return Err(ConfigurationError::new(
                "`shared_key_prefix` needs a `key_prefix`: the default prefix is of one operation alone",
            ));
        }
        Ok(Self {
            key_prefix: settings.key_prefix(variables, path)?,
            path: path.to_owned(),
            shares_prefix: settings.shares_key_prefix(),
            selector: Selector::new(
                compile("key", settings.key.as_deref())?,
                compile("validate", settings.validate.as_deref())?,
                settings.hash(variables)?,
            ),
            key_required: settings.key_required(variables)?,
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
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// let operation = CompiledOperation::new("shop::place", &Settings::default(), &Variables::default())?;
    /// assert_eq!(operation.key_prefix(), "local.shop.place");
    /// # Ok::<(), ConfigurationError>(())
    /// ```
    pub fn key_prefix(&self) -> &str {
        &self.key_prefix
    }

    /// How the operation treats what stands in its way.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation, protocol::policy::OnInProgress};
    /// let settings = Settings { on_in_progress: Some(OnInProgress::Wait), ..Settings::default() };
    /// let operation = CompiledOperation::new("shop::place", &settings, &Variables::default())?;
    /// assert_eq!(operation.policy().on_in_progress, OnInProgress::Wait);
    /// # Ok::<(), ConfigurationError>(())
    /// ```
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether protection is switched off.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// let variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "true".to_owned())]);
    /// assert!(CompiledOperation::new("shop::place", &Settings::default(), &variables)?.is_disabled());
    /// # Ok::<(), ConfigurationError>(())
    /// ```
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Runs `handler` under the protocol, as the call that `identity` names.
    ///
    /// `deadline` is when the invocation ends, if that is known; otherwise the claim gets the configured lease. The handler
    /// is polled only under a claim. If [`Identity::bypass`] gives a reason, it runs unprotected.
    ///
    /// `codec` writes and reads responses, and `convert` turns an error of this framework into the handler's error type.
    /// They are arguments and not bounds, so that an attribute can demand both of the user's types in its own words.
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::*, error::Error, operation::CompiledOperation};
    /// # use idempotency_core::{owner::*, store::MemoryStore, time::*};
    /// # use std::{pin::pin, sync::Arc, task::{Context, Poll, Waker}};
    /// # let backend = idempotency_core::example::backend();
    /// # let operation = CompiledOperation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// # let calls = async {
    /// // `String` does not implement `From<Error>`: the conversion is an argument.
    /// let convert = |error: Error| error.to_string();
    /// let order = operation.identify(r#"{"order_id": 7}"#, None).map_err(convert)?;
    /// for replayed in [false, true] {
    ///     let handler = async { Ok::<_, String>("placed".to_owned()) };
    ///     let outcome = operation.run(&backend, &order, None, Codec::json(), convert, handler).await?;
    ///     assert_eq!(outcome.is_replayed(), replayed);
    ///     assert_eq!(outcome.response(), "placed");
    /// }
    /// # Ok::<(), String>(())
    /// # };
    /// # assert!(matches!(pin!(calls).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))));
    /// ```
    ///
    /// # Errors
    /// The handler's error, or an error of this framework, whose [`handler_ran`](Error::handler_ran) says whether the
    /// handler ran.
    ///
    /// # Panics
    /// If the handler panics. Its claim is released first; under `hold` it is kept for an operator.
    pub fn run<R, E>(
        &self,
        backend: &Backend,
        identity: &Identity,
        deadline: Option<EpochMillis>,
        codec: Codec<R>,
        convert: fn(Error) -> E,
        handler: impl Future<Output = Result<R, E>>,
    ) -> impl Future<Output = Result<Outcome<R>, E>> {
        // Each async function on the way would hold the handler once. The box is moved instead.
        let handler = Box::pin(handler);
        async move {
            let mut report = Report::new(&self.key_prefix, identity.key(), backend.clock());
            if let Some(warning) = self.warning(identity) {
                report.note(warning);
            }
            let mut result = match identity.protected() {
                Err(why) => run_unprotected(handler, why, &mut report).await,
                Ok((id, validation)) => {
                    match self.driver(backend, id, validation, deadline, codec) {
                        Ok(driver) => driver.drive(&mut report, handler).await,
                        Err(error) => Err(Ending::Refused(error)),
                    }
                }
            };
            report.end(&mut result);
            result.map_err(|ending| match ending {
                Ending::Refused(error) => convert(error),
                Ending::Failed(error, _) => error,
                Ending::Panicked(panic, _) => resume_unwind(panic),
            })
        }
    }

    /// Prepares a protected call.
    ///
    /// # Errors
    /// If the clock or the random source cannot be used. The handler has not run.
    fn driver<'a, R>(
        &'a self,
        backend: &'a Backend,
        id: &RecordId,
        validation: Option<&str>,
        deadline: Option<EpochMillis>,
        codec: Codec<R>,
    ) -> Result<Driver<'a, R>, Error> {
        let unusable = |detail: String| self.error(ErrorKind::Environment).with_detail(detail);
        if backend.clock().now().get() < 0 {
            return Err(unusable(
                "the clock is before 1970: set it right".to_owned(),
            ));
        }
        let owner = backend
            .owner_token()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Driver {
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
        })
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

#[cfg(test)]
mod tests;
