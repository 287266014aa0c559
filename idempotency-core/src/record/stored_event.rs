//! What a record keeps of the event of its call, and the text in which it is stored.

use std::fmt;
use std::sync::Arc;

use serde::de::IgnoredAny;

/// What a record keeps of the event of its call, under `store_event`: for people. Its `Debug` shows only the length.
///
/// It is stored as a JSON object with one member, which says whether the event is whole: `{"all":EVENT}` or `{"selected":PART}`.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::StoredEvent;
/// let event = StoredEvent::all(r#"{"card":"4242"}"#).unwrap();
/// assert_eq!(event.as_str(), r#"{"card":"4242"}"#);
/// assert_eq!(event.stored(), r#"{"all":{"card":"4242"}}"#);
/// assert_eq!(StoredEvent::from_stored(event.stored()), Some(event));
/// assert!(StoredEvent::all(&"x".repeat(StoredEvent::LONGEST + 1)).is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoredEvent(Arc<String>);

/// What the stored text of a whole event begins with.
const ALL: &str = "{\"all\":";

/// What the stored text of a part begins with.
const SELECTED: &str = "{\"selected\":";

/// What both end with.
const END: &str = "}";

impl StoredEvent {
    fn within(start: &str, text: &str) -> Option<Self> {
        (text.len() <= Self::LONGEST).then(|| Self(Arc::new([start, text, END].concat())))
    }

    /// Returns the event that was stored as this text. `None` if the text is not in that form: another program wrote it.
    pub fn from_stored(stored: &str) -> Option<Self> {
        let event = Self(Arc::new(stored.to_owned()));
        let (_, text) = event.parts()?;
        let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
        (text.len() <= Self::LONGEST && is_json()).then_some(event)
    }

    /// Returns the text that is stored.
    pub fn stored(&self) -> &str {
        &self.0
    }

    /// Returns the JSON text of the event, or of the part of it.
    pub fn as_str(&self) -> &str {
        self.parts().map_or("", |(_, text)| text)
    }

    /// Returns whether the event is whole, and its text.
    fn parts(&self) -> Option<(bool, &str)> {
        let stored = self.stored();
        let all = stored.strip_prefix(ALL).map(|rest| (true, rest));
        let selected = || stored.strip_prefix(SELECTED).map(|rest| (false, rest));
        let (is_whole, rest) = all.or_else(selected)?;
        Some((is_whole, rest.strip_suffix(END)?))
    }
}

#[doc(hidden)]
impl StoredEvent {
    /// The longest text of an event, in bytes: 64 KiB, so that most of a record is left for the response.
    pub const LONGEST: usize = 64 * 1024;

    /// The longest stored text, in bytes.
    pub const LONGEST_STORED: usize = Self::LONGEST + SELECTED.len() + END.len();

    /// Returns a whole event with this JSON text, or `None` if the text is too long.
    pub fn all(text: &str) -> Option<Self> {
        Self::within(ALL, text)
    }

    /// Returns a part of an event with this JSON text, or `None` if the text is too long.
    pub fn selected(text: &str) -> Option<Self> {
        Self::within(SELECTED, text)
    }

    /// Returns true if the event is whole: it can be sent to its function again.
    pub fn is_whole(&self) -> bool {
        self.parts().is_some_and(|(is_whole, _)| is_whole)
    }
}

impl fmt::Debug for StoredEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredEvent({} bytes)", self.as_str().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_this_stored_form_and_reads_back() {
        let text = r#" {"card": "4242"}"#;
        let all = StoredEvent::all(text).unwrap();
        let selected = StoredEvent::selected(text).unwrap();
        assert_eq!(all.stored(), r#"{"all": {"card": "4242"}}"#);
        assert_eq!(selected.stored(), r#"{"selected": {"card": "4242"}}"#);
        for (event, is_whole) in [(all, true), (selected, false)] {
            assert_eq!((event.as_str(), event.is_whole()), (text, is_whole));
            assert_eq!(StoredEvent::from_stored(event.stored()), Some(event));
        }
    }

    #[test]
    fn the_longest_text_is_stored_and_read_and_a_longer_one_is_neither() {
        let longest = format!("\"{}\"", "x".repeat(StoredEvent::LONGEST - 2));
        let stored = StoredEvent::selected(&longest).unwrap();
        assert_eq!(stored.stored().len(), StoredEvent::LONGEST_STORED);
        assert!(StoredEvent::from_stored(stored.stored()).is_some());
        let longer = format!("{longest} ");
        assert_eq!(StoredEvent::all(&longer), None);
        assert_eq!(StoredEvent::selected(&longer), None);
        let stored = format!("{ALL}{longer}{END}");
        assert_eq!(StoredEvent::from_stored(&stored), None);
    }

    #[test]
    fn a_text_of_another_program_is_no_event() {
        for stored in [
            "",
            "7",
            "{\"order_id\":7}",
            "{\"all\":7",
            "{\"all\":}",
            "{\"all\":7}}",
            "{\"all\":7,\"more\":8}",
            "{\"part\":7}",
            "{ \"all\":7}",
        ] {
            assert_eq!(StoredEvent::from_stored(stored), None, "{stored}");
        }
    }

    #[test]
    fn debug_shows_only_the_length() {
        let event = StoredEvent::all(r#"{"card":"4242"}"#).unwrap();
        assert_eq!(format!("{event:?}"), "StoredEvent(15 bytes)");
    }
}
