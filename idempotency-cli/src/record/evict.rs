//! `idempotency evict`: shows a record, and deletes it if it has not changed.

use idempotency_core::protocol::decision::{NotEvicted, evictable, evicted};
use idempotency_core::record::RecordId;
use idempotency_core::store::{Condition, SendLog, StoreReply, StoreRequest, Write};

use super::shown::RecordView;
use super::{changed, confirm_unchanged, existing, failed, missing};
use crate::arguments::EvictArguments;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::json;

pub(crate) async fn evict(
    arguments: &EvictArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let id = &arguments.key;
    let found = existing(id, connection).await?;
    let shown = RecordView::of(id, &found, connection.operator.now());
    let unchanged = evictable(&found.record, shown.now, arguments.force).ok_or_else(|| {
        let why = match found.record.in_progress_expiration.value() {
            Some(_) => "is a live claim: wait until its lease ends",
            None => "is a claim without a lease: find out that its call does not run",
        };
        Failure::new(
            Exit::Refused,
            format_args!(
                "`{id}` {why}, or add `--force`; with it a second run can overlap with the first\n{shown}"
            ),
        )
    })?;
    let question = "Evict this record?";
    let read = (id, &found);
    confirm_unchanged(
        arguments.yes,
        shown.styled(),
        question,
        "not evicted",
        read,
        connection,
    )
    .await?;
    delete(id, &unchanged, connection).await?;
    let evicted = json::object().bool("evicted", true);
    let text = format_args!(
        "evicted {id}: the next call runs the handler; local caches of running functions may still replay the response, and pieces \
         of a large response stay until they expire
"
    );
    json::print(connection.json, || evicted.text("key", id.as_str()), text)?;
    Ok(Exit::Done)
}

async fn delete(
    id: &RecordId,
    unchanged: &Condition,
    connection: &Connection,
) -> Result<(), Failure> {
    let request = StoreRequest::write(id, &Write::Delete, unchanged);
    match connection.records()?.send(request, &SendLog::new()).await {
        StoreReply::Applied { .. } => Ok(()),
        StoreReply::ConditionFailed {
            existing,
            maybe_applied,
            ..
        } => evicted(existing.as_ref(), maybe_applied).map_err(|why| match why {
            NotEvicted::Missing => missing(id, connection),
            NotEvicted::Changed => changed(id, " and was not evicted"),
            NotEvicted::MaybeEvicted => changed(id, "; it may have been evicted before it changed"),
        }),
        other => {
            let doubt = "; the record may have been evicted: check with `idempotency get`";
            Err(failed(other, doubt))
        }
    }
}
