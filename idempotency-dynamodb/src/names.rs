//! The names of the attributes of a record in the table, and the keys of a table with a sort key.

use idempotency_core::config::ConfigurationError;
use idempotency_core::record::Attribute;

use crate::limits::{LONGEST_NAME, LONGEST_PARTITION};

/// The names of the attributes of a record in the table. The defaults are those of Powertools for AWS Lambda (Python).
///
/// # Examples
///
/// ```
/// use idempotency_dynamodb::AttributeNames;
/// let mut names = AttributeNames::default();
/// names.key = "pk".to_owned();
/// assert_eq!(names.expiration, "expiration");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeNames {
    /// The partition key; `id` by default.
    pub key: String,
    /// When the record expires; the TTL attribute of the table.
    pub expiration: String,
    /// When the claim's lease ends.
    pub in_progress_expiration: String,
    /// The status of the call, such as `INPROGRESS`.
    pub status: String,
    /// The stored response.
    pub data: String,
    /// A compressed response.
    pub data_zstd: String,
    /// The description of a response that is split over several items.
    pub data_pieces: String,
    /// A piece of a split response. It is in an item of its own.
    pub data_piece: String,
    /// The validation digest.
    pub validation: String,
    /// The token of the owner of the claim.
    pub owner: String,
    /// The failure that `on_error = "record"` stores.
    pub failure: String,
    /// The path of the operation that claimed the key.
    pub operation: String,
    /// The trace of an operator's decision.
    pub decision: String,
    /// What the record keeps of the event, under `store_event`.
    pub event: String,
    /// The recorded results of steps.
    pub steps: String,
}

/// An attribute of a record that only this store knows: the protocol sees the response alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtraAttribute {
    /// A compressed response.
    Compressed,
    /// The description of a split response.
    Pieces,
}

impl Default for AttributeNames {
    fn default() -> Self {
        let name = |attribute: Attribute| attribute.default_name().to_owned();
        Self {
            key: "id".to_owned(),
            expiration: name(Attribute::Expiration),
            in_progress_expiration: name(Attribute::InProgressExpiration),
            status: name(Attribute::Status),
            data: name(Attribute::Data),
            data_zstd: "data_zstd".to_owned(),
            data_pieces: "data_pieces".to_owned(),
            data_piece: "data_piece".to_owned(),
            validation: name(Attribute::Validation),
            owner: name(Attribute::Owner),
            failure: name(Attribute::Failure),
            operation: name(Attribute::Operation),
            decision: name(Attribute::Decision),
            event: name(Attribute::Event),
            steps: name(Attribute::Steps),
        }
    }
}

impl AttributeNames {
    /// Returns the name of one attribute.
    pub(crate) fn of(&self, attribute: Attribute) -> &str {
        match attribute {
            Attribute::Expiration => &self.expiration,
            Attribute::InProgressExpiration => &self.in_progress_expiration,
            Attribute::Status => &self.status,
            Attribute::Data => &self.data,
            Attribute::Validation => &self.validation,
            Attribute::Owner => &self.owner,
            Attribute::Failure => &self.failure,
            Attribute::Operation => &self.operation,
            Attribute::Decision => &self.decision,
            Attribute::Event => &self.event,
            Attribute::Steps => &self.steps,
        }
    }

    /// Returns the name of an attribute that only this store knows.
    pub(crate) fn extra(&self, extra: ExtraAttribute) -> &str {
        match extra {
            ExtraAttribute::Compressed => &self.data_zstd,
            ExtraAttribute::Pieces => &self.data_pieces,
        }
    }

    /// Checks that DynamoDB accepts each name, and that no two attributes have the same name.
    pub(crate) fn check(&self, sort_key: Option<&str>) -> Result<(), ConfigurationError> {
        let mut all = vec![
            ("key", self.key.as_str()),
            ("expiration", &self.expiration),
            ("in_progress_expiration", &self.in_progress_expiration),
            ("status", &self.status),
            ("data", &self.data),
            ("data_zstd", &self.data_zstd),
            ("data_pieces", &self.data_pieces),
            ("data_piece", &self.data_piece),
            ("validation", &self.validation),
            ("owner", &self.owner),
            ("failure", &self.failure),
            ("operation", &self.operation),
            ("decision", &self.decision),
            ("event", &self.event),
            ("steps", &self.steps),
        ];
        all.extend(sort_key.map(|name| ("sort key", name)));
        for (index, (what, name)) in all.iter().enumerate() {
            let setting = format!("the name of the {what} attribute");
            if name.is_empty() {
                let message = format!("{setting} is empty: write at least one character");
                return Err(ConfigurationError::new(message));
            }
            if name.len() > LONGEST_NAME {
                let remedy = format!("write at most {LONGEST_NAME} bytes");
                return Err(ConfigurationError::value(&setting, name, remedy));
            }
            if let Some((other, _)) = all[..index].iter().find(|(_, earlier)| earlier == name) {
                let remedy = format!("the {other} attribute has the same name, write another one");
                return Err(ConfigurationError::value(&setting, name, remedy));
            }
        }
        Ok(())
    }
}

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
    if partition.len() > LONGEST_PARTITION {
        let remedy = format!("write at most {LONGEST_PARTITION} bytes");
        return Err(ConfigurationError::value(
            "the value of the partition key",
            partition,
            remedy,
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the default names with one change.
    fn with(change: impl FnOnce(&mut AttributeNames)) -> AttributeNames {
        let mut names = AttributeNames::default();
        change(&mut names);
        names
    }

    #[test]
    fn names_are_accepted_or_refused_as_their_row_says() {
        let same = "the status attribute has the same name, write another one";
        let same = format!("the name of the data attribute is `status`: {same}");
        let key = "the key attribute has the same name, write another one";
        let key = format!("the name of the sort key attribute is `id`: {key}");
        let empty = "the name of the key attribute is empty: write at least one character";
        for (names, sort_key, refused) in [
            (AttributeNames::default(), None, ""),
            (AttributeNames::default(), Some("sk"), ""),
            (AttributeNames::default(), Some("id"), key.as_str()),
            (with(|it| it.data = "status".to_owned()), None, &same),
            (with(|it| it.key = String::new()), None, empty),
            (
                with(|it| it.owner = "é".repeat(128)),
                None,
                "write at most 255 bytes",
            ),
            (with(|it| it.owner = "o".repeat(255)), None, ""),
        ] {
            let error = names.check(sort_key).err();
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(text.is_empty(), refused.is_empty(), "{text}");
            assert!(text.ends_with(refused), "{text}");
        }
    }
}
