//! Records as other programs write them: in the store's own types, attributes missing or of a wrong type.

use std::collections::BTreeMap;

use idempotency_core::record::{Attribute, Record};

/// A value in the types that a table knows.
///
/// ```
/// use idempotency_testkit::conformance::ForeignValue;
/// assert_ne!(ForeignValue::Text("1".to_owned()), ForeignValue::Number("1".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ForeignValue {
    /// A text.
    Text(String),
    /// A number, as decimal text.
    Number(String),
    /// A truth value.
    Bool(bool),
    /// Nothing, which is there.
    Null,
    /// Bytes.
    Bytes(Vec<u8>),
    /// Values in order.
    List(Vec<ForeignValue>),
    /// Values under names.
    Map(BTreeMap<String, ForeignValue>),
}

/// A record as another program writes it, and what a store must read it as.
///
/// A store that cannot hold such a value (text alone, for instance) plants what comes next to it in its own types and
/// leaves `reads_as` true.
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
    /// The attributes under their default names, beside the id.
    pub attributes: BTreeMap<String, ForeignValue>,
    /// What a store reads.
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
