//! The settings of an operation, and how each value is found: setting, environment variable, default.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::time::Duration;

use idempotency_expression::{LONGEST_PREFIX, SETTINGS, SettingRow, refuse_prefix};

use super::value::{choice, duration, number, truth, truth_or};
use super::{ConfigurationError, KeyRequired, Variables};
use crate::cache::CacheLimits;
use crate::key::{HashAlgorithm, limit_for};
use crate::protocol::Lease;
use crate::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Policy, Steps,
};

type Text = Cow<'static, str>;

macro_rules! fields {
    ($($name:ident: $type:ident {
        text: $summary:literal $($text:literal)*, example: $example:literal, check: $check:expr, variable: $variable:expr,
        default: $default:literal,
    })+) => {
        /// The settings of an operation, from its attribute or builder.
        ///
        /// A setting that is `None` comes from its environment variable, then from its default.
        ///
        /// # Examples
        ///
        /// ```
        /// use idempotency_core::config::{KeyRequired, Settings, Variables};
        /// let settings = Settings { key_required: Some(KeyRequired::All), ..Settings::default() };
        /// let variables = Variables::from_iter([("IDEMPOTENCY_KEY_REQUIRED".to_owned(), "false".to_owned())]);
        /// assert_eq!(settings.key_required(&variables).unwrap(), KeyRequired::All);
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Settings {
            $(
                #[doc = concat!("Sets ", $summary)]
                pub $name: Option<$type>,
            )+
        }

        impl Settings {
            /// Returns settings that are all `None`.
            ///
            /// This function is `const`, so that an attribute can keep its settings in a static.
            #[must_use]
            pub const fn new() -> Self {
                Self { $($name: None),+ }
            }

            /// Returns whether each setting is `Some`, in the order of the table.
            fn are_set(&self) -> [bool; SETTINGS.len()] {
                [$(self.$name.is_some()),+]
            }
        }
    };
}
idempotency_expression::settings!(fields);

impl Settings {
    /// Returns true if other operations of the program may have the same `key_prefix`.
    pub fn shares_key_prefix(&self) -> bool {
        self.shared_key_prefix == Some(true)
    }

    /// Returns how much of the key a payload must have: nothing, at least one part, or every part.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable is neither `all` nor a truth value.
    pub fn key_required(&self, variables: &Variables) -> Result<KeyRequired, ConfigurationError> {
        let row = const { SettingRow::in_code("key_required") };
        choice(self.key_required, variables, row, KeyRequired::default())
    }

    /// Returns the hash algorithm of keys and of the validated part.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable does not name a hash algorithm.
    pub fn hash(&self, variables: &Variables) -> Result<HashAlgorithm, ConfigurationError> {
        let row = const { SettingRow::in_code("hash") };
        choice(self.hash, variables, row, HashAlgorithm::Md5)
    }

    /// Returns the limits of the local cache; `None` if the cache is off.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the two variables is not a number.
    pub fn local_cache(
        &self,
        variables: &Variables,
    ) -> Result<Option<CacheLimits>, ConfigurationError> {
        let records = number(
            self.local_cache,
            variables,
            const { SettingRow::in_code("local_cache") },
            "write a number of records, or 0 for none",
        )?;
        let bytes = number(
            self.local_cache_bytes,
            variables,
            const { SettingRow::in_code("local_cache_bytes") },
            "write a number of bytes, such as `8388608`, without a unit",
        )?
        .unwrap_or(CacheLimits::DEFAULT_BYTES);
        let records = records.and_then(NonZeroUsize::new);
        Ok(records.map(|records| CacheLimits { records, bytes }))
    }

