//! Which parts of a multi-select a payload does not have.

use std::sync::Arc;

/// The most parts that are named: a message shows them, and a projection can meet one part for each element.
const MOST: usize = 8;

/// The parts that were missing in one evaluation, in the order of the expression.
///
/// A part of `[a, b]` or `{x: a}` is missing where its value alone would be no key. Parts inside a condition (a filter,
/// a comparison, `!`) do not become a part of the value and are not noted.
#[derive(Debug, Default)]
pub(super) struct Missing(Vec<Arc<str>>);

impl Missing {
    /// Returns the place to go back to with [`forget_since`](Self::forget_since).
    pub(super) fn mark(&self) -> usize {
        self.0.len()
    }

    /// Forgets what was noted since `mark`: it does not become a part of the value.
    pub(super) fn forget_since(&mut self, mark: usize) {
        self.0.truncate(mark);
    }

    /// Notes a part, unless a part inside it was noted since `mark`, which is more precise.
    pub(super) fn note(&mut self, mark: usize, part: &Arc<str>) {
        if self.0.len() == mark && mark < MOST {
            self.0.push(Arc::clone(part));
        }
    }

    /// Returns the names of the parts, each once.
    pub(super) fn into_names(self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for part in self.0 {
            if !names.contains(&part) {
                names.push(part);
            }
        }
        names
    }
}
