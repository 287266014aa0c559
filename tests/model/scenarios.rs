//! The scenarios that every test run explores.
//!
//! A row is `name | calls | bounds`. The words of a call are its policies and the endings that its handler can have. The words of the
//! bounds are the faults, and what differs from four ticks of a second, a window of a minute and right clocks: `ahead` are clocks of
//! up to a tick ahead, `off` are clocks that are off by up to a tick.

use super::bounds::Bounds;

macro_rules! scenarios {
    ($($scenario:ident: $row:literal;)+) => {
        $(pub(crate) fn $scenario() -> Bounds {
            Bounds::of($row)
        })+
    };
}

scenarios! {
    two_calls: "two calls | responds, responds | ticks=3 lost=2 failures=1";
    clocks_off: "clocks off by a tick | responds, responds | ticks=3 off lost=1 delays=1";
    every_ending: "every ending | responds too-large not-json unreadable unstored fails unreported panics, \
        records responds too-large not-json unreadable unstored fails unreported panics | lost=1";
    two_payloads: "two payloads | payload=p responds, payload=p responds, payload=q responds unstored | ticks=3 delays=1";
    evicted: "evicted by an operator | responds, responds | lost=1 evictions=1";
    windows_end: "windows end, TTL deletes | responds, responds | window=1 ttl ahead lost=1";
    half_seconds: "ticks of half a second | responds, responds | tick-ms=500 window=1 ticks=6 ttl lost=1";
    without_deadline: "no deadline known | no-deadline responds, no-deadline responds | lost=2";
    every_call_holds: "all calls hold | holds responds fails unreported panics, \
        holds records responds fails unreported panics | lost=1 failures=1 delays=1";
    some_hold: "some hold | records responds fails unreported panics, holds records responds fails unreported panics \
        | ticks=3 window=1 ttl lost=1 evictions=1";
    some_wait: "some wait | responds fails, waits lease=3 responds | lost=1 failures=1";
    cached: "a local cache | cached payload=p responds, cached payload=p responds, cached payload=q responds \
        | ticks=3 window=1 ttl evictions=1";
    many_losses: "one call, many losses | responds | ticks=2 lost=4 failures=1";
    kills: "a kill as a step | responds, responds | lost=1 kills=1";
    three_calls: "three calls | responds, responds, responds | ticks=3 lost=1";
    three_runs: "three runs of one key | responds fails unreported, responds fails unreported, \
        responds fails unreported | ticks=3";
    quiet: "two calls, no faults | responds, responds";
    quiet_failing: "two calls that may fail | responds fails, responds fails";
    quiet_holding: "two calls that hold | holds responds, holds responds";
    quiet_holding_panics: "two calls that hold and may panic | holds responds fails unreported panics, \
        holds responds fails unreported panics";
    quiet_payloads: "two calls of two payloads | payload=p responds, payload=q responds";
    quiet_short_window: "a window shorter than the lease | lease=3 responds, responds | window=1";
}

// Calls of one process, of which those that are near each other see each other.
scenarios! {
    in_one_process: "in one process | near responds fails, near waits lease=3 responds | ticks=3 lost=1";
    waiting_in_one_process: "beside a call that waits | responds fails, near waits lease=3 responds, \
        near waits lease=2 responds | ticks=3";
    windows_end_in_one_process: "windows end in one process | near cached responds, near cached waits lease=3 responds \
        | window=1 ttl ahead delays=1";
    holding_in_one_process: "all calls hold in one process | near holds records responds fails unreported panics, \
        near holds waits lease=3 responds fails unreported panics | lost=1";
    one_process_without_deadline: "no deadline known in one process | near no-deadline responds fails, \
        near no-deadline waits lease=2 responds | lost=1";
    two_payloads_in_one_process: "two payloads in one process | near payload=p responds unstored, \
        near payload=p waits lease=2 responds, near payload=q responds | ticks=3 kills=1";
    quiet_payloads_in_one_process: "two calls of two payloads in one process | near payload=p responds, \
        near payload=q waits lease=3 responds";
    quiet_in_one_process: "two calls in one process | near responds, near waits lease=3 responds";
    quiet_waiting_in_one_process: "beside a call that waits, no faults | responds, near waits lease=3 responds, near responds";
    quiet_in_one_process_short_window: "two calls in one process, a short window | near responds, \
        near waits lease=3 responds | window=1";
    failing_in_one_process: "a store that fails once | near responds, near waits lease=3 responds, responds \
        | ticks=2 failures=1";
}

