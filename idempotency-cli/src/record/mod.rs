//! `idempotency get`, `list`, `replay`, `resolve` and `evict`: records.

mod confirm;
mod evict;
mod invoke;
mod list;
mod replay;
mod resolve;
mod shown;

pub(crate) use evict::evict;
pub(crate) use list::list;
pub(crate) use replay::replay;
pub(crate) use resolve::resolve;

use std::io::Write;

use idempotency_core::key::Json;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{Consistency, SendLog, Store, StoreReply, StoreRequest};

use crate::arguments::GetArguments;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::{json, time};
use shown::Shown;

pub(crate) async fn get(
    arguments: &GetArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let id = &arguments.key;
    let mut output = std::io::stdout().lock();
    let Some(found) = read(id, connection).await? else {
        if !arguments.store.json {
            return Err(missing(id, connection));
        }
        let nothing = json::object([
            ("found", Some(Json::Bool(false))),
            ("key", Some(json::text(id.as_str()))),
        ]);
        json::write(&mut output, &nothing).map_err(Failure::output)?;
        return Ok(Exit::NoRecord);
    };
    let event = if arguments.event {
        replay::stored_event(id, connection).await?
    } else {
        None
    };
    let shown = Shown {
        id,
        record: &found.record,
        unreadable: found.unreadable.as_deref(),
        now: time::now(),
        with_data: arguments.show_data,
        event: event.as_ref(),
    };
    let written = if arguments.store.json {
        json::write(&mut output, &shown.to_json())
    } else {
        write!(output, "{shown}").and_then(|()| output.flush())
    };
    written.map_err(Failure::output)?;
    Ok(Exit::Done)
}

/// A record, and why its response cannot be read.
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
        StoreReply::Failed { error, .. } => Err(Failure::new(Exit::Failed, error)),
        other => Err(Failure::new(
            Exit::Failed,
            format_args!("unknown result {other:?}"),
        )),
    }
}

/// Returns the failure of a missing record.
fn missing(id: &RecordId, connection: &Connection) -> Failure {
    let message = format!("there is no record `{id}` in {}", connection.store.name());
    Failure::new(Exit::NoRecord, message)
}
