//! The duplicates inside one batch: records with one key run one after the other, and those with one payload run once.
//!
//! Otherwise the second record would be refused as in progress while the first one runs, and be delivered again without need. Where the
//! response of a record is not stored, the next one of its payload runs too, as it would in another batch.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::Hash;

/// The records of a batch by their keys `K` and payloads `V`. `T` is a record that waits.
///
/// Each step looks up one key and one payload: the sender of a queue chooses both, so the work must not grow with the square of
/// the records of one key.
#[derive(Debug)]
pub(super) struct Duplicates<K, V, T> {
    records: HashMap<(K, V), SameRecords<T>>,
    /// The payloads that wait for the record that runs, of each key with such a record.
    waiting: HashMap<K, VecDeque<V>>,
    /// The key and payload of each record that runs.
    running: HashMap<usize, (K, V)>,
}

/// The records with one key and one payload.
#[derive(Debug)]
struct SameRecords<T> {
    /// How the one that ran ended: true if it is acknowledged.
    ended: Option<bool>,
    /// The records that wait, by their places.
    waiting: VecDeque<(usize, T)>,
}

/// What to do with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn<T> {
    /// Run it.
    Run(T),
    /// Wait for the record that runs.
    Wait,
    /// It is a duplicate of a record that ended: true if that one is acknowledged.
    Share(bool),
}

impl<K, V, T> Default for Duplicates<K, V, T> {
    fn default() -> Self {
        Self {
            records: HashMap::new(),
            waiting: HashMap::new(),
            running: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone + Eq + Hash, T> Duplicates<K, V, T> {
    /// Returns what to do with the record at this place.
    ///
    /// A record with the key and payload of another record shares its end. A record with the same key and another payload waits until no
    /// record of the key runs, and gets a call of its own: the protocol decides about it.
    pub(super) fn admit(&mut self, at: usize, key: K, payload: V, record: T) -> Turn<T> {
        let call = self.records.entry((key.clone(), payload.clone()));
        let is_first = matches!(call, Entry::Vacant(_));
        let call = call.or_insert_with(|| SameRecords {
            ended: None,
            waiting: VecDeque::new(),
        });
        if let Some(done) = call.ended {
            return Turn::Share(done);
        }
        if is_first {
            match self.waiting.entry(key) {
                Entry::Occupied(payloads) => payloads.into_mut().push_back(payload),
                Entry::Vacant(key) => {
                    self.running.insert(at, (key.key().clone(), payload));
                    key.insert(VecDeque::new());
                    return Turn::Run(record);
                }
            }
        }
        call.waiting.push_back((at, record));
        Turn::Wait
    }

    /// Ends the record at this place. Returns the places that share its end, and the record with its key that runs next.
    ///
    /// `done` is true if it is acknowledged. `None` says nothing of the other records with its payload: each gets a call of its own.
    pub(super) fn end(
        &mut self,
        at: usize,
        done: Option<bool>,
    ) -> (Vec<usize>, Option<(usize, T)>) {
        let Some(ended) = self.running.remove(&at) else {
            return (Vec::new(), None);
        };
        let mut shares = Vec::new();
        if let Entry::Occupied(mut call) = self.records.entry(ended.clone()) {
            match done {
                Some(_) => {
                    call.get_mut().ended = done;
                    shares.extend(call.get_mut().waiting.drain(..).map(|(at, _)| at));
                }
                None if call.get().waiting.is_empty() => drop(call.remove()),
                None => {
                    let payloads = self.waiting.entry(ended.0.clone());
                    payloads.or_default().push_back(ended.1);
                }
            }
        }
        (shares, self.next(ended.0))
    }

    /// Starts the record of this key that waits longest.
    fn next(&mut self, key: K) -> Option<(usize, T)> {
        let Some(payload) = self.waiting.get_mut(&key)?.pop_front() else {
            self.waiting.remove(&key);
            return None;
        };
        let starts = (key, payload);
        let next = self.records.get_mut(&starts)?.waiting.pop_front()?;
        self.running.insert(next.0, starts);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    #[test]
    fn a_record_with_another_payload_gets_a_call_of_its_own_after_the_first() {
        let mut duplicates = Duplicates::default();
        assert_eq!(duplicates.admit(0, "k", 10, 0), Turn::Run(0));
        for (at, payload) in [(1, 99), (2, 99), (3, 10), (4, 77)] {
            assert_eq!(duplicates.admit(at, "k", payload, at), Turn::Wait);
        }
        assert_eq!(duplicates.end(0, Some(true)), (vec![3], Some((1, 1))));
        assert_eq!(duplicates.admit(5, "k", 10, 5), Turn::Share(true));
        assert_eq!(duplicates.admit(6, "k", 55, 6), Turn::Wait);
        assert_eq!(duplicates.end(1, Some(false)), (vec![2], Some((4, 4))));
        assert_eq!(duplicates.end(4, Some(true)), (vec![], Some((6, 6))));
        assert_eq!(duplicates.end(6, Some(true)), (vec![], None));
        assert_eq!(duplicates.admit(7, "k", 99, 7), Turn::Share(false));
        assert_eq!(duplicates.admit(8, "k", 11, 8), Turn::Run(8));
    }

    #[test]
    fn a_record_whose_end_is_not_shared_is_followed_by_each_other_of_its_payload() {
        let mut duplicates = Duplicates::default();
        assert_eq!(duplicates.admit(0, "k", 10, 0), Turn::Run(0));
        for (at, payload) in [(1, 10), (2, 99), (3, 10)] {
            assert_eq!(duplicates.admit(at, "k", payload, at), Turn::Wait);
        }
        assert_eq!(duplicates.end(0, None), (vec![], Some((2, 2))));
        assert_eq!(duplicates.end(2, None), (vec![], Some((1, 1))));
        assert_eq!(duplicates.admit(4, "k", 99, 4), Turn::Wait);
        assert_eq!(duplicates.end(1, None), (vec![], Some((4, 4))));
        // From here on the end of the payload counts.
        assert_eq!(duplicates.end(4, Some(true)), (vec![], Some((3, 3))));
        assert_eq!(duplicates.end(3, None), (vec![], None));
        assert_eq!(duplicates.admit(5, "k", 99, 5), Turn::Share(true));
        assert_eq!(duplicates.admit(6, "k", 10, 6), Turn::Run(6));
        assert_eq!(duplicates.end(6, Some(false)), (vec![], None));
        assert_eq!(duplicates.admit(7, "k", 10, 7), Turn::Share(false));
    }

    /// A payload that counts how often it is compared or hashed.
    #[derive(Clone, Debug)]
    struct Counted<'a>(usize, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.1.set(self.1.get() + 1);
            self.0.hash(state);
        }
    }

    #[test]
    fn the_work_for_one_key_with_many_payloads_grows_with_the_number_of_records() {
        for records in [100, 1_000] {
            let work = Cell::new(0);
            let mut duplicates = Duplicates::default();
            for at in 0..records {
                duplicates.admit(at, "hot", Counted(at, &work), ());
            }
            let mut next = Some((0, ()));
            while let Some((at, ())) = next {
                next = duplicates.end(at, Some(at % 2 == 0)).1;
            }
            // A map that grows hashes its keys again.
            assert!(work.get() < 20 * records, "{} for {records}", work.get());
        }
    }
}
