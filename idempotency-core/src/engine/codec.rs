//! What the engine must know of a handler's types: how a response becomes JSON text and back, and what an error means.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::proof;
use crate::error::Error;
use crate::typed::{self, ReadError};

/// How responses of one type are written and read.
///
/// The engine takes this value instead of trait bounds, so that the attribute can report a missing trait once, in its own
/// words.
pub struct Codec<R> {
    pub(super) write: fn(&R) -> Written,
    read: Read<R>,
    /// Returns true if `write` wrote this text as JSON, and its type proves that `read` reads it.
    proves: fn(&str) -> bool,
}

/// The function that reads a response.
enum Read<R> {
    /// A function of the codec's own.
    Own(fn(&str) -> serde_json::Result<R>),
    /// That of a type's own JSON, whose error names the field.
    Typed(fn(&str) -> Result<R, ReadError>),
}

/// What is stored of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Written {
    /// This JSON text. Duplicates get the response that is read from it.
    Text(String),
    /// Nothing: the claim is released, and the next call runs the handler again. Writes that the handler staged are dropped.
    Release,
    /// Nothing, because the response cannot be stored: the claim is released, with a warning. The text says why, for the outcome
    /// event. It must not contain a part of the response.
    ///
    /// If the handler staged writes, the key is completed, as under [`OwnCallerOnly`](Self::OwnCallerOnly): the caller gets the
    /// response, so the writes are applied.
    ReleaseWithWarning(&'static str),
    /// Nothing, and the key is completed: the call's own caller gets the response, duplicates get
    /// [`ResponseUnavailable`](crate::error::ErrorKind::ResponseUnavailable), and the handler does not run again. The text
    /// says why, for the outcome event. It must not contain a part of the response.
    OwnCallerOnly(&'static str),
    /// Nothing, and the key is completed: the call's own caller gets
    /// [`ResponseNotSerializable`](crate::error::ErrorKind::ResponseNotSerializable).
    NotSerializable,
    /// Nothing: the response is a failure, and does not say whether the effect happened. The claim is released; under `hold` it is
    /// kept. Writes that the handler staged are dropped. The text says why, for the outcome event. It must not contain a part of the
    /// response.
    Failed(&'static str),
}

/// How the errors of one type are made and understood.
pub struct Errors<E> {
    convert: fn(Error) -> E,
    pub(super) unreported: fn(&E) -> Option<&'static str>,
    pub(super) not_started: fn(&E) -> bool,
}

impl<E> Errors<E> {
    /// Returns the rules for errors that the handler itself returns: each of them reports the handler's end. `convert` turns an error
    /// of this framework into the handler's error type.
    pub fn new(convert: fn(Error) -> E) -> Self {
        Self {
            convert,
            unreported: |_| None,
            not_started: |_| false,
        }
    }

    /// Converts an error of this framework into the handler's error type.
    pub fn convert(&self, error: Error) -> E {
        (self.convert)(error)
    }

    /// Sets which errors say that the handler did not begin. Such an error frees the key, and keeps the steps of earlier runs.
    #[must_use]
    pub fn not_started(mut self, not_started: fn(&E) -> bool) -> Self {
        self.not_started = not_started;
        self
    }

    /// Sets which errors do not report the handler's end. Such an error keeps the claim under `hold`.
    ///
    /// `unreported` returns why an error is no report, for the outcome event. It must not contain a part of the payload.
    #[must_use]
    pub fn unreported(mut self, unreported: fn(&E) -> Option<&'static str>) -> Self {
        self.unreported = unreported;
        self
    }
}

impl<E> Clone for Errors<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Errors<E> {}

impl<R> Codec<R> {
    /// Returns the codec of these two functions.
    ///
    /// `read` must read what `write` wrote: a response that it cannot read is not stored.
    pub fn new(write: fn(&R) -> Written, read: fn(&str) -> serde_json::Result<R>) -> Self {
        Self {
            write,
            read: Read::Own(read),
            proves: |_| false,
        }
    }

    /// Returns true if it is certain that this text, which was just written, can be read back.
    pub(super) fn proves(&self, text: &str) -> bool {
        (self.proves)(text)
    }

    /// Returns true if its texts are those of `serde_json`.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.read, Read::Typed(_))
    }

    /// Reads a response from its JSON text.
    pub(super) fn read(&self, text: &str) -> Result<R, ReadError> {
        match self.read {
            Read::Own(read) => read(text).map_err(ReadError::from),
            Read::Typed(read) => read(text),
        }
    }
}

impl<R: Serialize + DeserializeOwned> Codec<R> {
    /// Returns the codec of the type's own `Serialize` and `Deserialize`.
    pub fn json() -> Self {
        Self {
            write: |response| match serde_json::to_string(response) {
                Ok(text) => Written::Text(text),
                Err(_) => Written::NotSerializable,
            },
            read: Read::Typed(typed::read_checked),
            proves: proof::of::<R>,
        }
    }
}

impl<R> Clone for Codec<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Codec<R> {}

impl<R> Clone for Read<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Read<R> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_array_is_no_struct() {
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct Receipt {
            amount: u8,
        }
        let codec = Codec::<Receipt>::json();
        assert_eq!(codec.read(r#"{"amount": 1}"#), Ok(Receipt { amount: 1 }));
        assert!(codec.read("[1]").is_err());
        assert_eq!(Codec::<(u8,)>::json().read("[1]"), Ok((1,)));
    }
}
