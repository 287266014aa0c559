//! The protocol between a client and a server of Valkey or Redis, in its versions 2 and 3.

use crate::proxy::{Frames, SentRequest};

/// How the proxy finds requests and replies.
pub(crate) const FRAMES: Frames = Frames {
    request: |bytes| {
        let (request, length) = parse(bytes)?;
        let mut words = request.elements().iter().map(|word| match word {
            Reply::Text(text) => text.clone(),
            _ => Vec::new(),
        });
        let command = words.next().unwrap_or_default();
        let request = SentRequest {
            command: String::from_utf8_lossy(&command).to_uppercase(),
            arguments: words.collect(),
        };
        let is_set_up = SET_UP.contains(&request.command.as_str());
        Some(((!is_set_up).then_some(request), length))
    },
    reply: |bytes| {
        let (reply, length) = parse(bytes)?;
        Some((!matches!(reply, Reply::Push(_)), length))
    },
};

/// The commands that are about the connection or the server, and about no record.
const SET_UP: [&str; 12] = [
    "AUTH", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "HELLO", "INFO", "PING", "READONLY", "ROLE",
    "SCRIPT", "SELECT",
];

/// A reply, or a request: that is an array of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A text, a number or a truth value.
    Text(Vec<u8>),
    /// An error, with its code at the begin.
    Error(String),
    /// No value.
    Null,
    /// A list. Of a map: each key before its value.
    Array(Vec<Reply>),
    /// A message that answers no request.
    Push(Vec<Reply>),
}

impl Reply {
    /// Returns the text, or an empty one if it is none.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Error(text) => text.clone(),
            _ => String::new(),
        }
    }

    /// Returns the bytes of a text, or none.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the elements of a list, or none.
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Array(elements) | Self::Push(elements) => elements,
            _ => &[],
        }
    }
}

/// Returns the first value of the bytes and its length, or `None` if its end is missing.
pub fn parse(bytes: &[u8]) -> Option<(Reply, usize)> {
    let line_end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (kind, line) = bytes[..line_end].split_first()?;
    let begin = line_end + 2;
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let length = || usize::try_from(number()?).ok();
    match kind {
        b'$' | b'*' if number() == Some(-1) => Some((Reply::Null, begin)),
        b'_' => Some((Reply::Null, begin)),
        b'-' => Some((
            Reply::Error(String::from_utf8_lossy(line).into_owned()),
            begin,
        )),
        b'$' | b'=' => {
            let end = begin + length()?;
            let text = bytes.get(begin..end)?.to_vec();
            (bytes.len() >= end + 2).then_some((Reply::Text(text), end + 2))
        }
        b'!' => {
            let end = begin + length()?;
            let text = String::from_utf8_lossy(bytes.get(begin..end)?).into_owned();
            (bytes.len() >= end + 2).then_some((Reply::Error(text), end + 2))
        }
        b'*' | b'~' => list(bytes, begin, length()?).map(|(list, end)| (Reply::Array(list), end)),
        b'%' => list(bytes, begin, 2 * length()?).map(|(list, end)| (Reply::Array(list), end)),
        b'>' => list(bytes, begin, length()?).map(|(list, end)| (Reply::Push(list), end)),
        _ => Some((Reply::Text(line.to_vec()), begin)),
    }
}

fn list(bytes: &[u8], mut at: usize, length: usize) -> Option<(Vec<Reply>, usize)> {
    let mut list = Vec::new();
    for _ in 0..length {
        let (element, used) = parse(bytes.get(at..)?)?;
        list.push(element);
        at += used;
    }
    Some((list, at))
}

/// Returns the bytes of a request.
pub(super) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_its_end_is_none() {
        let whole = request(&[b"SET", b"key", b"a\r\nvalue"]);
        let text = |text: &[u8]| Reply::Text(text.to_vec());
        let array = Reply::Array(vec![text(b"SET"), text(b"key"), text(b"a\r\nvalue")]);
        assert_eq!(parse(&whole), Some((array, whole.len())));
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn values_of_both_versions_are_read() {
        let text = |text: &str| Reply::Text(text.into());
        let error = Reply::Error("ERR no".to_owned());
        for (bytes, value) in [
            ("+OK\r\n", text("OK")),
            (":7\r\n", text("7")),
            ("-ERR no\r\n", error.clone()),
            ("!6\r\nERR no\r\n", error),
            ("$-1\r\n", Reply::Null),
            ("_\r\n", Reply::Null),
            (
                "%1\r\n+a\r\n#t\r\n",
                Reply::Array(vec![text("a"), text("t")]),
            ),
            (">1\r\n+a\r\n", Reply::Push(vec![text("a")])),
        ] {
            assert_eq!(parse(bytes.as_bytes()), Some((value, bytes.len())));
        }
    }
}
