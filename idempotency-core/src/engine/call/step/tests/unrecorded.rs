//! Steps of runs without a confirmed claim: they run, and nothing is recorded.

use super::*;
use crate::protocol::policy::OnStoreError;
use desk::Outage;

/// Returns the kind of the error of a step that must not run.
async fn refused(call: &Call, name: &str) -> ErrorKind {
    let step = call.step::<u8, Error, _>(name, || async { panic!("it runs") });
    step.await.unwrap_err().kind()
}

#[test]
fn without_protection_each_step_runs_and_nothing_is_recorded() {
    let desk = Arc::new(Desk::default());
    let outcome = run_in(&kept(), &desk, "{}", |call| async move {
        call.step("a", || done(1)).await?;
        assert_eq!(refused(&call, "a").await, ErrorKind::StepRefused);
        call.step("b", || done("2".to_owned())).await
    });
    assert_eq!(outcome.unwrap().into_response(), "2");
    assert!(desk.records.is_empty());
}

fn unprotected(steps: policy::Steps) -> CompiledOperation {
    let settings = Settings {
        on_store_error: Some(OnStoreError::RunUnprotected),
        ..settings(steps)
    };
    CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap()
}

#[test]
fn after_a_failure_of_the_store_each_step_runs_and_nothing_is_recorded() {
    let token = Cell::new(None);
    let protected = run(&Arc::default(), |call| {
        token.set(Some(call.named_step("a").token()));
        done(String::new())
    });
    assert!(protected.is_ok());
    let token = token.take().unwrap();
    for (outage, stored) in [(Outage::Throttled, false), (Outage::RepliesLost, true)] {
        let desk = Arc::new(Desk::default());
        desk.begin(outage);
        let outcome = run_in(&unprotected(policy::Steps::Keep), &desk, ORDER, |call| {
            let (desk, token) = (&desk, &token);
            async move {
                assert_eq!(call.named_step("a").token(), *token);
                call.step("a", || done(1)).await?;
                assert_eq!(refused(&call, "a").await, ErrorKind::StepRefused);
                desk.end();
                call.step("b", || done("2".to_owned())).await?;
                assert_eq!(desk.recorded(), []);
                Ok("placed".to_owned())
            }
        });
        assert_eq!(outcome.unwrap().into_response(), "placed");
        let record = desk.record();
        assert_eq!(record.is_some(), stored, "{outage:?}");
        assert!(record.is_none_or(|record| {
            record.status == Field::Value(Status::Completed) && !record.steps.exists()
        }));
    }
}

#[test]
fn after_a_failure_of_the_store_an_operation_without_steps_still_has_none() {
    let desk = Arc::new(Desk::default());
    desk.begin(Outage::Throttled);
    let outcome = run_in(
        &unprotected(policy::Steps::Off),
        &desk,
        ORDER,
        |call| async move {
            assert_eq!(refused(&call, "a").await, ErrorKind::StepRefused);
            Ok("placed".to_owned())
        },
    );
    assert_eq!(outcome.unwrap().into_response(), "placed");
}
