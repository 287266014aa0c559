//! The functions that unwrap a part of an event: base64 and gzip, read as Python's standard library reads them.

use flate2::{Crc, Decompress, FlushDecompress, Status};
use idempotency_expression::Function;

use super::error::EvaluationError;
use crate::key::{Budget, Exhausted, Text};

/// The reason why a text cannot be unwrapped.
#[derive(Debug, PartialEq)]
enum Refusal {
    Unreadable(&'static str),
    Exhausted(Exhausted),
}

impl From<&'static str> for Refusal {
    fn from(reason: &'static str) -> Self {
        Self::Unreadable(reason)
    }
}

impl From<Exhausted> for Refusal {
    fn from(what: Exhausted) -> Self {
        Self::Exhausted(what)
    }
}

impl Refusal {
    /// Returns the error of this function.
    fn of(self, function: Function) -> EvaluationError {
        match self {
            Self::Unreadable(reason) => EvaluationError::failed(function, reason),
            Self::Exhausted(what) => what.into(),
        }
    }
}

/// Evaluates `powertools_base64`.
pub(super) fn base64(text: &Text, budget: &mut Budget) -> Result<Text, EvaluationError> {
    let decoded = decode(text, budget).and_then(|bytes| utf8(bytes, budget));
    decoded.map_err(|refusal| refusal.of(Function::PowertoolsBase64))
}

/// Returns true if the text is base64 of a text that begins like a JSON object, array or string. Only the beginning is
/// decoded.
pub(super) fn wraps_json(text: &Text) -> bool {
    const LOOKED_AT: usize = 64;
    let length = text.as_bytes().len().min(LOOKED_AT) / 4 * 4;
    let beginning = Text::from_trusted(text.as_bytes()[..length].to_vec());
    let first = decode(&beginning, &mut Budget::unbounded())
        .ok()
        .and_then(|bytes| {
            let mut bytes = bytes.into_iter();
            bytes.find(|byte| !byte.is_ascii_whitespace())
        });
    matches!(first, Some(b'{' | b'[' | b'"'))
}

/// Evaluates `powertools_base64_gzip`.
pub(super) fn base64_gzip(text: &Text, budget: &mut Budget) -> Result<Text, EvaluationError> {
    let unpacked = decode(text, budget).and_then(|packed| {
        let unpacked = gunzip(&packed, budget)?;
        budget.free(packed.capacity());
        utf8(unpacked, budget)
    });
    unpacked.map_err(|refusal| refusal.of(Function::PowertoolsBase64Gzip))
}

/// Returns the bytes as text. A list with spare room is moved to a block of its length.
fn utf8(bytes: Vec<u8>, budget: &mut Budget) -> Result<Text, Refusal> {
    let (length, capacity) = (bytes.len(), bytes.capacity());
    let text = String::from_utf8(bytes).map_err(|_| "the decoded bytes are not UTF-8")?;
    if length < capacity {
        budget.allocate(length)?;
    }
    let text = Text::from(text);
    if length < capacity {
        budget.free(capacity);
    }
    Ok(text)
}

/// Decodes base64. Skips characters outside the alphabet and stops after complete padding, as Python does by default.
fn decode(text: &Text, budget: &mut Budget) -> Result<Vec<u8>, Refusal> {
    if !text.as_bytes().is_ascii() {
        return Err("the text is not base64: it has characters outside ASCII".into());
    }
    let mut bytes = budget.list(text.as_bytes().len().div_ceil(4) * 3)?;
    let (mut place, mut padding, mut left) = (0_u8, 0_u8, 0_u8);
    for &character in text.as_bytes() {
        let six = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                if place >= 2 {
                    padding += 1;
                    if place + padding >= 4 {
                        return Ok(bytes);
                    }
                }
                continue;
            }
            _ => continue,
        };
        padding = 0;
        match place {
            0 => {}
            1 => bytes.push((left << 2) + (six >> 4)),
            2 => bytes.push((left << 4) + (six >> 2)),
            _ => bytes.push((left << 6) + six),
        }
        left = match place {
            0 => six,
            1 => six & 0x0F,
            2 => six & 0x03,
            _ => 0,
        };
        place = (place + 1) % 4;
    }
    match place {
        0 => Ok(bytes),
        1 => Err("the text is not base64: it has one character too many".into()),
        _ => Err("the text is not base64: its padding is missing".into()),
    }
}

