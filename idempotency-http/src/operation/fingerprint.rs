//! The fingerprint of a request: what must be equal in a duplicate.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use idempotency_core::key::{Expression, HashAlgorithm};
use serde_json::json;

use crate::received::ReceivedRequest;

/// What the fingerprint is.
#[derive(Clone, Debug)]
pub(super) enum FingerprintRule {
    /// Method, path, query and body, and a part of the event if there is one.
    Request(Option<Expression>),
    /// Method, path and a part of the event.
    Part(Expression),
    /// There is none.
    None,
}

impl FingerprintRule {
    /// Returns the part of the event that the fingerprint has, and the name of its setting.
    pub(super) fn part(&self) -> Option<(&'static str, &Expression)> {
        match self {
            Self::Request(part) => Some(("fingerprint_also", part.as_ref()?)),
            Self::Part(part) => Some(("fingerprint", part)),
            Self::None => None,
        }
    }

    /// Returns the fingerprint of a request as a JSON text. `part` is the JSON text of its part of the event.
    pub(super) fn of(
        &self,
        request: &ReceivedRequest<'_>,
        part: Option<String>,
        memory_limit: usize,
    ) -> Option<String> {
        let whole = match self {
            Self::Request(_) => of_request(request.parts, request.body, memory_limit),
            // As `[requestContext.http.method, rawPath, part]` selects them in a function.
            Self::Part(_) => {
                let parts = request.parts;
                json!([parts.method.as_str(), parts.uri.path()]).to_string()
            }
            Self::None => return None,
        };
        Some(match part {
            Some(part) => format!("{},{part}]", whole.strip_suffix(']')?),
            None => whole,
        })
    }
}

/// Returns the fingerprint of a request: a JSON list of its method, path, query and a digest of its body.
///
/// A body of JSON is hashed in its canonical form, so white space and the order of members do not matter. Any other body is
/// hashed as bytes, and so is JSON that cannot be read or takes more memory than `memory_limit`.
fn of_request(parts: &Parts, body: &[u8], memory_limit: usize) -> String {
    // SHA-256 for every `hash`: two bodies with one MD5 digest are easy to make.
    const HASH: HashAlgorithm = HashAlgorithm::Sha256;
    let json = Some(body)
        .filter(|_| is_json(parts))
        .and_then(|body| std::str::from_utf8(body).ok())
        .and_then(|text| HASH.hex_of_json(text, memory_limit));
    let (form, digest) = match json {
        Some(digest) => ("json", digest),
        None => ("bytes", HASH.hex_of_bytes(body)),
    };
    let query = sorted(parts.uri.query().unwrap_or_default());
    let method = parts.method.as_str();
    json!([method, parts.uri.path(), query, form, digest]).to_string()
}

/// Returns true if the content type is JSON: `application/json`, or one that ends in `+json`.
fn is_json(parts: &Parts) -> bool {
    let value = parts.headers.get(CONTENT_TYPE);
    let Some(value) = value.and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// Returns the query with its parameters sorted by name. Values of one name keep their order.
///
/// A gateway may hand the parameters over as a map, in another order for each request.
fn sorted(query: &str) -> String {
    let mut pairs: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_by_key(|pair| pair.split('=').next());
    pairs.join("&")
}

#[cfg(test)]
mod tests;
