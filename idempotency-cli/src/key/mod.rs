//! `idempotency key`: prints the key of one event, or of one event per line.

mod lines;
mod query;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use idempotency_core::config::Variables;

use crate::arguments::KeyArguments;
use crate::exit::{Exit, Failure};
use crate::json;
use query::{KeyResult, Query};

/// The longest event and the longest line, in bytes: Lambda accepts events of 6 MB, and escaping can double their size.
const MAX_BYTES: usize = 16 << 20;

pub(crate) fn run(arguments: &KeyArguments, variables: &Variables) -> Result<Exit, Failure> {
    let query = Query::new(arguments, variables)?;
    let mut output = BufWriter::new(io::stdout().lock());
    if arguments.jsonl {
        lines::print_keys(io::stdin().lock(), &mut output, &query, MAX_BYTES)?;
        return Ok(Exit::Done);
    }
    let event = event(arguments.file.as_deref())?;
    let result = query.run(&event.into());
    if arguments.json {
        json::write(&mut output, &result.to_json()).map_err(Failure::output)?;
        return Ok(result.exit());
    }
    match result {
        KeyResult::Key {
            key,
            text,
            validation,
            missing,
        } => {
            let mut lines = format!("{key}\n");
            if let Some(validation) = validation {
                lines += &format!("validation  {validation}\n");
            }
            for part in missing {
                lines += &format!("missing     {part}\n");
            }
            if arguments.explain {
                lines += &format!("text        {text}\n");
            }
            let written = output.write_all(lines.as_bytes());
            written
                .and_then(|()| output.flush())
                .map_err(Failure::output)?;
            Ok(Exit::Done)
        }
        KeyResult::NoKey => Err(Failure::new(
            Exit::NoKey,
            "the event has no key: the expression finds null, nothing, or only nulls",
        )),
        KeyResult::Error(message) => Err(Failure::new(Exit::Failed, message)),
    }
}

/// Reads the text of the event.
fn event(file: Option<&Path>) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    // One byte more than the limit shows that the event is too long.
    let limit = MAX_BYTES as u64 + 1;
    let (name, read) = match file.filter(|file| file.as_os_str() != "-") {
        None => {
            let read = io::stdin().lock().take(limit).read_to_end(&mut bytes);
            ("standard input".to_owned(), read)
        }
        Some(file) => {
            let read = File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes));
            (format!("`{}`", file.display()), read)
        }
    };
    read.map_err(|error| Failure::io(&format!("{name} cannot be read"), &error))?;
    if bytes.len() > MAX_BYTES {
        let message =
            format!("{name} has more than {MAX_BYTES} bytes, which is too large for an event");
        return Err(Failure::new(Exit::Failed, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(
            Exit::Failed,
            format_args!("{name} is not UTF-8 at byte {at}"),
        )
    })
}
