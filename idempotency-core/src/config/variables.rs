//! A snapshot of the environment variables, so that tests of the configuration do not change the process's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use idempotency_expression::{HostVariables, SETTINGS};

use super::ConfigurationError;

/// The variables that apply to the whole process. They are not the settings of one operation.
const OF_THE_PROCESS: [&str; 2] = ["IDEMPOTENCY_DISABLED", "IDEMPOTENCY_PYTHON_NUMBERS"];

/// Returns the `IDEMPOTENCY_*` variables that this crate reads. Each other crate names its own.
fn known() -> impl Iterator<Item = &'static str> {
    let of_settings = SETTINGS.iter().filter_map(|row| row.variable);
    of_settings.chain(OF_THE_PROCESS)
}

/// The prefix of our own variables.
const PREFIX: &str = "IDEMPOTENCY_";

/// The only variable of the Python library that is read.
const POWERTOOLS_DISABLED: &str = "POWERTOOLS_IDEMPOTENCY_DISABLED";

/// Words that are often written instead of the first word of our prefix.
const OTHER_HEADS: [&str; 3] = ["IDEMPOTENT", "IDEMPOTENCE", "IDEMPOTENCIES"];

/// The environment variables of a process.
///
/// # Examples
///
/// ```
/// use idempotency_core::config::Variables;
/// let variables = Variables::from_iter([("IDEMPOTENCY_TABLE".to_owned(), "payments".to_owned())]);
/// assert_eq!(variables.value("IDEMPOTENCY_TABLE"), Some("payments"));
/// assert_eq!(variables.value("IDEMPOTENCY_HASH"), None);
/// ```
#[derive(Clone, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
    host: Option<HostVariables>,
}

/// A variable that this framework does not read, but that was probably meant for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownVariable {
    /// The name of the variable.
    pub name: String,
    /// The known name that is most similar.
    pub nearest: &'static str,
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self {
            values: variables.into_iter().collect(),
            host: None,
        }
    }
}

/// Takes the variables of a process, as `std::env::vars_os` has them. A name that is not Unicode is left out: ours are. A value that is not
/// Unicode is changed and kept, because it must not count as not set.
impl FromIterator<(OsString, OsString)> for Variables {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into()))
        };
        variables.filter_map(text).collect()
    }
}

impl Variables {
    /// Returns the value of a variable. An empty value counts as not set, because a template leaves a variable out in this way.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

impl Variables {
    /// Returns true if a variable has the second of two values, in upper or lower case, and false if it has the first one, which is the
    /// default.
    ///
    /// # Errors
    ///
    /// If it has another value. `remedy` says what to write.
    #[doc(hidden)]
    pub fn is_second_value(
        &self,
        name: &str,
        values: [&str; 2],
        remedy: &str,
    ) -> Result<bool, ConfigurationError> {
        let Some(value) = self.value(name) else {
            return Ok(false);
        };
        match values.map(|known| value.eq_ignore_ascii_case(known)) {
            [true, _] => Ok(false),
            [_, true] => Ok(true),
            _ => Err(ConfigurationError::value(name, value, remedy)),
        }
    }

    /// Returns the same variables, of a process that runs on this host.
    #[must_use]
    pub fn on(mut self, host: HostVariables) -> Self {
        self.host = Some(host);
        self
    }

    /// Returns the variables of the host, if there is one.
    pub(crate) fn host(&self) -> Option<HostVariables> {
        self.host
    }

    /// Returns the name that the host gave the program, after the name of its variable.
    pub(super) fn host_name(&self) -> Option<(&'static str, &str)> {
        let variable = self.host?.name;
        Some((variable, self.value(variable)?))
    }

    /// Returns true if this crate reads a variable of this name. Those of a host come on top.
    pub fn is_known(name: &str) -> bool {
        name == POWERTOOLS_DISABLED || known().any(|known| known == name)
    }

