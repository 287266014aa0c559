//! The order of a batch: which record can start next, and which records are returned.
//!
//! It decides nothing about a single record. It is given the records by their places in the batch, and how each ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::verdict::Why;

/// Where a record is in its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The records of one lane share a checkpoint: after the first that is not done, all are delivered again. `None` if each
    /// record is acknowledged on its own.
    pub(crate) lane: Option<String>,
    /// The records of one group run in their order, one at a time. `None` if the record depends on no other.
    pub(crate) group: Option<String>,
}

/// How far a record got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Started,
    Done,
    Returned,
}

/// The order of the records of one batch.
#[derive(Debug)]
pub(super) struct Plan {
    states: Vec<State>,
    /// The lane of each record.
    lanes: Vec<Option<usize>>,
    /// The group of each record.
    groups: Vec<usize>,
    /// The records of each group that wait behind its head.
    behind: Vec<VecDeque<usize>>,
    /// The records that can start: the head of each group in which no record runs.
    heads: BTreeSet<usize>,
    /// The first record of each lane that is returned.
    checkpoints: BTreeMap<usize, usize>,
    stopped: bool,
}

impl Plan {
    /// Returns the plan of a batch. The places are in the order of the batch.
    pub(super) fn new(places: Vec<Position>) -> Self {
        let mut lane_numbers = BTreeMap::new();
        let mut group_numbers = BTreeMap::new();
        let mut plan = Self {
            states: vec![State::Waiting; places.len()],
            lanes: Vec::with_capacity(places.len()),
            groups: Vec::with_capacity(places.len()),
            behind: Vec::new(),
            heads: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
            stopped: false,
        };
        for (at, Position { lane, group }) in places.into_iter().enumerate() {
            let lane = lane.map(|lane| {
                let next = lane_numbers.len();
                *lane_numbers.entry(lane).or_insert(next)
            });
            let known = match group {
                // Two lanes can have groups of one name.
                Some(group) => *group_numbers
                    .entry((lane, group))
                    .or_insert(plan.behind.len()),
                None => plan.behind.len(),
            };
            if known == plan.behind.len() {
                plan.behind.push(VecDeque::new());
                plan.heads.insert(at);
            } else if let Some(behind) = plan.behind.get_mut(known) {
                behind.push_back(at);
            }
            plan.lanes.push(lane);
            plan.groups.push(known);
        }
        plan
    }

    /// Starts the next record and returns its place, or `None` if no record can start now.
    pub(super) fn start(&mut self) -> Option<usize> {
        while !self.stopped {
            let at = self.heads.pop_first()?;
            if !self.is_behind(at) {
                self.states[at] = State::Started;
                return Some(at);
            }
        }
        None
    }

    /// Ends a record that was started. `done` is true if it is acknowledged.
    pub(super) fn end(&mut self, at: usize, done: bool) {
        if done {
            self.states[at] = State::Done;
            let next = self.behind[self.groups[at]].pop_front();
            self.heads.extend(next);
            return;
        }
        self.states[at] = State::Returned;
        // The records behind it stay where they are: they are returned without a run.
        if let Some(lane) = self.lanes[at] {
            let first = self.checkpoints.entry(lane).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// Starts no further record.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Returns true if a record before this one, in its lane, is returned: the source delivers this one again, also if it is
    /// done.
    pub(super) fn is_behind(&self, at: usize) -> bool {
        self.checkpoint(at).is_some_and(|first| at > first)
    }

    /// Returns true if the record was never started.
    pub(super) fn is_untouched(&self, at: usize) -> bool {
        self.states[at] == State::Waiting
    }

    /// Returns why a record that was never started is returned.
    pub(super) fn why_untouched(&self) -> Why {
        if self.stopped {
            Why::NoTime
        } else {
            Why::Behind
        }
    }

    /// Returns the places that the partial batch response must name, in the order of the batch.
    ///
    /// Of a lane that is the first record that is not done: the source delivers it and all after it again.
    pub(super) fn returned(&self) -> Vec<usize> {
        let mut lanes = BTreeSet::new();
        let not_done = (0..self.states.len()).filter(|at| self.states[*at] != State::Done);
        not_done
            .filter(|at| self.lanes[*at].is_none_or(|lane| lanes.insert(lane)))
            .collect()
    }

    fn checkpoint(&self, at: usize) -> Option<usize> {
        self.checkpoints.get(&self.lanes[at]?).copied()
    }
}

#[cfg(test)]
mod tests;
