//! The order of a batch: which record can start next, and which records are returned.
//!
//! It decides nothing about a single record. It gets the place of each record in the batch, and how the record ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::verdict::Why;

/// Which lane and which group of its batch a record belongs to.
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
    /// It has not ended, and may have started.
    Open,
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
    /// Returns the plan of a batch. The positions are in the order of the batch.
    pub(super) fn new(positions: Vec<Position>) -> Self {
        let mut lane_numbers = BTreeMap::new();
        let mut group_numbers = BTreeMap::new();
        let mut plan = Self {
            states: vec![State::Open; positions.len()],
            lanes: Vec::with_capacity(positions.len()),
            groups: Vec::with_capacity(positions.len()),
            behind: Vec::new(),
            heads: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
            stopped: false,
        };
        for (at, Position { lane, group }) in positions.into_iter().enumerate() {
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

    /// Returns true if an earlier record of its lane is returned. The source then delivers this record again, also if it is
    /// done.
    pub(super) fn is_behind(&self, at: usize) -> bool {
        self.checkpoint(at).is_some_and(|first| at > first)
    }

    /// Returns why a record did not run and is returned, or `None` if it ended.
    pub(super) fn why_not_run(&self, at: usize) -> Option<Why> {
        match self.states[at] {
            State::Done | State::Returned => None,
            State::Open if self.stopped => Some(Why::NoTime),
            State::Open => Some(Why::Behind),
        }
    }

    /// Returns the places that the partial batch response must name, in the order of the batch.
    ///
    /// A lane has one such place: its first record that is not done. The source delivers this record and all after it again.
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

    /// Plays a course on a plan. Each record is its lane and its group, where `.` is none. `s` starts all records that can start, `s1` one
    /// of them, `+2` ends record 2 as done, `-2` as not done, and `!` stops the batch. Returns the records that started at each `s`, and
    /// those that are returned.
    fn play(records: &str, steps: &str) -> (String, Vec<usize>, Plan) {
        let name = |letter: char| (letter != '.').then(|| letter.to_string());
        let positions = records.split_whitespace().map(|record| {
            let mut letters = record.chars();
            Position {
                lane: letters.next().and_then(name),
                group: letters.next().and_then(name),
            }
        });
        let mut plan = Plan::new(positions.collect());
        let mut started = Vec::new();
        for step in steps.split(' ') {
            let at = || step[1..].parse().unwrap();
            match &step[..1] {
                "+" => plan.end(at(), true),
                "-" => plan.end(at(), false),
                "!" => plan.stop(),
                _ => {
                    let most = step[1..].parse().unwrap_or(usize::MAX);
                    let all = std::iter::from_fn(|| plan.start()).take(most);
                    let all: Vec<_> = all.map(|at| at.to_string()).collect();
                    started.push(all.join(","));
                }
            }
        }
        (started.join(" "), plan.returned(), plan)
    }

    /// Records | steps | the records that start | those that are returned | why.
    const COURSES: &str = "\
.. .. .. .. | s -2 +0 +3 -1 | 0,1,2,3 | 1 2 | no group
.a .a .b .a .b | s +2 s +0 s +1 +4 s +3 | 0,2 4 1 3 | | a group runs one record at a time
.a .b .a .b | s -0 +1 s +3 s | 0,1 3 | 0 2 | after a failure only the rest of the group is returned without a run
xa xa xa xa | s +0 s -1 s | 0 1 | 1 | the checkpoint of a shard is its first record that is not done
xa xb xa xc | s1 s1 s1 -3 +0 s1 -1 +2 | 0 1 3 2 | 1 | after a failure a shard starts only records before it
xa xb xb xc | s -0 -3 +1 s1 | 0,1,3 | 0 | a later failure does not move the checkpoint forward
xa xb xb xb | s1 -0 s | 0 | 0 | after the checkpoint nothing starts, nor what is behind it
xs ys xs ys ys | s -0 +1 s -3 s | 0,1 3 | 0 3 | each shard has a checkpoint and groups of its own
.. .. | s1 ! s +0 | 0 | 1 | after a stop nothing starts
 | s | | | an empty batch";

    #[test]
    fn records_start_in_the_order_of_their_groups_and_lanes_and_the_rest_is_returned() {
        for course in COURSES.lines() {
            let cells: Vec<_> = course.split('|').map(str::trim).collect();
            let [records, steps, starts, returned, _] = cells[..] else {
                panic!("{course}");
            };
            let (started, left, _) = play(records, steps);
            let left: Vec<_> = left.iter().map(usize::to_string).collect();
            assert_eq!(
                (started.trim(), &*left.join(" ")),
                (starts, returned),
                "{course}"
            );
        }
    }

    #[test]
    fn a_record_that_did_not_run_is_behind_another_or_had_no_time() {
        let (.., plan) = play(".a .b .a .b", "s -0 +1 s +3 s");
        assert_eq!(plan.why_not_run(2), Some(Why::Behind));
        assert_eq!(plan.why_not_run(0), None);
        let (.., plan) = play(".. ..", "s1 ! +0");
        assert_eq!(plan.why_not_run(1), Some(Why::NoTime));
        let (.., plan) = play("xa xb xc", "s -1");
        assert_eq!([0, 1, 2].map(|at| plan.is_behind(at)), [false, false, true]);
    }
}
