//! Changes of a function between a call and its retry: the rows of `docs/guide/deploys.md`.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::{HostVariables, Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_lambda::ErrorKind::{PayloadMismatch, ResponseTypeChanged, Unresolved};
use idempotency_lambda::{BoxError, Context, HashAlgorithm, MemoryStore, OnTimeout, Operation};
use idempotency_tests::End::{Ran, Refused, Replayed};
use idempotency_tests::{Harness, claim_of_another, keyed, operation, ours};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{charge, order_of};

/// The parts of a function's version that determine its record ids.
#[derive(Clone)]
struct Version {
    function: &'static str,
    application: &'static str,
    path: &'static str,
    key: Option<&'static str>,
    key_prefix: Option<&'static str>,
    hash: Option<HashAlgorithm>,
    tenant: Option<&'static str>,
    event: &'static str,
}

/// The version before the deploy.
const BEFORE: Version = Version {
    function: "shop-prod",
    application: "",
    path: "shop::orders::charge",
    key: Some("order_id"),
    key_prefix: None,
    hash: None,
    tenant: None,
    event: r#"{"order_id": 7, "amount": 10}"#,
};

impl Version {
    fn id(&self) -> String {
        let variables = [
            ("AWS_LAMBDA_FUNCTION_NAME", self.function),
            ("IDEMPOTENCY_KEY_PREFIX", self.application),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings {
            key: self.key.map(Into::into),
            key_prefix: self.key_prefix.map(Into::into),
            hash: self.hash,
            ..Settings::default()
        };
        let variables = Variables::from_iter(variables).on(HostVariables::LAMBDA);
        let operation = CompiledOperation::new(self.path, &settings, &variables).unwrap();
        let identity = operation.identify(self.event, self.tenant).unwrap();
        identity.key().unwrap().to_string()
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }

    fn with_prefix(&self, prefix: &'static str) -> Self {
        self.with(|of| of.key_prefix = Some(prefix))
    }
}

#[test]
fn a_rename_changes_the_ids_and_a_stable_prefix_keeps_them() {
    let stable = BEFORE.with_prefix("charge");
    let renames: [fn(&mut Version); 4] = [
        |of| of.path = "shop::payments::pay",
        |of| of.path = "store::orders::charge",
        |of| of.function = "shop-prod-1A2B3C",
        |of| of.application = "store",
    ];
    for rename in renames {
        assert_ne!(BEFORE.with(rename).id(), BEFORE.id());
        assert_eq!(stable.with(rename).id(), stable.id());
    }
}

#[test]
fn the_default_prefix_can_be_written_out_and_any_other_prefix_changes_the_ids() {
    let in_use = BEFORE.with_prefix("shop-prod.shop.orders.charge");
    assert_eq!(in_use.id(), BEFORE.id());
    assert_ne!(BEFORE.with_prefix("charge").id(), BEFORE.id());
}

#[test]
fn another_key_digest_tenant_or_text_changes_the_ids() {
    let changes: [fn(&mut Version); 4] = [
        |of| of.key = Some("[order_id, amount]"),
        |of| of.hash = Some(HashAlgorithm::Sha256),
        |of| of.tenant = Some("blue"),
        |of| of.event = r#"{"order_id": 7.0, "amount": 10}"#,
    ];
    for change in changes {
        assert_ne!(BEFORE.with(change).id(), BEFORE.id());
    }
    // A new field changes the id only if the whole payload is the key.
    let new_field = |of: &mut Version| of.event = r#"{"order_id": 7, "amount": 10, "note": null}"#;
    assert_eq!(BEFORE.with(new_field).id(), BEFORE.id());
    let whole = BEFORE.with(|of| of.key = None);
    assert_ne!(whole.with(new_field).id(), whole.id());
}

fn validating(part: &str) -> Operation {
    keyed(|of| of.validate(part))
}

#[tokio::test]
async fn adding_validate_refuses_real_retries_until_the_old_record_expires() {
    let (harness, new) = (Harness::default(), validating("amount"));
    assert_eq!(harness.end(&charge(), order_of(10)).await, Ran(1));
    let retry = async || harness.end_elsewhere(&new, order_of(10)).await;
    assert_eq!(retry().await, Refused(PayloadMismatch));
    harness.pass(3_600_000);
    assert_eq!(retry().await, Refused(PayloadMismatch));
    harness.pass(2_000);
    assert_eq!(retry().await, Ran(2));
}

#[tokio::test]
async fn changing_validate_refuses_real_retries_and_removing_it_replays_for_another_payload() {
    for (name, new, amount, expected) in [
        (
            "changed",
            validating("[amount]"),
            10,
            Refused(PayloadMismatch),
        ),
        ("removed", charge(), 99, Replayed(1)),
    ] {
        let (harness, old) = (Harness::default(), validating("amount"));
        assert_eq!(harness.end(&old, order_of(10)).await, Ran(1), "{name}");
        let retry = harness.end_elsewhere(&new, order_of(amount)).await;
        assert_eq!(retry, expected, "{name}");
    }
}

#[tokio::test]
async fn a_stored_record_keeps_the_window_of_its_completion() {
    let (harness, short) = (Harness::default(), Duration::from_secs(1));
    assert_eq!(harness.end(&charge(), order_of(10)).await, Ran(1));
    harness.pass(60_000);
    let new = keyed(|of| of.expires_after(short));
    let retry = harness.end_elsewhere(&new, order_of(10)).await;
    assert_eq!(retry, Replayed(1));
}

#[derive(Debug, Serialize, Deserialize)]
struct Priced<P> {
    items: Vec<(String, P)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WithState {
    items: Vec<(String, String)>,
    state: String,
}

#[tokio::test]
async fn the_error_of_a_response_that_no_longer_fits_names_the_field_and_not_its_value() {
    async fn misfit<New: std::fmt::Debug + Serialize + DeserializeOwned>() -> String {
        let (harness, charge) = (Harness::default(), charge());
        let items = vec![("tea".to_owned(), "s3cr3t".to_owned())];
        let first = harness.call_with(&charge, order_of(10), async |_| Ok(Priced { items }));
        first.await.unwrap();
        let handler = async |_| panic!("the handler ran again");
        let retry = harness.call_with::<New, _>(&charge, order_of(10), handler);
        let error = retry.await.unwrap_err();
        assert_eq!(ours(&error).kind(), ResponseTypeChanged);
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cr3t"), "{text}");
        text
    }
    let text = misfit::<Priced<u64>>().await;
    assert!(
        text.contains("` at `items[0][1]`, line 1, column 25"),
        "{text}"
    );
    let text = misfit::<WithState>().await;
    assert!(
        text.contains("WithState` (no field `state`), line 1, column 28"),
        "{text}"
    );
}

#[tokio::test]
async fn a_version_that_holds_refuses_a_key_that_timed_out_and_one_that_reruns_takes_it_over() {
    let (harness, rerun) = (Harness::default(), charge());
    let hold = keyed(|of| of.on_timeout(OnTimeout::Hold));
    harness.insert(&rerun, &json!(7), claim_of_another(-1));
    assert_eq!(harness.end(&hold, order_of(10)).await, Refused(Unresolved));
    assert_eq!(harness.end_elsewhere(&rerun, order_of(10)).await, Ran(1));
}

/// Calls the outer operation, whose handler calls the inner one.
async fn both(harness: &Harness, [outer, inner]: [&Operation; 2]) -> usize {
    let outcome = harness.call_with(outer, order_of(10), async |_| {
        Ok(harness.call(inner, order_of(10)).await?.into_response())
    });
    outcome.await.unwrap().into_response()
}

#[tokio::test]
async fn with_the_old_and_the_new_identity_together_no_retry_runs_again() {
    let versions = [("charge", "order_id"), ("charge.v2", "[order_id, amount]")];
    let versions = versions.map(|(prefix, key)| operation().key_prefix(prefix).key(key));
    let [old, new] = versions.map(|version| version.build().unwrap());

    // From the old version to both.
    let harness = Harness::default();
    assert_eq!(harness.end(&old, order_of(10)).await, Ran(1));
    assert_eq!(both(&harness, [&old, &new]).await, 1);

    // From both to only the new version, and back to the old one.
    let harness = Harness::default();
    let first = both(&harness, [&old, &new]).await;
    for version in [&new, &old] {
        assert_eq!(harness.end(version, order_of(10)).await, Replayed(first));
    }
}

#[tokio::test]
async fn with_the_old_and_the_new_store_together_no_retry_runs_again() {
    let runs = Cell::new(0);
    let call = async |version: &Operation, inner: Option<&Operation>| {
        let handler = async || {
            runs.set(runs.get() + 1);
            Ok::<_, BoxError>(runs.get())
        };
        let (order, context) = (order_of(10), Context::default());
        let outcome = match inner {
            Some(inner) => {
                let inside =
                    async || Ok(inner.run(&order, &context, handler).await?.into_response());
                version.run(&order, &context, inside).await
            }
            None => version.run(&order, &context, handler).await,
        };
        outcome.unwrap().into_response()
    };
    // A record of the old version alone must have ended before the new one: "old, both, new" would run twice.
    for way in ["old, both", "both, new", "both, old", "new, both, old"] {
        // `with_backend`, and so a `Harness`, would replace both stores.
        let [old, new] = [(), ()].map(|()| keyed(|it| it.store(Arc::new(MemoryStore::new()))));
        runs.set(0);
        for version in way.split(", ") {
            let response = match version {
                "old" => call(&old, None).await,
                "new" => call(&new, None).await,
                _ => call(&old, Some(&new)).await,
            };
            assert_eq!(response, 1, "{version} of {way}");
        }
    }
}
