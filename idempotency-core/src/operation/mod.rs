//! An operation: one protected function with its settings, and how it is called.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the compiled settings, and the run of a call |
//! | `identity` | from a payload to the identity of its call |
//! | `stored_event` | what the record keeps of an event |
//! | `texts` | warnings, advice and details of errors about a payload and its key |

mod identity;
mod stored_event;
mod texts;

#[doc(hidden)]
pub use crate::engine::run_without_claim;
pub use crate::engine::{Call, CallTransaction, StageError, Step, Token, UndoableStep};
pub use crate::protocol::{Run, StepRetry};
pub use identity::Identity;
use stored_event::Keeps;
#[doc(hidden)]
pub use texts::quoted;

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::Arc;

use tracing::Instrument;

use crate::cache::CacheLimits;
use crate::config::{self, ConfigurationError, HostVariables, KeyRequired, Settings, Variables};
use crate::engine::{Backend, Codec, Driver, Errors, StoreWhen, Unprotected};
use crate::error::{Error, ErrorKind};
use crate::event::Report;
use crate::key::{Expression, Selector};
use crate::outcome::{Bypass, KeyState, NoResponse, Outcome};
use crate::protocol::policy::{OnInProgress, Policy};
use crate::protocol::{CallTerms, Lease};
use crate::record::RecordId;
use crate::time::EpochMillis;

/// All settings of a protected function, compiled once. Two operations share nothing.
///
/// # Examples
///
/// ```
/// use idempotency_core::config::{Settings, Variables};
/// use idempotency_core::operation::CompiledOperation;
/// let settings = Settings { key: Some("order_id".into()), ..Settings::default() };
/// let operation = CompiledOperation::new("shop::orders::place", &settings, &Variables::default()).unwrap();
/// assert_eq!(operation.key_prefix(), "local.shop.orders.place");
/// ```
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct CompiledOperation {
    key_prefix: String,
    /// The path that records name.
    path: String,
    shares_prefix: bool,
    selector: Selector,
    key_required: KeyRequired,
    policy: Policy,
    /// How long a claim lasts if no deadline is known.
    lease: Lease,
    /// True if a setting or a variable says what a duplicate does while the first call runs.
    has_on_in_progress: bool,
    local_cache: Option<CacheLimits>,
    store_when: Option<Expression>,
    /// What the record keeps of the event.
    keeps: Option<Keeps>,
    /// How many bytes of memory one identification may take.
    memory_limit: usize,
    host: Option<HostVariables>,
    disabled: bool,
}

impl CompiledOperation {
    /// Compiles the settings of the operation at `path` (`crate::module::function`).
    ///
    /// # Errors
    ///
    /// If a setting or a variable cannot be used. The error has its value and what is accepted.
    pub fn new(
        path: &str,
        settings: &Settings,
        variables: &Variables,
    ) -> Result<Self, ConfigurationError> {
        let policy = settings.policy(variables)?;
        if settings.shares_key_prefix() && settings.key_prefix.is_none() {
            return Err(ConfigurationError::new(
                "`shared_key_prefix` needs a `key_prefix`: the default prefix belongs to one operation",
            ));
        }
        // Recorded steps belong to the payload that they began with. Without `key` the whole payload is the key.
        let whole = policy.steps.are_on() && settings.key.is_some();
        let validate = settings.validate.as_deref();
        let mut selector = Selector::new(
            compile("key", settings.key.as_deref())?,
            compile("validate", validate.or(whole.then_some("@")))?,
            settings.hash(variables)?,
        )
        .with_python_numbers(Settings::python_numbers(variables)?);
        let keeps = Keeps::of(settings.store_event(variables))?;
        if let Some(needs) = keeps.as_ref().and_then(Keeps::needs) {
            selector.reads_too(needs);
        }
        Ok(Self {
            key_prefix: settings.key_prefix(variables, path)?,
            path: path.to_owned(),
            shares_prefix: settings.shares_key_prefix(),
            selector,
            key_required: settings.key_required(variables)?,
            policy,
            lease: settings.lease(variables)?,
            has_on_in_progress: settings.on_in_progress.is_some()
                || variables.value("IDEMPOTENCY_ON_IN_PROGRESS").is_some(),
            local_cache: settings.local_cache(variables)?,
            store_when: compile("store_when", settings.store_when.as_deref())?,
            keeps,
            memory_limit: Settings::memory_limit(variables),
            host: variables.host(),
            disabled: Settings::disabled(variables)?,
        })
    }

