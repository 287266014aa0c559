//! The circuit breaker, a store that fails before the handler, and the time limit of each request.

use super::script::check;

#[test]
fn the_circuit_breaker_is_asked_first() {
    check(CIRCUIT);
}

const CIRCUIT: &str = "
the breaker is asked before the first request and for how long requests may take
    breaker | miss -> ask the breaker for 3000; admitted -> put mine if claimable
    read-first breaker | miss -> ask the breaker for 3000; admitted -> read eventual
an open circuit ends the call without a request
    breaker | miss, open 1000 -> refuse StoreFailed with the circuit open until 1000
an open circuit is a failure of the store for a call that may run unprotected
    unprotected breaker | miss, open 1000, miss -> run unprotected
    hold unprotected breaker | miss, open 1000 -> refuse StoreFailed with the circuit open until 1000
a cached response and a leader need no breaker
    breaker | cached done[data=42] -> replay done[data=42] from Cache
    breaker | leader claiming 30000 -> follow 1000
an expired deadline does not ask the breaker
    breaker deadline=-1 | miss -> refuse NoTimeLeft
the results before the handler count
    breaker | miss, admitted, store? applied -> Some(Replied); store? met none -> Some(Replied);
        store? fails transient -> Some(Failed); store? fails refused -> Some(Replied); store? fails permanent -> None;
        lost transient, store? reads none -> Some(Replied); store? read-fails -> Some(Failed)
    miss, store? applied -> None; store? met none -> None; store? fails transient -> None; store? fails refused -> None;
        store? fails permanent -> None
a release and a completion do not count
    breaker | miss, admitted, lost transient, read-fails, store? fails transient -> None
    breaker | miss, admitted, applied-blind, ends returned 42, store? fails transient -> None
";

#[test]
fn a_call_may_run_unprotected() {
    check(UNPROTECTED);
}

const UNPROTECTED: &str = "
a claim that failed for a while is followed by a run
    unprotected | miss, fails transient -> look for a leader; miss -> run unprotected
    miss, fails transient -> refuse StoreFailed
a run without a claim sends nothing and ends however it ends
    unprotected | miss, fails transient, miss, ends not-stored -> own
    unprotected | miss, fails transient, miss, ends failed E -> own
    unprotected | miss, fails transient, miss, ends panicked -> own
a failure that an operator must correct is followed by no run
    unprotected | miss, fails permanent -> refuse StoreFailed
under hold no call runs unprotected
    hold unprotected | miss, fails transient -> refuse StoreFailed
a call that met a record does not run
    # The claim was refused, and the record that refused it cannot be read.
    unprotected | miss, fails refused -> refuse StoreFailed
    unprotected | miss, met none, read-fails -> refuse StoreFailed
    # The lease of the other call has expired by now, and the next claim fails.
    unprotected | miss, met other, fails transient -> refuse StoreFailed
a call that waited for another does not run
    wait unprotected | miss, met mine[owner=another], @29900, paused, read-fails -> refuse StoreFailed
a read before the claim that finds another call prevents the run
    unprotected read-first | miss, reads mine[owner=another], fails transient -> refuse StoreFailed
    unprotected read-first | miss, reads other, fails transient -> look for a leader
    unprotected read-first | miss, reads none, fails transient -> look for a leader
    unprotected read-first | miss, read-fails, fails transient -> look for a leader
a follower of a call that ran does not run
    wait unprotected | leader running 30000, leader-done none, miss, fails transient -> refuse StoreFailed
    wait unprotected | leader storing 30000, leader-done none, miss, fails transient -> refuse StoreFailed
    # The leader only asked the store, as far as its follower saw. It may have run since.
    wait unprotected | leader claiming 30000, leader-done none, fails transient -> refuse StoreFailed
    # The leader still asks the store, which hangs.
    wait unprotected | leader claiming 30000, leader claiming 30000, fails transient -> look for a leader
another call of the process that runs by now is not joined by a second run
    unprotected | miss, fails transient, leader running 30000 -> refuse AlreadyInProgress until 30000
    unprotected | miss, fails transient, leader storing 30000 -> refuse AlreadyInProgress until 30000
    unprotected | miss, fails transient, leader claiming 30000 -> run unprotected
    unprotected | miss, fails transient, leader waiting round 1 for -1 30000 -> refuse StoreFailed
a claim that may have been applied is released if another call runs
    unprotected | miss, lost transient, read-fails, leader running 30000 -> leave unreported;
        applied -> refuse AlreadyInProgress
duplicates in the process see the run
    unprotected | miss, fails transient, miss, progress? -> running 30000
    unprotected | miss, lost transient, read-fails, miss, progress? -> running 30000
a claim that may have been applied is not released before the run
    unprotected | miss, lost transient, read-fails, miss -> run maybe claimed
after the run the response is stored under the fence
    unprotected | miss, lost transient, read-fails, miss, ends returned 42
        -> update expiration=3600 status=completed data=42 if mine;
        applied -> own, stored done[lease=- data=42 owner=-], claim completed
without its claim the response is stored if there is no record
    unprotected | miss, lost transient, read-fails, miss, ends returned 42, met none, reads none
        -> put mine[lease=3000 status=completed data=42] if no-record;
        applied -> own, stored done[lease=- data=42 owner=-], claim completed
