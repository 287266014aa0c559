//! `idempotency resolve`: shows a held or failed record, and writes an operator's decision about it.

use std::io::{self, Read as _};

use idempotency_core::protocol::decision::{
    Decision, DecisionError, DecisionWrite, Ending, is_decided,
};
use idempotency_core::record::{Data, OwnerToken, RecordId};
use idempotency_core::store::{SendLog, StoreReply, StoreRequest};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::form::compared;
use super::shown::{RecordView, State};
use super::{StoredRecord, changed, confirm_unchanged, existing, failed, read};
use crate::arguments::ResolveArguments;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::json::{self, Object};
use crate::time;

pub(crate) async fn resolve(
    arguments: &ResolveArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let id = &arguments.key;
    let response = response(arguments)?;
    let found = existing(id, connection).await?;
    let now = connection.operator.now();
    let (record, shown) = (&found.record, RecordView::of(id, &found, now));
    if let Some(owner) = &arguments.owner
        && record.owner.value().map(OwnerToken::as_str) != Some(owner.as_str())
    {
        let message = format!("`{id}` has another owner than `{owner}`: look at it again\n{shown}");
        return Err(Failure::new(Exit::Refused, message));
    }
    let limits = connection.records()?.limits();
    let decide = |now| -> Result<(Decision, DecisionWrite), Failure> {
        let decision = decision(arguments, response.clone(), now);
        let decided = decision.about(record, now, arguments.force, limits);
        let decided = decided.map_err(|why| undecided(id, why, &shown))?;
        Ok((decision, decided))
    };
    decide(now)?;
    let question = match (&response, is_decided(record)) {
        (Some(_), false) => {
            "Decide that its run had its effect, and give duplicates this response?"
        }
        (None, false) => {
            "Decide that its run had no effect, and let the next call run the handler?"
        }
        (Some(_), true) => {
            "Replace the decision above, and give duplicates this response from now on?"
        }
        (None, true) => "Replace the decision above, and let the next call run the handler?",
    };
    let form = match &response {
        Some(response) if !arguments.yes => compared(id, response.as_str(), connection).await,
        _ => String::new(),
    };
    let asked = shown.styled().with(form);
    let read = (id, &found);
    let refused = "not resolved";
    let now = confirm_unchanged(arguments.yes, asked, question, refused, read, connection).await?;
    // A window or a lease can have ended while the question was open.
    let (decision, decided) = decide(now)?;
    write(id, &decided, connection).await?;
    let until = match &decision.ending {
        Ending::Completed { expiration, .. } => {
            check_replay(id, &decided, connection).await?;
            expiration.or_else(|| record.expiration.value().copied())
        }
        Ending::Rerun => None,
    };
    let text = format_args!("resolved {id}: {}\n", explained(until, now));
    let json = || reported(id, &decision, now, until);
    json::print(connection.json, json, text)?;
    Ok(Exit::Done)
}

/// Returns the response of `--completed`; `None` for `--rerun`. Clap requires one of them.
fn response(arguments: &ResolveArguments) -> Result<Option<Data>, Failure> {
    let Some(response) = &arguments.completed else {
        return Ok(None);
    };
    let text = match (response.0.as_str(), response.0.strip_prefix('@')) {
        ("-", _) => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        (_, Some(file)) => std::fs::read_to_string(file),
        (text, None) => Ok(text.to_owned()),
    };
    // Not the argument itself: it can be a response.
    let failed = |error| format!("the response cannot be read: {error}");
    let text = text.map_err(|error| Failure::new(Exit::Usage, failed(error)))?;
    Ok(Some(Data::new(text.trim())))
}

/// Returns the decision that the arguments describe, at this time.
fn decision(arguments: &ResolveArguments, response: Option<Data>, now: EpochMillis) -> Decision {
    let window = arguments.expires_after;
    Decision {
        ending: match response {
            Some(response) => Ending::Completed {
                response,
                expiration: window.map(|window| now.floor_to_seconds().plus(window)),
            },
            None => Ending::Rerun,
        },
        by: arguments.by.clone(),
        reason: arguments.reason.clone(),
    }
}

