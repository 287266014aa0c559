//! `idempotency get`, `list`, `replay`, `resolve` and `evict`: records.

mod evict;
mod form;
mod invoke;
mod list;
mod resolve;
mod shown;

pub(crate) use evict::evict;
pub(crate) use list::list;
pub(crate) use resolve::resolve;

use idempotency_core::record::{Record, RecordId, StoredEvent};
use idempotency_core::store::{Consistency, SendLog, StoreReply, StoreRequest};
use idempotency_core::time::EpochMillis;

use crate::arguments::{GetArguments, ReplayArguments};
use crate::connection::{Connection, chain};
use crate::exit::{Exit, Failure};
use crate::json;
use crate::terminal::{Lines, json_line, visible};
use invoke::invoke;
use shown::RecordView;

pub(crate) async fn get(
    arguments: &GetArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let id = &arguments.key;
    let Some(found) = read(id, connection).await? else {
        if !connection.json {
            return Err(missing(id, connection));
        }
        let nothing = json::object().bool("found", false);
        json::print(true, || nothing.text("key", id.as_str()), "")?;
        return Ok(Exit::NoRecord);
    };
    let event = if arguments.event {
        stored_event(id, connection).await?
    } else {
        None
    };
    let shown = RecordView {
        with_data: arguments.show_data,
        event: event.as_ref(),
        ..RecordView::of(id, &found, connection.operator.now())
    };
    json::print(connection.json, || shown.to_json(), shown.styled())?;
    Ok(Exit::Done)
}

/// A record. `unreadable` says why its response cannot be read, if it cannot.
#[derive(PartialEq)]
struct StoredRecord {
    record: Record,
    unreadable: Option<String>,
}

/// Reads the record; `None` if there is none.
async fn read(id: &RecordId, connection: &Connection) -> Result<Option<StoredRecord>, Failure> {
    let request = StoreRequest::Read(id, Consistency::Strong);
    let records = connection.records()?;
    match records.send(request, &SendLog::new()).await {
        StoreReply::Found { record, unreadable } => {
            Ok(record.map(|record| StoredRecord { record, unreadable }))
        }
        other => Err(failed(other, "")),
    }
}

/// Returns the failure of a request. `doubt` follows if it may have been applied.
fn failed(reply: StoreReply, doubt: &str) -> Failure {
    let message = match reply {
        StoreReply::Failed {
            maybe_applied: true,
            error,
        } => format!("{error}{doubt}"),
        StoreReply::Failed { error, .. } => error.to_string(),
        other => format!("unknown result {other:?}"),
    };
    Failure::new(Exit::Failed, visible(&message))
}

/// Reads the record. Fails if there is none.
async fn existing(id: &RecordId, connection: &Connection) -> Result<StoredRecord, Failure> {
    let found = read(id, connection).await?;
    found.ok_or_else(|| missing(id, connection))
}

/// Returns the failure of a missing record.
fn missing(id: &RecordId, connection: &Connection) -> Failure {
    let message = format!("there is no record `{id}` in {}", connection.name());
    Failure::new(Exit::NoRecord, message)
}

pub(crate) async fn replay(
    arguments: &ReplayArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let id = &arguments.key;
    let found = existing(id, connection).await?;
    let Some(event) = stored_event(id, connection).await? else {
        let message = format!(
            "the record `{id}` keeps no event: its operation has no `store_event`, or the event was left out (the outcome event \
             says why)"
        );
        return Err(Failure::new(Exit::Failed, message));
    };
    if let Some(function) = &arguments.invoke {
        return invoke(function, arguments, id, &found, &event, connection).await;
    }
    let found = json::object()
        .text("key", id.as_str())
        .text("event", event.as_str())
        .bool("event_is_whole", event.is_whole());
    let text = format_args!("{}\n", json_line(event.as_str()));
    json::print(connection.json, || found, text)?;
    Ok(Exit::Done)
}

/// Reads what a record keeps of its event.
async fn stored_event(
    id: &RecordId,
    connection: &Connection,
) -> Result<Option<StoredEvent>, Failure> {
    let event = connection.records()?.stored_event(id).await;
    event.map_err(|error| Failure::new(Exit::Failed, chain(&error)))
}

/// Prints `shown` and where the records are, and then asks the question. Does nothing if `yes` is set.
///
/// # Errors
///
/// If the reply is not yes, or if the input is no terminal. `refused` is the text of a reply that is not yes.
async fn confirm(
    yes: bool,
    shown: impl Into<Lines>,
    question: &str,
    refused: &str,
    connection: &Connection,
) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let place = connection.place().await;
    let account = match connection.table() {
        Some(table) => table.account().await,
        None => String::new(),
    };
    // Not on standard output, which a program may read.
    shown.into().with(place).with(account).print_error();
    let question = format!("\n{} [y/N] ", visible(question));
    let reply = connection.operator.ask(&question);
    let reply = reply.map_err(Failure::output)?.ok_or_else(|| {
        let message =
            "cannot ask for confirmation, because the input is not a terminal: add `--yes`";
        Failure::new(Exit::Refused, message)
    })?;
    match reply.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Refused, refused)),
    }
}

/// Asks as [`confirm`] does, and then reads the record again. Returns the time after it: a question can stay open for hours.
///
/// # Errors
///
/// Those of [`confirm`]. Also if the record is no longer the one that was shown.
async fn confirm_unchanged(
    yes: bool,
    shown: impl Into<Lines>,
    question: &str,
    refused: &str,
    (id, found): (&RecordId, &StoredRecord),
    connection: &Connection,
) -> Result<EpochMillis, Failure> {
    confirm(yes, shown, question, refused, connection).await?;
    match read(id, connection).await? {
        Some(again) if again == *found => Ok(connection.operator.now()),
        Some(_) => Err(changed(id, &format!(" and was {refused}"))),
        None => Err(missing(id, connection)),
    }
}

/// Returns the failure of a record that is no longer the one that was shown. `so` says what follows.
fn changed(id: &RecordId, so: &str) -> Failure {
    let message =
        format!("`{id}` changed after it was shown{so}: read it again with `idempotency get`");
    Failure::new(Exit::Refused, message)
}

#[cfg(test)]
mod tests;
