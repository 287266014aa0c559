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
    "IDEMPOTENCY_LOCAL_CACHE_BYTES",
    "IDEMPOTENCY_ON_ERROR",
    "IDEMPOTENCY_ON_IN_PROGRESS",
    "IDEMPOTENCY_ON_TIMEOUT",
    "IDEMPOTENCY_SORT_KEY_ATTR",
    "IDEMPOTENCY_STATIC_PK_VALUE",
    "IDEMPOTENCY_STATUS_ATTR",
    "IDEMPOTENCY_STORE",
    "IDEMPOTENCY_STORE_TIMEOUT",
    "IDEMPOTENCY_TABLE",
    "IDEMPOTENCY_VALIDATION_ATTR",
];

/// The prefix of our own variables.
const PREFIX: &str = "IDEMPOTENCY_";

/// The one variable of Powertools for AWS Lambda that is read.
const POWERTOOLS_DISABLED: &str = "POWERTOOLS_IDEMPOTENCY_DISABLED";

/// The function's name, by which Lambda calls it.
const FUNCTION_NAME: &str = "AWS_LAMBDA_FUNCTION_NAME";

/// Lambda's own, whose value bounds the memory that an event may take.
const MEMORY_SIZE: &str = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE";

/// What else is written for the first word of our prefix.
const OTHER_HEADS: [&str; 3] = ["IDEMPOTENT", "IDEMPOTENCE", "IDEMPOTENCIES"];

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

/// A variable that nothing reads, and that was probably meant for this framework.
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

    /// Returns whether something reads a variable of this name.
    ///
    /// ```
    /// # use idempotency_core::config::Variables;
    /// assert!(Variables::is_known("IDEMPOTENCY_LEASE"));
    /// assert!(!Variables::is_known("AWS_SECRET_ACCESS_KEY"));
    /// ```
    pub fn is_known(name: &str) -> bool {
        [FUNCTION_NAME, MEMORY_SIZE, POWERTOOLS_DISABLED].contains(&name) || KNOWN.contains(&name)
    }

    /// Returns the variables that nothing reads but that were probably meant for this framework, each with the name that
    /// was probably meant: names with our prefix, names of Powertools' idempotency, and misspelt ones.
    ///
    /// ```
    /// # use idempotency_core::config::Variables;
    /// let variables = Variables::from_iter([("IDEMPOTENT_LEASE".to_owned(), "1m".to_owned())]);
    /// assert_eq!(variables.unknown()[0].nearest, "IDEMPOTENCY_LEASE");
    /// let variables = Variables::from_iter([("LEASE".to_owned(), "1m".to_owned())]);
    /// assert_eq!(variables.unknown(), []);
    /// ```
    pub fn unknown(&self) -> Vec<UnknownVariable> {
        self.0
            .keys()
            .filter(|name| !Self::is_known(name))
            .filter_map(|name| {
                Some(UnknownVariable {
                    name: name.clone(),
                    nearest: meant(name)?,
                })
            })
            .collect()
    }
}

/// The known name that an unknown one was probably meant to be.
fn meant(name: &str) -> Option<&'static str> {
    /// Slips that a name may have without our prefix: more, and it is another program's.
    const SLIPS: usize = 2;
    /// The comparison takes time for each pair of letters.
    const LONGEST: usize = 128;

    if name.len() > LONGEST {
        return name.starts_with(PREFIX).then_some(KNOWN[0]);
    }
    let normal: String = name
        .chars()
        .map(|letter| match letter {
            '-' | '.' | ' ' => '_',
            letter => letter.to_ascii_uppercase(),
        })
        .collect();
    let ours = normal.strip_prefix("POWERTOOLS_").unwrap_or(&normal);
    // `IDEMPOTENT_LEASE`, `IDEMPOTENCE_LEASE`.
    let ours = match ours.split_once('_') {
        Some((head, rest)) if OTHER_HEADS.contains(&head) => format!("{PREFIX}{rest}"),
        _ => ours.to_owned(),
    };
    // First, since of two equally near names the first is taken.
    let powertools = strsim::damerau_levenshtein(&normal, POWERTOOLS_DISABLED);
    let (slips, nearest) = std::iter::once((powertools, POWERTOOLS_DISABLED))
        .chain(
            KNOWN
                .iter()
                .map(|known| (strsim::damerau_levenshtein(&ours, known), *known)),
        )
        .min_by_key(|(slips, _)| *slips)?;
    let is_ours = name.starts_with(PREFIX) || name.starts_with("POWERTOOLS_IDEMPOTENCY_");
    (is_ours || slips <= SLIPS).then_some(nearest)
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

    fn meant_by(name: &str) -> Option<&'static str> {
        let variables = Variables::from_iter([(name.to_owned(), String::new())]);
        variables.unknown().first().map(|unknown| unknown.nearest)
    }

    #[test]
    fn near_misses_are_reported_with_the_name_that_was_meant() {
        for (name, known) in [
            ("IDEMPOTENT_LEASE", "IDEMPOTENCY_LEASE"),
            ("IDEMPOTENCY-LEASE", "IDEMPOTENCY_LEASE"),
            ("idempotency_lease", "IDEMPOTENCY_LEASE"),
            ("Idempotent-Expires-After", "IDEMPOTENCY_EXPIRES_AFTER"),
            ("IDEMPOTENCE_TABLE", "IDEMPOTENCY_TABLE"),
            ("IDEMPOTENCYLEASE", "IDEMPOTENCY_LEASE"),
            ("IDEMPOTENY_STORE", "IDEMPOTENCY_STORE"),
            ("IDEMPOTENCY_TABLE_NAME", "IDEMPOTENCY_TABLE"),
            ("POWERTOOLS_IDEMPOTENCY_TABLE", "IDEMPOTENCY_TABLE"),
            (
                "POWERTOOLS_IDEMPOTENCY_DISABLE",
                "POWERTOOLS_IDEMPOTENCY_DISABLED",
            ),
        ] {
            assert_eq!(meant_by(name), Some(known), "{name}");
        }
    }

    #[test]
    fn variables_of_other_programs_are_not_reported() {
        for name in [
            "LEASE",
            "TABLE_NAME",
            "IDEMPOTENT_RETRIES_OF_ANOTHER_PROGRAM",
            "STRIPE_IDEMPOTENCY_SALT",
            "POWERTOOLS_SERVICE_NAME",
            "POWERTOOLS_LOG_LEVEL",
            "AWS_LAMBDA_FUNCTION_NAME",
            "POWERTOOLS_IDEMPOTENCY_DISABLED",
        ] {
            assert_eq!(meant_by(name), None, "{name}");
        }
    }

    #[test]
    fn debug_output_shows_no_values() {
        let variables =
            Variables::from_iter([("AWS_SECRET_ACCESS_KEY".to_owned(), "s3cr3t".to_owned())]);
        assert!(!format!("{variables:?}").contains("s3cr3t"));
    }
}
