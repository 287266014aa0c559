//! What the attribute or the builder says, and how each setting is found.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use super::{ConfigurationError, KeyRequired, Variables};
use crate::cache::CacheLimits;
use crate::key::{HashAlgorithm, limit_for};
use crate::protocol::policy::{OnError, OnInProgress, OnTimeout, Policy};
use crate::record::TENANT_MARK;

/// What an attribute or a builder says of an operation; what it leaves out comes from the environment, then from the
/// defaults.
///
/// ```
/// use idempotency_core::config::{KeyRequired, Settings, Variables};
/// let settings = Settings { key_required: Some(KeyRequired::All), ..Settings::default() };
/// let variables = Variables::from_iter([("IDEMPOTENCY_KEY_REQUIRED".to_owned(), "false".to_owned())]);
/// assert_eq!(settings.key_required(&variables).unwrap(), KeyRequired::All);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The JMESPath expression of the key; the whole payload where it is left out.
    pub key: Option<Cow<'static, str>>,
    /// The JMESPath expression of the part that must be the same in a duplicate.
    pub validate: Option<Cow<'static, str>>,
    /// What a payload must have of its key.
    pub key_required: Option<KeyRequired>,
    /// The operation's name in its keys: the whole prefix.
    pub key_prefix: Option<Cow<'static, str>>,
    /// Whether other operations of the program may have the same `key_prefix`, because all of them are one operation.
    pub shared_key_prefix: Option<bool>,
    /// The digest of keys and validation.
    pub hash: Option<HashAlgorithm>,
    /// How long an answer is replayed.
    pub expires_after: Option<Duration>,
    /// How long a claim lasts where no deadline is known.
    pub lease: Option<Duration>,
    /// How long the requests before the handler may take together.
    pub store_timeout: Option<Duration>,
    /// How many answers are kept in memory; 0 is off.
    pub local_cache: Option<usize>,
    /// How many bytes of memory the kept responses may take; 0 is off.
    pub local_cache_bytes: Option<usize>,
    /// What a duplicate does while the first call still runs.
    pub on_in_progress: Option<OnInProgress>,
    /// What a claim whose lease ended without a completion is taken for.
    pub on_timeout: Option<OnTimeout>,
    /// What becomes of a claim whose handler failed.
    pub on_error: Option<OnError>,
    /// The JMESPath expression over the response that decides whether it is stored.
    pub store_when: Option<Cow<'static, str>>,
}

/// The longest prefix: with tenant and digest, an id must fit DynamoDB's 1024 bytes of a sort key.
const LONGEST_PREFIX: usize = 512;

