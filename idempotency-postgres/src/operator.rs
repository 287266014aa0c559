//! What an operator does with the table: creates it, looks at it, and deletes expired rows.

use idempotency_core::record::{Attribute, Status};
use idempotency_core::store::retention::{CLAIM_KEPT_AFTER_EXPIRATION, KEPT_AFTER_EXPIRATION};
use idempotency_core::store::{StoreError, StoreErrorKind};
use idempotency_core::time::EpochSeconds;

use crate::columns::ID;
use crate::connection::InUse;
use crate::store::PostgresStore;
use crate::table::{OWN_PATH, TableName};

/// Returns the deletion of at most `rows` rows that have no use any more at the time `now`, which is an expression of SQL.
///
/// The array is made once: with `IN` the server may read the inner part again for each row, and delete more.
fn deletion(table: &str, now: &str, rows: u32) -> String {
    let expiration = Attribute::Expiration.default_name();
    let completed = Status::Completed;
    let completed = completed.as_str();
    let [kept, claim_kept] =
        [KEPT_AFTER_EXPIRATION, CLAIM_KEPT_AFTER_EXPIRATION].map(|it| it.as_secs());
    format!(
        "DELETE FROM {table} WHERE {ID} = ANY (ARRAY(\n    \
         SELECT {ID} FROM {table} WHERE {expiration} < {now} - {kept}\n    \
         AND (status = '{completed}' OR {expiration} < {now} - {claim_kept})\n    \
         ORDER BY {expiration} LIMIT {rows} FOR UPDATE SKIP LOCKED))"
    )
}

impl PostgresStore {
    /// Deletes at most so many rows that have no use any more at this time, in one statement, and returns how many. If it returns fewer,
    /// no more are left. Rows that another transaction holds stay. If the clock of the server is behind, its time counts: a clock that is
    /// ahead must delete no response that is still replayed.
    ///
    /// A completed record is deleted an hour after its end, every other one two weeks after its end: until then a run learns of one that was
    /// killed. A held claim, and a key whose steps are half undone, end in ten years.
    ///
    /// # Errors
    ///
    /// If the statement failed. Nothing is deleted then, unless the connection broke.
    pub async fn delete_expired(&self, now: EpochSeconds, rows: u32) -> Result<u64, StoreError> {
        let now = format!("least({}, extract(epoch FROM now())::bigint)", now.get());
        let delete = async |used: &mut InUse<'_>| {
            let statements = self.statements(used).await?;
            let deletion = deletion(&statements.table, &now, rows);
            used.text(format!("{deletion} RETURNING 1")).await
        };
        let deleted = self.over_one(delete).await?;
        Ok(deleted.len() as u64)
    }

    /// Creates the table and its index, or nothing.
    #[doc(hidden)]
    pub async fn create_table(&self) -> Result<(), StoreError> {
        let create = async |used: &mut InUse<'_>| {
            // One of another schema in the search path is not created again before it.
            let found = self.statements(used).await.map(|it| it.table.clone());
            let name = found.or_else(|failure| match failure.error.kind() {
                StoreErrorKind::TableMissing => Ok(self.table.to_string()),
                _ => Err(failure),
            })?;
            let migration = TableName::migration(&name);
            used.text(format!("{OWN_PATH}; {migration}")).await
        };
        self.over_one(create).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_the_statement_that_the_command_sends() {
        let page = include_str!("../../docs/guide/postgres.md");
        let now = "extract(epoch FROM now())::bigint";
        let statement = deletion(TableName::DEFAULT, now, 1_000);
        assert!(
            page.contains(&format!("```sql\n{statement};\n```")),
            "write: {statement}"
        );
    }
}