const CUT_SHORT: &str = "the gzip data ends too early";

/// The bytes that unpacking takes besides its result: a chunk, and the window of the format.
const CHUNK: usize = 32 * 1024;
const STATE: usize = CHUNK + 64 * 1024;

/// Unpacks in two passes: the first finds the length, so that the second fills a block of the right size.
fn gunzip(packed: &[u8], budget: &mut Budget) -> Result<Vec<u8>, Refusal> {
    budget.allocate(STATE)?;
    let mut length = 0;
    unpack(packed, |bytes| {
        length += bytes.len();
        budget.work(bytes.len())?;
        if budget.holds(length) {
            Ok(())
        } else {
            Err(Exhausted::Memory)
        }
    })?;
    let mut unpacked = budget.list(length)?;
    unpack(packed, |bytes| {
        unpacked.extend_from_slice(bytes);
        Ok(())
    })?;
    budget.free(STATE);
    Ok(unpacked)
}

/// Unpacks all members, and calls `take` with each chunk. Zero bytes between members are skipped.
fn unpack(
    packed: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), Exhausted>,
) -> Result<(), Refusal> {
    // Allocated once for all members: a member can be as short as 20 bytes.
    let mut inflater = Decompress::new(false);
    let mut chunk = vec![0; CHUNK];
    let mut rest = packed;
    while !rest.is_empty() {
        let body = after_header(rest)?;
        let mut crc = Crc::new();
        inflater.reset(false);
        let read = inflate(&mut inflater, body, &mut chunk, |bytes| {
            crc.update(bytes);
            take(bytes)
        })?;
        let (trailer, after) = body[read..].split_at_checked(8).ok_or(CUT_SHORT)?;
        let (checksum, length) = trailer.split_at(4);
        if checksum != crc.sum().to_le_bytes() {
            return Err("the gzip data is damaged: its checksum differs".into());
        }
        if length != crc.amount().to_le_bytes() {
            return Err("the gzip data is damaged: its length differs".into());
        }
        let zeros = after.iter().take_while(|&&byte| byte == 0).count();
        rest = &after[zeros..];
    }
    Ok(())
}

/// Returns the bytes after the header of a member.
fn after_header(member: &[u8]) -> Result<&[u8], &'static str> {
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    const CHECKSUM: u8 = 2;
    if !member.starts_with(&[0x1F, 0x8B]) {
        return Err("the decoded bytes are not gzip data");
    }
    let (head, mut rest) = member.split_at_checked(10).ok_or(CUT_SHORT)?;
    let (method, flags) = (head[2], head[3]);
    if method != 8 {
        return Err("the gzip data uses an unknown compression method");
    }
    if flags & EXTRA != 0 {
        let (length, after) = rest.split_at_checked(2).ok_or(CUT_SHORT)?;
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        rest = after.get(length..).ok_or(CUT_SHORT)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest
                .iter()
                .position(|&byte| byte == 0)
                .map_or(rest.len(), |zero| zero + 1);
            rest = &rest[end..];
        }
    }
    if flags & CHECKSUM != 0 {
        rest = rest.get(2..).ok_or(CUT_SHORT)?;
    }
    Ok(rest)
}

/// Unpacks a deflate stream, and calls `take` with each chunk. Returns the length of the stream.
fn inflate(
    inflater: &mut Decompress,
    stream: &[u8],
    chunk: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Result<(), Exhausted>,
) -> Result<usize, Refusal> {
    let (mut read, mut written) = (0, 0);
    loop {
        let status = inflater
            .decompress(&stream[read..], chunk, FlushDecompress::None)
            .map_err(|_| "the gzip data is damaged")?;
        let taken = usize::try_from(inflater.total_in()).unwrap_or(usize::MAX) - read;
        let made = usize::try_from(inflater.total_out()).unwrap_or(usize::MAX) - written;
        (read, written) = (read + taken, written + made);
        take(&chunk[..made])?;
        if status == Status::StreamEnd {
            return Ok(read);
        }
        if taken == 0 && made == 0 {
            return Err(CUT_SHORT.into());
        }
    }
}

#[cfg(test)]
mod tests;
