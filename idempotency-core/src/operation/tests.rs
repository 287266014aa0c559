//! Whole calls over a store in memory: what is stored, replayed and remembered.

use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::engine::Written;
use crate::example::shared::{
    At, DENIED, FaultyStore, THROTTLED, TOO_LARGE, kind_and_run, run, settings,
};
use crate::example::{self, ready};
use crate::outcome::OutcomeKind;
use crate::protocol::Source;
use crate::protocol::policy::OnInProgress;
use crate::record::{Field, RecordId, Status};
use crate::store::{MemoryStore, StoreError, StoreErrorKind};

/// An operation whose calls share one record, and the store that holds it.
struct Shop {
    operation: CompiledOperation,
    backend: Backend,
    store: Arc<MemoryStore>,
}

impl Shop {
    fn new(set: impl FnOnce(&mut Settings)) -> Self {
        let store = Arc::new(MemoryStore::new());
        Self {
            operation: example::shared::operation(set),
            backend: example::backend_over(store.clone()),
            store,
        }
    }

    /// Runs a call whose handler returns `response`.
    fn call<R>(&self, codec: Codec<R>, response: R) -> Outcome<R> {
        let identity = self.operation.identify("1", None).unwrap();
        let (errors, handler) = (Errors::new(|error| error), async |_| {
            Ok::<_, Error>(response)
        });
        let call = self
            .operation
            .run(&self.backend, &identity, None, codec, errors, handler);
        ready(call).unwrap()
    }

    fn text(&self, response: &str) -> Outcome<String> {
        self.call(Codec::json(), response.to_owned())
    }

    fn id(&self) -> RecordId {
        let identity = self.operation.identify("1", None).unwrap();
        identity.key().unwrap().clone()
    }

    /// Returns true if the key is completed without a response.
    fn is_completed_without_a_response(&self) -> bool {
        let record = self.store.record(&self.id()).unwrap();
        record.status == Field::Value(Status::Completed) && !record.data.exists()
    }
}

fn source<R>(outcome: &Outcome<R>) -> Option<Source> {
    match outcome.kind() {
        OutcomeKind::Replayed(replay) => Some(replay.source()),
        _ => None,
    }
}

#[test]
fn a_stored_response_is_replayed_from_the_store() {
    let shop = Shop::new(|_| ());
    assert_eq!(source(&shop.text("first")), None);
    let second = shop.text("second");
    assert_eq!(second.response(), "first");
    assert_eq!(source(&second), Some(Source::Store));
    shop.store.evict(&shop.id());
    assert_eq!(shop.text("third").response(), "third", "nothing is cached");
}

#[test]
fn a_confirmed_response_is_replayed_from_the_cache_until_it_is_cleared() {
    let shop = Shop::new(|it| it.local_cache = Some(1));
    assert!(!shop.text("first").is_replayed());
    shop.store.evict(&shop.id());
    let second = shop.text("second");
    assert_eq!(second.response(), "first");
    assert_eq!(source(&second), Some(Source::Cache));
    shop.backend.clone().cache().clear();
    assert_eq!(shop.text("third").response(), "third");
    shop.backend.cache().clear();
    assert_eq!(source(&shop.text("fourth")), Some(Source::Store));
    shop.store.evict(&shop.id());
    let fifth = shop.text("fifth");
    assert_eq!(
        source(&fifth),
        Some(Source::Cache),
        "a replay fills the cache"
    );
    let other = shop.backend.with_store(shop.store.clone());
    assert!(other.cache().find("shop", &shop.id()).is_none());
}

#[test]
fn a_response_that_store_when_refuses_is_not_stored() {
    let shop = Shop::new(|it| it.store_when = Some("@ == 'paid'".into()));
    for response in ["declined", "declined again", "paid"] {
        assert_eq!(shop.text(response).response(), response);
    }
    assert_eq!(shop.text("later").response(), "paid");
}

#[test]
fn a_response_is_stored_if_store_when_fails_on_it() {
    let shop = Shop::new(|it| it.store_when = Some("keys(@)".into()));
    shop.text("first");
    assert_eq!(shop.text("second").response(), "first");
}

#[test]
fn a_literal_of_store_when_decides_about_a_response_of_any_length() {
    let host = HostVariables {
        name: "NAME",
        memory: "MIB",
    };
    let few = Variables::from_iter([("MIB".to_owned(), "1".to_owned())]).on(host);
    let long = "a".repeat(Settings::memory_limit(&few));
    for (store_when, stored) in [("`false`", false), ("`true`", true), ("@ == 'paid'", true)] {
        let mut shop = Shop::new(|_| ());
        let settings = settings(|it| it.store_when = Some(store_when.into()));
        shop.operation = CompiledOperation::new("shop::place", &settings, &few).unwrap();
        shop.text(&long);
        let next = shop.text("next");
        // Beyond the limit only a literal is evaluated.
        assert_eq!(next.is_replayed(), stored, "{store_when}");
    }
}

