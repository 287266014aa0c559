//! The notes that a store takes of one request while the request runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Store, StoreError, StoreErrorKind};

/// The notes of one request: the result of each send, and how long the caller waits.
///
/// A store may send one request several times, with pauses between the sends. When the time for the request ends, the engine
/// stops waiting and drops the future of the request. Then only these notes say what the request did.
///
/// A store that takes notes calls [`preparing`](Self::preparing) first, [`sending`](Self::sending) before each send, and
/// [`ended`](Self::ended) after each send that was not applied. For a send that changes nothing it calls
/// [`reading`](Self::reading) instead of `sending`. A store that takes no notes is safe: a write that timed out then counts as
/// maybe applied.
///
/// A clone is a handle to the same notes.
///
/// # Examples
///
/// ```
/// use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
/// let log = SendLog::new();
/// assert!(log.maybe_applied(), "the store takes no notes, so nothing is known");
/// log.preparing();
/// assert!(!log.maybe_applied(), "nothing was sent");
/// log.sending();
/// assert!(log.maybe_applied(), "a send is in progress");
/// log.ended(false, Some(StoreError::new(StoreErrorKind::Throttled, "too many requests")));
/// assert!(!log.maybe_applied(), "the store refused the only send");
/// ```
#[derive(Clone, Debug, Default)]
pub struct SendLog {
    limit: Option<Duration>,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Debug, Default)]
struct Notes {
    stage: Stage,
    sends: u32,
    /// True if any send before the current one may have been applied.
    maybe_applied: bool,
    /// The error of the last send that failed. Errors of `timed_out` share it as their source.
    last: Option<Arc<StoreError>>,
    /// True if the condition of the write did not hold.
    refused: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The store takes no notes.
    #[default]
    Unknown,
    /// No send is in progress: before the first, or between two.
    Idle,
    /// A send that changes nothing is in progress.
    Reading,
    /// A send that can be applied is in progress.
    Sending,
}

impl Notes {
    /// Moves on to another stage. A send whose end was not noted may still be applied at any later time.
    fn enter(&mut self, stage: Stage) {
        self.maybe_applied |= self.stage == Stage::Sending;
        self.stage = stage;
    }

    fn send(&mut self, stage: Stage) {
        self.enter(stage);
        self.sends = self.sends.saturating_add(1);
    }
}

impl SendLog {
    /// Returns the notes of a request without a time limit.
    #[doc(hidden)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how long the caller waits for the request, including all sends and pauses. `None` means no limit.
    ///
    /// A store that sends more than once can use it to limit each send.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Notes that no send is in progress yet, and that the store will note every send.
    ///
    /// An earlier send whose end was not noted still counts as maybe applied.
    pub fn preparing(&self) {
        self.notes().enter(Stage::Idle);
    }

    /// Notes that a send starts now. Until it [ends](Self::ended) it may be applied at any time.
    ///
    /// If the end of the previous send was not noted, that send counts as maybe applied, however this one ends.
    pub fn sending(&self) {
        self.notes().send(Stage::Sending);
    }

    /// Notes that a send starts now that changes nothing, such as a read before a write. It cannot be applied.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::store::SendLog;
    /// let log = SendLog::new();
    /// log.preparing();
    /// log.reading();
    /// assert!(log.is_sending() && !log.maybe_applied());
    /// log.ended(false, None);
    /// log.sending();
    /// assert!(log.maybe_applied(), "the write is in progress");
    /// ```
    pub fn reading(&self) {
        self.notes().send(Stage::Reading);
    }

    /// Notes that the send has ended without success, or was a read.
    ///
    /// `maybe_applied` is true if it may have been applied, or may still be applied later. `error` says why it failed. A send
    /// that was applied must not be noted as ended with `maybe_applied` false.
    pub fn ended(&self, maybe_applied: bool, error: Option<StoreError>) {
        let mut notes = self.notes();
        notes.stage = Stage::Idle;
        notes.maybe_applied |= maybe_applied;
        if error.is_some() {
            notes.last = error.map(Arc::new);
        }
    }

    /// Notes that the condition of the write did not hold. A store notes this before it sends more to find out which record prevents
    /// the write, because that can fail, or take longer than the engine waits.
    ///
    /// Without the note such a failure looks like that of a store which knows nothing of the key, and under
    /// [`RunUnprotected`](crate::protocol::policy::OnStoreError::RunUnprotected) the handler runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::store::SendLog;
    /// let log = SendLog::new();
    /// assert!(!log.is_refused());
    /// log.refused();
    /// assert!(log.is_refused());
    /// ```
    pub fn refused(&self) {
        self.notes().refused = true;
    }
}

/// What the engine reads of the notes.
#[doc(hidden)]
impl SendLog {
    /// Returns the notes of a request whose caller waits for at most `limit`.
    pub fn with_limit(limit: Duration) -> Self {
        Self {
            limit: Some(limit),
            ..Self::new()
        }
    }

    /// Returns true if the store noted that the condition of the write did not hold.
    pub fn is_refused(&self) -> bool {
        self.notes().refused
    }

    /// Returns true if, by the notes, any send of the request may have been applied.
    pub fn maybe_applied(&self) -> bool {
        let notes = self.notes();
        notes.maybe_applied || matches!(notes.stage, Stage::Unknown | Stage::Sending)
    }

