//! The undoing of recorded steps: what the record says of it, and what the end of a run says.
//!
//! The handler decides that its key cannot go on, and gives the final response. One fenced write records the decision: the status
//! `UNDOING`, the response, and the steps in the order in which they are undone. No run goes forward after it. Versions that do not know
//! the status refuse the record, as libraries in other languages do.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::record::Record;
use crate::typed;

/// In how many runs in a row undoing may fail before an operator must decide.
const MOST_FAILURES: u32 = 3;

/// How far the steps of a key are undone. A record has it as JSON text, in its attribute `undo`.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::Undoing;
/// let undoing = Undoing::from_json(r#"{"left":["reserve"],"undone":["charge"]}"#).unwrap();
/// assert_eq!((&*undoing.left, &*undoing.undone), (&["reserve".to_owned()][..], &["charge".to_owned()][..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undoing {
    /// The steps that are not undone yet, the next one first.
    pub left: Vec<String>,
    /// The steps that are undone, the first one first.
    pub undone: Vec<String>,
    /// In how many runs since the last progress undoing has failed.
    #[serde(default)]
    pub failures: u32,
    /// True if an operator must decide.
    #[serde(default)]
    pub held: bool,
}

impl Undoing {
    /// Returns the undoing in the text of a record, or `None` if the text is not one.
    pub fn from_json(text: &str) -> Option<Self> {
        typed::read(text).ok()
    }

    /// Returns the undoing of this record, if it can be read.
    pub fn of(record: &Record) -> Option<Self> {
        Self::from_json(record.undo.value()?)
    }

    /// Returns the text that a record holds. The members are in alphabetical order, without those that are zero or false.
    pub fn to_json(&self) -> String {
        let mut stored = json!({ "left": self.left, "undone": self.undone });
        if self.failures > 0 {
            stored["failures"] = self.failures.into();
        }
        if self.held {
            stored["held"] = Value::Bool(true);
        }
        stored.to_string()
    }

    /// Returns the undoing after its next step was undone.
    #[must_use]
    pub(super) fn after_undo(&self) -> Self {
        let (next, left) = self.left.split_at(self.left.len().min(1));
        Self {
            left: left.to_vec(),
            undone: self.undone.iter().chain(next).cloned().collect(),
            failures: 0,
            held: false,
        }
    }

    /// Returns the undoing after a run in which it failed. `holds` says that an operator must decide at once.
    #[must_use]
    pub(super) fn after_failure(&self, holds: bool) -> Self {
        let failures = self.failures.saturating_add(1);
        Self {
            failures,
            held: holds || failures >= MOST_FAILURES,
            ..self.clone()
        }
    }

    /// Returns the undoing after an operator has decided that it goes on.
    #[must_use]
    pub(super) fn released(self) -> Self {
        Self {
            failures: 0,
            held: false,
            ..self
        }
    }
}

/// What the end of a run says of undoing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct HandlerUndo {
    /// True if the handler decided that its steps are undone.
    pub decided: bool,
    /// The steps whose results this run got together with a way to undo them, the last one first.
    pub undoable: Vec<String>,
    /// The recorded steps that the run did not ask for, and those with an undo whose results it did not get. Only a run that gets them
    /// could say how they are undone. Also the steps that it asked for after its decision.
    pub unreached: Vec<String>,
}

impl HandlerUndo {
    /// Returns the decision of a handler that has no steps.
    pub(crate) fn nothing() -> Self {
        Self {
            decided: true,
            ..Self::default()
        }
    }

    /// Returns true if the run had steps to undo, or may have had.
    pub(super) fn has_steps(&self) -> bool {
        !(self.undoable.is_empty() && self.unreached.is_empty())
    }
}

/// Returns these names as an error shows them. A record may have no room for more.
pub(super) fn named<'a>(steps: impl IntoIterator<Item = &'a String>) -> String {
    const MOST: usize = 3;
    let names: Vec<_> = steps.into_iter().map(String::as_str).collect();
    let (shown, more) = names.split_at(names.len().min(MOST));
    let shown = format!("`{}`", shown.join("`, `"));
    match more.len() {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// How the undo of one step ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UndoEnd {
    /// The step is undone.
    Undone,
    /// It returned an error: it reports that the step is not undone. Holds the name of the error's type.
    Failed(String),
    /// It panicked, so it did not report whether it had its effect.
    Panicked,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undoing(text: &str) -> Undoing {
        Undoing::from_json(text).expect("it is an undoing")
    }

    #[test]
    fn the_text_of_an_undoing_is_frozen() {
        for text in [
            r#"{"left":["charge","reserve"],"undone":[]}"#,
            r#"{"failures":2,"left":["reserve"],"undone":["charge"]}"#,
            r#"{"failures":3,"held":true,"left":["a \"b\""],"undone":[]}"#,
        ] {
            assert_eq!(undoing(text).to_json(), text);
        }
    }

    #[test]
    fn a_text_with_more_or_less_than_is_known_is_no_undoing() {
        for text in [
            "",
            "{}",
            "[[],[]]",
            r#"{"left":[]}"#,
            r#"{"left":[1],"undone":[]}"#,
            r#"{"left":[],"undone":[],"skipped":["charge"]}"#,
        ] {
            assert_eq!(Undoing::from_json(text), None, "{text}");
        }
    }

    #[test]
    fn progress_forgets_failures_and_the_third_in_a_row_waits_for_an_operator() {
        let begun = undoing(r#"{"left":["b","a"],"undone":[]}"#);
        let twice = begun.after_failure(false).after_failure(false);
        assert_eq!((twice.failures, twice.held), (2, false));
        let thrice = twice.after_failure(false);
        assert!(thrice.held && begun.after_failure(true).held);
        assert_eq!(thrice.released(), begun);
        let progress = undoing(r#"{"left":["a"],"undone":["b"]}"#);
        assert_eq!(twice.after_undo(), progress);
        let done = undoing(r#"{"left":[],"undone":["b","a"]}"#);
        assert_eq!(progress.after_undo(), done);
        assert_eq!(done.after_undo(), done);
    }

    #[test]
    fn a_text_names_three_steps_and_counts_the_others() {
        let names: Vec<String> = (1..=5).map(|number| format!("s{number}")).collect();
        assert_eq!(named(&names[..1]), "`s1`");
        assert_eq!(named(&names[..3]), "`s1`, `s2`, `s3`");
        assert_eq!(named(&names), "`s1`, `s2`, `s3`, and 2 more");
    }
}
