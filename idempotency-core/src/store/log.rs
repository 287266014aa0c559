//! What a store notes of a request while the request goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{StoreError, StoreErrorKind};

/// The notes of one request: what each send of it came to, and how long the caller waits.
///
/// A store may send one request several times, with pauses between the sends. The engine stops waiting when the time for
/// the request ends, and drops the request's future. What the request did until then is known from these notes alone.
///
/// A store that sends notes [`preparing`](Self::preparing) first, [`sending`](Self::sending) before each send and
/// [`ended`](Self::ended) after it. A send that changes nothing is noted with [`reading`](Self::reading) instead. A store that notes nothing is on the safe side: a write that the engine stopped waiting
/// for then counts as maybe applied. A clone is a handle to the same notes.
///
/// ```
/// use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
/// let log = SendLog::new();
/// assert!(log.maybe_applied(), "nothing is noted, so nothing is known");
/// log.preparing();
/// assert!(!log.maybe_applied(), "nothing was sent");
/// log.sending();
/// assert!(log.maybe_applied(), "a send is on its way");
/// log.ended(false, Some(StoreError::new(StoreErrorKind::Throttled, "too many requests")));
/// assert!(!log.maybe_applied(), "the store refused the only send");
/// ```
#[derive(Clone, Debug)]
pub struct SendLog {
    limit: Option<Duration>,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Debug)]
struct Notes {
    stage: Stage,
    sends: u32,
    /// Whether any send before the one on its way may have been applied.
    maybe_applied: bool,
    /// Why the last failed send failed. It is shared with the errors that tell it.
    last: Option<Arc<StoreError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The store notes nothing.
    Unknown,
    /// No send is on its way: before the first, or between two.
    Idle,
    /// A send that changes nothing is on its way.
    Reading,
    /// A send that can be applied is on its way.
    Sending,
}

impl Notes {
    /// Goes on to another stage. A send whose end was not noted may be applied at any moment, whatever follows it.
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
    /// Returns the notes of a request whose caller waits as long as it takes.
    pub fn new() -> Self {
        Self {
            limit: None,
            notes: Arc::new(Mutex::new(Notes {
                stage: Stage::Unknown,
                sends: 0,
                maybe_applied: false,
                last: None,
            })),
        }
    }

    /// Returns the notes of a request whose caller waits for this long.
    ///
    /// ```
    /// # use idempotency_core::store::SendLog;
    /// # use std::time::Duration;
    /// let log = SendLog::within(Duration::from_secs(1));
    /// assert_eq!(log.limit(), Some(Duration::from_secs(1)));
    /// ```
    pub fn within(limit: Duration) -> Self {
        Self {
            limit: Some(limit),
            ..Self::new()
        }
    }

    /// Returns how long the caller waits for the request, sends and pauses together. `None` if that is not limited.
    ///
    /// A store that sends more than once can use it to give each send its share.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Notes that no send is on its way yet, and that every send will be noted.
    ///
    /// A send that was noted before keeps its meaning: one whose end was not noted counts as maybe applied.
    pub fn preparing(&self) {
        self.notes().enter(Stage::Idle);
    }

    /// Notes that a send leaves now. Until it [ends](Self::ended) it may be applied at any moment.
    ///
    /// If the end of the send before was not noted, that send counts as maybe applied, however this one ends.
    pub fn sending(&self) {
        self.notes().send(Stage::Sending);
    }

    /// Notes that a send leaves now that changes nothing, such as a read before a write. It cannot be applied, however it
    /// ends.
    ///
    /// ```
    /// # use idempotency_core::store::SendLog;
    /// let log = SendLog::new();
    /// log.preparing();
    /// log.reading();
    /// assert!(log.is_sending() && !log.maybe_applied());
    /// log.ended(false, None);
    /// log.sending();
    /// assert!(log.maybe_applied(), "the write is on its way");
    /// ```
    pub fn reading(&self) {
        self.notes().send(Stage::Reading);
    }

    /// Notes that the send has ended without success, or was a read: whether it may have been applied all the same, or may
    /// yet arrive, and why it failed, if that is worth telling.
    ///
    /// A send that was applied must not be noted as ended, unless as one that may have been applied.
    pub fn ended(&self, maybe_applied: bool, error: Option<StoreError>) {
        let mut notes = self.notes();
        notes.stage = Stage::Idle;
        notes.maybe_applied |= maybe_applied;
        if error.is_some() {
            notes.last = error.map(Arc::new);
        }
    }

    /// Returns whether any send of the request may have been applied, as far as the store has noted it.
    pub fn maybe_applied(&self) -> bool {
        let notes = self.notes();
        notes.maybe_applied || matches!(notes.stage, Stage::Unknown | Stage::Sending)
    }

    /// Returns whether a send is noted as on its way.
    pub fn is_sending(&self) -> bool {
        matches!(self.notes().stage, Stage::Reading | Stage::Sending)
    }

    /// Returns how many sends were noted.
    pub fn sends(&self) -> u32 {
        self.notes().sends
    }

