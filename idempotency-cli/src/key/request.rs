//! The key of an HTTP request inside an event, as `idempotency-http` computes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http::request::Parts;
use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_http::{HttpOperation, Reason, ReceivedRequest};
use serde_json::Value;

use super::query::KeyResult;
use crate::arguments::KeyArguments;

/// The rules of an HTTP operation.
pub(super) struct RequestQuery {
    operation: HttpOperation,
    tenant: Option<String>,
    /// False if only the digest is printed.
    has_prefix: bool,
}

/// The request inside an event.
struct EventRequest {
    parts: Parts,
    body: Vec<u8>,
    /// True if method, path and query are as the client sent them, so that the fingerprint can be computed.
    is_whole: bool,
}

impl RequestQuery {
    /// Creates the query from the options, and from the variables for options that are not set.
    pub(super) fn new(
        arguments: &KeyArguments,
        variables: &Variables,
    ) -> Result<Self, ConfigurationError> {
        let expression = |text: &str| (!text.is_empty()).then(|| text.to_owned().into());
        let settings = Settings {
            key: expression(&arguments.expression),
            validate: expression(&arguments.validate),
            key_prefix: arguments.prefix.clone().map(Into::into),
            hash: arguments.hash,
            ..Settings::default()
        };
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
        Ok(Self {
            operation: rules.build()?,
            tenant: arguments.tenant.clone(),
            has_prefix: arguments.prefix.is_some() || arguments.operation.is_some(),
        })
    }

    /// Computes the key of the request in this event.
    pub(super) fn run(&self, event: &str) -> KeyResult {
        let EventRequest {
            parts,
            body,
            is_whole,
        } = match request(event) {
            Ok(request) => request,
            Err(why) => return KeyResult::Error(format!("`event`: {why}")),
        };
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
        KeyResult::Key {
            key: key.to_owned(),
            text: None,
            validation: identity
                .validation()
                .filter(|_| is_whole)
                .map(str::to_owned),
            missing: Vec::new(),
        }
    }
}

/// Reads the request in an event of API Gateway, a load balancer or a function URL. All but its headers may be missing.
fn request(event: &str) -> Result<EventRequest, String> {
    let event: Value = serde_json::from_str(event).map_err(|error| error.to_string())?;
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
        .method(method.unwrap_or("POST"))
        .uri(uri.as_deref().unwrap_or("/"));
    let of_all = |values: &Value| values.as_array().cloned().unwrap_or_default();
    let all = headers(&event, "multiValueHeaders", of_all);
    let single = headers(&event, "headers", |value| vec![value.clone()]);
    // A header that is in both has the values of the field with all values.
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

/// Returns the headers in a member of the event, each with its text.
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
