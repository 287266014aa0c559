//! Writes the body of a request, in the JSON of DynamoDB.

use aws_smithy_types::base64;
use serde_json::Error;

use crate::item::size;
use crate::request::{Expressions, Request};
use crate::value::Value;

/// Writes the body of a request to this table.
pub(crate) fn body(table: &str, request: &Request<'_>) -> Result<Vec<u8>, Error> {
    // Without escapes, the names and the expressions of a request have about 1 KB. Base64 makes bytes a third longer.
    let values = size::of(request.attributes());
    let mut body = Body(Vec::with_capacity(1_024 + values + values / 3));
    body.name("{", "TableName")?;
    body.text(table)?;
    match request {
        Request::Put {
            item,
            expressions,
            returns_replaced,
            returns_existing,
        } => {
            body.object("Item", item.iter().copied(), Body::value)?;
            body.expressions(expressions, *returns_existing)?;
            if *returns_replaced {
                body.constant("ReturnValues", "ALL_OLD")?;
            }
        }
        Request::Update { key, expressions } | Request::Delete { key, expressions } => {
            body.object("Key", key.iter().copied(), Body::value)?;
            body.expressions(expressions, true)?;
        }
        Request::Get { key, consistent } => {
            body.object("Key", key.iter().copied(), Body::value)?;
            body.name(",", "ConsistentRead")?;
            body.raw(if *consistent { "true" } else { "false" });
        }
    }
    body.raw("}");
    Ok(body.0)
}

/// A body, as far as it is written.
struct Body(Vec<u8>);

impl Body {
    fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Writes a string with its quotes and escapes.
    fn text(&mut self, text: &str) -> Result<(), Error> {
        serde_json::to_writer(&mut self.0, text)
    }

    /// Begins a member of an object: the first one after `{`, a further one after `,`.
    fn name(&mut self, after: &str, name: &str) -> Result<(), Error> {
        self.raw(after);
        self.text(name)?;
        self.raw(":");
        Ok(())
    }

    /// Writes a further member, a text.
    fn constant(&mut self, name: &str, value: &str) -> Result<(), Error> {
        self.name(",", name)?;
        self.text(value)
    }

    /// Writes a further member, an object.
    fn object<'n, T>(
        &mut self,
        name: &str,
        members: impl Iterator<Item = (&'n str, T)>,
        write: impl Fn(&mut Self, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.name(",", name)?;
        self.members(members, write)
    }

    /// Writes an object.
    fn members<'n, T>(
        &mut self,
        members: impl Iterator<Item = (&'n str, T)>,
        write: impl Fn(&mut Self, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut after = "{";
        for (name, value) in members {
            self.name(after, name)?;
            write(self, value)?;
            after = ",";
        }
        self.raw(if after == "{" { "{}" } else { "}" });
        Ok(())
    }

    fn value(&mut self, value: Value<'_>) -> Result<(), Error> {
        match value {
            Value::Text(text) => {
                self.raw("{\"S\":");
                self.text(text)?;
            }
            Value::Number(number) => {
                self.raw("{\"N\":\"");
                serde_json::to_writer(&mut self.0, &number)?;
                self.raw("\"");
            }
            Value::Bytes(bytes) => {
                self.raw("{\"B\":\"");
                self.raw(&base64::encode(bytes));
                self.raw("\"");
            }
            Value::Steps(steps) => {
                self.raw("{\"M\":");
                let steps = steps.iter();
                let steps = steps.map(|(name, result)| (name, Value::Text(result.as_str())));
                self.members(steps, Self::value)?;
            }
        }
        self.raw("}");
        Ok(())
    }

    /// Writes the expressions of a write with their placeholders. `returns_existing` is true if a failed condition brings back
    /// the current item.
    fn expressions(
        &mut self,
        expressions: &Expressions<'_>,
        returns_existing: bool,
    ) -> Result<(), Error> {
        if let Some(update) = expressions.update() {
            self.constant("UpdateExpression", update)?;
        }
        self.constant("ConditionExpression", expressions.condition())?;
        // DynamoDB rejects an empty object.
        if expressions.names().next().is_some() {
            self.object("ExpressionAttributeNames", expressions.names(), Self::text)?;
        }
        if expressions.values().next().is_some() {
            self.object(
                "ExpressionAttributeValues",
                expressions.values(),
                Self::value,
            )?;
        }
        if returns_existing {
            self.constant("ReturnValuesOnConditionCheckFailure", "ALL_OLD")?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use idempotency_core::protocol::condition::Condition;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::request::Shapes;

    /// Returns the body of a put of this item.
    pub(crate) fn put(item: Vec<(&str, Value<'_>)>, returns_existing: bool) -> Json {
        let request = Request::Put {
            item,
            expressions: Shapes::default().condition(&Condition::NoRecord),
            returns_replaced: false,
            returns_existing,
        };
        serde_json::from_slice(&body("t", &request).unwrap()).unwrap()
    }

    #[test]
    fn a_put_that_asks_for_nothing_has_this_body() {
        let item = vec![("id", Value::Text("a")), ("b", Value::Bytes(&[0, 255, 7]))];
        let expected = json!({
            "TableName": "t",
            "Item": { "id": { "S": "a" }, "b": { "B": "AP8H" } },
            "ConditionExpression": "attribute_not_exists(#a)",
            "ExpressionAttributeNames": { "#a": "id" }
        });
        assert_eq!(put(item, false), expected);
    }

    proptest! {
        #[test]
        fn every_value_is_written_so_that_it_reads_back(
            name in any::<String>(),
            text in any::<String>(),
            number in any::<i64>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..99),
        ) {
            let name = name.as_str();
            for (value, written) in [
                (Value::Text(&text), json!({ "S": text })),
                (Value::Number(number), json!({ "N": number.to_string() })),
                (Value::Bytes(&bytes), json!({ "B": base64::encode(&bytes) })),
            ] {
                let mut expected = serde_json::Map::new();
                expected.insert(name.to_owned(), written);
                prop_assert_eq!(&put(vec![(name, value)], true)["Item"], &Json::from(expected));
            }
        }
    }
}
