//! A snapshot of the environment variables, so that configuration is tested without touching the process's own.

use std::collections::BTreeMap;
use std::fmt;

/// Every `IDEMPOTENCY_*` name this framework reads.
const KNOWN: &[&str] = &[
    "IDEMPOTENCY_DATA_ATTR",
    "IDEMPOTENCY_DISABLED",
    "IDEMPOTENCY_EXPIRES_AFTER",
    "IDEMPOTENCY_EXPIRY_ATTR",
    "IDEMPOTENCY_HASH",
    "IDEMPOTENCY_IN_PROGRESS_EXPIRY_ATTR",
    "IDEMPOTENCY_KEY_ATTR",
    "IDEMPOTENCY_KEY_PREFIX",
    "IDEMPOTENCY_KEY_REQUIRED",
    "IDEMPOTENCY_LEASE",
    "IDEMPOTENCY_LOCAL_CACHE",
    "IDEMPOTENCY_ON_ERROR",
    "IDEMPOTENCY_ON_IN_PROGRESS",
    "IDEMPOTENCY_ON_TIMEOUT",
    "IDEMPOTENCY_SORT_KEY_ATTR",
    "IDEMPOTENCY_STATIC_PK_VALUE",
    "IDEMPOTENCY_STATUS_ATTR",
    "IDEMPOTENCY_STORE",
    "IDEMPOTENCY_TABLE",
    "IDEMPOTENCY_VALIDATION_ATTR",
];

/// The prefix of our own variables.
const PREFIX: &str = "IDEMPOTENCY_";

/// The environment variables a function was started with.
///
/// ```
/// use idempotency_core::config::Variables;
/// let variables = Variables::from_iter([("IDEMPOTENCY_TABLE".to_owned(), "payments".to_owned())]);
/// assert_eq!(variables.value("IDEMPOTENCY_TABLE"), Some("payments"));
/// assert_eq!(variables.value("IDEMPOTENCY_HASH"), None);
/// ```
#[derive(Clone, Default)]
pub struct Variables(BTreeMap<String, String>);

/// An `IDEMPOTENCY_*` variable that nothing reads.
///
/// ```
/// use idempotency_core::config::Variables;
/// let variables = Variables::from_iter([("IDEMPOTENCY_TABEL".to_owned(), "payments".to_owned())]);
/// assert_eq!(
///     variables.unknown()[0].to_string(),
///     "IDEMPOTENCY_TABEL is set but nothing reads it: did you mean IDEMPOTENCY_TABLE?",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The known name it is nearest to.
    pub nearest: &'static str,
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl Variables {
    /// The value of a variable; an empty one counts as not set, since that is how a template leaves one out.
    ///
    /// ```
    /// # use idempotency_core::config::Variables;
    /// let variables = Variables::from_iter([("IDEMPOTENCY_HASH".to_owned(), String::new())]);
    /// assert_eq!(variables.value("IDEMPOTENCY_HASH"), None);
    /// ```
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The variables that carry our prefix but that nothing reads, each with the name that was probably meant.
    ///
    /// ```
    /// # use idempotency_core::config::Variables;
    /// let variables = Variables::from_iter([("IDEMPOTENCY_TABEL".to_owned(), "t".to_owned())]);
    /// assert_eq!(variables.unknown()[0].nearest, "IDEMPOTENCY_TABLE");
    /// ```
    pub fn unknown(&self) -> Vec<UnknownVariable> {
        self.0
            .keys()
            .filter(|name| name.starts_with(PREFIX) && !KNOWN.contains(&name.as_str()))
            .map(|name| UnknownVariable {
                name: name.clone(),
                nearest: nearest(name),
            })
            .collect()
    }
}

/// The known name with the fewest edits; the first of them by alphabet.
fn nearest(name: &str) -> &'static str {
    KNOWN
        .iter()
        .copied()
        .min_by_key(|known| strsim::damerau_levenshtein(name, known))
        .unwrap_or("IDEMPOTENCY_TABLE")
}

impl fmt::Display for UnknownVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is set but nothing reads it: did you mean {}?",
            self.name, self.nearest
        )
    }
}

/// Names alone: the values of a process's variables may be secrets.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_carries_the_prefix_and_none_is_reported() {
        assert!(KNOWN.iter().all(|name| name.starts_with(PREFIX)));
        let variables: Variables = KNOWN
            .iter()
            .map(|name| ((*name).to_owned(), "1".to_owned()))
            .collect();
        assert_eq!(variables.unknown(), []);
    }

    #[test]
    fn debug_output_shows_no_values() {
        let variables =
            Variables::from_iter([("AWS_SECRET_ACCESS_KEY".to_owned(), "s3cr3t".to_owned())]);
        assert!(!format!("{variables:?}").contains("s3cr3t"));
    }
}
