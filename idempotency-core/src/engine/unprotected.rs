//! Applies the staged writes of a handler that ran unprotected.

use super::Backend;
use super::driver::unconfirmed;
use super::request::{Reasons, send};
use crate::error::{Error, ErrorKind};
use crate::event::{Report, StagedEnd};
use crate::outcome::Ending;
use crate::protocol::{Input, PlainEffect, PlainTransaction};
use crate::store::{Staged, StoreError, StoreRequest, TransactionRequest};
use crate::time::EpochMillis;

/// Applies the staged writes as one transaction without a record.
///
/// # Errors
///
/// If the transaction was rejected, or if it is not known whether it was applied. The handler ran.
pub(crate) async fn apply<E>(
    backend: &Backend,
    operation: &str,
    deadline: EpochMillis,
    staged: &Staged,
    report: &mut Report<'_>,
) -> Result<(), Ending<E>> {
    let fail = |kind, cause: Option<StoreError>| {
        let error = Error::new(kind, operation).with_handler_ran(true);
        let error = match cause {
            Some(cause) => error.with_detail(cause.to_string()).with_source(cause),
            None => error,
        };
        unconfirmed(Ending::Refused(error))
    };
    let token = match backend.owner_token() {
        Ok(token) => token,
        Err(error) => {
            report.staged(StagedEnd::Dropped);
            let error = Error::new(ErrorKind::Environment, operation)
                .with_handler_ran(true)
                .with_detail(error.to_string());
            return Err(Ending::Refused(error.with_unconfirmed_writes()));
        }
    };
    report.staged(StagedEnd::Unknown);
    let mut reasons = Reasons::default();
    let mut plain = PlainTransaction::begin(backend.clock().now(), deadline);
    loop {
        let limit = plain.time_limit(backend.clock().now());
        let transaction = TransactionRequest {
            record: None,
            staged,
            token: token.as_str(),
        };
        let request = StoreRequest::Transact(transaction);
        let Input::Written(result) = send(backend, request, limit, &mut reasons, report).await
        else {
            continue;
        };
        match plain.step(backend.clock().now(), result) {
            PlainEffect::Done => {
                report.staged(StagedEnd::Applied);
                return Ok(());
            }
            PlainEffect::Fail(kind) => {
                if kind == ErrorKind::TransactionRejected {
                    report.staged(StagedEnd::Rejected);
                }
                return Err(fail(kind, reasons.error));
            }
            PlainEffect::Pause(at_most) => {
                let pause = backend.jitter(at_most);
                backend.clock().sleep(pause).await;
            }
        }
    }
}