    /// Returns true if, by the notes, a send before the last one may have been applied, or may still be. The last one was applied.
    ///
    /// It is true too if the store takes no notes, because it may have sent more than once.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::store::SendLog;
    /// let log = SendLog::new();
    /// assert!(log.maybe_again(), "the store takes no notes");
    /// log.preparing();
    /// log.sending();
    /// assert!(!log.maybe_again(), "the only send was applied");
    /// log.ended(true, None);
    /// log.sending();
    /// assert!(log.maybe_again(), "the reply to the first send was lost");
    /// ```
    pub fn maybe_again(&self) -> bool {
        let notes = self.notes();
        notes.maybe_applied || notes.stage == Stage::Unknown
    }

    /// Returns true if a send is in progress.
    pub fn is_sending(&self) -> bool {
        matches!(self.notes().stage, Stage::Reading | Stage::Sending)
    }

    /// Returns the number of sends.
    pub fn sends(&self) -> u32 {
        self.notes().sends
    }

    /// Returns the result of a request that timed out: whether it may have been applied, and an error that says why it is not
    /// done.
    ///
    /// The error quotes the last error of a send, if there is one, and otherwise the store's advice. The call changes nothing, so a
    /// second call returns the same.
    pub fn timed_out(&self, store: &dyn Store) -> (bool, StoreError) {
        let (name, maybe_applied) = (store.name(), self.maybe_applied());
        let notes = self.notes();
        let (stage, sends, last) = (notes.stage, notes.sends, notes.last.clone());
        drop(notes);
        let (kind, text) = match (stage, &last) {
            (Stage::Idle, Some(last)) => {
                let often = match sends {
                    1 => "one send".to_owned(),
                    _ => format!("{sends} sends"),
                };
                let text = format!("{last}; the time for this request ended after {often}");
                (last.kind(), text)
            }
            (Stage::Idle, None) if sends == 0 => {
                let advice = store.timeout_advice(false);
                let text = format!(
                    "nothing was sent to {name} before the time for the request ended: {advice}"
                );
                (StoreErrorKind::Credentials, text)
            }
            (_, last) => {
                let advice = store.timeout_advice(true);
                let before = last.as_ref().map_or_else(String::new, |last| {
                    format!(" (the send before failed: {last})")
                });
                let text = format!(
                    "{name} gave no response before the time for the request ended, which `store_timeout` or the deadline sets: \
                     {advice}{before}"
                );
                (StoreErrorKind::Unreachable, text)
            }
        };
        let error = StoreError::new(kind, text);
        let error = match last {
            Some(last) => error.with_source(last),
            None => error,
        };
        (maybe_applied, error)
    }

    /// Returns the notes. A panic cannot leave them half written, so a poisoned lock is still good.
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the notes say after each way in which a request can time out.
#[cfg(test)]
mod tests {
    use super::super::{BoxFuture, StoreLimits, StoreReply, StoreRequest};
    use super::*;
    use crate::example::shared::lines;

    /// Returns the log of a store that noted these words.
    fn noted(words: &str) -> SendLog {
        let log = SendLog::new();
        for word in words.split_whitespace() {
            match word {
                "prepares" => log.preparing(),
                "reads" => log.reading(),
                "sends" => log.sending(),
                "ends" => log.ended(false, None),
                "maybe-applied" => log.ended(true, None),
                "throttled" => {
                    let text = "the table asks for fewer requests";
                    let error = StoreError::new(StoreErrorKind::Throttled, text);
                    log.ended(false, Some(error));
                }
                _ => panic!("`{word}` is no note"),
            }
        }
        log
    }

    struct TheTable;

    impl Store for TheTable {
        fn send<'a>(&'a self, _: StoreRequest<'a>, _: &'a SendLog) -> BoxFuture<'a, StoreReply> {
            unreachable!("only its texts are asked for")
        }

        fn limits(&self) -> StoreLimits {
            unreachable!("only its texts are asked for")
        }

        fn name(&self) -> String {
            "the table".to_owned()
        }
    }

    #[test]
    fn the_notes_say_whether_a_request_that_timed_out_was_applied_and_why_it_is_not_done() {
        for row in lines(include_str!("log/timed_out.txt")) {
            let columns: Vec<_> = row.split(" | ").map(str::trim).collect();
            let [notes, maybe_applied, kind, text] = columns[..] else {
                panic!("{row}");
            };
            let log = noted(notes);
            assert_eq!(log.maybe_applied().to_string(), maybe_applied, "{row}");
            for _second in [false, true] {
                let (applied, error) = log.timed_out(&TheTable);
                let found = (applied.to_string(), format!("{:?}", error.kind()));
                assert_eq!(found, (maybe_applied.to_owned(), kind.to_owned()), "{row}");
                assert!(error.to_string().contains(text), "{row}: {error}");
            }
        }
    }

    #[test]
    fn a_clone_is_a_handle_to_the_same_notes() {
        let log = SendLog::new();
        log.clone().preparing();
        log.clone().sending();
        assert_eq!((log.maybe_applied(), log.sends()), (true, 1));
    }

    #[test]
    fn the_limit_of_a_request_is_known_to_the_store() {
        let limit = Duration::from_secs(1);
        assert_eq!(SendLog::with_limit(limit).limit(), Some(limit));
        assert_eq!(SendLog::new().limit(), None);
        assert!(
            SendLog::with_limit(limit).maybe_applied(),
            "nothing is noted"
        );
    }

    #[test]
    fn a_send_is_in_progress_until_it_ends() {
        let log = SendLog::new();
        assert!(!log.is_sending());
        log.preparing();
        assert!(!log.is_sending());
        for send in [SendLog::reading, SendLog::sending] {
            send(&log);
            assert!(log.is_sending());
            log.ended(false, None);
            assert!(!log.is_sending());
        }
    }
}
