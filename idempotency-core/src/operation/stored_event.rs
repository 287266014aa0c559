//! The part of an event that is kept in the record of its key, for people: `store_event`.

use std::io::{self, Write};

use serde::Serialize;

use super::compile;
use crate::config::ConfigurationError;
use crate::key::{Budget, Expression, Json, Needs};
use crate::record::StoredEvent;

/// What is kept of each event.
#[derive(Clone, Debug)]
pub(super) enum Keeps {
    /// The whole payload, as it was sent.
    Whole,
    /// The result of this expression.
    Selected(Expression),
}

/// What is kept of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventCopy {
    /// This text.
    Event(StoredEvent),
    /// Nothing, and why.
    LeftOut(&'static str),
}

const TOO_LARGE: EventCopy = EventCopy::LeftOut(
    "the event is not kept in the record: what is kept of it has more than 64 KiB",
);
const FAILED: EventCopy = EventCopy::LeftOut(
    "the event is not kept in the record: the expression of `store_event` failed on it",
);
const NOTHING: EventCopy = EventCopy::LeftOut(
    "the event is not kept in the record: the expression of `store_event` finds nothing in it",
);
const NOT_JSON: EventCopy =
    EventCopy::LeftOut("the event is not kept in the record: it cannot be written as JSON");

impl Keeps {
    /// Returns what the setting says: `all`, an expression, or nothing.
    pub(super) fn of(setting: Option<&str>) -> Result<Option<Self>, ConfigurationError> {
        match setting {
            Some(all) if all.eq_ignore_ascii_case("all") => Ok(Some(Self::Whole)),
            other => Ok(compile("store_event", other)?.map(Self::Selected)),
        }
    }

    /// Returns what the expression looks at; `None` if the whole payload is kept.
    pub(super) fn needs(&self) -> Option<&Needs> {
        match self {
            Self::Whole => None,
            Self::Selected(expression) => Some(expression.needs()),
        }
    }

    /// Returns what is kept of a payload that was sent as `text`. `payload` has what the expressions look at.
    pub(super) fn of_text(&self, text: &str, payload: &Json, budget: &mut Budget) -> EventCopy {
        match self {
            Self::Whole => whole(text),
            Self::Selected(expression) => selected(expression, payload, budget),
        }
    }

    /// Returns what is kept of the payload `value`. `payload` has what the expressions look at.
    pub(super) fn of_value<T: Serialize + ?Sized>(
        &self,
        value: &T,
        payload: &Json,
        budget: &mut Budget,
    ) -> EventCopy {
        match self {
            Self::Whole => written(value),
            Self::Selected(expression) => selected(expression, payload, budget),
        }
    }
}

/// Returns the text of a whole payload, unless it is too long.
pub(super) fn whole(text: &str) -> EventCopy {
    StoredEvent::all(text).map_or(TOO_LARGE, EventCopy::Event)
}

fn selected(expression: &Expression, payload: &Json, budget: &mut Budget) -> EventCopy {
    let selection = expression.select_within(payload, budget);
    match selection.map(|selection| selection.value) {
        Ok(Json::Null) => NOTHING,
        Ok(part) => StoredEvent::selected(&part.to_canonical()).map_or(TOO_LARGE, EventCopy::Event),
        Err(_) => FAILED,
    }
}

/// Returns the value as JSON text, unless that is too long. It stops at the longest text, so a large value takes little memory.
fn written<T: Serialize + ?Sized>(value: &T) -> EventCopy {
    let mut text = BoundedWriter(Vec::new());
    match serde_json::to_writer(&mut text, value) {
        Ok(()) => match String::from_utf8(text.0) {
            Ok(text) => whole(&text),
            Err(_) => NOT_JSON,
        },
        Err(error) if error.is_io() => TOO_LARGE,
        Err(_) => NOT_JSON,
    }
}

