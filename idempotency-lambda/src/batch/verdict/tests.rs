use super::*;

/// Every kind of error, and whether its record is acknowledged: if the handler did not return `Ok`, and if it did.
const KINDS: [(ErrorKind, bool, bool); 24] = [
    (ErrorKind::AlreadyInProgress, false, true),
    (ErrorKind::PayloadMismatch, false, true),
    (ErrorKind::KeyMissing, false, true),
    (ErrorKind::InvalidPayload, false, true),
    (ErrorKind::ExpressionFailed, false, true),
    (ErrorKind::Unresolved, false, true),
    (ErrorKind::CorruptRecord, false, true),
    (ErrorKind::ResponseTypeChanged, true, true),
    (ErrorKind::Contended, false, true),
    (ErrorKind::NoTimeLeft, false, true),
    (ErrorKind::ResponseUnavailable, true, true),
    (ErrorKind::ResponseNotSerializable, false, true),
    (ErrorKind::LostOwnership, false, true),
    (ErrorKind::CompletionUnknown, false, true),
    (ErrorKind::TransactionRejected, false, false),
    (ErrorKind::StoreFailed, false, true),
    (ErrorKind::StepRefused, false, true),
    (ErrorKind::StepNoTimeLeft, false, true),
    (ErrorKind::StepNotRecorded, false, true),
    (ErrorKind::StepTypeChanged, false, true),
    (ErrorKind::Configuration, false, true),
    (ErrorKind::Environment, false, true),
    (ErrorKind::UnknownInvocation, false, true),
    (ErrorKind::Internal, false, true),
];

#[test]
fn a_record_is_acknowledged_only_if_its_work_is_known_to_be_done() {
    for (kind, alone, after_success) in KINDS {
        for (succeeded, acknowledged) in [(false, alone), (true, after_success)] {
            let error = CallError::<()>::Framework(Error::new(kind, "shop"));
            let expected = if acknowledged {
                Verdict::Done(Done::Despite(kind))
            } else {
                Verdict::Returned(Why::Refused(kind))
            };
            assert_eq!(Verdict::of(&error, succeeded), expected);
        }
    }
}

#[test]
fn an_ok_after_a_step_that_lost_its_claim_does_not_acknowledge() {
    let error = Error::new(ErrorKind::LostOwnership, "shop").with_loss_in_a_step();
    let verdict = Verdict::of(&CallError::<()>::Framework(error), true);
    let returned = Verdict::Returned(Why::Refused(ErrorKind::LostOwnership));
    assert_eq!(verdict, returned);
}

#[test]
fn a_handlers_error_returns_its_record_with_the_type_and_not_the_text() {
    let error = CallError::Handler("s3cr3t".to_owned());
    let verdict = Verdict::of(&error, false);
    assert_eq!(
        verdict,
        Verdict::Returned(Why::Failed("alloc::string::String"))
    );
    assert!(!verdict.is_done());
}
