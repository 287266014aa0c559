//! The check of the server, the role and the table: before the first event, and for an operator.

use idempotency_core::record::Attribute;
use idempotency_core::store::{StoreError, StoreErrorKind as Kind};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::columns::{ID, type_of};
use crate::failure::{OTHER_VERSION, READ_ONLY};
use crate::table::{OWN_PATH, TableName};

/// Returns the text of the check. It has no parameter, so that it is one round trip behind every pooler.
pub(crate) fn statement(table: &TableName) -> String {
    let attributes = Attribute::ALL.map(|it| (it.default_name(), type_of(it)));
    let columns = [(ID, "text")].into_iter().chain(attributes);
    let columns: Vec<_> = columns
        .map(|(name, kind)| format!("('{name}', '{kind}')"))
        .collect();
    let quoted = |text: String| text.replace('\'', "''");
    let check = include_str!("check.sql")
        .replace("{COLUMNS}", &columns.join(", "))
        .replace("{READ_ONLY}", READ_ONLY)
        .replace("{OTHER_VERSION}", OTHER_VERSION)
        .replace("{TABLE}", &quoted(table.to_string()))
        .replace("{NAME}", &quoted(table.plain()));
    format!("{OWN_PATH}; {check}")
}

/// What was found of one thing.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFinding {
    /// What was looked at.
    pub check: String,
    pub verdict: TableVerdict,
    /// What it is like. If something is wrong, also what to do.
    pub detail: String,
}

/// What follows from a finding.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableVerdict {
    Good,
    /// It works, but could be improved.
    Note,
    /// No records can be kept: the kind of the error at the start.
    Flaw(Kind),
}

impl TableFinding {
    /// Reads a row of the reply to the [`statement`].
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let flaw: Option<String> = row.try_get("flaw")?;
        Ok(Self {
            check: row.try_get("name")?,
            verdict: match flaw.as_deref() {
                None => TableVerdict::Good,
                Some("Note") => TableVerdict::Note,
                Some("TableMissing") => TableVerdict::Flaw(Kind::TableMissing),
                Some("WrongSchema") => TableVerdict::Flaw(Kind::WrongSchema),
                Some("AccessDenied") => TableVerdict::Flaw(Kind::AccessDenied),
                Some(_) => TableVerdict::Flaw(Kind::Rejected),
            },
            detail: row.try_get("detail")?,
        })
    }

    /// Returns why no records can be kept in the table of this name, if this is a reason.
    pub(crate) fn flaw(&self, name: &str) -> Option<StoreError> {
        let TableVerdict::Flaw(kind) = self.verdict else {
            return None;
        };
        let text = format!("{name} cannot be used: {}", self.detail);
        Some(StoreError::new(kind, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_is_whole_and_its_names_are_those_of_the_table() {
        let table = TableName::new("`table`", "O'Hara.records").unwrap();
        let statement = statement(&table);
        for text in [
            "to_regclass('\"O''Hara\".\"records\"')",
            "no table `O''Hara.records` in",
            "('id', 'text'), ('expiration', 'bigint')",
            "connect to the primary",
        ] {
            assert!(statement.contains(text), "{text}");
        }
        assert!(!statement.contains(['{', '}']), "{statement}");
    }
}
