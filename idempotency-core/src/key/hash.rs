//! Digests of canonical text: the hash algorithms and their names.

use std::fmt;
use std::str::FromStr;

use md5::Md5;
use sha2::digest::Output;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::Json;
use super::canonical::{self, CANONICAL, Layout, Sink};
use crate::hex;

/// A digest algorithm, for keys and for the part that `validate` selects.
///
/// # Examples
///
/// ```
/// use idempotency_core::key::HashAlgorithm;
///
/// let hash: HashAlgorithm = "SHA256".parse()?;
/// assert_eq!(hash, HashAlgorithm::Sha256);
/// assert_eq!(HashAlgorithm::Md5.hex("\"abc\""), "ebd9f4c7b06cb0aaf5d13d80e49d8b90");
/// # Ok::<(), idempotency_core::key::UnknownHashAlgorithm>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum HashAlgorithm {
    /// MD5, 32 hex digits: the default, as in other languages. It identifies a call; it protects no secret.
    #[default]
    Md5,
    /// SHA-224, 56 hex digits.
    Sha224,
    /// SHA-256, 64 hex digits.
    Sha256,
    /// SHA-384, 96 hex digits.
    Sha384,
    /// SHA-512, 128 hex digits.
    Sha512,
}

impl HashAlgorithm {
    /// The algorithms in the order of the enum, and their names.
    const ALL: [(Self, &str); 5] = [
        (Self::Md5, "md5"),
        (Self::Sha224, "sha224"),
        (Self::Sha256, "sha256"),
        (Self::Sha384, "sha384"),
        (Self::Sha512, "sha512"),
    ];

    /// Returns the digest of a text in lower-case hex.
    pub fn hex(&self, text: &str) -> String {
        self.hex_of_bytes(text.as_bytes())
    }

    /// Returns the digest of bytes in lower-case hex.
    pub fn hex_of_bytes(&self, bytes: &[u8]) -> String {
        self.hex_of_written(bytes)
    }

    /// Returns the digest of a value's canonical text in lower-case hex.
    ///
    /// The text is hashed in blocks while it is written, so the whole text is never in memory.
    pub fn hex_of(&self, json: &Json) -> String {
        self.hex_of_written((json, CANONICAL))
    }

    /// Returns the digest in lower-case hex. The text is hashed while it is written.
    pub(super) fn hex_of_written(&self, text: impl HashInput) -> String {
        match self {
            Self::Md5 => hash_in_blocks::<Md5>(text),
            Self::Sha224 => hash_in_blocks::<Sha224>(text),
            Self::Sha256 => hash_in_blocks::<Sha256>(text),
            Self::Sha384 => hash_in_blocks::<Sha384>(text),
            Self::Sha512 => hash_in_blocks::<Sha512>(text),
        }
    }

    /// Returns the name, as it is written in an attribute or an environment variable.
    pub fn name(&self) -> &'static str {
        Self::ALL[*self as usize].1
    }
}

/// A value, a text or bytes whose digest is computed.
pub(super) trait HashInput {
    /// Writes the text that is hashed.
    fn write(self, out: &mut impl Sink);
}

impl HashInput for (&Json, &Layout) {
    fn write(self, out: &mut impl Sink) {
        canonical::write(out, self.0, self.1);
    }
}

impl HashInput for &[u8] {
    fn write(self, out: &mut impl Sink) {
        out.ascii(self);
    }
}

fn hash_in_blocks<D: Digest>(text: impl HashInput) -> String {
    let mut blocks = Blocks {
        digest: D::new(),
        block: [0; BLOCK],
        filled: 0,
    };
    text.write(&mut blocks);
    hex::of(&blocks.finalize())
}

/// The text is hashed in blocks of this many bytes: one call for each comma would take longer than the hash itself. The number is a
/// multiple of the block size of every algorithm, so that the algorithm does not copy the bytes once more.
const BLOCK: usize = 512;

/// Hashes the text that is written to it.
struct Blocks<D> {
    digest: D,
    block: [u8; BLOCK],
    filled: usize,
}

