//! Changes of types between a call and its retry: the rows of `docs/guide/types.md`.

use idempotency_lambda::ErrorKind::{PayloadMismatch, ResponseTypeChanged};
use idempotency_lambda::Operation;
use idempotency_tests::End::{Ran, Refused, Replayed};
use idempotency_tests::{End, Harness, keyed, operation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{charge, order};

/// Stores what `old` writes, and replays it as `New`. Returns what `New` writes of it, or `None` if it does not fit.
async fn reads<New: Serialize + DeserializeOwned>(old: impl Serialize) -> Option<Value> {
    let (harness, charge) = (Harness::default(), charge());
    let stored = serde_json::to_value(old).unwrap();
    let first = harness.call_with(&charge, order(), async |_| Ok(stored));
    first.await.unwrap();
    let handler = async |_| panic!("the handler ran again");
    match harness.end_with::<New, _>(&charge, order(), handler).await {
        Replayed(response) => Some(serde_json::to_value(response).unwrap()),
        Refused(ResponseTypeChanged) => None,
        _ => panic!("it is neither replayed nor refused for its type"),
    }
}

#[derive(Serialize, Deserialize)]
struct Old {
    id: u32,
}

#[derive(Serialize, Deserialize)]
struct Required {
    id: u32,
    state: String,
}

#[derive(Serialize, Deserialize)]
struct Defaulted {
    id: u32,
    #[serde(default)]
    state: String,
    note: Option<String>,
}

fn required() -> Required {
    let state = "paid".to_owned();
    Required { id: 7, state }
}

#[tokio::test]
async fn a_field_can_be_added_with_a_default_and_removed_unless_the_old_version_needs_it() {
    assert_eq!(reads::<Required>(Old { id: 7 }).await, None);
    assert_eq!(reads::<Old>(required()).await, Some(json!({ "id": 7 })));
    let read = reads::<Defaulted>(Old { id: 7 }).await;
    assert_eq!(read, Some(json!({ "id": 7, "state": "", "note": null })));
}

#[tokio::test]
async fn a_type_that_denies_unknown_fields_does_not_read_a_field_that_it_does_not_know() {
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        id: u32,
    }
    assert_eq!(
        reads::<Strict>(Old { id: 7 }).await,
        Some(json!({ "id": 7 }))
    );
    assert_eq!(reads::<Strict>(required()).await, None);
}

#[tokio::test]
async fn a_renamed_field_needs_an_alias_and_an_option_without_one_is_lost() {
    #[derive(Serialize, Deserialize)]
    struct Renamed {
        #[serde(alias = "id")]
        payment_id: u32,
    }
    #[derive(Serialize, Deserialize)]
    struct Lost {
        payment_id: Option<u32>,
    }
    assert_eq!(
        reads::<Renamed>(Old { id: 7 }).await,
        Some(json!({ "payment_id": 7 }))
    );
    assert_eq!(reads::<Old>(Renamed { payment_id: 7 }).await, None);
    assert_eq!(
        reads::<Lost>(Old { id: 7 }).await,
        Some(json!({ "payment_id": null }))
    );
}

#[tokio::test]
async fn numbers_can_grow_and_cannot_become_texts() {
    assert_eq!(reads::<u64>(7_u32).await, Some(json!(7)));
    assert_eq!(reads::<u32>(7_u64).await, Some(json!(7)));
    assert_eq!(reads::<u32>(u64::MAX).await, None);
    assert_eq!(reads::<f64>(7_u32).await, Some(json!(7.0)));
    assert_eq!(reads::<u32>(7.0).await, None);
    assert_eq!(reads::<String>(7_u32).await, None);
    assert_eq!(reads::<u32>("7").await, None);
}

#[tokio::test]
async fn a_value_can_become_optional_and_be_wrapped() {
    #[derive(Serialize, Deserialize)]
    struct Id(u32);
    assert_eq!(reads::<Option<u32>>(7_u32).await, Some(json!(7)));
    assert_eq!(reads::<u32>(Some(7)).await, Some(json!(7)));
    assert_eq!(reads::<u32>(None::<u32>).await, None);
    assert_eq!(reads::<Id>(7_u32).await, Some(json!(7)));
    assert_eq!(reads::<u32>(Id(7)).await, Some(json!(7)));
}

