//! The wire: commands, and the replies to them, in version 2 of the protocol of Redis.

use std::io::{Error, ErrorKind, Result};

/// How deep a reply can be nested. That to `CLUSTER SLOTS` has four levels.
const DEEPEST: usize = 9;

/// From so many bytes on, a reply is copied only when it is complete.
pub(crate) const LONG: usize = 16 * 1024;

/// A reply.
#[derive(PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Value {
    Text(Vec<u8>),
    Number(i64),
    List(Vec<Value>),
    /// An error of the server, which begins with its code.
    Error(String),
    Nil,
}

impl Value {
    pub(crate) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn text(self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn number(self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn list(self) -> Option<std::vec::IntoIter<Self>> {
        match self {
            Self::List(values) => Some(values.into_iter()),
            _ => None,
        }
    }
}

/// The last arguments of a command, as they are sent.
pub(crate) struct Arguments {
    count: usize,
    bytes: Vec<u8>,
}

impl Arguments {
    /// Returns none. There is room for those of a usual write.
    pub(crate) fn new() -> Self {
        Self {
            count: 0,
            bytes: Vec::with_capacity(1_024),
        }
    }

    pub(crate) fn push(&mut self, argument: impl AsRef<[u8]>) {
        let argument = argument.as_ref();
        self.count += 1;
        self.bytes.reserve(argument.len() + 32);
        head(b'$', argument.len(), &mut self.bytes);
        self.bytes.extend_from_slice(argument);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// Returns a command of these words.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    command_with(words, &Arguments::new())
}

/// Returns a command of these words and arguments.
pub(crate) fn command_with(words: &[&str], arguments: &Arguments) -> Vec<u8> {
    let length: usize = words.iter().map(|word| word.len() + 32).sum();
    let mut command = Arguments {
        count: 0,
        bytes: Vec::with_capacity(32 + length + arguments.bytes.len()),
    };
    head(b'*', words.len() + arguments.count, &mut command.bytes);
    words.iter().for_each(|word| command.push(word));
    command.bytes.extend_from_slice(&arguments.bytes);
    command.bytes
}

fn head(kind: u8, number: usize, bytes: &mut Vec<u8>) {
    bytes.push(kind);
    digits(number, |digits| bytes.extend_from_slice(digits));
    bytes.extend_from_slice(b"\r\n");
}

/// Passes on the decimal digits of a number. Formatting would take most of the time of a request.
pub(crate) fn digits(mut number: usize, pass: impl FnOnce(&[u8])) {
    let (mut digits, mut first) = ([0; 20], 20);
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return pass(&digits[first..]);
        }
    }
}

/// Takes the first reply from these bytes. `None` if it is not complete.
///
/// # Errors
///
/// If it is no reply. The text does not quote it.
pub(crate) fn take(bytes: &mut Vec<u8>) -> Result<Option<Value>> {
    // A long reply comes in many pieces, and is copied once.
    if bytes.len() > LONG && read(bytes, &mut 0, DEEPEST, false)?.is_none() {
        return Ok(None);
    }
    let mut at = 0;
    let value = read(bytes, &mut at, DEEPEST, true)?;
    if value.is_some() {
        bytes.drain(..at);
    }
    Ok(value)
}

/// Reads a reply, and moves `at` behind it. It has no content unless it is `kept`.
fn read(bytes: &[u8], at: &mut usize, depth: usize, kept: bool) -> Result<Option<Value>> {
    let malformed = || {
        Error::new(
            ErrorKind::InvalidData,
            "the reply is none of Valkey or Redis",
        )
    };
    let rest = bytes.get(*at..).unwrap_or_default();
    if rest.first().is_some_and(|kind| !b"+-:$*".contains(kind)) || depth == 0 {
        return Err(malformed());
    }
    let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let (kind, line) = (rest[0], rest[1..length].trim_ascii_end());
    *at += length + 1;
    let text = |bytes: &[u8]| if kept { bytes.to_vec() } else { Vec::new() };
    let number = || {
        std::str::from_utf8(line)
            .ok()
            .and_then(|it| it.parse().ok())
    };
    Ok(Some(match kind {
        b'+' => Value::Text(text(line)),
        b'-' => Value::Error(String::from_utf8_lossy(&text(line)).into_owned()),
        b':' => Value::Number(number().ok_or_else(malformed)?),
        _ => {
            let length = number().ok_or_else(malformed)?;
            let Ok(length) = usize::try_from(length) else {
                return Ok(Some(Value::Nil));
            };
            if kind == b'$' {
                let begin = *at;
                *at = begin.saturating_add(length).saturating_add(2);
                if bytes.len() < *at {
                    return Ok(None);
                }
                return Ok(Some(Value::Text(text(&bytes[begin..*at - 2]))));
            }
            // A length that is not true reserves little.
            let mut values = Vec::with_capacity(if kept { length.min(64) } else { 0 });
            for _ in 0..length {
                let Some(value) = read(bytes, at, depth - 1, kept)? else {
                    return Ok(None);
                };
                if kept {
                    values.push(value);
                }
            }
            Value::List(values)
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_length_of_each_word() {
        let mut arguments = Arguments::new();
        arguments.push([0, 255]);
        arguments.push("x".repeat(100));
        let command = command_with(&["GET", ""], &arguments);
        let expected = format!("$100\r\n{}\r\n", "x".repeat(100));
        let begin = b"*4\r\n$3\r\nGET\r\n$0\r\n\r\n$2\r\n\x00\xff\r\n";
        assert_eq!(command, [begin, expected.as_bytes()].concat());
    }

    #[test]
    fn a_reply_is_taken_when_it_is_complete_and_what_follows_stays() {
        let text = |text: &str| Value::Text(text.into());
        let bytes = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*1\r\n*0\r\n";
        let list = vec![
            text("OK"),
            Value::Error("ERR no".to_owned()),
            Value::Number(-7),
            text("a\r\n"),
            Value::Nil,
            Value::List(vec![Value::List(Vec::new())]),
        ];
        for length in 0..bytes.len() {
            let mut part = bytes[..length].to_vec();
            assert_eq!(take(&mut part).unwrap(), None, "{length}");
            assert_eq!(part, bytes[..length]);
        }
        let mut two = [bytes, b":1\r".as_slice()].concat();
        assert_eq!(take(&mut two).unwrap(), Some(Value::List(list)));
        assert_eq!(two, b":1\r");
    }

    #[test]
    fn what_is_no_reply_is_an_error_that_quotes_nothing() {
        let deep = "*1\r\n".repeat(100_000);
        for bytes in [
            "HTTP/1.1 400 s3cr3t",
            "\x15\x03\x01",
            ":s3cr3t\r\n",
            "$x\r\n",
            &deep,
        ] {
            let error = take(&mut bytes.as_bytes().to_vec()).err().unwrap();
            assert_eq!(error.to_string(), "the reply is none of Valkey or Redis");
        }
        let long = format!("${}\r\n", u64::MAX >> 1);
        assert_eq!(take(&mut long.into_bytes()).unwrap(), None);
    }
}