    /// Returns how many bytes of memory one event may use: for its values, and for the values that `key` and `validate`
    /// create.
    ///
    /// The limit is a quarter of the memory that the host says, at least 32 and at most 256 MiB; 64 MiB if it says none. An event beyond the limit is refused before the handler runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::config::{HostVariables, Settings, Variables};
    /// let host = HostVariables { name: "NAME", memory: "MIB" };
    /// let variables = Variables::from_iter([("MIB".to_owned(), "512".to_owned())]).on(host);
    /// assert_eq!(Settings::memory_limit(&variables), 128 * 1024 * 1024);
    /// assert_eq!(Settings::memory_limit(&Variables::default()), 64 * 1024 * 1024);
    /// ```
    #[must_use]
    pub fn memory_limit(variables: &Variables) -> usize {
        let memory = variables
            .host()
            .and_then(|host| variables.value(host.memory));
        limit_for(memory.and_then(|mib| mib.parse().ok()))
    }

    /// Returns the prefix of the operation's keys: the setting, or `{application}.{path of the operation, with dots}`.
    ///
    /// The application is the variable `IDEMPOTENCY_KEY_PREFIX`, or else the name that the host gave the program. So the
    /// variable can be the same for all programs of a template, and still each operation has a prefix of its own.
    ///
    /// # Errors
    ///
    /// Returns an error if the prefix is empty, longer than 512 bytes, or has white space, characters that are not shown, or `#`.
    pub fn key_prefix(
        &self,
        variables: &Variables,
        operation: &str,
    ) -> Result<String, ConfigurationError> {
        let variable = const { SettingRow::in_code("key_prefix").variable() };
        let application = variables.value(variable);
        if let Some(application) = application {
            check_prefix(variable, application)?;
        }
        if let Some(prefix) = &self.key_prefix {
            check_prefix("key_prefix", prefix)?;
            return Ok(prefix.clone().into_owned());
        }
        let path = operation.replace("::", ".");
        let name = match (application, variables.host_name()) {
            (Some(application), _) => application,
            (None, Some((variable, name))) => {
                check_prefix(variable, name)?;
                name
            }
            (None, None) => "local",
        };
        check_prefix("the path of the operation", &without_raw_marks(&path))?;
        let prefix = format!("{name}.{path}");
        if prefix.len() <= LONGEST_PREFIX {
            return Ok(prefix);
        }
        let remedy = "write a shorter name: with the path of the operation, the key prefix has more than 512 bytes";
        Err(match application {
            Some(application) => ConfigurationError::value(variable, application, remedy),
            None => ConfigurationError::value("the path of the operation", &path, remedy),
        })
    }

    /// Returns what the record keeps of the event: `all`, an expression, or `None` for nothing.
    pub fn store_event<'a>(&'a self, variables: &'a Variables) -> Option<&'a str> {
        let setting = self.store_event.as_deref();
        let value = setting
            .or_else(|| variables.value(const { SettingRow::in_code("store_event").variable() }));
        value.filter(|value| !value.eq_ignore_ascii_case("off"))
    }

    /// Returns the policy, from settings, variables and defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if a variable is not a policy, a truth value or a duration, or if a duration is too short. Also if
    /// `on_timeout` is `hold` and `on_store_error` is `run-unprotected`, which contradict each other.
    pub fn policy(&self, variables: &Variables) -> Result<Policy, ConfigurationError> {
        /// Finds a setting of the policy, by its name and its default.
        macro_rules! found {
            ($find:ident, $name:ident, $default:expr) => {
                $find(
                    self.$name,
                    variables,
                    const { SettingRow::in_code(stringify!($name)) },
                    $default.$name,
                )?
            };
        }
        let default = Policy::default();
        let policy = Policy {
            lookup: found!(choice, lookup, default),
            on_in_progress: found!(choice, on_in_progress, default),
            on_timeout: found!(choice, on_timeout, default),
            on_error: found!(choice, on_error, default),
            on_store_error: found!(choice, on_store_error, default),
            circuit_breaker: found!(truth_or, circuit_breaker, default),
            // No variable: the code of the handler decides whether it has steps.
            steps: self.steps.unwrap_or(default.steps),
            expires_after: found!(duration, expires_after, default),
            store_timeout: found!(duration, store_timeout, default),
        };
        if policy.on_timeout == OnTimeout::Hold
            && policy.on_store_error == OnStoreError::RunUnprotected
        {
            let variable = const { SettingRow::in_code("on_store_error").variable() };
            let (name, value) = match (self.on_store_error, variables.value(variable)) {
                (None, Some(value)) => (variable, value),
                _ => ("on_store_error", "run-unprotected"),
            };
            return Err(ConfigurationError::value(
                name,
                value,
                "it contradicts `on_timeout = \"hold\"`, which refuses a second run until an operator decides: write \
                 `on_store_error = \"fail\"` on this operation, or `on_timeout = \"rerun\"`",
            ));
        }
        Ok(policy)
    }