a response that another call has stored takes precedence
    unprotected | miss, lost transient, read-fails, miss, ends returned 42, met done -> replay done from Completion
a response that cannot be stored goes to its caller all the same
    unprotected | miss, lost transient, read-fails, miss, ends returned 42, fails permanent -> own
    unprotected | miss, lost transient, read-fails, miss, ends returned 42, met mine[owner=another] -> own
    unprotected | miss, lost transient, read-fails, miss, ends returned 42, met none, read-fails -> own
    unprotected | miss, lost transient, read-fails, miss, ends returned 42, met none, reads none, fails transient -> own
staged writes are never the caller's own result unless they were applied
    # One request after the run: no pause fits.
    unprotected | miss, lost transient, read-fails, miss, stages returned 42, @29900, fails refused
        -> refuse CompletionUnknown, writes unknown
    # The claim can still arrive, and a send of the transaction after it.
    unprotected | miss, lost transient, read-fails, miss, stages returned 42, @29900, rejected-late, applied
        -> refuse CompletionUnknown, writes unknown
    unprotected | miss, lost transient, read-fails, miss, stages returned 42, @29900, rejected, applied
        -> refuse TransactionRejected, claim released, writes rejected
    unprotected | miss, lost transient, read-fails, miss, stages returned 42, @29900, met none, reads none
        -> refuse LostOwnership, writes unknown
the claim of a failed run is released
    unprotected | miss, lost transient, read-fails, miss, ends failed E -> leave unreported:_E;
        applied -> own, claim released
    unprotected | miss, lost transient, read-fails, miss, ends failed E, fails transient -> own, claim not_released
the requests after the run take no longer than store timeout
    # One more try must fit into this time.
    unprotected store-timeout=2000 | miss, lost transient, read-fails, miss, ends returned 42, limit? -> 1800;
        @1850, fails transient -> own
no run starts after the deadline
    unprotected | miss, @30001, fails transient -> refuse StoreFailed
a claim that is found after a lost reply is a claim
    unprotected | miss, lost transient, reads mine -> run
without a deadline no run starts after the lease that its claim would have
    unprotected lease=10000 deadline=- | miss, @10000, fails transient -> look for a leader
    unprotected lease=10000 deadline=- | miss, @10001, fails transient -> refuse StoreFailed
    unprotected lease=10000 deadline=- | miss, @10000, lost transient -> look for a leader
    unprotected lease=10000 deadline=- | miss, @10001, lost transient -> leave unreported
";

#[test]
fn each_request_has_a_time_limit() {
    check(LIMITS);
}

const LIMITS: &str = "
a claim may take three seconds less the reserve for its release
    deadline=10000 | miss, limit? -> 2800
a claim never takes more than half of the time left
    deadline=6000 | miss, limit? -> 2800
    deadline=5000 | miss, limit? -> 2300
    deadline=1000 | miss, limit? -> 300
    deadline=400 | miss, limit? -> 200
    deadline=300 | miss, limit? -> 150
    deadline=100 | miss, limit? -> 50
a claim may take the configured time less the reserve for its release
    store-timeout=1000 deadline=10000 | miss, limit? -> 800
without a deadline only the setting counts
    deadline=- | miss, limit? -> 2800
the requests before the handler share one time limit
    miss, @1000, lost transient, limit? -> 1800; @2000, reads none, limit? -> 800
a claim that timed out leaves the rest of the time to its release
    miss, @2800, lost transient -> leave unreported; limit? -> 200
a claim that is maybe applied early leaves the rest of the time to its release
    miss, lost transient, @500, read-fails, limit? -> 2500
one millisecond more than the release needs is enough for a read
    miss, @2799, lost transient -> read
    miss, @2800, lost transient -> leave unreported
a request that begins when the time is used up gets a minimum
    # The reply arrived late and brought no record back.
    miss, @4000, met none, limit? -> 200
    # Near the deadline it gets half of the time left.
    miss, @29900, met none, limit? -> 50
a release near the deadline leaves time for the reply to the caller
    miss, @29700, lost transient, limit? -> 150
a claim whose reply came after the deadline still gets time for its release
    miss, @30000, lost transient, limit? -> 2000
    miss, @30001, lost transient, limit? -> 2000
each read of a wait has its own time limit
    wait | miss, met other[lease=60000], @20000, paused, limit? -> 2800; read-fails, @28000, paused, limit? -> 800
after the handler only the lease bounds the requests that decide the caller's result
    miss, applied-blind, @10000, ends returned 42, limit? -> 19800; @31000, met none, limit? -> 2000
    miss, applied-blind, @10000, ends not-stored, limit? -> 19800
the release after a failed run is bounded by the setting because the caller waits
    miss, applied-blind, @10000, ends failed E, limit? -> 3000
    miss, applied-blind, @10000, ends panicked, limit? -> 3000
    # The deadline still bounds it.
    miss, applied-blind, @29000, ends failed E, limit? -> 800
    miss, applied-blind, @31000, ends failed E, limit? -> 2000
    record | miss, applied-blind, @10000, ends failed E, limit? -> 3000
    record | miss, applied-blind, @10000, ends panicked, limit? -> 3000
    store-timeout=700 | miss, applied-blind, @10000, ends failed E, limit? -> 700
";
