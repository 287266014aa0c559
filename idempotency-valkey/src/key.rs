//! The key of a record: the prefix of the store, then the record's id in braces.
//!
//! The braces make the id the part that decides the slot in a cluster, so a further key of the record would be on the same server. A
//! prefix has no braces, so it ends where the id begins: two stores whose prefixes differ, and two ids that differ, have no key in common.

use idempotency_core::config::ConfigurationError;
use idempotency_core::record::RecordId;

/// The longest prefix, in bytes.
const LONGEST_PREFIX: usize = 128;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The prefix of the keys of one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPrefix(String);

impl Default for KeyPrefix {
    fn default() -> Self {
        Self::new("idempotency")
    }
}

impl KeyPrefix {
    pub(crate) fn new(prefix: impl Into<String>) -> Self {
        Self(prefix.into())
    }

    /// Checks the prefix.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, or has a letter that a prefix cannot have.
    pub(crate) fn check(&self) -> Result<(), ConfigurationError> {
        let is_usable = |letter: char| !letter.is_control() && !"{} ".contains(letter);
        if (1..=LONGEST_PREFIX).contains(&self.0.len()) && self.0.chars().all(is_usable) {
            return Ok(());
        }
        let remedy = format!(
            "write 1 to {LONGEST_PREFIX} bytes without braces, spaces or control characters, such as `shop:idempotency`"
        );
        let name = "the prefix of the keys (IDEMPOTENCY_VALKEY_PREFIX)";
        Err(ConfigurationError::value(name, &self.0, remedy))
    }

    /// Returns the prefix.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of a record.
    pub(crate) fn key(&self, id: &RecordId) -> String {
        [&self.0, ":{", id.as_str(), "}"].concat()
    }

    /// Returns the id of the record with this key. `None` if it is not the key of a record.
    pub(crate) fn id(&self, key: &str) -> Option<RecordId> {
        let id = key.strip_prefix(&self.0)?.strip_prefix(":{")?;
        Some(RecordId::new(id.strip_suffix('}')?))
    }

    /// Returns the pattern of `SCAN` for the keys of all records whose id begins with this text.
    pub(crate) fn pattern(&self, id_prefix: &str) -> String {
        let mut pattern = String::new();
        for letter in format!("{}:{{{id_prefix}", self.0).chars() {
            if r"*?[]\".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern.push_str("*}");
        pattern
    }
}

/// Returns the slot of a key in a cluster: of the text between its first brace and the next closing one, unless that is empty.
pub(crate) fn slot(key: &str) -> u16 {
    let tagged = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let tag = tagged.map_or("", |(tag, _)| tag);
    crc16(if tag.is_empty() { key } else { tag }.as_bytes()) % SLOTS
}

/// Returns the CRC16 of XMODEM, which decides the slots.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            (crc << 1) ^ (if crc & 0x8000 == 0 { 0 } else { 0x1021 })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_this_form_and_reads_back() {
        let prefix = KeyPrefix::new("shop:1");
        for (id, key) in [
            ("pay#42b7", "shop:1:{pay#42b7}"),
            ("", "shop:1:{}"),
            ("a}b{c", "shop:1:{a}b{c}"),
            ("}{", "shop:1:{}{}"),
        ] {
            let id = RecordId::new(id);
            assert_eq!(prefix.key(&id), key);
            assert_eq!(prefix.id(key), Some(id));
        }
        for other in [
            "shop:1",
            "shop:1:pay",
            "shop:2:{pay}",
            "shop:1:{pay}!",
            "shop:1x:{pay}",
        ] {
            assert_eq!(prefix.id(other), None, "{other}");
        }
    }

    #[test]
    fn a_prefix_that_could_be_confused_with_an_id_is_refused() {
        for prefix in ["", "a{b", "b}a", "a b", "a\n", &"x".repeat(129)] {
            let error = KeyPrefix::new(prefix).check().unwrap_err().to_string();
            assert!(error.contains("write 1 to 128 bytes"), "{error}");
        }
        assert!(KeyPrefix::new("x".repeat(128)).check().is_ok());
    }

    #[test]
    fn a_pattern_matches_its_prefix_letter_by_letter() {
        let prefix = KeyPrefix::new("a*b");
        assert_eq!(prefix.pattern(""), r"a\*b:{*}");
        assert_eq!(prefix.pattern(r"p?[1]\"), r"a\*b:{p\?\[1\]\\*}");
    }

    #[test]
    fn slots_are_those_of_the_servers() {
        // From the specification of Redis Cluster: the CRC16 of this text is 0x31C3.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot("shop:{123456789}"), slot("123456789"));
        assert_eq!(slot("shop:{123456789}}"), slot("123456789"));
        // As `CLUSTER KEYSLOT` says.
        for (key, expected) in [("foo", 12_182), ("{}foo", 9_500), ("foo{}{bar}", 8_363)] {
            assert_eq!(slot(key), expected, "{key}");
        }
    }
}
