//! An HTTP request, before it is written in the form of one source.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::value::json_text;
use super::{CLIENT_IP, ids};

/// A request of a client.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Body>,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Text(String),
    Bytes(Vec<u8>),
}

impl Request {
    /// Starts a request. The path may have a query.
    pub(super) fn new(method: String, path: String) -> Self {
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path.to_owned(), query),
            None => (path.clone(), ""),
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decode(name), decode(value)))
            .collect();
        Self {
            method,
            path,
            query,
            headers: Vec::new(),
            body: None,
        }
    }

    pub(super) fn set_json<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.body = Some(Body::Text(json_text(value)));
        if !self.has_header("content-type") {
            let header = ("Content-Type".to_owned(), "application/json".to_owned());
            self.headers.push(header);
        }
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// Returns the body as the event has it, and whether it is base64.
    pub(super) fn body(&self) -> (Option<String>, bool) {
        match &self.body {
            None => (None, false),
            Some(Body::Text(text)) => (Some(text.clone()), false),
            Some(Body::Bytes(bytes)) => (Some(STANDARD.encode(bytes)), true),
        }
    }

    /// Returns the headers with the names that the client sent, and those that every event has.
    ///
    /// Values of one name are together, in the order in which they were added.
    pub(super) fn headers(&self, host: &str) -> Vec<(String, Vec<String>)> {
        let mut headers: Vec<(String, Vec<String>)> = Vec::new();
        let given = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let length = self.body_length();
        let trace = format!("Root=1-67f64901-{}", &ids::hex32(&[&self.path])[..24]);
        let added = [
            ("Accept", "*/*"),
            ("Content-Length", &*length),
            ("Host", host),
            ("User-Agent", "shop-checkout/1.4"),
            ("X-Amzn-Trace-Id", &*trace),
            ("X-Forwarded-For", CLIENT_IP),
            ("X-Forwarded-Port", "443"),
            ("X-Forwarded-Proto", "https"),
        ];
        let added = added
            .into_iter()
            .filter(|(name, value)| !self.has_header(name) && !value.is_empty());
        for (name, value) in given.chain(added) {
            let same = |(other, _): &&mut (String, Vec<String>)| other.eq_ignore_ascii_case(name);
            match headers.iter_mut().find(same) {
                Some((_, values)) => values.push(value.to_owned()),
                None => headers.push((name.to_owned(), vec![value.to_owned()])),
            }
        }
        headers
    }

    /// Returns the length of the body in bytes, or an empty text if there is none.
    fn body_length(&self) -> String {
        match &self.body {
            None => String::new(),
            Some(Body::Text(text)) => text.len().to_string(),
            Some(Body::Bytes(bytes)) => bytes.len().to_string(),
        }
    }

    /// Returns the value of a header, or an empty text.
    pub(super) fn header(&self, host: &str, name: &str) -> String {
        let headers = self.headers(host);
        let found = headers
            .into_iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or_else(String::new, |(_, values)| values.join(","))
    }

    /// Returns the fields `headers` and `cookies` of payload format 2.0: names in lower case, values joined by commas,
    /// cookies in a list of their own.
    pub(super) fn headers_and_cookies(&self, host: &str) -> (Value, Option<Value>) {
        let mut fields = Map::new();
        let mut cookies = None;
        for (name, values) in self.headers(host) {
            let name = name.to_ascii_lowercase();
            if name == "cookie" {
                let list = values.iter().flat_map(|value| value.split("; "));
                cookies = Some(list.collect());
            } else {
                fields.insert(name, Value::String(values.join(",")));
            }
        }
        (Value::Object(fields), cookies)
    }

    /// Returns the query of payload format 2.0: decoded, values of one name joined by commas. `null` without a query.
    pub(super) fn joined_query(&self) -> Value {
        let pairs = self.query_lists();
        super::value::object_or_null(pairs.into_iter().map(|(name, list)| (name, list.join(","))))
    }

    /// Returns the values of each name of the query.
    pub(super) fn query_lists(&self) -> Vec<(String, Vec<String>)> {
        let mut lists: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in &self.query {
            match lists.iter_mut().find(|(other, _)| other == name) {
                Some((_, values)) => values.push(value.clone()),
                None => lists.push((name.clone(), vec![value.clone()])),
            }
        }
        lists
    }

    /// Returns the query as it is in the URL.
    pub(super) fn raw_query(&self) -> String {
        let pairs = self.query.iter();
        let pairs = pairs.map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Returns the field `requestContext.http` of payload format 2.0.
    pub(super) fn http_context(&self, host: &str, path: &str) -> Value {
        json!({
            "method": self.method,
            "path": path,
            "protocol": "HTTP/1.1",
            "sourceIp": CLIENT_IP,
            "userAgent": self.header(host, "user-agent"),
        })
    }
}

/// Encodes a text for a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// Decodes a part of a query. A `%` without two digits stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            (other, _) => {
                bytes.push(other);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_encoded_again() {
        let request = Request::new("GET".to_owned(), "/a?x=1+%C3%A9&y&x=%".to_owned());
        assert_eq!(request.path, "/a");
        assert_eq!(request.raw_query(), "x=1%20%C3%A9&y=&x=%25");
        assert_eq!(request.joined_query(), json!({"x": "1 é,%", "y": ""}));
    }
}
