//! The span of a call: the logs of the handler and of the store are inside it.

use tracing::Span;
use tracing::field::Empty;

use super::emit::milliseconds;
use super::summary::{CallSummary, CircuitChange, HandlerProgress};
use super::{MESSAGE, TARGET};
use crate::error::ErrorKind;
use crate::protocol::{ClaimEnd, StagedEnd};
use crate::record::RecordId;

/// Returns the span of a call that begins. It is disabled, and costs nothing, if no subscriber wants it.
pub(super) fn span(operation: &str, key: Option<&RecordId>) -> Span {
    tracing::info_span!(
        target: TARGET,
        MESSAGE,
        operation,
        key = key.map(tracing::field::display),
        outcome = Empty,
        source = Empty,
        bypass = Empty,
        handler_ran = Empty,
        handler = Empty,
        stored = Empty,
        claim = Empty,
        taken_over = Empty,
        staged = Empty,
        circuit = Empty,
        error = Empty,
        store_requests = Empty,
        store_ms = Empty,
        handler_ms = Empty,
    )
}

impl CallSummary<'_> {
    /// Records the fields of the end in the span of the call.
    pub(super) fn record(&self, span: &Span) {
        if span.is_disabled() {
            return;
        }
        tracing::record_all!(
            span,
            outcome = self.outcome().name(),
            source = self.source_name(),
            bypass = self.bypass_name(),
            handler_ran = self.handler_ran(),
            handler = self.handler.map(HandlerProgress::name),
            stored = self.stored(),
            claim = self.claim.map(ClaimEnd::name),
            taken_over = self.taken_over.then_some(true),
            staged = self.staged.map(StagedEnd::name),
            circuit = self.circuit.map(CircuitChange::name),
            error = self.error_kind().map(ErrorKind::name),
            store_requests = self.store_requests,
            store_ms = milliseconds(self.store_time),
            handler_ms = milliseconds(self.handler_time)
        );
    }
}
