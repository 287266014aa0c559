//! The functions that the code of `#[idempotent(sqs, ..)]` calls. It is no public interface: it changes with the macro.

use std::future::Future;

use idempotency_core::error::Error;
use idempotency_core::event::refused;
use idempotency_core::operation::{Call, OfferedCall};

use super::run::{Function, Reader, run_batch};
use super::{DynamoDbStream, EventSource, FromRecord, Kinesis, Sqs};
use crate::__private::{Codec, RecordConvert, RegisteredOperation};
use crate::store::StoreHandle;

pub use super::{Batch, KeyFrom, RecordOrder};
pub use crate::batch::source::Spec;
pub use lambda_runtime::LambdaEvent;

/// Returns the batch settings of an annotated function.
pub fn batch(
    operation: &'static RegisteredOperation,
    store: Option<StoreHandle>,
) -> Result<Batch, Error> {
    let compiled = operation.operation()?;
    Ok(match store {
        Some(store) => Batch::new(&operation.with_store(compiled, store)),
        None => Batch::new(compiled),
    })
}

/// Returns how a record is read. Only a type that a record can be read as has a reader.
pub fn record<S: EventSource, A: FromRecord<S>>() -> Reader<S, A> {
    Reader::new()
}

/// Runs the function for each record.
pub async fn handle<S, A, R, E, F, Fut>(
    batch: Result<Batch, Error>,
    event: LambdaEvent<S::Event>,
    reader: Reader<S, A>,
    codec: Codec<R>,
    failure: RecordConvert<E>,
    handler: F,
) -> Result<S::Response, E>
where
    S: EventSource,
    F: Fn(A) -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    let RecordConvert { convert, named } = failure;
    let batch = batch.map_err(|error| convert(refused(error)))?;
    let function = Function {
        codec: codec.0,
        ask: |_| (),
        handler: |argument, ()| handler(argument),
        named,
    };
    run_batch(batch, event, reader, function)
        .await
        .map_err(convert)
}

/// Runs the function for each record, with its call.
pub async fn handle_with_call<S, A, R, E, F, Fut>(
    batch: Result<Batch, Error>,
    event: LambdaEvent<S::Event>,
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
        ask: |offered: OfferedCall<'_>| offered.take(),
        handler,
        named,
    };
    run_batch(batch, event, reader, function)
        .await
        .map_err(convert)
}

/// The sources, by their names in the attribute.
pub type SqsSource = Sqs;
/// See [`SqsSource`].
pub type KinesisSource = Kinesis;
/// See [`SqsSource`].
pub type DynamoDbStreamSource = DynamoDbStream;
