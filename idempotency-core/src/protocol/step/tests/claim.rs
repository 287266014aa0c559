//! The claim, what a call does with the record that it finds, the read before the claim, and the name of the operation.

use super::script::check;

#[test]
fn a_call_claims_its_key() {
    check(CLAIM);
}

const CLAIM: &str = "
a claim contains lease window validation and token
    validation=v | miss -> put mine[validation=v] if claimable
the window of a claim never ends before its lease rounded up
    # The lease ends half a second after a whole one.
    window=1000 | miss -> put mine[expiration=31] if claimable
under hold a claim expires years after its lease
    hold | miss -> put mine[expiration=315360031] if claimable-under-hold
without a deadline a claim has the configured lease
    deadline=- | miss -> put mine[lease=900000] if claimable
an expired deadline refuses the call before any request
    deadline=-1 | miss -> refuse NoTimeLeft
a deadline has not expired at its last millisecond
    deadline=0 | miss -> put mine[lease=0] if claimable; applied -> run
no handler starts under an expired lease
    miss, @30001, applied -> delete if mine; @30002, applied -> refuse NoTimeLeft
a configured lease starts at the claim and not at its reply
    lease=10000 deadline=- | miss, @10001, applied -> delete if mine
a claim found after a lost reply has the lease in its record
    # An earlier send of it was applied.
    lease=10000 deadline=- | miss, @9000, met mine[lease=9500], progress? -> running 9500
the token identifies a claim whose reply was lost
    miss, met mine -> run
    miss, lost transient, reads mine -> run
under hold a call that finds its own claim after the lease releases it
    hold | miss, @30001, met mine -> leave unreported; applied -> refuse NoTimeLeft
a missing record after a maybe applied claim is no proof so the call claims again with its token
    miss, lost transient, reads none -> put mine if claimable
a failed claim counts as not applied only if no send was lost
    miss, fails transient -> refuse StoreFailed
    # The last error is not enough: an earlier send was lost.
    miss, lost transient, reads none, fails transient -> read
a send that was lost before a failed condition may still be applied after the next claim
    miss, met-late other, fails transient -> read
a call that lost a send and every race releases its claim before it returns contended
    miss, met-late other, 3x(met other) -> leave unreported; applied -> refuse Contended
a claim that stays unknown is released before the error is returned
    miss, lost transient, read-fails -> leave unreported; lost transient -> refuse StoreFailed
a store that loses every claim is a store failure and not contention
    miss, 4x(lost transient & reads none), lost transient -> refuse StoreFailed
a maybe applied claim near the deadline is released at once so that the caller gets its error
    miss, @29850, lost transient -> leave unreported
a maybe applied claim that a late read does not find is released and not sent again
    miss, lost transient, @2799, reads none -> put mine[expiration=3603] if claimable
    miss, lost transient, @2800, reads none -> leave unreported; applied -> refuse StoreFailed
a claim whose condition failed without a record is sent again at any time
    miss, met none, @29999, reads none -> put mine[expiration=3630] if claimable
a failed condition without a record leads to a read
    miss, met none -> read
a call that loses every race returns contended
    miss, 4x(met other) -> refuse Contended
a duplicate of a call in progress is refused and writes nothing
    miss, met other[lease=9000] -> refuse AlreadyInProgress until 9000
a corrupt record is not changed
    miss, met done[data={] -> refuse CorruptRecord because its data is not JSON
under hold an expired claim is unresolved and not changed
    hold | miss, met other -> refuse Unresolved
a cached record is classified like a stored one
    cached done -> replay done from Cache
    cached done[expiration=-1] -> look for a leader; miss -> put mine if claimable
    validation=mine | cached done -> refuse PayloadMismatch
";

#[test]
fn a_call_that_reads_first_finds_responses() {
    check(LOOKUP);
}

const LOOKUP: &str = "
a call that claims first sends no read
    miss -> put mine if claimable
a call that reads first sends an eventual read before its claim
    read-first | miss -> read eventual
a response that the read finds is replayed from the store
    read-first | miss, reads done[data=42] -> replay done[data=42] from Store
a response of the same payload is replayed
    read-first validation=v | miss, reads done[data=42 validation=v] -> replay done[data=42 validation=v] from Store
in every other case the claim decides
    read-first | miss, reads none -> put mine if claimable
    read-first | miss, reads other[lease=1] -> put mine if claimable
    read-first | miss, reads other -> put mine if claimable
    read-first | miss, reads done[expiration=-1 data=42] -> put mine if claimable
    read-first | miss, reads done[data=-] -> put mine if claimable
    read-first | miss, reads done[data=?] -> put mine if claimable
    read-first | miss, reads done[data={] -> put mine if claimable
    read-first | miss, reads done[status=- data=42] -> put mine if claimable
    read-first | miss, read-fails -> put mine if claimable
a response of another payload is left to the claim
    read-first validation=mine | miss, reads done[data=42 validation=theirs] -> put mine[validation=mine] if claimable;
        met done[data=42 validation=theirs] -> refuse PayloadMismatch
a window is replayed to its last second
    read-first | miss, reads done[expiration=0 data=42] -> replay done[expiration=0 data=42] from Store
a call that holds leaves an expired claim to its own claim
    hold read-first | miss, reads other -> put mine[expiration=315360031] if claimable-under-hold;
        met other -> refuse Unresolved
each read after the claim is strong
    read-first | miss, reads none, lost transient -> read
    read-first | miss, reads none, met none -> read
    wait read-first | miss, reads none, met other[lease=20000], paused -> read
a claim that fails after the read ends in the error of the store
    read-first | miss, read-fails, fails permanent -> refuse StoreFailed
a deadline that expires during the read prevents the claim but no replay
    read-first | miss, @30001, reads none -> refuse NoTimeLeft
    read-first | miss, @30001, read-fails -> refuse NoTimeLeft
    read-first | miss, @30001, reads done[data=42] -> replay done[data=42] from Store
    read-first | @30001, miss -> refuse NoTimeLeft
the claim is made at the time of the claim and not of the read
    read-first | miss, @2000, reads none -> put mine[expiration=3602] if claimable
the read may take half of the time of a claim and counts in the store timeout
    read-first | miss, limit? -> 1400; @1400, read-fails, limit? -> 1400
the read of a call with little time takes half of its minimum
    read-first deadline=300 | miss, limit? -> 75
a call that reads first is a leader that claims
    read-first | miss, progress? -> claiming 30000
a follower that asks the store itself reads first too
    read-first | leader claiming 20000, @1000, leader claiming 20000 -> read eventual
";

#[test]
fn a_record_names_its_operation() {
    check(OPERATION);
}

const OPERATION: &str = "
a claim names its operation if the call has one
    operation=shop::charge | miss -> put mine[operation=shop::charge] if claimable
    miss -> put mine if claimable
a completion keeps the name that its claim wrote and confirms a record with it
    operation=shop::charge | miss, applied, ends returned 42 -> update expiration=3600 status=completed data=42 if mine;
        applied -> own, stored done[lease=- data=42 owner=- operation=shop::charge], claim completed
an evicted claim is restored with its name
    operation=shop::charge | miss, applied, ends returned 42, met none, reads none -> put mine[status=completed data=42
        operation=shop::charge] if no-record
a response is replayed for any name in its record
    operation=shop::charge | miss, met done[data=42] -> replay done[data=42] from Store
    operation=shop::charge | miss, met done[data=42 operation=?] -> replay done[data=42 operation=?] from Store
    operation=shop::charge | miss, met done[data=42 operation=shop::refund]
        -> replay done[data=42 operation=shop::refund] from Store
";