    /// Returns how long a claim lasts if no deadline is known, and whether its run renews it.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting or a variable is no duration or truth value, or too short. Also if the lease is renewed on a host
    /// that freezes processes.
    pub(crate) fn lease(&self, variables: &Variables) -> Result<Lease, ConfigurationError> {
        let row = const { SettingRow::in_code("renew") };
        let renews = truth_or(self.renew, variables, row, false)?;
        let default = if renews {
            Lease::DEFAULT_RENEWED_LENGTH
        } else {
            Lease::DEFAULT_LENGTH
        };
        let of_lease = const { SettingRow::in_code("lease") };
        let length = duration(self.lease, variables, of_lease, default)?;
        let of_ceiling = const { SettingRow::in_code("renew_at_most") };
        let ceiling = self.renew_at_most;
        let at_most = duration(ceiling, variables, of_ceiling, Lease::DEFAULT_AT_MOST)?;
        if !renews {
            return Ok(Lease::For(length));
        }
        if let Some((variable, _)) = variables.host_name() {
            let name = written_in(self.renew.is_some(), row);
            let remedy = format!(
                "a function is frozen between its events and cannot renew a lease, which ends with its deadline ({variable} is set): leave \
                 it out, and for code that also runs on a server set IDEMPOTENCY_RENEW there; if this is a server, remove {variable}"
            );
            return Err(ConfigurationError::value(name, "true", remedy));
        }
        let refused = |is_setting, row, value: Duration, remedy: &str| {
            let value = humantime::format_duration(value).to_string();
            let name = written_in(is_setting, row);
            Err(ConfigurationError::value(name, &value, remedy))
        };
        if length < Lease::SHORTEST_RENEWED {
            let remedy =
                "with `renew` write at least `3s`, so that there is time for several tries";
            return refused(self.lease.is_some(), of_lease, length, remedy);
        }
        if at_most < length {
            let length = humantime::format_duration(length);
            let remedy = format!("write at least the length of the `lease`, `{length}`");
            return refused(ceiling.is_some(), of_ceiling, at_most, &remedy);
        }
        Ok(Lease::Renewed { length, at_most })
    }

    /// Returns the settings that override a variable that is also set, each with the variable's name.
    pub fn overridden(&self, variables: &Variables) -> Vec<(&'static str, &'static str)> {
        let set = SETTINGS.iter().zip(self.are_set());
        set.filter(|(_, is_set)| *is_set)
            .filter_map(|(row, _)| Some((row.name, row.variable?)))
            .filter(|(_, variable)| variables.value(variable).is_some())
            .collect()
    }

    /// Returns true if numbers in keys and validated parts are those of Python, for a table that is shared with it.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable is not a truth value.
    pub fn python_numbers(variables: &Variables) -> Result<bool, ConfigurationError> {
        Ok(truth(variables, "IDEMPOTENCY_PYTHON_NUMBERS")?.unwrap_or(false))
    }

    /// Returns true if protection is switched off for this process.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the two variables is not a truth value.
    pub fn disabled(variables: &Variables) -> Result<bool, ConfigurationError> {
        let ours = truth(variables, "IDEMPOTENCY_DISABLED")?;
        let powertools = truth(variables, "POWERTOOLS_IDEMPOTENCY_DISABLED")?;
        Ok(ours.or(powertools).unwrap_or(false))
    }
}

