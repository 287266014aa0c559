//! Finds the value of one setting: the setting itself, its environment variable, or its default.

use std::str::FromStr;
use std::time::Duration;

use idempotency_expression::{Check, SettingRow, parse_duration};

use super::{ConfigurationError, Variables};

/// Returns the truth value of a variable, if it is set.
pub(crate) fn truth(variables: &Variables, name: &str) -> Result<Option<bool>, ConfigurationError> {
    read(variables, name, |text| {
        truth_of(text).ok_or("write `true` or `false`")
    })
}

/// Returns the setting, or the truth value of a variable, or the default.
pub(super) fn truth_or(
    setting: Option<bool>,
    variables: &Variables,
    row: &SettingRow,
    default: bool,
) -> Result<bool, ConfigurationError> {
    let of_variable = truth(variables, row.variable())?;
    Ok(setting.or(of_variable).unwrap_or(default))
}

/// Parses a truth value, as Python's `strtobool` does.
pub(super) fn truth_of(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Some(true),
        "0" | "n" | "no" | "f" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// Returns the setting, or the number in a variable, if one of them is set.
pub(super) fn number(
    setting: Option<usize>,
    variables: &Variables,
    row: &SettingRow,
    remedy: &'static str,
) -> Result<Option<usize>, ConfigurationError> {
    let of_variable = read(variables, row.variable(), |text| {
        text.parse().map_err(|_| remedy)
    })?;
    Ok(setting.or(of_variable))
}

/// Returns the setting, or the value of a variable, or the default.
pub(super) fn choice<T>(
    setting: Option<T>,
    variables: &Variables,
    row: &SettingRow,
    default: T,
) -> Result<T, ConfigurationError>
where
    T: FromStr<Err: std::fmt::Display>,
{
    let of_variable = read(variables, row.variable(), str::parse)?;
    Ok(setting.or(of_variable).unwrap_or(default))
}

/// Parses a variable, if it is set. An invalid value is an error even if a setting overrides it: another operation may use it.
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

/// Returns the setting, or the duration in a variable, or the default.
/// The setting and the variable must not be shorter than the minimum of the row.
pub(super) fn duration(
    setting: Option<Duration>,
    variables: &Variables,
    row: &SettingRow,
    default: Duration,
) -> Result<Duration, ConfigurationError> {
    let shortest = match row.check {
        Check::Time(shortest) => shortest,
        _ => Duration::ZERO,
    };
    let of_variable = read(variables, row.variable(), |text| {
        let value = parse_duration(text)?;
        fits(value, shortest).map(|()| value)
    })?;
    let Some(value) = setting else {
        return Ok(of_variable.unwrap_or(default));
    };
    match fits(value, shortest) {
        Ok(()) => Ok(value),
        Err(remedy) => Err(ConfigurationError::value(
            row.name,
            &format!("{value:?}"),
            remedy,
        )),
    }
}

/// Refuses a duration that is shorter than `shortest`. If `shortest` is in whole seconds, refuses fractions of a second.
fn fits(value: Duration, shortest: Duration) -> Result<(), String> {
    if value < shortest {
        return Err(format!("write at least `{shortest:?}`"));
    }
    if shortest.subsec_nanos() == 0 && value.subsec_nanos() != 0 {
        return Err("write whole seconds".to_owned());
    }
    Ok(())
}
