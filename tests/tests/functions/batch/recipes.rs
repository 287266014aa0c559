//! Functions for events of other services, which the guide names, and what they do.

use idempotency_core::store::Write;
use idempotency_lambda::{Context, LambdaEvent};
use idempotency_testkit::events::{self, AwsRecord};
use idempotency_tests::{Harness, NotedRequest};
use serde::de::DeserializeOwned;
use serde_json::json;

fn event<T: DeserializeOwned>(text: &impl ToString) -> LambdaEvent<T> {
    LambdaEvent::new(
        serde_json::from_str(&text.to_string()).unwrap(),
        Context::default(),
    )
}

/// Returns how many runs of operations whose prefix has this text have stored their response.
fn runs(harness: &Harness, prefix: &str) -> usize {
    let noted = harness.store.noted().into_iter();
    let is_update = |request: &NotedRequest| matches!(request, NotedRequest::Write(id, Write::Update(_), _) if id.as_str().contains(prefix));
    noted.filter(is_update).count()
}

#[rustfmt::skip]
mod changes_of_a_table_through_kinesis {
    use super::*;

    use idempotency_lambda::{BoxError, idempotent};
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Images {
        keys: Value,
        new_image: Option<Value>,
        approximate_creation_date_time: u64,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TableChange {
        table_name: String,
        dynamodb: Images,
    }

    #[idempotent(kinesis, key = "[tableName, dynamodb.Keys, dynamodb.ApproximateCreationDateTime]")]
    async fn ship(change: TableChange) -> Result<(), BoxError> {
        tracing::info!(change.table_name);
        Ok(())
    }

    #[tokio::test]
    async fn a_change_that_is_twice_in_the_stream_runs_once() {
        let harness = Harness::default();
        let change = |order: &str, at: u64| {
            AwsRecord::json(&json!({
                "awsRegion": "eu-central-1", "eventID": format!("c-{at}"), "eventName": "MODIFY", "userIdentity": null,
                "recordFormat": "application/json", "tableName": "orders", "eventSource": "aws:dynamodb",
                "dynamodb": {"ApproximateCreationDateTime": at, "ApproximateCreationDateTimePrecision": "MICROSECOND", "SizeBytes": 40,
                    "Keys": {"order_id": {"S": order}}, "NewImage": {"order_id": {"S": order}, "paid": {"BOOL": true}}},
            }))
        };
        let at = 1_700_000_000_000_001;
        let records = [change("o-1", at), change("o-1", at), change("o-1", at + 1), change("o-2", at)];
        let records = events::kinesis("changes").records(records);
        for _ in 0..2 {
            let response = harness.within(ship(event(&records))).await.unwrap();
            assert!(response.batch_item_failures.is_empty());
            assert_eq!(runs(&harness, "ship"), 3);
        }
    }
}

#[rustfmt::skip]
mod notifications_of_s3_in_a_queue {
    use super::*;

    use idempotency_lambda::{BoxError, idempotent};
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    #[derive(Serialize, Deserialize)]
    struct Notification {
        #[serde(rename = "Records", default)]
        records: Vec<Value>,
        #[serde(rename = "Event", default)]
        event: Option<String>,
    }

    #[idempotent(sqs, key = "Records[0].s3.[bucket.name, object.[key, sequencer]] || Event")]
    async fn thumbnail(notification: Notification) -> Result<(), BoxError> {
        if notification.event.as_deref() == Some("s3:TestEvent") {
            return Ok(()); // acknowledged
        }
        for record in &notification.records {
            tracing::info!("{}", record["s3"]["object"]["key"]);
        }
        Ok(())
    }

    #[tokio::test]
    async fn the_test_event_is_acknowledged_and_each_object_runs_once() {
        let harness = Harness::default();
        let test = json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-11-26T00:00:00.000Z", "Bucket": "photos",
            "RequestId": "r", "HostId": "h"});
        let created = |sequencer: &str| json!({"Records": [{"eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": "photos"}, "object": {"key": "a.png", "sequencer": sequencer}}}]});
        let bodies = [test, created("1"), created("1"), created("2"), json!({"other": 1})];
        let records = bodies.iter().enumerate().map(|(at, body)| AwsRecord::json(body).id(format!("m-{at}")));
        let records = events::sqs("photos").records(records);
        let response = harness.within(thumbnail(event(&records))).await.unwrap();
        let returned = response.batch_item_failures.iter().map(|failure| &*failure.item_identifier);
        assert_eq!(returned.collect::<Vec<_>>(), ["m-4"]);
        assert_eq!(runs(&harness, "thumbnail"), 3);
    }
}

#[rustfmt::skip]
mod aggregates_of_the_kinesis_producer_library {
    use super::*;

