//! The record: the one item a key has in the store.
//!
//! Names and meaning follow Powertools for AWS Lambda (Python), so that one table serves both; `owner`, `failure`
//! and `operation` are ours alone. Every attribute may be missing or of a wrong type, because other programs write to the table too.

use std::fmt;

use crate::owner::OwnerToken;
use crate::time::{EpochMillis, EpochSeconds};

/// Separates the prefix from the tenant in a record id. A prefix must not contain it.
pub(crate) const TENANT_MARK: &str = "#tenant=";

/// The whole identity of a record in its store: `{prefix}#{hex digest}`.
///
/// ```
/// use idempotency_core::record::RecordId;
/// let id = RecordId::new("payments.charge#42b7b4f2921788ea14dac5566e6f06d0");
/// assert_eq!(id.as_str().split_once('#').unwrap().0, "payments.charge");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(String);

impl RecordId {
    /// An id from its text.
    ///
    /// ```
    /// # use idempotency_core::record::RecordId;
    /// assert_eq!(RecordId::new("a#b").to_string(), "a#b");
    /// ```
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id that a digest has under a prefix. A tenant, where the invocation has one, gets ids of its own.
    ///
    /// ```
    /// # use idempotency_core::record::RecordId;
    /// assert_eq!(RecordId::of("shop", None, "42b7").as_str(), "shop#42b7");
    /// assert_eq!(RecordId::of("shop", Some("blue"), "42b7").as_str(), "shop#tenant=blue#42b7");
    /// ```
    pub fn of(prefix: &str, tenant: Option<&str>, digest: &str) -> Self {
        match tenant.filter(|tenant| !tenant.is_empty()) {
            None => Self(format!("{prefix}#{digest}")),
            // A `#` in the tenant must not let one tenant's id be read as another's.
            Some(tenant) => {
                let tenant = tenant.replace('%', "%25").replace('#', "%23");
                Self(format!("{prefix}{TENANT_MARK}{tenant}#{digest}"))
            }
        }
    }

    /// The id as it is stored.
    ///
    /// ```
    /// # use idempotency_core::record::RecordId;
    /// assert_eq!(RecordId::new("a#b").as_str(), "a#b");
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One attribute of a record, as it was found.
///
/// ```
/// use idempotency_core::record::Field;
/// assert!(Field::Value(1).exists());
/// assert!(Field::<i32>::Unreadable.exists());
/// assert_eq!(Field::<i32>::Absent.value(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Field<T> {
    /// The record has no such attribute.
    #[default]
    Absent,
    /// The attribute, of the type it should have.
    Value(T),
    /// The attribute is there but not of the type it should have.
    Unreadable,
}

impl<T> Field<T> {
    /// The value, if there is a readable one.
    ///
    /// ```
    /// # use idempotency_core::record::Field;
    /// assert_eq!(Field::Value(1).value(), Some(&1));
    /// ```
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// Whether the record has the attribute at all.
    ///
    /// ```
    /// # use idempotency_core::record::Field;
    /// assert!(!Field::<i32>::Absent.exists());
    /// ```
    pub fn exists(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}

impl<T> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Value)
    }
}

/// How far the call behind a record has come.
///
/// ```
/// use idempotency_core::record::Status;
/// assert_eq!(Status::from_record("COMPLETED".to_owned()), Status::Completed);
/// assert_eq!(Status::InProgress.as_str(), "INPROGRESS");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// A claim: somebody runs the handler, or did when it was killed.
    InProgress,
    /// The handler's answer is stored, or known not to be storable.
    Completed,
    /// A status this version does not know.
    Other(String),
}

impl Status {
    /// The status as it is stored.
    ///
    /// ```
    /// # use idempotency_core::record::Status;
    /// assert_eq!(Status::Completed.as_str(), "COMPLETED");
    /// ```
    pub fn as_str(&self) -> &str {
        match self {
            Self::InProgress => "INPROGRESS",
            Self::Completed => "COMPLETED",
            Self::Other(text) => text,
        }
    }

