//! The completion in one transaction with staged writes.

use super::script::check;

#[test]
fn staged_writes_and_the_completion_are_one_transaction() {
    check(TRANSACTION);
}

const TRANSACTION: &str = "
staged writes and the completion are one transaction under the fence
    miss, applied, stages returned 42 -> transact update expiration=3600 status=completed data=42 if mine;
        applied -> own, stored done[lease=- data=42 owner=-], claim completed, writes applied
every ending with a completion keeps the staged writes and every other drops them
    miss, applied, stages not-serializable -> transact update expiration=3600 status=completed if mine
    miss, applied, stages not-deserializable -> transact update expiration=3600 status=completed if mine
    miss, applied, stages unstorable -> transact update expiration=3600 status=completed if mine
    miss, applied, ends unstorable -> delete if mine
    miss, applied, stages not-stored -> delete if mine
    miss, applied, stages failed E -> delete if mine
    miss, applied, stages panicked -> leave unreported:_panic
a response that is too large is left out of the same transaction
    miss, applied, stages returned 42, fails too-large -> transact update expiration=3600 status=completed if mine;
        fails too-large -> delete if mine
a rejection releases the claim under its fence before the caller gets it
    miss, applied, stages returned 42, rejected -> delete if mine;
        applied -> refuse TransactionRejected, claim released, writes rejected
    # The same if an earlier send may have been applied: the release shows that it was not.
    miss, applied, stages returned 42, lost transient, paused, rejected, applied
        -> refuse TransactionRejected, claim released, writes rejected
under on error record a rejection is a recorded failure
    record | miss, applied, stages returned 42, rejected -> leave IdempotencyTransactionRejected
a write that the store does not accept is a rejection too
    miss, applied, stages returned 42, fails permanent, applied
        -> refuse TransactionRejected, claim released, writes rejected
a release that finds a stored response replays it
    # The send that may have been applied was in a window that has ended since.
    miss, applied, stages returned 42, lost transient, paused, rejected, met mine[status=completed data=42]
        -> replay mine[status=completed data=42] from Completion, writes applied
    miss, applied, stages returned 42, lost transient, paused, rejected, met done
        -> replay done from Completion, writes unknown
    miss, applied, stages returned 42, rejected, met done -> replay done from Completion, writes dropped
a release that finds its own completion without a response confirms it
    miss, applied, stages returned 42, fails too-large, lost transient, paused, rejected, met mine[status=completed]
        -> own, claim completed_without_response, writes applied
a claim that is gone after a rejection is lost if a send or another call may apply writes
    miss, applied, stages returned 42, rejected, met other[lease=9000] -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, rejected, met done[data=-] -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, rejected, met none -> refuse TransactionRejected, writes rejected
    miss, applied, stages returned 42, rejected-late, met other[lease=9000] -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, rejected-late, met done[data=-] -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, rejected-late, met none -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, lost transient, paused, rejected, met other[lease=9000]
        -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, lost transient, paused, rejected, met done[data=-]
        -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, lost transient, paused, rejected, met none
        -> refuse LostOwnership, writes unknown
a release that fails after a rejection leaves it unknown only after a lost send
    miss, applied, stages returned 42, rejected, lost transient -> refuse TransactionRejected, claim not_released,
        writes rejected
    miss, applied, stages returned 42, rejected-late, lost transient -> refuse CompletionUnknown, writes unknown
a rejection is unknown if a claim and then a transaction may still arrive
    miss, applied-again, stages returned 42, lost transient, paused, rejected, applied
        -> refuse CompletionUnknown, writes unknown
    miss, applied-again, stages returned 42, rejected-late, applied -> refuse CompletionUnknown, writes unknown
    # No send of the transaction is on its way.
    miss, applied-again, stages returned 42, rejected, applied
        -> refuse TransactionRejected, claim released, writes rejected
    miss, met-late mine, stages returned 42, lost transient, paused, rejected, applied
        -> refuse CompletionUnknown, writes unknown
    miss, met-late mine, stages returned 42, rejected-late, applied -> refuse CompletionUnknown, writes unknown
    miss, met-late mine, stages returned 42, rejected, applied
        -> refuse TransactionRejected, claim released, writes rejected
    miss, lost transient, reads none, applied, stages returned 42, lost transient, paused, rejected, applied
        -> refuse CompletionUnknown, writes unknown
    miss, lost transient, reads none, applied, stages returned 42, rejected-late, applied
        -> refuse CompletionUnknown, writes unknown
    miss, lost transient, reads none, applied, stages returned 42, rejected, applied
        -> refuse TransactionRejected, claim released, writes rejected
    miss, lost transient, reads mine, stages returned 42, lost transient, paused, rejected, applied
        -> refuse CompletionUnknown, writes unknown
    miss, lost transient, reads mine, stages returned 42, rejected-late, applied
        -> refuse CompletionUnknown, writes unknown
    miss, lost transient, reads mine, stages returned 42, rejected, applied
        -> refuse TransactionRejected, claim released, writes rejected
