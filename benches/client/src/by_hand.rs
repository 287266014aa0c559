//! A claim and its completion, as the best engineer would write them with the SDK, without a validated part.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};

use crate::RESPONSE;

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Claims a key. Returns the stored response if the key has one.
async fn claim(client: &Client, id: &str, owner: &str, at: i64) -> Option<String> {
    let claimed = client
        .put_item()
        .table_name("payments")
        .item("id", text(id))
        .item("status", text("INPROGRESS"))
        .item("owner", text(owner))
        .item("expiration", number(1_700_003_600))
        .item("in_progress_expiration", number(1_700_000_010_500))
        .condition_expression("attribute_not_exists(id) OR expiration < :now OR (#status = :in_progress AND in_progress_expiration < :now_ms)")
        .expression_attribute_names("#status", "status")
        .expression_attribute_values(":now", number(1_700_000_000))
        .expression_attribute_values(":now_ms", number(1_700_000_000_999 + at))
        .expression_attribute_values(":in_progress", text("INPROGRESS"))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await;
    match claimed.map_err(SdkError::into_service_error) {
        Ok(_) => None,
        Err(PutItemError::ConditionalCheckFailedException(refused)) => {
            let mut item = refused.item.unwrap();
            match item.remove("data") {
                Some(AttributeValue::S(data)) => Some(data),
                _ => panic!("the record has no response"),
            }
        }
        Err(error) => panic!("{error}"),
    }
}

fn id(at: i64) -> String {
    format!("shop.charge#{:032x}", 0x42b7_b4f2_9217_88ea_u64 as i64 + at)
}

/// Claims a key that has a response, and returns it.
pub(crate) async fn duplicate(client: &Client, at: i64) -> String {
    let owner = format!("{at:032x}");
    claim(client, &id(at), &owner, at).await.unwrap()
}

/// Claims a key and stores a response under it.
pub(crate) async fn call(client: &Client, at: i64) {
    let (id, owner) = (id(at), format!("{at:032x}"));
    let stored = claim(client, &id, &owner, at).await;
    assert_eq!(stored, None);
    client
        .update_item()
        .table_name("payments")
        .key("id", text(&id))
        .update_expression("SET #status = :completed, #data = :data, expiration = :expiration")
        .condition_expression("#owner = :owner AND #status = :in_progress")
        .expression_attribute_names("#status", "status")
        .expression_attribute_names("#data", "data")
        .expression_attribute_names("#owner", "owner")
        .expression_attribute_values(":completed", text("COMPLETED"))
        .expression_attribute_values(":data", text(RESPONSE))
        .expression_attribute_values(":expiration", number(1_700_003_600))
        .expression_attribute_values(":owner", text(&owner))
        .expression_attribute_values(":in_progress", text("INPROGRESS"))
        .send()
        .await
        .unwrap();
}