#[tokio::test]
async fn a_variant_can_be_added_and_its_representation_cannot_change() {
    #[derive(Serialize, Deserialize)]
    enum Before {
        Paid { by: String },
    }
    #[derive(Serialize, Deserialize)]
    enum After {
        #[serde(alias = "Paid")]
        Settled {
            by: String,
        },
        Refused,
    }
    #[derive(Serialize, Deserialize)]
    #[serde(tag = "state")]
    enum Tagged {
        Paid { by: String },
    }
    let paid = || Before::Paid {
        by: "card".to_owned(),
    };
    let settled = json!({ "Settled": { "by": "card" } });
    assert_eq!(reads::<After>(paid()).await, Some(settled.clone()));
    assert_eq!(reads::<Before>(settled).await, None);
    assert_eq!(reads::<Before>(After::Refused).await, None);
    assert_eq!(reads::<Tagged>(paid()).await, None);
    assert_eq!(
        reads::<Before>(Tagged::Paid {
            by: "card".to_owned()
        })
        .await,
        None
    );
}

#[tokio::test]
async fn a_list_is_read_by_position_and_not_as_a_struct() {
    #[derive(Serialize, Deserialize)]
    struct Fee {
        amount: u32,
        fee: u32,
    }
    assert_eq!(reads::<Fee>((1, 2)).await, None);
    assert_eq!(reads::<(u32, u32)>((1, 2)).await, Some(json!([1, 2])));
}

#[tokio::test]
async fn both_forms_of_a_field_are_read_through_an_untagged_enum() {
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(u64),
    }
    assert_eq!(reads::<Id>(7).await, Some(json!(7)));
    assert_eq!(reads::<Id>("p-7").await, Some(json!("p-7")));
}

/// Calls with the event of the old version, then with that of the new one. Returns the end of the second call.
async fn retried(charge: Operation, old: impl Serialize, new: impl Serialize) -> End<usize> {
    let harness = Harness::default();
    let [old, new] = [serde_json::to_value(old), serde_json::to_value(new)].map(Result::unwrap);
    assert_eq!(harness.end(&charge, old).await, Ran(1));
    harness.end_elsewhere(&charge, new).await
}

#[derive(Serialize)]
struct Event {
    order_id: u32,
}

#[derive(Serialize)]
struct WithNote {
    order_id: u32,
    note: Option<String>,
}

#[derive(Serialize)]
struct WithSkippedNote {
    order_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[tokio::test]
async fn a_new_field_of_the_event_counts_only_where_key_or_validated_part_hold_it() {
    let (order_id, note) = (7, None);
    let old = Event { order_id };
    let new = || WithNote {
        order_id,
        note: None,
    };
    let skipped = WithSkippedNote { order_id, note };
    let whole = || operation().build().unwrap();
    assert_eq!(retried(whole(), &old, new()).await, Ran(2));
    assert_eq!(retried(whole(), &old, skipped).await, Replayed(1));
    assert_eq!(retried(charge(), &old, new()).await, Replayed(1));
    let validated = keyed(|of| of.validate("@"));
    let end = retried(validated, &old, new()).await;
    assert_eq!(end, Refused(PayloadMismatch));
}

#[tokio::test]
async fn the_id_is_made_of_the_value_of_the_key_and_not_of_the_fields_name() {
    let [old, new] = ["order_id", "order"].map(|key| operation().key(key).build().unwrap());
    let harness = Harness::default();
    assert_eq!(harness.end(&old, json!({ "order_id": 7 })).await, Ran(1));
    for (value, end) in [
        (json!(7), Replayed(1)),
        (json!("7"), Ran(2)),
        (json!(7.0), Ran(3)),
    ] {
        assert_eq!(harness.end(&new, json!({ "order": value })).await, end);
    }
}
