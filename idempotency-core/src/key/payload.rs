//! A payload that is read once, for entry points that evaluate expressions of their own before the call is identified.

use std::fmt;

use serde::Serialize;

use super::expression::base64;
use super::{
    Budget, EvaluationError, Expression, Json, JsonError, JsonErrorKind, Needs, Object, Selection,
    Text, Unfit, is_nothing,
};

/// A JSON value and the memory that is left for the results of expressions on it.
///
/// The value and all results together take at most the limit, so that a hostile payload cannot exhaust the process.
#[derive(Clone)]
pub struct ParsedPayload {
    json: Json,
    budget: Budget,
}

impl ParsedPayload {
    /// Reads a JSON text. Its values and the results of [`select`](Self::select) take at most `memory_limit` bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Json::parse`], and [`JsonErrorKind::TooLarge`](super::JsonErrorKind::TooLarge) if the values take
    /// more memory than the limit.
    pub fn parse(text: &str, memory_limit: usize) -> Result<Self, JsonError> {
        let mut budget = Budget::new(memory_limit);
        let json = Json::parse_within(text.as_bytes(), &mut budget)?;
        Ok(Self { json, budget })
    }

    /// Returns the value.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// Evaluates an expression on the value.
    ///
    /// # Errors
    ///
    /// Returns an error if the expression fails on this value, or if its result takes more memory than is left.
    pub fn select(&mut self, expression: &Expression) -> Result<Selection, EvaluationError> {
        expression.select_within(&self.json, &mut self.budget)
    }

    /// Evaluates an expression of which every part is compared. A part is missing if it is null, or holds nulls alone.
    ///
    /// # Errors
    ///
    /// As [`select`](Self::select).
    pub fn select_compared(
        &mut self,
        expression: &Expression,
    ) -> Result<Selection, EvaluationError> {
        let mut selection = expression.select_for(&self.json, &mut self.budget, true)?;
        if selection.missing.is_empty() && is_nothing(&selection.value) {
            selection.missing.push(expression.as_str().into());
        }
        Ok(selection)
    }
}

/// What some expressions look at in a payload. An entry point joins its expressions once, and reads each payload by that.
///
/// The expressions have the same results as on the whole payload, and only what they look at takes memory.
pub struct PayloadReader {
    needs: Needs,
    decodes_body: bool,
}

/// The members of an HTTP event that say what its body is.
const BODY: &[u8] = b"body";
const ENCODED: &[u8] = b"isBase64Encoded";

impl PayloadReader {
    /// Returns the reader for these expressions.
    pub fn of<'e>(expressions: impl IntoIterator<Item = &'e Expression>) -> Self {
        let needs = expressions
            .into_iter()
            .map(|expression| expression.needs().clone())
            .fold(Needs::Kind, Needs::and);
        Self {
            needs,
            decodes_body: false,
        }
    }

    /// Decodes the `body` of an event whose `isBase64Encoded` is true, if it is base64 of a text. The expressions see the text, as of a
    /// request that the platform does not encode.
    #[must_use]
    pub fn decoding_body(self) -> Self {
        let encoded = Needs::member(Text::from_trusted(ENCODED.to_vec()), Needs::Kind);
        Self {
            needs: self.needs.and(encoded),
            decodes_body: true,
        }
    }

    /// Reads what the expressions look at from a JSON text.
    pub fn read(&self, text: &str, memory_limit: usize) -> Result<ParsedPayload, JsonError> {
        let mut budget = Budget::new(memory_limit);
        let json = self.needs.read(text.as_bytes(), &mut budget)?;
        Ok(self.payload(json, budget))
    }

    fn payload(&self, json: Json, mut budget: Budget) -> ParsedPayload {
        let json = match json {
            Json::Object(members) if self.decodes_body => {
                Json::Object(decoded(members, &mut budget))
            }
            json => json,
        };
        ParsedPayload { json, budget }
    }

    /// Takes what the expressions look at from a value, as if its JSON text were read.
    ///
    /// The rest of the value is skipped: no text is made of it.
    pub fn take<T: Serialize + ?Sized>(
        &self,
        from: &T,
        memory_limit: usize,
    ) -> Result<ParsedPayload, JsonError> {
        let mut budget = Budget::new(memory_limit);
        match self.needs.take(from, &mut budget) {
            Ok(json) => Ok(self.payload(json, budget)),
            Err(Unfit::Number) => Err(JsonError::of_value(JsonErrorKind::NumberLost)),
            // Its text is read, which has the value or the error. The error of serde is not shown: it may quote the payload.
            Err(Unfit::Text) => self.read(
                &serde_json::to_string(from).unwrap_or_default(),
                memory_limit,
            ),
        }
    }
}

