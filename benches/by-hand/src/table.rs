//! The three conditional writes: the claim, its completion and its release.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use lambda_runtime::Error;
use uuid::Uuid;

use crate::described;

/// How long a response is replayed, in seconds.
const WINDOW: u64 = 3600;

/// The table, and the client for it.
pub struct Table {
    client: Client,
    name: String,
}

/// A claim of this function.
pub struct Claim {
    id: String,
    owner: String,
}

/// The result of a claim.
pub enum Claimed {
    /// The key is claimed: run, then complete or release.
    Own(Claim),
    /// The stored response of an earlier call.
    Response(String),
}

impl Table {
    /// Makes the client, as the SDK's documentation shows it.
    pub async fn from_env() -> Result<Self, Error> {
        let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
        Ok(Self {
            client: Client::new(&config),
            name: std::env::var("IDEMPOTENCY_TABLE")?,
        })
    }

    /// Claims the key until the deadline (milliseconds since the epoch), or returns the response of an earlier call.
    pub async fn claim(
        &self,
        id: String,
        validation: String,
        deadline: u64,
    ) -> Result<Claimed, Error> {
        let now = now_ms();
        let owner = Uuid::new_v4().simple().to_string();
        let put = self
            .client
            .put_item()
            .table_name(&self.name)
            .item("id", text(&id))
            .item(
                "expiration",
                number((now / 1000 + WINDOW).max(deadline / 1000 + 1)),
            )
            .item("in_progress_expiration", number(deadline))
            .item("status", text("INPROGRESS"))
            .item("validation", text(&validation))
            .item("owner", text(&owner))
            .condition_expression(
                "attribute_not_exists(id) OR expiration < :now \
                 OR (#status = :in_progress AND in_progress_expiration < :now_ms)",
            )
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":now", number(now / 1000))
            .expression_attribute_values(":now_ms", number(now))
            .expression_attribute_values(":in_progress", text("INPROGRESS"))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let error = match put.send().await {
            Ok(_) => return Ok(Claimed::Own(Claim { id, owner })),
            Err(error) => error,
        };
        let mut record = match error.into_service_error() {
            PutItemError::ConditionalCheckFailedException(failed) => {
                failed.item.ok_or("the record has gone: retry")?
            }
            error => return Err(described(error)),
        };
        let is = |name: &str, value: &str| {
            record
                .get(name)
                .is_some_and(|found| found.as_s().is_ok_and(|found| found == value))
        };
        if !is("validation", &validation) {
            return Err("the order was sent before with another amount".into());
        }
        if is("status", "COMPLETED") {
            return match record.remove("data") {
                Some(AttributeValue::S(text)) => Ok(Claimed::Response(text)),
                _ => Err("the response was not stored".into()),
            };
        }
        // The SDK sent the claim again after its first reply was lost.
        if is("owner", &owner) {
            return Ok(Claimed::Own(Claim { id, owner }));
        }
        Err("the order is being processed".into())
    }

    /// Stores the response, if the claim is still this function's own.
    pub async fn complete(&self, claim: Claim, response: &str) -> Result<(), Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.name)
            .key("id", AttributeValue::S(claim.id))
            .update_expression("SET #data = :data, expiration = :expiration, #status = :completed")
            .condition_expression("#owner = :owner AND #status = :in_progress")
            .expression_attribute_names("#data", "data")
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":data", text(response))
            .expression_attribute_values(":expiration", number(now_ms() / 1000 + WINDOW))
            .expression_attribute_values(":completed", text("COMPLETED"))
            .expression_attribute_values(":in_progress", text("INPROGRESS"))
            .expression_attribute_values(":owner", AttributeValue::S(claim.owner));
        update
            .send()
            .await
            .map_err(|error| described(error.into_service_error()))?;
        Ok(())
    }

    /// Frees the key after a failure. If this fails too, the end of the lease frees it.
    pub async fn release(&self, claim: Claim) {
        let delete = self
            .client
            .delete_item()
            .table_name(&self.name)
            .key("id", AttributeValue::S(claim.id))
            .condition_expression("#owner = :owner AND #status = :in_progress")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":owner", AttributeValue::S(claim.owner))
            .expression_attribute_values(":in_progress", text("INPROGRESS"));
        let _ = delete.send().await;
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
