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
    assert!(plan.is_untouched(2));
    assert_eq!(plan.why_untouched(), Why::Behind);
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
    assert_eq!(plan.why_untouched(), Why::NoTime);
}

#[test]
fn an_empty_batch_has_nothing_to_return() {
    let mut plan = queue("");
    assert_eq!(plan.start(), None);
    assert!(plan.returned().is_empty());
}
