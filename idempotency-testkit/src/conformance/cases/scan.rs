//! Listings: complete, in bounded pages that another store can go on with, and a filter leaves out no match.

use std::collections::BTreeMap;

use idempotency_core::store::{Consistency, ScanRequest};

use super::super::trial::*;

super::cases![
    a_listing_has_every_record_in_pages_of_at_most_the_limit,
    a_prefix_is_compared_byte_by_byte,
    a_filter_leaves_out_no_record_for_which_it_holds,
];

/// The most records of a page. Smaller than the number of records of each case.
const LIMIT: usize = 2;

/// More pages than a listing of any table of a test has.
const MOST_PAGES: usize = 100_000;

/// Returns the records whose ids begin with `prefix`, for which the condition holds. Each page is read by another store than the one
/// before.
async fn listed(
    trial: &Trial,
    prefix: &str,
    filter: Option<&Condition>,
) -> Check<BTreeMap<RecordId, Record>> {
    let stores = [trial.listing().await?, trial.listing().await?];
    let (mut found, mut next) = (BTreeMap::new(), None);
    for store in stores.iter().cycle().take(MOST_PAGES) {
        let request = ScanRequest {
            prefix,
            filter,
            consistency: Consistency::Strong,
            limit: LIMIT,
            after: next.as_deref(),
        };
        let page = store.scan(request).await;
        let page = page.map_err(|error| format!("a page cannot be read: {error}"))?;
        let count = page.records.len();
        if count > LIMIT || count > page.read {
            return broken(format!(
                "a page has {count} records, says that {} were read, and its limit is {LIMIT}",
                page.read
            ));
        }
        found.extend(page.records);
        next = page.next;
        if next.is_none() {
            return Ok(found);
        }
    }
    broken("the listing has no end")
}

/// Checks that a listing finds these records, without their responses, the results of their steps and their events, and no other ones.
async fn lists(
    trial: &Trial,
    prefix: &str,
    filter: Option<&Condition>,
    expected: &BTreeMap<RecordId, Record>,
) -> Check {
    let found = listed(trial, prefix, filter).await?;
    let under = format!("a listing of `{prefix}` with the filter {filter:?}");
    for (id, record) in expected {
        let there = found.get(id);
        if there != Some(&record.clone().listed()) {
            let there = shown(there);
            return broken(format!(
                "{under} has {there} under `{id}`, where {} is",
                shown(Some(record))
            ));
        }
    }
    match found.keys().find(|id| !expected.contains_key(id)) {
        Some(other) => broken(format!("{under} has `{other}`, which it does not ask for")),
        None => Ok(()),
    }
}

/// Writes a record under each name. Returns them by their ids.
async fn placed(trial: &Trial, records: &[(&str, Record)]) -> Check<BTreeMap<RecordId, Record>> {
    let mut placed = BTreeMap::new();
    for (name, record) in records {
        let key = trial.key(name);
        key.place(record).await?;
        placed.insert(key.id, record.clone());
    }
    Ok(placed)
}

async fn a_listing_has_every_record_in_pages_of_at_most_the_limit(trial: &Trial) -> Check {
    let prefix = trial.id("").as_str().to_owned();
    trial.listing().await?;
    lists(trial, &prefix, None, &BTreeMap::new()).await?;
    let names = ["1", "2", "3", "4", "5", "6", "7"];
    let records = names.map(|name| (name, full_record(trial.now)));
    let placed = placed(trial, &records).await?;
    lists(trial, &prefix, None, &placed).await
}

async fn a_prefix_is_compared_byte_by_byte(trial: &Trial) -> Check {
    trial.listing().await?;
    let names = [
        "a", "a_", "a_1", "a%", "a%1", "a*1", "ab1", "A_1", "b", "é", "e\u{301}",
    ];
    let records = names.map(|name| (name, claim(&owner(1), trial.now)));
    let placed = placed(trial, &records).await?;
    for prefix in ["", "a", "a_", "a%", "a*", "ab", "A", "é", "c"] {
        let prefix = trial.id(prefix);
        let under = |id: &RecordId| id.as_str().starts_with(prefix.as_str());
        let expected = placed.clone().into_iter().filter(|(id, _)| under(id));
        lists(trial, prefix.as_str(), None, &expected.collect()).await?;
    }
    Ok(())
}

async fn a_filter_leaves_out_no_record_for_which_it_holds(trial: &Trial) -> Check {
    trial.listing().await?;
    let held = claim(&owner(1), trial.at(-1));
    let records = [
        ("held", held.clone()),
        ("live", claim(&owner(2), trial.at(1))),
        (
            "no lease",
            with(held.clone(), |it| it.in_progress_expiration = Field::Absent),
        ),
        (
            "failed",
            with(held, |it| it.failure = Field::Value("Declined".to_owned())),
        ),
        ("completed", full_record(trial.now)),
        ("empty", Record::default()),
    ];
    let placed = placed(trial, &records).await?;
    let of_claims = Condition::Equals(Attribute::Status, Operand::status(&Status::InProgress));
    let without_failure = Condition::Missing(Attribute::Failure);
    for filter in [
        Condition::All(vec![of_claims.clone(), without_failure.clone()]),
        Condition::Any(vec![of_claims.clone(), without_failure]),
        Condition::Below(Attribute::InProgressExpiration, Operand::Millis(trial.now)),
        Condition::Exists(Attribute::Data),
        Condition::Differs(
            Attribute::Owner,
            Operand::Text(owner(1).as_str().to_owned().into()),
        ),
        of_claims,
    ] {
        let holds = |record: &Record| filter.holds(Some(record));
        let expected = placed
            .clone()
            .into_iter()
            .filter(|(_, record)| holds(record));
        let prefix = trial.id("");
        lists(trial, prefix.as_str(), Some(&filter), &expected.collect()).await?;
    }
    Ok(())
}
