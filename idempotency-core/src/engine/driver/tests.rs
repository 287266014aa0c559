//! The branches that the protocol never takes, and a response type that panics.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::error::ErrorKind;
use crate::example::{self, Fixed};
use crate::protocol::{Completion, Refusal, RefusalDetail, Resolution};
use crate::record::{RecordId, Status};
use crate::store::{MemoryStore, StoreError, StoreErrorKind};
use crate::time::EpochMillis;

fn driver<R>(backend: &Backend, codec: Codec<R>) -> Driver<'_, R> {
    Driver {
        backend,
        operation: "charge",
        shares_prefix: false,
        cache: None,
        store_when: StoreWhen {
            expression: None,
            memory_limit: 0,
        },
        call: example::call(),
        codec,
    }
}

fn with_driver(test: impl FnOnce(Driver<'_, u32>)) {
    test(driver(&example::backend(), Codec::json()));
}

#[test]
fn a_second_run_is_an_internal_error_after_the_handler() {
    with_driver(|driver| {
        let mut handler = Some(|| ());
        assert!(driver.only_run(&mut handler).is_ok());
        let Err(error) = driver.only_run(&mut handler) else {
            panic!("the handler must not run twice");
        };
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.handler_ran() && !error.kind().is_retryable());
    });
}

#[test]
fn a_result_without_a_run_is_an_internal_error_before_the_handler() {
    with_driver(|driver| {
        let mut report = Report::new("charge", None, &Fixed);
        let finished = driver.finish::<Error>(
            Resolution::Own(Completion::Released),
            None,
            Reasons::default(),
            &mut report,
        );
        let Err(Ending::Refused(error)) = finished else {
            panic!("there is no result without a run");
        };
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(!error.handler_ran() && !error.kind().is_retryable());
        assert_eq!(error.kind().name(), "IdempotencyInternal");
    });
}

#[test]
fn a_response_type_whose_deserialize_panics_completes_the_key_without_a_response() {
    let codec = Codec::<u32>::new(Codec::json().write, |_| panic!("in the response type"));
    let store = Arc::new(MemoryStore::new());
    let backend = example::backend_over(store.clone());
    let mut report = Report::new("charge", None, &Fixed);
    let call = driver(&backend, codec);
    let call = call.drive(Errors::new(|error| error), &mut report, |_| async {
        Ok::<_, Error>(42)
    });
    let Poll::Ready(Ok(outcome)) = pin!(call).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("its own caller must get the response");
    };
    assert_eq!(*outcome.response(), 42);
    let record = store.record(&RecordId::new("a#1")).unwrap_or_default();
    assert_eq!(record.status.value(), Some(&Status::Completed));
    assert!(!record.data.exists());
}

#[test]
fn the_error_of_a_refusal_has_its_detail_and_for_a_failed_store_its_cause() {
    let end = RefusalDetail::LeaseEnd(EpochMillis::new(30_000));
    let defect = RefusalDetail::Defect("the response is missing");
    let cause = || {
        Some(StoreError::new(
            StoreErrorKind::Throttled,
            "too many requests",
        ))
    };
    for (kind, detail, store_error, text) in [
        (
            ErrorKind::AlreadyInProgress,
            Some(end),
            None,
            Some("retry later; its lease ends at 1970-01-01T00:00:30.000Z"),
        ),
        (
            ErrorKind::AlreadyInProgress,
            None,
            cause(),
            Some("retry later"),
        ),
        (
            ErrorKind::CorruptRecord,
            Some(defect),
            cause(),
            Some("the response is missing"),
        ),
        (
            ErrorKind::StoreFailed,
            None,
            cause(),
            Some("too many requests"),
        ),
        (
            ErrorKind::CompletionUnknown,
            None,
            cause(),
            Some("too many requests"),
        ),
        (ErrorKind::StoreFailed, None, None, None),
        (ErrorKind::PayloadMismatch, None, cause(), None),
    ] {
        with_driver(|driver| {
            let mut report = Report::new("charge", None, &Fixed);
            let refused = Resolution::Refuse(Refusal { kind, detail });
            let reasons = Reasons {
                error: store_error,
                unreadable: None,
            };
            let Err(Ending::Refused(error)) =
                driver.finish::<Error>(refused, None, reasons, &mut report)
            else {
                panic!("the call is refused");
            };
            assert_eq!((error.kind(), error.detail()), (kind, text));
            let lease_end = (detail == Some(end)).then_some(EpochMillis::new(30_000));
            assert_eq!(error.lease_end(), lease_end);
            assert_eq!(error.key(), Some(&RecordId::new("a#1")));
        });
    }
}
