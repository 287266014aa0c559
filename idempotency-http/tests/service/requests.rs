//! What clients see of a service that is protected by each set of rules, and in each position of a stack: the rows of `requests.txt`.

use axum::body::Body;
use http::Request;
use http::request::Parts;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::store::{LedgerEntry, MemoryWrites};
use idempotency_http::{Call, Host, Place, Variables};
use serde_json::{Map, Value, json};

use crate::*;

/// A host that knows this place, or none.
#[derive(Clone)]
struct At(Option<Place>);

impl Host for At {
    async fn place(&self, operation: &str, _: &Parts) -> Result<Place, Error> {
        let unknown = || Error::new(ErrorKind::UnknownInvocation, operation);
        self.0.clone().ok_or_else(unknown)
    }
}

/// Returns an operation that is switched off.
fn off() -> HttpOperation {
    let off = [("IDEMPOTENCY_DISABLED".to_owned(), "1".to_owned())];
    with(|rules| rules.variables(Variables::from_iter(off)))
}

/// Returns the service of this name.
fn service(name: &str) -> App {
    let id = "powertools_json(body).id";
    let headers = "[header(@, 'host'), header(@, 'x-account')]";
    let user = |parts: &Parts| Some(parts.headers.get("x-user-id")?.to_str().ok()?.to_owned());
    let operation = match name {
        "a caller in a header" => operation(),
        "a caller by an expression" => built(builder().caller("header(@, 'x-user-id')")),
        "a caller by a function" => built(builder().caller_from(user)),
        "shared keys" => built(builder().shared_by_all_callers()),
        "a fingerprint" => with(|rules| rules.fingerprint("powertools_json(body).amount")),
        "more of a fingerprint" => with(|rules| rules.fingerprint_also(headers)),
        "the body by its value" => with(|rules| rules.fingerprint_rfc8785(["/context"])),
        "keys of each path" => with(|rules| rules.key_per_path(true)),
        "shared keys of each path" => built(builder().shared_by_all_callers().key_per_path(true)),
        "no fingerprint" => with(HttpOperationBuilder::without_fingerprint),
        "an optional key" => with(|rules| rules.key_required(false)),
        "an optional key in the body" => with(|rules| rules.key(id).key_required(false)),
        "a key in another header" => with(|rules| rules.key_header("x-request")),
        "a key by an expression" => with(|rules| rules.key("header(@, 'X-Request')")),
        "a key in the body" => with(|rules| rules.key(id)),
        "a key of two parts" => {
            with(|rules| rules.key("[header(@, 'x-order'), header(@, 'x-item')]"))
        }
        "switched off" => off(),
        "switched off, without a place" => return count(off().layer(At(None))).0,
        "without a place" => return count(operation().layer(At(None))).0,
        "after the deadline" => {
            let mut place = place(backend());
            place.deadline = Some(EpochMillis::new(NOW.get() - 1));
            return count(operation().layer(At(Some(place)))).0;
        }
        position => return App::new(stack::app(position)),
    };
    count(operation.layer(backend())).0
}

/// Returns a request with these headers beside those of a client with a key.
fn request(line: &str, headers: &str, body: &str) -> Request<Body> {
    let (method, uri) = line.split_once(' ').unwrap();
    let mut all = json!({"x-user-id": "u-1", "idempotency-key": "\"k-1\""});
    let headers: Map<String, Value> = serde_json::from_str(headers).unwrap();
    all.as_object_mut().unwrap().extend(headers);
    let mut head = Request::builder().method(method).uri(uri);
    for (name, value) in all.as_object().unwrap() {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values.iter().filter_map(Value::as_str) {
            head = head.header(name, value.as_bytes());
        }
    }
    of(head, body.to_owned())
}

#[tokio::test]
async fn each_request_of_the_table_gets_the_response_of_its_row() {
    let mut app = None;
    for row in include_str!("requests.txt").lines() {
        if row.is_empty() {
            app = None;
        }
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        let cells: Vec<_> = row.split(" | ").collect();
        let [name, line, headers, body, expected] = cells[..] else {
            panic!("not five cells: {row}");
        };
        let (of, app) = app.get_or_insert_with(|| (name, service(name)));
        assert_eq!(*of, name, "the rows of a block have one service: {row}");
        let seen = answer(app, request(line, headers, body)).await;
        assert_eq!(seen, expected, "{row}");
    }
}

#[tokio::test]
async fn a_refused_write_is_no_success_of_a_service_that_is_switched_off_without_a_place() {
    for (status, expected) in [(200, "500 misconfigured"), (503, "503 own")] {
        let handler = move |request: Request<Body>, _| {
            let call = request.extensions().get::<Call>().unwrap();
            let write = LedgerEntry::add("shop", 5);
            let add = |writes: &mut MemoryWrites| {
                writes.push(write);
                Ok::<_, Infallible>(())
            };
            assert!(call.stage(add).is_err());
            ready(text(status, "own"))
        };
        let (app, _) = serve_with(off().layer(At(None)), handler);
        assert_eq!(answer(&app, request("POST /", "{}", "{}")).await, expected);
    }
}
