//! `idempotency list --held`: reads the table for claims whose run did not report its end.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};
use idempotency_core::key::Json;
use idempotency_core::record::{Field, Record, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::confirm;
use super::shown::State;
use crate::arguments::ListArguments;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::json::{self, Object, text};
use crate::terminal::{visible, word};
use crate::time;

/// How many bytes one read unit reads, with eventual consistency.
const BYTES_OF_A_UNIT: i64 = 8 * 1024;

type Item = HashMap<String, AttributeValue>;

/// A claim that was found.
struct Claim {
    id: String,
    state: State,
    /// `None` if the claim has no lease that can be read.
    lease_end: Option<EpochMillis>,
    operation: Option<String>,
}

/// What was read so far.
#[derive(Default)]
struct Listing {
    claims: Vec<Claim>,
    items: i64,
    read_units: f64,
    /// The id of the last item that was read. `None` at the end of the table.
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
    let question = "Read the table?";
    confirm(arguments.yes, &cost, question, "not read", connection).await?;
    let mut listed = Listing {
        after: arguments.after.clone(),
        ..Listing::default()
    };
    let failure = loop {
        match page(&mut listed, connection).await {
            Err(failure) => break Some(failure),
            Ok(()) if listed.after.is_none() || listed.read_units >= f64::from(most) => break None,
            Ok(()) => {}
        }
    };
    json::print(
        arguments.store.json,
        || listed.to_json(),
        listed.text(connection.operator.now()),
    )?;
    let Listing {
        items, read_units, ..
    } = listed;
    let rest = match &listed.after {
        None if failure.is_some() => "nothing was read".to_owned(),
        None => "the end of the table".to_owned(),
        Some(after) => format!("not the whole table: go on with `--after {}`", word(after)),
    };
    eprintln!("read {items} items with {read_units} read units: {rest}");
    failure.map_or(Ok(Exit::Done), Err)
}

/// Returns two lines: how large the table is, and where the command stops.
async fn cost(most: u32, connection: &Connection) -> String {
    let size = match connection.describe().await {
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

/// Reads one page.
async fn page(listed: &mut Listing, connection: &Connection) -> Result<(), Failure> {
    let config = &connection.config;
    let names = &config.names;
    let string = |text: &str| AttributeValue::S(text.to_owned());
    let now = connection.operator.now();
    let filter = "#status = :claim AND attribute_not_exists(#failure) AND (#lease < :now OR NOT attribute_type(#lease, :number))";
    let mut attributes = HashMap::from([
        ("#status".to_owned(), names.status.clone()),
        ("#lease".to_owned(), names.in_progress_expiration.clone()),
        ("#failure".to_owned(), names.failure.clone()),
    ]);
    let mut values = HashMap::from([
        (":claim".to_owned(), string(Status::InProgress.as_str())),
        (":now".to_owned(), AttributeValue::N(now.get().to_string())),
        (":number".to_owned(), string("N")),
    ]);
    let id_name = config.sort_key.as_ref().unwrap_or(&names.key);
    let start = listed.after.as_ref().map(|after| {
        let mut key = Item::from([(id_name.clone(), string(after))]);
        if config.sort_key.is_some() {
            key.insert(names.key.clone(), string(&config.partition));
        }
        key
    });
    let total = ReturnConsumedCapacity::Total;
    let table = &config.table;
    let (items, read, capacity, last) = if config.sort_key.is_some() {
        attributes.insert("#partition".to_owned(), names.key.clone());
        values.insert(":partition".to_owned(), string(&config.partition));
        let query = connection.client.query().table_name(table);
        let page = query
            .key_condition_expression("#partition = :partition")
            .filter_expression(filter)
            .set_expression_attribute_names(Some(attributes))
            .set_expression_attribute_values(Some(values))
            .set_exclusive_start_key(start)
            .return_consumed_capacity(total)
            .send()
            .await
            .map_err(|error| connection.failed("Query", &error))?;
        let (read, last) = (page.scanned_count(), page.last_evaluated_key);
        (page.items, read, page.consumed_capacity, last)
    } else {
        let scan = connection.client.scan().table_name(table);
        let page = scan
            .filter_expression(filter)
            .set_expression_attribute_names(Some(attributes))
            .set_expression_attribute_values(Some(values))
            .set_exclusive_start_key(start)
            .return_consumed_capacity(total)
            .send()
            .await
            .map_err(|error| connection.failed("Scan", &error))?;
        let (read, last) = (page.scanned_count(), page.last_evaluated_key);
        (page.items, read, page.consumed_capacity, last)
    };
    let claim = |item: &Item| {
        let number = |name: &str| {
            let number = item.get(name)?.as_n().ok()?;
            // Other languages write fractions.
            number.split('.').next()?.parse::<i64>().ok()
        };
        let of = |name: &str| Some(item.get(name)?.as_s().ok()?.clone());
        let lease_end = number(&names.in_progress_expiration).map(EpochMillis::new);
        let record = Record {
            status: Field::Value(Status::InProgress),
            expiration: number(&names.expiration).map(EpochSeconds::new).into(),
            in_progress_expiration: lease_end.into(),
            ..Record::default()
        };
        Some(Claim {
            id: of(id_name)?,
            state: State::of(&record, now),
            lease_end,
            operation: of(&names.operation),
        })
    };
    listed
        .claims
        .extend(items.iter().flatten().filter_map(claim));
    listed.items += i64::from(read);
    let units = capacity.and_then(|capacity| capacity.capacity_units);
    listed.read_units += units.unwrap_or_default();
    listed.after = last.and_then(|key| Some(key.get(id_name)?.as_s().ok()?.clone()));
    Ok(())
}

impl Listing {
    /// Returns one line for each claim, which begins with its key.
    fn text(&self, now: EpochMillis) -> String {
        let line = |claim: &Claim| {
            // Another program can have written the ids and the operations.
            let (id, state) = (visible(&claim.id), claim.state.name());
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
                .text("key", &claim.id)
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
            .float("read_units", self.read_units)
            .with("after", self.after.as_ref().map_or(Json::Null, text))
    }
}
