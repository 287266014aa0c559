//! Events in records: their stored form, and whether the table may hold them.
//!
//! An event can have personal data. DynamoDB encrypts every table, but only a key of KMS has permissions and a log of its own, so a
//! store writes an event only to a table that is encrypted with one, unless this is waived.

use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::types::{
    AttributeValue, SseDescription, SseStatus, SseType, TableDescription,
};
use idempotency_core::compression::{ZSTD_IS_COMPILED_IN, compress, decompress};
use idempotency_core::record::{Attribute, StoredEvent};
use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};

use super::items::Items;
use crate::request::DESCRIBE;
use crate::sends::Sends;
use crate::value::Value;

/// Whether the table may hold events.
pub(super) struct Events {
    /// True if it may: this was checked, or is waived.
    allowed: AtomicBool,
}

impl Events {
    pub(super) fn new(allowed: bool) -> Self {
        let allowed = AtomicBool::new(allowed);
        Self { allowed }
    }

    /// Checks once that the table may hold events.
    ///
    /// # Errors
    ///
    /// If it is not encrypted with a key of KMS, or if that cannot be found out.
    pub(super) async fn check(&self, items: &Items, log: &SendLog) -> Result<(), StoreError> {
        if self.allowed.load(Ordering::Acquire) {
            return Ok(());
        }
        // It changes nothing of the record, like a piece.
        let sends = Sends::of_piece(log, &items.table, DESCRIBE);
        let described = items.transport.describe(&sends).await?;
        if !described.as_ref().is_some_and(has_kms_key) {
            let text = format!(
                "{} is not encrypted with a key of KMS, and `store_event` keeps events in it: encrypt it \
                 (`SSESpecification` with `SSEType: KMS`), or set IDEMPOTENCY_STORE_EVENT_UNENCRYPTED=true",
                items.table
            );
            return Err(StoreError::new(StoreErrorKind::NotEncrypted, text));
        }
        self.allowed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Returns the event that an attribute contains.
///
/// # Errors
///
/// What is wrong with it. Not its text: it can have personal data.
pub(crate) fn read_event(attribute: &AttributeValue) -> Result<StoredEvent, &'static str> {
    let other = "it was not written by this framework";
    let event = match attribute {
        AttributeValue::S(text) => StoredEvent::from_stored(text),
        AttributeValue::B(bytes) => StoredEvent::from_stored(&decompressed_event(bytes.as_ref())?),
        _ => None,
    };
    event.ok_or(other)
}

/// Returns the text of a compressed event.
///
/// # Errors
///
/// What is wrong with it.
fn decompressed_event(compressed: &[u8]) -> Result<String, &'static str> {
    let longest = StoredEvent::LONGEST_STORED;
    decompress(compressed, longest).map_err(|_| {
        if ZSTD_IS_COMPILED_IN {
            "it is damaged"
        } else {
            "it is compressed, and this program was built without the feature `zstd`"
        }
    })
}

/// Returns true if the table is encrypted with a key of KMS, of the account or of AWS.
fn has_kms_key(table: &TableDescription) -> bool {
    let encrypts = |sse: &SseDescription| {
        let on = matches!(sse.status, Some(SseStatus::Enabled | SseStatus::Updating));
        on && sse.sse_type == Some(SseType::Kms)
    };
    table.sse_description.as_ref().is_some_and(encrypts)
}

/// The compressed form of the event that a write stores. `None` if the event is stored as it is, or if there is none.
pub(crate) struct EventForm(Option<Vec<u8>>);

impl EventForm {
    /// Compresses the event of a write, if there is one and it becomes smaller.
    pub(crate) fn of(event: Option<&StoredEvent>) -> Self {
        let text = event.map(StoredEvent::stored);
        Self(text.and_then(|text| compress(text, text.len())))
    }

    /// Returns the attribute as it is written.
    pub(crate) fn apply<'a>(
        &'a self,
        (attribute, value): (Attribute, Value<'a>),
    ) -> (Attribute, Value<'a>) {
        match &self.0 {
            Some(bytes) if attribute == Attribute::Event => (attribute, Value::Bytes(bytes)),
            _ => (attribute, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(status: SseStatus, kind: SseType) -> TableDescription {
        let sse = SseDescription::builder().status(status).sse_type(kind);
        let table = TableDescription::builder();
        table.sse_description(sse.build()).build()
    }

    #[test]
    fn only_a_table_with_a_key_of_kms_may_hold_events() {
        for (status, kind, may) in [
            (SseStatus::Enabled, SseType::Kms, true),
            (SseStatus::Updating, SseType::Kms, true),
            (SseStatus::Enabled, SseType::Aes256, false),
            (SseStatus::Enabling, SseType::Kms, false),
            (SseStatus::Disabling, SseType::Kms, false),
            (SseStatus::Disabled, SseType::Kms, false),
        ] {
            let table = table(status.clone(), kind.clone());
            assert_eq!(has_kms_key(&table), may, "{status} {kind}");
        }
        // The key of DynamoDB itself: there is no description.
        assert!(!has_kms_key(&TableDescription::builder().build()));
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_compressed_event_reads_back_and_a_longer_or_damaged_one_is_refused() {
        let binary =
            |bytes: Vec<u8>| AttributeValue::B(aws_sdk_dynamodb::primitives::Blob::new(bytes));
        let longest = format!("\"{}\"", "x".repeat(StoredEvent::LONGEST - 2));
        let event = StoredEvent::selected(&longest).unwrap();
        let compressed = |text: &str| compress(text, text.len()).unwrap();
        let frame = compressed(event.stored());
        assert_eq!(read_event(&binary(frame.clone())), Ok(event));
        // A small frame of a long text: it is refused before memory is taken for it.
        let bomb = compressed(&" ".repeat(10_000_000));
        assert!(bomb.len() < 2_000, "{}", bomb.len());
        let cut = frame[..frame.len() / 2].to_vec();
        for bytes in [bomb, cut, Vec::new(), b"{\"all\":7}".to_vec()] {
            assert_eq!(read_event(&binary(bytes)), Err("it is damaged"));
        }
    }

    #[test]
    fn a_text_reads_back_and_an_attribute_of_another_program_is_no_event() {
        let event = StoredEvent::selected("7").unwrap();
        let text = AttributeValue::S(event.stored().to_owned());
        assert_eq!(read_event(&text), Ok(event));
        for attribute in [
            AttributeValue::N("7".to_owned()),
            AttributeValue::Bool(true),
            AttributeValue::S("{\"order_id\":7}".to_owned()),
        ] {
            let read = read_event(&attribute);
            assert_eq!(read, Err("it was not written by this framework"));
        }
    }
}
