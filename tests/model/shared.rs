//! Parts of a state that most steps do not change. They are cloned and hashed in constant time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A reference-counted value with its hash.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    value: Arc<T>,
    digest: u64,
}

impl<T: Hash> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self {
            digest: hasher.finish(),
            value: Arc::new(value),
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            digest: self.digest,
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.value == other.value
    }
}

impl<T: PartialEq> Eq for Shared<T> {}
