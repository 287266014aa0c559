//! `idempotency replay --invoke`: sends the event of a record to its function again.
//!
//! The function decides by its own rules whether its handler runs. The command refuses what would surely be wrong: an event that is
//! not whole, a call that still runs, and a call that has completed.

use aws_config::SdkConfig;
use aws_sdk_dynamodb::error::BoxError;
use idempotency_core::record::{Record, RecordId, Status, StoredEvent};

use super::shown::{RecordView, State};
use super::{StoredRecord, confirm_unchanged, read};
use crate::arguments::ReplayArguments;
use crate::connection::{Connection, Service, chain, without_password};
use crate::exit::{Exit, Failure};
use crate::json::{self, Object, text};
use crate::lambda::{self, InvokeReply, member};
use crate::terminal::{json_line, visible, warn};

pub(super) async fn invoke(
    function: &str,
    arguments: &ReplayArguments,
    id: &RecordId,
    found: &StoredRecord,
    event: &StoredEvent,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let shown = RecordView::of(id, found, connection.operator.now());
    if let Some(why) = refused(&found.record, event, State::of(&found.record, shown.now)) {
        let message = format!("`{id}` {why}\n{shown}");
        return Err(Failure::new(Exit::Refused, message));
    }
    let config = connection.sdk_config().await;
    let endpoint = endpoint(&config, connection).await?;
    let invoked = format_args!("{:<12} `{function}` at {endpoint}\n", "function");
    let asked = shown.styled().with(invoked);
    let question = format!("Invoke `{function}` with the event of this record?");
    // The event was read after the record: if the record is unchanged, it is the record's event.
    let shown_record = (id, found);
    confirm_unchanged(
        arguments.yes,
        asked,
        &question,
        "not replayed",
        shown_record,
        connection,
    )
    .await?;
    let invoked = lambda::invoke(&config, function, event.as_str()).await?;
    // The function has run: a failure to read the record is not a failure of the replay.
    let after = read(id, connection).await;
    let after = after.map(|after| {
        let after = after.map(|after| after.record);
        let is_unchanged = after.as_ref() == Some(&found.record);
        (
            is_unchanged,
            after.map(|after| State::of(&after, connection.operator.now())),
        )
    });
    let result = ReplayResult {
        id,
        function,
        invoked,
        after,
        with_data: arguments.show_data,
    };
    result.warn();
    json::print(connection.json, || result.to_json(), result.text())?;
    Ok(match result.invoked.function_error {
        Some(_) => Exit::FunctionError,
        None => Exit::Done,
    })
}

/// Returns the endpoint of Lambda, as it is shown.
///
/// # Errors
///
/// If it is not set, and the endpoint of DynamoDB is, as for a local database: the function in the AWS account would run. For another
/// store it must be set, because whether such a store is a local one is not known here.
async fn endpoint(config: &SdkConfig, connection: &Connection) -> Result<String, Failure> {
    let failed = |error: BoxError| Failure::new(Exit::Usage, chain(&*error));
    let of_lambda = Service::Lambda.endpoint(config).await.map_err(failed)?;
    if let Some(endpoint) = Service::Lambda.set_endpoint(config).map_err(failed)? {
        return Ok(without_password(&endpoint));
    }
    let place = if connection.table().is_some() {
        let table = Service::DynamoDb.set_endpoint(config).map_err(failed)?;
        table.map(|table| format!("the table is at {}", without_password(&table)))
    } else {
        Some(format!("the records are in {}", connection.name()))
    };
    let Some(place) = place else {
        return Ok(of_lambda);
    };
    let variable = Service::Lambda.variable();
    Err(Failure::new(
        Exit::Usage,
        format_args!(
            "the function was not invoked: {place}, and the function would be invoked at {of_lambda}; set {variable} to the endpoint \
             of the function whose records these are"
        ),
    ))
}

/// Returns why the function is not invoked with this event; `None` if it is invoked.
fn refused(record: &Record, event: &StoredEvent, state: State) -> Option<&'static str> {
    match state {
        State::Live => Some("is a live claim: its call still runs; wait until its lease ends"),
        State::NoLease => {
            Some("is a claim without a lease: whether its call still runs is unknown")
        }
        // Its window may have expired, and a second run would then be a second effect.
        _ if record.status.value() == Some(&Status::Completed) => Some(
            "is completed: its call has its response; print its event without `--invoke` if you need it",
        ),
        State::Completed | State::NoResponse | State::Expired | State::Unreadable => {
            Some("cannot be read as a claim: no function would run under it")
        }
        _ if event.is_whole() => None,
        _ => Some(
            "keeps a part of its event, which its function does not take: print it without `--invoke`, complete it, and invoke the \
             function with it",
        ),
    }
}