    /// Returns the prefix of the operation's keys.
    pub fn key_prefix(&self) -> &str {
        &self.key_prefix
    }

    /// Returns the policy for duplicates, timeouts and errors.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns true if no response is stored, because `store_when` is a literal that is not true: then a key is a lock.
    #[doc(hidden)]
    pub fn is_lock(&self) -> bool {
        self.store_when().is_never()
    }

    /// Returns how long a claim of a call lasts whose invocation ends at `deadline`, if that is known.
    pub fn lease(&self, deadline: Option<EpochMillis>) -> Lease {
        deadline.map_or(self.lease, Lease::Until)
    }

    /// Returns the text of the `key` expression, or `None` if the whole payload is the key.
    pub fn key_expression(&self) -> Option<&str> {
        self.selector.key_expression().map(Expression::as_str)
    }

    /// Returns the text of the `validate` expression, if the operation validates. With steps and without `validate` it is `@`, the whole
    /// payload.
    pub fn validate_expression(&self) -> Option<&str> {
        self.selector.validate_expression().map(Expression::as_str)
    }

    /// Returns true if records keep events. The store must allow that: see [`Store::warm_up`](crate::store::Store::warm_up).
    pub fn stores_events(&self) -> bool {
        self.keeps.is_some()
    }

    /// Returns true if protection is switched off.
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Runs `handler` under the protocol, or returns the response of an earlier call with the same identity.
    ///
    /// `deadline` is when the invocation ends, if that is known; otherwise the claim gets the configured lease. The handler is
    /// called at most once, with its [`Call`]. It is called under a claim, or unprotected: if [`Identity::bypass`] has a reason, or if the
    /// store failed under `run-unprotected`.
    ///
    /// `codec` writes and reads responses. `errors` turns an error of this framework into the handler's error type, and says which
    /// errors of the handler report its end. They are arguments and not bounds, so that the attribute can explain in its own words
    /// what the user's types lack.
    ///
    /// Each async function on the way holds `handler` once: box it if it captures much.
    ///
    /// # Errors
    ///
    /// The handler's error, or an error of this framework; [`Error::handler_ran`] returns whether the handler ran.
    ///
    /// # Panics
    ///
    /// If the handler panics. Its claim is released first; under `hold` it is kept for an operator.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Codec, Errors}, error::Error, operation::{Call, CompiledOperation, Run}};
    /// # let backend = idempotency_core::example::backend();
    /// # let operation = CompiledOperation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// # idempotency_core::example::ready(async {
    /// // `String` does not implement `From<Error>`: the conversion is an argument.
    /// let convert = |error: Error| error.to_string();
    /// let order = operation.identify(r#"{"order_id": 7}"#, None).map_err(convert)?;
    /// for replayed in [false, true] {
    ///     let handler = async |call: Call| {
    ///         assert_eq!(call.which_run(), Run::First);
    ///         Ok::<_, String>("placed".to_owned())
    ///     };
    ///     let outcome = operation.run(&backend, &order, None, Codec::json(), Errors::new(convert), handler).await?;
    ///     assert_eq!(outcome.is_replayed(), replayed);
    ///     assert_eq!(outcome.response(), "placed");
    /// }
    /// # Ok::<(), String>(())
    /// # }).unwrap();
    /// ```
    pub async fn run<R, E, F: Future<Output = Result<R, E>>>(
        &self,
        backend: &Backend,
        identity: &Identity,
        deadline: Option<EpochMillis>,
        codec: Codec<R>,
        errors: Errors<E>,
        handler: impl FnOnce(Call) -> F,
    ) -> Result<Outcome<R>, E> {
        // The handler is called in its future, where a panic is caught. Boxed, because each async function inside would hold it once.
        let handler = |call| Box::pin(async move { handler(call).await });
        let mut report = Report::new(&self.key_prefix, identity.key(), backend.clock());
        if let Some(warning) = self.warning(identity) {
            report.note(warning);
        }
        if let Some(why) = identity.event_left_out() {
            report.note(why);
        }
        let span = report.span().clone();
        let call = async {
            let (id, validation) = match identity.protected() {
                Ok(protected) => protected,
                Err(why) => {
                    let run = Unprotected {
                        backend,
                        key_prefix: &self.key_prefix,
                        why,
                        deadline,
                        lease: self.lease(deadline),
                        codec,
                        store_when: self.store_when(),
                    };
                    return run.run(&mut report, handler).await;
                }
            };
            let driver = self.driver(backend, identity, (id, validation), deadline, codec);
            let driver = driver.map_err(NoResponse::Refused)?;
            driver.drive(errors, &mut report, handler).await
        };
        // The span is entered at each poll. The outcome event comes after it: it has all fields itself.
        let mut result = call.instrument(span).await;
        report.end(&mut result);
        result.map_err(|ending| match ending {
            NoResponse::Refused(error) => errors.convert(error),
            NoResponse::Failed(error) => error,
            NoResponse::Panicked(panic) => resume_unwind(panic),
        })
    }

