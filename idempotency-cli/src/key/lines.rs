//! `--jsonl`: reads one query per line and prints one result per line. A bad line does not stop it.

use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use idempotency_core::key::{Json, Text};

use super::query::{KeyResult, Query, checked_prefix, compiled};
use crate::exit::Failure;
use crate::json;

/// The longest expression, in bytes. The same limit holds for the other settings, because errors quote them.
const MAX_SETTING_BYTES: usize = 4096;

/// Prints the result of each line before it reads the next one. A bad line gets an error. A line of more than `longest` bytes
/// is one of them; it is skipped, so that memory is bounded.
pub(super) fn print_keys(
    mut input: impl BufRead,
    output: &mut impl Write,
    defaults: &Query,
    longest: usize,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    loop {
        let read = next(&mut input, &mut line, longest)
            .map_err(|error| Failure::io("the input cannot be read", &error))?;
        let result = match read {
            Line::End => return Ok(()),
            Line::TooLong => KeyResult::Error(format!("the line has more than {longest} bytes")),
            // A panic on one line must not stop the other lines.
            Line::Read => {
                catch_unwind(AssertUnwindSafe(|| one(&line, defaults))).unwrap_or_else(|_| {
                    KeyResult::Error("internal error on this line: please report it".to_owned())
                })
            }
        };
        json::write(output, &result.to_json()).map_err(Failure::output)?;
    }
}

enum Line {
    Read,
    TooLong,
    End,
}

/// Reads one line without its newline. At most `longest` bytes of it are kept.
fn next(input: &mut impl BufRead, line: &mut Vec<u8>, longest: usize) -> io::Result<Line> {
    line.clear();
    let (mut any, mut too_long) = (false, false);
    loop {
        let chunk = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        let newline = chunk.iter().position(|&byte| byte == b'\n');
        let part = &chunk[..newline.unwrap_or(chunk.len())];
        any |= !chunk.is_empty();
        too_long |= line.len() + part.len() > longest;
        if !too_long {
            line.extend_from_slice(part);
        }
        let (end, used) = (
            chunk.is_empty(),
            part.len() + usize::from(newline.is_some()),
        );
        input.consume(used);
        if newline.is_some() || end {
            return Ok(match (any, too_long) {
                (false, _) => Line::End,
                (true, true) => Line::TooLong,
                (true, false) => Line::Read,
            });
        }
    }
}

/// Computes the result of one line.
fn one(line: &[u8], defaults: &Query) -> KeyResult {
    parse(line, defaults).map_or_else(KeyResult::Error, |(event, query)| query.run(&event))
}

/// Parses a line: the event, and the query with the settings of the line. Other members are ignored.
fn parse(line: &[u8], defaults: &Query) -> Result<(Text, Query), String> {
    let line = str::from_utf8(line)
        .map_err(|error| format!("the line is not UTF-8 at byte {}", error.valid_up_to()))?;
    if line.trim().is_empty() {
        return Err("the line is empty".to_owned());
    }
    let line = Json::parse(line).map_err(|error| format!("the line: {error}"))?;
    let Json::Object(mut members) = line else {
        return Err(format!(
            "the line is not an object but of type {}",
            line.type_name()
        ));
    };
    let event = match members.remove(b"event") {
        Some(Json::Str(event)) => event,
        None => return Err("`event` is missing: write the event as JSON text".to_owned()),
        Some(other) => {
            let found = other.type_name();
            return Err(format!(
                "`event` is of type {found}: write the event as JSON text in a string"
            ));
        }
    };
    let mut text = |name: &str| match members.remove(name.as_bytes()) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Str(text)) if text.as_bytes().len() > MAX_SETTING_BYTES => {
            Err(format!("`{name}` has more than {MAX_SETTING_BYTES} bytes"))
        }
        Some(Json::Str(text)) => match text.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(format!("`{name}` contains half of a surrogate pair")),
        },
        Some(other) => Err(format!(
            "`{name}` is of type {}: write a string",
            other.type_name()
        )),
    };
    let mut query = defaults.clone();
    if let Some(expression) = text("expression")? {
        query.expression =
            compiled("expression", &expression).map_err(|error| error.to_string())?;
    }
    if let Some(prefix) = text("prefix")? {
        query.prefix = checked_prefix(&prefix).map_err(|error| error.to_string())?;
    }
    if let Some(validate) = text("validate")? {
        query.validate = compiled("validate", &validate).map_err(|error| error.to_string())?;
    }
    if let Some(hash) = text("hash")?.filter(|hash| !hash.is_empty()) {
        query.hash = hash.parse().map_err(|error| format!("`hash`: {error}"))?;
    }
    Ok((event, query))
}
