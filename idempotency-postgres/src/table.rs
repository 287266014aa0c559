//! The table: its name, and the check of what it is.

use std::fmt;

use idempotency_core::config::ConfigurationError;

/// The longest name of PostgreSQL, in bytes. It cuts off the rest of a longer one.
const LONGEST_NAME: usize = 63;

/// The name of the table, with or without its schema. `Display` writes it as SQL does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    parts: Vec<String>,
}

impl TableName {
    /// The name in the migration.
    pub(crate) const DEFAULT: &str = "idempotency";

    /// Returns the table of a name such as `idempotency` or `billing.idempotency`.
    ///
    /// # Errors
    ///
    /// If PostgreSQL has no such name.
    pub(crate) fn new(setting: &str, name: &str) -> Result<Self, ConfigurationError> {
        let parts: Vec<_> = name.split('.').map(str::to_owned).collect();
        let fits = |part: &String| {
            !part.is_empty() && part.len() <= LONGEST_NAME && !part.contains(['\0', '"'])
        };
        if parts.len() > 2 || !parts.iter().all(fits) {
            let remedy = format!(
                "write TABLE or SCHEMA.TABLE as the names are stored, without quotes, each with at most {LONGEST_NAME} bytes"
            );
            return Err(ConfigurationError::value(setting, name, remedy));
        }
        Ok(Self { parts })
    }

    /// Returns the name as users write it.
    pub(crate) fn plain(&self) -> String {
        self.parts.join(".")
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, part) in self.parts.iter().enumerate() {
            let point = if position > 0 { "." } else { "" };
            write!(f, "{point}\"{part}\"")?;
        }
        Ok(())
    }
}
