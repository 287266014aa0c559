//! The names of the attributes of a record in the table, and the keys of a table with a sort key.

use idempotency_core::config::ConfigurationError;
use idempotency_core::record::Attribute;
use idempotency_core::record_attributes;

use crate::limits::{LONGEST_NAME, LONGEST_PARTITION};

macro_rules! names {
    ($($(#[doc = $doc:literal])* $name:ident $field:ident: $value:ty,)*) => {
        /// The names of the attributes of a record in the table. The defaults are those of Powertools for AWS Lambda (Python).
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct AttributeNames {
            /// The partition key; `id` by default.
            pub(crate) key: String,
            $($(#[doc = $doc])* pub(crate) $field: String,)*
            /// A compressed response.
            pub(crate) data_zstd: String,
            /// The description of a response that is split over several items.
            pub(crate) data_pieces: String,
            /// A piece of a split response. It is in an item of its own.
            pub(crate) data_piece: String,
        }

        impl Default for AttributeNames {
            fn default() -> Self {
                Self {
                    key: "id".to_owned(),
                    $($field: Attribute::$name.default_name().to_owned(),)*
                    data_zstd: "data_zstd".to_owned(),
                    data_pieces: "data_pieces".to_owned(),
                    data_piece: "data_piece".to_owned(),
                }
            }
        }

        impl AttributeNames {
            /// Returns the name of one attribute.
            pub(crate) fn of(&self, attribute: Attribute) -> &str {
                match attribute {
                    $(Attribute::$name => &self.$field,)*
                }
            }

            /// Sets the name of one attribute.
            pub(crate) fn set(&mut self, attribute: Attribute, name: String) {
                match attribute {
                    $(Attribute::$name => self.$field = name,)*
                }
            }
        }
    };
}

record_attributes!(names);

/// An attribute of a record that only this store knows: the protocol sees the response alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtraAttribute {
    /// A compressed response.
    Compressed,
    /// The description of a split response.
    Pieces,
}

impl AttributeNames {
    /// Returns the name of an attribute that only this store knows.
    pub(crate) fn extra(&self, extra: ExtraAttribute) -> &str {
        match extra {
            ExtraAttribute::Compressed => &self.data_zstd,
            ExtraAttribute::Pieces => &self.data_pieces,
        }
    }

    /// Checks that DynamoDB accepts each name, and that no two attributes have the same name.
    pub(crate) fn check(&self, sort_key: Option<&str>) -> Result<(), ConfigurationError> {
        let mut all = vec![("key", self.key.as_str())];
        all.extend(Attribute::ALL.map(|attribute| (attribute.default_name(), self.of(attribute))));
        all.extend([
            ("data_zstd", self.data_zstd.as_str()),
            ("data_pieces", &self.data_pieces),
            ("data_piece", &self.data_piece),
        ]);
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

    #[test]
    fn a_partition_has_a_value_of_at_most_2048_bytes() {
        for (bytes, is_accepted) in [(0, false), (1, true), (2_048, true), (2_049, false)] {
            assert_eq!(
                check_partition(&"p".repeat(bytes)).is_ok(),
                is_accepted,
                "{bytes}"
            );
        }
    }
}
