//! Selects and hashes the parts of a payload that identify a call.
//!
//! Functions and the tools that show keys share this implementation, so both compute the same key.

use std::borrow::Cow;
use std::sync::Arc;

use super::canonical::{CANONICAL, Layout, PYTHON_CANONICAL};
use super::needs::Needs;
use super::tape;
use super::{Budget, EvaluationError, Expression, HashAlgorithm, Json, is_absent_key, is_nothing};

/// The expressions and the hash algorithm that identify the calls of an operation.
///
/// # Examples
///
/// ```
/// use idempotency_core::key::{Expression, HashAlgorithm, Json, Selector};
///
/// let selector = Selector::new(Some(Expression::compile("order_id")?), None, HashAlgorithm::Md5);
/// let payload = Json::parse(r#"{"order_id": 7, "note": "a"}"#)?;
/// let key = selector.key(&payload)?.expect("the payload has an order_id");
/// assert_eq!(key.text(), "7");
/// assert_eq!(key.digest(), HashAlgorithm::Md5.hex("7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Selector {
    key: Option<Expression>,
    validate: Option<Expression>,
    hash: HashAlgorithm,
    /// The layout of the texts that are hashed.
    layout: &'static Layout,
    /// What the expressions look at in a payload.
    needs: Needs,
}

/// The part of a payload that is its key.
#[derive(Debug)]
pub struct SelectedKey<'a> {
    value: Cow<'a, Json>,
    missing: Vec<Arc<str>>,
    hash: HashAlgorithm,
    layout: &'static Layout,
}

/// The digest of the validated part of a payload.
pub(crate) struct Validation {
    pub(crate) hash: String,
    /// True if `validate` selects nothing.
    pub(crate) of_nothing: bool,
    /// The parts of `validate` that select nothing.
    pub(crate) missing: Vec<Arc<str>>,
}

impl Selector {
    /// Creates a selector. Without a `key` expression the whole payload is the key; without `validate` nothing is validated.
    pub fn new(key: Option<Expression>, validate: Option<Expression>, hash: HashAlgorithm) -> Self {
        let whole = Needs::All;
        let needs = key.as_ref().map_or(&whole, Expression::needs).clone();
        let validated = validate.as_ref().map_or(&Needs::Kind, Expression::needs);
        Self {
            needs: needs.and(validated.clone()),
            key,
            validate,
            hash,
            layout: CANONICAL,
        }
    }

    /// Sets whether numbers with a fraction are written as in Python: as the nearest float, which two different numbers can share.
    /// Otherwise they keep their digits.
    pub fn with_python_numbers(mut self, python: bool) -> Self {
        self.layout = if python { PYTHON_CANONICAL } else { CANONICAL };
        for expression in self.key.iter_mut().chain(&mut self.validate) {
            expression.set_python_numbers(python);
        }
        self
    }

    /// Adds what a further expression looks at in a payload to what is read of it.
    pub(crate) fn reads_too(&mut self, needs: &Needs) {
        self.needs = std::mem::replace(&mut self.needs, Needs::All).and(needs.clone());
    }

    /// Selects the key of a payload; `None` if the payload has no key.
    pub fn key<'a>(&self, payload: &'a Json) -> Result<Option<SelectedKey<'a>>, EvaluationError> {
        self.key_within(payload, &mut Budget::of_one_evaluation())
    }

    /// Does what [`key`](Self::key) does, within the budget that the payload has left.
    pub(crate) fn key_within<'a>(
        &self,
        payload: &'a Json,
        budget: &mut Budget,
    ) -> Result<Option<SelectedKey<'a>>, EvaluationError> {
        let (value, missing) = match &self.key {
            None => (Cow::Borrowed(payload), Vec::new()),
            Some(expression) => {
                let selection = expression.select_within(payload, budget)?;
                (Cow::Owned(selection.value), selection.missing)
            }
        };
        Ok((!is_absent_key(&value)).then_some(SelectedKey {
            value,
            missing,
            hash: self.hash,
            layout: self.layout,
        }))
    }

    /// Returns the validation digest of a payload; `None` without a `validate` expression.
    pub fn validation(&self, payload: &Json) -> Result<Option<String>, EvaluationError> {
        let validation = self.validation_within(payload, &mut Budget::of_one_evaluation())?;
        Ok(validation.map(|validation| validation.hash))
    }

    /// Does what [`validation`](Self::validation) does, within the budget that the payload has left.
    pub(crate) fn validation_within(
        &self,
        payload: &Json,
        budget: &mut Budget,
    ) -> Result<Option<Validation>, EvaluationError> {
        let Some(expression) = &self.validate else {
            return Ok(None);
        };
        let part = expression.select_for(payload, budget, true)?;
        let lacks = !part.missing.is_empty();
        Ok(Some(Validation {
            hash: self.hash.hex_of_written((&part.value, self.layout)),
            of_nothing: is_nothing(&part.value) || lacks && is_absent_key(&part.value),
            missing: part.missing,
        }))
    }

    /// Returns the digest of the key of a payload, if the whole payload is the key and nothing is validated. After `None` the payload
    /// can still have a key: the caller reads its value.
    pub(crate) fn digest_of_whole(&self, text: &str, memory_limit: usize) -> Option<String> {
        match (&self.key, &self.validate) {
            (None, None) => tape::digest(text.as_bytes(), self.hash, self.layout, memory_limit),
            _ => None,
        }
    }

    /// Returns what the expressions look at in a payload. They have the same results on a payload of only that.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Returns the `key` expression, if there is one.
    pub(crate) fn key_expression(&self) -> Option<&Expression> {
        self.key.as_ref()
    }

    /// Returns the `validate` expression, if there is one.
    pub(crate) fn validate_expression(&self) -> Option<&Expression> {
        self.validate.as_ref()
    }
}