    /// Returns what a request to the store called `name` came to, of which the caller has stopped waiting: whether it may
    /// have been applied, and why it is not done. The error names what the last send met, where that is known. It changes
    /// nothing: a second call returns the same.
    ///
    /// ```
    /// use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
    /// let log = SendLog::new();
    /// log.preparing();
    /// log.sending();
    /// log.ended(false, Some(StoreError::new(StoreErrorKind::Throttled, "the table asks for fewer requests")));
    /// // The store pauses before it sends again, and the time of the caller ends.
    /// let (maybe_applied, error) = log.given_up("the table");
    /// assert_eq!((maybe_applied, error.kind()), (false, StoreErrorKind::Throttled));
    /// assert!(error.to_string().starts_with("the table asks for fewer requests"));
    /// ```
    pub fn given_up(&self, name: &str) -> (bool, StoreError) {
        let maybe_applied = self.maybe_applied();
        let notes = self.notes();
        let (stage, sends, last) = (notes.stage, notes.sends, notes.last.clone());
        drop(notes);
        let error = match (stage, last) {
            (Stage::Idle, Some(last)) => {
                let often = if sends == 1 {
                    "one send".to_owned()
                } else {
                    format!("{sends} sends")
                };
                let text = format!("{last}; the time for this request ended after {often}");
                StoreError::new(last.kind(), text).with_source(last)
            }
            (Stage::Idle, None) if sends == 0 => {
                let text = format!(
                    "nothing was sent to {name} before the time for the request ended: either the credentials took too \
                     long (fetch them before the first event, with the store's `warm_up`), or the client held the send \
                     back under its own rate limit (adaptive retry mode: use the standard mode)"
                );
                StoreError::new(StoreErrorKind::Credentials, text)
            }
            (_, last) => {
                let text = format!(
                    "{name} gave no response before the time for the request ended: check the endpoint, the network \
                     route from the function's VPC, and the function's timeout (before the handler, `store_timeout`)"
                );
                match last {
                    None => StoreError::new(StoreErrorKind::Unreachable, text),
                    Some(last) => {
                        let text = format!("{text} (the send before failed: {last})");
                        StoreError::new(StoreErrorKind::Unreachable, text).with_source(last)
                    }
                }
            }
        };
        (maybe_applied, error)
    }

    /// The notes. A panic cannot leave them half written, so a poisoned lock is still good.
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SendLog {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttled() -> Option<StoreError> {
        Some(StoreError::new(
            StoreErrorKind::Throttled,
            "the table asks for fewer requests",
        ))
    }

    #[test]
    fn a_store_that_notes_nothing_may_have_applied_what_it_was_asked_for() {
        let (maybe_applied, error) = SendLog::new().given_up("the table");
        assert!(maybe_applied);
        assert_eq!(error.kind(), StoreErrorKind::Unreachable);
        assert!(
            error.to_string().contains("the table gave no response"),
            "{error}"
        );
    }

    #[test]
    fn a_request_that_was_never_sent_was_not_applied() {
        let log = SendLog::new();
        log.preparing();
        let (maybe_applied, error) = log.given_up("the table");
        assert!(!maybe_applied);
        assert_eq!(error.kind(), StoreErrorKind::Credentials);
        let text = error.to_string();
        for word in ["nothing was sent", "credentials", "rate limit"] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_send_on_its_way_may_be_applied_and_the_one_before_it_is_told() {
        let log = SendLog::new();
        log.preparing();
        log.sending();
        log.ended(false, throttled());
        log.sending();
        let (maybe_applied, error) = log.given_up("the table");
        assert!(maybe_applied);
        assert_eq!(error.kind(), StoreErrorKind::Unreachable);
        assert!(error.to_string().contains("fewer requests"), "{error}");
    }

    #[test]
    fn one_send_that_may_have_been_applied_is_enough_however_the_later_ones_end() {
        let log = SendLog::new();
        log.preparing();
        log.sending();
        log.ended(true, None);
        log.sending();
        log.ended(false, throttled());
        let (maybe_applied, error) = log.given_up("the table");
        assert!(maybe_applied);
        assert_eq!(error.kind(), StoreErrorKind::Throttled);
        assert!(error.to_string().contains("after 2 sends"), "{error}");
    }

    #[test]
    fn a_send_that_never_ended_may_have_been_applied_however_the_next_one_ends() {
        let log = SendLog::new();
        log.preparing();
        log.sending();
        log.sending();
        log.ended(false, None);
        assert!(log.maybe_applied());
    }

    #[test]
    fn a_send_that_never_ended_may_have_been_applied_though_another_call_is_prepared() {
        let log = SendLog::new();
        log.preparing();
        log.sending();
        log.preparing();
        assert!(log.maybe_applied());
    }

    #[test]
    fn a_read_before_a_write_is_never_applied() {
        let log = SendLog::new();
        log.preparing();
        log.reading();
        let (maybe_applied, error) = log.given_up("the table");
        assert!(!maybe_applied);
        assert!(error.to_string().contains("gave no response"), "{error}");
        log.preparing();
        log.sending();
        assert!(log.maybe_applied());
        log.ended(false, throttled());
        assert_eq!((log.maybe_applied(), log.sends()), (false, 2));
    }

    #[test]
    fn a_request_is_given_up_the_second_time_as_it_was_the_first() {
        for is_on_its_way in [false, true] {
            let log = SendLog::new();
            log.preparing();
            log.sending();
            log.ended(false, throttled());
            if is_on_its_way {
                log.sending();
            }
            let given_up = || {
                let (maybe_applied, error) = log.given_up("the table");
                (maybe_applied, error.kind(), error.to_string())
            };
            assert_eq!(given_up(), given_up());
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
        assert_eq!(SendLog::within(limit).limit(), Some(limit));
        assert_eq!(SendLog::new().limit(), None);
        assert!(SendLog::within(limit).maybe_applied(), "nothing is noted");
    }

    #[test]
    fn a_send_is_on_its_way_until_it_ends() {
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

    #[test]
    fn sends_that_ended_without_an_error_are_not_taken_for_none() {
        let log = SendLog::new();
        log.preparing();
        log.sending();
        log.ended(false, None);
        let (maybe_applied, error) = log.given_up("the table");
        assert!(!maybe_applied);
        assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    }
}
