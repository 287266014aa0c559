//! Other tables, other settings and unusual responses.

use idempotency_lambda::record::Attribute;
use idempotency_lambda::{ErrorKind, HashAlgorithm};
use idempotency_tests::End;
use serde_json::{Value, json};

use crate::Harness;
use crate::python::Call;
use crate::rust::{Rust, charge};

/// Checks that each of the two runs one order and replays the other's.
async fn both_ways(harness: &mut Harness, rust: &Rust, call: impl Fn(Call) -> Call) {
    let call = |order: &Value| call(order.into());
    let (by_python, by_rust) = (json!("Python"), json!("Rust"));
    let order = harness.order();
    harness.python.runs(call(&order), &by_python).await;
    rust.replays(&order, &by_python).await;

    let order = harness.order();
    rust.runs(&order, &by_rust).await;
    harness.python.replays(call(&order), &by_rust).await;

    let order = harness.order();
    harness.python.begins(call(&order)).await;
    rust.refuses(&order, ErrorKind::AlreadyInProgress).await;
    harness.python.finishes(&by_python).await;
}

pub(crate) async fn composite_keys(harness: &mut Harness) {
    let rust = Rust::start_with(&harness.database, charge(), |store| {
        let store = store.table("composite").partition_key("pk");
        store.composite_key("sk", "payments")
    });
    let layer = json!({
        "table_name": "composite",
        "key_attr": "pk",
        "sort_key_attr": "sk",
        "static_pk_value": "payments",
    });
    both_ways(harness, &rust, |call| call.layer(layer.clone())).await
}

pub(crate) async fn renamed_attributes(harness: &mut Harness) {
    let rust = Rust::start_with(&harness.database, charge(), |store| {
        store
            .table("renamed")
            .partition_key("key")
            .attribute_name(Attribute::Expiration, "ttl")
            .attribute_name(Attribute::InProgressExpiration, "lease")
            .attribute_name(Attribute::Status, "state")
            .attribute_name(Attribute::Data, "response")
            .attribute_name(Attribute::Validation, "fingerprint")
    });
    let layer = json!({
        "table_name": "renamed",
        "key_attr": "key",
        "expiry_attr": "ttl",
        "in_progress_expiry_attr": "lease",
        "status_attr": "state",
        "data_attr": "response",
        "validation_key_attr": "fingerprint",
    });
    both_ways(harness, &rust, |call| call.layer(layer.clone())).await
}

pub(crate) async fn another_digest(harness: &mut Harness) {
    let rust = harness.rust(charge().hash(HashAlgorithm::Sha256));
    let sha256 = |call: Call| call.config("hash_function", json!("sha256"));
    both_ways(harness, &rust, sha256).await
}

pub(crate) async fn falsy_responses(harness: &mut Harness) {
    let rust = harness.rust(charge());
    for response in [json!(0), json!(false), json!(""), json!([]), json!({})] {
        let order = harness.order();
        harness.python.runs(&order, &response).await;
        rust.replays(&order, &response).await;

        let order = harness.order();
        rust.runs(&order, &response).await;
        harness.python.replays(&order, &Value::Null).await;
    }
}

pub(crate) async fn large_response(harness: &mut Harness) {
    let order = harness.order();
    let rust = Rust::start_with(&harness.database, charge(), |store| {
        store.compress_above(None).split_large_responses(false)
    });
    let large = json!("x".repeat(410 * 1024));
    let ended = rust.call_returning(&order, &large).await;
    assert_eq!(ended, End::NotStored(large));
    rust.refuses(&order, ErrorKind::ResponseUnavailable).await;
    harness.python.replays(&order, &Value::Null).await;
}

/// Checks a response that is compressed, and one that is compressed and split.
pub(crate) async fn large_forms(harness: &mut Harness) {
    let rust = harness.rust(charge());
    for large in [json!("x".repeat(20 * 1024)), json!(noise(800 * 1024))] {
        let order = harness.order();
        rust.runs(&order, &large).await;
        rust.replays(&order, &large).await;
        harness.python.refuses(&order, "JSONDecodeError").await;
    }
}

/// Returns a text of this length that compression makes shorter by a quarter at most.
fn noise(bytes: usize) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(letters[(state >> 58) as usize])
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

pub(crate) async fn not_json(harness: &mut Harness) {
    let order = harness.order();
    harness.python.begins(&order).await;
    let nan = json!({ "return_nan": true });
    harness.python.instruct(&nan).await;
    let rust = harness.rust(charge());
    rust.refuses(&order, ErrorKind::CorruptRecord).await;
}