impl<D: Digest> Blocks<D> {
    /// Takes a piece that does not fit into the block.
    #[inline(never)]
    fn overflow(&mut self, piece: &[u8]) {
        let (first, rest) = piece.split_at(BLOCK - self.filled);
        self.block[self.filled..].copy_from_slice(first);
        self.digest.update(self.block);
        let (whole, rest) = rest.split_at(rest.len() - rest.len() % BLOCK);
        if !whole.is_empty() {
            self.digest.update(whole);
        }
        self.block[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    // Inlined, so that the block is not copied.
    #[inline(always)]
    fn finalize(mut self) -> Output<D> {
        self.digest.update(&self.block[..self.filled]);
        self.digest.finalize()
    }
}

impl<D: Digest> Sink for Blocks<D> {
    #[inline(always)]
    fn ascii(&mut self, piece: &[u8]) {
        match self.block.get_mut(self.filled..self.filled + piece.len()) {
            Some(free) => {
                free.copy_from_slice(piece);
                self.filled += piece.len();
            }
            None => self.overflow(piece),
        }
    }
}

impl fmt::Display for HashAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that is not a [`HashAlgorithm`]. Its text lists the accepted names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownHashAlgorithm {
    name: String,
}

impl fmt::Display for UnknownHashAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown hash algorithm {:?}; accepted are ", self.name)?;
        f.write_str(&HashAlgorithm::ALL.map(|(_, name)| name).join(", "))
    }
}

impl std::error::Error for UnknownHashAlgorithm {}

impl FromStr for HashAlgorithm {
    type Err = UnknownHashAlgorithm;

    /// Parses a name in upper or lower case.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownHashAlgorithm`] for any other text.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|(_, known)| known.eq_ignore_ascii_case(name));
        let unknown = || UnknownHashAlgorithm {
            name: name.to_owned(),
        };
        found.map(|(algorithm, _)| algorithm).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_in_any_case_and_printed_in_lower_case() {
        for ((algorithm, name), digits) in HashAlgorithm::ALL.into_iter().zip([32, 56, 64, 96, 128])
        {
            assert_eq!(algorithm.name(), name);
            assert_eq!(algorithm.name().to_uppercase().parse(), Ok(algorithm));
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert_eq!(algorithm.hex("").len(), digits);
        }
        let error = "crc32".parse::<HashAlgorithm>().unwrap_err().to_string();
        let known = "accepted are md5, sha224, sha256, sha384, sha512";
        assert_eq!(error, format!("unknown hash algorithm \"crc32\"; {known}"));
        let digest = HashAlgorithm::Md5.hex("[\"u-1\", 42]");
        assert_eq!(digest, "e31b8b84a9be62e9ae878d3fb2b80004");
    }

    #[test]
    fn a_text_hashed_in_blocks_has_the_digest_of_the_whole_text() {
        for length in [0, 1, BLOCK - 3, BLOCK - 2, BLOCK - 1, BLOCK, 3 * BLOCK + 1] {
            let long = Json::Str("x".repeat(length).into());
            let json = Json::Array(vec![Json::Null, long, Json::Str("é".repeat(length).into())]);
            for (algorithm, _) in HashAlgorithm::ALL {
                assert_eq!(
                    algorithm.hex_of(&json),
                    algorithm.hex(&json.to_canonical()),
                    "{length}"
                );
            }
        }
    }

    #[test]
    fn a_text_is_hashed_in_blocks_of_one_size() {
        for long in [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5 * BLOCK + 3] {
            let mut blocks = Blocks {
                digest: Md5::new(),
                block: [0; BLOCK],
                filled: 0,
            };
            for _ in 0..3 * BLOCK {
                blocks.ascii(b"abc");
                assert!(blocks.filled <= BLOCK);
            }
            blocks.ascii("d".repeat(long).as_bytes());
            assert!(blocks.filled <= BLOCK);
            blocks.ascii(b"");
            blocks.ascii(b"e");
            let whole = format!("{}{}e", "abc".repeat(3 * BLOCK), "d".repeat(long));
            assert_eq!(hex::of(&blocks.finalize()), HashAlgorithm::Md5.hex(&whole));
        }
    }
}
