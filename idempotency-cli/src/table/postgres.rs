//! A table of PostgreSQL: its migration is applied, and it is checked.

use idempotency_core::store::Store as _;
use idempotency_postgres::{PostgresStore, TableVerdict};

use super::{Finding, Verdict, finding};
use crate::exit::{Exit, Failure};
use crate::json;

pub(super) async fn create(store: &PostgresStore, as_json: bool) -> Result<(), Failure> {
    let created = store.create_table().await;
    created.map_err(|error| Failure::new(Exit::Failed, error))?;
    let table = store.name();
    let json = || json::object().bool("created", true).text("table", &table);
    let text = format_args!(
        "created the {table}: grant SELECT, INSERT, UPDATE and DELETE to the role of the functions\n"
    );
    json::print(as_json, json, text)
}

pub(super) async fn findings(store: &PostgresStore) -> Result<Vec<Finding>, Failure> {
    let findings = store.findings().await;
    let findings = findings.map_err(|error| Failure::new(Exit::Failed, error))?;
    let each = findings.into_iter().map(|found| {
        let verdict = match found.verdict {
            TableVerdict::Good => Verdict::Ok,
            TableVerdict::Note => Verdict::Note,
            TableVerdict::Flaw(_) => Verdict::Wrong,
        };
        finding(found.check, verdict, found.detail)
    });
    Ok(each.collect())
}
