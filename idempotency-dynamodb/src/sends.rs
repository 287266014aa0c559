//! Notes each send of a request: whether it may have been applied, and why it failed.
//!
//! A client sends again inside one call and reports only the last result. If the first send of a write is applied and its reply
//! is lost, the call ends with "the condition failed"; without these notes that would count as "not applied". If the engine
//! stops waiting during a call, the client reports nothing.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::{AsyncSleep as _, SharedAsyncSleep};
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_smithy_async::future::timeout::Timeout;
pub(crate) use dynamodb_writes::__private::{CONDITION_FAILED, SendEnd, TRANSACTION_IN_PROGRESS};
use idempotency_core::store::{SendLog, StoreError};

use crate::failure::TableRef;

/// The most pieces of one response that are sent or fetched at a time. Each takes about 1 MB of memory meanwhile.
pub(crate) const PIECES_AT_A_TIME: u8 = 4;

/// The shortest timeout of a send. A new connection and a response take some tens of milliseconds.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Notes the sends of one request, which may be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Sends {
    log: SendLog,
    table: Arc<TableRef>,
    /// The IAM action.
    action: &'static str,
    /// True if a send changes nothing of the record, such as a read: then it cannot be applied.
    harmless: bool,
    /// How many such requests can run at a time. They share the processor and the line, so each can take so many times as long.
    at_a_time: u8,
    /// The number of sends before this request: one write can need a read before it.
    before: u32,
}

impl Sends {
    /// Starts the notes of a request for the record, before its first send.
    pub(crate) fn new(log: &SendLog, table: &Arc<TableRef>, action: &'static str) -> Self {
        log.preparing();
        Self {
            log: log.clone(),
            table: Arc::clone(table),
            action,
            harmless: action == READ,
            at_a_time: 1,
            before: log.sends(),
        }
    }

    /// Starts the notes of a request for a piece of a response. It changes nothing of the record, so it cannot be applied to it.
    /// Several can run at a time.
    pub(crate) fn of_piece(log: &SendLog, table: &Arc<TableRef>, action: &'static str) -> Self {
        Self {
            harmless: true,
            at_a_time: PIECES_AT_A_TIME,
            ..Self::new(log, table, action)
        }
    }

    /// Returns the name or ARN of the table.
    pub(crate) fn table(&self) -> &str {
        &self.table.table
    }

    /// Returns true if the request was sent. An error before that is local, such as missing credentials.
    fn sent(&self) -> bool {
        self.log.sends() > self.before
    }

    /// Returns the timeout of one send of a client whose own is `own`: at most half of what the caller waits, so that a second send is
    /// possible. A piece has the time of all that are sent with it: if a slow processor or line made each of them late, all would be
    /// sent again, and be late again.
    pub(crate) fn timeout(&self, own: Duration) -> Duration {
        let own = own.saturating_mul(u32::from(self.at_a_time));
        match self.log.limit() {
            Some(limit) => own.min((limit / 2).max(MIN_TIMEOUT)),
            None => own,
        }
    }

    /// Notes that a send to this URI starts.
    pub(crate) fn starts(&self, uri: &str) {
        self.table.note_endpoint(uri);
        if self.harmless {
            self.log.reading();
        } else {
            self.log.sending();
        }
    }

    /// Notes the end of a send. Does nothing if no send is in progress.
    pub(crate) fn ends(&self, end: SendEnd<'_>) {
        if !self.log.is_sending() {
            return;
        }
        let error = match end {
            // It applied nothing, and a write can follow in the same request.
            SendEnd::Success if self.harmless => None,
            // Applied: the note "sending" stays, so that the write counts as maybe applied until the call returns.
            SendEnd::Success => return,
            SendEnd::NoResponse {
                never_connected,
                timeout,
            } => Some(self.table.send_without_response(never_connected, timeout)),
            SendEnd::ErrorResponse {
                status,
                code,
                message,
            } => {
                // After a failed condition there is no error: the call ends with that result.
                (code != Some(CONDITION_FAILED)).then(|| {
                    let status = status.unwrap_or_default();
                    self.table.send_error(self.action, status, code, message)
                })
            }
            SendEnd::Unknown => None,
        };
        let maybe_applied = !end.proves_not_applied() && !self.harmless;
        self.log.ended(maybe_applied, error);
    }

    /// Returns the error of a request that the SDK's types refuse.
    pub(crate) fn not_built(&self, error: BuildError) -> StoreError {
        self.table.not_built(error)
    }

    /// Returns the error of a call of the SDK that failed.
    pub(crate) fn error<E>(&self, error: SdkError<E>) -> StoreError
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        self.table.error(self.action, error, self.sent())
    }
}

/// A future took longer than this.
pub(crate) struct TimedOut(pub(crate) Duration);

/// Waits for a future, for at most `limit`. Without a limit or a timer it waits to the end.
///
/// # Errors
///
/// If the future takes longer. It is dropped then.
pub(crate) async fn within<F: Future>(
    timer: Option<SharedAsyncSleep>,
    limit: Option<Duration>,
    future: F,
) -> Result<F::Output, TimedOut> {
    let (Some(limit), Some(timer)) = (limit, timer) else {
        return Ok(future.await);
    };
    // A result that is there counts, however late it is.
    let ended = Timeout::new(future, timer.sleep(limit)).await;
    ended.map_err(|_| TimedOut(limit))
}

/// The IAM action of a read, which never changes a record.
pub(crate) const READ: &str = "dynamodb:GetItem";

/// The action of a transaction, in errors. It needs the permissions of its writes.
pub(crate) const TRANSACT: &str = "dynamodb:TransactWriteItems";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_the_time_of_all_pieces_that_are_sent_with_it() {
        let own = Duration::from_millis(1_500);
        let table = Arc::new(crate::failure::tests::table());
        for (limit, of_record, of_piece) in [(None, 1_500, 6_000), (Some(2_000), 1_000, 1_000)] {
            let log = limit.map_or_else(SendLog::new, |limit| {
                SendLog::with_limit(Duration::from_millis(limit))
            });
            let timeout = |sends: Sends| sends.timeout(own).as_millis();
            assert_eq!(timeout(Sends::new(&log, &table, READ)), of_record);
            assert_eq!(timeout(Sends::of_piece(&log, &table, READ)), of_piece);
        }
    }
}
