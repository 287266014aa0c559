//! The table: its name, and the migration that creates it.

use std::fmt;

use idempotency_core::config::ConfigurationError;

/// The migration that creates the table `idempotency`: the file `migrations/0001_idempotency.sql`, to be put beside your own.
pub const MIGRATION: &str = include_str!("../migrations/0001_idempotency.sql");

/// Precedes a text that looks for the table: it uses the `search_path` of the role, not the one that a program has set on this connection.
pub(crate) const OWN_PATH: &str = "SET LOCAL search_path TO DEFAULT";

/// The longest name of PostgreSQL, in bytes. It cuts off the rest of a longer one.
const LONGEST_NAME: usize = 63;

/// The name of the table, with or without its schema. `Display` writes it as SQL does: in quotes, because it can be a word
/// of SQL, except for the default name.
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

    /// Returns the statement that returns the name of the table with its schema, as SQL writes it. Without a table it fails.
    pub(crate) fn lookup(&self) -> String {
        let name = self.to_string().replace('\'', "''");
        format!(
            "{OWN_PATH}; SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.oid = '{name}'::regclass"
        )
    }

    /// Returns the migration of the table of this name, as SQL writes it.
    pub(crate) fn migration(name: &str) -> String {
        let default = format!(" {} ", Self::DEFAULT);
        MIGRATION.replace(&default, &format!(" {name} "))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, part) in self.parts.iter().enumerate() {
            let point = if position > 0 { "." } else { "" };
            let quote = if part == Self::DEFAULT { "" } else { "\"" };
            write!(f, "{point}{quote}{part}{quote}")?;
        }
        Ok(())
    }
}