impl Settings {
    /// Returns settings of which none is set.
    ///
    /// It is a constant function, so that an attribute can keep its settings in a static.
    ///
    /// ```
    /// # use idempotency_core::config::Settings;
    /// const NONE: Settings = Settings::new();
    /// assert_eq!(NONE, Settings::default());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self {
            key: None,
            validate: None,
            key_required: None,
            key_prefix: None,
            shared_key_prefix: None,
            hash: None,
            expires_after: None,
            lease: None,
            store_timeout: None,
            local_cache: None,
            local_cache_bytes: None,
            on_in_progress: None,
            on_timeout: None,
            on_error: None,
            store_when: None,
        }
    }

    /// Returns true if other operations of the program may have the same `key_prefix`.
    pub fn shares_key_prefix(&self) -> bool {
        self.shared_key_prefix == Some(true)
    }

    /// Returns what a payload must have of its key.
    ///
    /// ```
    /// # use idempotency_core::config::{KeyRequired, Settings, Variables};
    /// let variables = Variables::from_iter([("IDEMPOTENCY_KEY_REQUIRED".to_owned(), "all".to_owned())]);
    /// assert_eq!(Settings::default().key_required(&variables)?, KeyRequired::All);
    /// assert_eq!(Settings::default().key_required(&Variables::default())?, KeyRequired::No);
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// If the variable is neither `all` nor a truth value.
    pub fn key_required(&self, variables: &Variables) -> Result<KeyRequired, ConfigurationError> {
        let name = "IDEMPOTENCY_KEY_REQUIRED";
        choice(self.key_required, variables, name, KeyRequired::default())
    }

    /// The digest of keys and validation.
    ///
    /// ```
    /// # use idempotency_core::{config::{Settings, Variables}, key::HashAlgorithm};
    /// let variables = Variables::from_iter([("IDEMPOTENCY_HASH".to_owned(), "sha256".to_owned())]);
    /// assert_eq!(Settings::default().hash(&variables)?, HashAlgorithm::Sha256);
    /// assert_eq!(Settings::default().hash(&Variables::default())?, HashAlgorithm::Md5);
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// If the variable names no digest.
    pub fn hash(&self, variables: &Variables) -> Result<HashAlgorithm, ConfigurationError> {
        choice(self.hash, variables, "IDEMPOTENCY_HASH", HashAlgorithm::Md5)
    }

    /// How many answers are kept in memory, and how many bytes they may take; `None` where the cache is off.
    ///
    /// ```
    /// # use idempotency_core::{cache::CacheLimits, config::{Settings, Variables}};
    /// let settings = Settings { local_cache: Some(256), ..Settings::default() };
    /// let bounds = settings.local_cache(&Variables::default())?.unwrap();
    /// assert_eq!((bounds.records.get(), bounds.bytes), (256, CacheLimits::DEFAULT_BYTES));
    /// assert_eq!(Settings::default().local_cache(&Variables::default())?, None);
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// If one of the two variables is not a number.
    pub fn local_cache(
        &self,
        variables: &Variables,
    ) -> Result<Option<CacheLimits>, ConfigurationError> {
        let records = number(
            self.local_cache,
            variables,
            "IDEMPOTENCY_LOCAL_CACHE",
            "write a number of records, or 0 for none",
        )?;
        let bytes = number(
            self.local_cache_bytes,
            variables,
            "IDEMPOTENCY_LOCAL_CACHE_BYTES",
            "write a number of bytes, such as `8388608`, without a unit",
        )?
        .unwrap_or(CacheLimits::DEFAULT_BYTES);
        let records = records.and_then(NonZeroUsize::new);
        Ok(records.map(|records| CacheLimits { records, bytes }))
    }

    /// Returns how many bytes of memory one event's values, and what `key` and `validate` make of them, may take.
    ///
    /// The limit is a quarter of the function's memory, between 32 and 256 MiB; 64 MiB where `variables` do not tell the
    /// memory. An event beyond it is refused before the handler runs.
    ///
    /// ```
    /// # use idempotency_core::config::{Settings, Variables};
    /// let name = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE".to_owned();
    /// let variables = Variables::from_iter([(name, "512".to_owned())]);
    /// assert_eq!(Settings::memory_limit(&variables), 128 * 1024 * 1024);
    /// assert_eq!(Settings::memory_limit(&Variables::default()), 64 * 1024 * 1024);
    /// ```
    #[must_use]
    pub fn memory_limit(variables: &Variables) -> usize {
        let memory = variables.value("AWS_LAMBDA_FUNCTION_MEMORY_SIZE");
        limit_for(memory.and_then(|mib| mib.parse().ok()))
    }

    /// Returns the operation's name in its keys: the setting, or `{application}.{path of the operation in dots}`.
    ///
    /// The application is `IDEMPOTENCY_KEY_PREFIX`, else the name of the Lambda function. So the variable can be the same
    /// for all functions of a template, and no two operations get one prefix by it.
    ///
    /// ```
    /// # use idempotency_core::config::{Settings, Variables};
    /// let variables = Variables::from_iter([("AWS_LAMBDA_FUNCTION_NAME".to_owned(), "shop".to_owned())]);
    /// assert_eq!(Settings::default().key_prefix(&variables, "orders::place")?, "shop.orders.place");
    /// let named = Variables::from_iter([("IDEMPOTENCY_KEY_PREFIX".to_owned(), "my-shop".to_owned())]);
    /// assert_eq!(Settings::default().key_prefix(&named, "orders::place")?, "my-shop.orders.place");
    /// let settings = Settings { key_prefix: Some("orders".into()), ..Settings::default() };
    /// assert_eq!(settings.key_prefix(&variables, "orders::place")?, "orders");
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// If it is empty, too long, or could be taken for a tenant's.
    pub fn key_prefix(
        &self,
        variables: &Variables,
        operation: &str,
    ) -> Result<String, ConfigurationError> {
        let variable = "IDEMPOTENCY_KEY_PREFIX";
        let application = variables.value(variable);
        if let Some(application) = application {
            check_prefix(variable, application)?;
        }
        let (name, prefix) = match &self.key_prefix {
            Some(prefix) => ("key_prefix", prefix.clone().into_owned()),
            None => {
                let application = application
                    .or_else(|| variables.value("AWS_LAMBDA_FUNCTION_NAME"))
                    .unwrap_or("local");
                let path = operation.replace("::", ".");
                ("the default key prefix", format!("{application}.{path}"))
            }
        };
        check_prefix(name, &prefix).map(|()| prefix)
    }

    /// The policy that settings, variables and defaults make together.
    ///
    /// ```
    /// # use idempotency_core::{config::{Settings, Variables}, protocol::policy::OnTimeout};
    /// let settings = Settings { on_timeout: Some(OnTimeout::Hold), ..Settings::default() };
    /// let variables = Variables::from_iter([("IDEMPOTENCY_EXPIRES_AFTER".to_owned(), "1day".to_owned())]);
    /// let policy = settings.policy(&variables)?;
    /// assert_eq!(policy.on_timeout, OnTimeout::Hold);
    /// assert_eq!(policy.expires_after.as_secs(), 86_400);
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// If a variable names no policy or is no duration, or a duration is too short.
    pub fn policy(&self, variables: &Variables) -> Result<Policy, ConfigurationError> {
        let default = Policy::default();
        Ok(Policy {
            on_in_progress: choice(
                self.on_in_progress,
                variables,
                "IDEMPOTENCY_ON_IN_PROGRESS",
                default.on_in_progress,
            )?,
            on_timeout: choice(
                self.on_timeout,
                variables,
                "IDEMPOTENCY_ON_TIMEOUT",
                default.on_timeout,
            )?,
            on_error: choice(
                self.on_error,
                variables,
                "IDEMPOTENCY_ON_ERROR",
                default.on_error,
            )?,
            expires_after: duration(
                self.expires_after,
                variables,
                ("expires_after", "IDEMPOTENCY_EXPIRES_AFTER"),
                default.expires_after,
                Duration::from_secs(1),
            )?,
            lease: duration(
                self.lease,
                variables,
                ("lease", "IDEMPOTENCY_LEASE"),
                default.lease,
                Duration::from_millis(1),
            )?,
            store_timeout: duration(
                self.store_timeout,
                variables,
                ("store_timeout", "IDEMPOTENCY_STORE_TIMEOUT"),
                default.store_timeout,
                Duration::from_millis(1),
            )?,
        })
    }

    /// Returns the settings that are used instead of a variable that is set, each with the variable's name.
    ///
    /// ```
    /// # use idempotency_core::config::{Settings, Variables};
    /// # use std::time::Duration;
    /// let settings = Settings { lease: Some(Duration::from_secs(5)), ..Settings::default() };
    /// let variables = Variables::from_iter([("IDEMPOTENCY_LEASE".to_owned(), "1m".to_owned())]);
    /// assert_eq!(settings.overridden(&variables), [("lease", "IDEMPOTENCY_LEASE")]);
    /// ```
    pub fn overridden(&self, variables: &Variables) -> Vec<(&'static str, &'static str)> {
        // Each field by name, so that a new setting cannot be forgotten here.
        let Self {
            key: _,
            validate: _,
            store_when: _,
            shared_key_prefix: _,
            key_required,
            key_prefix,
            hash,
            expires_after,
            lease,
            store_timeout,
            local_cache,
            local_cache_bytes,
            on_in_progress,
            on_timeout,
            on_error,
        } = self;
        let of_both = [
            (
                "key_required",
                "IDEMPOTENCY_KEY_REQUIRED",
                key_required.is_some(),
            ),
            ("key_prefix", "IDEMPOTENCY_KEY_PREFIX", key_prefix.is_some()),
            ("hash", "IDEMPOTENCY_HASH", hash.is_some()),
            (
                "expires_after",
                "IDEMPOTENCY_EXPIRES_AFTER",
                expires_after.is_some(),
            ),
            ("lease", "IDEMPOTENCY_LEASE", lease.is_some()),
            (
                "store_timeout",
                "IDEMPOTENCY_STORE_TIMEOUT",
                store_timeout.is_some(),
            ),
            (
                "local_cache",
                "IDEMPOTENCY_LOCAL_CACHE",
                local_cache.is_some(),
            ),
            (
                "local_cache_bytes",
                "IDEMPOTENCY_LOCAL_CACHE_BYTES",
                local_cache_bytes.is_some(),
            ),
            (
                "on_in_progress",
                "IDEMPOTENCY_ON_IN_PROGRESS",
                on_in_progress.is_some(),
            ),
            ("on_timeout", "IDEMPOTENCY_ON_TIMEOUT", on_timeout.is_some()),
            ("on_error", "IDEMPOTENCY_ON_ERROR", on_error.is_some()),
        ];
        let overridden = of_both
            .into_iter()
            .filter(|(_, variable, is_set)| *is_set && variables.value(variable).is_some());
        overridden
            .map(|(setting, variable, _)| (setting, variable))
            .collect()
    }

    /// Whether protection is switched off for this process.
    ///
    /// ```
    /// # use idempotency_core::config::{Settings, Variables};
    /// let variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "1".to_owned())]);
    /// assert!(Settings::disabled(&variables)?);
    /// assert!(!Settings::disabled(&Variables::default())?);
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// If one of the two variables is not a truth value.
    pub fn disabled(variables: &Variables) -> Result<bool, ConfigurationError> {
        let ours = truth(variables, "IDEMPOTENCY_DISABLED")?;
        let powertools = truth(variables, "POWERTOOLS_IDEMPOTENCY_DISABLED")?;
        Ok(ours.or(powertools).unwrap_or(false))
    }
}

