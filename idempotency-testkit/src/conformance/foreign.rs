//! Records as other programs write them: in the store's own types, with missing attributes or attributes of a wrong type.

use std::collections::BTreeMap;

use idempotency_core::record::{Attribute, Record};

/// A value in one of the types that a table knows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ForeignValue {
    /// A text.
    Text(String),
    /// A number, as decimal text.
    Number(String),
    /// A boolean.
    Bool(bool),
    /// A null value (the attribute is present).
    Null,
    /// Bytes.
    Bytes(Vec<u8>),
    /// An ordered list of values.
    List(Vec<ForeignValue>),
    /// Named values.
    Map(BTreeMap<String, ForeignValue>),
}

/// A record as another program writes it, and the record that a store must read.
///
/// A store without a type of these values writes the closest type that it has, such that `reads_as` holds.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::{Field, Record, Status};
/// use idempotency_testkit::conformance::{ForeignRecord, ForeignValue};
/// let foreign = ForeignRecord {
///     attributes: [("status".to_owned(), ForeignValue::Text("COMPLETED".to_owned()))].into(),
///     reads_as: Record { status: Field::Value(Status::Completed), ..Record::default() },
/// };
/// assert!(!foreign.reads_as.owner.exists());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignRecord {
    /// The attributes except the id, under their default names.
    pub attributes: BTreeMap<String, ForeignValue>,
    /// The record that a store must read.
    pub reads_as: Record,
}

impl ForeignRecord {
    pub(super) fn new(reads_as: Record) -> Self {
        Self {
            attributes: BTreeMap::new(),
            reads_as,
        }
    }

    pub(super) fn with(self, attribute: Attribute, value: ForeignValue) -> Self {
        self.with_unknown(attribute.default_name(), value)
    }

    pub(super) fn with_unknown(mut self, name: &str, value: ForeignValue) -> Self {
        self.attributes.insert(name.to_owned(), value);
        self
    }
}

impl ForeignValue {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn number(number: impl ToString) -> Self {
        Self::Number(number.to_string())
    }
}
