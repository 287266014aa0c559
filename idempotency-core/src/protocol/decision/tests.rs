use super::super::condition::held_by;
use super::super::fixtures::{NOW, call, claim_of, completed, me, now_plus, seconds};
use super::super::{RecordState, classify};
use super::*;
use crate::example::ready;
use crate::record::{RecordId, RecordedSteps};
use crate::store::{MemoryStore, SendLog, Store, StoreReply, StoreRequest};

fn decision(ending: Ending) -> Decision {
    Decision {
        ending,
        by: "ana".to_owned(),
        reason: "seen at the provider".to_owned(),
    }
}

fn responds(text: &str) -> Ending {
    Ending::Completed {
        response: Data::new(text),
        expiration: None,
    }
}

/// Returns a claim whose lease ended one millisecond ago, as a call under `hold` makes it.
fn held() -> Record {
    Record {
        expiration: Field::Value(seconds(300_000_000)),
        validation: Field::Value("v".to_owned()),
        operation: Field::Value("shop::charge".to_owned()),
        ..claim_of(me(), now_plus(-1))
    }
}

/// Returns the record after the decision, of a store that has `present`. `None` if the write was refused.
fn after(decided: &Decided, present: Record) -> Option<Record> {
    let (store, id) = (MemoryStore::new(), RecordId::new("charge#1"));
    store.insert(id.clone(), present);
    let request = StoreRequest::write(&id, &decided.write, &decided.condition);
    let applied = ready(store.send(request, &SendLog::new()));
    matches!(applied, StoreReply::Applied { .. }).then(|| store.record(&id))?
}

#[test]
fn a_completion_leaves_this_record() {
    let decided = decision(responds("{\"id\":1}"))
        .about(&held(), NOW, false)
        .unwrap();
    let trace =
        r#"{"at":1700000000500,"by":"ana","decided":"completed","reason":"seen at the provider"}"#;
    let expected = Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new("{\"id\":1}")),
        owner: Field::Absent,
        decision: Field::Value(trace.to_owned()),
        ..held()
    };
    let found = after(&decided, held()).unwrap();
    assert_eq!(found, expected);
    assert!(decided.is_in(&found) && !decided.is_in(&held()));
    assert_eq!(classify(&found, NOW, &call()), RecordState::Replay);
}

#[test]
fn a_freed_key_leaves_this_record_which_every_policy_can_claim() {
    let decided = decision(Ending::Rerun).about(&held(), NOW, false).unwrap();
    let trace =
        r#"{"at":1700000000500,"by":"ana","decided":"rerun","reason":"seen at the provider"}"#;
    let expected = Record {
        failure: Field::Value("ResolvedByOperator".to_owned()),
        owner: Field::Absent,
        decision: Field::Value(trace.to_owned()),
        ..held()
    };
    let found = after(&decided, held()).unwrap();
    assert_eq!(found, expected);
    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
        assert!(claimable(NOW, on_timeout).holds(Some(&found)));
    }
}

#[test]
fn a_completion_deletes_the_steps_and_a_freed_key_keeps_them() {
    let steps: RecordedSteps = [("reserve".to_owned(), Data::new("7"))]
        .into_iter()
        .collect();
    for steps in [steps, RecordedSteps::default()] {
        let held = Record {
            steps: Field::Value(steps),
            ..held()
        };
        let decide = |ending| {
            let decided = decision(ending).about(&held, NOW, false).unwrap();
            after(&decided, held.clone()).unwrap().steps
        };
        assert_eq!(decide(responds("1")), Field::Absent);
        assert_eq!(decide(Ending::Rerun), held.steps);
    }
}

#[test]
fn a_late_owner_can_write_nothing_after_a_decision() {
    for ending in [responds("1"), Ending::Rerun] {
        let decided = decision(ending).about(&held(), NOW, false).unwrap();
        let found = after(&decided, held()).unwrap();
        assert!(held_by(&me()).holds(Some(&held())));
        assert!(!held_by(&me()).holds(Some(&found)));
        assert!(!found.owner.exists());
    }
}

#[test]
fn only_the_record_that_was_shown_is_decided() {
    let changed = [
        completed("7"),
        claim_of(me(), now_plus(30_000)),
        Record {
            owner: Field::Absent,
            ..held()
        },
        Record {
            failure: Field::Value("Timeout".to_owned()),
            ..held()
        },
    ];
    for ending in [responds("1"), Ending::Rerun] {
        let decided = decision(ending).about(&held(), NOW, false).unwrap();
        assert!(after(&decided, held()).is_some());
        for changed in &changed {
            assert_eq!(after(&decided, changed.clone()), None, "{changed:?}");
        }
        assert!(!decided.condition.holds(None));
    }
}

