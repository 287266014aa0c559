//! How a response becomes JSON text and back.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How responses of one type are written and read.
///
/// The engine takes this value instead of trait bounds, so that the attribute can report a missing trait once, in its own
/// words.
///
/// # Examples
///
/// ```
/// use idempotency_core::engine::Codec;
/// let codec = Codec::<Vec<i32>>::json();
/// # let _ = codec;
/// ```
pub struct Codec<R> {
    pub(super) write: fn(&R) -> serde_json::Result<String>,
    pub(super) read: fn(&str) -> serde_json::Result<R>,
}

impl<R: Serialize + DeserializeOwned> Codec<R> {
    /// Returns the codec of the type's own `Serialize` and `Deserialize`.
    pub fn json() -> Self {
        Self {
            write: |response| serde_json::to_string(response),
            read: |text| serde_json::from_str(text),
        }
    }
}

impl<R> Clone for Codec<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Codec<R> {}

impl<R> fmt::Debug for Codec<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec<{}>", std::any::type_name::<R>())
    }
}
