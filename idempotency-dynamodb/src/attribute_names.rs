//! The names of a record's attributes in the table.

use idempotency_core::config::ConfigurationError;
use idempotency_core::record::Attribute;

/// The longest name, in bytes: DynamoDB's limit for key attributes.
const LONGEST: usize = 255;

/// The names of a record's attributes in the table. The defaults are those of Powertools for AWS Lambda (Python).
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
    /// The partition key; `id`.
    pub key: String,
    /// When the record ends; the table's TTL attribute.
    pub expiration: String,
    /// When the claim's lease ends.
    pub in_progress_expiration: String,
    /// How far the call has come.
    pub status: String,
    /// The answer.
    pub data: String,
    /// The hash of the validated part of the payload.
    pub validation: String,
    /// Whose claim it is.
    pub owner: String,
    /// A recorded failure.
    pub failure: String,
    /// The operation that claimed the key.
    pub operation: String,
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
            validation: name(Attribute::Validation),
            owner: name(Attribute::Owner),
            failure: name(Attribute::Failure),
            operation: name(Attribute::Operation),
        }
    }
}

impl AttributeNames {
    /// The name of one attribute.
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
            _ => attribute.default_name(),
        }
    }

    /// Refuses names that DynamoDB would not take, or with which one attribute would overwrite another.
    pub(crate) fn check(&self, sort_key: Option<&str>) -> Result<(), ConfigurationError> {
        let mut all = vec![
            ("key", self.key.as_str()),
            ("expiration", &self.expiration),
            ("in_progress_expiration", &self.in_progress_expiration),
            ("status", &self.status),
            ("data", &self.data),
            ("validation", &self.validation),
            ("owner", &self.owner),
            ("failure", &self.failure),
            ("operation", &self.operation),
        ];
        all.extend(sort_key.map(|name| ("sort key", name)));
        for (index, (what, name)) in all.iter().enumerate() {
            let setting = format!("the name of the {what} attribute");
            if name.is_empty() {
                let message = format!("{setting} is empty: write at least one character");
                return Err(ConfigurationError::new(message));
            }
            if name.len() > LONGEST {
                let remedy = format!("write at most {LONGEST} bytes");
                return Err(ConfigurationError::value(&setting, name, remedy));
            }
            if let Some((other, _)) = all[..index].iter().find(|(_, earlier)| earlier == name) {
                let remedy = format!("the {other} attribute has that name already, write another");
                return Err(ConfigurationError::value(&setting, name, remedy));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(names: &AttributeNames, sort_key: Option<&str>) -> String {
        names.check(sort_key).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_accepted_with_and_without_a_sort_key() {
        assert_eq!(AttributeNames::default().check(None), Ok(()));
        assert_eq!(AttributeNames::default().check(Some("sk")), Ok(()));
    }

    #[test]
    fn two_attributes_cannot_share_a_name() {
        let names = AttributeNames {
            data: "status".to_owned(),
            ..AttributeNames::default()
        };
        assert_eq!(
            refusal(&names, None),
            "the name of the data attribute is `status`: the status attribute has that name already, write another"
        );
        assert_eq!(
            refusal(&AttributeNames::default(), Some("id")),
            "the name of the sort key attribute is `id`: the key attribute has that name already, write another"
        );
    }

    #[test]
    fn an_empty_name_and_one_beyond_255_bytes_are_refused() {
        let empty = AttributeNames {
            key: String::new(),
            ..AttributeNames::default()
        };
        assert_eq!(
            refusal(&empty, None),
            "the name of the key attribute is empty: write at least one character"
        );
        let long = AttributeNames {
            owner: "é".repeat(128),
            ..AttributeNames::default()
        };
        assert!(refusal(&long, None).ends_with("write at most 255 bytes"));
        let longest = AttributeNames {
            owner: "o".repeat(255),
            ..AttributeNames::default()
        };
        assert_eq!(longest.check(None), Ok(()));
    }
}
