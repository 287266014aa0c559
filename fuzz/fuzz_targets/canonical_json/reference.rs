//! A reference for canonical text that is simple enough to check by reading. It shares no code with the code under test:
//! `serde_json` reads texts and structure, one level after the other, so deep values are slow.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// Returns the canonical text. Returns `None` for text that `serde_json` does not read: lone surrogates, `NaN`, `Infinity`.
pub fn canonical(text: &str) -> Option<String> {
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
    let float: f64 = text.parse().ok()?;
    if float.is_infinite() {
        return None;
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    let (digits, exponent) = shortest(float.abs())?;
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
    let (first, others) = digits.split_at(1);
    let point = if others.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    Some(format!(
        "{sign}{first}{point}{others}e{direction}{:02}",
        exponent.abs()
    ))
}

/// Returns the fewest digits that read back as the float, and the exponent of the first digit. Of that number of digits it
/// tries the nearest decimal and its two neighbours.
fn shortest(float: f64) -> Option<(String, i32)> {
    (0..17).find_map(|others| {
        let nearest = format!("{float:.others$e}");
        let (digits, exponent) = nearest.split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        let nearest: u64 = digits.replace('.', "").parse().ok()?;
        let beside = [nearest, nearest + 1, nearest.saturating_sub(1)];
        let found = beside.into_iter().find(|digits| {
            let last = exponent - i32::try_from(others).unwrap_or(0);
            format!("{digits}e{last}").parse() == Ok(float)
        })?;
        Some((found.to_string(), exponent))
    })
}
