//! `idempotency key`: prints the key of one event, or of one event per line.

mod lines;
mod query;
mod request;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use idempotency_core::config::Variables;

use crate::arguments::KeyArguments;
use crate::exit::{Exit, Failure};
use crate::json;
use query::{KeyResult, Query};
use request::RequestQuery;

/// The longest event and the longest line, in bytes: Lambda accepts events of 6 MB, and escaping can double their size.
const MAX_BYTES: usize = 16 << 20;

pub(crate) fn print_key(arguments: &KeyArguments, variables: &Variables) -> Result<Exit, Failure> {
    let result = if arguments.http {
        let query = RequestQuery::new(arguments, variables)?;
        query.run(&event(arguments.file.as_deref())?)
    } else {
        let query = Query::new(arguments, variables)?;
        if arguments.jsonl {
            let mut output = BufWriter::new(io::stdout().lock());
            lines::print_keys(io::stdin().lock(), &mut output, &query, MAX_BYTES)?;
            return Ok(Exit::Done);
        }
        query.run(&event(arguments.file.as_deref())?.into())
    };
    let mut output = io::stdout().lock();
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
            let mut more = String::new();
            if let Some(validation) = validation {
                more += &format!("validation  {validation}\n");
            }
            for part in missing {
                more += &format!("missing     {part}\n");
            }
            if let Some(text) = text.filter(|_| arguments.explain) {
                more += &format!("text        {text}\n");
            }
            let written = writeln!(output, "{key}").and_then(|()| output.flush());
            written.map_err(Failure::output)?;
            // The output is the key alone, for another command.
            let written = io::stderr().write_all(more.as_bytes());
            written.map_err(Failure::output)?;
            Ok(Exit::Done)
        }
        KeyResult::NoKey(why) => Err(Failure::new(Exit::NoKey, why)),
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
