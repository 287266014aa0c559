//! The functions that the code of `#[idempotent]` calls. It is no public interface: it changes with the macro.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use idempotency_core::engine::{Codec, Errors};
use idempotency_core::error::Error;
use idempotency_core::event::refused;
use idempotency_core::outcome::Outcome;
use idempotency_core::store::Store;
use lambda_runtime::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::{Event, Payload};
use crate::invocation::{Deadline, HasContext};
use crate::operation::{IdentifiedCall, whole_event};

#[cfg(feature = "http")]
pub use crate::http::Unstorable;
#[cfg(feature = "http")]
pub use crate::http::handler::{HttpForm, PreparedHttp, prepare as prepare_http};
pub use crate::invocation::assume_lambda;
#[cfg(feature = "http")]
pub use crate::operation::http_rules::{HttpSettings, RegisteredHttp};
pub use crate::operation::registry::{OPERATIONS, RegisteredOperation};
pub use idempotency_core::config::{KeyRequired, Settings};
pub use idempotency_core::key::HashAlgorithm;
pub use idempotency_core::operation::Call;
pub use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Steps,
};
pub use idempotency_macros::idempotent;
pub use linkme;
pub use std::borrow::Cow;
pub use std::time::Duration;

/// Identifies the call of an event, before the handler takes the event.
pub fn identify_event<V: Event>(
    operation: &'static RegisteredOperation,
    event: &V,
    store: Option<Arc<dyn Store>>,
) -> Result<IdentifiedCall, Error> {
    let deadline = Deadline::from(event.context());
    let operation = operation.operation(store)?;
    whole_event::look_at(&operation, event.payload(), true);
    IdentifiedCall::new(&operation, event.payload(), deadline)
}

pub fn identify_value<P: Payload + ?Sized>(
    operation: &'static RegisteredOperation,
    payload: &P,
    deadline: Deadline,
    store: Option<Arc<dyn Store>>,
) -> Result<IdentifiedCall, Error> {
    let operation = operation.operation(store)?;
    whole_event::look_at(&operation, payload, false);
    IdentifiedCall::new(&operation, payload, deadline)
}

/// Returns `first` unless it is inherited, else the deadline and tenant of the first of these contexts that is not empty.
pub fn found(first: Deadline, contexts: &[Option<&Context>]) -> Deadline {
    let further = contexts.iter().copied().flatten().map(Deadline::from);
    let mut all = std::iter::once(first).chain(further);
    all.find(|deadline| *deadline != Deadline::Inherited)
        .unwrap_or_default()
}

/// Returns the deadline and tenant of the context that the attribute names.
pub fn context<C: HasContext + ?Sized>(named: &C) -> Deadline {
    found(Deadline::Inherited, &[named.context()])
}

/// A parameter that may hold a context.
///
/// Method look-up tries [`IsContext`] first. For a type without a context it finds [`IsNoContext`], which is one reference
/// further away. So the attribute does not guess from the spelling of a type.
pub struct Parameter<'a, T>(pub &'a T);

/// See [`Parameter`]. The method's name must not occur in a trait of the user's that is implemented for every type.
pub trait IsContext {
    fn __idempotent_context(&self) -> Option<&Context>;
}

impl<T: HasContext> IsContext for Parameter<'_, T> {
    fn __idempotent_context(&self) -> Option<&Context> {
        self.0.context()
    }
}

/// See [`Parameter`].
pub trait IsNoContext {
    fn __idempotent_context(&self) -> Option<&Context> {
        None
    }
}

impl<T> IsNoContext for &Parameter<'_, T> {}

/// The value of `key_required` that a constant names: a `bool` or a [`KeyRequired`].
///
/// Each type has a function of its own, because a constant cannot call the method of a trait.
#[derive(Debug)]
pub struct Required<T>(pub T);

impl Required<bool> {
    #[must_use]
    pub const fn key_required(self) -> KeyRequired {
        if self.0 {
            KeyRequired::Any
        } else {
            KeyRequired::No
        }
    }
}

impl Required<KeyRequired> {
    #[must_use]
    pub const fn key_required(self) -> KeyRequired {
        self.0
    }
}

/// The two types of a handler's result.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns a `Result`, not `{Self}`",
    label = "write `Result<Response, Error>` here"
)]
pub trait Returned {
    type Response;
    type Failure;
}

impl<R, E> Returned for Result<R, E> {
    type Response = R;
    type Failure = E;
}

/// A response that can be stored and returned to duplicates.
#[diagnostic::on_unimplemented(
    message = "the response `{Self}` cannot be stored and returned to duplicates",
    label = "a response is written as JSON and read back",
    note = "for a type of your own, derive `serde::Serialize` and `serde::Deserialize`; it must own what it holds",
    note = "a type of another crate, such as `(StatusCode, Json<T>)`, cannot be stored: return a type of your own or the event's response type (`ApiGatewayV2httpResponse`), and turn it into the other around this function"
)]
pub trait Response: Sized {
    fn codec() -> Codec<Self>;
}

#[diagnostic::do_not_recommend]
impl<R: Serialize + DeserializeOwned> Response for R {
    fn codec() -> Codec<R> {
        Codec::json()
    }
}

