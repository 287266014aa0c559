//! SQS, standard and FIFO queues.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use idempotency_core::error::Error;
use serde::{Serialize, Serializer};

use super::{EventSource, FromRecord, Spec};
use crate::batch::body::{Body, BodyOrText, Undecodable};
use crate::batch::plan::Position;
use crate::batch::settings::RecordOrder;
use crate::invocation::Deadline;
use crate::operation::{IdentifiedCall, Operation};

impl EventSource for SqsEvent {}

/// A message of SQS with its body as a type, for a handler that needs more than the body.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::BoxError;
/// use idempotency_lambda::batch::Message;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Order;
///
/// async fn reserve(message: Message<Order>) -> Result<(), BoxError> {
///     let attempt = message.record.attributes.get("ApproximateReceiveCount");
///     tracing::info!(message = message.id(), attempt);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message<T> {
    /// The body.
    pub body: T,
    /// The message as SQS sent it.
    pub record: SqsMessage,
}

impl<T> Message<T> {
    /// Makes a message for a unit test of a handler.
    pub fn new(body: T, record: SqsMessage) -> Self {
        Self { body, record }
    }

    /// Returns the `messageId`.
    pub fn id(&self) -> &str {
        SqsEvent::identifier(&self.record).unwrap_or_default()
    }
}

impl Spec for SqsEvent {
    type Record = SqsMessage;
    type Response = SqsBatchResponse;

    const NAME: &'static str = "sqs";
    const IDENTIFIER: &'static str = "messageId";
    const ID: &'static str = "messageId";
    const WAITS: bool = false;

    fn records(self) -> Vec<SqsMessage> {
        self.records
    }

    fn identifier(message: &SqsMessage) -> Option<&str> {
        message.message_id.as_deref().filter(|id| !id.is_empty())
    }

    fn position(message: &SqsMessage, _: RecordOrder) -> Position {
        let group = is_fifo(message).then(|| {
            let group = message.attributes.get("MessageGroupId");
            // Every message of a FIFO queue has a group. Messages without one form one group, so that they keep their order.
            let queue = message.event_source_arn.as_deref().unwrap_or_default();
            format!("{queue} {}", group.map_or("", String::as_str))
        });
        Position { lane: None, group }
    }

    fn id(message: &SqsMessage) -> Option<String> {
        serde_json::to_string(Self::identifier(message)?).ok()
    }

    fn document(message: &SqsMessage) -> Result<String, Undecodable> {
        let document = Document {
            message_id: message.message_id.as_deref(),
            body: body_of(message)?.as_bytes().into(),
            attributes: Attributes(&message.attributes),
            message_attributes: &message.message_attributes,
            event_source_arn: message.event_source_arn.as_deref(),
        };
        serde_json::to_string(&document)
            .map_err(|_| Undecodable::new("cannot be written as a part of the record"))
    }

    fn response(returned: Vec<String>) -> SqsBatchResponse {
        let mut response = SqsBatchResponse::default();
        response.set_failures(returned);
        response
    }
}

/// Returns true if the message came from a FIFO queue.
///
/// A group does not show it: fair queues, which are standard queues, have groups too.
fn is_fifo(message: &SqsMessage) -> bool {
    match message.event_source_arn.as_deref() {
        Some(queue) if !queue.is_empty() => queue.ends_with(".fifo"),
        _ => message.attributes.contains_key("MessageDeduplicationId"),
    }
}

fn body_of(message: &SqsMessage) -> Result<&str, Undecodable> {
    let body = message.body.as_deref();
    body.ok_or_else(|| Undecodable::new("is missing"))
}

fn decode<T: Body>(message: &SqsMessage) -> Result<T, Undecodable> {
    T::decode(body_of(message)?.as_bytes())
}

/// A message as an expression sees it. The receipt handle and the number of deliveries are left out: each delivery has another one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    message_id: Option<&'a str>,
    body: BodyOrText<'a>,
    attributes: Attributes<'a>,
    message_attributes:
        &'a std::collections::HashMap<String, aws_lambda_events::sqs::SqsMessageAttribute>,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: Option<&'a str>,
}

/// The attributes that a message has in each delivery.
struct Attributes<'a>(&'a std::collections::HashMap<String, String>);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.iter();
        serializer.collect_map(all.filter(|(name, _)| *name != "ApproximateReceiveCount"))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Body> FromRecord<SqsEvent> for T {
    fn from_record(message: SqsMessage) -> Result<Self, Undecodable> {
        decode(&message)
    }

    fn identify(&self, operation: &Operation, deadline: Deadline) -> Result<IdentifiedCall, Error> {
        IdentifiedCall::new(operation, self, deadline)
    }
}

impl<T: Body> FromRecord<SqsEvent> for Message<T> {
    fn from_record(record: SqsMessage) -> Result<Self, Undecodable> {
        Ok(Self {
            body: decode(&record)?,
            record,
        })
    }

    fn identify(&self, operation: &Operation, deadline: Deadline) -> Result<IdentifiedCall, Error> {
        IdentifiedCall::new(operation, &self.body, deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_queue_says_whether_it_is_fifo_and_without_one_its_message_does() {
        for (queue, has_deduplication_id, expected) in [
            (Some("arn:aws:sqs:eu-west-1:1:orders.fifo"), false, true),
            (Some("arn:aws:sqs:eu-west-1:1:orders"), true, false),
            (Some(""), true, true),
            (None, true, true),
            (None, false, false),
        ] {
            let mut message = SqsMessage::default();
            message.event_source_arn = queue.map(str::to_owned);
            if has_deduplication_id {
                let id = ("MessageDeduplicationId".to_owned(), "d-1".to_owned());
                message.attributes.extend([id]);
            }
            assert_eq!(is_fifo(&message), expected, "{queue:?}");
        }
    }

    #[test]
    fn an_expression_sees_the_same_message_in_each_delivery() {
        let delivered = |times: &str| {
            let mut message = SqsMessage::default();
            message.body = Some("{}".to_owned());
            message.receipt_handle = Some(format!("handle-{times}"));
            let all = [("ApproximateReceiveCount", times), ("SenderId", "s-1")];
            let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
            message.attributes.extend(all);
            SqsEvent::document(&message).unwrap()
        };
        assert_eq!(delivered("1"), delivered("2"));
        assert!(delivered("1").contains(r#""attributes":{"SenderId":"s-1"}"#));
    }
}
