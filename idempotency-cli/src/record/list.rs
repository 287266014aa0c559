//! `idempotency list --held`: reads the table for claims whose run did not report its end.

use std::pin::pin;
use std::time::{Duration, Instant};

use idempotency_core::key::Json;
use idempotency_core::record::{Attribute, Record, RecordId, Status};
use idempotency_core::store::{Condition, Operand, ScanPage, ScanRequest, StoreReply};
use idempotency_core::time::EpochMillis;

use super::shown::State;
use super::{confirm, failed};
use crate::arguments::ListArguments;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::json::{self, Object, text};
use crate::operator::interrupted;
use crate::terminal::{Lines, Progress, visible, word};
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
    /// The claims of JSON output, which is one object. Lines are printed with their page.
    claims: Vec<Claim>,
    found: usize,
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
        Lines::from(&cost).print_error();
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
    let ended = read_pages(&mut listed, most, connection).await;
    if let Err(failure) = &ended
        && failure.message.is_empty()
    {
        return ended;
    }
    if connection.json {
        let error = ended.as_ref().err().map(|failure| text(&failure.message));
        json::print(true, || listed.to_json().with("error", error), "")?;
    }
    let is_end = matches!(ended, Ok(Exit::Done));
    let interrupted = match ended {
        Ok(Exit::Interrupted) => "interrupted, ",
        _ => "",
    };
    let rest = match &listed.after {
        None if is_end => format!("the end of the {what}"),
        None => format!("not the whole {what}: list it again"),
        Some(after) => format!("not the whole {what}: go on with `{}`", go_on(after)),
    };
    let read = listed.read();
    Lines::from(format_args!("read {read}: {interrupted}{rest}\n")).print_error();
    ended.map_err(|failure| match connection.json {
        true => Failure::new(failure.exit, ""),
        false => failure,
    })
}

/// Returns the option with which a listing goes on after a key, which can begin as an option does.
fn go_on(after: &str) -> String {
    format!("--after={}", word(after))
}

/// Reads pages until the end, until `most` read units are used, or until Ctrl-C, and prints what each has.
async fn read_pages(
    listed: &mut Listing,
    most: u32,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let (begin, mut progress) = (Instant::now(), Progress::new());
    let mut interrupt = pin!(interrupted());
    loop {
        let so_far = || {
            let elapsed = Duration::from_secs(begin.elapsed().as_secs());
            let (found, elapsed) = (listed.found, humantime::format_duration(elapsed));
            format!("{found} found, {elapsed}, read {}", listed.read())
        };
        let page = async {
            tokio::select! {
                biased;
                () = &mut interrupt => None,
                page = page(listed.after.as_deref(), connection) => Some(page),
            }
        };
        let Some(page) = progress.during(page, so_far).await else {
            return Ok(Exit::Interrupted);
        };
        listed.add(page?, connection)?;
        if listed.after.is_none() || listed.has_read(most) {
            return Ok(Exit::Done);
        }
    }
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

/// Reads one page, with every claim whose run may not have reported its end, and every key whose steps are being undone.
async fn page(after: Option<&str>, connection: &Connection) -> Result<ScanPage, Failure> {
    let is = |status| Condition::Equals(Attribute::Status, Operand::status(status));
    let claims = vec![
        is(&Status::InProgress),
        Condition::Missing(Attribute::Failure),
    ];
    let filter = Condition::Any(vec![Condition::All(claims), is(&Status::Undoing)]);
    let request = ScanRequest {
        filter: Some(&filter),
        limit: PAGE,
        after,
        ..ScanRequest::default()
    };
    let page = connection.records()?.scan(request).await;
    page.map_err(|error| failed(StoreReply::failed(error), ""))
}

impl Claim {
    /// Returns one line, which begins with the key.
    fn line(&self, now: EpochMillis) -> Lines {
        let lease = self.lease_end.map_or_else(
            || "no lease".to_owned(),
            |end| format!("lease ended {}", time::with_distance(end.get(), now)),
        );
        // Another program can have written the id and the operation.
        let operation = self.operation.as_deref();
        let operation = visible(operation.unwrap_or("of no known operation"));
        Lines::from(format_args!("{}  ", visible(self.id.as_str())))
            .with(Lines::styled(self.state.style(), self.state.name()))
            .with(format_args!("  {lease}  {operation}\n"))
    }
}

impl Listing {
    /// Adds a page, and prints the lines of its claims.
    fn add(&mut self, page: ScanPage, connection: &Connection) -> Result<(), Failure> {
        let now = connection.operator.now();
        let claim = |(id, record): (RecordId, Record)| {
            let state = State::of(&record, now);
            // The lease still runs.
            (state != State::Live).then(|| Claim {
                id,
                state,
                lease_end: record.in_progress_expiration.value().copied(),
                operation: record.operation.value().cloned(),
            })
        };
        let claims: Vec<_> = page.records.into_iter().filter_map(claim).collect();
        self.found += claims.len();
        self.items += page.read;
        if let Some(units) = page.billed {
            *self.read_units.get_or_insert(0.0) += units;
        }
        if connection.json {
            self.claims.extend(claims);
        } else {
            let lines = claims.iter().map(|claim| claim.line(now));
            let lines = lines.fold(Lines::default(), Lines::with);
            lines.print().map_err(Failure::output)?;
        }
        // Only here: a page that was not printed is read again.
        self.after = page.next;
        Ok(())
    }

    /// Returns how much was read.
    fn read(&self) -> String {
        let units = self
            .read_units
            .map(|units| format!(" with {units} read units"));
        format!("{} items{}", self.items, units.unwrap_or_default())
    }

    /// Returns true if this many read units were used; in a store without them, if so many records were read.
    fn has_read(&self, most: u32) -> bool {
        let items = u32::try_from(self.items).unwrap_or(u32::MAX);
        self.read_units.unwrap_or(f64::from(items)) >= f64::from(most)
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::go_on;
    use crate::arguments::Arguments;

    #[test]
    fn a_listing_goes_on_after_a_key_that_looks_like_an_option() {
        let option = go_on("-x#1").replace('\'', "");
        let line = ["idempotency", "list", "--held"].into_iter();
        let taken = Arguments::command().try_get_matches_from(line.chain(option.split(' ')));
        assert!(taken.is_ok(), "{taken:?}");
    }
}
