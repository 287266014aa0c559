//! The keys of a table with a sort key.

use idempotency_core::config::ConfigurationError;

/// The longest value of a partition key, in bytes: DynamoDB's limit.
pub(crate) const MAX_PARTITION_BYTES: usize = 2048;

/// The longest value of a sort key, in bytes: DynamoDB's limit.
pub(crate) const MAX_SORT_BYTES: usize = 1024;

/// The sort key and the partition of every record.
#[derive(Clone, Debug)]
pub(crate) struct Composite {
    /// The name of the sort key. It contains the record id.
    pub(crate) sort_key: String,
    /// The value of the partition key, the same in every record.
    pub(crate) partition: String,
}

/// Checks that DynamoDB accepts this value of the partition key.
pub(crate) fn check_partition(partition: &str) -> Result<(), ConfigurationError> {
    if partition.is_empty() {
        let message = "the value of the partition key is empty: set IDEMPOTENCY_STATIC_PK_VALUE";
        return Err(ConfigurationError::new(message));
    }
    if partition.len() > MAX_PARTITION_BYTES {
        let remedy = format!("write at most {MAX_PARTITION_BYTES} bytes");
        return Err(ConfigurationError::value(
            "the value of the partition key",
            partition,
            remedy,
        ));
    }
    Ok(())
}
