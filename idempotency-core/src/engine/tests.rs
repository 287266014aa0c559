//! What the driver says in the branches that the protocol never takes, and what it makes of a response type that panics.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::error::ErrorKind;
use crate::owner::{OwnerToken, Random, RandomError};
use crate::protocol::policy::Policy;
use crate::protocol::{Stored, Verdict};
use crate::record::{RecordId, Status};
use crate::store::MemoryStore;
use crate::time::{Clock, EpochMillis};

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(0)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Random for Fixed {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok([7; 16])
    }
}

fn environment(store: &Arc<MemoryStore>) -> Environment {
    Environment::new(Arc::clone(store) as _, Arc::new(Fixed), Arc::new(Fixed))
}

fn driver<R>(environment: &Environment, codec: Codec<R>) -> Driver<'_, R> {
    Driver {
        environment,
        operation: "charge",
        shares_prefix: false,
        cache: None,
        store_when: StoreWhen {
            expression: None,
            memory_limit: 0,
        },
        call: Call {
            id: RecordId::new("charge#1"),
            owner: OwnerToken::from_bytes([1; 16]),
            validation: None,
            deadline: None,
            operation: None,
            policy: Policy::default(),
        },
        codec,
    }
}

fn with_driver(test: impl FnOnce(Driver<'_, u32>)) {
    test(driver(
        &environment(&Arc::new(MemoryStore::new())),
        Codec::json(),
    ));
}

#[test]
fn a_second_run_is_refused_as_a_fault_after_the_handler_that_no_retry_mends() {
    with_driver(|driver| {
        let mut handler = Some(|| ());
        assert!(driver.only_run(&mut handler).is_ok());
        let Err(error) = driver.only_run(&mut handler) else {
            panic!("the handler was handed out twice");
        };
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.handler_ran() && !error.kind().is_retryable());
    });
}

#[test]
fn a_result_without_a_run_is_a_fault_before_the_handler_that_no_retry_mends() {
    with_driver(|driver| {
        let mut report = Report::new("charge", None, &Fixed);
        let concluded =
            driver.conclude::<Error>(Verdict::Own(Stored::Released), None, None, &mut report);
        let Err(Ending::Refused(error)) = concluded else {
            panic!("there is no result to give");
        };
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(!error.handler_ran() && !error.kind().is_retryable());
        assert_eq!(error.kind().name(), "IdempotencyInternal");
    });
}

#[test]
fn a_response_type_that_panics_when_it_is_read_back_completes_the_key_without_a_response() {
    let codec = Codec::<u32> {
        read: |_| panic!("in the response type"),
        ..Codec::json()
    };
    let store = Arc::new(MemoryStore::new());
    let environment = environment(&store);
    let mut report = Report::new("charge", None, &Fixed);
    let call = driver(&environment, codec);
    let call = call.drive(&mut report, || async { Ok::<_, Error>(42) });
    let Poll::Ready(Ok(outcome)) = pin!(call).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the response is not given to its own caller");
    };
    assert_eq!(*outcome.answer(), 42);
    let record = store.record(&RecordId::new("charge#1")).unwrap_or_default();
    assert_eq!(record.status.value(), Some(&Status::Completed));
    assert!(!record.data.exists());
}
