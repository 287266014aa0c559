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
        until: Some(lease),
        expires,
    };
    let staged = false;
    let mut events = vec![
        event(0, 0, What::Called(terms)),
        event(0, 0, claimed),
        event(0, 0, run),
        event(0, 500, What::Completed { expires, staged }),
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
        let events = [runs(0, 1_000, expires), runs(1, at, 200)].concat();
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
