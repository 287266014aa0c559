use super::*;

/// How long the requests of a call may take.
const LIMIT: Duration = Duration::from_secs(3);

fn at(milliseconds: i64) -> EpochMillis {
    EpochMillis::new(1_000_000 + milliseconds)
}

/// Returns a breaker whose circuit opened at the time `at(0)`.
fn open() -> Breaker {
    let mut breaker = Breaker::default();
    let opened: Vec<_> = (0..5).map(|_| breaker.failed(at(0))).collect();
    assert_eq!(opened, [false, false, false, false, true]);
    breaker
}

fn refused(until: i64) -> Admission {
    Admission::Open { until: at(until) }
}

#[test]
fn a_reply_between_failures_keeps_the_circuit_closed() {
    let mut breaker = Breaker::default();
    for _ in 0..3 {
        (0..4).for_each(|_| assert!(!breaker.failed(at(0))));
        assert!(!breaker.replied());
    }
    assert_eq!(breaker.circuit(), Circuit::Closed);
    assert_eq!(breaker.admit(at(0), LIMIT), Admission::Admitted);
}

#[test]
fn failures_count_for_a_minute() {
    let mut breaker = Breaker::default();
    (0..4).for_each(|_| assert!(!breaker.failed(at(0))));
    assert!(breaker.clone().failed(at(60_000)));
    // The process was frozen, and the count begins again.
    assert!(!breaker.failed(at(60_001)));
    (0..3).for_each(|_| assert!(!breaker.failed(at(60_001))));
    assert!(breaker.failed(at(60_001)));
}

#[test]
fn failures_from_a_time_after_now_do_not_count() {
    let mut breaker = Breaker::default();
    (0..4).for_each(|_| assert!(!breaker.failed(at(0))));
    assert!(!breaker.failed(at(-1)), "the clock was set back");
    assert_eq!(breaker.circuit(), Circuit::Closed);
}

#[test]
fn an_open_circuit_admits_one_call_after_its_pause() {
    let mut breaker = open();
    assert_eq!(breaker.admit(at(0), LIMIT), refused(1_000));
    assert_eq!(breaker.admit(at(1_000), LIMIT), refused(1_000));
    assert_eq!(breaker.admit(at(1_001), LIMIT), Admission::Admitted);
    assert_eq!(breaker.circuit(), Circuit::HalfOpen);
    assert_eq!(breaker.admit(at(1_001), LIMIT), refused(4_001));
}

#[test]
fn a_failed_probe_doubles_the_pause_up_to_half_a_minute() {
    let mut breaker = open();
    let (mut now, mut lengths) = (0, Vec::new());
    for _ in 0..7 {
        let Admission::Open { until } = breaker.admit(at(now), LIMIT) else {
            panic!("the circuit is open");
        };
        lengths.push(at(now).until(until).as_secs());
        now = until.get() - at(0).get() + 1;
        assert_eq!(breaker.admit(at(now), LIMIT), Admission::Admitted);
        assert!(breaker.failed(at(now)), "the circuit opens again");
    }
    assert_eq!(lengths, [1, 2, 4, 8, 16, 30, 30]);
}

#[test]
fn a_reply_closes_the_circuit_and_forgets_the_length_of_the_pause() {
    let mut breaker = open();
    assert_eq!(breaker.admit(at(1_001), LIMIT), Admission::Admitted);
    assert!(breaker.failed(at(1_001)));
    assert!(
        breaker.replied(),
        "a call that was admitted earlier got a reply"
    );
    assert_eq!(breaker, Breaker::default());
    for _ in 0..5 {
        breaker.failed(at(2_000));
    }
    assert_eq!(breaker.admit(at(2_000), LIMIT), refused(3_000));
}

#[test]
fn a_probe_without_a_result_gives_way_to_another() {
    let mut breaker = open();
    assert_eq!(breaker.admit(at(1_001), LIMIT), Admission::Admitted);
    // Its future was dropped, or the process was frozen with it.
    assert_eq!(breaker.admit(at(4_001), LIMIT), refused(4_001));
    assert_eq!(breaker.admit(at(4_002), LIMIT), Admission::Admitted);
}

#[test]
fn a_late_failure_does_not_lengthen_an_open_circuit() {
    let mut breaker = open();
    assert!(!breaker.failed(at(900)));
    assert_eq!(breaker.admit(at(900), LIMIT), refused(1_000));
}

#[test]
fn a_clock_that_was_set_back_does_not_keep_the_circuit_open() {
    let mut breaker = open();
    assert_eq!(breaker.admit(at(-1), LIMIT), Admission::Admitted);
    assert_eq!(breaker.circuit(), Circuit::HalfOpen);
}

#[test]
fn a_result_is_a_reply_or_a_failure() {
    let mut breaker = Breaker::default();
    let opened: Vec<_> = (0..5)
        .map(|_| breaker.take(at(0), StoreReply::Failed))
        .collect();
    assert_eq!(opened, [false, false, false, false, true]);
    assert!(breaker.take(at(0), StoreReply::Replied));
    assert_eq!(breaker.circuit(), Circuit::Closed);
}
