//! The completion and the release.

use super::script::check;

#[test]
fn a_call_completes_or_releases_its_claim() {
    check(COMPLETION);
}

const COMPLETION: &str = "
a completion is fenced and ends the call only when it is confirmed
    validation=v | miss, applied, ends returned 42 -> update expiration=3600 status=completed data=42
        validation=v if mine;
        applied -> own, stored done[lease=- data=42 validation=v owner=-], claim completed
a maybe applied completion is sent again and the record shows whether it was applied
    miss, applied, ends returned 42, lost transient -> pause 25;
        paused -> update expiration=3600 status=completed data=42 if mine;
        met mine[status=completed data=42] -> replay mine[status=completed data=42] from Completion
an unconfirmed completion is unknown and never released
    miss, applied, ends returned 42, 3x(lost transient & paused), lost transient -> refuse CompletionUnknown
    miss, applied, ends returned 42, fails permanent -> refuse CompletionUnknown
a late owner gets the winner's response
    miss, applied, ends returned 42, met done -> replay done from Completion
a late owner does not get the response of another payload
    validation=mine | miss, applied, ends returned 42, met done[validation=theirs] -> refuse LostOwnership
a late owner that finds no response has lost ownership
    miss, applied, ends returned 42, met other[lease=9000] -> refuse LostOwnership
    miss, applied, ends returned 42, met done[data=-] -> refuse LostOwnership
    miss, applied, ends returned 42, met done[expiration=-1] -> refuse LostOwnership
a failed condition that brings the own claim back leaves the completion unknown
    miss, applied, ends returned 42, met mine -> refuse CompletionUnknown
an evicted claim is restored as completed while its lease runs
    miss, applied, ends returned 42, met none, reads none -> put mine[status=completed data=42] if no-record
a restored completion is classified if its condition fails and unknown if it fails
    miss, applied, ends returned 42, met none, reads none, met other[lease=9000] -> refuse LostOwnership
    miss, applied, ends returned 42, met none, reads none, met done -> replay done from Completion
    miss, applied, ends returned 42, met none, reads none, lost transient -> refuse CompletionUnknown
a completion whose condition failed stays unknown if the read fails
    miss, applied, ends returned 42, met none, read-fails -> refuse CompletionUnknown
an evicted claim is not restored after a lost send or after its lease
    miss, applied, ends returned 42, lost transient, paused, met none, reads none -> refuse LostOwnership
    miss, applied, ends returned 42, met-late none, reads none -> refuse LostOwnership
    miss, applied, ends returned 42, @30001, met none, reads none -> refuse LostOwnership
a response that is too large completes the key and only its own caller gets it
    miss, applied, ends returned 42, fails too-large -> update expiration=3600 status=completed if mine;
        applied -> own, claim completed_without_response
a maybe applied completion without a response is confirmed only by its own token
    miss, applied, ends returned 42, fails too-large, lost transient, paused, met mine[status=completed]
        -> own, claim completed_without_response
    miss, applied, ends returned 42, fails too-large, lost transient, paused, met done[data=-] -> refuse LostOwnership
    # A call that sent the response itself did not complete the key without it.
    miss, applied, ends returned 42, met mine[status=completed] -> refuse LostOwnership
a completion that is too large without its response too is not sent a third time
    miss, applied, ends returned 42, fails too-large, fails too-large -> refuse CompletionUnknown
a completion without its response has as many tries as one with it
    miss, applied, ends returned 42, 3x(lost transient & paused), fails too-large, 3x(lost transient & paused)
        -> update expiration=3600 status=completed if mine;
        lost transient -> refuse CompletionUnknown
a response that is not json completes the key without it
    miss, applied, ends not-serializable -> update expiration=3600 status=completed if mine;
        applied -> refuse ResponseNotSerializable
a completion is sent again only if the pause leaves more than the reply reserve
    # The lease ends after 30 s. The first pause takes at most 25 ms, and the reserve for the reply is 200 ms.
    miss, applied, ends returned 42, @29774, lost transient -> pause 25
    miss, applied, ends returned 42, @29775, lost transient -> refuse CompletionUnknown
a failure releases the claim under its fence
    miss, applied, ends failed Timeout -> delete if mine
the caller gets the handler's own result also if the release fails
    miss, applied, ends failed Timeout, applied -> own, claim released
    miss, applied, ends failed Timeout, met done -> own, claim released
    miss, applied, ends failed Timeout, lost transient -> own, claim not_released
a stored response replaces one that is not stored
    miss, applied, ends not-stored, met done -> replay done from Completion
    miss, applied, ends not-stored, applied -> own, claim released
a recorded failure ends the lease before the claim and removes the token
    record | miss, applied, @5000, ends failed Timeout -> leave Timeout
a recorded failure ends the lease before the claim that was applied
    record | miss, @10, met other, applied, ends failed Timeout -> update expiration=3600 lease=9 failure=Timeout
        without owner if mine
