//! Runs a handler without protection, and applies what it staged.

use super::call::{Call, OpenCall, refused_write};
use super::handler::{self, keeps_writes};
use super::request::{Reasons, resend};
use super::staging::StagedByHandler;
use super::{Backend, Codec, StoreWhen};
use crate::error::{Error, ErrorKind};
use crate::event::{Report, StagedEnd};
use crate::outcome::{Bypass, NoResponse, Outcome};
use crate::protocol::{Lease, PlainTransaction};
use crate::store::{Staged, StoreRequest, TransactionRequest};
use crate::time::EpochMillis;

/// A run without protection.
pub(crate) struct Unprotected<'a, R> {
    pub(crate) backend: &'a Backend,
    /// The name of the operation in errors.
    pub(crate) key_prefix: &'a str,
    pub(crate) why: Bypass,
    /// When the invocation ends, if that is known.
    pub(crate) deadline: Option<EpochMillis>,
    /// For how long the writes that the handler stages are sent again: as long as a claim would last.
    pub(crate) lease: Lease,
    pub(crate) codec: Codec<R>,
    pub(crate) store_when: StoreWhen<'a>,
}

impl<R> Unprotected<'_, R> {
    /// Runs the handler, and applies the writes that it staged if it returned a response that the policy stores.
    pub(crate) async fn run<E, F: Future<Output = Result<R, E>>>(
        self,
        report: &mut Report<'_>,
        handler: impl FnOnce(Call) -> F,
    ) -> Result<Outcome<R>, NoResponse<E>> {
        let call = OpenCall::new(Call::without_key(self.backend));
        call.lasts_until(self.deadline);
        let handler = call.enter(|| handler(call.handle()));
        let output = handler::output_of(&call, handler, report).await;
        let undoes = call.undoes_unrecorded(matches!(output, Ok(Ok(_))));
        if undoes {
            // Boxed, so that the future of every other call stays small.
            let undone = Box::pin(call.undo_all(self.key_prefix, Some(report))).await;
            undone.map_err(NoResponse::Refused)?;
        }
        let StagedByHandler { staged, refused } = call.end();
        let stages = staged.is_some() || refused.is_some();
        let keeps = match &output {
            Ok(Ok(_)) if stages && undoes => Some(false),
            // No reference to the response lives while the writes are applied: it need not be `Sync`.
            Ok(Ok(response)) if stages => {
                Some(keeps_writes(response, self.codec, &self.store_when, report))
            }
            _ => None,
        };
        let drops = keeps == Some(false);
        match (keeps, refused, staged) {
            (Some(true), Some(why), _) => {
                report.staged(StagedEnd::Rejected);
                return Err(NoResponse::Refused(refused_write(self.key_prefix, why)));
            }
            (Some(true), None, Some(staged)) => {
                // Boxed, so that the future of every other call stays small.
                let applied = Box::pin(self.apply(&staged, report)).await;
                applied.map_err(NoResponse::Refused)?;
            }
            (Some(false), _, Some(staged)) => report.drops(&staged),
            _ if stages => report.staged(StagedEnd::Dropped),
            _ => {}
        }
        report.bypassed(self.why);
        let outcome = Outcome::bypassed(NoResponse::of_output(output)?, self.why);
        Ok(if drops {
            outcome.with_dropped_writes()
        } else {
            outcome
        })
    }

    /// Returns an error of this run, whose staged writes were not applied or may not have been.
    fn unconfirmed(&self, kind: ErrorKind) -> Error {
        let error = Error::new(kind, self.key_prefix).with_handler_ran(true);
        error.with_unconfirmed_writes()
    }

    /// Applies the staged writes as one transaction without a record.
    ///
    /// # Errors
    ///
    /// If the transaction was rejected, or if it is not known whether it was applied. The handler ran.
    async fn apply(&self, staged: &Staged, report: &mut Report<'_>) -> Result<(), Error> {
        let error = |kind| self.unconfirmed(kind);
        let backend = self.backend;
        let now = || backend.clock().now();
        let token = backend.owner_token().map_err(|failure| {
            report.staged(StagedEnd::Dropped);
            error(ErrorKind::Environment).with_detail(failure.to_string())
        })?;
        report.staged(StagedEnd::Unknown);
        let request = StoreRequest::Transact(TransactionRequest {
            record: None,
            staged,
            token: token.as_str(),
        });
        let begun = now();
        let (end, limits) = (self.lease.end(begun), backend.limits());
        let machine = PlainTransaction::begin(begun, end, limits, staged.commits());
        let mut reasons = Reasons::default();
        let end = resend(backend, now, request, machine, &mut reasons, report).await;
        report.staged(end);
        let error = error(match end {
            StagedEnd::Applied => return Ok(()),
            StagedEnd::Rejected => ErrorKind::TransactionRejected,
            StagedEnd::Dropped | StagedEnd::Unknown => ErrorKind::CompletionUnknown,
        });
        Err(match reasons.error {
            Some(cause) => error.with_detail(cause.to_string()).with_source(cause),
            None => error,
        })
    }
}