/// An error type that an error of this framework can become.
#[diagnostic::on_unimplemented(
    message = "the error `{Self}` cannot hold this framework's errors",
    label = "this error needs `From<idempotency_lambda::Error>`",
    note = "use `Box<dyn std::error::Error + Send + Sync>`, `anyhow::Error`, or add a variant with `#[from] idempotency_lambda::Error`"
)]
pub trait Failure: Sized {
    fn convert(error: Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> Failure for E {
    fn convert(error: Error) -> E {
        E::from(error)
    }
}

/// An error type of a function of one record: as [`Failure`], and with a name for the log.
#[cfg(feature = "batch")]
#[diagnostic::on_unimplemented(
    message = "the error `{Self}` cannot hold this framework's errors, or has no text for the log",
    label = "this error needs `From<idempotency_lambda::Error>` and `std::error::Error`",
    note = "use `Box<dyn std::error::Error + Send + Sync>`, `anyhow::Error`, or add a variant with `#[from] idempotency_lambda::Error`"
)]
pub trait RecordFailure: Sized {
    fn convert() -> RecordConvert<Self>;
}

#[cfg(feature = "batch")]
#[diagnostic::do_not_recommend]
impl<E: From<Error> + Into<crate::BoxError>> RecordFailure for E {
    fn convert() -> RecordConvert<E> {
        RecordConvert {
            convert: E::from,
            named: crate::diagnostic::named,
        }
    }
}

/// Converts the error type of a function of one record, from this framework's errors and for the log.
#[cfg(feature = "batch")]
pub struct RecordConvert<E> {
    pub(crate) convert: fn(Error) -> E,
    pub(crate) named: crate::batch::ErrorNaming<E>,
}

#[cfg(feature = "batch")]
pub fn record_failure<E: RecordFailure>() -> RecordConvert<E> {
    E::convert()
}

/// Returns how responses of this type are written and read.
pub fn response<R: Response>() -> Codec<R> {
    R::codec()
}

/// Returns the conversion of this framework's errors into the handler's error type.
pub fn failure<E: Failure>() -> fn(Error) -> E {
    E::convert
}

/// Gives a block the type `T`. It is never called.
#[allow(clippy::unreachable)]
pub fn never<T>() -> T {
    unreachable!("the block of this call is never run")
}

pub fn store(store: Arc<dyn Store>) -> Arc<dyn Store> {
    store
}

pub fn run<R, E, Fut: Future<Output = Result<R, E>>>(
    call: Result<IdentifiedCall, Error>,
    codec: Codec<R>,
    convert: fn(Error) -> E,
    handler: impl FnOnce(Call) -> Fut,
) -> Pin<Box<impl Future<Output = Result<Outcome<R>, E>>>> {
    // Without the box, the future of each async function on the way would have room for the whole handler.
    let handler = Box::new(handler);
    // On the heap, because the runtime moves the future of each invocation several times.
    Box::pin(async move {
        let call = call.map_err(|error| convert(refused(error)))?;
        call.run_with(codec, Errors::new(convert), handler).await
    })
}

/// The type of a parameter that the framework supplies: the call.
#[diagnostic::on_unimplemented(
    message = "a parameter whose type has the name `Call` is the call that the framework supplies, and `{Self}` is another type",
    label = "not `idempotency_lambda::Call`",
    note = "for the call of the framework write `call: idempotency_lambda::Call`; for a type of your own, give it another name: `use .. as ..`"
)]
pub trait SuppliedCall {
    fn supplied(call: Call) -> Self;
}

#[diagnostic::do_not_recommend]
impl SuppliedCall for Call {
    fn supplied(call: Call) -> Self {
        call
    }
}

/// Returns how the call becomes the parameter. Only a [`Call`] can be supplied.
pub fn supplied<T: SuppliedCall>() -> fn(Call) -> T {
    T::supplied
}

#[cfg(feature = "http")]
pub fn http_response<R: crate::http::handler::HttpResponse>() -> HttpForm<R> {
    HttpForm::new()
}

/// Runs a handler of HTTP events. Its error may be of any type, because the errors of this framework become responses.
#[cfg(feature = "http")]
pub fn run_http<R, E, Fut: Future<Output = Result<R, E>>>(
    operation: &'static RegisteredOperation,
    prepared: PreparedHttp,
    store: Option<Arc<dyn Store>>,
    form: HttpForm<R>,
    handler: impl FnOnce(Call) -> Fut,
) -> Pin<Box<impl Future<Output = Result<R, E>>>> {
    let handler = Box::new(handler);
    Box::pin(crate::http::handler::run(
        operation, prepared, store, form, handler,
    ))
}

/// The functions that the code of `#[idempotent(sqs, ..)]` calls.
#[cfg(feature = "batch")]
pub mod batch {
    use std::future::Future;

    use idempotency_core::error::Error;
    use idempotency_core::event::refused;

    use super::{Arc, Call, Codec, RecordConvert, RegisteredOperation, Store};
    use crate::batch::run::{Function, Reader, run_batch};
    use crate::batch::{EventSource, FromRecord};

    pub use crate::batch::source::Spec;
    pub use crate::batch::{Batch, KeyFrom, RecordOrder};
    pub use aws_lambda_events::dynamodb::Event as DynamoDbEvent;
    pub use aws_lambda_events::kinesis::KinesisEvent;
    pub use aws_lambda_events::sqs::SqsEvent;
    pub use lambda_runtime::LambdaEvent;

    /// Returns the batch settings of an annotated function.
    pub fn batch(
        operation: &'static RegisteredOperation,
        store: Option<Arc<dyn Store>>,
    ) -> Result<Batch, Error> {
        Ok(Batch::new(&operation.operation(store)?))
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
            codec,
            handler,
            named,
        };
        run_batch(batch, event, reader, function)
            .await
            .map_err(convert)
    }
}
