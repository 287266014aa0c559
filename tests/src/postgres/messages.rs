//! The messages between a client and a server of PostgreSQL.

use crate::proxy::{Frames, SentRequest};

/// How the proxy finds requests and replies: a request is all that the server replies to with one "ready for query".
pub(crate) const FRAMES: Frames = Frames { request, reply };

/// Returns the whole messages at the begin of the bytes: the kind of each, its content and its end.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8], usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        // The first message of a client has no kind. It is short, so its length begins with a zero.
        let kind = *bytes.get(at)?;
        let begin = if kind == 0 { at } else { at + 1 };
        let length = bytes.get(begin..begin + 4)?.try_into().ok()?;
        let end = begin + usize::try_from(u32::from_be_bytes(length)).ok()?;
        let content = bytes.get(begin + 4..end)?;
        at = end;
        Some((kind, content, end))
    })
}

/// Returns the first request, with its SQL or its parameters. That of the start, a password and the end of the session are set-up.
fn request(bytes: &[u8]) -> Option<(Option<SentRequest>, usize)> {
    let mut request = None;
    for (kind, content, end) in messages(bytes) {
        let text = String::from_utf8_lossy(content);
        let command = match kind {
            b'P' => "PARSE",
            b'B' => "BIND",
            b'Q' => text.split([' ', ';', '\0']).next().unwrap_or_default(),
            // Start, password, end of the session; or Sync, at the end of a request.
            0 | b'p' | b'X' | b'S' => return Some((request, end)),
            _ => continue,
        };
        request = Some(SentRequest {
            command: command.to_uppercase(),
            arguments: vec![content.to_vec()],
        });
        if kind == b'Q' {
            return Some((request, end));
        }
    }
    None
}

/// Returns the first reply. It ends where the server waits for the next request, or for a password.
fn reply(bytes: &[u8]) -> Option<(bool, usize)> {
    let mut messages = messages(bytes);
    let end = messages.find_map(|(kind, content, end)| {
        // Zero is the news that the client is authenticated, twelve the end of SASL: the server goes on by itself.
        let waits = kind == b'R' && !matches!(content, [0, 0, 0, 0 | 12, ..]);
        (kind == b'Z' || waits).then_some(end)
    })?;
    Some((true, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len() + 4).unwrap_or_default();
        [kind.as_bytes(), &length.to_be_bytes(), content].concat()
    }

    #[test]
    fn a_request_is_all_that_has_one_reply() {
        let bind = [message("B", b"pay#1"), message("E", b""), message("S", b"")].concat();
        let commit = message("Q", b"COMMIT\0");
        let bytes = [bind.clone(), commit].concat();
        let (sent, end) = request(&bytes).unwrap_or_default();
        assert_eq!(
            (sent.unwrap_or_default().command, end),
            ("BIND".to_owned(), bind.len())
        );
        let (sent, _) = request(&bytes[end..]).unwrap_or_default();
        assert_eq!(sent.unwrap_or_default().command, "COMMIT");
        for end in 0..bind.len() {
            assert_eq!(request(&bytes[..end]), None, "{end}");
        }
        let start = message("", b"\0\x03\0\0user\0postgres\0\0");
        assert_eq!(request(&start), Some((None, start.len())));
    }

    #[test]
    fn a_reply_ends_where_the_server_waits() {
        let row = [message("D", b"1"), message("C", b"SELECT 1\0")].concat();
        assert_eq!(reply(&row), None);
        let whole = [row, message("Z", b"I")].concat();
        assert_eq!(reply(&whole), Some((true, whole.len())));
        let password = message("R", &[0, 0, 0, 10]);
        assert_eq!(reply(&password), Some((true, password.len())));
        let authenticated = [message("R", &[0, 0, 0, 12]), message("R", &[0; 4])].concat();
        assert_eq!(reply(&authenticated), None);
    }
}
