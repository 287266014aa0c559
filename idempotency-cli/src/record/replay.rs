//! `idempotency replay`: prints what a record keeps of the event of its call.

use std::io::Write as _;

use idempotency_core::key::Json;
use idempotency_core::record::{RecordId, StoredEvent};

use super::invoke::invoke;
use super::{missing, read};
use crate::arguments::ReplayArguments;
use crate::connection::{Connection, chain};
use crate::exit::{Exit, Failure};
use crate::json;

pub(crate) async fn replay(
    arguments: &ReplayArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let id = &arguments.key;
    let found = read(id, connection).await?;
    let found = found.ok_or_else(|| missing(id, connection))?;
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
    let mut output = std::io::stdout().lock();
    let written = if arguments.store.json {
        let found = [
            ("key", Some(json::text(id.as_str()))),
            ("event", Some(json::text(event.as_str()))),
            ("event_is_whole", Some(Json::Bool(event.is_whole()))),
        ];
        json::write(&mut output, &json::object(found))
    } else {
        writeln!(output, "{}", event.as_str()).and_then(|()| output.flush())
    };
    written.map_err(Failure::output)?;
    Ok(Exit::Done)
}

/// Reads what a record keeps of its event.
pub(super) async fn stored_event(
    id: &RecordId,
    connection: &Connection,
) -> Result<Option<StoredEvent>, Failure> {
    let event = connection.records()?.stored_event(id).await;
    event.map_err(|error| Failure::new(Exit::Failed, chain(&error)))
}
