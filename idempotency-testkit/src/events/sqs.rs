//! A batch of SQS messages.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::value::{identifiers, json_text, object};
use super::{ACCOUNT, REGION, TIME, ids};

/// Starts a batch of messages of a queue. A queue whose name ends in `.fifo` is a FIFO queue.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events::{self, SqsMessage};
/// use serde_json::json;
///
/// let event = events::sqs("orders.fifo")
///     .message(SqsMessage::json(&json!({"order_id": "o-1"})).group("u-1"))
///     .message(SqsMessage::json(&json!({"order_id": "o-2"})).group("u-1"))
///     .to_value();
/// assert_eq!(event["Records"][1]["attributes"]["MessageGroupId"], "u-1");
/// assert_eq!(event["Records"][1]["attributes"]["SequenceNumber"], "18849496460467696129");
/// ```
pub fn sqs(queue: impl Into<String>) -> SqsBatch {
    SqsBatch {
        queue: queue.into(),
        messages: Vec::new(),
        changes: Vec::new(),
    }
}

/// A batch of SQS messages. [`sqs`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct SqsBatch {
    queue: String,
    messages: Vec<SqsMessage>,
    changes: Vec<(String, Value)>,
}

event!(SqsBatch);

impl SqsBatch {
    /// Adds a message with this JSON as its body.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Self {
        self.message(SqsMessage::json(body))
    }

    /// Adds a message with this text as its body.
    pub fn text(self, body: impl Into<String>) -> Self {
        self.message(SqsMessage::text(body))
    }

    /// Adds a message.
    pub fn message(mut self, message: SqsMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// Adds several messages.
    pub fn messages(mut self, messages: impl IntoIterator<Item = SqsMessage>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// Sets how often all messages have been received, this time included.
    pub fn receive_count(mut self, count: u32) -> Self {
        for message in &mut self.messages {
            message.receive_count = count;
        }
        self
    }

    /// Returns the ids of the messages, in order: the `itemIdentifier` of a partial batch response.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        identifiers(&self.to_value(), "/messageId")
    }

    fn render(&self) -> Value {
        let mut earlier = HashMap::new();
        let records = self.messages.iter().enumerate().map(|(position, message)| {
            let earlier = earlier.entry((&message.body, &message.group)).or_insert(0);
            let copy = std::mem::replace(earlier, *earlier + 1);
            message.render(&self.queue, position, copy)
        });
        json!({ "Records": records.collect::<Vec<_>>() })
    }
}

/// A message of an SQS queue.
///
/// Its id is computed from the queue, the body and the group: a message that is delivered again in another event has the same
/// id. A second message with the same body in one event has an id of its own.
#[derive(Clone, Debug)]
#[must_use]
pub struct SqsMessage {
    body: String,
    id: Option<String>,
    group: Option<String>,
    deduplication_id: Option<String>,
    receive_count: u32,
    system_attributes: Vec<(String, String)>,
    attributes: Vec<(String, String)>,
}

impl SqsMessage {
    /// Makes a message with this JSON as its body.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(body: &T) -> Self {
        Self::text(json_text(body))
    }

    /// Makes a message with this text as its body.
    pub fn text(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            id: None,
            group: None,
            deduplication_id: None,
            receive_count: 1,
            system_attributes: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// Sets the message id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the message group. Messages of a FIFO queue are in the group `1` by default.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets the deduplication id. For a FIFO queue it is the SHA-256 digest of the body by default.
    pub fn deduplication_id(mut self, id: impl Into<String>) -> Self {
        self.deduplication_id = Some(id.into());
        self
    }

    /// Sets how often the message has been received, this time included.
    pub fn receive_count(mut self, count: u32) -> Self {
        self.receive_count = count;
        self
    }

    /// Adds an attribute that SQS sets, such as `AWSTraceHeader` or `DeadLetterQueueSourceArn`.
    pub fn system_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.system_attributes.push((name.into(), value.into()));
        self
    }

    /// Adds a message attribute of type `String`, which the sender sets.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// Writes the message. `copy` counts the messages before it with the same body and group.
    fn render(&self, queue: &str, position: usize, copy: usize) -> Value {
        let group = self.group.as_deref().unwrap_or_default();
        let copy = copy.to_string();
        let id = || ids::uuid(&[queue, &self.body, group, &copy]);
        let id = self.id.clone().unwrap_or_else(id);
        let handle = format!(
            "AQEB{}",
            ids::sha256(format!("{id}{}", self.receive_count).as_bytes())
        );
        let mut record = json!({
            "messageId": id,
            "receiptHandle": handle,
            "body": self.body,
            "attributes": object(self.rendered_attributes(queue, position)),
            "messageAttributes": object(self.attributes.iter().map(|(name, value)| {
                let value = json!({
                    "stringValue": value,
                    "stringListValues": [],
                    "binaryListValues": [],
                    "dataType": "String",
                });
                (name.clone(), value)
            })),
            "md5OfBody": ids::md5(self.body.as_bytes()),
            "eventSource": "aws:sqs",
            "eventSourceARN": format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"),
            "awsRegion": REGION,
        });
        if !self.attributes.is_empty() {
            record["md5OfMessageAttributes"] = json!(self.md5_of_attributes());
        }
        record
    }

    fn rendered_attributes(&self, queue: &str, position: usize) -> Vec<(String, String)> {
        let mut attributes = vec![
            ("ApproximateReceiveCount", self.receive_count.to_string()),
            ("SentTimestamp", TIME.to_string()),
            ("SenderId", "AROAEXAMPLEEXAMPLE00:checkout".to_owned()),
            ("ApproximateFirstReceiveTimestamp", (TIME + 8).to_string()),
        ];
        let is_fifo = queue.ends_with(".fifo");
        if is_fifo {
            let digest = || ids::sha256(self.body.as_bytes());
            let sequence_number = 18_849_496_460_467_696_128_u128 + position as u128;
            attributes.extend([
                ("SequenceNumber", sequence_number.to_string()),
                (
                    "MessageDeduplicationId",
                    self.deduplication_id.clone().unwrap_or_else(digest),
                ),
            ]);
        }
        match &self.group {
            // A standard queue accepts groups too, for fairness.
            Some(group) => attributes.push(("MessageGroupId", group.clone())),
            None if is_fifo => attributes.push(("MessageGroupId", "1".to_owned())),
            None => {}
        }
        let attributes = attributes.into_iter();
        attributes
            .map(|(name, value)| (name.to_owned(), value))
            .chain(self.system_attributes.iter().cloned())
            .collect()
    }

    /// Returns the digest that SQS documents: names in order, each part with its length in front.
    fn md5_of_attributes(&self) -> String {
        let mut attributes = self.attributes.clone();
        attributes.sort();
        let mut bytes = Vec::new();
        let part = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend(text.as_bytes());
        };
        for (name, value) in &attributes {
            part(&mut bytes, name);
            part(&mut bytes, "String");
            // 1: the value is a text, not binary.
            bytes.push(1);
            part(&mut bytes, value);
        }
        ids::md5(&bytes)
    }
}
