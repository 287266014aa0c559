//! What is known of a call while it is under way.

use std::time::Duration;

use super::summary::{Claim, Ended, Handler, Summary};
use crate::clock::Clock;
use crate::engine::Ending;
use crate::outcome::{Outcome, OutcomeKind};
use crate::protocol::Completion;
use crate::record::RecordId;
use crate::time::EpochMillis;

/// Collects what the outcome event tells of a call. Dropped before its [`end`](Self::end), it tells that the call was
/// abandoned.
pub(crate) struct Report<'a> {
    operation: &'a str,
    key: Option<&'a RecordId>,
    clock: &'a dyn Clock,
    under_way: Option<(Work, EpochMillis)>,
    handler: Option<Handler>,
    claim: Option<Claim>,
    note: Option<String>,
    store_requests: u32,
    store_time: Duration,
    handler_time: Duration,
    is_told: bool,
}

/// What takes the time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Store,
    Handler,
}

impl<'a> Report<'a> {
    /// Begins the report of a call.
    pub(crate) fn new(operation: &'a str, key: Option<&'a RecordId>, clock: &'a dyn Clock) -> Self {
        Self {
            operation,
            key,
            clock,
            under_way: None,
            handler: None,
            claim: None,
            note: None,
            store_requests: 0,
            store_time: Duration::ZERO,
            handler_time: Duration::ZERO,
            is_told: false,
        }
    }

    /// Counts a request to the store, which is sent now.
    pub(crate) fn asks_the_store(&mut self) {
        self.store_requests += 1;
        self.begin(Work::Store);
    }

    /// Ends the request's time: the store replied, or the call gave up on it.
    pub(crate) fn heard_of_the_store(&mut self) {
        self.pause();
    }

    /// Notes that the handler is started now.
    pub(crate) fn handler_starts(&mut self) {
        self.handler = Some(Handler::Started);
        self.begin(Work::Handler);
    }

    /// Ends the handler's time, with what the handler came to: `Err` is a panic.
    pub(crate) fn handler_ends<R, E, P>(&mut self, came_to: &Result<Result<R, E>, P>) {
        self.handler = Some(match came_to {
            Ok(Ok(_)) => Handler::Returned,
            Ok(Err(_)) => Handler::Failed,
            Err(_) => Handler::Panicked,
        });
        self.pause();
    }

    /// Notes what became of the call's own claim.
    pub(crate) fn claim_became(&mut self, stored: &Completion) {
        self.claim = Some(match stored {
            Completion::Stored(_) => Claim::Completed,
            Completion::WithoutResponse => Claim::CompletedWithoutResponse,
            Completion::Released => Claim::Released,
            Completion::NotReleased => Claim::NotReleased,
            Completion::Kept => Claim::Kept,
        });
    }

    /// Adds what a developer should know of this call, without payload and response.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {text}"),
            None => text,
        });
    }

    /// Emits the outcome event of a call that came to its end.
    pub(crate) fn end<R, E>(mut self, result: &mut Result<Outcome<R>, Ending<E>>) {
        let ended = match result {
            Ok(outcome) => match outcome.kind() {
                OutcomeKind::Executed { .. } => Ended::Own,
                OutcomeKind::Replayed(replay) => Ended::Replayed(replay.source()),
                OutcomeKind::Bypassed(why) => Ended::Bypassed(*why),
            },
            Err(Ending::Refused(error)) => {
                error.mark_told();
                Ended::Error(error)
            }
            Err(Ending::Failed(_, bypass) | Ending::Panicked(_, bypass)) => match bypass {
                Some(why) => Ended::Bypassed(*why),
                None => Ended::Own,
            },
        };
        self.tell(ended);
    }

    fn begin(&mut self, work: Work) {
        self.pause();
        self.under_way = Some((work, self.clock.now()));
    }

    fn pause(&mut self) {
        if let Some((work, since)) = self.under_way.take() {
            let time = since.until(self.clock.now());
            match work {
                Work::Store => self.store_time += time,
                Work::Handler => self.handler_time += time,
            }
        }
    }

    fn tell(&mut self, ended: Ended<'_>) {
        self.is_told = true;
        self.pause();
        Summary {
            operation: self.operation,
            key: self.key,
            ended,
            handler: self.handler,
            claim: self.claim,
            note: self.note.as_deref(),
            store_requests: self.store_requests,
            store_time: self.store_time,
            handler_time: self.handler_time,
        }
        .emit();
    }
}

/// The call's future was dropped on its way: a timeout around it, or a `select!` that another branch won.
impl Drop for Report<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(Ended::Abandoned);
        }
    }
}