/// Reads the record again after a response was written. A response that duplicates do not get is no success.
async fn check_replay(
    id: &RecordId,
    decided: &DecisionWrite,
    connection: &Connection,
) -> Result<(), Failure> {
    let failed = |why: String| {
        let message = format!("the decision about `{id}` was written, but {why}");
        Err(Failure::new(Exit::Failed, message))
    };
    let found = match read(id, connection).await {
        Ok(found) => found.filter(|found| decided.is_in(&found.record)),
        Err(failure) => {
            let why = failure.message;
            return failed(format!(
                "the record cannot be read again: {why}; check with `idempotency get`"
            ));
        }
    };
    let Some(StoredRecord { record, unreadable }) = found else {
        return failed(
            "the record has changed since then: check with `idempotency get`".to_owned(),
        );
    };
    let state = State::of(&record, connection.operator.now());
    match (state, unreadable) {
        (State::Completed, None) => Ok(()),
        (_, Some(why)) => failed(format!("duplicates do not get the response: {why}")),
        (state, None) => failed(format!(
            "duplicates do not get the response: {}",
            state.explained()
        )),
    }
}

/// Returns the failure of a decision that cannot be made about this record.
fn undecided(id: &RecordId, why: DecisionError, shown: &RecordView<'_>) -> Failure {
    let (exit, more) = match why {
        DecisionError::NotJson | DecisionError::By(_) | DecisionError::Reason(_) => {
            (Exit::Usage, String::new())
        }
        DecisionError::WindowExpired => (Exit::Usage, ", with `--expires-after`".to_owned()),
        DecisionError::Live => (Exit::Refused, format!(", or add `--force`\n{shown}")),
        _ => (Exit::Refused, format!("\n{shown}")),
    };
    Failure::new(exit, format_args!("`{id}` {why}{more}"))
}

/// Writes the decision, if the record is still the one that was shown.
async fn write(
    id: &RecordId,
    decided: &DecisionWrite,
    connection: &Connection,
) -> Result<(), Failure> {
    let request = StoreRequest::write(id, &decided.write, &decided.condition);
    match connection.records()?.send(request, &SendLog::new()).await {
        StoreReply::Applied { .. } => Ok(()),
        // An earlier send of this write was applied, and its reply was lost.
        StoreReply::ConditionFailed {
            existing: Some(existing),
            ..
        } if decided.is_in(&existing) => Ok(()),
        StoreReply::ConditionFailed { maybe_applied, .. } => Err(changed(
            id,
            match maybe_applied {
                true => "; the decision may have been applied before it changed",
                false => " and was not resolved",
            },
        )),
        other => {
            let doubt = "; the record may have been resolved: check with `idempotency get`";
            Err(failed(other, doubt))
        }
    }
}

/// Explains the result. `until` is the end of the window of a response.
fn explained(until: Option<EpochSeconds>, now: EpochMillis) -> String {
    let Some(end) = until else {
        return "the next call runs the handler; a process in which the earlier run goes on refuses calls until that run or its \
                lease ends"
            .to_owned();
    };
    let end = end.get().saturating_mul(1_000);
    let at = time::rfc3339(end).unwrap_or_else(|| "the end of its window".to_owned());
    format!(
        "duplicates get the response until {at}, {}",
        time::distance(end, now)
    )
}

/// Returns the JSON form of the result.
fn reported(
    id: &RecordId,
    decision: &Decision,
    now: EpochMillis,
    until: Option<EpochSeconds>,
) -> Object {
    let resolved = match decision.ending {
        Ending::Completed { .. } => "completed",
        Ending::Rerun => "rerun",
    };
    json::object()
        .text("resolved", resolved)
        .text("key", id.as_str())
        .text("by", &decision.by)
        .text("reason", &decision.reason)
        .count("at", now.get())
        .with("expiration", until.map(|end| json::number(end.get())))
}
