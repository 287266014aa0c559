//! JSON output: one object in one line of ASCII.
//!
//! Uses the writer of the canonical text of keys.

use std::fmt;
use std::io::{self, Write};

use idempotency_core::key::{Integer, Json};

use crate::exit::Failure;

/// Returns an object of these members; omits those without a value.
pub(crate) fn object<const N: usize>(members: [(&str, Option<Json>); N]) -> Json {
    let members = members.into_iter();
    let members = members.filter_map(|(name, value)| Some((name.into(), value?)));
    Json::Object(members.collect())
}

/// Returns a JSON string.
pub(crate) fn text(text: impl Into<String>) -> Json {
    Json::Str(text.into().into())
}

/// Returns a JSON number.
pub(crate) fn number(number: i64) -> Json {
    Json::Int(Integer::from(number))
}

/// Returns the JSON form of an error.
pub(crate) fn error(message: &str) -> Json {
    object([("error", Some(text(message)))])
}

/// Prints a result to the standard output: as JSON, or as text.
pub(crate) fn print(
    as_json: bool,
    json: impl FnOnce() -> Json,
    text: impl fmt::Display,
) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let written = if as_json {
        write(&mut output, &json())
    } else {
        write!(output, "{text}").and_then(|()| output.flush())
    };
    written.map_err(Failure::output)
}

/// Writes one line and flushes it.
pub(crate) fn write(output: &mut impl Write, json: &Json) -> io::Result<()> {
    writeln!(output, "{}", json.to_canonical())?;
    output.flush()
}