/// A buffer that refuses more bytes than the longest text has.
struct BoundedWriter(Vec<u8>);

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > StoredEvent::LONGEST {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::CompiledOperation;
    use crate::config::{KeyRequired, Settings, Variables};
    use crate::example::shared;
    use crate::operation::Identity;
    use crate::record::StoredEvent;

    fn operation(key: Option<&'static str>, store_event: &'static str) -> CompiledOperation {
        shared::operation(|it| {
            it.key = key.map(Into::into);
            it.key_required = Some(KeyRequired::No);
            it.store_event = Some(store_event.into());
        })
    }

    fn kept(identity: &Identity) -> Option<&str> {
        identity.event().map(StoredEvent::as_str)
    }

    const EVENT: &str = r#"{"id": 7, "card": {"number": "4242", "bank": "b"}, "amount": 1.50}"#;

    #[test]
    fn nothing_is_kept_unless_it_is_set() {
        let settings = Settings::default();
        let plain = CompiledOperation::new("a", &settings, &Variables::default()).unwrap();
        let identity = plain.identify(EVENT, None).unwrap();
        assert_eq!((kept(&identity), identity.event_left_out()), (None, None));
        let variables = shared::variable("IDEMPOTENCY_STORE_EVENT", "{id: id}");
        let by_variable = CompiledOperation::new("a", &settings, &variables).unwrap();
        let identity = by_variable.identify(EVENT, None).unwrap();
        assert_eq!(kept(&identity), Some(r#"{"id": 7}"#));
        for off in ["off", "OFF"] {
            let off = shared::settings(|it| it.store_event = Some(off.into()));
            assert_eq!(off.store_event(&variables), None);
        }
    }

    #[test]
    fn all_keeps_the_text_as_it_was_sent() {
        for (key, all) in [(None, "all"), (Some("id"), "All")] {
            let whole = operation(key, all);
            assert_eq!(kept(&whole.identify(EVENT, None).unwrap()), Some(EVENT));
            let value = serde_json::json!({ "id": 7, "note": "é" });
            let identity = whole.identify_value(&value, None).unwrap();
            assert_eq!(kept(&identity), Some("{\"id\":7,\"note\":\"é\"}"));
        }
    }

    #[test]
    fn an_expression_selects_what_is_kept_and_the_key_stays_the_same() {
        for key in [None, Some("id")] {
            let selects = operation(key, "{id: id, bank: card.bank}");
            let expected = r#"{"bank": "b", "id": 7}"#;
            let identity = selects.identify(EVENT, None).unwrap();
            assert_eq!(kept(&identity), Some(expected));
            let value: serde_json::Value = serde_json::from_str(EVENT).unwrap();
            let of_value = selects.identify_value(&value, None).unwrap();
            assert_eq!(kept(&of_value), Some(expected));
            let without = operation(key, "off").identify(EVENT, None).unwrap();
            assert_eq!(identity.key(), without.key());
            assert!(!format!("{identity:?}").contains("4242"));
            assert!(!format!("{identity:?}").contains("bank"));
        }
    }

    #[test]
    fn an_event_that_cannot_be_kept_is_left_out_with_the_reason_and_the_call_goes_on() {
        let long = format!(
            r#"{{"id": 7, "text": "{}"}}"#,
            "x".repeat(StoredEvent::LONGEST)
        );
        let value: serde_json::Value = serde_json::from_str(&long).unwrap();
        for (store_event, event, why) in [
            ("all", long.as_str(), "more than 64 KiB"),
            ("text", long.as_str(), "more than 64 KiB"),
            ("nothing", EVENT, "finds nothing"),
            ("keys(id)", EVENT, "failed on it"),
        ] {
            for key in [None, Some("id")] {
                let identity = operation(key, store_event).identify(event, None).unwrap();
                assert_eq!(kept(&identity), None, "{store_event}");
                let left_out = identity.event_left_out().unwrap();
                assert!(left_out.contains(why), "{store_event}: {left_out}");
            }
        }
        let identity = operation(Some("id"), "all").identify_value(&value, None);
        let identity = identity.unwrap();
        assert!(identity.event_left_out().unwrap().contains("64 KiB"));
    }

    #[test]
    fn a_call_without_a_key_keeps_nothing() {
        let identity = operation(Some("nothing"), "all").identify(EVENT, None);
        let identity = identity.unwrap();
        assert!(identity.bypass().is_some());
        assert_eq!((kept(&identity), identity.event_left_out()), (None, None));
    }

    #[test]
    fn an_expression_that_cannot_be_used_is_an_error_of_the_setting() {
        for wrong in ["", " ", "a."] {
            let settings = shared::settings(|it| it.store_event = Some(wrong.into()));
            let error = CompiledOperation::new("a", &settings, &Variables::default()).unwrap_err();
            assert!(error.to_string().contains("store_event"), "{error}");
        }
    }
}
