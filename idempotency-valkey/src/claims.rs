//! The claims that this process has made.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

/// The most claims that are kept.
const MOST_CLAIMS: usize = 1_024;

/// The longest value that is kept, in bytes.
const LONGEST_CLAIM: usize = 16 * 1024;

/// The values of the last claims that this process has made or changed. The next request of one replaces it without a read. Each is a guess:
/// the server compares it with the present value.
pub(crate) struct Claims(Mutex<LruCache<String, Vec<u8>>>);

impl Claims {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }

    /// Returns the value of the claim under this key, if it is kept, and keeps it no longer.
    pub(crate) fn take(&self, key: &str) -> Option<Vec<u8>> {
        self.all().pop(key)
    }

    /// Keeps the value of a claim, unless it is long.
    pub(crate) fn keep(&self, key: String, value: Vec<u8>) {
        if value.len() > LONGEST_CLAIM {
            return;
        }
        let mut all = self.all();
        all.put(key, value);
        if all.len() > MOST_CLAIMS {
            all.pop_lru();
        }
    }

    /// Returns the claims. A panic cannot leave them half written, so a poisoned lock is still good.
    fn all(&self) -> MutexGuard<'_, LruCache<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_short_claims_are_kept_until_they_are_taken() {
        let claims = Claims::new();
        for number in 0..=MOST_CLAIMS {
            claims.keep(number.to_string(), vec![7]);
        }
        assert_eq!(claims.take("0"), None);
        assert_eq!(claims.take("1"), Some(vec![7]));
        assert_eq!(claims.take("1"), None);
        for (bytes, is_kept) in [(LONGEST_CLAIM, true), (LONGEST_CLAIM + 1, false)] {
            claims.keep("long".to_owned(), vec![0; bytes]);
            assert_eq!(claims.take("long").is_some(), is_kept);
        }
    }
}
