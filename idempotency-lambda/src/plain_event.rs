//! The payload of an event under `run`, read once from the bytes that Lambda sent.
//!
//! `lambda_runtime` gives its payload type a deserializer that follows the path of each member, for the text of an error. That takes
//! a third of the time of reading. So [`EventBodyLayer`] keeps the bytes back, and [`PlainEvent`] reads them without the path. The
//! path is looked for only if the payload does not fit its type.

use std::any::type_name;
use std::cell::Cell;
use std::mem;
use std::task::{Context, Poll};

use bytes::Bytes;
use idempotency_core::typed::{self, ReadError};
use lambda_runtime::tower::Layer;
use lambda_runtime::{LambdaInvocation, Service};
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::de::StrRead;
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;

use crate::raw::{RAW, RawError};

task_local! {
    /// The event that this task serves.
    static EVENT: Cell<Body>;
}

/// The bytes of an event.
#[derive(Default)]
pub(crate) enum Body {
    /// They were read, and are gone.
    #[default]
    Read,
    Unread(Bytes),
    /// They were read as the type of this name. They have arrays that the read could not judge.
    Unsure(&'static str, Bytes),
}

/// Checks that no array of the event became a type with named fields, if the payload is the one that was read from the event.
///
/// # Errors
///
/// If an array did.
pub(crate) fn check<A: Serialize + ?Sized>(payload: &A) -> Result<(), ReadError> {
    let Ok(Body::Unsure(read, body)) = EVENT.try_with(Cell::take) else {
        return Ok(());
    };
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let same = read == type_name::<A>();
    let checked = if same {
        typed::arrays_stay(payload, text)
    } else {
        Ok(())
    };
    EVENT.with(|event| event.set(Body::Unsure(read, body)));
    checked
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
    type Future = TaskLocalFuture<Cell<Body>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let event = Cell::new(Body::Unread(mem::take(&mut invocation.body)));
        // `lambda_runtime` reads the event in `call` (1.5). It may read it in the future as well.
        let (event, response) = EVENT.sync_scope(event, || {
            let response = self.0.call(invocation);
            (EVENT.with(Cell::take), response)
        });
        EVENT.scope(Cell::new(event), response)
    }
}

/// A payload that is read from the bytes that [`EventBodyLayer`] kept. The deserializer that serde hands over is not used.
pub(crate) struct PlainEvent<A>(pub(crate) A);

impl<'de, A: DeserializeOwned> Deserialize<'de> for PlainEvent<A> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        // Without a body the text is empty, and no value.
        let body = match EVENT.try_with(Cell::take).map_err(D::Error::custom)? {
            Body::Unread(body) => body,
            Body::Read | Body::Unsure(..) => Bytes::new(),
        };
        let text = std::str::from_utf8(&body)
            .map_err(|error| D::Error::custom(format_args!("the event is not JSON: {error}")))?;
        let (read, unsure) = typed::read_by_name::<A, _>(WholeText(text));
        let payload = read.map_err(|error| {
            let message = error.to_string();
            // The error of a `Raw` knows the place in its own text.
            if message.starts_with("the event does not fit its type") {
                return D::Error::custom(message);
            }
            let place = typed::read::<A>(text).err().unwrap_or(error.into());
            D::Error::custom(RawError(place))
        })?;
        if unsure {
            EVENT.with(|event| event.set(Body::Unsure(type_name::<A>(), body)));
        }
        Ok(Self(payload))
    }
}

/// The payload of an event, or why it cannot be read. It is never an error of the runtime, which has no stable name for one.
pub(crate) struct ReadEvent<A>(pub(crate) Result<A, String>);

impl<'de, A: DeserializeOwned> Deserialize<'de> for ReadEvent<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = PlainEvent::deserialize(deserializer);
        let read = read.map(|PlainEvent(payload)| payload);
        Ok(Self(read.map_err(|error| error.to_string())))
    }
}

