//! The requests to which the embedded database and AWS's DynamoDB Local reply differently.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity, TimeToLiveSpecification};
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
    let with = |name: &str, value| put().item(name, value);
    let key = |id| client.put_item().table_name(table).item("id", id);
    let exists = "attribute_exists(id)";
    vec![
        ("a condition that holds", on(exists)),
        (
            "a condition that does not hold",
            on("attribute_not_exists(id)"),
        ),
        ("an empty condition", on("")),
        (
            "a reserved word",
            on("status = :v").expression_attribute_values(":v", text("x")),
        ),
        ("doubled parentheses", on("((attribute_exists(id)))")),
        (
            "a condition of more than 4 KB",
            on(&[exists; 200].join(" AND ")),
        ),
        (
            "an unused name",
            on(exists).expression_attribute_names("#n", "n"),
        ),
        (
            "an unused value",
            on(exists).expression_attribute_values(":v", text("x")),
        ),
        (
            "an empty map of names",
            on(exists).set_expression_attribute_names(Some(HashMap::new())),
        ),
        (
            "an empty map of values",
            on(exists).set_expression_attribute_values(Some(HashMap::new())),
        ),
        (
            "`<` with a text and a number",
            on("id < :v").expression_attribute_values(":v", number("1")),
        ),
        (
            "`<` with a truth value",
            on("id < :v").expression_attribute_values(":v", AttributeValue::Bool(true)),
        ),
        (
            "`<` with null",
            on("id < :v").expression_attribute_values(":v", AttributeValue::Null(true)),
        ),
        ("an empty key", key(text(""))),
        ("a key of 2048 bytes", key(text("k".repeat(2048)))),
        ("a key of 2049 bytes", key(text("k".repeat(2049)))),
        ("a key of another type", key(number("1"))),
        (
            "no key",
            client.put_item().table_name(table).item("data", text("x")),
        ),
        ("an empty text", with("data", text(""))),
        ("38 digits", with("n", number(&"1".repeat(38)))),
        ("39 digits", with("n", number(&"1".repeat(39)))),
        ("a number of 1e125", with("n", number("1e125"))),
        ("a number of 1e126", with("n", number("1e126"))),
        ("a number that is not one", with("n", number("NaN"))),
        ("32 levels", with("n", nested(31))),
        ("34 levels", with("n", nested(33))),
        (
            "a null that is false",
            with("n", AttributeValue::Null(false)),
        ),
        ("an item of 400 KB", with("data", text("x".repeat(ROOM)))),
        (
            "an item of 400 KB and a byte",
            with("data", text("x".repeat(ROOM + 1))),
        ),
        (
            "an attribute's name of 64 KB",
            with(&"n".repeat(64 * 1024), text("x")),
        ),
    ]
}

/// Returns the reply of a database to each request, with a description of the request.
async fn replies(client: &Client, table: &str) -> Vec<(&'static str, String)> {
    let mut replies = Vec::new();
    let first = client.put_item().table_name(table).item("id", text("a"));
    replies.push(("a put", reply(first.send().await, |_| String::new())));
    for (name, put) in puts(client, table) {
        replies.push((name, reply(put.send().await, |_| "applied".to_owned())));
    }
    let units = |capacity: Option<aws_sdk_dynamodb::types::ConsumedCapacity>| {
        format!(
            "{:?}",
            capacity.and_then(|capacity| capacity.capacity_units)
        )
    };
    for bytes in [900, 1_100] {
        let put = client.put_item().table_name(table).item("id", text("b"));
        let put = put.item("data", text("x".repeat(bytes)));
        let put = put.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let put = reply(put.send().await, |output| units(output.consumed_capacity));
        replies.push(("the capacity of a put", put));
    }
    for consistent in [false, true] {
        let get = client.get_item().table_name(table).key("id", text("b"));
        let get = get.consistent_read(consistent);
        let get = get.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let get = reply(get.send().await, |output| units(output.consumed_capacity));
        replies.push(("the capacity of a read", get));
    }
    let forms = [
        "1.50",
        "007",
        "1E3",
        "-0",
        "0.0000001",
        "+5",
        "100000000000000000000",
    ];
    for form in forms {
        let put = client.put_item().table_name(table).item("id", text("n"));
        let put = reply(put.item("n", number(form)).send().await, |_| {
            "applied".to_owned()
        });
        let get = client
            .get_item()
            .table_name(table)
            .key("id", text("n"))
            .consistent_read(true);
        let get = reply(get.send().await, |output| {
            format!("{:?}", output.item.and_then(|item| item.get("n").cloned()))
        });
        replies.push(("how numbers are kept", format!("{put} {get}")));
    }
    for (name, expression) in [
        ("an update of the key", Some("SET id = :v")),
        ("an attribute set and removed", Some("SET n = :v REMOVE n")),
        ("an empty update", Some("")),
        ("no update", None),
    ] {
        let update = client.update_item().table_name(table).key("id", text("u"));
        let update = update.set_update_expression(expression.map(str::to_owned));
        let update = match expression {
            Some(text_) if text_.contains(":v") => {
                update.expression_attribute_values(":v", text("x"))
            }
            _ => update,
        };
        replies.push((name, reply(update.send().await, |_| "applied".to_owned())));
    }
    let nowhere = client.get_item().table_name("nowhere").key("id", text("a"));
    replies.push((
        "a missing table",
        reply(nowhere.send().await, |_| String::new()),
    ));
    for name in ["TTL switched on", "TTL switched on again"] {
        let ttl = TimeToLiveSpecification::builder()
            .attribute_name("expiration")
            .enabled(true);
        let update = client.update_time_to_live().table_name(table);
        let update = update.set_time_to_live_specification(ttl.build().ok());
        replies.push((name, reply(update.send().await, |_| "applied".to_owned())));
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
