//! The parameters of a statement: each value of a call is one.

use std::hash::{DefaultHasher, Hash, Hasher};

use idempotency_core::record::RecordId;
use sqlx::Arguments as _;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;

use crate::columns::{Value, stored};

/// A statement with its parameters.
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) arguments: Result<PgArguments, BoxDynError>,
}

/// Collects the parameters of a statement.
pub(super) struct Parameters {
    arguments: PgArguments,
    failed: Option<BoxDynError>,
}

impl Parameters {
    pub(super) fn new() -> Self {
        Self {
            arguments: PgArguments::default(),
            failed: None,
        }
    }

    /// Adds a parameter. Returns how the text of the statement names it.
    pub(super) fn add<'a>(&mut self, value: impl Into<Value<'a>>) -> String {
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
        format!("${}", self.arguments.len())
    }

    pub(super) fn text(&mut self, text: &str) -> String {
        self.add(Value::Text(text.into()))
    }

    pub(super) fn id(&mut self, id: &RecordId) -> String {
        self.add(Value::Text(stored(id.as_str())))
    }

    /// Adds a parameter that only this statement has, of which these are the parts. Returns an expression that has the value of `then`
    /// if the server executes this statement, and fails if it executes another one. In a `(SELECT ..)` of its own it is evaluated before the
    /// first row is read, and also if there is none.
    ///
    /// Behind a pooler that keeps no prepared statements for its clients, a name can stand for the statement of another client: with the
    /// condition of another operation.
    pub(super) fn own(&mut self, parts: &[&str], then: &str) -> String {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        let mark = format!("{:016x}", hasher.finish());
        let sent = self.text(&mark);
        format!(
            "CASE WHEN {sent} = '{mark}' THEN {then} ELSE (('{OTHER_STATEMENT}' || {sent})::bigint)::text END"
        )
    }

    pub(super) fn end(self, text: String) -> Statement {
        let arguments = match self.failed {
            Some(error) => Err(error),
            None => Ok(self.arguments),
        };
        Statement { text, arguments }
    }
}

/// What the error of the server quotes if it executed another statement than the one that was sent.
pub(crate) const OTHER_STATEMENT: &str = "another statement than ";