/// Asserts that the caller gets the response, and that its key is completed without it.
fn assert_not_stored<R: Serialize + DeserializeOwned + Debug>(response: R) {
    let shop = Shop::new(|_| ());
    let text = format!("{response:?}");
    let outcome = shop.call(Codec::json(), response);
    assert_eq!(format!("{:?}", outcome.response()), text);
    assert!(shop.is_completed_without_a_response(), "{text}");
}

#[test]
fn a_response_that_cannot_be_read_back_is_not_stored() {
    // NaN becomes null, which is not a number.
    assert_not_stored(f64::NAN);
}

#[test]
fn an_object_that_serde_json_takes_for_its_own_marker_is_not_stored() {
    // The names are those of a payload that the handler sends back. The last two are read as another value.
    for value in [
        serde_json::json!(5),
        serde_json::json!("no JSON"),
        serde_json::json!("1"),
        serde_json::json!("{\"paid\":true}"),
    ] {
        let marked = serde_json::json!({ "$serde_json::private::RawValue": value });
        assert_not_stored(serde_json::json!({ "items": [marked] }));
    }
}

#[test]
fn a_raw_value_that_was_made_without_a_check_is_not_stored() {
    use serde::Deserialize;
    use serde::de::value::{Error, MapDeserializer};
    let parts = [("$serde_json::private::RawValue", "no JSON")];
    let map = MapDeserializer::<_, Error>::new(parts.into_iter());
    assert_not_stored(Box::<serde_json::value::RawValue>::deserialize(map).unwrap());
}

/// The codec of numbers: a negative number is released, and only the call's own caller gets zero.
fn numbers() -> Codec<i32> {
    let write = |number: &i32| match number {
        i32::MIN..0 => Written::Release,
        0 => Written::OwnCallerOnly("zero is not stored"),
        _ => Written::Text(number.to_string()),
    };
    Codec::new(write, |text| serde_json::from_str(text))
}

#[test]
fn a_codec_that_releases_a_response_lets_the_next_call_run() {
    let shop = Shop::new(|_| ());
    assert_eq!(*shop.call(numbers(), -1).response(), -1);
    let marked = shop.store.record(&shop.id()).unwrap().failure;
    assert_eq!(
        marked.value().map(String::as_str),
        Some("unreported: response not stored")
    );
    assert_eq!(*shop.call(numbers(), 7).response(), 7);
    assert_eq!(*shop.call(numbers(), 8).response(), 7);
}

#[test]
fn a_lock_stores_no_form_of_a_response_and_each_call_runs() {
    let lock = || Shop::new(|it| it.store_when = Some("`false`".into()));
    let shop = lock();
    for number in [0, 7, -1, 0] {
        assert_eq!(*shop.call(numbers(), number).response(), number);
    }
    // Neither can be written, nor read back.
    let (shop, other) = (lock(), lock());
    let unwritable = || std::collections::HashMap::from([((1, 2), 3)]);
    let codec = Codec::new(
        |_: &std::collections::HashMap<(i32, i32), i32>| Written::NotSerializable,
        |_| Ok(std::collections::HashMap::new()),
    );
    for _ in 0..2 {
        assert_eq!(*shop.call(codec, unwritable()).response(), unwritable());
        assert!(other.call(Codec::json(), f64::NAN).response().is_nan());
    }
}

#[test]
fn a_codec_that_stores_nothing_completes_the_key_without_a_response() {
    let shop = Shop::new(|_| ());
    assert_eq!(*shop.call(numbers(), 0).response(), 0);
    assert!(shop.is_completed_without_a_response());
}

#[test]
fn a_clone_of_a_backend_shares_the_calls_in_progress() {
    let shop = Shop::new(|_| ());
    let clone = shop.backend.clone();
    let first = |_| std::future::pending::<Result<String, Error>>();
    let mut first = Box::pin(run(&shop.backend, &shop.operation, "1", first));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    // The store has no claim now, so only the shared call in progress can refuse the second call.
    shop.store.evict(&shop.id());
    let second = async |_| Ok("second".to_owned());
    let Err(error) = ready(run(&clone, &shop.operation, "1", second)) else {
        panic!("the second call ran beside the first");
    };
    assert_eq!(error.kind(), ErrorKind::AlreadyInProgress);
}

