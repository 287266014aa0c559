//! The recorded results of the steps of a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Data;

/// The recorded results of steps, each under the name of its step. Its `Debug` shows the names, and the lengths of the results.
/// A clone shares the results.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::{Data, RecordedSteps};
/// let steps: RecordedSteps = [("reserve".to_owned(), Data::new("7"))].into_iter().collect();
/// assert_eq!(steps.iter().collect::<Vec<_>>(), [("reserve", &Data::new("7"))]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordedSteps(Option<Arc<BTreeMap<String, Data>>>);

impl RecordedSteps {
    /// Records the result of a step. A result of the same name is replaced.
    pub fn insert(&mut self, name: impl Into<String>, result: Data) {
        let steps = self.0.get_or_insert_default();
        Arc::make_mut(steps).insert(name.into(), result);
    }

    /// Returns each step with its result, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Data)> {
        let steps = self.0.iter().flat_map(|steps| steps.iter());
        steps.map(|(name, result)| (name.as_str(), result))
    }
}

#[doc(hidden)]
impl RecordedSteps {
    /// Returns the number of recorded steps.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |steps| steps.len())
    }

    /// Returns true if no step is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the recorded result of the step with this name.
    pub fn get(&self, name: &str) -> Option<&Data> {
        self.0.as_ref()?.get(name)
    }

    /// Returns the length of all results, in bytes of JSON text.
    pub fn text_len(&self) -> usize {
        self.iter().map(|(_, result)| result.as_str().len()).sum()
    }
}

impl FromIterator<(String, Data)> for RecordedSteps {
    fn from_iter<T: IntoIterator<Item = (String, Data)>>(steps: T) -> Self {
        let steps: BTreeMap<_, _> = steps.into_iter().collect();
        // An empty map has one form, so that equal steps compare equal.
        Self((!steps.is_empty()).then(|| Arc::new(steps)))
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
        assert_eq!(steps.text_len(), 2);
    }

    #[test]
    fn a_step_that_is_recorded_in_a_clone_is_not_in_the_other_one() {
        let mut steps: RecordedSteps = [("a".to_owned(), Data::new("1"))].into_iter().collect();
        let before = steps.clone();
        steps.insert("b", Data::new("2"));
        assert_eq!((before.len(), steps.len()), (1, 2));
    }

    #[test]
    fn empty_results_are_equal_however_they_were_made() {
        let none: RecordedSteps = std::iter::empty().collect();
        assert_eq!(none, RecordedSteps::default());
        assert!(none.is_empty() && none.iter().next().is_none());
    }

    #[test]
    fn the_debug_output_of_steps_shows_no_result() {
        let mut steps = RecordedSteps::default();
        steps.insert("charge", Data::new(r#""s3cr3t""#));
        let text = format!("{steps:?}");
        assert!(text.contains("charge") && !text.contains("s3cr3t"));
    }
}
