//! Checks the settings of a builder, and builds the operation.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8};

use http::{HeaderName, HeaderValue};
use idempotency_core::config::{
    self, ConfigurationError, HostVariables, KeyRequired, Settings, Variables,
};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::{CallerFaults, JsonPointer, check_caller_header};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::policy::{OnTimeout, Steps};

use super::{Caller, HttpOperationBuilder};
use crate::operation::caller::CallerRule;
use crate::operation::event::EventRule;
use crate::operation::fingerprint::FingerprintRule;
use crate::operation::key::KeyRule;
use crate::operation::{HttpOperation, Inner};
use crate::rules::{Unstorable, header_name, is_never_stored, storable_header};

/// What [`HttpOperationBuilder::build`] says if it has no rule for the caller.
const NO_CALLER: &str = "the caller is missing: a key belongs to one client. Without the caller in the key, client B can send the \
    key of client A and read A's response. Write `caller_header(\"..\")` for a header that the authenticating proxy sets, \
    `caller(\"requestContext.authorizer..\")` for a claim, or `caller_from(..)` for a value of your own; only where all \
    clients may see all responses, write `shared_by_all_callers()`";

/// What the rules of a builder are built for: an operation by itself, or the layer of a host.
#[doc(hidden)]
pub trait HttpTarget: Sized {
    /// What is built.
    type Built;

    /// Builds the rules.
    ///
    /// # Errors
    ///
    /// If a setting or a variable cannot be used.
    fn build(builder: HttpOperationBuilder<Self>) -> Result<Self::Built, Error>;
}

impl HttpTarget for () {
    type Built = HttpOperation;

    fn build(builder: HttpOperationBuilder<Self>) -> Result<HttpOperation, Error> {
        let path = builder.path().to_owned();
        let operation = builder.build_with(|path, settings, variables| {
            CompiledOperation::new(path, settings, variables).map(Arc::new)
        });
        let operation = operation.map_err(|error| {
            Error::new(ErrorKind::Configuration, path).with_detail(error.to_string())
        })?;
        for advice in operation.advice() {
            let operation = operation.compiled().key_prefix();
            tracing::warn!(operation, "{advice}");
        }
        Ok(operation)
    }
}

impl<T> HttpOperationBuilder<T> {
    /// Checks and compiles the rules.
    ///
    /// # Errors
    ///
    /// If no rule for the caller is set and [`shared_by_all_callers`](Self::shared_by_all_callers) was not called, if several
    /// are set, or if a setting or a variable cannot be used. Its kind is
    /// [`Configuration`](idempotency_core::error::ErrorKind::Configuration).
    pub fn build(self) -> Result<T::Built, Error>
    where
        T: HttpTarget,
    {
        T::build(self)
    }

    /// Returns what the rules are built for, and the rules without it.
    #[doc(hidden)]
    pub fn split_target(self) -> (T, HttpOperationBuilder) {
        let rules = HttpOperationBuilder {
            target: (),
            rules: self.rules,
        };
        (self.target, rules)
    }

    /// Returns the path of the operation.
    #[doc(hidden)]
    pub fn path(&self) -> &str {
        &self.rules.path
    }

    /// Returns the settings for the comparison of two operations under one prefix. Their `key` also holds the rules that make two
    /// requests the same call.
    #[doc(hidden)]
    pub fn identity(&self) -> Settings {
        let rules = &self.rules;
        let mut identity: Vec<String> = rules.caller.iter().map(Caller::to_string).collect();
        let key_header = rules.key_header.as_ref();
        identity.extend(key_header.map(|name| format!("key_header {name}")));
        if !rules.has_fingerprint {
            identity.push("without_fingerprint".to_owned());
        }
        if rules.uri_from.is_some() {
            identity.push("uri_from".to_owned());
        }
        let also = rules.fingerprint_also.as_ref();
        identity.extend(also.map(|part| format!("fingerprint_also {part}")));
        let without = rules.fingerprint_rfc8785.as_ref();
        identity.extend(without.map(|pointers| format!("fingerprint_rfc8785 {pointers:?}")));
        if rules.key_per_path {
            identity.push("key_per_path".to_owned());
        }
        let mut settings = rules.settings.clone();
        if !identity.is_empty() {
            let key = settings.key.unwrap_or_default();
            settings.key = Some(format!("{key} {}", identity.join(", ")).into());
        }
        settings
    }
}

