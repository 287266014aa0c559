use super::*;

#[test]
fn a_refused_record_is_no_rejection_and_a_throttled_transaction_is_a_conflict() {
    let failure = |kind| StoreError::new(kind, "no");
    let refused = SendLog::new();
    refused.refused();
    for kind in [
        StoreErrorKind::AccessDenied,
        StoreErrorKind::TableMissing,
        StoreErrorKind::Rejected,
        StoreErrorKind::Unreachable,
    ] {
        let found = write_error_kind(&failure(kind), &refused, true);
        assert_eq!(found, WriteErrorKind::Refused, "{kind:?}");
    }
    let throttled = failure(StoreErrorKind::Throttled);
    for (is_transaction, kind) in [
        (true, WriteErrorKind::Conflict),
        (false, WriteErrorKind::Transient),
    ] {
        let found = write_error_kind(&throttled, &SendLog::new(), is_transaction);
        assert_eq!(
            found, kind,
            "a throttled transaction is sent again while the lease runs"
        );
    }
    let permanent = WriteErrorKind::Permanent;
    let denied = failure(StoreErrorKind::AccessDenied);
    assert_eq!(write_error_kind(&denied, &SendLog::new(), true), permanent);
    assert_eq!(write_error_kind(&denied, &refused, false), permanent);
}