// Beside a run of a Python function with the same key: `late-python` can outlive its lease, which is its number of ticks.
scenarios! {
    beside_python: "beside Python | lease=2 responds, lease=2 responds | python=1 ticks=3 window=1 ahead lost=1";
    late_python: "beside a Python run that outlives its lease | payload=p responds, payload=q responds \
        | late-python=2 ticks=3 window=1 lost=1";
    reading_first_beside_python: "beside Python, both read first | reads-first lease=2 responds, \
        reads-first waits lease=2 responds | python=1 ticks=3 window=1 stale=2 ahead";
    a_step_beside_python: "a step beside Python | keeps-steps responds, keeps-steps waits lease=3 responds \
        | python=1 ticks=3 window=1";
}

// An operator decides about a held key.
scenarios! {
    decided_while_holding: "all calls hold, an operator decides | holds responds fails unreported panics, \
        holds records responds fails unreported panics | lost=1 decisions=1";
    decided_beside_a_takeover: "some hold, an operator decides | responds too-large, holds responds too-large \
        | ticks=3 lost=1 decisions=1";
    decided_in_one_process: "all calls hold in one process, an operator decides | near holds cached responds fails, \
        near holds cached waits lease=3 responds fails | ticks=3 decisions=1";
    quiet_decided: "an operator decides, no faults | responds, responds | decisions=1";
}

// Calls that read the record before they claim it.
scenarios! {
    reading_first: "some read first | responds fails, reads-first responds | ticks=3 stale=2 lost=1 failures=1";
    stale_reads: "stale reads, windows end | reads-first responds, reads-first responds \
        | ticks=3 window=1 ttl stale=2 ahead evictions=1";
    two_payloads_reading_first: "two payloads, all read first | reads-first payload=p responds, \
        reads-first payload=p responds, reads-first payload=q responds unstored | ticks=3 stale=2";
    holding_and_reading_first: "all calls hold and read first | reads-first holds responds fails unreported panics, \
        reads-first holds records responds fails unreported panics | stale=2 lost=1";
    reading_first_in_one_process: "in one process, some read first | responds, reads-first near responds, \
        reads-first near waits lease=2 responds | ticks=2 stale=1";
    quiet_reading_first: "two calls that read first | reads-first responds, reads-first responds | window=1 stale=1";
    quiet_payloads_reading_first: "two calls of two payloads that read first | reads-first payload=p responds, \
        reads-first payload=q responds | stale=1";
    stale_after_a_loss: "a lost reply and stale states | lease=2 responds fails, lease=2 responds fails | stale=2 lost=1";
}

// A store that fails before the handler: calls that run all the same, and the circuit breaker.
scenarios! {
    unprotected: "all run unprotected | unprotected responds fails, unprotected responds | ticks=3 lost=1 failures=1";
    some_unprotected: "one runs unprotected | unprotected responds, records responds | lost=1 failures=1 delays=1";
    unprotected_in_one_process: "all run unprotected in one process | unprotected near responds, \
        unprotected near waits lease=3 responds | ticks=3 failures=2";
    unprotected_under_hold: "all hold, and would run unprotected | unprotected holds breaker responds, \
        unprotected holds breaker responds | lost=1 failures=1";
    breaker: "a circuit breaker | breaker responds fails, breaker reads-first responds | ticks=3 lost=1 failures=1";
    breaker_and_unprotected: "a circuit breaker, one runs unprotected | breaker unprotected responds, breaker responds \
        | ticks=3 lost=1";
    quiet_breaker: "two calls that ask the breaker | breaker responds, breaker responds";
    failing_unprotected: "two calls that may run unprotected | unprotected responds, unprotected responds | failures=1";
    failing: "two calls, one failure | responds, responds | failures=1";
}

// Calls with steps.
scenarios! {
    with_a_step: "with a step | keeps-steps responds fails, keeps-steps responds fails | ticks=3 lost=1 failures=1";
    with_two_steps: "with two steps | keeps-steps responds fails, keeps-steps responds fails | ticks=3 steps=2";
    a_step_and_clocks_off: "a step, clocks off by a tick | keeps-steps responds, keeps-steps responds | ticks=3 off delays=1";
    a_step_without_deadline: "a step, no deadline known | keeps-steps no-deadline responds, \
        keeps-steps no-deadline responds | ticks=3 lost=1";
    a_step_under_hold: "a step, all calls hold | keeps-steps holds responds fails unreported panics, \
        keeps-steps holds records responds fails unreported panics | ticks=3 lost=1 failures=1";
    a_forgotten_step: "a step that a failure forgets | forgets-steps records responds fails, \
        keeps-steps responds unstored | ticks=3 lost=1";
    a_step_of_two_payloads: "a step, two payloads | keeps-steps payload=p responds fails, \
        keeps-steps payload=p responds fails, keeps-steps payload=q responds fails | ticks=2";
    a_step_and_windows_end: "a step, windows end | keeps-steps responds fails, keeps-steps responds fails \
        | window=1 ttl lost=1";
    a_step_beside_none: "a step beside a call without | keeps-steps responds, responds | ticks=3 lost=1 evictions=1";
    a_step_and_unprotected: "a step, one runs unprotected | keeps-steps unprotected responds fails, \
        keeps-steps responds fails | ticks=3 lost=1 failures=1";
    quiet_step: "two calls with a step | keeps-steps responds, keeps-steps responds";
    quiet_failing_step: "two calls with a step that may fail | keeps-steps responds fails, keeps-steps responds fails";
    quiet_step_of_two_payloads: "two calls of two payloads with a step | keeps-steps payload=p responds, \
        keeps-steps payload=q responds";
}

