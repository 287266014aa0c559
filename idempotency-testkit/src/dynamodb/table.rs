//! The layout of a table to create.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// An item as the SDK represents it: attribute names and values.
pub type Item = HashMap<String, AttributeValue>;

/// A table to create. By default: partition key `id` (a string), on-demand billing, TTL on `expiration`.
///
/// # Examples
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
    pub(crate) name: String,
    pub(crate) partition_key: String,
    pub(crate) sort_key: Option<String>,
    pub(super) ttl: Option<String>,
    pub(super) encrypted: bool,
}

impl TableSpec {
    /// Describes a table with the default layout.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partition_key: "id".to_owned(),
            sort_key: None,
            ttl: Some("expiration".to_owned()),
            encrypted: false,
        }
    }

    /// Sets the name of the partition key, a string attribute.
    pub fn partition_key(mut self, attribute: impl Into<String>) -> Self {
        self.partition_key = attribute.into();
        self
    }

    /// Adds a sort key, a string attribute.
    pub fn with_sort_key(mut self, attribute: impl Into<String>) -> Self {
        self.sort_key = Some(attribute.into());
        self
    }

    /// Sets the TTL attribute (a number, in seconds since the epoch).
    pub fn ttl(mut self, attribute: impl Into<String>) -> Self {
        self.ttl = Some(attribute.into());
        self
    }

    /// Encrypts the table with a key of KMS, as its description says it. The embedded database encrypts nothing.
    pub fn encrypted(mut self) -> Self {
        self.encrypted = true;
        self
    }

    /// Leaves TTL off.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }
}
