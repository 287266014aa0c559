//! The requests to which the embedded database and AWS's DynamoDB Local reply differently.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, ReturnConsumedCapacity, TimeToLiveSpecification,
};
use idempotency_lambda::BoxError;

/// The largest size of the attribute `data` in an item, in bytes.
const ROOM: usize = 400 * 1024 - "id".len() - "a".len() - "data".len();

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn number(number: &str) -> AttributeValue {
    AttributeValue::N(number.to_owned())
}

/// Returns a list nested this many levels deep.
fn nested(levels: usize) -> AttributeValue {
    (0..levels).fold(text("x"), |inner, _| AttributeValue::L(vec![inner]))
}

/// Returns the code of an error, or a description of a success.
fn reply<T, E>(result: Result<T, SdkError<E>>, success: impl FnOnce(T) -> String) -> String
where
    E: ProvideErrorMetadata,
{
    match result {
        Ok(output) => success(output),
        Err(error) => error.code().unwrap_or("no reply").to_owned(),
    }
}

/// Returns puts with different conditions or attributes. A record `a` exists.
fn puts(client: &Client, table: &str) -> Vec<(&'static str, PutItemFluentBuilder)> {
    let put = || client.put_item().table_name(table).item("id", text("a"));
    let on = |condition: &str| put().condition_expression(condition);
    let valued = |condition, value| on(condition).expression_attribute_values(":v", value);
    let than = |value| valued("id < :v", value);
    let with = |name: &str, value| put().item(name, value);
    let data = |bytes| with("data", text("x".repeat(bytes)));
    let digits = |digits| with("n", number(&"1".repeat(digits)));
    let key = |id| client.put_item().table_name(table).item("id", id);
    let (exists, missing) = ("attribute_exists(id)", "attribute_not_exists(id)");
    let long = [exists; 200].join(" AND ");
    let long_name = "n".repeat(64 * 1024);
    let unused_name = on(exists).expression_attribute_names("#n", "n");
    let no_names = on(exists).set_expression_attribute_names(Some(HashMap::new()));
    let no_values = on(exists).set_expression_attribute_values(Some(HashMap::new()));
    let not_null = AttributeValue::Null(false);
    let no_key = client.put_item().table_name(table).item("data", text("x"));
    vec![
        ("a condition that holds", on(exists)),
        ("a condition that does not hold", on(missing)),
        ("an empty condition", on("")),
        ("a reserved word", valued("status = :v", text("x"))),
        ("doubled parentheses", on("((attribute_exists(id)))")),
        ("a condition of more than 4 KB", on(&long)),
        ("an unused name", unused_name),
        ("an unused value", valued(exists, text("x"))),
        ("an empty map of names", no_names),
        ("an empty map of values", no_values),
        ("`<` with a text and a number", than(number("1"))),
        ("`<` with a truth value", than(AttributeValue::Bool(true))),
        ("`<` with null", than(AttributeValue::Null(true))),
        ("an empty key", key(text(""))),
        ("a key of 2048 bytes", key(text("k".repeat(2048)))),
        ("a key of 2049 bytes", key(text("k".repeat(2049)))),
        ("a key of another type", key(number("1"))),
        ("no key", no_key),
        ("an empty text", data(0)),
        ("38 digits", digits(38)),
        ("39 digits", digits(39)),
        ("a number of 1e125", with("n", number("1e125"))),
        ("a number of 1e126", with("n", number("1e126"))),
        ("a number that is not one", with("n", number("NaN"))),
        ("32 levels", with("n", nested(31))),
        ("34 levels", with("n", nested(33))),
        ("a null that is false", with("n", not_null)),
        ("an item of 400 KB", data(ROOM)),
        ("an item of 400 KB and a byte", data(ROOM + 1)),
        ("an attribute's name of 64 KB", with(&long_name, text("x"))),
    ]
}

/// Returns the reply of a database to each request, with a description of the request.
async fn replies(client: &Client, table: &str) -> Vec<(&'static str, String)> {
    let applied = || "applied".to_owned();
    let put = |id: &str| client.put_item().table_name(table).item("id", text(id));
    let get = |id: &str| client.get_item().table_name(table).key("id", text(id));
    let mut replies = Vec::new();
    let first = put("a").send().await;
    replies.push(("a put", reply(first, |_| String::new())));
    for (name, put) in puts(client, table) {
        replies.push((name, reply(put.send().await, |_| applied())));
    }
    let units = |capacity: Option<ConsumedCapacity>| {
        let units = capacity.and_then(|capacity| capacity.capacity_units);
        format!("{units:?}")
    };
    let total = ReturnConsumedCapacity::Total;
    for bytes in [900, 1_100] {
        let put = put("b").item("data", text("x".repeat(bytes)));
        let put = put.return_consumed_capacity(total.clone()).send().await;
        let put = reply(put, |output| units(output.consumed_capacity));
        replies.push(("the capacity of a put", put));
    }
    for consistent in [false, true] {
        let get = get("b").consistent_read(consistent);
        let get = get.return_consumed_capacity(total.clone()).send().await;
        let get = reply(get, |output| units(output.consumed_capacity));
        replies.push(("the capacity of a read", get));
    }
    for form in "1.50 007 1E3 -0 0.0000001 +5 100000000000000000000".split(' ') {
        let put = put("n").item("n", number(form)).send().await;
        let put = reply(put, |_| applied());
        let get = get("n").consistent_read(true).send().await;
        let get = reply(get, |output| {
            format!("{:?}", output.item.and_then(|item| item.get("n").cloned()))
        });
        replies.push(("how numbers are kept", format!("{put} {get}")));
    }
    let update = || client.update_item().table_name(table).key("id", text("u"));
    let valued = |changes: &str| {
        let update = update().update_expression(changes);
        update.expression_attribute_values(":v", text("x"))
    };
    for (name, update) in [
        ("an update of the key", valued("SET id = :v")),
        (
            "an attribute set and removed",
            valued("SET n = :v REMOVE n"),
        ),
        ("an empty update", update().update_expression("")),
        ("no update", update()),
    ] {
        replies.push((name, reply(update.send().await, |_| applied())));
    }
    let nowhere = get("a").table_name("nowhere").send().await;
    replies.push(("a missing table", reply(nowhere, |_| String::new())));
    for name in ["TTL switched on", "TTL switched on again"] {
        let ttl = TimeToLiveSpecification::builder()
            .attribute_name("expiration")
            .enabled(true);
        let update = client.update_time_to_live().table_name(table);
        let update = update.set_time_to_live_specification(ttl.build().ok());
        replies.push((name, reply(update.send().await, |_| applied())));
    }
    replies
}

/// Returns the descriptions of the requests to which the two databases reply differently.
pub(crate) async fn differences(
    one: (&Client, &str),
    other: (&Client, &str),
) -> Result<Vec<&'static str>, BoxError> {
    let (one, other) = (replies(one.0, one.1).await, replies(other.0, other.1).await);
    let pairs = one.into_iter().zip(other);
    let mut names: Vec<_> = pairs
        .filter(|((_, one), (_, other))| one != other)
        .map(|((name, one), (_, other))| {
            println!("  {name}: {one} here, {other} there");
            name
        })
        .collect();
    names.dedup();
    Ok(names)
}
