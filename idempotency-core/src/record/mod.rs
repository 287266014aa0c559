//! The record: the one item of a key in the store.
//!
//! Names and meaning follow Powertools for AWS Lambda (Python), so that both can use one table. `owner`, `failure`,
//! `operation`, `steps`, `undo`, `decision` and `event` exist only here. Any attribute may be missing or have a wrong type, because other
//! programs write to the table too.

mod attributes;
mod steps;
mod stored_event;

pub(crate) use attributes::Unit;
pub use attributes::{Attribute, Columns, FieldValue, Record};
pub use steps::RecordedSteps;
pub use stored_event::StoredEvent;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use serde::de::IgnoredAny;

use crate::hex;

/// Separates the prefix from the tenant in a record id. A prefix must not contain it.
pub(crate) const TENANT_MARK: &str = "#tenant=";

/// The id of a record in its store: `{prefix}#{hex digest}`.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::RecordId;
/// let id = RecordId::new("payments.charge#42b7b4f2921788ea14dac5566e6f06d0");
/// assert_eq!(id.as_str().split_once('#').unwrap().0, "payments.charge");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Arc<str>);

impl RecordId {
    /// Returns the id with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }

    /// Returns the text that the store holds.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[doc(hidden)]
impl RecordId {
    /// Returns the prefix: the name of the operation, without tenant and digest.
    pub fn prefix(&self) -> &str {
        let with_tenant = self.0.split_once(TENANT_MARK);
        let parts = with_tenant.or_else(|| self.0.rsplit_once('#'));
        parts.map_or(self.as_str(), |(prefix, _)| prefix)
    }

    /// Returns the id of a digest under a prefix. Each tenant has ids of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::record::RecordId;
    /// assert_eq!(RecordId::of("shop", None, "42b7").as_str(), "shop#42b7");
    /// assert_eq!(RecordId::of("shop", Some("blue"), "42b7").as_str(), "shop#tenant=blue#42b7");
    /// ```
    pub fn of(prefix: &str, tenant: Option<&str>, digest: &str) -> Self {
        match tenant.filter(|tenant| !tenant.is_empty()) {
            None => Self::new([prefix, "#", digest].concat()),
            // Escape `#`, so that the id of one tenant cannot be read as that of another.
            Some(tenant) => {
                let tenant = tenant.replace('%', "%25").replace('#', "%23");
                Self::new(format!("{prefix}{TENANT_MARK}{tenant}#{digest}"))
            }
        }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A token of one call: the same in all its requests and sends, never used for another call.
///
/// Completion and release have it as their condition. So a call whose claim was taken over cannot change the record of the
/// call that took over.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::OwnerToken;
/// let token = OwnerToken::from_bytes([7; 16]);
/// assert_eq!(token.as_str(), "07070707070707070707070707070707");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// Returns the token of 128 random bits, as 32 lower-case hex digits.
    #[doc(hidden)]
    pub fn from_bytes(random: [u8; 16]) -> Self {
        Self(hex::of(&random))
    }

    /// Returns the token that was read from a record.
    pub fn from_record(text: String) -> Self {
        Self(text)
    }

    /// Returns the text that the record holds.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One attribute of a record, as the store returned it.
///
/// # Examples
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
    /// The attribute has the right type.
    Value(T),
    /// The attribute has a wrong type.
    Unreadable,
}

impl<T> Field<T> {
    /// Returns the value, if there is a readable one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// Returns true if the record has the attribute, readable or not.
    pub fn exists(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Returns the same attribute with another form of its value.
    #[doc(hidden)]
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Value(value) => Field::Value(form(value)),
            Self::Unreadable => Field::Unreadable,
        }
    }

    /// Returns the attribute that is read from this one. It is unreadable if `read` returns `None`.
    #[doc(hidden)]
    pub fn and_then<U>(self, read: impl FnOnce(T) -> Option<U>) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Value(value) => read(value).map_or(Field::Unreadable, Field::Value),
            Self::Unreadable => Field::Unreadable,
        }
    }

    /// Returns the same attribute with a reference to its value.
    #[doc(hidden)]
    pub fn as_ref(&self) -> Field<&T> {
        match self {
            Self::Absent => Field::Absent,
            Self::Value(value) => Field::Value(value),
            Self::Unreadable => Field::Unreadable,
        }
    }
}

impl<T> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Value)
    }
}

/// The status of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// A claim: its handler runs, was killed, panicked under `hold`, or left a recorded failure.
    InProgress,
    /// The handler's response is stored, or cannot be stored.
    Completed,
    /// The handler has decided its final response, and its steps are being undone.
    Undoing,
    /// A status that this version does not know.
    Other(String),
}