/// The result of a replay: of its invocation, and of its second read of the record.
struct ReplayResult<'a> {
    id: &'a RecordId,
    function: &'a str,
    invoked: InvokeReply,
    /// Whether the record is unchanged, and its state; an error if it could not be read. No state: there is no record.
    after: Result<(bool, Option<State>), Failure>,
    /// True if the response is printed. It can contain personal data.
    with_data: bool,
}

impl ReplayResult<'_> {
    /// Warns if the function responded but the record did not change, or if the record could not be read again.
    fn warn(&self) {
        let responded = self.invoked.function_error.is_none();
        if responded && matches!(self.after, Ok((true, _))) {
            warn(format_args!(
                "the record `{}` did not change, so the function did not run under its key: is `{}` its function, and is the \
                 event its whole input?",
                self.id, self.function
            ));
        }
        if let Err(failure) = &self.after {
            let why = &failure.message;
            warn(format_args!("the record cannot be read again: {why}"));
        }
    }

    /// Returns the type and the text of the function's error. The text is left out if it may contain personal data.
    fn error(&self) -> Option<(String, Option<String>)> {
        let kind = self.invoked.function_error.as_ref()?;
        let payload = &self.invoked.payload;
        let error_type = member(payload, "errorType").unwrap_or_else(|| kind.clone());
        // The errors of this framework contain no payload.
        let is_shown = self.with_data || error_type.starts_with("Idempotency");
        let message = member(payload, "errorMessage").filter(|_| is_shown);
        Some((error_type, message))
    }

    fn state(&self) -> Option<(&'static str, &'static str)> {
        Some(match &self.after {
            Err(_) => return None,
            Ok((_, Some(state))) => (state.name(), state.explained()),
            Ok((_, None)) => ("none", "there is no record: the key is free"),
        })
    }

    fn text(&self) -> String {
        let InvokeReply {
            status,
            version,
            payload,
            ..
        } = &self.invoked;
        let version = version.as_deref().unwrap_or("unknown");
        let (function, version) = (visible(self.function), visible(version));
        let mut text = format!("invoked `{function}`: status {status}, version {version}\n");
        match self.error() {
            Some((error_type, message)) => {
                let message = message.unwrap_or_else(|| "--show-data shows its text".to_owned());
                let error = format!("{error_type}: {message}");
                text.push_str(&format!("error     {}\n", visible(&error)));
            }
            None if self.with_data => {
                text.push_str(&format!("response  {}\n", json_line(payload)));
            }
            None => {
                let bytes = payload.len();
                text.push_str(&format!(
                    "response  {bytes} bytes; --show-data shows them\n"
                ));
            }
        }
        if let Some((_, explained)) = self.state() {
            text.push_str(&format!("record    {explained}\n"));
        }
        text
    }

    fn to_json(&self) -> Object {
        let InvokeReply {
            status,
            version,
            payload,
            ..
        } = &self.invoked;
        let (error_type, message) = self.error().unzip();
        let is_response = self.with_data && error_type.is_none();
        json::object()
            .text("invoked", self.function)
            .text("key", self.id.as_str())
            .count("status", *status)
            .with("version", version.as_deref().map(text))
            .with("error_type", error_type.map(text))
            .with("error_message", message.flatten().map(text))
            .count("response_bytes", payload.len())
            .with("response", is_response.then(|| text(payload)))
            .with("state", self.state().map(|(name, _)| text(name)))
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::Field;
    use idempotency_core::time::{EpochMillis, EpochSeconds};

    use super::*;

    fn why(status: Status, window: i64, lease: i64, event: StoredEvent) -> Option<&'static str> {
        let record = Record {
            status: Field::Value(status),
            expiration: Field::Value(EpochSeconds::new(window)),
            in_progress_expiration: Field::Value(EpochMillis::new(lease)),
            ..Record::default()
        };
        let state = State::of(&record, EpochMillis::new(100_000));
        refused(&record, &event, state)
    }

    #[test]
    fn only_the_whole_event_of_a_call_that_ended_without_a_result_is_sent() {
        use Status::{Completed, InProgress};
        let paused = || Status::Other("PAUSED".to_owned());
        let whole = || StoredEvent::all("7").unwrap();
        let part = StoredEvent::selected("7").unwrap();
        assert_eq!(why(InProgress, 200, 99_999, whole()), None);
        assert_eq!(why(InProgress, 99, 99_999, whole()), None);
        for (status, window, lease, event, text) in [
            (InProgress, 200, 100_001, whole(), "is a live claim"),
            (Completed, 200, 99_999, whole(), "is completed"),
            (Completed, 99, 99_999, whole(), "is completed"),
            (InProgress, 200, 99_999, part, "keeps a part"),
            (paused(), 200, 99_999, whole(), "cannot be read"),
            (paused(), 99, 99_999, whole(), "cannot be read"),
        ] {
            let refused = why(status, window, lease, event).unwrap();
            assert!(refused.starts_with(text), "{refused}");
        }
    }
}
