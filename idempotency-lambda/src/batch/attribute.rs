//! The functions that the code of `#[idempotent(sqs, ..)]` calls. It is no public interface: it changes with the macro.

use std::future::Future;

use idempotency_core::error::Error;
use idempotency_core::event::refused;
use idempotency_core::operation::Call;

use super::run::{Function, Reader, run_batch};
use super::{EventSource, FromRecord};
use crate::__private::{Codec, RecordConvert, RegisteredOperation};
use crate::store::StoreHandle;

pub use super::{Batch, KeyFrom, RecordOrder};
pub use crate::batch::source::Spec;
pub use aws_lambda_events::dynamodb::Event as DynamoDbEvent;
pub use aws_lambda_events::kinesis::KinesisEvent;
pub use aws_lambda_events::sqs::SqsEvent;
pub use lambda_runtime::LambdaEvent;

/// Returns the batch settings of an annotated function.
pub fn batch(
    operation: &'static RegisteredOperation,
    store: Option<StoreHandle>,
) -> Result<Batch, Error> {
    Ok(Batch::new(&operation.over(store)?))
}

/// Returns how a record is read. Only a type that a record can be read as has a reader.
pub fn record<S: EventSource, A: FromRecord<S>>() -> Reader<S, A> {
    Reader::new()
}

/// Runs the function for each record.
pub async fn handle<S, A, R, E, F, Fut>(
    batch: Result<Batch, Error>,
    event: LambdaEvent<S>,
    reader: Reader<S, A>,
    codec: Codec<R>,
    failure: RecordConvert<E>,
    handler: F,
) -> Result<S::Response, E>
where
    S: EventSource,
    F: Fn(A, Call) -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    let RecordConvert { convert, named } = failure;
    let batch = batch.map_err(|error| convert(refused(error)))?;
    let function = Function {
        codec: codec.0,
        handler,
        named,
    };
    run_batch(batch, event, reader, function)
        .await
        .map_err(convert)
}
