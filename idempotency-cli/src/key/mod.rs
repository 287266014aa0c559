//! `idempotency key`: prints the key of one event, or of one event per line.

mod settings;

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, Request};
use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::key::{Json, Text};
use idempotency_core::operation::CompiledOperation;
use idempotency_http::{HttpOperation, Reason, ReceivedRequest};
use serde_json::Value;

use crate::arguments::{KeyArguments, checked_prefix};
use crate::exit::{Exit, Failure};
use crate::json;
use crate::terminal::visible;
use settings::{KeyResult, KeySettings, compiled, known_application};

/// The longest event and the longest line, in bytes: Lambda accepts events of 6 MB, and escaping can double their size.
const MAX_BYTES: usize = 16 << 20;

pub(crate) fn print_key(
    arguments: &KeyArguments,
    as_json: bool,
    variables: &Variables,
) -> Result<Exit, Failure> {
    let mut partial = false;
    let result = if arguments.http {
        let settings = HttpKeySettings::new(arguments, variables)?;
        settings.key_of(&read_event(arguments.file.as_deref())?)
    } else {
        let settings = KeySettings::new(arguments, variables)?;
        if arguments.jsonl {
            let mut output = BufWriter::new(io::stdout().lock());
            print_keys(io::stdin().lock(), &mut output, &settings, MAX_BYTES)?;
            return Ok(Exit::Done);
        }
        partial = settings.partial;
        settings.key_of(&read_event(arguments.file.as_deref())?.into())
    };
    let is_refused =
        matches!(&result, KeyResult::Key { missing, .. } if !missing.is_empty() && !partial);
    let mut output = io::stdout().lock();
    if as_json {
        json::write(&mut output, &result.to_json()).map_err(Failure::output)?;
        return Ok(match is_refused {
            true => Exit::NoKey,
            false => result.exit(),
        });
    }
    match result {
        KeyResult::Key { missing, .. } if is_refused => {
            let missing = missing.join("`, `");
            let message = format!(
                "the event has no `{missing}`: the function refuses it, and there is no record; if its `key_required` takes a part \
                 of the key, set IDEMPOTENCY_KEY_REQUIRED=true"
            );
            Err(Failure::new(Exit::NoKey, message))
        }
        KeyResult::Key {
            key,
            text,
            validation,
            missing,
            hints,
        } => {
            let mut more = String::new();
            if let Some(validation) = validation {
                more += &format!("validation  {validation}\n");
            }
            for part in missing {
                more += &format!("missing     {part}\n");
            }
            for hint in hints {
                more += &format!("hint        {}\n", visible(&hint));
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
fn read_event(file: Option<&Path>) -> Result<String, Failure> {
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

/// The longest expression, in bytes. The same limit holds for the other settings, because errors quote them.
const MAX_SETTING_BYTES: usize = 4096;

/// Prints the result of each line before it reads the next one. The result of a bad line is an error. A line of more than `longest`
/// bytes is bad too: the rest of it is skipped, so that memory is bounded.
fn print_keys(
    mut input: impl BufRead,
    output: &mut impl Write,
    defaults: &KeySettings,
    longest: usize,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    let failed = |error| Failure::io("the input cannot be read", &error);
    loop {
        line.clear();
        // One byte more than the limit shows that the line is too long.
        let mut part = input.by_ref().take(longest as u64 + 1);
        let read = part.read_until(b'\n', &mut line).map_err(failed)?;
        let result = if read == 0 {
            return Ok(());
        } else if line.pop_if(|last| *last == b'\n').is_none() && read > longest {
            input.skip_until(b'\n').map_err(failed)?;
            KeyResult::Error(format!("the line has more than {longest} bytes"))
        } else {
            // A panic on one line must not stop the other lines.
            let result = catch_unwind(AssertUnwindSafe(|| key_of_line(&line, defaults)));
            result.unwrap_or_else(|_| {
                KeyResult::Error("internal error on this line: please report it".to_owned())
            })
        };
        json::write(output, &result.to_json()).map_err(Failure::output)?;
    }
}

/// Computes the result of one line.
fn key_of_line(line: &[u8], defaults: &KeySettings) -> KeyResult {
    parse_line(line, defaults).map_or_else(KeyResult::Error, |(event, settings)| {
        settings.key_of(&event)
    })
}

/// Parses a line: its event, and its settings, which replace the defaults. Other members are ignored.
fn parse_line(line: &[u8], defaults: &KeySettings) -> Result<(Text, KeySettings), String> {
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
    let mut settings = defaults.clone();
    if let Some(expression) = text("expression")? {
        settings.expression =
            compiled("expression", &*expression).map_err(|error| error.to_string())?;
    }
    if let Some(prefix) = text("prefix")? {
        settings.prefix = checked_prefix(&prefix).map_err(|error| error.to_string())?;
    }
    if let Some(validate) = text("validate")? {
        settings.validate = compiled("validate", &*validate).map_err(|error| error.to_string())?;
    }
    if let Some(hash) = text("hash")?.filter(|hash| !hash.is_empty()) {
        settings.hash = hash.parse().map_err(|error| format!("`hash`: {error}"))?;
    }
    Ok((event, settings))
}

/// The settings with which the key of an HTTP request is made.
struct HttpKeySettings {
    operation: HttpOperation,
    tenant: Option<String>,
    /// False if only the digest is printed.
    has_prefix: bool,
    /// True if the path is a part of the key.
    needs_path: bool,
}

/// The request inside an event.
struct EventRequest {
    parts: Parts,
    body: Vec<u8>,
    /// True if method, path and query are as the client sent them, so that the fingerprint can be computed.
    is_whole: bool,
}

impl HttpKeySettings {
    /// Creates the settings from the options, and from the variables for options that are not set.
    fn new(arguments: &KeyArguments, variables: &Variables) -> Result<Self, ConfigurationError> {
        let expression = |text: &Option<String>| {
            let text = text.clone().filter(|text| !text.is_empty());
            text.map(Into::into)
        };
        let settings = Settings {
            key: expression(&arguments.expression),
            validate: expression(&arguments.validate),
            key_prefix: arguments.prefix.clone().map(Into::into),
            hash: arguments.hash,
            ..Settings::default()
        };
        if arguments.operation.is_some() && arguments.prefix.is_none() {
            known_application(variables)?;
        }
        let path = arguments.operation.as_deref().unwrap_or("operation");
        let mut rules = HttpOperation::builder(path)
            .settings(settings)
            .key_required(true)
            .variables(variables.clone());
        if let Some(header) = &arguments.key_header {
            rules = rules.key_header(header);
        }
        if let Some(expression) = &arguments.caller {
            rules = rules.caller(expression);
        }
        if let Some(header) = &arguments.caller_header {
            rules = rules.caller_header(header);
        }
        if let Some(caller) = arguments.caller_value.clone() {
            rules = rules.caller_from(move |_| Some(caller.clone()));
        }
        if arguments.shared_by_all_callers {
            rules = rules.shared_by_all_callers();
        }
        rules = rules.key_per_path(arguments.key_per_path);
        Ok(Self {
            needs_path: arguments.key_per_path,
            operation: rules.build_with(|path, settings, variables| {
                CompiledOperation::new(path, settings, variables).map(Arc::new)
            })?,
            tenant: arguments.tenant.clone(),
            has_prefix: arguments.prefix.is_some() || arguments.operation.is_some(),
        })
    }

    /// Computes the key of the request in this event.
    fn key_of(&self, event: &str) -> KeyResult {
        let EventRequest {
            parts,
            body,
            is_whole,
        } = match request(event) {
            Ok(request) => request,
            Err(why) => return KeyResult::Error(format!("`event`: {why}")),
        };
        if self.needs_path && !is_whole {
            let why = "`event`: --key-per-path needs the path that the client sent: an event of payload format 2.0 with \
                       `requestContext.http.method` and `rawPath`";
            return KeyResult::Error(why.to_owned());
        }
        let event = self.operation.event_of_text(event);
        let request = ReceivedRequest::new(&parts, &body).with_event(&event);
        let identity = match self.operation.identity(&request, self.tenant.as_deref()) {
            Ok(identity) => identity,
            Err(problem) => {
                let why = problem.error().to_string();
                return match problem.reason() {
                    Reason::KeyMissing => KeyResult::NoKey(problem.detail().to_owned()),
                    Reason::CallerUnknown => KeyResult::NoKey(why),
                    _ => KeyResult::Error(why),
                };
            }
        };
        let Some(key) = identity.key() else {
            let why = "the protection is switched off: unset IDEMPOTENCY_DISABLED";
            return KeyResult::Error(why.to_owned());
        };
        let digest = key.as_str().rsplit_once('#').map(|(_, digest)| digest);
        let key = digest.filter(|_| !self.has_prefix).unwrap_or(key.as_str());
        let method = &parts.method;
        let is_protected = self.operation.protects(method, &HeaderMap::new());
        let unprotected = format!(
            "{method} is protected only where `methods` lists it: otherwise this request runs each time, and has no record"
        );
        KeyResult::Key {
            key: key.to_owned(),
            text: None,
            validation: identity
                .validation()
                .filter(|_| is_whole)
                .map(str::to_owned),
            missing: Vec::new(),
            hints: (!is_protected).then_some(unprotected).into_iter().collect(),
        }
    }
}

/// What is said of a request of VPC Lattice.
const VPC_LATTICE: &str = "events of VPC Lattice are not supported, so no function has a key of this request: put a load balancer or an API \
    in front of the function";

/// Reads the request in an event of API Gateway, a load balancer or a function URL. All but its headers may be missing.
fn request(event: &str) -> Result<EventRequest, String> {
    let event: Value = serde_json::from_str(event).map_err(|error| error.to_string())?;
    // The forms 2.0 and 1.0 of VPC Lattice. No other source writes these members.
    if event["requestContext"]["serviceNetworkArn"].is_string() || event["raw_path"].is_string() {
        return Err(VPC_LATTICE.to_owned());
    }
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let method = text("/requestContext/http/method");
    // Only payload format 2.0 has path and query as they were sent.
    let uri = text("/rawPath").map(|path| match text("/rawQueryString") {
        None | Some("") => path.to_owned(),
        Some(query) => format!("{path}?{query}"),
    });
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%!$&'()*+,;=:@?".contains(&byte);
    let uri = uri.filter(|uri| uri.starts_with('/') && uri.bytes().all(is_plain));
    let is_whole = method.is_some() && uri.is_some();
    let mut request = Request::builder()
        .method(method.or_else(|| text("/httpMethod")).unwrap_or("POST"))
        .uri(uri.as_deref().unwrap_or("/"));
    let of_all = |values: &Value| values.as_array().cloned().unwrap_or_default();
    let all = headers(&event, "multiValueHeaders", of_all);
    let single = headers(&event, "headers", |value| vec![value.clone()]);
    // For a header that is in both members, only the values in `multiValueHeaders` count.
    let is_in_all = |name: &str| {
        all.iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let single = single.iter().filter(|(name, _)| !is_in_all(name));
    for (name, value) in all.iter().chain(single) {
        request = request.header(name, value);
    }
    let body = text("/body").unwrap_or_default();
    let is_base64 = event["isBase64Encoded"] == true;
    let decoded = is_base64.then(|| STANDARD.decode(body).ok()).flatten();
    let request = request.body(decoded.unwrap_or_else(|| body.as_bytes().to_vec()));
    let (parts, body) = request.map_err(|error| error.to_string())?.into_parts();
    Ok(EventRequest {
        parts,
        body,
        is_whole,
    })
}

/// Returns the headers in a member of the event as pairs of name and text. `values` returns the values of one header.
fn headers(
    event: &Value,
    member: &str,
    values: impl Fn(&Value) -> Vec<Value>,
) -> Vec<(String, String)> {
    let members = event[member].as_object().into_iter().flatten();
    let pairs = members.flat_map(|(name, value)| {
        let texts = values(value).into_iter();
        let texts = texts.filter_map(|value| value.as_str().map(str::to_owned));
        texts.map(|text| (name.clone(), text)).collect::<Vec<_>>()
    });
    pairs.collect()
}