fn check_prefix(name: &str, prefix: &str) -> Result<(), ConfigurationError> {
    let remedy = if prefix.is_empty() {
        "write a name for this operation"
    } else if prefix.len() > LONGEST_PREFIX {
        "write at most 512 bytes"
    } else if prefix.contains(TENANT_MARK) {
        "leave out `#tenant=`, which marks a tenant's keys"
    } else {
        return Ok(());
    };
    Err(ConfigurationError::value(name, prefix, remedy))
}

fn truth(variables: &Variables, name: &str) -> Result<Option<bool>, ConfigurationError> {
    let Some(text) = variables.value(name) else {
        return Ok(None);
    };
    match truth_of(text) {
        Some(truth) => Ok(Some(truth)),
        None => Err(ConfigurationError::value(
            name,
            text,
            "write `true` or `false`",
        )),
    }
}

/// Reads a truth value as Python's `strtobool` does.
pub(super) fn truth_of(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Some(true),
        "0" | "n" | "no" | "f" | "false" | "off" => Some(false),
        _ => None,
    }
}

fn number(
    setting: Option<usize>,
    variables: &Variables,
    name: &str,
    remedy: &'static str,
) -> Result<Option<usize>, ConfigurationError> {
    let of_variable = read(variables, name, |text| text.parse().map_err(|_| remedy))?;
    Ok(setting.or(of_variable))
}

