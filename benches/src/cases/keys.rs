//! The way from an event to its key, the parts of that way, and the work of `serde_json` that both are compared with.

use std::hint::black_box;
use std::io;

use idempotency_core::config::{HostVariables, KeyRequired, Settings, Variables};
use idempotency_core::key::{Expression, HashAlgorithm, Json};
use idempotency_core::operation::CompiledOperation;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::{Cases, Event, read};
use crate::events::HttpEvent;

/// The expressions: their names and texts. The whole event is the key of `whole`.
const EXPRESSIONS: [(&str, Option<&str>); 5] = [
    ("path", Some("requestContext.requestId")),
    ("header", Some("header(@, 'Idempotency-Key')")),
    ("body", Some("powertools_json(body).[user_id, order_id]")),
    (
        "complex",
        Some(
            "powertools_json(body).{user: user_id, first: items[0].sku, several: items[?quantity > `1`].sku, \
             count: length(items)}",
        ),
    ),
    ("whole", None),
];

/// Adds the cases of one event.
pub(super) fn add<F: FnOnce() -> String>(cases: &mut Cases<'_>, size: &str, event: &Event<F>) {
    for (name, key) in EXPRESSIONS {
        keys(cases, name, key, size, event);
    }
    references(cases, size, event);
    parts(cases, size, event);
}

fn operation(key: Option<&str>) -> CompiledOperation {
    let settings = Settings {
        key: key.map(|key| key.to_owned().into()),
        // The smallest events lack a part of the key `complex`.
        key_required: Some(KeyRequired::No),
        ..Settings::default()
    };
    // 1 GB of memory, so that the event of 6 MB is below the limit.
    let host = HostVariables::LAMBDA;
    let variables = Variables::from_iter([(host.memory.to_owned(), "1024".to_owned())]).on(host);
    CompiledOperation::new("benches::place", &settings, &variables).expect("the settings are right")
}

/// Adds the way from an event to its key: from text, from a `Value` and from a type.
fn keys<F: FnOnce() -> String>(
    cases: &mut Cases<'_>,
    name: &str,
    key: Option<&str>,
    size: &str,
    event: &Event<F>,
) {
    cases.add(format!("key/{name}/raw/{size}"), event, |text| {
        let (operation, text) = (operation(key), text.to_owned());
        move || {
            let identity = operation.identify(black_box(&text), None);
            drop(black_box(identity.expect("a key")))
        }
    });
    of_value::<Value, F>(cases, &format!("key/{name}/value/{size}"), key, event);
    of_value::<HttpEvent, F>(cases, &format!("key/{name}/typed/{size}"), key, event);
}

fn of_value<T, F>(cases: &mut Cases<'_>, name: &str, key: Option<&str>, event: &Event<F>)
where
    T: Serialize + DeserializeOwned + 'static,
    F: FnOnce() -> String,
{
    cases.add(name.to_owned(), event, |text| {
        let (operation, value) = (operation(key), read::<T>(text));
        move || {
            let identity = operation.identify_value(black_box(&value), None);
            drop(black_box(identity.expect("a key")))
        }
    });
}

/// Adds the work of `serde_json` that the keys are compared with.
fn references<F: FnOnce() -> String>(cases: &mut Cases<'_>, size: &str, event: &Event<F>) {
    cases.add(format!("reference/ignored_any/{size}"), event, |text| {
        let text = text.to_owned();
        move || {
            black_box(read::<IgnoredAny>(black_box(&text)));
        }
    });
    cases.add(format!("reference/to_writer/{size}"), event, |text| {
        let typed = read::<HttpEvent>(text);
        move || {
            serde_json::to_writer(io::sink(), black_box(&typed)).expect("a sink takes everything")
        }
    });
}

/// Adds the parts of the way: reading, writing canonically, hashing, evaluating.
fn parts<F: FnOnce() -> String>(cases: &mut Cases<'_>, size: &str, event: &Event<F>) {
    let parsed = |text: &str| Json::parse(text).expect("the event is JSON");
    cases.add(format!("part/parse/{size}"), event, |text| {
        let text = text.to_owned();
        move || drop(black_box(parsed(black_box(&text))))
    });
    cases.add(format!("part/canonical/{size}"), event, |text| {
        let json = parsed(text);
        move || drop(black_box(black_box(&json).to_canonical()))
    });
    for hash in [HashAlgorithm::Md5, HashAlgorithm::Sha256] {
        cases.add(format!("part/digest_{hash}/{size}"), event, |text| {
            let json = parsed(text);
            move || drop(black_box(hash.hex_of(black_box(&json))))
        });
    }
    cases.add(format!("part/evaluate/{size}"), event, |text| {
        let json = parsed(text);
        let path = Expression::compile("requestContext.requestId").expect("it is right");
        move || drop(black_box(path.evaluate(black_box(&json)).expect("a value")))
    });
}