impl SelectedKey<'_> {
    /// Returns the hash of the key, in lower-case hexadecimal digits.
    pub fn digest(&self) -> String {
        self.hash.hex_of_written((&*self.value, self.layout))
    }

    /// Returns the canonical text that is hashed. It is part of the payload.
    pub fn text(&self) -> String {
        self.value.to_text(self.layout)
    }

    /// Returns the parts of the key that the payload does not have, each as written in the `key` expression.
    pub fn missing_parts(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(|part| &**part)
    }

    /// Drops the value and keeps the missing parts.
    pub(crate) fn into_missing(self) -> Vec<Arc<str>> {
        self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(key: Option<&str>, validate: Option<&str>) -> Selector {
        let compile = |text: &str| Expression::compile(text).unwrap();
        Selector::new(key.map(compile), validate.map(compile), HashAlgorithm::Md5)
    }

    #[test]
    fn the_whole_payload_is_the_key_without_an_expression() {
        let payload = Json::parse(r#"{"b": 2, "a": 1}"#).unwrap();
        let whole = selector(None, None);
        let key = whole.key(&payload).unwrap().unwrap();
        assert_eq!(key.text(), r#"{"a": 1, "b": 2}"#);
        assert_eq!(key.digest(), HashAlgorithm::Md5.hex(&key.text()));
        assert_eq!(key.missing_parts().count(), 0);
        assert_eq!(whole.validation(&payload), Ok(None));
        assert!(whole.key_expression().is_none() && whole.validate_expression().is_none());
    }

    #[test]
    fn a_key_has_its_value_and_its_missing_parts() {
        let payload = Json::parse(r#"{"a": 1}"#).unwrap();
        let parts = selector(Some("[a, b, c]"), None);
        let key = parts.key(&payload).unwrap().unwrap();
        assert_eq!(key.text(), "[1, null, null]");
        assert_eq!(key.missing_parts().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(key.into_missing().len(), 2);
        assert_eq!(parts.key_expression().unwrap().as_str(), "[a, b, c]");
        assert!(selector(Some("b"), None).key(&payload).unwrap().is_none());
        assert!(selector(Some("keys(a)"), None).key(&payload).is_err());
    }

    #[test]
    fn a_validated_part_that_selects_nothing_is_noticed() {
        let payload = r#"{"a": 1, "c": "", "d": [], "e": {}, "l": [{"p": 1}, {"p": null}], "n": [{"l": [{"p": 1}]}]}"#;
        let payload = Json::parse(payload).unwrap();
        for (validate, text, of_nothing, missing) in [
            ("a", "1", false, 0),
            ("b", "null", true, 0),
            ("[a, b]", "[1, null]", false, 1),
            ("[b, b.c]", "[null, null]", true, 2),
            ("[c, d, e]", r#"["", [], {}]"#, false, 0),
            ("[a, b || 'none']", r#"[1, "none"]"#, false, 0),
            ("[a, to_string(b)]", r#"[1, "null"]"#, false, 1),
            // An element may lack the part, and a list or what a filter keeps may be empty.
            ("l[*].p", "[1]", false, 0),
            ("d[*].p", "[]", false, 0),
            ("l[?p == `2`].q", "[]", false, 0),
            ("n[*].l[*].p", "[[1]]", false, 0),
            ("l[*].q || 'none'", r#""none""#, false, 0),
            ("l[*].q", "[]", true, 1),
            ("l[].q", "[]", true, 1),
            ("l[:1].q", "[]", true, 1),
            ("l[?p == `1`].q", "[]", true, 1),
            ("[a, l[*].q]", "[1, []]", false, 1),
            ("[a, n[*].l[*].q]", "[1, [[]]]", false, 1),
            ("n[*].l[].q", "[]", true, 1),
            ("[a, sum(l[*].q)]", "[1, 0]", false, 1),
            ("length(l[*].q)", "0", false, 1),
        ] {
            let selector = selector(None, Some(validate));
            let hash = HashAlgorithm::Md5.hex(text);
            assert_eq!(selector.validation(&payload), Ok(Some(hash)));
            let mut budget = Budget::of_one_evaluation();
            let part = selector.validation_within(&payload, &mut budget).unwrap();
            let part = part.unwrap();
            assert_eq!((part.of_nothing, part.missing.len()), (of_nothing, missing));
            assert_eq!(selector.validate_expression().unwrap().as_str(), validate);
        }
        assert!(
            selector(None, Some("keys(a)"))
                .validation(&payload)
                .is_err()
        );
    }
}
