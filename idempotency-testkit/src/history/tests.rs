use super::*;

const START: i64 = 1_700_000_000_000;

fn event(by: CallNumber, at: i64, what: What) -> HistoryEvent {
    let at = EpochMillis::new(START + at);
    HistoryEvent { by, at, what }
}

/// Returns the promises that a run, its replay and then these events break.
fn broken(then: &[HistoryEvent]) -> Vec<Promise> {
    let lease = EpochMillis::new(START + 1_000);
    let expires = Some(EpochSeconds::new(START / 1_000 + 60));
    let terms = Terms {
        answer_by: Some(lease),
        window: Some(Duration::from_secs(60)),
        ..Terms::default()
    };
    let run = What::RunBegan {
        basis: Basis::Claim(lease),
        first: true,
    };
    let given = Given {
        of: 0,
        bond: Bond::Stored,
        expires,
    };
    let claimed = What::Claimed {
        late: false,
        replaces: true,
        until: Some(lease),
        expires,
    };
    let staged = false;
    let mut events = vec![
        event(0, 0, What::Called(terms)),
        event(0, 0, claimed),
        event(0, 0, run),
        event(
            0,
            500,
            What::Completed {
                expires,
                staged,
                restores: false,
            },
        ),
        event(1, 600, What::Called(terms)),
        event(1, 600, What::Responded(given)),
    ];
    events.extend_from_slice(then);
    let broken = check(&events, Promises::all());
    broken.into_iter().map(|broken| broken.promise).collect()
}

fn stored(expires: i64) -> What {
    let expires = Some(EpochSeconds::new(START / 1_000 + expires));
    What::Completed {
        expires,
        staged: false,
        restores: false,
    }
}

fn refused(kind: ErrorKind) -> What {
    What::Refused(Refused::of(Some(kind)))
}

#[test]
fn after_every_lease_a_key_is_not_in_progress_and_may_fail() {
    let in_progress = event(1, 700, refused(ErrorKind::AlreadyInProgress));
    assert_eq!(broken(&[in_progress]), []);
    let calm = event(1, 700, What::Calmed);
    assert_eq!(broken(&[calm, in_progress]), [Promise::Stuck]);
    let failed = event(1, 700, refused(ErrorKind::StoreFailed));
    assert_eq!(broken(&[calm, failed]), []);
}

#[test]
fn a_call_that_does_not_run_answers_in_its_time() {
    let late = event(1, 1_001, refused(ErrorKind::StoreFailed));
    assert_eq!(broken(&[late]), [Promise::WaitsTooLong]);
    let of_a_run = event(0, 1_001, refused(ErrorKind::StoreFailed));
    assert_eq!(broken(&[of_a_run]), []);
}

#[test]
fn a_response_binds_until_the_promised_end_of_its_window() {
    let again = |expires, at| {
        let terms = Terms {
            window: Some(Duration::from_secs(60)),
            ..Terms::default()
        };
        let runs = |by, at, expires| {
            let (until, bond) = (Some(EpochMillis::new(START + at)), Bond::Stored);
            let claimed = What::Claimed {
                late: false,
                replaces: true,
                until,
                expires: None,
            };
            let given = Given {
                of: by,
                bond,
                expires: None,
            };
            let whats = [
                What::Called(terms),
                claimed,
                stored(expires),
                What::Responded(given),
            ];
            whats.map(|what| event(by, at, what))
        };
        let events = [runs(0, 1_000, expires), runs(1, at, at / 1_000 + 60)].concat();
        let broken = check(&events, Promises::all());
        let promises = broken.into_iter().map(|broken| broken.promise);
        promises.collect::<Vec<_>>()
    };
    assert_eq!(again(61, 62_000), []);
    let two_responses = [
        Promise::ShortWindow,
        Promise::LateOwner,
        Promise::OneResponse,
    ];
    assert_eq!(again(1, 3_000), two_responses);
}

