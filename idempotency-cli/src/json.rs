//! Output for programs: one JSON object in one line of ASCII.
//!
//! Written by the same code that writes the text of keys, so it needs no writer of its own.

use std::io::{self, Write};

use idempotency_core::key::{Integer, Json};

/// An object of these members, but for those without a value.
pub(crate) fn object<const N: usize>(members: [(&str, Option<Json>); N]) -> Json {
    let members = members.into_iter();
    let members = members.filter_map(|(name, value)| Some((name.into(), value?)));
    Json::Object(members.collect())
}

pub(crate) fn text(text: impl Into<String>) -> Json {
    Json::Str(text.into().into())
}

pub(crate) fn number(number: i64) -> Json {
    Json::Int(Integer::from(number))
}

/// What a program is told of a failure.
pub(crate) fn error(message: &str) -> Json {
    object([("error", Some(text(message)))])
}

/// Writes one line, and does not keep it waiting for the next.
pub(crate) fn write(output: &mut impl Write, json: &Json) -> io::Result<()> {
    writeln!(output, "{}", json.to_canonical())?;
    output.flush()
}