impl Status {
    /// Returns the text that the record holds.
    pub fn as_str(&self) -> &str {
        match self {
            Self::InProgress => "INPROGRESS",
            Self::Completed => "COMPLETED",
            Self::Undoing => "UNDOING",
            Self::Other(text) => text,
        }
    }

    /// Returns the status of a stored text.
    pub fn from_record(text: String) -> Self {
        match text.as_str() {
            "INPROGRESS" => Self::InProgress,
            "COMPLETED" => Self::Completed,
            "UNDOING" => Self::Undoing,
            _ => Self::Other(text),
        }
    }
}

impl Record {
    /// Returns true if the steps of the key are being undone.
    pub(crate) fn is_undoing(&self) -> bool {
        self.status.value() == Some(&Status::Undoing)
    }

    /// Returns true if the record is a claim: its run goes on, or ended without a completion.
    pub(crate) fn is_claim(&self) -> bool {
        self.is_undoing() || self.status.value() == Some(&Status::InProgress)
    }
}

/// A stored response, as JSON text. Its `Debug` shows only the length.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::Data;
/// let data = Data::new(r#"{"card":"4242"}"#);
/// assert_eq!(format!("{data:?}"), "Data(15 bytes)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data(Arc<Inner>);

struct Inner {
    text: String,
    /// Whether the text is JSON, after the first check. Each replay from the local cache asks for it.
    is_json: OnceLock<bool>,
}

impl Data {
    /// Returns the response with this JSON text.
    pub fn new(text: impl Into<String>) -> Self {
        Self::with(text.into(), OnceLock::new())
    }

    /// Returns the response with a text that is certain to be JSON.
    pub(crate) fn of_json(text: String) -> Self {
        Self::with(text, OnceLock::from(true))
    }

    fn with(mut text: String, is_json: OnceLock<bool>) -> Self {
        // The buffer of a text that was just written can be twice as long. The cache would keep that memory without counting it.
        text.shrink_to_fit();
        Self(Arc::new(Inner { text, is_json }))
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Returns true if the text is JSON. It is checked once.
    pub(crate) fn is_json(&self) -> bool {
        let check = || serde_json::from_str::<IgnoredAny>(self.as_str()).is_ok();
        *self.0.is_json.get_or_init(check)
    }
}

impl PartialEq for Inner {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Inner {}

impl Hash for Inner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separators_in_a_tenant_are_escaped() {
        let id = RecordId::of("shop", Some("blue#42b7%23"), "42b7");
        assert_eq!(id.as_str(), "shop#tenant=blue%2342b7%2523#42b7");
    }

    #[test]
    fn two_tenants_never_have_one_id() {
        let tenants = [
            "a", "A", " a", "a ", "a\u{a0}", "a#", "a%23", "a%2523", "a%", "a#b#42b7", "%23",
        ];
        let ids: std::collections::BTreeSet<_> = tenants
            .iter()
            .map(|tenant| RecordId::of("shop", Some(tenant), "42b7"))
            .chain([RecordId::of("shop", None, "42b7")])
            .collect();
        assert_eq!(ids.len(), tenants.len() + 1);
    }

    #[test]
    fn the_prefix_of_an_id_has_neither_tenant_nor_digest() {
        for tenant in [None, Some("blue#42")] {
            assert_eq!(RecordId::of("shop#2", tenant, "42b7").prefix(), "shop#2");
        }
        assert_eq!(RecordId::new("shop").prefix(), "shop");
    }

    #[test]
    fn the_first_and_the_second_check_of_a_text_agree() {
        for (text, is_json) in [("42", true), ("4 2", false), ("", false), ("[\"a\"]", true)] {
            let data = Data::new(text);
            assert_eq!(
                (data.is_json(), data.clone().is_json()),
                (is_json, is_json),
                "{text}"
            );
            assert_eq!(data, Data::new(text));
        }
        let known = Data::of_json("42".to_owned());
        assert!(known.is_json() && known == Data::new("42") && known != Data::new("43"));
    }

    #[test]
    fn a_response_keeps_no_room_that_it_does_not_need() {
        let roomy = || {
            let mut text = String::with_capacity(4096);
            text.push_str("42");
            text
        };
        for data in [Data::new(roomy()), Data::of_json(roomy())] {
            assert!(data.0.text.capacity() < 64 && data.as_str() == "42");
        }
    }

    #[test]
    fn the_debug_output_of_a_record_shows_no_response() {
        let record = Record {
            data: Field::Value(Data::new(r#"{"secret":"s3cr3t"}"#)),
            ..Record::default()
        };
        assert!(!format!("{record:?}").contains("s3cr3t"));
    }
}
