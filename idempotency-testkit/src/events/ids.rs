//! Ids and digests, computed from the content of an event: the same event has the same ids.

use md5::Md5;
use sha2::{Digest, Sha256};

/// Returns the MD5 digest, which SQS sends with each message.
pub(super) fn md5(bytes: &[u8]) -> String {
    hex(Md5::digest(bytes).as_slice())
}

/// Returns the SHA-256 digest, which a FIFO queue with content-based deduplication uses.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..])
}

/// Returns an id in the form of a UUID of version 4.
pub(super) fn uuid(parts: &[&str]) -> String {
    let digest = digest(parts);
    let (a, b, c, d) = (
        &digest[..8],
        &digest[8..12],
        &digest[13..16],
        &digest[17..20],
    );
    format!("{a}-{b}-4{c}-8{d}-{}", &digest[20..32])
}

/// Returns 32 hexadecimal digits.
pub(super) fn hex32(parts: &[&str]) -> String {
    digest(parts)[..32].to_owned()
}

/// Hashes the parts with their lengths, so that `["ab", "c"]` and `["a", "bc"]` differ.
fn digest(parts: &[&str]) -> String {
    let mut text = String::new();
    for part in parts {
        text += &format!("{}:{part}", part.len());
    }
    sha256(text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_known_texts() {
        assert_eq!(md5(b"Test message."), "e4e68fb7bd0e697a0ae8f1bb342846b3");
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn an_id_has_the_form_of_a_uuid_and_depends_on_each_part() {
        let id = uuid(&["ab", "c"]);
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_ne!(id, uuid(&["a", "bc"]));
        assert_eq!(id, uuid(&["ab", "c"]));
    }
}
