//! Notes each send of a request: whether it may have been applied, and why it failed.
//!
//! A client sends again inside one call and reports only the last result. If the first send of a write is applied and its reply
//! is lost, the call ends with "the condition failed"; without these notes that would count as "not applied". If the engine
//! stops waiting during a call, the client reports nothing.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use dynamodb_lean_client::sdk::CONDITION_FAILED;
use dynamodb_lean_client::{SendNotes, SendResult};
use idempotency_core::store::{SendLog, StoreError};

use crate::request::GET;
use crate::table::TableRef;

/// The most pieces of one response that are sent or fetched at a time. Each takes about 1 MB of memory meanwhile.
pub(crate) const PIECES_AT_A_TIME: u8 = 4;

/// The shortest timeout of a send. A new connection and a response take some tens of milliseconds.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Notes the sends of one request, which may be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Sends {
    log: SendLog,
    pub(crate) table: Arc<TableRef>,
    /// The value of the header `x-amz-target`.
    target: &'static str,
    /// True if a send changes nothing of the record, such as a read: then it cannot be applied.
    harmless: bool,
    /// How many such requests can run at a time. They share the processor and the line, so each can take so many times as long.
    at_a_time: u8,
    /// The number of sends before this request: one write can need a read before it.
    before: u32,
}

impl Sends {
    /// Starts the notes of a request for the record, before its first send.
    pub(crate) fn new(log: &SendLog, table: &Arc<TableRef>, target: &'static str) -> Self {
        Self {
            log: log.clone(),
            table: Arc::clone(table),
            target,
            harmless: target == GET,
            at_a_time: 1,
            before: log.sends(),
        }
    }

    /// Starts the notes of a request for a piece of a response. It changes nothing of the record, so it cannot be applied to it.
    /// Several can run at a time.
    pub(crate) fn of_piece(log: &SendLog, table: &Arc<TableRef>, target: &'static str) -> Self {
        Self {
            harmless: true,
            at_a_time: PIECES_AT_A_TIME,
            ..Self::new(log, table, target)
        }
    }

    /// Returns the error of a call that failed.
    pub(crate) fn error<E>(&self, error: SdkError<E>) -> StoreError
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        // An error before the first send is local, such as missing credentials.
        let sent = self.log.sends() > self.before;
        self.table.error_of_call(self.target, error, sent)
    }
}

impl SendNotes for Sends {
    /// Returns the timeout of one send of a client whose own is `own`: at most half of what the caller waits, so that a second send is
    /// possible. A piece has the time of all that are sent with it: if a slow processor or line made each of them late, all would be
    /// sent again, and be late again.
    fn timeout(&self, own: Duration) -> Duration {
        let own = own.saturating_mul(u32::from(self.at_a_time));
        match self.log.limit() {
            Some(limit) => own.min((limit / 2).max(MIN_TIMEOUT)),
            None => own,
        }
    }

    /// Notes that a send to this URI starts.
    fn starts(&self, uri: &str) {
        self.table.note_endpoint(uri);
        if self.harmless {
            self.log.reading();
        } else {
            self.log.sending();
        }
    }

    /// Notes the end of a send. Does nothing if no send is in progress.
    fn ends(&self, result: SendResult<'_>) {
        if !self.log.is_sending() {
            return;
        }
        let error = match result {
            // It applied nothing, and a write can follow in the same request.
            SendResult::Success if self.harmless => None,
            // Applied: the note "sending" stays, so that the write counts as maybe applied until the call returns.
            SendResult::Success => return,
            SendResult::Unsent => None,
            SendResult::Timeout => Some(self.table.error_without_response(None, true)),
            SendResult::NoResponse(error) => {
                let timeout = error.is_timeout();
                Some(self.table.error_without_response(Some(error), timeout))
            }
            // After a failed condition there is no error: the call ends with that result.
            SendResult::Response { code, .. } if code == Some(CONDITION_FAILED) => None,
            SendResult::Response {
                status,
                code,
                message,
            } => Some(
                self.table
                    .error_of_response(self.target, status, code, message),
            ),
        };
        let maybe_applied = !result.proves_not_applied() && !self.harmless;
        self.log.ended(maybe_applied, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_the_time_of_all_pieces_that_are_sent_with_it() {
        let own = Duration::from_millis(1_500);
        let table = Arc::new(crate::table::tests::table());
        for (limit, of_record, of_piece) in [(None, 1_500, 6_000), (Some(2_000), 1_000, 1_000)] {
            let log = limit.map_or_else(SendLog::new, |limit| {
                SendLog::with_limit(Duration::from_millis(limit))
            });
            let timeout = |sends: Sends| SendNotes::timeout(&sends, own).as_millis();
            assert_eq!(timeout(Sends::new(&log, &table, GET)), of_record);
            assert_eq!(timeout(Sends::of_piece(&log, &table, GET)), of_piece);
        }
    }

    #[test]
    fn only_a_write_of_the_record_can_be_applied_and_only_a_failure_leaves_an_error() {
        let refused = SendResult::Response {
            status: 400,
            code: Some(CONDITION_FAILED),
            message: None,
        };
        let (put, table) = (
            "DynamoDB_20120810.PutItem",
            Arc::new(crate::table::tests::table()),
        );
        let rows = [
            // Applied: the note stays.
            (SendResult::Success, true, (true, false)),
            (SendResult::Timeout, false, (true, true)),
            (refused, false, (false, false)),
        ];
        for (result, is_sending, of_write) in rows {
            let ends = |notes: fn(&SendLog, &Arc<TableRef>, &'static str) -> Sends, target| {
                let log = SendLog::new();
                let sends = notes(&log, &table, target);
                sends.starts("https://dynamodb.eu-west-1.amazonaws.com/");
                sends.ends(result);
                let store = idempotency_core::store::MemoryStore::new();
                let error = log.timed_out(&store).1.to_string();
                let found = (log.maybe_applied(), error.contains("payments"));
                (log.is_sending(), found)
            };
            assert_eq!(ends(Sends::new, put), (is_sending, of_write), "{result:?}");
            let of_others = (false, (false, of_write.1));
            assert_eq!(ends(Sends::new, GET), of_others, "{result:?}");
            assert_eq!(ends(Sends::of_piece, put), of_others, "{result:?}");
        }
    }
}