#[test]
fn a_completion_needs_a_record_unless_it_restores_one() {
    let evicted = event(0, 700, What::Deleted { evicted: true });
    let completed = |restores| {
        let expires = Some(EpochSeconds::new(START / 1_000 + 60));
        let staged = false;
        event(
            2,
            700,
            What::Completed {
                expires,
                staged,
                restores,
            },
        )
    };
    assert_eq!(broken(&[evicted, completed(true)]), []);
    assert_eq!(broken(&[evicted, completed(false)]), [Promise::LateOwner]);
    assert_eq!(broken(&[completed(true)]), [Promise::LateOwner]);
}

#[test]
fn a_run_whose_claim_was_evicted_belongs_to_the_window_that_ended() {
    let lease = |at| EpochMillis::new(START + at + 1_000);
    let applied = |by, at, late| {
        let expires = Some(EpochSeconds::new(START / 1_000 + 61));
        let (replaces, until) = (false, Some(lease(at)));
        let claimed = What::Claimed {
            late,
            replaces,
            until,
            expires,
        };
        event(by, at, claimed)
    };
    let claims = |by, at| applied(by, at, false);
    let runs = |by, at| {
        let (basis, first) = (Basis::Claim(lease(at)), true);
        event(by, at, What::RunBegan { basis, first })
    };
    let evicts = event(9, 0, What::Deleted { evicted: true });
    let broken = |events: &[HistoryEvent]| {
        let broken = check(events, Promises::all());
        let promises = broken.into_iter().map(|broken| broken.promise);
        promises.collect::<Vec<_>>()
    };
    let next = [claims(1, 2_000), runs(1, 2_000)];
    assert_eq!(
        broken(&[&[claims(0, 0), runs(0, 0), evicts], &next[..]].concat()),
        []
    );
    assert_eq!(
        broken(&[&[claims(0, 0), evicts, runs(0, 0)], &next[..]].concat()),
        []
    );
    let second = [Promise::SecondRunUnderHold, Promise::FirstThoughUnreported];
    let again = [claims(0, 0), evicts, claims(0, 0), runs(0, 0)];
    assert_eq!(broken(&[&again, &next[..]].concat()), second);
    // A send of the evicted claim arrives late, after the run of another call began. The reply is that to the first send.
    let late = |late| {
        let first = [claims(0, 4_000), evicts];
        let then = [applied(0, 4_000, late), runs(0, 4_000)];
        broken(&[&first, &next[..], &then].concat())
    };
    assert_eq!(late(true), []);
    assert_eq!(late(false), second);
}

#[test]
fn staged_writes_need_a_completion() {
    let delete = What::of_write(&Write::Delete, true, &[]);
    assert_eq!(broken(&[event(0, 700, delete)]), [Promise::StagedAlone]);
}

#[test]
fn a_takeover_of_an_expired_claim_keeps_its_steps() {
    let claimed = |by, at, replaces| {
        let (until, expires) = (EpochMillis::new(START + at), START / 1_000 + 61);
        let claimed = What::Claimed {
            late: false,
            replaces,
            until: Some(until),
            expires: Some(EpochSeconds::new(expires)),
        };
        event(by, at, claimed)
    };
    let runs_again = |replaces| {
        let terms = Terms {
            steps: Steps::Keep,
            ..Terms::default()
        };
        let events = [
            event(0, 0, What::Called(terms)),
            claimed(0, 0, true),
            event(0, 0, What::StepRecorded { step: 0 }),
            event(1, 62_000, What::Called(terms)),
            claimed(1, 62_000, replaces),
            event(1, 62_000, What::StepRan { step: 0 }),
        ];
        check(&events, Promises::none().with(Promise::StepAgain)).len()
    };
    assert_eq!(runs_again(true), 0);
    assert_eq!(runs_again(false), 1);
}

#[test]
fn an_unprotected_run_begins_before_its_deadline() {
    let late = |at| {
        let basis = Basis::Policy(Some(EpochMillis::new(START + 1_000)));
        let began = event(
            0,
            at,
            What::RunBegan {
                basis,
                first: false,
            },
        );
        let broken = check(&[began], Promises::all());
        broken
            .into_iter()
            .map(|broken| broken.promise)
            .collect::<Vec<_>>()
    };
    assert_eq!(late(1_000), []);
    assert_eq!(late(1_001), [Promise::RunOnExpiredLease]);
}
