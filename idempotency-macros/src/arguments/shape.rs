//! The shapes of functions that have an attribute form of their own, such as `#[idempotent(http, ..)]`.

use syn::{Error, Ident};

/// A shape, as the attribute names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A handler of HTTP events.
    Http,
    /// A function of one record of a batch.
    Batch(Source),
}

/// A source of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Sqs,
    Kinesis,
    DynamoDbStream,
}

/// The words of the shapes.
const SHAPES: [(&str, Shape); 4] = [
    ("http", Shape::Http),
    ("sqs", Shape::Batch(Source::Sqs)),
    ("kinesis", Shape::Batch(Source::Kinesis)),
    ("dynamodb_stream", Shape::Batch(Source::DynamoDbStream)),
];

impl Shape {
    /// Returns the shape of a word, or `None` if the word is no shape.
    pub(super) fn of(word: &str) -> Option<Self> {
        let shape = SHAPES.iter().find(|(known, _)| *known == word);
        shape.map(|(_, shape)| *shape)
    }

    /// Returns the word of the shape.
    pub(crate) fn word(self) -> &'static str {
        let shape = SHAPES.iter().find(|(_, shape)| *shape == self);
        shape.map_or("", |(word, _)| word)
    }
}

/// A shape and its place in the attribute.
pub(crate) struct Shaped {
    pub(crate) shape: Shape,
    pub(crate) word: Ident,
}

/// Returns the error of a shape that is written after another.
pub(super) fn second(first: &Shaped, second: &Ident) -> Error {
    let message = if *second == first.word {
        format!("`{second}` is written twice: leave one out")
    } else {
        format!(
            "a function has one shape: write either `{}` or `{second}`",
            first.shape.word()
        )
    };
    Error::new(second.span(), message)
}
