//! Calls of an operation with steps: the claim, the takeover, and the end of the run.

use super::script::check;

#[test]
fn later_runs_take_over_recorded_steps() {
    check(STEPS);
}

const STEPS: &str = r#"
a claim begins with no step and replaces no steps
    keep | miss -> put mine[expiration=3631 steps=] if replaceable
    hold keep | miss -> put mine[expiration=315360031 steps=] if replaceable-under-hold
    forget | miss -> put mine[expiration=3631 steps=] if replaceable
the window of steps begins when a later run can need them
    keep window=5000 | miss -> put mine[expiration=36 steps=] if replaceable;
        met other[steps=a] -> update expiration=36 lease=30000 owner=me without
        failure+decision+event if owner=another & status=INPROGRESS & lease=-1
    # A killed run: for the whole window after its lease, a later run keeps its steps.
    keep window=5000 deadline=- | @35500, miss, met mine[expiration=36 owner=another steps=a] -> update expiration=941
        lease=935500 owner=me without failure+decision+event if owner=another & status=INPROGRESS & lease=30000
    # A failure 20 s into the run.
    keep window=5000 deadline=- | miss, applied, @20000, ends recorded:failed Timeout -> update expiration=25 lease=-1
        failure=Timeout without owner if mine
a claim without steps has the condition and the attributes of before
    miss -> put mine if claimable; applied, ends returned 42 -> update expiration=3600 status=completed data=42 if mine
a takeover is an update of the claim that was read
    # The end of the lease, as a whole second, and the window after it.
    keep validation=v operation=shop::order | miss, met other[validation=v steps=a] -> update expiration=3631
        lease=30000 owner=me operation=shop::order without failure+decision+event if owner=another & status=INPROGRESS &
        lease=-1 & validation=v
a takeover keeps the event of its own call
    keep event={} | miss, met other[steps=a] -> update expiration=3631 lease=30000 owner=me event={"all":{}} without
        failure+decision if owner=another & status=INPROGRESS & lease=-1
a takeover of a record that steps fill drops the event and keeps the operation
    keep operation=shop::order event={} | miss, met other[steps=a], fails too-large -> read;
        reads other[steps=a] -> update expiration=3631 lease=30000 owner=me without
        failure+decision+event if owner=another & status=INPROGRESS & lease=-1;
        applied, reads mine[steps=a] -> run
    keep operation=shop::order event={} | miss, met other[steps=a], fails too-large, reads other[steps=a],
        fails too-large -> refuse StoreFailed
a takeover of a released claim requires that it has no owner
    keep | miss, met other[owner=- failure=Timeout steps=a] -> update expiration=3631 lease=30000 owner=me without
        failure+decision+event if no owner & status=INPROGRESS & lease=-1
    hold keep | miss, met other[owner=- failure=Timeout steps=a] -> update expiration=315360031 lease=30000 owner=me
        without failure+decision+event if no owner & status=INPROGRESS & lease=-1 & has failure
the run uses the steps after the takeover and not those before it
    keep | miss, met other[steps=], applied, reads mine[steps=a+b], steps? -> a+b; run? -> rerun after -1
a takeover is followed by a consistent read whether its reply was lost or not
    keep | miss, met other[steps=a], applied -> read
    keep | miss, met other[steps=a], lost transient -> read
a run after a recorded failure is a first run
    keep | miss, met other[owner=- failure=Timeout steps=a], applied, reads mine[steps=a], run? -> Some(First)
a run after one that left a step open does not know that it is the first
    keep | miss, met other[owner=- failure=unreported steps=a], applied, reads mine[steps=a], run? -> Some(Unknown)
    # The first try found a reported failure, and lost to another call that did not run.
    keep | miss, met other[owner=- failure=Timeout steps=a], met other[owner=- failure=unreported steps=a], applied,
        reads mine[steps=a], run? -> Some(Unknown)
a failure after a step that was not recorded says so in the record
    keep | miss, applied, ends not-recorded:failed Timeout -> leave unreported:_Timeout
    keep | miss, applied, ends not-recorded:panicked -> leave unreported:_panic
    keep | miss, applied, ends not-recorded:not-stored -> leave unreported:_response_not_stored
a release without room for the failure keeps the steps under a shorter one
    keep | miss, applied, ends recorded:failed Timeout, fails too-large -> leave failed;
        fails too-large -> own, claim not_released
    keep | miss, applied, ends step-too-large:failed Timeout, fails too-large -> leave unreported;
        fails too-large -> own, claim not_released
    keep | miss, applied, ends not-recorded:failed Timeout, fails too-large -> leave unreported;
        fails too-large -> own, claim not_released