// Calls whose handlers stage writes.
scenarios! {
    staged_writes: "both stage writes | stages, stages | ticks=3 lost=1 changes=2";
    staged_with_tokens: "both stage writes, the store knows tokens | stages, stages | ticks=2 tokens lost=1 changes=1";
    staged_and_evicted: "both stage writes, evicted | stages, stages | ticks=2 lost=1 evictions=1 changes=1";
    staged_endings: "one stages writes or not | records stages stages-too-large unstored fails, stages \
        | ticks=2 lost=1 changes=2";
    staged_and_held: "both stage writes and hold | holds stages panics, holds records stages panics \
        | ticks=2 lost=1 changes=2";
    staged_and_windows_end: "both stage writes, windows end | stages, stages | ticks=3 window=1 ttl lost=1 changes=1";
    staged_in_one_process: "in one process, all stage writes | stages, near stages, near stages | ticks=2 changes=1";
    staged_and_unprotected: "one call that stages writes runs unprotected | unprotected stages \
        | ticks=1 lost=2 failures=1 changes=1";
    conflicts: "both meet a transaction and hold | holds responds stages, holds responds stages | ticks=3 conflicts=2";
    one_staged_write: "one call that stages writes | lease=2 stages | lost=1 failures=1 changes=2";
    late_staged_write: "one call that stages writes, two losses | stages | lost=2 changes=2";
    late_and_evicted: "one call that stages writes, two losses, evicted | stages | tokens lost=2 evictions=1 changes=1";
    late_and_evicted_without_tokens: "one call that stages writes, two losses, evicted | stages \
        | lost=2 evictions=1 changes=1";
    quiet_staged: "two calls that stage writes | stages, stages";
}

/// Larger scenarios, which are explored only on request.
pub(crate) const LARGER: &[&str] = &[
    "three calls, two losses | responds, responds, responds | lost=2",
    "three calls, clocks off | responds, responds, responds | ticks=3 ahead lost=1 delays=1",
    "three calls of two payloads, some wait | payload=p responds fails, payload=p records waits lease=2 responds, \
        payload=q responds unstored | lost=1",
    "three calls, all hold | holds responds fails unreported panics, holds responds fails unreported panics, \
        holds records responds fails unreported panics | lost=1 delays=1",
    "two calls, every ending, store fails | responds too-large not-json unreadable unstored fails unreported panics, \
        records responds too-large not-json unreadable unstored fails unreported panics | lost=1 failures=1",
    "two calls beside Python, clocks off | responds, responds | python=1 window=2 ttl ahead lost=1",
    "four calls | responds, responds, responds, responds | ticks=3 lost=1",
    "three calls in one process | near responds fails, near responds, near waits lease=3 responds | ticks=3 lost=1",
    "two payloads in one process, evicted | near payload=p responds unstored, \
        near payload=p waits lease=2 cached responds, near payload=q cached responds | ticks=3 kills=1 evictions=1",
    "in one process, all read first, windows end | reads-first responds, reads-first near cached responds, \
        reads-first near cached waits lease=2 responds | ticks=3 window=1 ttl stale=1",
    "two calls, two losses, all run unprotected | unprotected responds fails, unprotected responds \
        | ticks=3 lost=2 failures=1",
    "three calls, all read first | reads-first responds fails, reads-first responds, reads-first responds \
        | ticks=3 stale=3 lost=1",
    "two calls, everything fails, windows end | cached responds, cached responds \
        | ticks=3 window=1 ttl ahead lost=1 delays=1 evictions=1",
    "both stage writes, two losses | stages, stages | ticks=3 lost=2 failures=1 changes=2",
    "both stage writes, two losses, evicted | stages, stages | ticks=3 tokens lost=2 evictions=1 changes=1",
    "both stage writes or not | stages stages-too-large unstored fails, records stages stages-too-large unstored fails \
        | ticks=3 lost=1 changes=2",
    "both stage writes and hold, the store fails | holds stages panics, holds records stages panics \
        | lost=1 failures=1 changes=1",
    "both stage writes, windows end, clocks off | stages, stages | window=1 ttl ahead lost=1 changes=1",
];
