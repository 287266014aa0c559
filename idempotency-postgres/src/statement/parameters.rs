//! The parameters of a statement: each value of a call is one.

use std::sync::Arc;

use idempotency_core::record::RecordId;
use sqlx::Arguments as _;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;

use crate::columns::{Value, stored};

/// A text, and its mark: the value of a parameter that only this text accepts.
pub(super) type Text = (Arc<str>, i64);

/// A statement with its parameters.
pub(crate) struct Statement {
    pub(crate) text: Arc<str>,
    /// What its reply has, if it is an insert.
    pub(crate) mark: i64,
    pub(crate) arguments: Result<PgArguments, BoxDynError>,
    pub(crate) reply: Reply,
}

/// What the reply to a statement has.
pub(crate) enum Reply {
    /// No row, and how many were changed.
    Count,
    /// One row, or none.
    Row,
    Rows,
}

/// Collects the parameters of a statement.
#[derive(Default)]
pub(super) struct Parameters {
    arguments: PgArguments,
    failed: Option<BoxDynError>,
}

impl Parameters {
    /// Returns the parameters of a statement whose first one is this id.
    pub(super) fn of(id: &RecordId) -> Self {
        let mut parameters = Self::default();
        // Room for a claim, with the id, the path and the texts of an operation.
        parameters.arguments.reserve(10, 512);
        parameters.add(Value::Text(stored(id.as_str())));
        parameters
    }

    /// Returns how many there are. The text of the statement names each by its number, from 1.
    pub(super) fn len(&self) -> usize {
        self.arguments.len()
    }

    pub(super) fn add<'a>(&mut self, value: impl Into<Value<'a>>) {
        let added = match value.into() {
            Value::Number(number) => self.arguments.add(number),
            Value::Text(text) => self.arguments.add(&*text),
            Value::Texts(texts) => {
                let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
                self.arguments.add(texts)
            }
        };
        if let Err(error) = added {
            self.failed.get_or_insert(error);
        }
    }

    /// Ends with the mark of the text, to which `wait` is added.
    pub(super) fn end(mut self, (text, mark): Text, wait: u32, reply: Reply) -> Statement {
        self.add(Value::Number(mark + i64::from(wait)));
        let arguments = self.failed.map_or(Ok(self.arguments), Err);
        Statement {
            text,
            mark,
            arguments,
            reply,
        }
    }
}
