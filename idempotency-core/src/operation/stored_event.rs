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
pub(super) enum Kept {
    /// This text.
    Event(StoredEvent),
    /// Nothing, and why.
    LeftOut(&'static str),
}

const TOO_LARGE: Kept =
    Kept::LeftOut("the event is not kept in the record: what is kept of it has more than 64 KiB");
const FAILED: Kept = Kept::LeftOut(
    "the event is not kept in the record: the expression of `store_event` failed on it",
);
const NOTHING: Kept = Kept::LeftOut(
    "the event is not kept in the record: the expression of `store_event` finds nothing in it",
);
const NOT_JSON: Kept =
    Kept::LeftOut("the event is not kept in the record: it cannot be written as JSON");

impl Keeps {
    /// Returns what the setting says: `all`, an expression, or nothing.
    pub(super) fn of(setting: Option<&str>) -> Result<Option<Self>, ConfigurationError> {
        match setting {
            Some("all") => Ok(Some(Self::Whole)),
            other => Ok(compile("store_event", other)?.map(Self::Selected)),
        }
    }

    /// Returns what the expression looks at; nothing if there is none.
    pub(super) fn needs(&self) -> Option<&Needs> {
        match self {
            Self::Whole => None,
            Self::Selected(expression) => Some(expression.needs()),
        }
    }

    /// Returns what is kept of a payload that was sent as this text and contains these values.
    pub(super) fn of_text(&self, text: &str, payload: &Json, budget: &mut Budget) -> Kept {
        match self {
            Self::Whole => whole(text),
            Self::Selected(expression) => selected(expression, payload, budget),
        }
    }

    /// Returns what is kept of a payload that is this value, of which `payload` has what the expression looks at.
    pub(super) fn of_value<T: Serialize + ?Sized>(
        &self,
        value: &T,
        payload: &Json,
        budget: &mut Budget,
    ) -> Kept {
        match self {
            Self::Whole => written(value),
            Self::Selected(expression) => selected(expression, payload, budget),
        }
    }
}

/// Returns the text of a whole payload, unless it is too long.
pub(super) fn whole(text: &str) -> Kept {
    StoredEvent::all(text).map_or(TOO_LARGE, Kept::Event)
}

fn selected(expression: &Expression, payload: &Json, budget: &mut Budget) -> Kept {
    match expression.evaluate_within(payload, budget) {
        Ok(Json::Null) => NOTHING,
        Ok(part) => StoredEvent::selected(&part.to_canonical()).map_or(TOO_LARGE, Kept::Event),
        Err(_) => FAILED,
    }
}

/// Returns the value as JSON text, unless that is too long. No more memory is taken than the longest text has.
fn written<T: Serialize + ?Sized>(value: &T) -> Kept {
    let mut text = Bounded(Vec::new());
    match serde_json::to_writer(&mut text, value) {
        Ok(()) => match String::from_utf8(text.0) {
            Ok(text) => whole(&text),
            Err(_) => NOT_JSON,
        },
        Err(error) if error.is_io() => TOO_LARGE,
        Err(_) => NOT_JSON,
    }
}

/// A buffer of at most the longest text.
struct Bounded(Vec<u8>);

impl Write for Bounded {
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
mod tests;
