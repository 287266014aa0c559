//! Other tables, other settings and unusual responses.

use idempotency_lambda::{BoxError, ErrorKind, HashAlgorithm};
use serde_json::{Value, json};

use crate::Harness;
use crate::python::{Call, Said};
use crate::rust::{CallResult, Rust, charge};

/// Checks that each of the two runs one order and replays the other's.
async fn both_ways(
    harness: &mut Harness,
    rust: &Rust,
    call: impl Fn(&Value) -> Call,
) -> Result<(), BoxError> {
    let (by_python, by_rust) = (json!("Python"), json!("Rust"));
    let order = harness.order();
    let ran = harness.python.call(call(&order), &by_python).await?;
    assert_eq!(ran, (Said::Returned(by_python.clone()), true));
    let given = rust.call_returning(&order, &by_rust).await?;
    assert_eq!(given, CallResult::Replayed(by_python.clone()));

    let order = harness.order();
    let ran = rust.call_returning(&order, &by_rust).await?;
    assert_eq!(ran, CallResult::Ran(by_rust.clone()));
    let given = harness.python.call(call(&order), &by_python).await?;
    assert_eq!(given, (Said::Returned(by_rust.clone()), false));

    let order = harness.order();
    assert_eq!(harness.python.begin(call(&order)).await?, Said::Running);
    let refused = rust.call_returning(&order, &by_rust).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::AlreadyInProgress));
    harness.python.finish(&by_python).await?;
    Ok(())
}

pub(crate) async fn composite_keys(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::composite(&harness.database)?;
    let layer = json!({
        "table_name": "composite",
        "key_attr": "pk",
        "sort_key_attr": "sk",
        "static_pk_value": "payments",
    });
    both_ways(harness, &rust, |order| Call::of(order).layer(layer.clone())).await
}

pub(crate) async fn renamed_attributes(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::renamed(&harness.database)?;
    let layer = json!({
        "table_name": "renamed",
        "key_attr": "key",
        "expiry_attr": "ttl",
        "in_progress_expiry_attr": "lease",
        "status_attr": "state",
        "data_attr": "response",
        "validation_key_attr": "fingerprint",
    });
    both_ways(harness, &rust, |order| Call::of(order).layer(layer.clone())).await
}

pub(crate) async fn another_digest(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::start(&harness.database, charge().hash(HashAlgorithm::Sha256))?;
    let sha256 = json!("sha256");
    both_ways(harness, &rust, |order| {
        Call::of(order).config("hash_function", sha256.clone())
    })
    .await
}

pub(crate) async fn falsy_responses(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::start(&harness.database, charge())?;
    for response in [json!(0), json!(false), json!(""), json!([]), json!({})] {
        let order = harness.order();
        harness.python.call(Call::of(&order), &response).await?;
        let given = rust.call_returning(&order, &json!("Rust")).await?;
        assert_eq!(given, CallResult::Replayed(response.clone()));

        let order = harness.order();
        rust.call_returning(&order, &response).await?;
        let given = harness
            .python
            .call(Call::of(&order), &json!("Python"))
            .await?;
        assert_eq!(given, (Said::Returned(Value::Null), false));
    }
    Ok(())
}

pub(crate) async fn large_response(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let rust = Rust::without_large_forms(&harness.database)?;
    let large = json!("x".repeat(410 * 1024));
    assert_eq!(
        rust.call_returning(&order, &large).await?,
        CallResult::Ran(large)
    );
    let refused = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::ResponseUnavailable));
    let given = harness
        .python
        .call(Call::of(&order), &json!("Python"))
        .await?;
    assert_eq!(given, (Said::Returned(Value::Null), false));
    Ok(())
}

/// Checks a response that is compressed, and one that is compressed and split.
pub(crate) async fn large_forms(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::start(&harness.database, charge())?;
    for large in [json!("x".repeat(20 * 1024)), json!(noise(800 * 1024))] {
        let order = harness.order();
        let ran = rust.call_returning(&order, &large).await?;
        assert_eq!(ran, CallResult::Ran(large.clone()));
        let given = rust.call_returning(&order, &json!("Rust")).await?;
        assert_eq!(given, CallResult::Replayed(large));
        let failed = harness
            .python
            .call(Call::of(&order), &json!("Python"))
            .await?;
        assert_eq!(failed, (Said::Raised("JSONDecodeError".to_owned()), false));
    }
    Ok(())
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

pub(crate) async fn not_json(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    assert_eq!(harness.python.begin(Call::of(&order)).await?, Said::Running);
    harness
        .python
        .instruct(&json!({ "return_nan": true }))
        .await?;
    let rust = Rust::start(&harness.database, charge())?;
    let refused = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::CorruptRecord));
    Ok(())
}