/// Returns the name of the setting, or that of its variable if the setting is not written in code.
fn written_in(is_setting: bool, row: &'static SettingRow) -> &'static str {
    if is_setting { row.name } else { row.variable() }
}

/// Refuses a text that is no key prefix.
fn check_prefix(name: &str, prefix: &str) -> Result<(), ConfigurationError> {
    match refuse_prefix(prefix) {
        None => Ok(()),
        Some(remedy) => Err(ConfigurationError::value(name, prefix, remedy)),
    }
}

/// Returns the path of an operation without `r#` of raw names: a module `r#type` has this mark in its path.
fn without_raw_marks(path: &str) -> String {
    let of_name = |each: char| each.is_alphanumeric() || each == '_';
    let segments = path.split('.').map(|segment| {
        let raw = segment.strip_prefix("r#");
        raw.filter(|name| name.chars().all(of_name))
            .unwrap_or(segment)
    });
    segments.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use idempotency_expression::{Check, HostVariables};

    use super::*;
    use crate::example::shared::{settings, variable as with};
    use crate::operation::CompiledOperation;

    const HOST: HostVariables = HostVariables {
        name: "HOST_NAME",
        memory: "HOST_MEMORY",
    };

    fn nothing() -> Variables {
        Variables::default()
    }

    /// Returns the policy under this variable and no setting.
    fn policy(name: &str, value: &str) -> Policy {
        Settings::default().policy(&with(name, value)).unwrap()
    }

    #[test]
    fn a_setting_overrides_its_variable_and_a_variable_overrides_the_default() {
        let variables = with("IDEMPOTENCY_EXPIRES_AFTER", "30m");
        let set = settings(|it| it.expires_after = Some(Duration::from_secs(5)));
        for (settings, variables, seconds) in [
            (&set, &variables, 5),
            (&Settings::default(), &variables, 30 * 60),
            (&Settings::default(), &nothing(), 60 * 60),
        ] {
            let policy = settings.policy(variables).unwrap();
            assert_eq!(policy.expires_after.as_secs(), seconds);
        }
    }

    #[test]
    fn an_invalid_variable_is_named_with_its_value_and_what_is_accepted() {
        for expected in [
            "IDEMPOTENCY_ON_TIMEOUT is `retry`: write one of `rerun`, `hold`",
            "IDEMPOTENCY_ON_ERROR is `keep`: write one of `release`, `record`",
            "IDEMPOTENCY_ON_IN_PROGRESS is `block`: write one of `reject`, `wait`",
            "IDEMPOTENCY_LOOKUP is `read_first`: write one of `claim-first`, `read-first`",
            "IDEMPOTENCY_LEASE is `soon`: write a duration such as `30s`, `15m` or `1h`",
            // A month, by the letter.
            "IDEMPOTENCY_LEASE is `15M`: write a duration such as `30s`, `15m` or `1h`",
            "IDEMPOTENCY_EXPIRES_AFTER is `10ms`: write at least `1s`",
            "IDEMPOTENCY_ON_STORE_ERROR is `run`: write one of `fail`, `run-unprotected`",
            "IDEMPOTENCY_CIRCUIT_BREAKER is `5`: write `true` or `false`",
            "IDEMPOTENCY_LOCAL_CACHE is `many`: write a number of records, or 0 for none",
            // Refused although the cache is off, because the value is wrong once the cache is switched on.
            "IDEMPOTENCY_LOCAL_CACHE_BYTES is `8MiB`: write a number of bytes, such as `8388608`, without a unit",
        ] {
            let name_and_value = expected.split_once("`: ").unwrap().0;
            let (name, value) = name_and_value.split_once(" is `").unwrap();
            let compiled = CompiledOperation::new("shop", &Settings::default(), &with(name, value));
            assert_eq!(compiled.unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_case_of_a_choice_does_not_matter() {
        let holds = policy("IDEMPOTENCY_ON_TIMEOUT", "Hold");
        assert_eq!(holds.on_timeout, OnTimeout::Hold);
        let records = policy("IDEMPOTENCY_ON_ERROR", "RECORD");
        assert_eq!(records.on_error, OnError::Record);
    }

    #[test]
    fn a_store_that_fails_refuses_calls_and_no_breaker_is_asked_unless_a_setting_says_so() {
        let default = Settings::default().policy(&nothing()).unwrap();
        assert_eq!(default.on_store_error, OnStoreError::Fail);
        assert!(!default.circuit_breaker);
        let runs = policy("IDEMPOTENCY_ON_STORE_ERROR", "Run-Unprotected");
        assert_eq!(runs.on_store_error, OnStoreError::RunUnprotected);
        let on = with("IDEMPOTENCY_CIRCUIT_BREAKER", "on");
        assert!(Settings::default().policy(&on).unwrap().circuit_breaker);
        let off = settings(|it| it.circuit_breaker = Some(false));
        assert!(!off.policy(&on).unwrap().circuit_breaker);
    }

    #[test]
    fn an_operation_that_holds_cannot_run_unprotected() {
        let mut holds = settings(|it| it.on_timeout = Some(OnTimeout::Hold));
        let unprotected = with("IDEMPOTENCY_ON_STORE_ERROR", "run-unprotected");
        let error = holds.policy(&unprotected).unwrap_err();
        assert!(error.is_about_variable(), "{error}");
        let text = error.to_string();
        assert!(text.contains("write `on_store_error = \"fail\"`"), "{text}");
        holds.on_store_error = Some(OnStoreError::Fail);
        assert!(holds.policy(&unprotected).is_ok());
    }

    #[test]
    fn a_renewed_lease_is_short_and_each_time_of_it_is_checked() {
        let seconds = Duration::from_secs;
        let renews = |set: fn(&mut Settings)| {
            let renews = settings(|it| it.renew = Some(true));
            let mut settings = renews;
            set(&mut settings);
            settings.lease(&nothing())
        };
        let lease = |length, at_most| {
            let (length, at_most) = (seconds(length), seconds(at_most));
            Ok(Lease::Renewed { length, at_most })
        };
        assert_eq!(renews(|_| {}), lease(30, 3_600));
        assert_eq!(
            renews(|it| it.lease = Some(Duration::from_secs(3))),
            lease(3, 3_600)
        );
        let both = renews(|it| {
            it.lease = Some(Duration::from_secs(60));
            it.renew_at_most = Some(Duration::from_secs(60));
        });
        assert_eq!(both, lease(60, 60));
        let off = Settings::default().lease(&nothing());
        assert_eq!(off, Ok(Lease::For(seconds(15 * 60))));
        let short = renews(|it| it.lease = Some(Duration::from_millis(2_999)));
        assert_eq!(
            short.unwrap_err().to_string(),
            "lease is `2s 999ms`: with `renew` write at least `3s`, so that there is time for several tries"
        );
        let below = renews(|it| it.renew_at_most = Some(Duration::from_secs(29)));
        assert_eq!(
            below.unwrap_err().to_string(),
            "renew_at_most is `29s`: write at least the length of the `lease`, `30s`"
        );
    }

    #[test]
    fn no_lease_is_renewed_on_a_host_that_freezes_processes() {
        let on_host = |renew: &str| {
            let both = [("HOST_NAME", "shop"), ("IDEMPOTENCY_RENEW", renew)];
            let both = both.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Variables::from_iter(both).on(HOST)
        };
        let error = Settings::default().lease(&on_host("true")).unwrap_err();
        assert!(error.is_about_variable());
        let text = "IDEMPOTENCY_RENEW is `true`: a function is frozen between its events and cannot renew a lease, which ends with its \
                    deadline (HOST_NAME is set): leave it out, and for code that also runs on a server set IDEMPOTENCY_RENEW there; if this is a \
                    server, remove HOST_NAME";
        assert_eq!(error.to_string(), text);
        let off = settings(|it| it.renew = Some(false));
        assert!(off.lease(&on_host("true")).is_ok());
        assert!(Settings::default().lease(&on_host("false")).is_ok());
    }

    #[test]
    fn truth_values_are_those_of_the_python_library() {
        for (texts, expected) in [
            (["true", "1", "yes", "ON", "t", "Y"], true),
            (["false", "0", "no", "OFF", "f", "n"], false),
        ] {
            for text in texts {
                for name in ["IDEMPOTENCY_DISABLED", "POWERTOOLS_IDEMPOTENCY_DISABLED"] {
                    assert_eq!(Settings::disabled(&with(name, text)), Ok(expected));
                }
            }
        }
        assert!(Settings::disabled(&with("IDEMPOTENCY_DISABLED", "banana")).is_err());
    }

    #[test]
    fn the_default_prefix_is_the_function_and_the_path_of_the_operation() {
        let variables = with("HOST_NAME", "shop-prod");
        let prefix = Settings::default().key_prefix(&variables, "shop::orders::place");
        assert_eq!(prefix.unwrap(), "local.shop.orders.place", "no host");
        let variables = variables.on(HOST);
        let prefix = Settings::default().key_prefix(&variables, "shop::orders::place");
        assert_eq!(prefix.unwrap(), "shop-prod.shop.orders.place");
    }

    #[test]
    fn the_prefix_variable_names_the_application_and_each_operation_keeps_its_own_prefix() {
        let globals = with("IDEMPOTENCY_KEY_PREFIX", "shop");
        let prefix = |path| Settings::default().key_prefix(&globals, path).unwrap();
        assert_eq!(prefix("orders::charge"), "shop.orders.charge");
        assert_ne!(prefix("orders::charge"), prefix("orders::ship"));
        let whole = settings(|it| it.key_prefix = Some("charge".into()));
        let prefix = whole.key_prefix(&globals, "orders::charge");
        assert_eq!(prefix.unwrap(), "charge");
        let tenant = with("IDEMPOTENCY_KEY_PREFIX", "a#tenant=b");
        assert!(Settings::default().key_prefix(&tenant, "charge").is_err());
        let in_path = Settings::default().key_prefix(&globals, "a#tenant=b");
        assert!(in_path.is_err(), "the path would have the mark of a tenant");
    }

    #[test]
    fn a_prefix_that_the_path_makes_too_long_is_an_error_about_the_variable() {
        let long = |bytes| with("IDEMPOTENCY_KEY_PREFIX", &"a".repeat(bytes));
        let prefix = |bytes| Settings::default().key_prefix(&long(bytes), "shop::charge");
        assert_eq!(prefix(500).unwrap().len(), 512);
        let error = prefix(501).unwrap_err();
        assert!(error.is_about_variable(), "{error}");
        let text = error.to_string();
        assert!(text.ends_with("the key prefix has more than 512 bytes"));
    }

    #[test]
    fn a_prefix_that_no_command_can_name_is_refused_wherever_it_comes_from() {
        let error = |text: &str, path: &str, variable: Option<&str>| {
            let settings =
                settings(|it| it.key_prefix = (!text.is_empty()).then(|| text.to_owned().into()));
            let variables = variable
                .map_or_else(nothing, |name| with(name, "a\u{9b}2J b"))
                .on(HOST);
            let error = settings.key_prefix(&variables, path).unwrap_err();
            error.to_string()
        };
        let so = |name: &str, shown: &str, instead: &str| {
            format!(
                "{name} is `{shown}`: it has {instead}; a prefix has no white space, no hidden character and no `#`"
            )
        };
        assert_eq!(
            error("shop#tenant=a", "shop", None),
            so("key_prefix", "shop#tenant=a", "`#`: write `shop.tenant=a`")
        );
        assert_eq!(
            error("shop\n", "shop", None),
            so("key_prefix", "shop\\n", "U+000A: write `shop`")
        );
        let path = so(
            "the path of the operation",
            "place order",
            "U+0020: write `place.order`",
        );
        assert_eq!(error("", "place order", None), path);
        let shown = "a\\u009b2J b";
        let of_variable = so("IDEMPOTENCY_KEY_PREFIX", shown, "U+009B: write `a.2J.b`");
        for text in ["", "shop"] {
            assert_eq!(
                error(text, "shop", Some("IDEMPOTENCY_KEY_PREFIX")),
                of_variable
            );
        }
        let function = so(HOST.name, shown, "U+009B: write `a.2J.b`");
        assert_eq!(error("", "shop", Some(HOST.name)), function);
    }

    #[test]
    fn a_module_with_a_raw_name_keeps_its_mark_in_the_default_prefix() {
        let prefix = |path| Settings::default().key_prefix(&nothing(), path);
        assert_eq!(
            prefix("shop::r#type::charge").unwrap(),
            "local.shop.r#type.charge"
        );
        for path in ["shop::r#tenant=b", "shop::r#::charge#", "r#a#b"] {
            assert!(prefix(path).is_err(), "{path}");
        }
    }

    #[test]
    fn the_local_cache_is_off_unless_it_has_a_size() {
        assert_eq!(Settings::default().local_cache(&nothing()), Ok(None));
        let bounds = |records, bytes| {
            let records = NonZeroUsize::new(records).unwrap();
            Ok(Some(CacheLimits { records, bytes }))
        };
        let by_variable = with("IDEMPOTENCY_LOCAL_CACHE", "256");
        let cache = Settings::default().local_cache(&by_variable);
        assert_eq!(cache, bounds(256, CacheLimits::DEFAULT_BYTES));
        let mut settings = settings(|it| it.local_cache = Some(3));
        let small = with("IDEMPOTENCY_LOCAL_CACHE_BYTES", "1000");
        assert_eq!(settings.local_cache(&small), bounds(3, 1_000));
        settings.local_cache_bytes = Some(2_000);
        assert_eq!(settings.local_cache(&small), bounds(3, 2_000));
    }

    #[test]
    fn an_invalid_variable_is_refused_even_if_a_setting_overrides_it() {
        let all = Settings {
            key_required: Some(KeyRequired::Any),
            key_prefix: Some("charge".into()),
            hash: Some(HashAlgorithm::Md5),
            expires_after: Some(Duration::from_secs(1)),
            lease: Some(Duration::from_secs(1)),
            renew: Some(false),
            renew_at_most: Some(Duration::from_secs(1)),
            store_timeout: Some(Duration::from_secs(1)),
            local_cache: Some(1),
            local_cache_bytes: Some(1),
            lookup: Some(Lookup::ReadFirst),
            on_in_progress: Some(OnInProgress::Wait),
            on_timeout: Some(OnTimeout::Hold),
            on_error: Some(OnError::Record),
            on_store_error: Some(OnStoreError::Fail),
            circuit_breaker: Some(true),
            ..Settings::default()
        };
        for row in SETTINGS {
            let value = match row.check {
                _ if row.name == "store_event" || row.variable.is_none() => continue,
                Check::KeyRequired => "perhaps",
                Check::Prefix => "a#tenant=b",
                Check::Time(_) => "0s",
                Check::Number(_) => "8MiB",
                Check::Truth => "half",
                _ => "retry",
            };
            let variable = row.variable();
            let variables = with(variable, value);
            let error = CompiledOperation::new("shop::charge", &all, &variables).unwrap_err();
            let text = error.to_string();
            let start = format!("{variable} is `{value}`: ");
            assert!(text.starts_with(&start), "{error}");
            assert!(error.is_about_variable());
            assert_eq!(all.overridden(&variables), [(row.name, variable)]);
            assert_eq!(Settings::default().overridden(&variables), []);
        }
        assert_eq!(all.overridden(&nothing()), []);
    }
}