impl HttpOperationBuilder {
    /// Builds the operation with `compile`, which compiles its settings: for a program that keeps a list of its operations.
    ///
    /// `compile` gets the path, the settings that the rules of HTTP need, and the variables.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), and the error of `compile`.
    #[doc(hidden)]
    pub fn build_with(
        self,
        compile: impl FnOnce(
            &str,
            &Settings,
            &Variables,
        ) -> Result<Arc<CompiledOperation>, ConfigurationError>,
    ) -> Result<HttpOperation, ConfigurationError> {
        let identity = self.identity();
        let written = self.rules;
        // Under a copied prefix two operations would get each other's responses, unless they are one on purpose.
        let path = (!identity.shares_key_prefix()).then_some(&written.path);
        let sameness = format!(
            "{:?}",
            (path, identity.key, identity.validate, identity.hash)
        );
        let variables = written.variables;
        let variables = variables
            .unwrap_or_else(|| std::env::vars_os().collect())
            .on(HostVariables::LAMBDA);
        let (caller, faults) = caller_rule(written.caller)?;
        let mut settings = written.settings;
        let key = match settings.key.take() {
            Some(expression) => KeyRule::Expression(config::compile("key", &expression)?),
            None => KeyRule::Header(match &written.key_header {
                Some(name) => header_name("key_header", name)?,
                None => HeaderName::from_static("idempotency-key"),
            }),
        };
        let has_prefix = settings.key_prefix.is_some();
        let part = settings.validate.take();
        let compared = Compared {
            part: part.as_deref(),
            also: written.fingerprint_also.as_deref(),
            rfc8785: written.fingerprint_rfc8785.as_deref(),
            is_off: !written.has_fingerprint,
        };
        let fingerprint = compared.rule()?;
        let has_steps = settings.steps.is_some_and(|steps| steps != Steps::Off);
        if has_steps && matches!(fingerprint, FingerprintRule::None) {
            return Err(ConfigurationError::new(
                "`steps` need a fingerprint, because recorded steps belong to one request: leave `without_fingerprint` out",
            ));
        }
        // A key that lacks a part is refused in each case.
        let key_required = match settings.key_required(&variables)? {
            KeyRequired::No => KeyRequired::No,
            _ => KeyRequired::All,
        };
        // What this crate hands to the operation: `{"caller": .., "path": .., "idempotency_key": .., "fingerprint": ..}`.
        settings.key = Some(Cow::Borrowed(match (&caller, written.key_per_path) {
            (CallerRule::Shared, false) => "idempotency_key",
            (CallerRule::Shared, true) => "[path, idempotency_key]",
            (_, false) => "[caller, idempotency_key]",
            (_, true) => "[caller, path, idempotency_key]",
        }));
        settings.validate =
            (!matches!(fingerprint, FingerprintRule::None)).then_some(Cow::Borrowed("fingerprint"));
        if settings.store_event.take().is_some() {
            return Err(ConfigurationError::new(
                "`store_event` cannot be used for HTTP: a request has credentials in its headers; leave it out",
            ));
        }
        // `off` also overrides the environment variable of this setting.
        settings.store_event = Some(Cow::Borrowed("off"));
        settings.key_required = Some(key_required);
        let mut rules = written.stored;
        for name in &written.stored_headers {
            rules.more_headers.push(storable_header(name)?);
        }
        let replayed_header = written.replayed_header.map(|name| {
            let parsed = header_name("replayed_header", &name)?;
            if is_never_stored(&parsed) {
                let remedy = "write a name of your own, such as `idempotent-replayed`";
                return Err(ConfigurationError::value("replayed_header", &name, remedy));
            }
            Ok(parsed)
        });
        let documentation = written.documentation.map(|url| {
            let is_url = !url.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic());
            let link = HeaderValue::try_from(format!("<{url}>; rel=\"describedby\""));
            let link = link.ok().filter(|_| is_url && !url.contains(['<', '>']));
            link.ok_or_else(|| {
                let remedy =
                    "write an address, such as `https://developer.example.com/idempotency`";
                ConfigurationError::value("documentation", &url, remedy)
            })
        });
        if written.methods.is_empty() {
            return Err(ConfigurationError::new(
                "`methods` is empty: no request would be protected; write at least one method",
            ));
        }
        let events = EventRule::of(&key, &caller, &fingerprint);
        let operation = compile(&written.path, &settings, &variables)?;
        let of_caller = faults.doubted.map(|why| format!("`caller`: {why}"));
        let advice = of_caller
            .into_iter()
            .chain(key.advice(operation.is_lock()))
            .collect();
        let holds = operation.policy().on_timeout != OnTimeout::Rerun;
        if holds && rules.on_unstorable == Unstorable::Release {
            return Err(ConfigurationError::new(
                "`on_unstorable` is `Release`, which frees the key of a request that was processed, and under `on_timeout = \"hold\"` it \
                 must not run again: write `Complete` or `Refuse`",
            ));
        }
        if let Some(status) = rules.first_result_not_stored().filter(|_| holds) {
            return Err(ConfigurationError::new(format!(
                "`stored_statuses` does not store {status}, and under `on_timeout = \"hold\"` a response that is not stored and has no \
                 `FailureReport` holds its key until an operator decides: store it, and add `FailureReport` to the extensions of a \
                 response whose handler had no effect, or write `on_timeout = \"rerun\"`"
            )));
        }
        let is_named = |name: &&str| variables.value(name).is_some();
        if !has_prefix
            && !["IDEMPOTENCY_KEY_PREFIX", HostVariables::LAMBDA.name]
                .iter()
                .any(is_named)
        {
            tracing::warn!(
                operation = operation.key_prefix(),
                "the key prefix begins with `local`, as in each server without a name: set IDEMPOTENCY_KEY_PREFIX or `key_prefix`, \
                 otherwise two services with one store get each other's responses"
            );
        }
        Ok(HttpOperation(Arc::new(Inner {
            sameness,
            caller,
            caller_headers: faults.headers.into_iter().collect(),
            advice,
            key,
            fingerprint,
            key_per_path: written.key_per_path,
            uri_from: written.uri_from,
            events,
            methods: written.methods,
            refuses_unstored: rules.on_unstorable == Unstorable::Refuse
                && settings.store_when.is_none(),
            rules,
            max_request_body: written.max_request_body,
            replayed_header: replayed_header.transpose()?,
            error_response: written.error_response,
            added_headers: written.added_headers,
            has_warned: AtomicU8::new(0),
            has_warned_of_path: AtomicBool::new(false),
            key_required: key_required == KeyRequired::All,
            documentation: documentation.transpose()?,
            memory_limit: Settings::memory_limit(&variables),
            operation,
        })))
    }
}