    /// Returns what a call of this identity would meet now. Reads the record in the store; asks neither the local cache nor the calls in
    /// progress of the process.
    ///
    /// # Errors
    ///
    /// If the store cannot be read, or if the stored response does not fit `R`.
    pub async fn lookup<R>(
        &self,
        backend: &Backend,
        identity: &Identity,
        deadline: Option<EpochMillis>,
        codec: Codec<R>,
    ) -> Result<KeyState<R>, Error> {
        match identity.protected() {
            Ok(protected) => {
                let driver = self.driver(backend, identity, protected, deadline, codec)?;
                driver.lookup().await
            }
            Err(why) => Ok(KeyState::Bypassed(why)),
        }
    }

    /// Deletes the record of this identity. Returns false if there is none. The local cache of the backend forgets the key too.
    ///
    /// # Errors
    ///
    /// If the run of its claim may go on, if it is held, if it belongs to another payload, if it changed in the meantime, if the store
    /// fails, if the payload has no key, or if protection is switched off.
    pub async fn evict(
        &self,
        backend: &Backend,
        identity: &Identity,
        deadline: Option<EpochMillis>,
    ) -> Result<bool, Error> {
        match identity.protected() {
            Ok(protected) => {
                let codec = Codec::<()>::json();
                let driver = self.driver(backend, identity, protected, deadline, codec)?;
                driver.evict().await
            }
            Err(Bypass::Disabled) => {
                // The record would be replayed when protection is on again.
                let error = self.error(ErrorKind::Configuration);
                Err(error.with_detail(
                    "no record was evicted, because protection is switched off: unset `IDEMPOTENCY_DISABLED` or \
                     `POWERTOOLS_IDEMPOTENCY_DISABLED`",
                ))
            }
            Err(_) => Err(self.error(ErrorKind::KeyMissing)),
        }
    }

    /// Returns what drives a protected call, or looks at its record.
    ///
    /// # Errors
    ///
    /// If the clock or the random source cannot be trusted.
    fn driver<'a, R>(
        &'a self,
        backend: &'a Backend,
        identity: &Identity,
        (id, validation): (&RecordId, Option<&str>),
        deadline: Option<EpochMillis>,
        codec: Codec<R>,
    ) -> Result<Driver<'a, R>, Error> {
        let unusable = |detail| self.error(ErrorKind::Environment).with_detail(detail);
        let owner = backend.owner_token();
        let owner = owner.map_err(|error| unusable(error.to_string()))?;
        // After the random source, which may take time.
        let began = backend.clock().now();
        if began.get() < 0 {
            return Err(unusable(
                "the clock is before 1970: set it right".to_owned(),
            ));
        }
        Ok(Driver {
            backend,
            key_prefix: &self.key_prefix,
            shares_prefix: self.shares_prefix,
            cache: self.local_cache,
            store_when: self.store_when(),
            codec,
            began,
            call: Arc::new(CallTerms {
                id: id.clone(),
                owner,
                validation: validation.map(str::to_owned),
                deadline,
                lease: self.lease(deadline),
                operation: Some(self.path.clone()),
                event: identity.event().cloned(),
                policy: self.policy_of(identity),
                limits: backend.limits(),
            }),
        })
    }

    /// Returns the policy of a call.
    fn policy_of(&self, identity: &Identity) -> Policy {
        let mut policy = self.policy.clone();
        if identity.waits() && !self.has_on_in_progress {
            policy.on_in_progress = OnInProgress::Wait;
        }
        policy
    }

    fn store_when(&self) -> StoreWhen<'_> {
        StoreWhen {
            expression: self.store_when.as_ref(),
            memory_limit: self.memory_limit,
        }
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, &self.key_prefix)
    }
}

/// Compiles the expression of a setting, if it has one.
fn compile(
    setting: &str,
    expression: Option<&str>,
) -> Result<Option<Expression>, ConfigurationError> {
    let compiled = expression.map(|text| config::compile(setting, text));
    compiled.transpose()
}

#[cfg(test)]
mod tests;
