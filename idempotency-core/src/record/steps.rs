//! The recorded results of the steps of a call.

use std::collections::BTreeMap;

use super::Data;

/// The recorded results of steps, each under the name of its step. Its `Debug` shows the names, and the lengths of the results.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::{Data, RecordedSteps};
/// let steps: RecordedSteps = [("reserve".to_owned(), Data::new("7"))].into_iter().collect();
/// assert_eq!(steps.get("reserve"), Some(&Data::new("7")));
/// assert_eq!(steps.get("charge"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordedSteps(BTreeMap<String, Data>);

impl RecordedSteps {
    /// Returns the recorded result of the step with this name.
    pub fn get(&self, name: &str) -> Option<&Data> {
        self.0.get(name)
    }

    /// Records the result of a step. A result of the same name is replaced.
    pub fn insert(&mut self, name: impl Into<String>, result: Data) {
        self.0.insert(name.into(), result);
    }

    /// Returns each step with its result, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Data)> {
        self.0.iter().map(|(name, result)| (name.as_str(), result))
    }

    /// Returns the number of recorded steps.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no step is recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Data)> for RecordedSteps {
    fn from_iter<T: IntoIterator<Item = (String, Data)>>(steps: T) -> Self {
        Self(steps.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_under_its_name_and_replaced_under_the_same_name() {
        let mut steps = RecordedSteps::default();
        assert!(steps.is_empty() && steps.get("a").is_none());
        steps.insert("b", Data::new("1"));
        steps.insert("a", Data::new("2"));
        steps.insert("b", Data::new("3"));
        let all: Vec<_> = steps.iter().collect();
        assert_eq!(all, [("a", &Data::new("2")), ("b", &Data::new("3"))]);
        assert_eq!((steps.len(), steps.is_empty()), (2, false));
    }

    #[test]
    fn the_debug_output_of_steps_shows_no_result() {
        let mut steps = RecordedSteps::default();
        steps.insert("charge", Data::new(r#""s3cr3t""#));
        let text = format!("{steps:?}");
        assert!(text.contains("charge") && !text.contains("s3cr3t"));
    }
}