/// Returns the event with its body as a text. A body that is no base64 of a text stays as it was sent.
fn decoded(members: Object, budget: &mut Budget) -> Object {
    let (Some(Json::Bool(true)), Some(Json::Str(body))) = (members.get(ENCODED), members.get(BODY))
    else {
        return members;
    };
    let mut within = budget.clone();
    let Ok(body) = base64(body, &mut within) else {
        return members;
    };
    *budget = within;
    let mut body = Some(Json::Str(body));
    let mut entries = members.into_entries();
    for (name, value) in &mut entries {
        match name.as_bytes() {
            BODY => *value = body.take().unwrap_or(Json::Null),
            ENCODED => *value = Json::Bool(false),
            _ => {}
        }
    }
    Object::from_entries(entries)
}

impl fmt::Debug for ParsedPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParsedPayload({})", self.json.type_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_results_share_one_limit() {
        let text = format!("[{}]", vec!["\"0123456789\""; 100].join(","));
        assert_eq!(
            ParsedPayload::parse(&text, 1024).unwrap_err().kind(),
            JsonErrorKind::TooLarge
        );
        let mut payload = ParsedPayload::parse(&text, 16 * 1024).unwrap();
        let all = Expression::compile("[@, @, @, @]").unwrap();
        assert_eq!(payload.select(&all).unwrap_err(), EvaluationError::TooLarge);
        let first = Expression::compile("[0]").unwrap();
        assert_eq!(
            payload.select(&first).unwrap().value.as_str(),
            Some("0123456789")
        );
    }

    #[test]
    fn a_value_is_read_as_its_text_is() {
        let id = Expression::compile("order.id").unwrap();
        let reader = PayloadReader::of([&id]);
        let value = serde_json::json!({ "note": [1, 2], "order": { "id": 7, "lines": ["a"] } });
        let taken = reader.take(&value, 1024).unwrap();
        let read = reader.read(&value.to_string(), 1024).unwrap();
        assert_eq!(taken.json().to_canonical(), r#"{"order": {"id": 7}}"#);
        assert_eq!(taken.json(), read.json());
    }

    #[test]
    fn a_value_in_which_numbers_became_one_float_is_refused() {
        let claim = Expression::compile("claims.sub").unwrap();
        let event: serde_json::Value =
            serde_json::from_str(r#"{"claims": {"sub": 12345678901234567890123}}"#).unwrap();
        let error = PayloadReader::of([&claim]).take(&event, 1024).unwrap_err();
        assert_eq!(error.kind(), JsonErrorKind::NumberLost);
    }

    #[test]
    fn a_value_without_a_json_text_is_refused() {
        let all = Expression::compile("@").unwrap();
        let no_json = std::collections::BTreeMap::from([(vec![1], 2)]);
        let error = PayloadReader::of([&all]).take(&no_json, 1024).unwrap_err();
        assert_eq!(error.kind(), JsonErrorKind::ExpectedValue);
    }

    #[test]
    fn debug_shows_the_type_alone() {
        let payload = ParsedPayload::parse("[\"secret\"]", 1024).unwrap();
        assert_eq!(format!("{payload:?}"), "ParsedPayload(array)");
        assert_eq!(payload.json().type_name(), "array");
    }
}
