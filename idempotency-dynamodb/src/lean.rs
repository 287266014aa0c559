//! The lean client, which costs less CPU than the SDK's.
//!
//! [`dynamodb_lean_client`] signs and sends; [`body`] writes what it sends.

use std::fmt;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryMode;
use aws_smithy_types::base64;
use dynamodb_lean_client::{RetryQuota, TableClient};
use idempotency_core::config::ConfigurationError;
use serde_json::Error;

use crate::client;
use crate::item::size;
use crate::request::{Expressions, Request};
use crate::value::Value;

/// The beginning of the header `user-agent`.
const PRODUCT: &str = concat!("idempotency-dynamodb/", env!("CARGO_PKG_VERSION"));

/// A client that sends the store's requests with less CPU than the SDK's client.
///
/// It takes configuration, credentials, endpoint, HTTP client, timeouts and retries from a client of the SDK, and signs and
/// sends the requests itself. The interceptors and plugins of that client are not called, its own retry classifiers do not
/// count, and it has no adaptive retry mode. Its requests appear in no metrics or spans of the SDK.
///
/// Clones share the retry quota.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
/// use idempotency_dynamodb::{DynamoDbStore, LeanClient};
///
/// let client = LeanClient::from_env().await?;
/// let store = DynamoDbStore::builder().table("idempotency").lean_client(client).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeanClient {
    client: Client,
    quota: RetryQuota,
}

impl LeanClient {
    /// Makes a client with the settings of [`default_client`](crate::default_client). No request is sent.
    ///
    /// # Errors
    ///
    /// If no region is configured, or if the program has no TLS provider.
    pub async fn from_env() -> Result<Self, ConfigurationError> {
        Ok(Self::new(client::default_client().await?))
    }

    /// Makes a client from an SDK configuration. Timeouts and retry settings that it does not set are those of
    /// [`DynamoDbStoreBuilder::sdk_config`](crate::DynamoDbStoreBuilder::sdk_config).
    ///
    /// # Examples
    ///
    /// ```
    /// # use aws_config::{Region, SdkConfig};
    /// # use idempotency_dynamodb::{DynamoDbStore, LeanClient};
    /// let config = SdkConfig::builder().region(Region::new("eu-west-1")).build();
    /// let client = LeanClient::from_sdk_config(&config);
    /// let store = DynamoDbStore::builder().table("idempotency").lean_client(client).build()?;
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    pub fn from_sdk_config(config: &SdkConfig) -> Self {
        Self::new(client::sdk_client(config))
    }

    /// Makes a client with every setting of a client of the SDK.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            quota: RetryQuota::default(),
        }
    }

    /// Returns the SDK's client from which this one has its settings.
    pub(crate) fn sdk(&self) -> &Client {
        &self.client
    }

    /// Returns this client for one table.
    pub(crate) fn of_table(self, table: &str) -> TableClient {
        TableClient::new(self.client, table, self.quota, PRODUCT)
    }

    /// Returns true if a lean client can do what this client of the SDK is configured for.
    pub(crate) fn can_replace(client: &Client) -> bool {
        let retries = client.config().retry_config();
        retries.is_none_or(|retries| retries.mode() != RetryMode::Adaptive)
    }

    /// Checks that this client can do what the SDK's client is configured for.
    pub(crate) fn check(&self) -> Result<(), ConfigurationError> {
        if !Self::can_replace(&self.client) {
            return Err(ConfigurationError::new(
                "the lean client has no adaptive retry mode: use the standard mode (AWS_RETRY_MODE, `retry_mode` of the \
                 profile, or the client's retry settings), or the SDK's client",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for LeanClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeanClient")
            .field("region", &self.client.config().region())
            .finish_non_exhaustive()
    }
}

// Writes the body of a request, in the JSON of DynamoDB.

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