a claim without steps and one whose window has expired are replaced
    keep | miss, met other -> put mine[expiration=3631 steps=] if replaceable
    keep | miss, met other[expiration=-1 steps=a] -> put mine[expiration=3631 steps=] if replaceable
another payload takes over no steps
    keep validation=mine | miss, met other[validation=theirs steps=a] -> refuse PayloadMismatch
steps that cannot be read stop the call
    keep | miss, met other[steps=?] -> refuse CorruptRecord because the results of its steps cannot be read
    keep | miss, met other[owner=? steps=a] -> refuse CorruptRecord because it has steps, but its owner or its lease
        cannot be read
a takeover that does not run keeps the steps
    keep | miss, met other[steps=a], applied, @100, read-fails -> leave unreported
a handler that did not begin keeps the steps of earlier runs under each policy
    keep | miss, met other[steps=a], applied, reads mine[steps=a], ends not-started -> leave unreported
    forget | miss, met other[steps=a], applied, reads mine[steps=a], ends not-started -> leave unreported
    miss, applied, ends not-started -> delete if mine
a takeover after a reported failure that does not run leaves the next run the first
    keep | miss, met other[owner=- failure=Timeout steps=a], applied, read-fails -> leave not_started
a takeover after the deadline is not sent
    keep | miss, @30001, met other[steps=a] -> refuse NoTimeLeft
takeovers that keep losing end the call
    keep | miss, 4x(met other[steps=a]) -> refuse Contended
a completion deletes the steps
    keep | miss, applied, ends recorded:returned 42 -> update expiration=3600 status=completed data=42 without
        steps if mine
a failure after steps ends the lease and keeps them
    keep | miss, applied, ends recorded:failed Timeout -> leave Timeout
    record keep | miss, applied, ends recorded:failed Timeout -> leave Timeout
a failure before the first step frees the key as without steps
    keep | miss, applied, ends failed Timeout -> delete if mine
a failure keeps the steps of earlier runs too
    keep | miss, met other[steps=], applied, reads mine[steps=a], ends failed Timeout -> leave unreported:_Timeout
a response that is not stored keeps the steps and yields to a stored one
    keep | miss, applied, ends recorded:not-stored -> leave response_not_stored; met done -> replay done from Completion
under forget a failure deletes the steps
    forget | miss, applied, ends recorded:failed Timeout -> delete if mine
    forget | miss, applied, ends not-recorded:failed Timeout -> update expiration=3600 lease=-1
        failure=unreported:_Timeout without owner+steps if mine
    record forget | miss, applied, ends recorded:failed Timeout -> update expiration=3600 lease=-1 failure=Timeout
        without owner+steps if mine
a call whose step found the claim gone ends in the winner's response
    keep | miss, applied, ends claim-lost:failed Timeout -> read; reads done -> replay done from Completion
    keep | miss, applied, ends claim-lost:failed Timeout, reads mine[owner=another] -> refuse LostOwnership LostInAStep
    keep | miss, applied, ends claim-lost:failed Timeout, reads none -> refuse LostOwnership LostInAStep
    keep | miss, applied, ends claim-lost:failed Timeout, read-fails -> refuse LostOwnership LostInAStep
    keep | miss, applied, ends claim-lost:returned 42 -> read; reads done -> replay done from Completion
    keep | miss, applied, ends claim-lost:returned 42, reads mine[owner=another] -> refuse LostOwnership LostInAStep
    keep | miss, applied, ends claim-lost:returned 42, reads none -> refuse LostOwnership LostInAStep
    keep | miss, applied, ends claim-lost:returned 42, read-fails -> refuse LostOwnership LostInAStep
a panic is a panic also if the claim is gone
    keep | miss, applied, ends claim-lost:panicked -> leave unreported:_panic
under hold a step that was not recorded keeps the claim
    hold keep | miss, applied, ends not-recorded:failed Timeout -> own, claim kept
    hold keep | miss, applied, ends recorded:failed Timeout -> leave Timeout
    hold keep | miss, applied, ends not-recorded:not-stored -> own, claim kept
    hold keep | miss, applied, ends recorded:not-stored -> leave response_not_stored
    # A response is stored in any case: then no run follows.
    hold keep | miss, applied, ends not-recorded:returned 42 -> update expiration=3600 status=completed data=42 without
        steps if mine
    keep | miss, applied, ends not-recorded:failed Timeout -> leave unreported:_Timeout
    keep | miss, applied, ends not-recorded:not-stored -> leave unreported:_response_not_stored
"#;
