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

    /// Returns true if no further record starts.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns true if a record before this one, in its lane, is returned: the source delivers this one again, also if it is
    /// done.
    pub(super) fn is_behind(&self, at: usize) -> bool {
        self.checkpoint(at).is_some_and(|first| at > first)
    }

    /// Returns why a record is returned that did not run, or `None` if it ended.
    pub(super) fn why_not_run(&self, at: usize) -> Option<Why> {
        match self.states[at] {
            State::Done | State::Returned => None,
            State::Waiting | State::Started if self.stopped => Some(Why::NoTime),
            State::Waiting | State::Started => Some(Why::Behind),
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
mod tests {
    use super::*;

    fn position(lane: Option<&str>, group: Option<&str>) -> Position {
        Position {
            lane: lane.map(str::to_owned),
            group: group.map(str::to_owned),
        }
    }

    /// Returns a plan of a queue. Each letter is the group of a record; `.` is a record without a group.
    fn queue(groups: &str) -> Plan {
        let group = |letter: char| (letter != '.').then(|| letter.to_string());
        Plan::new(
            groups
                .chars()
                .map(|letter| Position {
                    lane: None,
                    group: group(letter),
                })
                .collect(),
        )
    }

    /// Returns a plan of one shard with these groups.
    fn shard(groups: &str) -> Plan {
        let places = groups.chars();
        Plan::new(
            places
                .map(|letter| position(Some("shard"), Some(&letter.to_string())))
                .collect(),
        )
    }

    /// Starts all records that can start now.
    fn start_all(plan: &mut Plan) -> Vec<usize> {
        std::iter::from_fn(|| plan.start()).collect()
    }

    #[test]
    fn records_without_a_group_start_at_once_and_are_returned_alone() {
        let mut plan = queue("....");
        assert_eq!(start_all(&mut plan), [0, 1, 2, 3]);
        for (at, done) in [(2, false), (0, true), (3, true), (1, false)] {
            plan.end(at, done);
        }
        assert_eq!(plan.returned(), [1, 2]);
    }

    #[test]
    fn a_group_runs_one_record_at_a_time_in_order() {
        let mut plan = queue("aabab");
        assert_eq!(start_all(&mut plan), [0, 2]);
        plan.end(2, true);
        assert_eq!(start_all(&mut plan), [4]);
        plan.end(0, true);
        assert_eq!(start_all(&mut plan), [1]);
        plan.end(1, true);
        plan.end(4, true);
        assert_eq!(start_all(&mut plan), [3]);
        plan.end(3, true);
        assert!(plan.returned().is_empty());
    }

    #[test]
    fn after_a_failure_only_the_rest_of_its_group_is_returned_without_a_run() {
        let mut plan = queue("abab");
        assert_eq!(start_all(&mut plan), [0, 1]);
        plan.end(0, false);
        plan.end(1, true);
        assert_eq!(start_all(&mut plan), [3]);
        plan.end(3, true);
        assert!(start_all(&mut plan).is_empty());
        assert_eq!(plan.returned(), [0, 2]);
        assert_eq!(plan.why_not_run(2), Some(Why::Behind));
        assert_eq!(plan.why_not_run(0), None);
    }

    #[test]
    fn the_checkpoint_of_a_shard_is_its_first_record_that_is_not_done() {
        let mut plan = shard("aaaa");
        assert_eq!(start_all(&mut plan), [0]);
        plan.end(0, true);
        assert_eq!(start_all(&mut plan), [1]);
        plan.end(1, false);
        assert!(start_all(&mut plan).is_empty());
        assert_eq!(plan.returned(), [1]);
    }

    #[test]
    fn after_a_failure_a_shard_starts_only_records_before_it() {
        // With partition keys: `a` has the records 0 and 2, `b` the record 1, `c` the record 3.
        let mut plan = shard("abac");
        assert_eq!(plan.start(), Some(0));
        assert_eq!(plan.start(), Some(1));
        assert_eq!(plan.start(), Some(3));
        plan.end(3, false);
        plan.end(0, true);
        assert_eq!(plan.start(), Some(2), "it is before the checkpoint");
        plan.end(1, false);
        plan.end(2, true);
        assert_eq!(plan.returned(), [1]);
    }

    #[test]
    fn a_later_failure_does_not_move_the_checkpoint_forward() {
        let mut plan = shard("abbc");
        for at in [0, 1, 3] {
            assert_eq!(plan.start(), Some(at));
        }
        plan.end(0, false);
        plan.end(3, false);
        plan.end(1, true);
        assert_eq!(plan.start(), None, "the checkpoint is the record 0");
        assert_eq!(plan.returned(), [0]);
    }

    #[test]
    fn a_record_after_the_checkpoint_does_not_start_and_neither_do_those_behind_it() {
        let mut plan = shard("abbb");
        assert_eq!(plan.start(), Some(0));
        plan.end(0, false);
        assert!(start_all(&mut plan).is_empty());
        assert_eq!(plan.returned(), [0]);
    }

    #[test]
    fn each_shard_has_a_checkpoint_and_groups_of_its_own() {
        let lanes = ["x", "y", "x", "y", "y"].map(|lane| position(Some(lane), Some("same")));
        let mut plan = Plan::new(lanes.to_vec());
        assert_eq!(start_all(&mut plan), [0, 1]);
        plan.end(0, false);
        plan.end(1, true);
        assert_eq!(start_all(&mut plan), [3]);
        plan.end(3, false);
        assert!(start_all(&mut plan).is_empty());
        assert_eq!(plan.returned(), [0, 3]);
    }

    #[test]
    fn after_a_stop_nothing_starts_and_the_rest_is_returned() {
        let mut plan = queue("..");
        assert_eq!(plan.start(), Some(0));
        plan.stop();
        assert_eq!(plan.start(), None);
        plan.end(0, true);
        assert_eq!(plan.returned(), [1]);
        assert_eq!(plan.why_not_run(1), Some(Why::NoTime));
    }

    #[test]
    fn an_empty_batch_has_nothing_to_return() {
        let mut plan = queue("");
        assert_eq!(plan.start(), None);
        assert!(plan.returned().is_empty());
    }
}
