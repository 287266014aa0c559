//! Earlier states of records, for eventual reads that are stale.

use std::collections::{HashMap, VecDeque};

use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::StoreReply;

/// The states of each record before its last writes, the oldest first.
#[derive(Default)]
pub(super) struct History {
    writes: usize,
    states: HashMap<RecordId, VecDeque<Option<Record>>>,
}

impl History {
    /// Returns a history that keeps as many states of each record. With 0 it keeps none.
    pub(super) fn of_the_last(writes: usize) -> Self {
        Self {
            writes,
            states: HashMap::new(),
        }
    }

    /// Returns true if states are kept.
    pub(super) fn is_kept(&self) -> bool {
        self.writes > 0
    }

    /// Notes the record before a write that was applied. A read that failed leaves a gap.
    pub(super) fn note(&mut self, id: &RecordId, before: StoreReply) {
        let StoreReply::Found { record: before, .. } = before else {
            return;
        };
        let states = self.states.entry(id.clone()).or_default();
        states.push_back(before);
        if states.len() > self.writes {
            states.pop_front();
        }
    }

    /// Returns the oldest kept state of a record, or `None` if no write of it was noted.
    pub(super) fn earlier(&self, id: &RecordId) -> Option<Option<Record>> {
        self.states.get(id)?.front().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_before_the_last_writes_is_kept_for_each_record() {
        let (id, other) = (RecordId::new("a#1"), RecordId::new("a#2"));
        let mut history = History::of_the_last(2);
        assert!(history.is_kept() && !History::default().is_kept());
        assert_eq!(history.earlier(&id), None);
        history.note(&id, StoreReply::found(None));
        assert_eq!(history.earlier(&id), Some(None));
        history.note(&id, StoreReply::found(Some(Record::default())));
        assert_eq!(history.earlier(&id), Some(None));
        history.note(&id, StoreReply::found(None));
        assert_eq!(history.earlier(&id), Some(Some(Record::default())));
        assert_eq!(history.earlier(&other), None);
    }
}