#[test]
fn the_settings_of_an_operation_are_its_own() {
    let shop = Shop::new(|_| ());
    assert_eq!(shop.operation.key_prefix(), "shop");
    assert!(!shop.operation.is_disabled());
    let waits = Shop::new(|it| it.on_in_progress = Some(OnInProgress::Wait));
    assert_eq!(waits.operation.policy().on_in_progress, OnInProgress::Wait);
    let shared = settings(|it| it.shared_key_prefix = Some(true));
    let error = CompiledOperation::new("shop::place", &shared, &Variables::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("`shared_key_prefix` needs a `key_prefix`"));
}

async fn placed(_: Call) -> Result<String, Error> {
    Ok("placed".to_owned())
}

/// Runs one call over this store.
fn call_over(store: &Arc<FaultyStore>) -> Result<Outcome<String>, Error> {
    let (operation, backend) = (
        example::shared::operation(|_| ()),
        example::backend_over(store.clone()),
    );
    ready(run(&backend, &operation, "1", placed))
}

#[test]
fn a_completion_is_tried_again_only_if_its_error_may_pass() {
    let throttled = FaultyStore::after_the_claim(&[THROTTLED]);
    assert_eq!(call_over(&throttled).unwrap().response(), "placed");
    assert_eq!(throttled.writes(), 3);
    let denied = FaultyStore::after_the_claim(&[DENIED]);
    let error = call_over(&denied).unwrap_err();
    assert_eq!(kind_and_run(&error), (ErrorKind::CompletionUnknown, true));
    assert_eq!(denied.writes(), 2);
}

#[test]
fn an_error_of_the_store_has_the_stores_own_error_as_detail_and_cause() {
    let error = call_over(&FaultyStore::new([Some(DENIED)])).unwrap_err();
    assert_eq!(kind_and_run(&error), (ErrorKind::StoreFailed, false));
    assert_eq!(error.detail(), Some("failure 0"));
    let kind = std::error::Error::source(&error).unwrap();
    let cause = kind.source().unwrap().downcast_ref::<StoreError>().unwrap();
    assert_eq!(cause.kind(), StoreErrorKind::AccessDenied);
    // The completion never succeeds.
    let error = call_over(&FaultyStore::after_the_claim(&[THROTTLED; 99])).unwrap_err();
    assert_eq!(kind_and_run(&error), (ErrorKind::CompletionUnknown, true));
    let first = error.detail();
    assert_eq!(first, Some("failure 1"), "the first failure is the cause");
}

#[test]
fn a_response_that_is_too_large_completes_the_key_without_it() {
    let store = FaultyStore::after_the_claim(&[TOO_LARGE]);
    assert_eq!(call_over(&store).unwrap().response(), "placed");
    assert_eq!(store.writes(), 3);
    let error = call_over(&store).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseUnavailable);
}

#[test]
fn a_clock_before_1970_is_refused_before_the_handler_runs() {
    let shop = Shop::new(|_| ());
    for (now, is_refused) in [(-1, true), (0, false), (1_700_000_000_000, false)] {
        let store = Arc::new(MemoryStore::new());
        let backend = Backend::new(
            store,
            Arc::new(At(EpochMillis::new(now))),
            Arc::new(example::Fixed),
        );
        let error = ready(run(&backend, &shop.operation, "1", placed)).err();
        let refused = is_refused.then_some((ErrorKind::Environment, false));
        assert_eq!(error.as_ref().map(kind_and_run), refused, "{now}");
    }
}

#[test]
fn a_call_of_a_stream_waits_unless_a_setting_says_what_a_duplicate_does() {
    use OnInProgress::{Reject, Wait};
    for (set, expected) in [(None, Wait), (Some(Reject), Reject), (Some(Wait), Wait)] {
        let operation = example::shared::operation(|it| it.on_in_progress = set);
        let identity = operation.identify("1", None).unwrap();
        let of = |identity: &Identity| operation.policy_of(identity).on_in_progress;
        assert_eq!(of(&identity), set.unwrap_or_default());
        assert_eq!(of(&identity.waiting_by_default()), expected);
    }
}

#[test]
fn a_condition_that_holds_for_no_response_is_refused() {
    for (wrong, why) in [
        ("true", "between backticks"),
        ("status == \"paid\"", "in single quotes"),
    ] {
        let settings = settings(|it| it.store_when = Some(wrong.into()));
        let error = CompiledOperation::new("pay", &settings, &Variables::default()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("`store_when`: ") && text.contains(why),
            "{text}"
        );
    }
}
