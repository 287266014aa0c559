//! Records that the libraries for other languages wrote under one of our keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_lambda::{BoxError, ErrorKind, HashAlgorithm, Operation};
use idempotency_tests::{Table, id, operation, ours};
use serde_json::{Value, json};

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: &str) -> AttributeValue {
    AttributeValue::N(number.to_owned())
}

fn charge() -> Operation {
    operation().key("order_id").build().unwrap()
}

/// Returns a table with a record whose window ends in an hour, unless `attributes` set another time.
async fn existing(attributes: &[(&str, AttributeValue)]) -> Result<Table, BoxError> {
    let table = Table::start().await?;
    let mut item = HashMap::from([
        (
            "id",
            text("local.shop.charge#8f14e45fceea167a5a36dedd4bea2543"),
        ),
        ("status", text("COMPLETED")),
        ("expiration", number("1700003600")),
    ]);
    item.extend(attributes.iter().cloned());
    table.database.put("idempotency", item).await?;
    Ok(table)
}

async fn replayed(attributes: &[(&str, AttributeValue)]) -> Result<Value, BoxError> {
    let table = existing(attributes).await?;
    let order = json!({ "order_id": 7 });
    let outcome = table
        .call(&charge(), &order, async || Ok(json!("a second run")))
        .await?;
    assert!(outcome.is_replayed());
    Ok(outcome.into_response())
}

#[tokio::test]
async fn typescripts_native_response_and_fractional_times_are_read() -> Result<(), BoxError> {
    let response = AttributeValue::M(HashMap::from([
        ("paid".to_owned(), AttributeValue::Bool(true)),
        ("amount".to_owned(), number("12.5")),
        (
            "lines".to_owned(),
            AttributeValue::L(vec![number("1"), AttributeValue::Null(true)]),
        ),
    ]));
    let given = replayed(&[
        ("data", response),
        ("expiration", number("1700003600.25")),
        ("in_progress_expiration", number("1700000030500")),
    ])
    .await?;
    assert_eq!(
        given,
        json!({ "paid": true, "amount": 12.5, "lines": [1, null] })
    );
    Ok(())
}

#[tokio::test]
async fn a_response_in_any_spelling_of_json_is_read() -> Result<(), BoxError> {
    for (stored, response) in [
        ("{\"b\":1,\n\t\"a\" : [ ]}", json!({ "a": [], "b": 1 })),
        (r#"{"Text":"\u003C\u00E9/\/"}"#, json!({ "Text": "<é//" })),
        (" 1.50 ", json!(1.5)),
        ("null", Value::Null),
    ] {
        assert_eq!(replayed(&[("data", text(stored))]).await?, response);
    }
    Ok(())
}

#[tokio::test]
async fn a_response_that_is_not_json_or_not_a_rust_string_is_an_error_and_the_handler_does_not_run()
-> Result<(), BoxError> {
    // Java's bare text of a `String`; Python's `NaN`; one half of a surrogate pair.
    for (stored, kind) in [
        ("paid", ErrorKind::CorruptRecord),
        ("NaN", ErrorKind::CorruptRecord),
        (r#""\ud83d""#, ErrorKind::ResponseTypeChanged),
    ] {
        let table = existing(&[("data", text(stored))]).await?;
        let (charge, order) = (charge(), json!({ "order_id": 7 }));
        let call = table.call(&charge, &order, async || Ok(json!("a second run")));
        let error = call.await.unwrap_err();
        assert_eq!(ours(&error).kind(), kind, "{stored}");
        assert!(!ours(&error).handler_ran());
    }
    Ok(())
}

#[tokio::test]
async fn a_claim_of_another_library_is_live_until_its_lease_or_without_one_its_window_ends()
-> Result<(), BoxError> {
    let lease = ("in_progress_expiration", number("1700000005500"));
    for (lease, ends_in) in [(Some(lease), 5_001), (None, 3_600_500)] {
        let claim = [("status", text("INPROGRESS"))];
        let attributes: Vec<_> = claim.into_iter().chain(lease).collect();
        let table = existing(&attributes).await?;
        let (charge, order) = (charge(), json!({ "order_id": 7 }));
        let call = || table.call(&charge, &order, async || Ok(json!("ran")));
        let error = call().await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
        table
            .clock
            .advance(std::time::Duration::from_millis(ends_in));
        assert_eq!(call().await?.into_response(), json!("ran"));
    }
    Ok(())
}

#[test]
fn an_integer_is_hashed_as_its_digits_and_a_text_with_its_quotes() {
    let digest = |text: &str| HashAlgorithm::Md5.hex(text);
    let key = |payload: &Value| {
        let key = id(&charge(), payload).to_string();
        key.rsplit('#').next().unwrap_or_default().to_owned()
    };
    assert_eq!(key(&json!(7)), digest("7"));
    assert_eq!(key(&json!("o-7")), digest("\"o-7\""));
    assert_eq!(key(&json!(["u", 7])), digest("[\"u\", 7]"));
}
