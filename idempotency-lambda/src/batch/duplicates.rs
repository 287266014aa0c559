//! The duplicates inside one batch: records with one key run once.
//!
//! Without this, the second would be refused as in progress while the first runs, and be returned for nothing.

use std::collections::{HashMap, VecDeque};

use idempotency_core::operation::Identity;
use idempotency_core::record::RecordId;

/// The records of a batch by their keys. `T` is a record that waits.
#[derive(Debug)]
pub(super) struct Duplicates<T> {
    keys: HashMap<RecordId, Key<T>>,
    /// The key and identity of each record that runs.
    running: HashMap<usize, Identity>,
}

#[derive(Debug)]
struct Key<T> {
    /// True if a record with this key runs.
    runs: bool,
    /// The records that wait for it, by their places.
    waiting: VecDeque<(usize, Identity, T)>,
    /// How the records that ran ended: true if acknowledged.
    ended: Vec<(Identity, bool)>,
}

/// What to do with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meet<T> {
    /// Run it.
    Run(T),
    /// Wait for the record that runs.
    Wait,
    /// It is a duplicate of a record that ended: true if that one is acknowledged.
    Share(bool),
}

impl<T> Default for Duplicates<T> {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            running: HashMap::new(),
        }
    }
}

impl<T> Duplicates<T> {
    /// Returns what to do with the record at this place.
    ///
    /// A record is a duplicate if its whole identity is equal. With the same key and another validated part it gets its own
    /// call, one after the other, and the protocol decides.
    pub(super) fn meet(&mut self, at: usize, identity: &Identity, record: T) -> Meet<T> {
        let Some(id) = identity.key() else {
            return Meet::Run(record);
        };
        let key = self.keys.entry(id.clone()).or_insert_with(|| Key {
            runs: false,
            waiting: VecDeque::new(),
            ended: Vec::new(),
        });
        if let Some(done) = ended(&key.ended, identity) {
            return Meet::Share(done);
        }
        if key.runs {
            key.waiting.push_back((at, identity.clone(), record));
            return Meet::Wait;
        }
        key.runs = true;
        self.running.insert(at, identity.clone());
        Meet::Run(record)
    }

    /// Ends the record at this place. Returns what to do with those that waited for it.
    pub(super) fn end(&mut self, at: usize, done: bool) -> Vec<(usize, Meet<T>)> {
        let Some(identity) = self.running.remove(&at) else {
            return Vec::new();
        };
        let Some(key) = identity.key().and_then(|id| self.keys.get_mut(id)) else {
            return Vec::new();
        };
        key.runs = false;
        key.ended.push((identity, done));
        let mut decided = Vec::new();
        for (at, identity, record) in std::mem::take(&mut key.waiting) {
            if let Some(done) = ended(&key.ended, &identity) {
                decided.push((at, Meet::Share(done)));
            } else if key.runs {
                key.waiting.push_back((at, identity, record));
            } else {
                key.runs = true;
                self.running.insert(at, identity);
                decided.push((at, Meet::Run(record)));
            }
        }
        decided
    }
}

/// Returns how the record with this identity ended, if one did.
fn ended(ended: &[(Identity, bool)], identity: &Identity) -> Option<bool> {
    let mut ended = ended.iter();
    ended
        .find(|(known, _)| known == identity)
        .map(|(_, done)| *done)
}

#[cfg(test)]
mod tests;
