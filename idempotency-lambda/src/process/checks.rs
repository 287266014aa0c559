//! Checks of the process's variables, each once.

use std::sync::OnceLock;

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::CompiledOperation;

use super::default_store;
use super::variables::variables;
use crate::warning::warn;

/// Checks every variable of this framework, used or not, and warns of names that nothing reads.
///
/// The work is done once for the process.
///
/// # Errors
///
/// The first value that cannot be used, with what is accepted.
pub(crate) fn check_variables() -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), ConfigurationError>> = OnceLock::new();
    let checked = CHECKED.get_or_init(|| {
        for unknown in variables().unknown(&default_store::variables()) {
            warn(&unknown.to_string());
        }
        check_values(variables())
    });
    checked.as_ref().copied().map_err(configuration_error)
}

fn check_values(variables: &Variables) -> Result<(), ConfigurationError> {
    // An operation without settings of its own uses every variable that operations read.
    CompiledOperation::new("idempotency", &Settings::new(), variables)?;
    default_store::check(variables)
}

/// Logs at debug level which variables an operation does not use because it has settings of its own.
pub(crate) fn note_overridden(operation: &str, settings: &Settings, variables: &Variables) {
    for (setting, variable) in settings.overridden(variables) {
        tracing::debug!("{operation} does not use {variable}: it sets `{setting}` itself");
    }
}

/// Returns true if protection is switched off for this process.
pub(crate) fn is_disabled() -> Result<bool, Error> {
    Settings::disabled(variables()).map_err(|error| configuration_error(&error))
}

/// Returns an error about the process's configuration, which belongs to no single operation.
pub(crate) fn configuration_error(error: &ConfigurationError) -> Error {
    Error::new(ErrorKind::Configuration, "idempotency").with_detail(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_used_is_refused_even_if_no_operation_reads_it() {
        for (name, value) in [
            ("IDEMPOTENCY_STORE", "redis"),
            ("IDEMPOTENCY_EXPIRES_AFTER", "1x"),
            ("IDEMPOTENCY_DISABLED", "perhaps"),
            ("POWERTOOLS_IDEMPOTENCY_DISABLED", "perhaps"),
        ] {
            // Neither a table nor an operation is needed to find it.
            let variables = Variables::from_iter([(name.to_owned(), value.to_owned())]);
            let error = check_values(&variables).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{name} is `{value}`: ")),
                "{error}"
            );
        }
        assert_eq!(check_values(&Variables::default()), Ok(()));
    }

    #[cfg(feature = "dynamodb")]
    #[test]
    fn two_attributes_of_the_table_with_one_name_are_refused_before_a_table_is_known() {
        let variables =
            Variables::from_iter([("IDEMPOTENCY_DATA_ATTR".to_owned(), "status".to_owned())]);
        let error = check_values(&variables).unwrap_err().to_string();
        assert!(error.contains("data attribute is `status`"), "{error}");
    }
}
