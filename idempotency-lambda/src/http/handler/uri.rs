//! The URI of the request inside an event.

use std::fmt::Write;

use http::Uri;

/// Returns the URI of a path and a query, as the event has them.
///
/// An event can have them decoded. Bytes that a URI cannot have are encoded.
pub(super) fn uri(path: &str, query: &str) -> Uri {
    let mut text = String::with_capacity(path.len() + query.len() + 2);
    if !path.starts_with('/') {
        text.push('/');
    }
    push(&mut text, path, b"?#");
    if !query.is_empty() {
        text.push('?');
        push(&mut text, query, b"#");
    }
    // A URI is too long from 65,535 bytes on. An event cannot have such a path: API Gateway and ALB refuse it.
    text.parse().unwrap_or_default()
}

/// Adds a text, and encodes the bytes that a URI cannot have here.
fn push(to: &mut String, text: &str, reserved: &[u8]) {
    for &byte in text.as_bytes() {
        let is_plain = byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
        if is_plain && !reserved.contains(&byte) {
            to.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(to, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_query_are_kept_as_they_are() {
        let uri = uri("/orders/7%2F8;a=(b)", "a=1&b=%20x+y");
        assert_eq!(uri, "/orders/7%2F8;a=(b)?a=1&b=%20x+y");
    }

    #[test]
    fn bytes_that_a_uri_cannot_have_are_encoded() {
        assert_eq!(
            uri("/a b/ü?#", "c=\"d\" e"),
            "/a%20b/%C3%BC%3F%23?c=%22d%22%20e"
        );
        assert_eq!(uri("", ""), "/");
    }

    #[test]
    fn two_paths_never_become_one() {
        assert_ne!(uri("/a?b", ""), uri("/a", "b"));
    }
}
