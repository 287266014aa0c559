//! The check of the server, the role and the table, before the first event.

use idempotency_core::record::Attribute;
use idempotency_core::store::{StoreError, StoreErrorKind as Kind};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::columns::{ID, type_of};
use crate::failure::{OTHER_VERSION, READ_ONLY, Whom};
use crate::table::TableName;

/// The oldest version of PostgreSQL, as its server reports it.
const OLDEST: i32 = 14_00_00;

/// Returns the statement of the check. It has no parameter, so that it is one round trip behind every pooler.
pub(crate) fn statement(table: &TableName) -> String {
    let table = table.to_string().replace('\'', "''");
    format!(
        "SELECT current_setting('server_version_num')::int4 AS version, current_setting('server_encoding') AS encoding, \
         pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS is_read_only, \
         current_setting('synchronous_commit') = 'off' AS is_volatile, c.oid IS NOT NULL AS is_present, \
         coalesce(c.relkind NOT IN ('r', 'p') OR c.relpersistence <> 'p', false) AS is_no_table, \
         coalesce(row_security_active(c.oid), false) AS hides_rows, \
         (SELECT string_agg(p, ', ') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p WHERE NOT has_table_privilege(c.oid, p)) AS denied, \
         (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, NULL), E'\\n') FROM pg_attribute a \
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns, \
         EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
         JOIN pg_collation l ON l.oid = a.attcollation AND l.collname = 'C' WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid \
         AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = '{ID}') AS is_keyed \
         FROM (SELECT to_regclass('{table}') AS oid) n LEFT JOIN pg_class c ON c.oid = n.oid"
    )
}

/// What the server says of itself, of the role and of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    version: i32,
    encoding: String,
    is_read_only: bool,
    /// True if the server confirms a commit before it is safe.
    is_volatile: bool,
    is_present: bool,
    /// True if it is no table that a crash leaves as it was.
    is_no_table: bool,
    hides_rows: bool,
    denied: Option<String>,
    columns: Option<String>,
    /// True if `id` is a key that is compared byte by byte.
    is_keyed: bool,
}

