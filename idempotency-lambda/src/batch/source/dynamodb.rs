//! DynamoDB streams.

use std::collections::{BTreeMap, HashMap};

use aws_lambda_events::dynamodb::{Event, EventRecord};
use aws_lambda_events::streams::DynamoDbEventResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::typed;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_dynamo::{AttributeValue, Item};
use serde_json::value::RawValue;

use super::{EventSource, FromRecord, Spec};
use crate::batch::body::{Text, Undecodable};
use crate::batch::plan::Position;
use crate::batch::settings::RecordOrder;
use crate::invocation::Deadline;
use crate::operation::{IdentifiedCall, Operation};

impl EventSource for Event {}

/// A change of an item, with its images as a type.
///
/// With `key_from = "body"`, a `key` expression sees the new image; the old one if the item was removed; the item's key if the stream has
/// no images. It sees plain JSON with all digits of each number, also those that the type does not keep. If all changes of an item have the
/// same `order_id`, a key of it alone makes the second change a duplicate of the first. Without a `key`, each change is a call of its own.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::BoxError;
/// use idempotency_lambda::batch::ItemChange;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Order { status: String }
///
/// async fn notify(change: ItemChange<Order>) -> Result<(), BoxError> {
///     if let (Some(old), Some(new)) = (&change.old, &change.new) {
///         tracing::info!("from {} to {}", old.status, new.status);
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ItemChange<T> {
    /// The item after the change. `None` if it was removed, or the stream has no new images.
    pub new: Option<T>,
    /// The item before the change. `None` if it was inserted, or the stream has no old images.
    pub old: Option<T>,
    /// The record as the stream sent it.
    pub record: EventRecord,
}

impl<T> ItemChange<T> {
    /// Makes a change for a unit test of a handler.
    pub fn new(old: Option<T>, new: Option<T>, record: EventRecord) -> Self {
        Self { new, old, record }
    }
}

impl Spec for Event {
    type Record = EventRecord;
    type Response = DynamoDbEventResponse;

    const NAME: &'static str = "dynamodb_stream";
    const IDENTIFIER: &'static str = "dynamodb.SequenceNumber";
    const ID: &'static str = "eventID";
    const WAITS: bool = true;

    fn records(self) -> Vec<EventRecord> {
        self.records
    }

    fn identifier(record: &EventRecord) -> Option<&str> {
        let number = record.change.sequence_number.as_deref();
        number.filter(|number| !number.is_empty())
    }

    fn position(record: &EventRecord, order: RecordOrder) -> Position {
        // The event does not name the shard. Lambda sends the records of one shard at a time.
        let stream = record.event_source_arn.clone().unwrap_or_default();
        let group = match order {
            RecordOrder::Source => String::new(),
            RecordOrder::PartitionKey => {
                Plain(record.change.keys.inner()).text().unwrap_or_default()
            }
        };
        Position {
            lane: Some(stream),
            group: Some(group),
        }
    }

    fn id(record: &EventRecord) -> Option<String> {
        let id = Some(&record.event_id).filter(|id| !id.is_empty())?;
        serde_json::to_string(id).ok()
    }

    fn document(record: &EventRecord) -> Result<String, Undecodable> {
        fn image(item: &Item) -> Option<Plain<'_>> {
            Some(Plain(item.inner())).filter(|Plain(item)| !item.is_empty())
        }
        let change = &record.change;
        let document = Document {
            event_id: &record.event_id,
            event_name: &record.event_name,
            event_source_arn: record.event_source_arn.as_deref(),
            dynamodb: Images {
                keys: image(&change.keys),
                new_image: image(&change.new_image),
                old_image: image(&change.old_image),
                sequence_number: change.sequence_number.as_deref(),
            },
        };
        serde_json::to_string(&document).map_err(|_| Undecodable::new("has a number that is none"))
    }

    fn response(returned: Vec<String>) -> DynamoDbEventResponse {
        let failures = returned.into_iter().map(|number| {
            let mut failure = aws_lambda_events::streams::DynamoDbBatchItemFailure::default();
            failure.item_identifier = Some(number);
            failure
        });
        let mut response = DynamoDbEventResponse::default();
        response.batch_item_failures = failures.collect();
        response
    }
}

/// A record as an expression sees it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(rename = "eventID")]
    event_id: &'a str,
    event_name: &'a str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: Option<&'a str>,
    dynamodb: Images<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Images<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Plain<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_image: Option<Plain<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_image: Option<Plain<'a>>,
    sequence_number: Option<&'a str>,
}

/// Reads an image as a type. Returns `None` for an empty image, which the stream does not have.
fn read_image<T: DeserializeOwned>(name: &str, item: &Item) -> Result<Option<T>, Undecodable> {
    if item.is_empty() {
        return Ok(None);
    }
    let image = serde_dynamo::AttributeValue::M(item.clone().into());
    let image = serde_dynamo::Deserializer::from_attribute_value(image);
    // The key is taken from the item, so lists that the read cannot judge do not count. The message of serde may quote the item.
    let (image, _) = typed::read_by_name(image);
    image
        .map(Some)
        .map_err(|_| Undecodable::new(format!("does not fit its type: the {name} image")))
}

