//! Canonical text is ASCII, reads back as itself, and equals that of a slow reference that reads with `serde_json`. The digest
//! that is made without a tree equals the digest of that text.
#![no_main]

use std::collections::HashMap;

use idempotency_core::key::{HashAlgorithm, Json, JsonErrorKind};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

fuzz_target!(|text: &str| {
    match Json::parse(text) {
        Ok(json) => {
            let once = json.to_canonical();
            assert!(once.is_ascii());
            let again = Json::parse(&once).expect("canonical text is JSON");
            assert_eq!(again.to_canonical(), once);
            let digest = HashAlgorithm::Md5.hex_of_json(text, usize::MAX);
            assert_eq!(digest, Some(HashAlgorithm::Md5.hex(&once)));
            if let Some(reference) = canonical(text) {
                assert_eq!(once, reference);
            }
        }
        Err(error) => {
            assert_eq!(HashAlgorithm::Md5.hex_of_json(text, usize::MAX), None);
            let is_beyond_limits = matches!(
                error.kind(),
                JsonErrorKind::TooDeep | JsonErrorKind::NumberTooLong
            );
            let is_invalid = serde_json::from_str::<IgnoredAny>(text).is_err();
            assert!(is_beyond_limits || is_invalid, "{error}");
        }
    }
});

/// Returns the canonical text. It is a reference that is simple enough to check by reading, and shares no code with the code under
/// test: `serde_json` reads texts and structure, one level after the other, so deep values are slow.
///
/// Returns `None` for text that `serde_json` does not read: lone surrogates, `NaN`, `Infinity`.
fn canonical(text: &str) -> Option<String> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    Some(match text.as_bytes().first()? {
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            let elements: Option<Vec<_>> = elements
                .into_iter()
                .map(|one| canonical(one.get()))
                .collect();
            format!("[{}]", elements?.join(", "))
        }
        b'{' => {
            let members: HashMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by_key(|(name, _)| name.chars().map(u32::from).collect::<Vec<_>>());
            let members: Option<Vec<_>> = members
                .into_iter()
                .map(|(name, value)| {
                    Some(format!("{}: {}", escaped(&name), canonical(value.get())?))
                })
                .collect();
            format!("{{{}}}", members?.join(", "))
        }
        b'"' => escaped(&serde_json::from_str::<String>(text).ok()?),
        b'-' | b'0'..=b'9' => {
            let number: &RawValue = serde_json::from_str(text).ok()?;
            number_text(number.get())?
        }
        _ => serde_json::from_str::<&RawValue>(text)
            .ok()?
            .get()
            .to_owned(),
    })
}

fn escaped(text: &str) -> String {
    let mut out = "\"".to_owned();
    for unit in text.encode_utf16() {
        out += &match unit {
            0x08 => "\\b".to_owned(),
            0x09 => "\\t".to_owned(),
            0x0a => "\\n".to_owned(),
            0x0c => "\\f".to_owned(),
            0x0d => "\\r".to_owned(),
            0x22 => "\\\"".to_owned(),
            0x5c => "\\\\".to_owned(),
            0x20..=0x7e => String::from_utf16_lossy(&[unit]),
            _ => format!("\\u{unit:04x}"),
        };
    }
    out + "\""
}

fn number_text(text: &str) -> Option<String> {
    if !text.contains(['.', 'e', 'E']) {
        return Some(if text == "-0" {
            "0".to_owned()
        } else {
            text.to_owned()
        });
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let sign = if text.starts_with('-') { "-" } else { "" };
    let mantissa = mantissa.trim_start_matches('-');
    let point = mantissa.find('.').unwrap_or(mantissa.len());
    let all = mantissa.replace('.', "");
    let digits = all.trim_start_matches('0');
    // The power of ten of the first digit, then of the first digit that is not 0.
    let exponent = i64::from(exponent.parse::<i32>().ok()?) + i64::try_from(point).ok()? - 1;
    let exponent = exponent - i64::try_from(all.len() - digits.len()).ok()?;
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Some(format!("{sign}0.0"));
    }
    if (-4..16).contains(&exponent) {
        // Puts the point among the digits, with enough zeros around them.
        let zeros = "0".repeat(20);
        let all = format!("{zeros}{digits}{zeros}");
        let point = usize::try_from(20 + exponent + 1).ok()?;
        let (whole, fraction) = all.split_at(point);
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let or_zero = |digits: &str| {
            if digits.is_empty() {
                "0".to_owned()
            } else {
                digits.to_owned()
            }
        };
        return Some(format!("{sign}{}.{}", or_zero(whole), or_zero(fraction)));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    Some(format!(
        "{sign}{first}{point}{rest}e{direction}{:02}",
        exponent.abs()
    ))
}
