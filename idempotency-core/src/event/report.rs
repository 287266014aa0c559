//! Collects the fields of the outcome event while a call runs.

use std::time::Duration;

use tracing::Span;

use super::emit::span;
use super::summary::{CallOutcome, CallSummary, CircuitChange, HandlerProgress};
use crate::outcome::{Bypass, NoResponse, Outcome, OutcomeKind};
use crate::protocol::{CallEnd, Commits, StagedEnd};
use crate::record::RecordId;
use crate::store::{Staged, StoreError};
use crate::time::{Clock, EpochMillis};

/// Collects the fields of a call's outcome event. If it is dropped before [`end`](Self::end), the event says that the call
/// was abandoned.
pub(crate) struct Report<'a> {
    summary: CallSummary<'a>,
    clock: &'a dyn Clock,
    timed: Option<(Work, EpochMillis)>,
    /// The time until which the circuit is open, if the call found it open.
    open_until: Option<EpochMillis>,
    note: Option<String>,
    is_emitted: bool,
    span: Span,
}

/// The work whose time is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Store,
    Handler,
}

/// Counts requests to the store, and their time.
pub(crate) trait Meter {
    /// Counts a request, and starts to measure its time.
    fn request_started(&mut self);

    /// Ends the time of a request: the store replied, or the request timed out.
    fn request_ended(&mut self);
}

/// Counts nothing: for a request that belongs to no call.
impl Meter for () {
    fn request_started(&mut self) {}

    fn request_ended(&mut self) {}
}

impl Meter for Report<'_> {
    fn request_started(&mut self) {
        self.summary.store_requests += 1;
        self.begin(Work::Store);
    }

    fn request_ended(&mut self) {
        self.pause();
    }
}

impl<'a> Report<'a> {
    /// Starts the report and the span of a call.
    pub(crate) fn new(operation: &'a str, key: Option<&'a RecordId>, clock: &'a dyn Clock) -> Self {
        Self {
            summary: CallSummary::new(operation, key),
            clock,
            timed: None,
            open_until: None,
            note: None,
            is_emitted: false,
            span: span(operation, key),
        }
    }

    /// Returns the call's span, which is disabled if no subscriber wants it.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Records that the call's claim replaced the claim of a run that ended without a result.
    pub(crate) fn took_over(&mut self) {
        self.summary.taken_over = true;
    }

    /// Records what became of the writes that the handler staged.
    pub(crate) fn staged(&mut self, end: StagedEnd) {
        self.summary.staged = Some(end);
    }

    /// Records that the writes that the handler staged are dropped, because the response that it returned is not stored.
    pub(crate) fn drops(&mut self, staged: &Staged) {
        self.staged(StagedEnd::Dropped);
        self.note(match staged.commits() {
            Commits::Again => format!(
                "the response is not stored, so the {} writes that the handler staged are dropped",
                staged.count()
            ),
            Commits::Once => {
                "the response is not stored, so the transaction of the handler does not commit"
                    .to_owned()
            }
        });
    }

    /// Records that the handler runs without a confirmed claim, because of this error of the store. It is `None` if the circuit was open,
    /// or if only a reply was lost.
    pub(crate) fn runs_unprotected(&mut self, error: Option<&StoreError>) {
        self.summary.bypass = Some(Bypass::StoreFailed);
        let why = match (error, self.open_until) {
            (None, Some(until)) => {
                format!("the circuit breaker is open until {until}")
            }
            (Some(error), _) => error.to_string(),
            (None, None) => "its reply was lost".to_owned(),
        };
        self.note(format!(
            "the store failed, so the handler ran without a confirmed claim: {why}"
        ));
    }

    /// Records why the handler ran unprotected. It is called only if the caller gets the handler's own result.
    pub(crate) fn bypassed(&mut self, why: Bypass) {
        self.summary.bypass = Some(why);
    }

    /// Returns why the handler runs without a confirmed claim, if it does.
    pub(crate) fn bypass(&self) -> Option<Bypass> {
        self.summary.bypass
    }