a release that brings the own claim back leaves the end unknown
    miss, applied, stages returned 42, rejected, met mine -> refuse CompletionUnknown, writes unknown
conflicts are repeated for as long as the lease runs and do not count as tries
    miss, applied, stages returned 42, 300x(fails conflict & paused), 3x(lost transient & paused) -> transact update
        expiration=3600 status=completed data=42 if mine;
        lost transient -> refuse CompletionUnknown, writes unknown
    # The first pause takes at most 25 ms, and 200 ms are kept for the reply.
    miss, applied, stages returned 42, @29774, fails conflict -> pause 25
    miss, applied, stages returned 42, @29775, fails conflict -> delete if mine
pauses after conflicts grow up to a second
    miss, applied, stages returned 42, fails conflict -> pause 25; paused, fails conflict -> pause 50;
        paused, fails conflict -> pause 100; 3x(paused & fails conflict) -> pause 800;
        paused, fails conflict -> pause 1000; 293x(paused & fails conflict) -> pause 1000
a transaction that is given up frees the key if no send can have been applied
    miss, applied, stages returned 42, 3x(fails transient & paused), fails transient -> delete if mine;
        applied -> refuse CompletionUnknown, claim released, writes dropped
    miss, applied, stages returned 42, 3x(fails transient & paused), fails transient, lost transient
        -> refuse CompletionUnknown, claim not_released, writes dropped
    miss, applied, stages returned 42, 3x(fails transient & paused), fails transient, met other[lease=9000]
        -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, 3x(fails transient & paused), fails transient, met none
        -> refuse CompletionUnknown, writes dropped
    # A send that may still be applied needs the claim as its fence, and the caller may need its response.
    miss, applied, stages returned 42, fails transient, paused, lost transient, 2x(paused & fails transient)
        -> refuse CompletionUnknown, writes unknown
    # The record was refused, so the claim is not this call's any more.
    miss, applied, stages returned 42, 3x(fails refused & paused), fails refused
        -> refuse CompletionUnknown, writes unknown
under on error record a transaction that is given up is a recorded failure
    record | miss, applied, stages returned 42, @29775, fails conflict -> leave IdempotencyCompletionUnknown
a lost claim gives the winner's response and applies nothing
    miss, applied, stages returned 42, met done -> replay done from Completion, writes dropped
an evicted claim is not restored because no record is no fence
    miss, applied, stages returned 42, met none, reads none -> refuse LostOwnership, writes unknown
    miss, applied, stages returned 42, lost transient, paused, met none, reads none
        -> refuse LostOwnership, writes unknown
a claim that meets the transaction of another call reads the record
    miss, fails conflict -> read; reads other[lease=9000] -> refuse AlreadyInProgress until 9000
    miss, fails conflict, reads none -> put mine if claimable
    # It has met another call of its key, so it does not run without a claim.
    unprotected | miss, fails conflict, read-fails -> refuse StoreFailed
under hold a rejection after a step that is not recorded keeps the claim
    hold | miss, applied, stages not-recorded:returned 42, rejected -> refuse TransactionRejected, claim kept, writes rejected
    hold | miss, applied, stages not-recorded:returned 42, rejected-late -> refuse CompletionUnknown, writes unknown
under rerun a rejection after a step that is not recorded leaves a mark
    miss, applied, stages not-recorded:returned 42, rejected -> leave unreported
    record | miss, applied, stages not-recorded:returned 42, rejected -> leave unreported
under hold writes are applied also after a lost step and with a response that cannot be stored
    hold | miss, applied, stages recorded:unstorable -> transact update expiration=3600 status=completed if mine
    hold | miss, applied, ends recorded:unstorable -> delete if mine
    hold | miss, applied, stages not-recorded:unstorable -> transact update expiration=3600 status=completed if mine
    # Without staged writes an operator must decide about the lost step.
    hold | miss, applied, ends not-recorded:unstorable -> own, claim kept
under hold a rejection frees the key
    hold | miss, applied, stages returned 42, rejected -> delete if mine
staged writes of a run that does not complete its key are dropped
    miss, applied, stages not-stored, applied -> own, claim released, writes dropped
    miss, applied, stages not-stored, met done -> replay done from Completion, writes dropped
    miss, applied, stages failed E, lost transient -> own, claim not_released, writes dropped
    miss, applied, stages claim-lost:returned 42, reads done -> replay done from Completion, writes dropped
    miss, applied, stages claim-lost:returned 42, reads none -> refuse LostOwnership LostInAStep, writes dropped
    hold | miss, applied, stages panicked -> own, claim kept, writes dropped
staged writes are applied with a key that is completed without its response
    miss, applied, stages not-serializable, applied -> refuse ResponseNotSerializable, writes applied
    miss, applied, stages not-deserializable, applied -> own, claim completed_without_response, writes applied
";
