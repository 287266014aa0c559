//! The fingerprint of a request: what must be equal in a duplicate.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use idempotency_core::key::{Expression, HashAlgorithm, JsonPointer};
use serde_json::json;

use super::Target;
use crate::received::ReceivedRequest;

/// What the fingerprint is.
#[derive(Clone, Debug)]
pub(super) enum FingerprintRule {
    /// Method, path, query and body, and a part of the event if there is one.
    Request(Option<Expression>),
    /// Method, path and a part of the event.
    Part(Expression),
    /// Method, path and body. A body of JSON is compared as RFC 8785 does, without these members.
    Rfc8785(Vec<JsonPointer>),
    /// There is none.
    None,
}

impl FingerprintRule {
    /// Returns the part of the event that the fingerprint has, and the name of its setting.
    pub(super) fn part(&self) -> Option<(&'static str, &Expression)> {
        match self {
            Self::Request(part) => Some(("fingerprint_also", part.as_ref()?)),
            Self::Part(part) => Some(("fingerprint", part)),
            Self::Rfc8785(_) | Self::None => None,
        }
    }

    /// Returns the fingerprint of a request as a JSON text. `part` is the JSON text of its part of the event.
    pub(super) fn of(
        &self,
        request: &ReceivedRequest<'_>,
        target: &Target<'_>,
        part: Option<String>,
        memory_limit: usize,
    ) -> Option<String> {
        let whole = match self {
            Self::Request(_) => of_request(request.parts, target, request.body, memory_limit),
            // As `[requestContext.http.method, rawPath, part]` selects them in a function.
            Self::Part(_) => json!([request.parts.method.as_str(), target.path]).to_string(),
            Self::Rfc8785(without) => {
                let hex = |text: &str| HASH.hex_of_rfc8785(text, without, memory_limit);
                let (form, digest) = digest(request.parts, request.body, ("rfc8785", hex));
                json!([request.parts.method.as_str(), target.path, form, digest]).to_string()
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
/// hashed as bytes, and so is JSON that cannot be read, that takes more memory than `memory_limit`, or that has two members of one name:
/// one program takes the first, another the last.
fn of_request(parts: &Parts, target: &Target<'_>, body: &[u8], memory_limit: usize) -> String {
    let hex = |text: &str| HASH.hex_of_distinct_json(text, memory_limit);
    let (form, digest) = digest(parts, body, ("json", hex));
    let query = sorted(&target.query);
    let method = parts.method.as_str();
    json!([method, target.path, query, form, digest]).to_string()
}

/// SHA-256 for every `hash`: two bodies with one MD5 digest are easy to make.
const HASH: HashAlgorithm = HashAlgorithm::Sha256;

/// Returns the form in which a body is hashed, and its digest. `form` and `hex` are those of JSON.
fn digest<'f>(
    parts: &Parts,
    body: &[u8],
    (form, hex): (&'f str, impl Fn(&str) -> Option<String>),
) -> (&'f str, String) {
    let json = Some(body)
        .filter(|_| is_json(parts))
        .and_then(|body| std::str::from_utf8(body).ok())
        .and_then(hex);
    match json {
        Some(digest) => (form, digest),
        None => ("bytes", HASH.hex_of_bytes(body)),
    }
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
mod tests {
    use std::collections::BTreeMap;

    use http::Request;
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 32 * 1024 * 1024;

    fn parts(content_type: &str) -> Parts {
        let request = Request::post("/pay").header(CONTENT_TYPE, content_type);
        request.body(()).unwrap().into_parts().0
    }

    fn fingerprint(parts: &Parts, body: &[u8], limit: usize) -> String {
        of_request(parts, &Target::of_uri(&parts.uri), body, limit)
    }

    #[test]
    fn json_is_compared_by_its_value_and_other_bodies_by_their_bytes() {
        let of = |content_type: &str, body: &[u8]| fingerprint(&parts(content_type), body, LIMIT);
        let json = |body: &str| of("application/json", body.as_bytes());
        assert_eq!(json(r#"{"a":1,"b":[2]}"#), json(r#"{ "b": [2], "a": 1 }"#));
        assert_eq!(json(r#"{"a":null}"#), json(r#"{ "\u0061": null }"#));
        // Every digit counts. What cannot be read is compared by its bytes.
        for (one, other) in [
            (r#"{"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, r#"{"a":1.0}"#),
            ("12345678901234567890123", "12345678901234567890124"),
            ("[12345678901234567.89]", "[12345678901234567.90]"),
            ("{\"a\":", "{\"a\": "),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":3,"a":2}"#),
            (r#"{"a":1,"\u0061":2}"#, r#"{"a":2}"#),
            (r#"[{"b":{"a":null,"a":null}}]"#, r#"[{"b":{"a":null}}]"#),
        ] {
            assert_eq!(json(one), json(one), "{one}");
            assert_ne!(json(one), json(other), "{one} {other}");
        }
        for (content_type, one, other) in [
            ("text/plain", &b"[1, 2]"[..], &b"[1,2]"[..]),
            ("image/png", b"\xff\x00", b"\xff\x01"),
            ("application/json", b"\xff", b"\xfe"),
        ] {
            assert_eq!(of(content_type, one), of(content_type, one));
            assert_ne!(of(content_type, one), of(content_type, other));
        }
    }

    #[test]
    fn the_content_types_of_json_are_known() {
        for (content_type, is) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("Application/JSON", true),
            ("application/merge-patch+json", true),
            ("text/plain", false),
            ("application/jsonl", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            assert_eq!(is_json(&parts(content_type)), is, "{content_type}");
        }
        assert!(!is_json(&Request::new(()).into_parts().0));
    }

    #[test]
    fn json_that_takes_too_much_memory_is_compared_by_its_bytes() {
        let parts = parts("application/json");
        let large = format!("[{}1]", "1,".repeat(10_000));
        let spaced = large.replace(',', ", ");
        let of_limit = |body: &str, limit| fingerprint(&parts, body.as_bytes(), limit);
        assert_eq!(of_limit(&large, LIMIT), of_limit(&spaced, LIMIT));
        assert_ne!(of_limit(&large, 1024), of_limit(&spaced, 1024));
        assert_eq!(of_limit(&large, 1024), of_limit(&large, 1024));
    }

    #[test]
    fn the_order_of_parameters_does_not_matter_except_among_those_of_one_name() {
        for (query, expected) in [
            ("b=2&a=1", "a=1&b=2"),
            ("a=2&b=0&a=1", "a=2&a=1&b=0"),
            ("a=1&a=2", "a=1&a=2"),
            ("&a&&b=&", "a&b="),
        ] {
            assert_eq!(sorted(query), expected);
        }
    }

    proptest! {
        #[test]
        fn requests_have_one_fingerprint_only_if_path_query_and_body_are_the_same(
            requests in prop::array::uniform2(("[/a-b%.\u{a0} ]{0,3}", "[ab1=&+% ]{0,5}", "[ab ]{0,1}")),
        ) {
            let of = |(path, query, body): &(String, String, String)| {
                let target = Target { path: path.into(), query: query.into() };
                of_request(&parts("text/plain"), &target, body.as_bytes(), LIMIT)
            };
            // The parameters of each name, in their order.
            let parameters = |query: &str| {
                let mut all = BTreeMap::<String, Vec<String>>::new();
                for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                    let name = pair.split('=').next().unwrap_or_default();
                    all.entry(name.to_owned()).or_default().push(pair.to_owned());
                }
                all
            };
            let [one, other] = &requests;
            let is_same = (&one.0, &one.2) == (&other.0, &other.2)
                && parameters(&one.1) == parameters(&other.1);
            prop_assert_eq!(of(one) == of(other), is_same);
        }
    }

    #[test]
    fn a_fingerprint_has_a_digest_of_the_body_and_not_the_body() {
        let of = |body: &[u8]| fingerprint(&parts("application/json"), body, LIMIT);
        let fingerprint = of(br#"{"card":"4242"}"#);
        assert!(!fingerprint.contains("4242") && fingerprint.len() < 120);
        let empty = r#"["POST","/pay","","bytes","e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]"#;
        assert_eq!(of(b""), empty);
    }
}
