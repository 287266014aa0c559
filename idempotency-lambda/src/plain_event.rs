//! The payload of an event under `run`, read once from the bytes that Lambda sent.
//!
//! `lambda_runtime` gives its payload type a deserializer that follows the path of each member, for the text of an error. That takes
//! a third of the time of reading. So [`EventBodyLayer`] keeps the bytes back, and [`PlainEvent`] reads them without the path. The
//! path is looked for only if the payload does not fit its type.

use std::cell::Cell;
use std::mem;
use std::task::{Context, Poll};

use bytes::Bytes;
use idempotency_core::typed;
use lambda_runtime::tower::Layer;
use lambda_runtime::{LambdaInvocation, Service};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;

use crate::raw::RawError;

task_local! {
    /// The bytes of the event that this task serves, until they are read.
    static BODY: Cell<Bytes>;
}

/// Keeps the bytes of each event for [`PlainEvent`].
pub(crate) struct EventBodyLayer;

impl<S> Layer<S> for EventBodyLayer {
    type Service = EventBodyService<S>;

    fn layer(&self, inner: S) -> EventBodyService<S> {
        EventBodyService(inner)
    }
}

/// The service of [`EventBodyLayer`].
#[derive(Clone)]
pub(crate) struct EventBodyService<S>(S);

impl<S: Service<LambdaInvocation>> Service<LambdaInvocation> for EventBodyService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = TaskLocalFuture<Cell<Bytes>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let body = Cell::new(mem::take(&mut invocation.body));
        // `lambda_runtime` reads the event in `call` (1.5). It may read it in the future as well.
        let (unread, response) = BODY.sync_scope(body, || {
            let response = self.0.call(invocation);
            (BODY.with(Cell::take), response)
        });
        BODY.scope(Cell::new(unread), response)
    }
}

/// A payload that is read from the bytes that [`EventBodyLayer`] kept, whatever deserializer it gets.
pub(crate) struct PlainEvent<A>(pub(crate) A);

impl<'de, A: DeserializeOwned> Deserialize<'de> for PlainEvent<A> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        let body = BODY.try_with(Cell::take).map_err(D::Error::custom)?;
        let text = std::str::from_utf8(&body)
            .map_err(|error| D::Error::custom(format_args!("the event is not JSON: {error}")))?;
        serde_json::from_str(text).map(Self).map_err(|error| {
            let message = error.to_string();
            // The error of a `Raw` knows the place in its own text.
            if message.starts_with("the event does not fit its type") {
                return D::Error::custom(message);
            }
            let place = typed::read::<A>(text).err().unwrap_or(error.into());
            D::Error::custom(RawError(place))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Raw;

    #[derive(Debug, Deserialize)]
    struct Order {
        cards: Vec<u8>,
    }

    fn read<A: DeserializeOwned>(body: &'static [u8]) -> Result<A, String> {
        // The deserializer of a runtime that got no bytes.
        let payload = || serde_json::from_str::<PlainEvent<A>>("");
        BODY.sync_scope(Cell::new(Bytes::from_static(body)), payload)
            .map(|event| event.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_event_is_read_from_the_bytes_that_lambda_sent() {
        assert_eq!(read::<Order>(br#" {"cards": [1]} "#).unwrap().cards, [1]);
        let raw = read::<Raw<Order>>(br#" {"cards": [1]} "#).unwrap();
        assert_eq!(
            (raw.text(), &raw.cards[..]),
            (r#"{"cards": [1]}"#, &[1][..])
        );
    }

    #[test]
    fn an_event_that_does_not_fit_its_type_is_refused_with_the_place_and_without_the_payload() {
        const EVENT: &[u8] = br#"{"cards": [1, "4242 4242"]}"#;
        const PLACE: &str = "the event does not fit its type at `cards[1]` (line 1, column 25)";
        for error in [read::<Order>(EVENT).err(), read::<Raw<Order>>(EVENT).err()] {
            assert!(error.as_ref().unwrap().starts_with(PLACE), "{error:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_one_json_text_are_refused_without_the_payload() {
        for (event, message) in [
            (
                &b"\"4242\xff\""[..],
                "the event is not JSON: invalid utf-8 sequence of 1 bytes from index 5",
            ),
            (b"[4242] 4242", "the event is not JSON (line 1, column 8)"),
            (b"", "the event ends too early (line 1, column 0)"),
        ] {
            assert_eq!(read::<Vec<u64>>(event).unwrap_err(), message);
        }
    }

    #[tokio::test]
    async fn the_bytes_can_be_read_in_the_call_and_in_the_future_of_the_service_inside() {
        for in_call in [true, false] {
            let inner = lambda_runtime::service_fn(move |invocation: LambdaInvocation| {
                assert_eq!(invocation.body, "");
                let read = || {
                    let event: PlainEvent<u8> = serde_json::from_str("").unwrap();
                    event.0
                };
                let early = in_call.then(read);
                async move { Ok::<_, std::convert::Infallible>(early.unwrap_or_else(read)) }
            });
            let invocation = LambdaInvocation {
                parts: http::Response::new(()).into_parts().0,
                body: Bytes::from_static(b"7"),
                context: lambda_runtime::Context::default(),
            };
            let response = EventBodyLayer.layer(inner).call(invocation).await;
            assert_eq!(response, Ok(7));
        }
    }
}