    /// The status a stored text stands for.
    ///
    /// ```
    /// # use idempotency_core::record::Status;
    /// assert_eq!(Status::from_record("EXPIRED".to_owned()), Status::Other("EXPIRED".to_owned()));
    /// ```
    pub fn from_record(text: String) -> Self {
        match text.as_str() {
            "INPROGRESS" => Self::InProgress,
            "COMPLETED" => Self::Completed,
            _ => Self::Other(text),
        }
    }
}

/// A stored answer, as JSON text. Its `Debug` shows the length alone.
///
/// ```
/// use idempotency_core::record::Data;
/// let data = Data::new(r#"{"card":"4242"}"#);
/// assert_eq!(format!("{data:?}"), "Data(15 bytes)");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Data(std::sync::Arc<str>);

impl Data {
    /// An answer from its JSON text.
    ///
    /// ```
    /// # use idempotency_core::record::Data;
    /// assert_eq!(Data::new("0").as_str(), "0");
    /// ```
    pub fn new(text: impl Into<std::sync::Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The JSON text.
    ///
    /// ```
    /// # use idempotency_core::record::Data;
    /// assert_eq!(Data::new("null").as_str(), "null");
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.0.len())
    }
}

/// The attributes of a record, beside its id.
///
/// ```
/// use idempotency_core::record::{Field, Record, Status};
/// let record = Record { status: Field::Value(Status::Completed), ..Record::default() };
/// assert!(!record.data.exists());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Record {
    /// When the record ends, in seconds; also the table's TTL attribute.
    pub expiration: Field<EpochSeconds>,
    /// When the claim's lease ends, in milliseconds.
    pub in_progress_expiration: Field<EpochMillis>,
    /// How far the call has come.
    pub status: Field<Status>,
    /// The answer, as JSON text.
    pub data: Field<Data>,
    /// The hash of the validated part of the payload.
    pub validation: Field<String>,
    /// Whose claim it is.
    pub owner: Field<OwnerToken>,
    /// A recorded failure, on a claim whose lease was ended by it.
    pub failure: Field<String>,
    /// Which operation claimed the key: a name for people, which no rule of the protocol asks for.
    pub operation: Field<String>,
}

/// The name of one attribute of a [`Record`].
///
/// ```
/// use idempotency_core::record::Attribute;
/// assert_eq!(Attribute::Expiration.default_name(), "expiration");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Attribute {
    /// When the record ends (s).
    Expiration,
    /// When the lease ends (ms).
    InProgressExpiration,
    /// `INPROGRESS` or `COMPLETED`.
    Status,
    /// The answer as JSON text.
    Data,
    /// The hash of the validated part.
    Validation,
    /// The owner token.
    Owner,
    /// A recorded failure.
    Failure,
    /// The path of the operation that claimed the key.
    Operation,
}

impl Attribute {
    /// The attribute's name in a table where nothing else is configured.
    ///
    /// ```
    /// # use idempotency_core::record::Attribute;
    /// assert_eq!(Attribute::InProgressExpiration.default_name(), "in_progress_expiration");
    /// ```
    pub const fn default_name(self) -> &'static str {
        match self {
            Self::Expiration => "expiration",
            Self::InProgressExpiration => "in_progress_expiration",
            Self::Status => "status",
            Self::Data => "data",
            Self::Validation => "validation",
            Self::Owner => "owner",
            Self::Failure => "failure",
            Self::Operation => "operation",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_own_marks_are_written_so_that_they_end_nothing() {
        let id = RecordId::of("shop", Some("blue#42b7%23"), "42b7");
        assert_eq!(id.as_str(), "shop#tenant=blue%2342b7%2523#42b7");
    }

    #[test]
    fn debug_output_of_a_record_shows_no_answer() {
        let record = Record {
            data: Field::Value(Data::new(r#"{"secret":"s3cr3t"}"#)),
            ..Record::default()
        };
        assert!(!format!("{record:?}").contains("s3cr3t"));
    }
}