/// What must be equal in a duplicate, before it is checked.
struct Compared<'w> {
    part: Option<&'w str>,
    also: Option<&'w str>,
    rfc8785: Option<&'w [String]>,
    is_off: bool,
}

impl Compared<'_> {
    fn rule(self) -> Result<FingerprintRule, ConfigurationError> {
        match self {
            Self {
                part: None,
                also: None,
                rfc8785: Some(without),
                is_off: false,
            } => {
                let pointer = |text: &String| {
                    let remedy = "write the JSON pointer of a member that is not compared, such as `/context`";
                    let pointer = text.parse::<JsonPointer>();
                    pointer
                        .map_err(|_| ConfigurationError::value("fingerprint_rfc8785", text, remedy))
                };
                let without: Result<_, _> = without.iter().map(pointer).collect();
                Ok(FingerprintRule::Rfc8785(without?))
            }
            Self {
                rfc8785: Some(_), ..
            } => Err(ConfigurationError::new(
                "`fingerprint_rfc8785` says what is compared: leave `fingerprint` (`validate`), `fingerprint_also` and \
                 `without_fingerprint` out",
            )),
            Self {
                part: Some(text),
                also: None,
                ..
            } => Ok(FingerprintRule::Part(config::compile("fingerprint", text)?)),
            Self {
                part: None,
                also,
                is_off: false,
                ..
            } => {
                let also = also.map(|text| config::compile("fingerprint_also", text));
                Ok(FingerprintRule::Request(also.transpose()?))
            }
            Self {
                part: None,
                also: None,
                is_off: true,
                ..
            } => Ok(FingerprintRule::None),
            Self { also: Some(_), .. } => Err(ConfigurationError::new(
                "`fingerprint_also` adds to method, path, query and body, and they are not compared: leave it out, and write \
                 all that is compared as a list in `fingerprint` (`validate`)",
            )),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression(text) => write!(f, "caller {text}"),
            Self::Header(name) => write!(f, "caller_header {name}"),
            Self::Function(_) => f.write_str("caller_from"),
            Self::Shared => f.write_str("shared_by_all_callers"),
        }
    }
}

/// Returns the one rule for the caller, and what is known of it.
fn caller_rule(callers: Vec<Caller>) -> Result<(CallerRule, CallerFaults), ConfigurationError> {
    let mut callers = callers.into_iter();
    let Some(caller) = callers.next() else {
        return Err(ConfigurationError::new(NO_CALLER));
    };
    if callers.next().is_some() {
        return Err(ConfigurationError::new(
            "the caller is set twice: write one of `caller`, `caller_header`, `caller_from` and `shared_by_all_callers`; an \
             expression can select several values, such as `[requestContext.authorizer.tenant, requestContext.authorizer.sub]`",
        ));
    }
    let (setting, rule, faults) = match caller {
        Caller::Expression(text) => {
            let expression = config::compile("caller", &text)?;
            let faults = expression.as_caller();
            ("caller", CallerRule::Expression(expression), faults)
        }
        Caller::Header(name) => {
            let name = header_name("caller_header", &name)?;
            let faults = check_caller_header(name.as_str());
            ("caller_header", CallerRule::Header(name), faults)
        }
        Caller::Function(function) => {
            return Ok((CallerRule::Function(function), CallerFaults::default()));
        }
        Caller::Shared => return Ok((CallerRule::Shared, CallerFaults::default())),
    };
    match &faults.refused {
        Some(why) => Err(ConfigurationError::new(format!("`{setting}`: {why}"))),
        None => Ok((rule, faults)),
    }
}
