//! The functions that unwrap a part of an event: base64 and gzip, read as Python's standard library reads them.

use crc32fast::Hasher;
use idempotency_expression::Function;
use miniz_oxide::inflate::stream::{FullReset, InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

use super::error::{EvaluationError, Result};
use crate::key::{Budget, BudgetError, Text};

const BASE64: Function = Function::PowertoolsBase64;
const GZIP: Function = Function::PowertoolsBase64Gzip;

/// Evaluates `powertools_base64`.
pub(in crate::key) fn base64(text: &Text, budget: &mut Budget) -> Result<Text> {
    let bytes = decode(BASE64, text, budget)?;
    utf8(BASE64, bytes, budget)
}

/// Returns true if the text is base64 of a text that begins like a JSON object, array or string. Only the beginning is
/// decoded.
pub(super) fn wraps_json(text: &Text) -> bool {
    const LOOKED_AT: usize = 64;
    let length = text.as_bytes().len().min(LOOKED_AT) / 4 * 4;
    let beginning = Text::from_trusted(text.as_bytes()[..length].to_vec());
    let decoded = decode(BASE64, &beginning, &mut Budget::unbounded()).unwrap_or_default();
    matches!(decoded.trim_ascii_start(), [b'{' | b'[' | b'"', ..])
}

/// Evaluates `powertools_base64_gzip`.
pub(super) fn base64_gzip(text: &Text, budget: &mut Budget) -> Result<Text> {
    let packed = decode(GZIP, text, budget)?;
    let unpacked = gunzip(&packed, budget)?;
    budget.free(packed.capacity());
    utf8(GZIP, unpacked, budget)
}

fn damaged(reason: &'static str) -> EvaluationError {
    EvaluationError::failed(GZIP, reason)
}

/// Returns the bytes as text. A list with spare room is moved to a block of its length.
fn utf8(function: Function, bytes: Vec<u8>, budget: &mut Budget) -> Result<Text> {
    let (length, capacity) = (bytes.len(), bytes.capacity());
    let text = String::from_utf8(bytes)
        .map_err(|_| EvaluationError::failed(function, "the decoded bytes are not UTF-8"))?;
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
fn decode(function: Function, text: &Text, budget: &mut Budget) -> Result<Vec<u8>> {
    let refused = |reason| Err(EvaluationError::failed(function, reason));
    if !text.as_bytes().is_ascii() {
        return refused("the text is not base64: it has characters outside ASCII");
    }
    let mut bytes = budget.list(text.as_bytes().len().div_ceil(4) * 3)?;
    let (mut bits, mut place, mut padding) = (0_u32, 0, 0);
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
        place = (place + 1) % 4;
        bits = bits << 6 | u32::from(six);
        // Two characters hold a byte and four unused bits. Three hold two bytes and two unused bits.
        match place {
            1 => {}
            2 => bytes.push((bits >> 4) as u8),
            3 => bytes.push((bits >> 2) as u8),
            _ => bytes.push(bits as u8),
        }
    }
    match place {
        0 => Ok(bytes),
        1 => refused("the text is not base64: it has one character too many"),
        _ => refused("the text is not base64: its padding is missing"),
    }
}

const CUT_SHORT: &str = "the gzip data ends too early";

const CHUNK: usize = 32 * 1024;
/// The bytes that unpacking takes besides its result: a chunk, and the decompressor with the window of the format.
const STATE: usize = CHUNK + 64 * 1024;

/// Unpacks in two passes: the first finds the length, so that the second fills a block of the right size.
fn gunzip(packed: &[u8], budget: &mut Budget) -> Result<Vec<u8>> {
    budget.allocate(STATE)?;
    let mut length = 0;
    unpack(packed, |bytes| {
        length += bytes.len();
        budget.work(bytes.len())?;
        if budget.holds(length) {
            Ok(())
        } else {
            Err(BudgetError::Memory)
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
fn unpack(packed: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), BudgetError>) -> Result<()> {
    // Allocated once for all members: a member can be as short as 20 bytes.
    let mut state = InflateState::new_boxed(DataFormat::Raw);
    let mut chunk = vec![0; CHUNK];
    let mut rest = packed;
    while !rest.is_empty() {
        let body = after_header(rest).map_err(damaged)?;
        let (mut crc, mut unpacked) = (Hasher::new(), 0_u32);
        state.reset_as(FullReset(DataFormat::Raw));
        let read = inflate_chunks(&mut state, body, &mut chunk, |bytes| {
            crc.update(bytes);
            // The trailer has the length modulo 2^32.
            unpacked = unpacked.wrapping_add(bytes.len() as u32);
            take(bytes)
        })?;
        let trailer = body[read..].split_at_checked(8);
        let (trailer, after) = trailer.ok_or(damaged(CUT_SHORT))?;
        let (checksum, length) = trailer.split_at(4);
        if checksum != crc.finalize().to_le_bytes() {
            return Err(damaged("the gzip data is damaged: its checksum differs"));
        }
        if length != unpacked.to_le_bytes() {
            return Err(damaged("the gzip data is damaged: its length differs"));
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
fn inflate_chunks(
    state: &mut InflateState,
    stream: &[u8],
    chunk: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Result<(), BudgetError>,
) -> Result<usize> {
    let mut read = 0;
    loop {
        let step = inflate(state, &stream[read..], chunk, MZFlush::None);
        if step.status.is_err_and(|error| error != MZError::Buf) {
            return Err(damaged("the gzip data is damaged"));
        }
        read += step.bytes_consumed;
        take(&chunk[..step.bytes_written])?;
        match step.status {
            Ok(MZStatus::StreamEnd) => return Ok(read),
            _ if step.bytes_consumed + step.bytes_written > 0 => {}
            _ => return Err(damaged(CUT_SHORT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::budget::heap;

    const ENOUGH: usize = 1024 * 1024;

    fn readable<T>(result: Result<T>) -> Result<T, &'static str> {
        result.map_err(|error| match error {
            EvaluationError::Failed { reason, .. } => reason,
            _ => "exhausted",
        })
    }

    fn decoded(text: &str) -> Result<Vec<u8>, &'static str> {
        readable(decode(BASE64, &text.into(), &mut Budget::new(ENOUGH)))
    }

    fn unpacked(packed: &[u8]) -> Result<Vec<u8>, &'static str> {
        readable(gunzip(packed, &mut Budget::new(ENOUGH)))
    }

    #[test]
    fn base64_is_read_as_leniently_as_in_python() {
        // A text, and its bytes or the reason.
        let rows = "
            aGVs\nbG8= => hello
            aGVsbG8=ignored => hello
            a=GVsbG8= => hello
            aGVsbA== => hell
            -_aGVsbA== => hell
            /w== => \\xff
            //8= => \\xff\\xff
            =Zg== => f
            Zg=x= => f\\x0c
            Zm8=Zg== => fo
            Zg= => the text is not base64: its padding is missing
            aGVsbG8 => the text is not base64: its padding is missing
            aGVsb => the text is not base64: it has one character too many
            aGVsbA==é => the text is not base64: it has characters outside ASCII";
        for row in rows.split("\n            ").skip(1) {
            let (text, expected) = row.split_once(" => ").unwrap();
            let found = decoded(text).map(|bytes| bytes.escape_ascii().to_string());
            assert_eq!(found.unwrap_or_else(str::to_owned), expected, "{text}");
        }
        // Three bytes are four characters of six bits, so the bits of the decoded alphabet are the numbers from 0 to 63.
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bytes = decoded(alphabet).unwrap();
        let bits = bytes.chunks(3).flat_map(|three| {
            let whole = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            [18, 12, 6, 0].map(|shift| whole >> shift & 63)
        });
        assert!(bits.eq(0..64));
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let header = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];
        let body = miniz_oxide::deflate::compress_to_vec(content, 6);
        let checksum = crc32fast::hash(content).to_le_bytes();
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&header[..], &body, &checksum, &length].concat()
    }

    #[test]
    fn members_are_joined_and_damaged_data_is_refused() {
        let joined = [gzip(b"one"), vec![0; 3], gzip(b"two")].concat();
        assert_eq!(unpacked(&joined).unwrap(), b"onetwo");
        assert_eq!(unpacked(b"").unwrap(), b"");
        let whole = gzip(&b"abc".repeat(100_000));
        assert_eq!(unpacked(&whole).unwrap().len(), 300_000);
        for end in 1..whole.len() {
            assert!(unpacked(&whole[..end]).is_err(), "{end}");
        }
        for back in 1..=8 {
            let mut damaged = whole.clone();
            let at = damaged.len() - back;
            damaged[at] ^= 0x10;
            let what = if back > 4 { "checksum" } else { "length" };
            let reason = format!("the gzip data is damaged: its {what} differs");
            assert_eq!(unpacked(&damaged), Err(&*reason), "{back}");
        }
        let no_gzip = Err("the decoded bytes are not gzip data");
        assert_eq!(unpacked(&[&whole[..], b"x"].concat()), no_gzip);
    }

    #[test]
    fn gzip_data_that_unpacks_beyond_the_budget_is_refused() {
        // Unpacking takes a chunk and a window beside its result.
        assert_eq!((CHUNK, STATE), (32_768, 98_304));
        let fits = gzip(&vec![0; ENOUGH - STATE - 64]);
        assert!(unpacked(&fits).is_ok());
        let bomb = gzip(&vec![0; ENOUGH - STATE]);
        assert_eq!(unpacked(&bomb), Err("exhausted"));
    }

    #[test]
    fn the_optional_fields_of_a_header_are_skipped() {
        let member = |flags: u8, fields: &[u8]| {
            let plain = gzip(b"text");
            [&plain[..3], &[flags], &plain[4..10], fields, &plain[10..]].concat()
        };
        let extra = [&[0x04, 0x01], &[7; 260][..]].concat();
        let all = [&extra, &b"name\0comment\0"[..], &[1, 2]].concat();
        for (flags, fields) in [
            (0, &b""[..]),
            (4, &extra),
            (4, b"\0\0"),
            (8, b"name\0"),
            (16, b"comment\0"),
            (2, b"\x01\x02"),
            (24, b"name\0comment\0"),
            (30, &all),
            (1, b""),
        ] {
            assert_eq!(
                unpacked(&member(flags, fields)).unwrap(),
                b"text",
                "{flags}"
            );
        }
        for (wrong, reason) in [
            (
                &b"\x1f\x8b\x07\0\0\0\0\0\0\0"[..],
                "the gzip data uses an unknown compression method",
            ),
            (b"PK", "the decoded bytes are not gzip data"),
            (&member(4, &extra[..100])[..100], CUT_SHORT),
            (b"\x1f\x8b\x08\x02\0\0\0\0\0\0\x01", CUT_SHORT),
            (b"\x1f\x8b\x08\x08\0\0\0\0\0\0name", CUT_SHORT),
        ] {
            assert_eq!(unpacked(wrong), Err(reason));
        }
    }

    #[test]
    fn unpacked_text_is_charged_for_its_block_alone() {
        for (length, text) in [
            (0, "H4sIAAAAAAAC/wMAAAAAAAAAAAA="),
            (1, "H4sIAAAAAAAC/6sAAIMW3IwBAAAA"),
            (100, "H4sIAAAAAAAC/6uooD0AAI9dDl5kAAAA"),
            (
                40000,
                "H4sIAAAAAAAC/+3BMQEAAADCoNqL72ULoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgBtHXcpzQJwAAA==",
            ),
        ] {
            let (content, text) = ("x".repeat(length), Text::from(text));
            let mut budget = Budget::new(ENOUGH);
            assert_eq!(base64_gzip(&text, &mut budget), Ok(content.into()));
            assert_eq!(budget.charged(), heap(length), "{length}");
            assert_eq!(budget.worked(), length);
        }
        let binary = Text::from("H4sIAAAAAAAC//sPAAAAAP8BAAAA");
        let refused = EvaluationError::failed(GZIP, "the decoded bytes are not UTF-8");
        for (limit, error) in [(ENOUGH, refused), (STATE, EvaluationError::TooLarge)] {
            assert_eq!(base64_gzip(&binary, &mut Budget::new(limit)), Err(error));
        }
    }
}