a release leaves a mark unless every run until now has reported its end
    miss, applied-over other, ends failed Timeout -> leave unreported:_Timeout
    miss, applied-over other, ends not-stored -> leave unreported:_response_not_stored
    miss, applied-over other, ends unstorable -> leave unreported:_response_not_stored
    miss, applied-over other[failure=unreported], ends failed Timeout -> leave unreported:_Timeout
    miss, applied-over other[failure=unreported], ends not-stored -> leave unreported:_response_not_stored
    miss, applied-over other[failure=unreported], ends unstorable -> leave unreported:_response_not_stored
    miss, applied-over other[failure=unreported:_Timeout], ends failed Timeout -> leave unreported:_Timeout
    miss, applied-over other[failure=unreported:_Timeout], ends not-stored -> leave unreported:_response_not_stored
    miss, applied-over other[failure=unreported:_Timeout], ends unstorable -> leave unreported:_response_not_stored
    miss, applied-over other[failure=ResolvedByOperator], ends failed Timeout -> leave unreported:_Timeout
    miss, applied-over other[failure=ResolvedByOperator], ends not-stored -> leave unreported:_response_not_stored
    miss, applied-over other[failure=ResolvedByOperator], ends unstorable -> leave unreported:_response_not_stored
    miss, applied, ends failed Timeout -> delete if mine
    miss, applied-over other[failure=Timeout], ends failed Timeout -> delete if mine
    miss, applied-over done, ends failed Timeout -> delete if mine
    record | miss, applied-over other, ends failed Timeout -> leave unreported:_Timeout
    record | miss, applied-over other, ends not-stored -> leave unreported:_response_not_stored
    record | miss, applied-over other, ends unstorable -> leave unreported:_response_not_stored
    record | miss, applied-over other[failure=unreported], ends failed Timeout -> leave unreported:_Timeout
    record | miss, applied-over other[failure=unreported], ends not-stored -> leave unreported:_response_not_stored
    record | miss, applied-over other[failure=unreported], ends unstorable -> leave unreported:_response_not_stored
    record | miss, applied-over other[failure=unreported:_Timeout], ends failed Timeout -> leave unreported:_Timeout
    record | miss, applied-over other[failure=unreported:_Timeout], ends not-stored
        -> leave unreported:_response_not_stored
    record | miss, applied-over other[failure=unreported:_Timeout], ends unstorable
        -> leave unreported:_response_not_stored
    record | miss, applied-over other[failure=ResolvedByOperator], ends failed Timeout -> leave unreported:_Timeout
    record | miss, applied-over other[failure=ResolvedByOperator], ends not-stored
        -> leave unreported:_response_not_stored
    record | miss, applied-over other[failure=ResolvedByOperator], ends unstorable
        -> leave unreported:_response_not_stored
    record | miss, applied, ends failed Timeout -> leave Timeout
    # It is no failure, so it is not recorded either.
    record | miss, applied, ends not-stored -> delete if mine
    record | miss, applied, ends unstorable -> delete if mine
    record | miss, applied-over other[failure=Timeout], ends failed Timeout -> leave Timeout
    record | miss, applied-over other[failure=Timeout], ends not-stored -> delete if mine
    record | miss, applied-over other[failure=Timeout], ends unstorable -> delete if mine
    record | miss, applied-over done, ends failed Timeout -> leave Timeout
    record | miss, applied-over done, ends not-stored -> delete if mine
    record | miss, applied-over done, ends unstorable -> delete if mine
    hold | miss, applied-over other, ends failed Timeout -> leave unreported:_Timeout
    hold | miss, applied-over other, ends not-stored -> leave unreported:_response_not_stored
    hold | miss, applied-over other, ends unstorable -> leave unreported:_response_not_stored
    hold | miss, applied-over other[failure=unreported], ends failed Timeout -> leave unreported:_Timeout
    hold | miss, applied-over other[failure=unreported], ends not-stored -> leave unreported:_response_not_stored
    hold | miss, applied-over other[failure=unreported], ends unstorable -> leave unreported:_response_not_stored
    hold | miss, applied-over other[failure=unreported:_Timeout], ends failed Timeout -> leave unreported:_Timeout
    hold | miss, applied-over other[failure=unreported:_Timeout], ends not-stored
        -> leave unreported:_response_not_stored
    hold | miss, applied-over other[failure=unreported:_Timeout], ends unstorable
        -> leave unreported:_response_not_stored
    hold | miss, applied-over other[failure=ResolvedByOperator], ends failed Timeout -> leave unreported:_Timeout
    hold | miss, applied-over other[failure=ResolvedByOperator], ends not-stored
        -> leave unreported:_response_not_stored
    hold | miss, applied-over other[failure=ResolvedByOperator], ends unstorable
        -> leave unreported:_response_not_stored
    hold | miss, applied, ends failed Timeout -> delete if mine
    hold | miss, applied-over other[failure=Timeout], ends failed Timeout -> delete if mine
    hold | miss, applied-over done, ends failed Timeout -> delete if mine
a claim whose run never started is released with a mark unless it was the first
    miss, @30001, applied -> delete if mine
    miss, @30001, applied-over other -> leave unreported
a completion that meets another transaction is sent again and its claim is never released
    miss, applied, ends returned 42, @29774, fails conflict -> pause 25
    miss, applied, ends returned 42, @29775, fails conflict -> refuse CompletionUnknown
    hold | miss, applied, ends returned 42, @29774, fails conflict -> pause 25
    hold | miss, applied, ends returned 42, @29775, fails conflict -> refuse CompletionUnknown
an end that was not reported leaves a mark under rerun and keeps the claim under hold
    miss, applied, ends panicked -> leave unreported:_panic
    miss, applied, ends unreported Elapsed -> leave unreported:_Elapsed
    hold | miss, applied, ends panicked -> own, claim kept
    hold | miss, applied, ends unreported Elapsed -> own, claim kept
    record | miss, applied, ends panicked -> leave unreported:_panic
    record | miss, applied, ends unreported Elapsed -> leave unreported:_Elapsed
    hold record | miss, applied, ends panicked -> own, claim kept
    hold record | miss, applied, ends unreported Elapsed -> own, claim kept
under hold a failure is a reported end and frees the key
    hold | miss, applied, ends failed Timeout -> delete if mine
";
