//! Random responses: a replay is the first response, byte for byte.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Response};
use proptest::prelude::*;
use tower_layer::Layer;

use crate::common::*;

/// Headers that are stored, and headers that are not.
const NAMES: [&str; 6] = [
    "content-type",
    "location",
    "link",
    "etag",
    "x-request-id",
    "set-cookie",
];

fn any_response() -> impl Strategy<Value = (u16, Vec<(&'static str, String)>, Vec<u8>)> {
    let status = prop_oneof![200_u16..=204, Just(302), Just(303), Just(404), Just(422)];
    let header = (prop::sample::select(&NAMES[..]), "[ -~]{0,20}");
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        ".{0,100}".prop_map(String::into_bytes),
    ];
    (status, prop::collection::vec(header, 0..6), body)
}

fn response(
    (status, headers, body): &(u16, Vec<(&'static str, String)>, Vec<u8>),
) -> Response<Body> {
    let mut response = text(*status, "");
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        response
            .headers_mut()
            .append(HeaderName::from_static(name), value);
    }
    *response.body_mut() = Body::from(body.clone());
    response
}

proptest! {
    #[test]
    fn a_replay_has_the_status_the_body_and_the_stored_headers_of_the_first_response(
        expected in any_response(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let runs = Runs::default();
        let made = expected.clone();
        let service = operation()
            .layer(backend())
            .layer(app(&runs, move |_| response(&made)));
        let request = || post().body(body("{}")).unwrap();
        let own = runtime.block_on(send(&service, request()));
        let replay = runtime.block_on(send(&service, request()));
        let first = response(&expected);
        prop_assert_eq!(own.headers(), first.headers());
        prop_assert_eq!((own.status(), &own.body()[..]), (first.status(), &expected.2[..]));
        prop_assert!(is_replayed(&replay) && runs.count() == 1);
        prop_assert_eq!((replay.status(), replay.body()), (own.status(), own.body()));
        for name in NAMES {
            let of = |response: &Response<bytes::Bytes>| -> Vec<HeaderValue> {
                response.headers().get_all(name).iter().cloned().collect()
            };
            let is_stored = !["x-request-id", "set-cookie"].contains(&name);
            let stored = if is_stored { of(&own) } else { Vec::new() };
            prop_assert_eq!(of(&replay), stored, "{}", name);
        }
    }
}
