//! A duplicate: the progress of its leader in the same process, and the pauses and reads of a wait.

use super::script::check;

#[test]
fn a_duplicate_follows_its_leader() {
    check(IN_FLIGHT);
}

const IN_FLIGHT: &str = "
a running leader refuses its duplicate
    leader running 20000 -> refuse AlreadyInProgress until 20000
under wait a duplicate follows until its own time or the leader's lease ends
    # 30 s less the reserve for the reply.
    wait | leader running 60000 -> follow 29750
    # A lease has expired one millisecond after its end.
    wait | leader running 20000 -> follow 20001
a duplicate waits one second for the store's reply to the leader
    leader claiming 20000 -> follow 1000; @1000, leader claiming 20000 -> put mine[expiration=3601] if claimable
    leader storing 20000 -> follow 1000; @1000, leader storing 20000 -> put mine[expiration=3601] if claimable
    wait | leader claiming 20000 -> follow 1000; @1000, leader claiming 20000 -> put mine[expiration=3601] if claimable
    wait | leader storing 20000 -> follow 1000; @1000, leader storing 20000 -> put mine[expiration=3601] if claimable
a leader that waits for another process refuses its duplicate with that lease
    leader waiting round 1 for 60000 20000 -> refuse AlreadyInProgress until 60000
an expired lease refuses no duplicate although the leader still waits for it
    leader waiting round 1 for -1 20000 -> put mine if claimable
under wait a duplicate follows a waiting leader as long as its rounds advance
    wait | leader waiting round 1 for 60000 20000 -> follow 2000;
        leader waiting round 2 for 60000 20000, leader waiting round 3 for 60000 20000 -> follow 2000
    wait | leader waiting round 1 for 60000 20000, @2000, leader waiting round 1 for 60000 20000
        -> put mine[expiration=3602] if claimable
when the leader's claim is applied its duplicate is refused or waits on
    leader claiming 20000, leader running 20000 -> refuse AlreadyInProgress until 20000
    wait | leader claiming 20000, leader running 20000 -> follow 20001
a duplicate gets the confirmed response of its leader
    leader claiming 20000, leader-done done -> replay done from ConcurrentCall
    wait | leader running 20000, leader-done done -> replay done from ConcurrentCall
a shared record is classified like a stored one
    leader claiming 20000, leader-done done[expiration=-1] -> look for a leader
    validation=mine | leader claiming 20000, leader-done done -> refuse PayloadMismatch
after a leader without a claim each duplicate asks the store
    leader claiming 20000, leader-done none -> put mine if claimable
    wait | leader claiming 20000, leader-done none -> put mine if claimable
after a leader without a response its followers look for the next leader
    wait | leader running 20000, leader-done none -> look; miss -> put mine if claimable
    wait | leader running 20000, leader-done none, leader claiming 20000 -> follow 1000
    wait | leader storing 20000, leader-done none -> look
    wait | leader waiting round 1 for 60000 20000, leader-done none -> look
a leader with an expired lease delays no duplicate
    leader running -1 -> put mine if claimable
    leader claiming 20000, @20001, leader running 20000 -> put mine[expiration=3620] if claimable
    leader running 0 -> refuse AlreadyInProgress until 0
    wait | leader running -1 -> put mine if claimable
    wait | leader claiming 20000, @20001, leader running 20000 -> put mine[expiration=3620] if claimable
a duplicate without time to wait is refused by a running leader
    wait deadline=250 | leader running 20000 -> refuse AlreadyInProgress until 20000
    # A claiming leader does not know yet whether another call is in progress. The store knows.
    wait deadline=250 | leader claiming 20000 -> put mine[lease=250] if claimable
a call with an expired deadline follows no leader
    wait deadline=-1 | leader running 20000 -> refuse NoTimeLeft
without a deadline the time to wait starts with the call
    wait lease=60000 deadline=- | leader running 20000, @20000, leader-done none, leader running 300000 -> follow 39750
a call publishes whether it asks the store waits or runs
    wait | progress? -> none
    wait | miss, progress? -> claiming 30000; met other[lease=9000], progress? -> waiting round 1 for 9000 30000;
        paused, progress? -> waiting round 1 for 9000 30000;
        reads other[lease=9000], progress? -> waiting round 2 for 9000 30000
    wait | miss, applied-blind, progress? -> running 30000; ends returned 42, progress? -> storing 30000;
        lost transient, progress? -> storing 30000
    wait | miss, applied-blind, ends not-stored, progress? -> storing 30000
    wait | miss, applied-blind, ends failed E, progress? -> storing 30000
";

#[test]
fn a_duplicate_waits_for_another_process() {
    check(WAIT);
}

const WAIT: &str = "
a waiting duplicate pauses reads and gets the response
    wait | miss, met other[lease=9000] -> pause 25; paused -> read; reads other[lease=9000] -> pause 50
    wait | miss, met other[lease=9000], paused, reads done -> replay done from Store
a waiting duplicate claims when the other claim is gone
    wait | miss, met other[lease=9000], paused, reads none -> put mine if claimable
a wait is bounded by the deadline and not by tries
    wait | miss, met other[lease=60000], 200x(paused & reads other[lease=60000]) -> pause 1000;
        paused, @29900, reads other[lease=60000] -> refuse AlreadyInProgress until 60000
a wait goes on after a failed read
    wait | miss, met other[lease=60000], paused, read-fails -> pause 50; paused, reads done -> replay done from Store
a wait whose last read failed ends with the store's error
    wait | miss, met other[lease=60000], 50x(paused & read-fails), paused, @29750, read-fails -> refuse StoreFailed
a wait whose last read succeeded ends with the record
    wait | miss, met other[lease=60000], paused, read-fails, paused, @29750, reads other[lease=60000]
        -> refuse AlreadyInProgress until 60000
a claim that may have been applied before a wait is released when the wait ends with a failed read
    wait | miss, met-late other[lease=60000], paused, @29750, read-fails -> leave unreported
a failed read after a claim ends the call although it waited before
    wait | miss, met other[lease=60000], paused, reads none, lost transient, read-fails -> leave unreported
a waiting call may lose any number of races for the next claim
    wait | miss, 10x(met other[lease=9000] & paused & reads none), met other[lease=9000] -> pause 1000
a send lost before a wait may still be applied after it
    wait | miss, met-late other[lease=9000], paused, reads none, fails transient -> read
";
