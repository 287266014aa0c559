//! The engine over a store that does nothing, for responses of several sizes, and the local cache.

use std::cell::{Cell, LazyCell};
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;

use idempotency_core::cache::{CacheLimits, LocalCache};
use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Backend, Codec, Errors};
use idempotency_core::error::Error;
use idempotency_core::example::{Fixed, ready};
use idempotency_core::operation::{CompiledOperation, Identity};
use idempotency_core::record::{Data, Field, Record, RecordId, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Cases, Event, Run, read};
use crate::events::{HttpEvent, http};
use crate::store::NoStore;

/// Adds the cases of one size of the response.
pub(super) fn add(cases: &mut Cases<'_>, size: &str, bytes: usize) {
    let text = LazyCell::new(|| http(bytes));
    calls::<Value, _>(cases, "value", size, &text);
    calls::<HttpEvent, _>(cases, "typed", size, &text);
    if bytes < 1024 {
        cache_hits(cases, &text);
    }
}

/// A call whose identity is known, with a response that is read from `text`.
struct Call<R> {
    backend: Backend,
    operation: CompiledOperation,
    identity: Identity,
    response: R,
}

impl<R: Serialize + DeserializeOwned + Clone> Call<R> {
    fn new(store: &NoStore, text: &str, cache: bool) -> Self {
        let settings = Settings {
            local_cache: cache.then_some(100),
            ..Settings::default()
        };
        let operation = CompiledOperation::new("benches::place", &settings, &Variables::default());
        let operation = operation.expect("the settings are right");
        Self {
            backend: Backend::new(Arc::new(store.clone()), Arc::new(Fixed), Arc::new(Fixed)),
            identity: operation.identify("42", None).expect("a key"),
            operation,
            response: read(text),
        }
    }

    /// Runs the call to its end. `response` is what the handler returns.
    fn run(&self, response: R) -> R {
        let run = self.operation.run(
            &self.backend,
            &self.identity,
            None,
            Codec::json(),
            Errors::new(|error: Error| error),
            async |_| Ok(response),
        );
        ready(run).expect("a response").into_response()
    }
}

fn calls<R, F>(cases: &mut Cases<'_>, name: &str, size: &str, text: &Event<F>)
where
    R: Serialize + DeserializeOwned + Clone + 'static,
    F: FnOnce() -> String,
{
    for (end, cache, duplicate) in [
        ("fresh", false, false),
        ("replay", false, true),
        ("cached", true, true),
    ] {
        cases.add_prepared(format!("engine/{end}/{name}/{size}"), text, |text| {
            let text = text.to_owned();
            move || {
                let store = NoStore::default();
                let call = Call::<R>::new(&store, &text, cache);
                let first = || drop(call.run(call.response.clone()));
                if cache {
                    first();
                } else if duplicate {
                    store.find_record_of(first);
                }
                let mut response = Some(call.response.clone());
                Box::new(move || {
                    drop(black_box(call.run(response.take().expect("it runs once"))));
                }) as Run
            }
        });
    }
}

/// Adds hits in a cache of few and of many records, and inserts into a cache that is full.
fn cache_hits<F: FnOnce() -> String>(cases: &mut Cases<'_>, text: &Event<F>) {
    for records in [10, 100_000] {
        cases.add(format!("part/cache_hit/{records}"), text, |text| {
            let cache = LocalCache::new();
            let limits = CacheLimits::new(NonZeroUsize::MAX, usize::MAX);
            let id = |number: usize| RecordId::of("benches.place", None, &format!("{number:032x}"));
            for number in 0..records {
                cache.insert("benches.place", limits, id(number), completed(text));
            }
            let wanted = id(records / 2);
            move || drop(black_box(cache.find("benches.place", black_box(&wanted))))
        });
        cases.add(format!("part/cache_insert/{records}"), text, |text| {
            let cache = LocalCache::new();
            let full = NonZeroUsize::new(records).expect("it is not 0");
            let (limits, next) = (CacheLimits::new(full, usize::MAX), Cell::new(0));
            let text = text.to_owned();
            let insert = move || {
                let number = next.replace(next.get() + 1);
                let id = RecordId::of("benches.place", None, &format!("{number:032x}"));
                cache.insert("benches.place", limits, id, completed(&text));
            };
            (0..records).for_each(|_| insert());
            insert
        });
    }
}

fn completed(response: &str) -> Record {
    Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(response)),
        ..Record::default()
    }
}
