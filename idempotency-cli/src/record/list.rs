//! `idempotency list --held`: reads the table for claims whose run did not report its end.

use idempotency_core::key::Json;
use idempotency_core::record::{Attribute, Record, RecordId, Status};
use idempotency_core::store::{Condition, Operand, ScanRequest, StoreReply};
use idempotency_core::time::EpochMillis;

use super::shown::State;
use super::{confirm, failed};
use crate::arguments::ListArguments;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::json::{self, Object, text};
use crate::terminal::{visible, word};
use crate::time;

/// How many bytes one read unit reads, with eventual consistency.
const BYTES_OF_A_UNIT: i64 = 8 * 1024;

/// The most records of a page. A page of DynamoDB ends before it, at 1 MB.
const PAGE: usize = 10_000;

/// A claim that was found.
struct Claim {
    id: RecordId,
    state: State,
    /// `None` if the claim has no lease that can be read.
    lease_end: Option<EpochMillis>,
    operation: Option<String>,
}

/// What was read so far.
#[derive(Default)]
struct Listing {
    claims: Vec<Claim>,
    items: usize,
    /// The read units of DynamoDB; `None` for another store.
    read_units: Option<f64>,
    /// Where the next page begins. `None` at the end.
    after: Option<String>,
}

pub(crate) async fn list(
    arguments: &ListArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    // Fails if the partition of a composite key is not known.
    connection.records()?;
    let most = arguments.read_units;
    let cost = cost(most, connection).await;
    if arguments.yes {
        eprint!("{cost}");
    }
    let what = match connection.table() {
        Some(_) => "table",
        None => "store",
    };
    let question = format!("Read the {what}?");
    confirm(arguments.yes, &cost, &question, "not read", connection).await?;
    let mut listed = Listing {
        after: arguments.after.clone(),
        read_units: connection.table().map(|_| 0.0),
        ..Listing::default()
    };
    let failure = loop {
        match page(&mut listed, connection).await {
            Err(failure) => break Some(failure),
            Ok(()) if listed.after.is_none() || listed.has_read(most) => break None,
            Ok(()) => {}
        }
    };
    json::print(
        connection.json,
        || listed.to_json(),
        listed.text(connection.operator.now()),
    )?;
    let Listing {
        items, read_units, ..
    } = listed;
    let rest = match &listed.after {
        None if failure.is_some() => "nothing was read".to_owned(),
        None => format!("the end of the {what}"),
        Some(after) => format!("not the whole {what}: go on with `--after {}`", word(after)),
    };
    let units = read_units.map(|units| format!(" with {units} read units"));
    let units = units.unwrap_or_default();
    eprintln!("read {items} items{units}: {rest}");
    failure.map_or(Ok(Exit::Done), Err)
}

/// Returns two lines: how large the table is, and where the command stops.
async fn cost(most: u32, connection: &Connection) -> String {
    let Some(table) = connection.table() else {
        return format!(
            "{:<12} the records of {}\n{:<12} {most} records and one page of {PAGE}; --read-units changes it\n",
            "reads",
            connection.name(),
            "stops after"
        );
    };
    let size = match table.describe().await {
        Ok(table) => {
            let bytes = table.table_size_bytes().unwrap_or_default();
            format!(
                "about {} items and {bytes} bytes, as DynamoDB counted them in the last hours; in all about {} read units",
                table.item_count().unwrap_or_default(),
                bytes / BYTES_OF_A_UNIT + 1
            )
        }
        Err(failure) => format!("of unknown size: {}", failure.message),
    };
    format!(
        "{:<12} {size}\n{:<12} at most {most} read units and one page of 128; --read-units changes it\n",
        "reads", "stops after"
    )
}

/// Reads one page, with every claim whose run may not have reported its end. Those whose lease still runs are left out here.
async fn page(listed: &mut Listing, connection: &Connection) -> Result<(), Failure> {
    let now = connection.operator.now();
    let filter = Condition::All(vec![
        Condition::Equals(Attribute::Status, Operand::status(&Status::InProgress)),
        Condition::Missing(Attribute::Failure),
    ]);
    let request = ScanRequest {
        filter: Some(&filter),
        limit: PAGE,
        after: listed.after.as_deref(),
        ..ScanRequest::default()
    };
    let page = connection.records()?.scan(request).await;
    let page = page.map_err(|error| failed(StoreReply::failed(error), ""))?;
    let claim = |(id, record): (RecordId, Record)| {
        let state = State::of(&record, now);
        (state != State::Live).then(|| Claim {
            id,
            state,
            lease_end: record.in_progress_expiration.value().copied(),
            operation: record.operation.value().cloned(),
        })
    };
    listed
        .claims
        .extend(page.records.into_iter().filter_map(claim));
    listed.items += page.read;
    if let Some(units) = page.billed {
        *listed.read_units.get_or_insert(0.0) += units;
    }
    listed.after = page.next;
    Ok(())
}

impl Listing {
    /// Returns true if this many read units were used; in a store without them, if so many records were read.
    fn has_read(&self, most: u32) -> bool {
        let items = u32::try_from(self.items).unwrap_or(u32::MAX);
        self.read_units.unwrap_or(f64::from(items)) >= f64::from(most)
    }

    /// Returns one line for each claim, which begins with its key.
    fn text(&self, now: EpochMillis) -> String {
        let line = |claim: &Claim| {
            // Another program can have written the ids and the operations.
            let (id, state) = (visible(claim.id.as_str()), claim.state.name());
            let lease = claim.lease_end.map_or_else(
                || "no lease".to_owned(),
                |end| format!("lease ended {}", time::with_distance(end.get(), now)),
            );
            let operation = claim.operation.as_deref();
            let operation = visible(operation.unwrap_or("of no known operation"));
            format!("{id}  {state}  {lease}  {operation}\n")
        };
        self.claims.iter().map(line).collect()
    }

    fn to_json(&self) -> Object {
        let claim = |claim: &Claim| {
            let end = claim.lease_end.map(EpochMillis::get);
            let claim = json::object()
                .text("key", claim.id.as_str())
                .text("state", claim.state.name())
                .with("in_progress_expiration", end.map(json::number))
                .with(
                    "in_progress_expiration_time",
                    end.and_then(time::rfc3339).map(text),
                )
                .with("operation", claim.operation.as_deref().map(text));
            Json::from(claim)
        };
        json::object()
            .array("keys", self.claims.iter().map(claim))
            .count("items", self.items)
            .with("read_units", self.read_units.map(json::float))
            .with("after", self.after.as_ref().map_or(Json::Null, text))
    }
}