impl Found {
    /// Reads the reply to the [`statement`].
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            version: row.try_get("version")?,
            encoding: row.try_get("encoding")?,
            is_read_only: row.try_get("is_read_only")?,
            is_volatile: row.try_get("is_volatile")?,
            is_present: row.try_get("is_present")?,
            is_no_table: row.try_get("is_no_table")?,
            hides_rows: row.try_get("hides_rows")?,
            denied: row.try_get("denied")?,
            columns: row.try_get("columns")?,
            is_keyed: row.try_get("is_keyed")?,
        })
    }

    /// Returns what prevents that records are kept here, if anything does.
    pub(crate) fn flaw(&self, whom: &Whom<'_>) -> Option<StoreError> {
        let Whom { table, role, name } = whom;
        let flaw = |kind, text: String| {
            Some(StoreError::new(
                kind,
                format!("{name} cannot be used: {text}"),
            ))
        };
        if self.version < OLDEST {
            let text = format!(
                "the server is older than PostgreSQL {}: use a later one",
                OLDEST / 10_000
            );
            return flaw(Kind::Rejected, text);
        }
        if self.encoding != "UTF8" {
            let text = format!(
                "the database has the encoding {}, which lacks letters: create one with UTF8",
                self.encoding
            );
            return flaw(Kind::WrongSchema, text);
        }
        if self.is_read_only {
            return flaw(Kind::AccessDenied, READ_ONLY.to_owned());
        }
        if self.is_volatile {
            let text = format!(
                "`synchronous_commit` is off, so a crash can forget a claim: ALTER ROLE {role} SET synchronous_commit = on"
            );
            return flaw(Kind::Rejected, text);
        }
        if !self.is_present {
            let text = format!(
                "there is no table `{table}` in the search path: apply the migration of `idempotency-postgres`, or set \
                 IDEMPOTENCY_POSTGRES_TABLE"
            );
            return flaw(Kind::TableMissing, text);
        }
        if self.is_no_table {
            let text = "it is a view, or unlogged or temporary, so a crash can empty it: create a plain table".to_owned();
            return flaw(Kind::WrongSchema, text);
        }
        if let Some(wrong) = self.wrong_column() {
            return flaw(Kind::WrongSchema, format!("{wrong}: {OTHER_VERSION}"));
        }
        if !self.is_keyed {
            let text = format!("`{ID}` is not its primary key with COLLATE \"C\": {OTHER_VERSION}");
            return flaw(Kind::WrongSchema, text);
        }
        if self.hides_rows {
            let text = format!(
                "row level security hides records from the role `{role}`: switch it off for this table"
            );
            return flaw(Kind::WrongSchema, text);
        }
        let denied = self.denied.as_ref()?;
        flaw(
            Kind::AccessDenied,
            format!("GRANT {denied} ON {table} TO {role}"),
        )
    }

    /// Returns which column is missing or has another type.
    fn wrong_column(&self) -> Option<String> {
        let columns = self.columns.as_deref().unwrap_or_default();
        let attributes = Attribute::ALL.map(|it| (it.default_name(), type_of(it)));
        let needed = [(ID, "text")].into_iter().chain(attributes);
        let mut wrong =
            needed.filter(|(name, kind)| !columns.lines().any(|it| it == format!("{name} {kind}")));
        wrong
            .next()
            .map(|(name, kind)| format!("there is no column `{name}` of the type {kind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let columns = Attribute::ALL.map(|it| format!("{} {}", it.default_name(), type_of(it)));
        Found {
            version: 18_00_06,
            encoding: "UTF8".to_owned(),
            is_read_only: false,
            is_volatile: false,
            is_present: true,
            is_no_table: false,
            hides_rows: false,
            denied: None,
            columns: Some(format!("id text\nextra jsonb\n{}", columns.join("\n"))),
            is_keyed: true,
        }
    }

    /// Returns the kind and the text of the flaw of this server.
    fn flaw(change: impl Fn(&mut Found)) -> Option<(Kind, String)> {
        let mut found = found();
        change(&mut found);
        let whom = Whom {
            name: "the table",
            table: "idempotency",
            role: "app",
        };
        found
            .flaw(&whom)
            .map(|error| (error.kind(), error.to_string()))
    }

    #[test]
    fn a_table_of_the_migration_has_no_flaw_and_may_have_more_columns() {
        assert_eq!(flaw(|_| ()), None);
    }

    #[test]
    fn each_flaw_says_what_to_do() {
        type Change = fn(&mut Found);
        let cases: [(Change, Kind, &str); 11] = [
            (
                |it| it.version = 13_00_20,
                Kind::Rejected,
                "use a later one",
            ),
            (
                |it| it.encoding = "LATIN1".to_owned(),
                Kind::WrongSchema,
                "create one with UTF8",
            ),
            (
                |it| it.is_read_only = true,
                Kind::AccessDenied,
                "connect to the primary",
            ),
            (
                |it| it.is_volatile = true,
                Kind::Rejected,
                "ALTER ROLE app SET synchronous_commit = on",
            ),
            (
                |it| it.is_present = false,
                Kind::TableMissing,
                "apply the migration",
            ),
            (
                |it| it.is_no_table = true,
                Kind::WrongSchema,
                "create a plain table",
            ),
            (
                |it| it.columns = None,
                Kind::WrongSchema,
                "there is no column `id` of the type text",
            ),
            (
                |it| {
                    it.columns = it
                        .columns
                        .as_deref()
                        .map(|all| all.replace("undo text", "undo jsonb"))
                },
                Kind::WrongSchema,
                "there is no column `undo` of the type text",
            ),
            (
                |it| it.is_keyed = false,
                Kind::WrongSchema,
                "`id` is not its primary key",
            ),
            (
                |it| it.hides_rows = true,
                Kind::WrongSchema,
                "row level security",
            ),
            (
                |it| it.denied = Some("UPDATE, DELETE".to_owned()),
                Kind::AccessDenied,
                "GRANT UPDATE, DELETE ON idempotency TO app",
            ),
        ];
        for (change, kind, text) in cases {
            let (found, said) = flaw(change).unwrap();
            assert!(
                found == kind && said.contains(text),
                "{kind:?} {text}: {found:?} {said}"
            );
        }
    }
}