/// The text of a whole event, read by `serde_json`. A [`Raw`](crate::Raw) gets the text itself: to look for the end of a value takes as
/// long as to read it.
struct WholeText<'de>(&'de str);

impl<'de> WholeText<'de> {
    fn read<T>(
        self,
        read: impl FnOnce(&mut serde_json::Deserializer<StrRead<'de>>) -> serde_json::Result<T>,
    ) -> serde_json::Result<T> {
        let mut json = serde_json::Deserializer::from_str(self.0);
        let value = read(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

/// Writes methods of [`Deserializer`] that leave the work to `serde_json`.
macro_rules! read_by_serde_json {
    ($($method:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> serde_json::Result<V::Value> {
            self.read(|json| json.$method($($argument,)* visitor))
        })*
    };
}

impl<'de> Deserializer<'de> for WholeText<'de> {
    type Error = serde_json::Error;

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> serde_json::Result<V::Value> {
        if name == RAW {
            return visitor.visit_borrowed_str(self.0);
        }
        self.read(|json| json.deserialize_newtype_struct(name, visitor))
    }

    read_by_serde_json! {
        deserialize_any(); deserialize_bool(); deserialize_char(); deserialize_str(); deserialize_string();
        deserialize_i8(); deserialize_i16(); deserialize_i32(); deserialize_i64(); deserialize_i128();
        deserialize_u8(); deserialize_u16(); deserialize_u32(); deserialize_u64(); deserialize_u128();
        deserialize_f32(); deserialize_f64(); deserialize_bytes(); deserialize_byte_buf();
        deserialize_option(); deserialize_unit(); deserialize_unit_struct(name: &'static str);
        deserialize_seq(); deserialize_tuple(length: usize); deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map(); deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier(); deserialize_ignored_any();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Raw;
    use crate::invocation::Busy;

    #[derive(Debug, Deserialize)]
    struct Order {
        cards: Vec<u8>,
    }

    fn read<A: DeserializeOwned>(body: &'static [u8]) -> Result<A, String> {
        // The deserializer of a runtime that got no bytes.
        let payload = || serde_json::from_str::<PlainEvent<A>>("");
        EVENT
            .sync_scope(Cell::new(Body::Unread(Bytes::from_static(body))), payload)
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
    fn a_raw_inside_an_event_has_its_own_text() {
        let raw = read::<Vec<Raw<u8>>>(b"[1, 2]").unwrap();
        assert_eq!((raw[1].text(), *raw[1]), ("2", 2));
    }

    #[test]
    fn each_shape_of_a_type_is_read_as_by_serde_json() {
        #[derive(Debug, Deserialize)]
        #[allow(dead_code)]
        enum Shape {
            Unit,
            Newtype(u8),
            Fields { a: Option<char> },
        }
        #[derive(Debug, Deserialize)]
        #[allow(dead_code)]
        struct Newtype(Box<serde_json::value::RawValue>);

        fn same<T: DeserializeOwned + std::fmt::Debug>(text: &'static str) {
            let by_serde_json: T = serde_json::from_str(text).unwrap();
            let event = format!("{:?}", read::<T>(text.as_bytes()).unwrap());
            assert_eq!(event, format!("{by_serde_json:?}"), "{text}");
        }
        same::<Shape>(r#""Unit""#);
        same::<Shape>(r#"{"Newtype": 1}"#);
        same::<Shape>(r#"{"Fields": {"a": "x"}}"#);
        same::<Newtype>("[1, 2.0]");
        same::<Option<u8>>("null");
        same::<Option<(i8, f32, String)>>(r#"[-1, 2.5, "\u00e9"]"#);
        same::<u128>("340282366920938463463374607431768211455");
        same::<std::collections::BTreeMap<u8, ()>>(r#"{"1": null}"#);
        same::<serde_json::Value>(r#"{"a": [1, 2.0, "b", null, true]}"#);
        same::<serde::de::IgnoredAny>("{}");
    }

    #[test]
    fn an_event_that_does_not_fit_its_type_is_refused_with_the_place_and_without_the_payload() {
        const EVENT: &[u8] = br#"{"cards": [1, "4242 4242"]}"#;
        const PLACE: &str = "the event does not fit its type at `cards[1]` (line 1, column 25)";
        for error in [read::<Order>(EVENT).err(), read::<Raw<Order>>(EVENT).err()] {
            assert!(error.as_ref().unwrap().starts_with(PLACE), "{error:?}");
        }
    }

    #[derive(Debug, Deserialize, serde::Serialize)]
    struct Line {
        price: u8,
    }

    #[derive(Debug, Deserialize, serde::Serialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(Line),
        Many(Vec<Line>),
    }

    #[test]
    fn an_array_is_no_struct() {
        let error = read::<Line>(b"[1]").unwrap_err();
        let expected =
            "the event does not fit its type (an array, where the type has named fields)";
        assert!(error.starts_with(expected), "{error}");
        assert!(read::<Raw<Line>>(b"[1]").is_err());
        assert!(read::<(u8,)>(b"[1]").is_ok());
    }

    #[test]
    fn an_array_that_serde_keeps_before_it_knows_the_type_is_found_when_the_key_is_taken() {
        let identify = |body: &'static [u8]| {
            let operation = crate::Operation::builder("orders").build().unwrap();
            let event = Cell::new(Body::Unread(Bytes::from_static(body)));
            EVENT.sync_scope(event, || {
                let PlainEvent(payload) =
                    serde_json::from_str::<PlainEvent<OneOrMany>>("").unwrap();
                // A part of the event has no text of its own.
                let part = operation.identify("a", crate::Deadline::Inherited);
                assert!(part.is_ok());
                [0, 1].map(|_| {
                    let call = operation.identify(&payload, crate::Deadline::Inherited);
                    call.map(drop).map_err(|error| error.to_string())
                })
            })
        };
        for call in identify(br#"[{"price": 1}]"#) {
            assert_eq!(call, Ok(()));
        }
        for call in identify(b"[1]") {
            let error = call.unwrap_err();
            assert!(
                error.contains("an array, where the type has named fields"),
                "{error}"
            );
        }
    }

    #[test]
    fn such_an_array_ends_in_an_outcome_event_and_stops_no_call_that_is_switched_off() {
        use idempotency_core::config::Variables;
        use idempotency_core::event::observe;
        use std::sync::atomic::{AtomicUsize, Ordering};

        static ENDS: AtomicUsize = AtomicUsize::new(0);
        const PREFIX: &str = "orders.of_a_list";
        observe(|call| {
            let counts = call.operation() == PREFIX;
            ENDS.fetch_add(counts.into(), Ordering::Relaxed);
        });
        for (disabled, ends) in [("true", 0), ("false", 1)] {
            let variable = ("IDEMPOTENCY_DISABLED".to_owned(), disabled.to_owned());
            let operation = crate::Operation::builder("orders")
                .key_prefix(PREFIX)
                .variables(Variables::from_iter([variable]))
                .build()
                .unwrap();
            let event = Cell::new(Body::Unread(Bytes::from_static(b"[1]")));
            let call = EVENT.sync_scope(event, || {
                let PlainEvent(payload) =
                    serde_json::from_str::<PlainEvent<OneOrMany>>("").unwrap();
                operation
                    .identify(&payload, crate::Deadline::Inherited)
                    .map(drop)
            });
            assert_eq!(call.is_err(), ends == 1);
            assert_eq!(ENDS.load(Ordering::Relaxed), ends);
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

    #[test]
    fn the_layer_is_ready_when_its_service_is() {
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(
            EventBodyLayer
                .layer(Busy)
                .poll_ready(&mut context)
                .is_pending()
        );
    }
}
