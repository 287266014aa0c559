use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

/// An item as the SDK gives it: attribute names and values.
pub type Item = HashMap<String, AttributeValue>;

/// A table to create: by default partition key `id` (a string), on demand, TTL on `expiration`.
///
/// ```
/// use idempotency_testkit::dynamodb::TableSpec;
///
/// let plain = TableSpec::new("idempotency");
/// let shared = TableSpec::new("everything").partition_key("pk").with_sort_key("sk").without_ttl();
/// # let _ = (plain, shared);
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `EmbeddedDynamoDb::create_table`"]
pub struct TableSpec {
    pub(super) name: String,
    pub(super) partition_key: String,
    pub(super) sort_key: Option<String>,
    pub(super) ttl: Option<String>,
}

impl TableSpec {
    /// A table with the default layout.
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::TableSpec;
    /// let table = TableSpec::new("idempotency");
    /// # let _ = table;
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partition_key: "id".to_owned(),
            sort_key: None,
            ttl: Some("expiration".to_owned()),
        }
    }

    /// Names the partition key, a string attribute.
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::TableSpec;
    /// let table = TableSpec::new("idempotency").partition_key("pk");
    /// # let _ = table;
    /// ```
    pub fn partition_key(mut self, attribute: impl Into<String>) -> Self {
        self.partition_key = attribute.into();
        self
    }

    /// Adds a sort key, a string attribute.
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::TableSpec;
    /// let shared = TableSpec::new("everything").partition_key("pk").with_sort_key("sk");
    /// # let _ = shared;
    /// ```
    pub fn with_sort_key(mut self, attribute: impl Into<String>) -> Self {
        self.sort_key = Some(attribute.into());
        self
    }

    /// Names the TTL attribute (a number, seconds since the epoch).
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::TableSpec;
    /// let table = TableSpec::new("idempotency").ttl("expires_at");
    /// # let _ = table;
    /// ```
    pub fn ttl(mut self, attribute: impl Into<String>) -> Self {
        self.ttl = Some(attribute.into());
        self
    }

    /// Leaves TTL off.
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::TableSpec;
    /// let forever = TableSpec::new("idempotency").without_ttl();
    /// # let _ = forever;
    /// ```
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }
}
