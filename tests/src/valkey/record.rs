//! The stored format, written and read again here: as another program would.

use std::collections::BTreeMap;

/// What the value of a record begins with.
pub const MARK: &str = "idempotency 1";

/// Returns the value of a record with these fields.
pub fn value<'a>(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut value = MARK.as_bytes().to_vec();
    for (name, field) in fields {
        for text in [name.as_bytes(), field] {
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            value.extend(length.to_be_bytes());
            value.extend(text);
        }
    }
    value
}

/// Returns the fields of a value, or none if it is that of no record.
pub fn fields(value: &[u8]) -> BTreeMap<String, String> {
    let mut texts = Vec::new();
    let mut rest = value.strip_prefix(MARK.as_bytes()).unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (text, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        texts.push(String::from_utf8_lossy(text).into_owned());
        rest = after;
    }
    let pairs = texts.chunks_exact(2);
    pairs.map(|it| (it[0].clone(), it[1].clone())).collect()
}
