//! Changes of a function between a call and its retry: the rows of `docs/guide/deploys.md`.

use std::time::Duration;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation;
use idempotency_core::record::{Field, OwnerToken, Record, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::{BoxError, ErrorKind, HashAlgorithm, OnTimeout, Operation};
use idempotency_tests::{Harness, START, id, keyed, operation, ours};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const ORDER: &str = r#"{"order_id": 7, "amount": 10}"#;

/// The parts of a function's version that determine its record ids.
#[derive(Clone)]
struct Version {
    function: &'static str,
    application: &'static str,
    path: &'static str,
    settings: Settings,
    tenant: Option<&'static str>,
    event: &'static str,
}

/// Returns the version before the deploy.
fn before() -> Version {
    Version {
        function: "shop-prod",
        application: "",
        path: "shop::orders::charge",
        settings: Settings {
            key: Some("order_id".into()),
            ..Settings::default()
        },
        tenant: None,
        event: ORDER,
    }
}

impl Version {
    fn id(&self) -> String {
        let variables = Variables::from_iter([
            (
                "AWS_LAMBDA_FUNCTION_NAME".to_owned(),
                self.function.to_owned(),
            ),
            (
                "IDEMPOTENCY_KEY_PREFIX".to_owned(),
                self.application.to_owned(),
            ),
        ]);
        let operation =
            operation::CompiledOperation::new(self.path, &self.settings, &variables).unwrap();
        let identity = operation.identify(self.event, self.tenant).unwrap();
        identity.key().unwrap().to_string()
    }

    fn with_prefix(mut self, prefix: &str) -> Self {
        self.settings.key_prefix = Some(prefix.to_owned().into());
        self
    }
}

#[test]
fn a_rename_changes_the_ids_and_a_stable_prefix_keeps_them() {
    let renames = |version: Version| {
        [
            Version {
                path: "shop::payments::pay",
                ..version.clone()
            },
            Version {
                path: "store::orders::charge",
                ..version.clone()
            },
            Version {
                function: "shop-prod-1A2B3C",
                ..version.clone()
            },
            Version {
                application: "store",
                ..version
            },
        ]
    };
    for renamed in renames(before()) {
        assert_ne!(renamed.id(), before().id());
    }
    let stable = before().with_prefix("charge");
    for renamed in renames(stable.clone()) {
        assert_eq!(renamed.id(), stable.id());
    }
}

#[test]
fn the_default_prefix_can_be_written_out_and_any_other_prefix_changes_the_ids() {
    let in_use = before().with_prefix("shop-prod.shop.orders.charge");
    assert_eq!(in_use.id(), before().id());
    assert_ne!(before().with_prefix("charge").id(), before().id());
}

#[test]
fn another_key_digest_tenant_or_text_changes_the_ids() {
    let mut key = before();
    key.settings.key = Some("[order_id, amount]".into());
    let mut hash = before();
    hash.settings.hash = Some(HashAlgorithm::Sha256);
    let tenant = Version {
        tenant: Some("blue"),
        ..before()
    };
    let float = Version {
        event: r#"{"order_id": 7.0, "amount": 10}"#,
        ..before()
    };
    for changed in [key, hash, tenant, float] {
        assert_ne!(changed.id(), before().id());
    }
    // A new field changes the id only if the whole payload is the key.
    let new_field = r#"{"order_id": 7, "amount": 10, "note": null}"#;
    assert_eq!(
        Version {
            event: new_field,
            ..before()
        }
        .id(),
        before().id()
    );
    let mut whole = before();
    whole.settings.key = None;
    assert_ne!(
        Version {
            event: new_field,
            ..whole.clone()
        }
        .id(),
        whole.id()
    );
}

fn order(amount: u64) -> Value {
    json!({ "order_id": 7, "amount": amount })
}

fn plain() -> Operation {
    keyed(|of| of)
}

fn validating(part: &str) -> Operation {
    keyed(|of| of.validate(part))
}

/// Runs `old` once, then retries with `new`. Returns the kind of the retry's error, or true if the retry ran.
async fn across(
    harness: &Harness,
    old: &Operation,
    new: &Operation,
    retry: Value,
) -> Result<bool, ErrorKind> {
    harness.call(old, order(10)).await.unwrap();
    match harness.call_elsewhere(new, retry).await {
        Ok(outcome) => Ok(!outcome.is_replayed()),
        Err(error) => Err(ours(&error).kind()),
    }
}

#[tokio::test]
async fn adding_validate_refuses_real_retries_until_the_old_record_expires() {
    let harness = Harness::default();
    let new = validating("amount");
    let result = across(&harness, &plain(), &new, order(10)).await;
    assert_eq!(result, Err(ErrorKind::PayloadMismatch));
    harness.clock.advance(Duration::from_secs(3_600));
    assert_eq!(
        harness.refused_elsewhere(&new, order(10)).await,
        ErrorKind::PayloadMismatch
    );
    assert_eq!(harness.runs(), 1);
    harness.clock.advance(Duration::from_secs(2));
    assert!(
        !harness
            .call_elsewhere(&new, order(10))
            .await
            .unwrap()
            .is_replayed()
    );
}

#[tokio::test]
async fn changing_validate_refuses_real_retries_too() {
    let (old, new) = (validating("amount"), validating("[amount]"));
    let result = across(&Harness::default(), &old, &new, order(10)).await;
    assert_eq!(result, Err(ErrorKind::PayloadMismatch));
}

#[tokio::test]
async fn removing_validate_replays_the_stored_response_for_another_payload() {
    let result = across(
        &Harness::default(),
        &validating("amount"),
        &plain(),
        order(99),
    )
    .await;
    assert_eq!(result, Ok(false));
}

#[tokio::test]
async fn a_stored_record_keeps_the_window_of_its_completion() {
    let short = Duration::from_secs(1);
    let new = keyed(|of| of.expires_after(short));
    let harness = Harness::default();
    harness.call(&plain(), order(10)).await.unwrap();
    harness.clock.advance(Duration::from_secs(60));
    assert!(
        harness
            .call_elsewhere(&new, order(10))
            .await
            .unwrap()
            .is_replayed()
    );
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    id: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct WithState {
    id: u64,
    state: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct WithDefault {
    id: u64,
    #[serde(default)]
    state: String,
}

#[tokio::test]
async fn a_new_field_of_the_response_refuses_retries_unless_it_has_a_default() {
    let (harness, charge) = (Harness::default(), plain());
    let first = harness.call_with(&charge, order(10), async |_| Ok(Receipt { id: 1 }));
    first.await.unwrap();
    let retry = harness.call_with(&charge, order(10), async |_| {
        Ok(WithState {
            id: 2,
            state: "paid".to_owned(),
        })
    });
    let error: BoxError = retry.await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseTypeChanged);
    assert!(
        error
            .to_string()
            .contains("WithState` (no field `state`), line 1, column 8"),
        "{error}"
    );
    let retry = harness.call_with(&charge, order(10), async |_| {
        Ok(WithDefault {
            id: 2,
            state: "paid".to_owned(),
        })
    });
    let receipt = retry.await.unwrap().into_response();
    assert_eq!((receipt.id, receipt.state.as_str()), (1, ""));
    assert_eq!(harness.runs(), 1);
}

#[tokio::test]
async fn the_error_of_a_response_that_no_longer_fits_names_the_field_and_not_its_value() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Old {
        items: Vec<(String, String)>,
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct New {
        items: Vec<(String, u64)>,
    }
    let (harness, charge) = (Harness::default(), plain());
    let items = |price: &str| vec![("tea".to_owned(), price.to_owned())];
    let first = harness.call_with(&charge, order(10), async |_| {
        Ok(Old {
            items: items("s3cr3t"),
        })
    });
    first.await.unwrap();
    let retry = harness.call_with(&charge, order(10), async |_| Ok(New { items: vec![] }));
    let error: BoxError = retry.await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseTypeChanged);
    let text = error.to_string();
    assert!(
        text.contains("New` at `items[0][1]`, line 1, column 25"),
        "{text}"
    );
    assert!(!text.contains("s3cr3t"), "{text}");
}

#[tokio::test]
async fn a_version_that_holds_refuses_a_key_that_timed_out_and_one_that_reruns_takes_it_over() {
    let hold = keyed(|of| of.on_timeout(OnTimeout::Hold));
    let rerun = plain();
    let harness = Harness::default();
    // The claim of a killed process of the old version.
    let claim = Record {
        expiration: Field::Value(EpochSeconds::new(START / 1_000 + 3_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(START - 1)),
        status: Field::Value(Status::InProgress),
        owner: Field::Value(OwnerToken::from_bytes([9; 16])),
        ..Record::default()
    };
    harness.store.inner().insert(id(&rerun, &json!(7)), claim);
    assert_eq!(
        harness.refused(&hold, order(10)).await,
        ErrorKind::Unresolved
    );
    assert!(
        !harness
            .call_elsewhere(&rerun, order(10))
            .await
            .unwrap()
            .is_replayed()
    );
}

/// Calls the outer operation, whose handler calls the inner one.
async fn both(harness: &Harness, [outer, inner]: [&Operation; 2]) -> usize {
    let outcome = harness.call_with(outer, order(10), async |_| {
        Ok(harness.call(inner, order(10)).await?.into_response())
    });
    outcome.await.unwrap().into_response()
}

#[tokio::test]
async fn with_the_old_and_the_new_identity_together_no_retry_runs_again() {
    let version =
        |prefix: &str, key: &str| operation().key_prefix(prefix).key(key).build().unwrap();
    let (old, new) = (
        version("charge", "order_id"),
        version("charge.v2", "[order_id, amount]"),
    );

    // From the old version to both, and back.
    let harness = Harness::default();
    let first = harness.call(&old, order(10)).await.unwrap().into_response();
    assert_eq!(both(&harness, [&old, &new]).await, first);

    // From both to only the new version, and back to the old one.
    let harness = Harness::default();
    let first = both(&harness, [&old, &new]).await;
    let retry = harness.call(&new, order(10)).await.unwrap();
    assert_eq!(retry.into_response(), first);
    let retry = harness.call(&old, order(10)).await.unwrap();
    assert_eq!(retry.into_response(), first);
}