    /// Records that the call sends no request, because the circuit is open until this time.
    pub(crate) fn circuit_open(&mut self, until: EpochMillis) {
        self.circuit(CircuitChange::Open);
        self.open_until = Some(until);
    }

    /// Records what the call learnt of the circuit, or did to it.
    pub(crate) fn circuit(&mut self, change: CircuitChange) {
        self.summary.circuit = Some(change);
    }

    /// Adds requests that the handler's steps, or the renewals of its lease, sent. Their time is a part of the handler's time too.
    pub(crate) fn add_store_requests(&mut self, requests: u32, time: Duration) {
        self.summary.store_requests += requests;
        self.summary.store_time += time;
    }

    /// Records that a renewal of the lease was confirmed.
    pub(crate) fn renewed(&mut self) {
        self.summary.renewals += 1;
    }

    /// Records that a step is undone.
    pub(crate) fn undid(&mut self) {
        self.summary.undone += 1;
    }

    /// Records that the claim may have been gone while the handler ran, and why.
    pub(crate) fn lost_claim(&mut self, why: String) {
        self.summary.claim_lost = true;
        self.note(why);
    }

    /// Records that the handler starts, and starts to measure its time.
    pub(crate) fn handler_started(&mut self) {
        self.summary.handler = Some(HandlerProgress::Started);
        self.begin(Work::Handler);
    }

    /// Records the handler's result and ends its time. The outer `Err` is a panic.
    pub(crate) fn handler_ended<R, E, P>(&mut self, result: &Result<Result<R, E>, P>) {
        self.summary.handler = Some(match result {
            Ok(Ok(_)) => HandlerProgress::Returned,
            Ok(Err(_)) => HandlerProgress::Failed,
            Err(_) => HandlerProgress::Panicked,
        });
        self.pause();
    }

    /// Records how the call's own claim ended, and what became of the writes that the handler staged.
    pub(crate) fn ended(&mut self, end: &CallEnd) {
        self.summary.claim = end.claim;
        self.summary.staged = end.staged;
    }

    /// Adds a note for the developer. It must not contain a part of the payload or the response.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {text}"),
            None => text,
        });
    }

    /// Returns the notes.
    #[cfg(test)]
    pub(crate) fn notes(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Emits the outcome event of a call that has ended.
    pub(crate) fn end<R, E>(mut self, result: &mut Result<Outcome<R>, NoResponse<E>>) {
        self.is_emitted = true;
        self.pause();
        let ended = self.summary;
        self.emit(match result {
            Ok(outcome) => match outcome.kind() {
                OutcomeKind::Replayed(replay) => CallSummary {
                    outcome: CallOutcome::Replayed,
                    source: Some(replay.source()),
                    ..ended
                },
                OutcomeKind::Executed { .. } | OutcomeKind::Bypassed(_) => ended.with_own_result(),
            },
            Err(NoResponse::Refused(error)) => {
                error.mark_emitted();
                ended.with_error(error)
            }
            Err(NoResponse::Failed(_) | NoResponse::Panicked(_)) => ended.with_own_result(),
        });
    }

    /// Starts to measure the time of `work`, and ends that of other work.
    fn begin(&mut self, work: Work) {
        self.pause();
        self.timed = Some((work, self.clock.now()));
    }

    /// Ends the measurement of the current work.
    fn pause(&mut self) {
        if let Some((work, since)) = self.timed.take() {
            let time = since.until(self.clock.now());
            match work {
                Work::Store => self.summary.store_time += time,
                Work::Handler => self.summary.handler_time += time,
            }
        }
    }

    /// Emits the outcome event.
    fn emit(&self, summary: CallSummary<'_>) {
        let note = self.note.as_deref();
        CallSummary { note, ..summary }.publish(&self.span);
    }
}

/// Emits the event of an abandoned call. Its future was dropped: by a timeout around it, or by a `select!` that another
/// branch won.
impl Drop for Report<'_> {
    fn drop(&mut self) {
        if !self.is_emitted {
            self.pause();
            self.emit(self.summary);
        }
    }
}