impl<T: DeserializeOwned> FromRecord<Event> for ItemChange<T> {
    fn from_record(record: EventRecord) -> Result<Self, Undecodable> {
        Ok(Self {
            new: read_image("new", &record.change.new_image)?,
            old: read_image("old", &record.change.old_image)?,
            record,
        })
    }

    fn identify(&self, operation: &Operation, deadline: Deadline) -> Result<IdentifiedCall, Error> {
        let change = &self.record.change;
        let images = [&change.new_image, &change.old_image];
        let image = images.into_iter().find(|image| !image.is_empty());
        let item = Plain(image.unwrap_or(&change.keys).inner());
        let item = item.text().ok_or_else(|| {
            Error::new(ErrorKind::InvalidPayload, operation.key_prefix())
                .with_detail("the item has a number that is none")
        })?;
        IdentifiedCall::new(operation, &Text(item), deadline)
    }
}

/// An item that is written without the names of DynamoDB's types. Its attributes are sorted. The members of a set stay in the order of
/// the event.
///
/// Numbers keep all their digits, and binary values are base64.
struct Plain<'a>(&'a HashMap<String, AttributeValue>);

struct Attribute<'a>(&'a AttributeValue);

/// A number as DynamoDB writes it.
struct Number<'a>(&'a str);

impl Plain<'_> {
    /// Returns the JSON text, or `None` if a number of the item is none.
    fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attributes: BTreeMap<_, _> = self.0.iter().collect();
        let attributes = attributes.into_iter();
        serializer.collect_map(attributes.map(|(name, value)| (name, Attribute(value))))
    }
}

impl Serialize for Attribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            AttributeValue::N(number) => Number(number).serialize(serializer),
            AttributeValue::S(text) => serializer.serialize_str(text),
            AttributeValue::Bool(value) => serializer.serialize_bool(*value),
            AttributeValue::B(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            AttributeValue::Null(_) => serializer.serialize_unit(),
            AttributeValue::M(map) => Plain(map).serialize(serializer),
            AttributeValue::L(list) => serializer.collect_seq(list.iter().map(Attribute)),
            AttributeValue::Ss(set) => serializer.collect_seq(set),
            AttributeValue::Ns(set) => serializer.collect_seq(set.iter().map(|text| Number(text))),
            AttributeValue::Bs(set) => {
                serializer.collect_seq(set.iter().map(|bytes| STANDARD.encode(bytes)))
            }
        }
    }
}

impl Serialize for Number<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_number = self.0.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match serde_json::from_str::<&RawValue>(self.0) {
            Ok(number) if is_number => number.serialize(serializer),
            _ => Err(S::Error::custom("it is not a number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(item: serde_json::Value) -> Option<String> {
        let item: Item = serde_json::from_value(item).unwrap();
        Plain(item.inner()).text()
    }

    #[test]
    fn an_item_is_plain_json_with_exact_numbers_and_sorted_names() {
        let item = json!({
            "s": { "S": "a\"b" }, "n": { "N": "12345678901234567890.5" }, "b": { "B": "/wA=" }, "t": { "BOOL": true },
            "z": { "NULL": true }, "m": { "M": { "y": { "N": "-1" }, "x": { "L": [{ "N": "1E+40" }, { "S": "" }] } } },
            "ss": { "SS": ["p", "q"] }, "ns": { "NS": ["1", "2.5"] }, "bs": { "BS": ["/wA="] },
        });
        let expected = concat!(
            r#"{"b":"/wA=","bs":["/wA="],"m":{"x":[1E+40,""],"y":-1},"n":12345678901234567890.5,"ns":[1,2.5],"#,
            r#""s":"a\"b","ss":["p","q"],"t":true,"z":null}"#
        );
        assert_eq!(text(item).as_deref(), Some(expected));
    }

    #[test]
    fn a_list_of_an_item_is_no_struct() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        struct Order {
            lines: Vec<Line>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        struct Line {
            price: u8,
        }
        let read = |line: serde_json::Value| {
            let item = serde_json::from_value(json!({ "lines": { "L": [line] } })).unwrap();
            read_image::<Order>("new", &item).is_ok()
        };
        assert!(read(json!({ "M": { "price": { "N": "1" } } })));
        assert!(!read(json!({ "L": [{ "N": "1" }] })));
    }

    #[test]
    fn a_number_that_is_none_has_no_json() {
        for number in ["", "NaN", "true", "\"1\"", "1 2", "0x1"] {
            assert_eq!(text(json!({ "n": { "N": number } })), None, "{number}");
        }
    }
}