    /// Returns the variables that nothing reads, but that were probably meant for this framework, each with the probable
    /// name. These are names with our prefix, names of the Python library, and misspelt names.
    ///
    /// `others` are the variables that other crates read, such as those of a store.
    pub fn unknown(&self, others: &[&'static str]) -> Vec<UnknownVariable> {
        // Sorted, because the first of two equally similar names is suggested.
        let mut ours: Vec<_> = known().collect();
        ours.sort_unstable();
        let known: Vec<_> = ours.iter().chain(others).copied().collect();
        self.values
            .keys()
            .filter(|name| !Self::is_known(name) && !others.contains(&name.as_str()))
            .filter_map(|name| {
                Some(UnknownVariable {
                    name: name.clone(),
                    nearest: meant(name, &known)?,
                })
            })
            .collect()
    }
}

/// The maximum number of misspelt letters in a name without our prefix. A name with more belongs to another program.
const SLIPS: usize = 2;

/// Returns the known name that is most similar to an unknown one; `None` if the variable belongs to another program.
fn meant(name: &str, known: &[&'static str]) -> Option<&'static str> {
    /// The longest name that is compared: a comparison takes time for each pair of letters.
    const LONGEST: usize = 128;
    /// The name that is suggested without a comparison.
    const COMMON: &str = "IDEMPOTENCY_EXPIRES_AFTER";

    let is_ours = name.starts_with(PREFIX) || name.starts_with("POWERTOOLS_IDEMPOTENCY_");
    if name.len() > LONGEST {
        return is_ours.then_some(COMMON);
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
    // This name comes first, because `min_by_key` takes the first of two equally similar names.
    let pairs = std::iter::once((normal.as_str(), POWERTOOLS_DISABLED));
    let (slips, nearest) = pairs
        .chain(known.iter().map(|known| (ours.as_str(), *known)))
        .filter(|(name, known)| is_ours || may_be_near(name, known))
        .map(|(name, known)| (strsim::damerau_levenshtein(name, known), known))
        // A suggestion must not lead a user to switch protection off, unless the name is nearly the same.
        .filter(|(slips, known)| *slips <= SLIPS || !known.ends_with("_DISABLED"))
        .min_by_key(|(slips, _)| *slips)?;
    (is_ours || slips <= SLIPS).then_some(nearest)
}

/// Returns false if the name lacks too many letters of the known one: it is then more than [`SLIPS`] away from it.
///
/// A slip adds, drops, changes or swaps letters, so at most one letter of the known name gets lost. Counting takes a fraction of
/// the time of a comparison, which a process with many variables would make hundreds of times at its start.
fn may_be_near(name: &str, known: &str) -> bool {
    let mut letters = [0_u8; 256];
    for byte in name.bytes() {
        letters[usize::from(byte)] = letters[usize::from(byte)].saturating_add(1);
    }
    let mut missing = 0;
    for byte in known.bytes() {
        match &mut letters[usize::from(byte)] {
            0 => missing += 1,
            left => *left -= 1,
        }
    }
    missing <= SLIPS
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

/// Shows only the names, because values of environment variables may be secrets.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::shared::{check_each, variable};

    #[test]
    fn every_known_name_has_the_prefix_and_none_is_reported() {
        assert!(known().all(|name| name.starts_with(PREFIX)));
        let variables: Variables = known()
            .map(|name| (name.to_owned(), "1".to_owned()))
            .collect();
        assert_eq!(variables.unknown(&[]), []);
    }

    const OTHERS: &[&str] = &["IDEMPOTENCY_STORE", "IDEMPOTENCY_TABLE"];

    fn meant_by(name: &str) -> Option<&'static str> {
        let unknown = variable(name, "").unknown(OTHERS);
        unknown.first().map(|unknown| unknown.nearest)
    }

    #[test]
    fn a_name_that_was_probably_meant_for_this_framework_is_reported_with_the_probable_name() {
        check_each(include_str!("names.txt"), |name| {
            meant_by(name).unwrap_or("nothing").to_owned()
        });
    }

    /// Returns the names that are one slip away from this one.
    fn with_a_slip(name: &str) -> Vec<String> {
        let letters: Vec<char> = name.chars().collect();
        let mut names = Vec::new();
        for at in 0..letters.len() {
            let (before, after) = letters.split_at(at);
            let text = |parts: &[&[char]]| parts.concat().into_iter().collect::<String>();
            names.push(text(&[before, &['É'], after]));
            names.push(text(&[before, &['É'], &after[1..]]));
            names.push(text(&[before, &after[1..]]));
            if let [one, two, rest @ ..] = after {
                names.push(text(&[before, &[*two, *one], rest]));
            }
        }
        names
    }

    #[test]
    fn a_name_with_two_slips_is_compared_and_that_of_another_program_is_not() {
        let known = "IDEMPOTENCY_LEASE";
        for name in with_a_slip(known).iter().flat_map(|name| with_a_slip(name)) {
            assert!(may_be_near(&name, known), "{name}");
        }
        assert!(!may_be_near("SOME_FUNCTION_NAME", known));
        assert!(!may_be_near("", known));
    }

    #[test]
    fn no_suggestion_switches_protection_off_unless_the_name_is_nearly_the_same() {
        for name in ["TABLE", "DATA_ATTR", "X"] {
            let name = format!("{PREFIX}{name}");
            let nearest = variable(&name, "").unknown(&[])[0].nearest;
            assert!(!nearest.ends_with("_DISABLED"), "{name}: {nearest}");
        }
        let long = format!("IDEMPOTENCY_{}", "X".repeat(128));
        assert_eq!(meant_by(&long), Some("IDEMPOTENCY_EXPIRES_AFTER"));
    }

    #[test]
    fn the_configuration_page_names_the_variables_of_the_process() {
        let page = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/reference/configuration.md"
        ));
        for name in OF_THE_PROCESS {
            assert!(page.contains(&format!("`{name}`")), "{name} is missing");
        }
    }

    #[test]
    fn debug_output_shows_no_values() {
        let variables = variable("AWS_SECRET_ACCESS_KEY", "s3cr3t");
        assert!(!format!("{variables:?}").contains("s3cr3t"));
    }
}
