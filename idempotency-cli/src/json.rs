//! JSON output: one object in one line of ASCII.
//!
//! Uses the writer of the canonical text of keys.

use std::io::{self, Write};

use idempotency_core::key::{Integer, Json, Text};

use crate::exit::Failure;
use crate::terminal::Lines;

/// The members of an object.
#[derive(Default)]
pub(crate) struct Object(Vec<(Text, Json)>);

/// Returns an object without members.
pub(crate) fn object() -> Object {
    Object::default()
}

impl Object {
    /// Adds a member, if it has a value.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Option<Json>>) -> Self {
        let member = value.into().map(|value| (name.into(), value));
        self.0.extend(member);
        self
    }

    pub(crate) fn text(self, name: &str, value: impl Into<String>) -> Self {
        self.with(name, text(value))
    }

    pub(crate) fn bool(self, name: &str, value: bool) -> Self {
        self.with(name, Json::Bool(value))
    }

    /// Adds a whole number.
    pub(crate) fn count(self, name: &str, value: impl TryInto<i64>) -> Self {
        self.with(name, number(value))
    }

    pub(crate) fn float(self, name: &str, value: f64) -> Self {
        self.with(name, float(value))
    }

    pub(crate) fn array(self, name: &str, values: impl IntoIterator<Item = Json>) -> Self {
        self.with(name, Json::Array(values.into_iter().collect()))
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object.0.into_iter().collect())
    }
}

/// Returns a JSON string.
pub(crate) fn text(text: impl Into<String>) -> Json {
    Json::Str(text.into().into())
}

/// Returns a whole number in JSON. A number that does not fit becomes `i64::MAX`.
pub(crate) fn number(number: impl TryInto<i64>) -> Json {
    Json::Int(Integer::from(number.try_into().unwrap_or(i64::MAX)))
}

pub(crate) fn float(number: f64) -> Json {
    Json::Float(number.into())
}

/// Returns the JSON form of an error.
pub(crate) fn error(message: &str) -> Json {
    object().text("error", message).into()
}

/// Prints a result to the standard output: as JSON with a newline, or as `text`, which ends with a newline itself.
pub(crate) fn print(
    as_json: bool,
    json: impl FnOnce() -> Object,
    text: impl Into<Lines>,
) -> Result<(), Failure> {
    let written = if as_json {
        write(&mut io::stdout().lock(), &json().into())
    } else {
        text.into().print()
    };
    written.map_err(Failure::output)
}

/// Writes one line and flushes it.
pub(crate) fn write(output: &mut impl Write, json: &Json) -> io::Result<()> {
    writeln!(output, "{}", json.to_canonical())?;
    output.flush()
}
