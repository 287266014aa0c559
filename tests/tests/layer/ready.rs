//! Readiness: the layer calls the service that was ready, and never one that was not asked.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use idempotency_lambda::{BoxError, LambdaEvent, with_backend};
use lambda_runtime::Service;
use serde_json::Value;
use tower::{Layer, ServiceExt};

use crate::{Runs, harness, layer, order};

/// A service that must be asked before each call. A clone has not been asked.
#[derive(Default)]
struct Strict {
    runs: Runs,
    is_ready: bool,
    fails: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self {
            runs: self.runs.clone(),
            is_ready: false,
            fails: self.fails,
        }
    }
}

impl Service<LambdaEvent<Value>> for Strict {
    type Response = usize;
    type Error = BoxError;
    type Future = Ready<Result<usize, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.fails {
            return Poll::Ready(Err("the pool is closed".into()));
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: LambdaEvent<Value>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.is_ready),
            "called without being ready"
        );
        ready(Ok(self.runs.next()))
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let harness = harness();
    let mut service = layer().layer(Strict::default());
    for (amount, response) in [(1, Some(1)), (1, Some(1)), (2, None)] {
        let ready = ServiceExt::<LambdaEvent<Value>>::ready(&mut service)
            .await
            .unwrap();
        let call = with_backend(harness.backend.clone(), ready.call(order(amount)));
        assert_eq!(call.await.ok(), response);
    }
}

#[tokio::test]
async fn two_calls_that_are_prepared_before_either_runs_both_have_a_ready_service() {
    let harness = harness();
    let mut service = layer().layer(Strict::default());
    let mut calls = Vec::new();
    for order_id in [1, 2] {
        let mut order = order(1);
        order.payload["order_id"] = order_id.into();
        let ready = ServiceExt::<LambdaEvent<Value>>::ready(&mut service)
            .await
            .unwrap();
        calls.push(with_backend(harness.backend.clone(), ready.call(order)));
    }
    let second = calls.pop().unwrap().await.unwrap();
    assert_eq!((second, calls.pop().unwrap().await.unwrap()), (1, 2));
}

#[tokio::test]
async fn a_service_that_cannot_become_ready_fails_before_any_claim() {
    let harness = harness();
    let strict = Strict {
        fails: true,
        ..Strict::default()
    };
    let service = layer().layer(strict);
    let error = with_backend(harness.backend.clone(), service.oneshot(order(1)))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the pool is closed");
    assert_eq!(harness.requests(), [0; 4]);
}