#[test]
fn a_live_claim_is_decided_only_on_request_and_then_its_lease_ends() {
    for lease_end in [NOW, now_plus(60_000)] {
        let live = claim_of(me(), lease_end);
        let decision = decision(Ending::Rerun);
        assert_eq!(decision.about(&live, NOW, false), Err(Undecided::Live));
        let decided = decision.about(&live, NOW, true).unwrap();
        let found = after(&decided, live).unwrap();
        assert_eq!(found.in_progress_expiration, Field::Value(now_plus(-1)));
        for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
            assert!(claimable(NOW, on_timeout).holds(Some(&found)));
        }
    }
    let without_lease = Record {
        in_progress_expiration: Field::Absent,
        ..claim_of(me(), NOW)
    };
    let completed = decision(responds("1"));
    assert_eq!(
        completed.about(&without_lease, NOW, false),
        Err(Undecided::Live)
    );
    assert!(completed.about(&without_lease, NOW, true).is_ok());
}

#[test]
fn what_needs_no_decision_is_refused_with_the_reason() {
    let failed = Record {
        failure: Field::Value("Timeout".to_owned()),
        owner: Field::Absent,
        ..held()
    };
    let unknown = Record {
        status: Field::Value(Status::Other("PAUSED".to_owned())),
        ..held()
    };
    let about =
        |record: &Record, ending: Ending| decision(ending).about(record, NOW, true).unwrap_err();
    for ending in [Ending::Rerun, responds("1")] {
        assert_eq!(about(&completed("7"), ending.clone()), Undecided::Completed);
        assert_eq!(about(&unknown, ending.clone()), Undecided::Unreadable);
        assert_eq!(about(&Record::default(), ending), Undecided::Unreadable);
    }
    assert_eq!(about(&failed, Ending::Rerun), Undecided::Free);
    assert_eq!(about(&held(), responds("{")), Undecided::NotJson);
    // A recorded failure can be wrong: the effect happened all the same.
    let decided = decision(responds("1")).about(&failed, NOW, false).unwrap();
    let found = after(&decided, failed).unwrap();
    assert_eq!(
        (found.failure, found.status),
        (Field::Absent, Field::Value(Status::Completed))
    );
}

#[test]
fn a_response_that_would_never_be_replayed_is_refused() {
    let expired = Record {
        expiration: Field::Value(seconds(-1)),
        ..held()
    };
    let unreadable = Record {
        expiration: Field::Unreadable,
        ..held()
    };
    for record in [expired, unreadable] {
        let refused = decision(responds("1")).about(&record, NOW, false);
        assert_eq!(refused, Err(Undecided::WindowExpired));
        let ending = Ending::Completed {
            response: Data::new("1"),
            expiration: Some(seconds(3_600)),
        };
        let decided = decision(ending).about(&record, NOW, false).unwrap();
        let found = after(&decided, record).unwrap();
        assert_eq!(found.expiration, Field::Value(seconds(3_600)));
    }
}

#[test]
fn a_decision_says_who_and_why() {
    let about = |by: &str, reason: &str| {
        let decision = Decision {
            ending: Ending::Rerun,
            by: by.to_owned(),
            reason: reason.to_owned(),
        };
        decision.about(&held(), NOW, false).map(|_| ())
    };
    assert_eq!(about(&"n".repeat(128), &"w".repeat(1_024)), Ok(()));
    for by in ["", "  ", "a\nb", "\u{1b}[2J", &"n".repeat(129)] {
        assert_eq!(about(by, "why"), Err(Undecided::By(128)), "{by:?}");
    }
    for reason in ["", "\t", "a\u{0}b", &"w".repeat(1_025)] {
        let refused = about("ana", reason);
        assert_eq!(refused, Err(Undecided::Reason(1_024)), "{reason:?}");
    }
}

#[test]
fn a_trace_reads_back_and_other_texts_are_none() {
    for verdict in [Verdict::Completed, Verdict::Rerun] {
        let trace = Trace {
            verdict,
            by: "\"ana\" é".to_owned(),
            reason: "{}\\".to_owned(),
            at: NOW,
        };
        assert_eq!(Trace::from_json(&trace.to_json()), Some(trace));
    }
    for text in [
        "",
        "{}",
        "[]",
        r#"{"at":1,"by":"a","decided":"later","reason":"b"}"#,
    ] {
        assert_eq!(Trace::from_json(text), None, "{text}");
    }
}

#[test]
fn the_response_is_not_in_the_debug_output_of_a_decision() {
    let decision = decision(responds("\"s3cr3t\""));
    let decided = decision.about(&held(), NOW, false).unwrap();
    assert!(!format!("{decision:?}{decided:?}").contains("s3cr3t"));
}

#[test]
fn only_a_claim_under_hold_without_an_end_is_held() {
    let kept = |seconds_after: i64, lease: i64| Record {
        expiration: Field::Value(seconds(315_360_000 + seconds_after)),
        ..claim_of(me(), now_plus(lease))
    };
    let failed = Record {
        failure: Field::Value("Timeout".to_owned()),
        ..kept(1, -500)
    };
    // `NOW` is half a second after a full second.
    for (record, expected) in [
        (kept(0, -500), true),
        (kept(-1, -500), false),
        (kept(10, 0), false),
        (kept(10, 60_000), false),
        (failed, false),
        (completed("7"), false),
        (Record::default(), false),
    ] {
        assert_eq!(is_held(&record, NOW), expected, "{record:?}");
    }
}
