//! Steps beside the end of the handler, and beside a step that found the claim gone.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::*;

type Polled = Pin<Box<dyn Future<Output = Result<String, Error>>>>;

fn poll(step: &mut Polled) -> Poll<Result<String, Error>> {
    step.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a step whose every try is pending at its first poll, and fails at the second.
fn failing_step(call: Call, tries: Rc<Cell<u32>>) -> Polled {
    let attempt = move || {
        tries.set(tries.get() + 1);
        let mut polled = false;
        std::future::poll_fn(move |_| {
            if std::mem::replace(&mut polled, true) {
                Poll::Ready(Err(declined()))
            } else {
                Poll::Pending
            }
        })
    };
    Box::pin(async move {
        let step = call.named_step("leaked").retry(StepRetry::tries(9));
        step.run(attempt).await
    })
}

#[test]
fn a_step_is_not_tried_again_after_the_handler_has_ended() {
    let (desk, tries) = (Arc::new(Desk::default()), Rc::new(Cell::new(0)));
    let leaked = Cell::new(None);
    let failed = run(&desk, |call| {
        let mut step = failing_step(call, tries.clone());
        assert!(poll(&mut step).is_pending());
        leaked.set(Some(step));
        async { Err(declined()) }
    });
    assert!(failed.is_err());
    assert!(desk.record().unwrap().failure.exists(), "the key is free");
    let late = poll(&mut leaked.take().unwrap());
    assert!(matches!(late, Poll::Ready(Err(_))));
    assert_eq!(tries.get(), 1);
}

#[test]
fn a_step_is_not_tried_again_beside_one_that_found_the_claim_gone() {
    let (desk, tries) = (Arc::new(Desk::default()), Rc::new(Cell::new(0)));
    desk.fail([Fault::TakenOver]);
    let ended = run(&desk, |call| {
        let tries = tries.clone();
        async move {
            let mut beside = failing_step(call.clone(), tries);
            assert!(poll(&mut beside).is_pending());
            let lost = call.step("lost", || done(1)).await;
            assert_eq!(lost.unwrap_err().kind(), ErrorKind::LostOwnership);
            let tried = poll(&mut beside);
            assert!(matches!(tried, Poll::Ready(Err(_))));
            Err(declined())
        }
    });
    assert_eq!(ended.unwrap().into_response(), "winner");
    assert_eq!(tries.get(), 1);
}
