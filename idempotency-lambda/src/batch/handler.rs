//! The function that a batch runs for each record.

use std::future::Future;

use idempotency_core::engine::Codec;
use idempotency_core::error::Error;
use idempotency_core::operation::Call;
use lambda_runtime::LambdaEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::run::{Function, Reader, run_batch};
use super::settings::Batch;
use super::source::{EventSource, FromRecord};
use crate::diagnostic::{BoxError, named};

impl Batch {
    /// Runs `handler` for each record of an event, and returns the partial batch response.
    ///
    /// | event | the handler takes | the key without a `key` expression |
    /// |---|---|---|
    /// | `SqsEvent` | the body as a type, or a [`Message`](super::Message) | the `messageId` |
    /// | `KinesisEvent` | the data as a type, or a [`DataRecord`](super::DataRecord) | the stream's ARN and the `eventID`, which is the shard and the sequence number |
    /// | `dynamodb::Event` | an [`ItemChange`](super::ItemChange) | the `eventID` |
    ///
    /// # Errors
    ///
    /// If the batch cannot be handled at all: a record could not be named in the response, or the operation's settings do not fit a
    /// batch. No handler has run. Lambda then delivers the whole batch again.
    pub fn run<S, A, M, R, E, H>(
        self,
        event: LambdaEvent<S>,
        handler: H,
    ) -> impl Future<Output = Result<S::Response, Error>> + use<S, A, M, R, E, H>
    where
        S: EventSource,
        A: FromRecord<S>,
        R: Serialize + DeserializeOwned,
        E: Into<BoxError>,
        H: RecordHandler<A, M, Future: Future<Output = Result<R, E>>>,
    {
        let function = Function {
            codec: Codec::json(),
            handler: move |record, call| handler.start(record, call),
            named,
        };
        run_batch(self, event, Reader::new(), function)
    }
}

/// A function that runs for each record of a batch. It takes the record `A`, and then its [`Call`] if it asks for it.
///
/// It is implemented for every `Fn(A) -> Fut` and `Fn(A, Call) -> Fut` with a future. `Asks` is what it asks for: `()` or `Call`. The
/// compiler finds it. The parameters of a closure need their types: `|order: Order, call: Call| ..`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function that a batch can run for each record",
    label = "write `async |record: T| ..`, or `async |record: T, call: Call| ..` if it asks for its call",
    note = "it takes a record and nothing more or an `idempotency_lambda::Call`, and returns a future"
)]
pub trait RecordHandler<A, Asks> {
    /// The future of one run.
    type Future: Future;

    /// Starts the run for one record.
    #[doc(hidden)]
    fn start(&self, record: A, call: Call) -> Self::Future;
}

impl<F, A, Fut> RecordHandler<A, ()> for F
where
    F: Fn(A) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(&self, record: A, _: Call) -> Fut {
        self(record)
    }
}

impl<F, A, Fut> RecordHandler<A, Call> for F
where
    F: Fn(A, Call) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(&self, record: A, call: Call) -> Fut {
        self(record, call)
    }
}