    use idempotency_lambda::batch::RawBody;
    use idempotency_lambda::{BoxError, idempotent};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Entry {
        entry_id: String,
    }

    /// Without a `key` the record's own id is the key.
    #[idempotent(kinesis)]
    async fn aggregate(record: RawBody) -> Result<(), BoxError> {
        for entry in split(record.as_bytes())? {
            post(&serde_json::from_slice(&entry)?).await?;
        }
        Ok(())
    }

    #[idempotent(payload = entry, key = "entry_id", key_prefix = "shop.post")]
    async fn post(entry: &Entry) -> Result<(), BoxError> {
        tracing::info!(entry.entry_id);
        Ok(())
    }

    fn split(record: &[u8]) -> Result<Vec<Vec<u8>>, BoxError> {
        let message = record.strip_prefix(&[0xf3, 0x89, 0x9a, 0xc2]).ok_or("no aggregate")?;
        let message = message.split_at_checked(message.len().wrapping_sub(16)).ok_or("too short")?.0;
        let entries = fields(message, 3)?.into_iter().map(|entry| Ok(fields(entry, 3)?.concat()));
        entries.collect()
    }

    /// Returns the values with this number among the fields of a message of Protocol Buffers.
    fn fields(mut message: &[u8], number: u64) -> Result<Vec<&[u8]>, BoxError> {
        let mut found = Vec::new();
        while !message.is_empty() {
            let (tag, value) = (varint(&mut message)?, varint(&mut message)?);
            if tag & 7 == 2 {
                let (bytes, rest) = message.split_at_checked(usize::try_from(value)?).ok_or("too short")?;
                message = rest;
                found.extend((tag >> 3 == number).then_some(bytes));
            }
        }
        Ok(found)
    }

    fn varint(message: &mut &[u8]) -> Result<u64, BoxError> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = message.split_first().filter(|_| shift < 64).ok_or("no number")?;
            *message = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
    }

    /// Returns an aggregate of the entries with these ids: the table of partition keys, and for each entry an index and its data.
    fn aggregate_of(ids: &[&str]) -> AwsRecord {
        let mut bytes = vec![0xf3, 0x89, 0x9a, 0xc2, 0x0a, 1, b'p'];
        for id in ids {
            let entry = json!({ "entry_id": id }).to_string();
            let length = u8::try_from(entry.len()).unwrap();
            bytes.extend([0x1a, length + 4, 0x08, 0, 0x1a, length]);
            bytes.extend(entry.bytes());
        }
        bytes.extend([0; 16]);
        AwsRecord::new(bytes)
    }

    #[tokio::test]
    async fn each_entry_runs_once_also_if_another_aggregate_has_it() {
        let harness = Harness::default();
        let records = events::kinesis("entries").records([aggregate_of(&["e-1", "e-2"]), aggregate_of(&["e-2", "e-3"])]);
        let response = harness.within(aggregate(event(&records))).await.unwrap();
        assert!(response.batch_item_failures.is_empty());
        assert_eq!(runs(&harness, "shop.post"), 3);
    }
}

#[rustfmt::skip]
mod triggers_of_cognito {
    use super::*;

    use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
    use serde_json::Value;

    async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
        if event.payload["triggerSource"] == "PostConfirmation_ConfirmSignUp" {
            welcome(&event.payload).await?;
        }
        Ok(event.payload)
    }

    #[idempotent(payload = event, key = "[userPoolId, request.userAttributes.sub]", key_prefix = "shop.welcome", expires_after = "1d")]
    async fn welcome(event: &Value) -> Result<(), BoxError> {
        tracing::info!("a letter to {}", event["userName"]);
        Ok(())
    }

    #[tokio::test]
    async fn each_user_is_welcomed_once_and_cognito_gets_its_event_back() {
        let harness = Harness::default();
        for (trigger, sub, welcomed) in [
            ("PostConfirmation_ConfirmSignUp", "u-1", 1),
            ("PostConfirmation_ConfirmSignUp", "u-1", 1),
            ("PostConfirmation_ConfirmForgotPassword", "u-2", 1),
            ("PostConfirmation_ConfirmSignUp", "u-2", 2),
        ] {
            let trigger = json!({
                "version": "1", "region": "eu-central-1", "userPoolId": "eu-central-1_a", "userName": "ann", "triggerSource": trigger,
                "request": {"userAttributes": {"sub": sub, "email": "ann@example.com"}}, "response": {},
            });
            let response = harness.within(handler(event(&trigger))).await.unwrap();
            assert_eq!(response, trigger);
            assert_eq!(runs(&harness, "shop.welcome"), welcomed);
        }
    }
}
