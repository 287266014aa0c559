//! `idempotency evict`: shows a record, and deletes it if it has not changed.

use idempotency_core::protocol::condition::unchanged;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{SendLog, StoreReply, StoreRequest, Write};

use super::shown::{RecordView, State};
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
    let live = match State::of(&found.record, shown.now) {
        State::Live => Some("is a live claim: wait until its lease ends"),
        State::NoLease => Some("is a claim without a lease: find out that its call does not run"),
        _ => None,
    };
    if let Some(why) = live.filter(|_| !arguments.force) {
        return Err(Failure::new(
            Exit::Refused,
            format_args!(
                "`{id}` {why}, or add `--force`; with it a second run can overlap with the first\n{shown}"
            ),
        ));
    }
    let question = "Evict this record?";
    let read = (id, &found);
    confirm_unchanged(
        arguments.yes,
        &shown,
        question,
        "not evicted",
        read,
        connection,
    )
    .await?;
    delete(id, &found.record, connection).await?;
    let evicted = json::object().bool("evicted", true);
    let text = format_args!(
        "evicted {id}: the next call runs the handler; local caches of running functions may still replay the response, and pieces \
         of a large response stay until they expire
"
    );
    json::print(
        arguments.store.json,
        || evicted.text("key", id.as_str()),
        text,
    )?;
    Ok(Exit::Done)
}

async fn delete(id: &RecordId, record: &Record, connection: &Connection) -> Result<(), Failure> {
    let condition = unchanged(record);
    let request = StoreRequest::write(id, &Write::Delete, &condition);
    match connection.records()?.send(request, &SendLog::new()).await {
        // If an earlier send may have been applied, it most likely deleted the record.
        StoreReply::Applied { .. }
        | StoreReply::ConditionFailed {
            existing: None,
            maybe_applied: true,
            ..
        } => Ok(()),
        StoreReply::ConditionFailed { existing: None, .. } => Err(missing(id, connection)),
        StoreReply::ConditionFailed { .. } => Err(changed(id, " and was not evicted")),
        other => {
            let doubt = "; the record may have been evicted: check with `idempotency get`";
            Err(failed(other, doubt))
        }
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::{Field, OwnerToken, Status};
    use idempotency_core::time::{EpochMillis, EpochSeconds};

    use super::*;

    #[test]
    fn only_the_record_that_was_shown_is_deleted() {
        let claim = Record {
            status: Field::Value(Status::InProgress),
            owner: Field::Value(OwnerToken::from_bytes([1; 16])),
            expiration: Field::Value(EpochSeconds::new(9)),
            in_progress_expiration: Field::Value(EpochMillis::new(9_000)),
            failure: Field::Unreadable,
            ..Record::default()
        };
        let condition = unchanged(&claim);
        assert!(condition.holds(Some(&claim)) && !condition.holds(None));
        let mut changed: [_; 4] = std::array::from_fn(|_| claim.clone());
        changed[0].status = Field::Value(Status::Completed);
        changed[1].owner = Field::Value(OwnerToken::from_bytes([2; 16]));
        changed[2].owner = Field::Absent;
        changed[3].in_progress_expiration = Field::Value(EpochMillis::new(9_001));
        for changed in changed {
            assert!(!condition.holds(Some(&changed)), "{changed:?}");
        }
    }
}
