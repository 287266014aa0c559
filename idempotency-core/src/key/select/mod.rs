//! Selection while reading: of an event, only what an expression looks at becomes a value. The rest is only checked.
//!
//! An expression is analysed once ([`needs`](super::expression)), and the event is read by that. What is left is a small value,
//! on which the expression has the same result as on the whole event. So there is one evaluator, and its rules are not
//! written a second time.

mod needs;
mod read;
mod value;

pub(crate) use needs::Needs;
pub(crate) use value::Unfit;

use super::parse::Reader;
use super::{Budget, Json, JsonError};
use serde::Serialize;

impl Needs {
    /// Reads what is looked at from a JSON text.
    ///
    /// # Errors
    ///
    /// The errors of a reader that keeps everything, except that only what is kept takes memory.
    pub(crate) fn read(&self, text: &[u8], budget: &mut Budget) -> Result<Json, JsonError> {
        Reader::new(text, 0, budget).document(|reader| reader.select(self))
    }

    /// Takes what is looked at from a value, as if its JSON text were read.
    ///
    /// # Errors
    ///
    /// [`Unfit`] if the value must be written as text, which then has the error, if there is one.
    pub(crate) fn take<T: Serialize + ?Sized>(
        &self,
        from: &T,
        budget: &mut Budget,
    ) -> Result<Json, Unfit> {
        value::take(from, self, budget)
    }
}

#[cfg(test)]
mod tests;
