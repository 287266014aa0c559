//! Collects the fields of the outcome event while a call runs.

use std::time::Duration;

use tracing::Span;

use super::span::span;
use super::summary::{CallOutcome, CallSummary, CircuitChange, HandlerProgress};
use crate::clock::Clock;
use crate::error::Error;
use crate::outcome::{Bypass, Ending, Outcome, OutcomeKind};
use crate::protocol::{CallEnd, ClaimEnd, Source, StagedEnd};
use crate::record::RecordId;
use crate::store::{Staged, StoreError};
use crate::time::EpochMillis;

/// Collects the fields of a call's outcome event. If it is dropped before [`end`](Self::end), the event says that the call
/// was abandoned.
pub(crate) struct Report<'a> {
    operation: &'a str,
    key: Option<&'a RecordId>,
    clock: &'a dyn Clock,
    timed: Option<(Work, EpochMillis)>,
    handler: Option<HandlerProgress>,
    claim: Option<ClaimEnd>,
    taken_over: bool,
    staged: Option<StagedEnd>,
    bypass: Option<Bypass>,
    circuit: Option<CircuitChange>,
    /// Until when the circuit is open that the call found.
    open_until: Option<EpochMillis>,
    note: Option<String>,
    store_requests: u32,
    store_time: Duration,
    handler_time: Duration,
    is_emitted: bool,
    span: Span,
}

/// The work whose time is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Store,
    Handler,
}

impl<'a> Report<'a> {
    /// Starts the report and the span of a call.
    pub(crate) fn new(operation: &'a str, key: Option<&'a RecordId>, clock: &'a dyn Clock) -> Self {
        Self {
            operation,
            key,
            clock,
            timed: None,
            handler: None,
            claim: None,
            taken_over: false,
            staged: None,
            bypass: None,
            circuit: None,
            open_until: None,
            note: None,
            store_requests: 0,
            store_time: Duration::ZERO,
            handler_time: Duration::ZERO,
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
        self.taken_over = true;
    }

    /// Records what became of the writes that the handler staged.
    pub(crate) fn staged(&mut self, end: StagedEnd) {
        self.staged = Some(end);
    }

    /// Records that the writes that the handler staged are dropped, because the response that it returned is not stored.
    pub(crate) fn drops(&mut self, staged: &Staged) {
        self.staged(StagedEnd::Dropped);
        self.note(format!(
            "the response is not stored, so the {} writes that the handler staged are dropped",
            staged.count()
        ));
    }

    /// Records that the handler runs without a confirmed claim, because of this error of the store. There is none if the circuit was
    /// open.
    pub(crate) fn runs_unprotected(&mut self, error: Option<&StoreError>) {
        self.bypass = Some(Bypass::StoreFailed);
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

    /// Records why the handler ran unprotected, after its end: its result is the caller's.
    pub(crate) fn bypassed(&mut self, why: Bypass) {
        self.bypass = Some(why);
    }

    /// Returns why the handler runs without a confirmed claim, if it does.
    pub(crate) fn bypass(&self) -> Option<Bypass> {
        self.bypass
    }

    /// Records that the call sends no request, because the circuit is open until this time.
    pub(crate) fn circuit_open(&mut self, until: EpochMillis) {
        self.circuit(CircuitChange::Open);
        self.open_until = Some(until);
    }

    /// Records what the call learnt of the circuit, or did to it.
    pub(crate) fn circuit(&mut self, change: CircuitChange) {
        self.circuit = Some(change);
    }

    /// Counts a request to the store, and starts to measure its time.
    pub(crate) fn store_request_started(&mut self) {
        self.store_requests += 1;
        self.begin(Work::Store);
    }

    /// Ends the time of a request: the store replied, or the request timed out.
    pub(crate) fn store_request_ended(&mut self) {
        self.pause();
    }

    /// Adds requests that the handler's steps sent. Their time is a part of the handler's time too.
    pub(crate) fn add_store_requests(&mut self, requests: u32, time: Duration) {
        self.store_requests += requests;
        self.store_time += time;
    }

    /// Records that the handler starts, and starts to measure its time.
    pub(crate) fn handler_started(&mut self) {
        self.handler = Some(HandlerProgress::Started);
        self.begin(Work::Handler);
    }

    /// Records the handler's result and ends its time. The outer `Err` is a panic.
    pub(crate) fn handler_ended<R, E, P>(&mut self, result: &Result<Result<R, E>, P>) {
        self.handler = Some(match result {
            Ok(Ok(_)) => HandlerProgress::Returned,
            Ok(Err(_)) => HandlerProgress::Failed,
            Err(_) => HandlerProgress::Panicked,
        });
        self.pause();
    }

    /// Records how the call's own claim ended, and what became of the writes that the handler staged.
    pub(crate) fn ended(&mut self, end: &CallEnd) {
        self.claim = end.claim;
        self.staged = end.staged;
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
    pub(crate) fn end<R, E>(mut self, result: &mut Result<Outcome<R>, Ending<E>>) {
        match result {
            Ok(outcome) => match outcome.kind() {
                OutcomeKind::Replayed(replay) => {
                    self.emit(CallOutcome::Replayed, Some(replay.source()), None);
                }
                OutcomeKind::Executed { .. } | OutcomeKind::Bypassed(_) => self.emit_own(),
            },
            Err(Ending::Refused(error)) => {
                error.mark_emitted();
                self.emit(CallOutcome::of(error), None, Some(error));
            }
            Err(Ending::Failed(_) | Ending::Panicked(_)) => self.emit_own(),
        }
    }

    /// Emits the outcome event of a call whose caller gets the handler's own result.
    fn emit_own(&mut self) {
        let outcome = match (self.bypass, self.handler) {
            (Some(Bypass::StoreFailed), _) => CallOutcome::Unprotected,
            (Some(_), _) => CallOutcome::Bypassed,
            (None, Some(HandlerProgress::Failed)) => CallOutcome::Failed,
            (None, Some(HandlerProgress::Panicked)) => CallOutcome::Panicked,
            (None, _) => CallOutcome::Executed,
        };
        self.emit(outcome, None, None);
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
                Work::Store => self.store_time += time,
                Work::Handler => self.handler_time += time,
            }
        }
    }

    /// Emits the outcome event.
    fn emit(&mut self, outcome: CallOutcome, source: Option<Source>, error: Option<&Error>) {
        self.is_emitted = true;
        self.pause();
        CallSummary {
            operation: self.operation,
            key: self.key,
            outcome,
            source,
            error,
            handler: self.handler,
            claim: self.claim,
            taken_over: self.taken_over,
            staged: self.staged,
            bypass: self.bypass,
            circuit: self.circuit,
            note: self.note.as_deref(),
            store_requests: self.store_requests,
            store_time: self.store_time,
            handler_time: self.handler_time,
        }
        .publish(&self.span);
    }
}

/// Emits the event of an abandoned call. Its future was dropped: by a timeout around it, or by a `select!` that another
/// branch won.
impl Drop for Report<'_> {
    fn drop(&mut self) {
        if !self.is_emitted {
            self.emit(CallOutcome::Abandoned, None, None);
        }
    }
}