fn choice<T>(
    setting: Option<T>,
    variables: &Variables,
    name: &str,
    default: T,
) -> Result<T, ConfigurationError>
where
    T: FromStr<Err: std::fmt::Display>,
{
    let of_variable = read(variables, name, str::parse)?;
    Ok(setting.or(of_variable).unwrap_or(default))
}

/// Reads a variable, where it is set. This comes before any setting that is used instead: a value that cannot be understood
/// is a mistake wherever it stands, and the next operation may use it.
fn read<T, E: std::fmt::Display>(
    variables: &Variables,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, ConfigurationError> {
    let Some(text) = variables.value(name) else {
        return Ok(None);
    };
    match parse(text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(ConfigurationError::value(name, text, error)),
    }
}

fn duration(
    setting: Option<Duration>,
    variables: &Variables,
    (setting_name, variable): (&str, &str),
    default: Duration,
    shortest: Duration,
) -> Result<Duration, ConfigurationError> {
    let of_variable = read(variables, variable, |text| {
        let value = humantime::parse_duration(text)
            .map_err(|_| "write a duration such as `30s`, `15m` or `1h`".to_owned())?;
        fits(value, shortest).map(|()| value)
    })?;
    let Some(value) = setting else {
        return Ok(of_variable.unwrap_or(default));
    };
    match fits(value, shortest) {
        Ok(()) => Ok(value),
        Err(remedy) => Err(ConfigurationError::value(
            setting_name,
            &format!("{value:?}"),
            remedy,
        )),
    }
}

/// Refuses a duration that is too short, or not counted in the units of `shortest`.
fn fits(value: Duration, shortest: Duration) -> Result<(), String> {
    if value < shortest {
        return Err(format!("write at least `{shortest:?}`"));
    }
    if shortest.subsec_nanos() == 0 && value.subsec_nanos() != 0 {
        return Err("write whole seconds".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
