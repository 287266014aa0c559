//! An order of three steps, in processes that are killed: after each of its steps, and with the record of a step on the wire.

use std::collections::BTreeSet;
use std::time::Duration;

use idempotency_lambda::{BoxError, Call, LambdaEvent, Raw, idempotent};
use idempotency_testkit::dynamodb::Fault;
use idempotency_testkit::lambda::FunctionProcess;
use idempotency_tests::process::{end_leases, start};
use serde::Deserialize;
use serde_json::{Value, json};

const STEPS: [&str; 3] = ["reserve", "charge", "ship"];

#[derive(Deserialize)]
pub(super) struct Order {
    /// The step after which the handler waits to be killed.
    stop_after: Option<String>,
}

// Where a run stops is no part of the order, so it is not validated.
#[idempotent(
    key_prefix = "order",
    key = "order_id",
    validate = "order_id",
    steps = "keep"
)]
pub(super) async fn handler(
    event: LambdaEvent<Raw<Order>>,
    call: Call,
) -> Result<Vec<String>, BoxError> {
    let request = event.context.request_id;
    let mut done = Vec::new();
    for name in STEPS {
        let step = call.named_step(name);
        let token = step.token();
        let effect = || async {
            tracing::info!("effect {name} {token}.");
            Ok::<_, BoxError>(format!("{name} in {request}"))
        };
        done.push(step.run(effect).await?);
        if event.payload.stop_after.as_deref() == Some(name) {
            tracing::info!("passed {name}.");
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }
    Ok(done)
}

fn order(stop_after: Option<&str>) -> String {
    json!({ "order_id": "o-1", "stop_after": stop_after }).to_string()
}

/// Returns how often each effect happened in these processes, and the tokens that its provider has seen.
fn effects(processes: &[FunctionProcess]) -> [(usize, BTreeSet<String>); 3] {
    STEPS.map(|name| {
        let mark = format!("effect {name} ");
        let mut tokens = Vec::new();
        for process in processes {
            let log = process.log();
            let texts = log.iter().filter_map(|line| line.text.split_once(&mark));
            tokens.extend(texts.map(|(_, token)| token.to_owned()));
        }
        (tokens.len(), tokens.into_iter().collect())
    })
}

fn counts(processes: &[FunctionProcess]) -> [usize; 3] {
    effects(processes).map(|(count, _)| count)
}

#[tokio::test]
async fn an_order_that_is_killed_after_each_step_runs_each_step_once_and_has_one_response()
-> Result<(), BoxError> {
    let (database, lambda) = start("processes/order").await?;
    let mut processes = Vec::new();
    for (number, name) in STEPS.into_iter().enumerate() {
        let process = lambda.start_process().await?;
        let invocation = process.invoke(order(Some(name)));
        let pending = invocation.request_id(format!("run-{number}")).start();
        process.wait_for_line(&format!("passed {name}.")).await?;
        process.kill().await;
        assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
        end_leases(&database).await?;
        processes.push(process);
    }
    assert_eq!(counts(&processes), [1, 1, 1]);
    let mut responses = Vec::new();
    for _ in 0..2 {
        let process = lambda.start_process().await?;
        responses.push(process.invoke(order(None)).await?.json()?);
        processes.push(process);
    }
    let each_by_its_run: Value = json!(["reserve in run-0", "charge in run-1", "ship in run-2"]);
    assert_eq!(responses, [each_by_its_run.clone(), each_by_its_run]);
    assert_eq!(counts(&processes), [1, 1, 1]);
    Ok(())
}

#[tokio::test]
async fn a_record_of_a_step_that_arrives_after_a_kill_counts_only_before_the_takeover()
-> Result<(), BoxError> {
    for arrives_before_the_takeover in [true, false] {
        let (database, lambda) = start("processes/order").await?;
        let held = database.inject(Fault::on("UpdateItem").hold());
        let killed = lambda.start_process().await?;
        let pending = killed.invoke(order(None)).request_id("killed").start();
        held.reached().await;
        killed.kill().await;
        assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
        end_leases(&database).await?;
        let next = lambda.start_process().await?;
        let run = || next.invoke(order(None)).request_id("next");
        let response = if arrives_before_the_takeover {
            held.release().await;
            run().await?.json()?
        } else {
            let response = run().await?.json()?;
            held.release().await;
            response
        };
        // The process was killed between the effect and its record, which is the gap that a token closes.
        let (first, reserved) = match arrives_before_the_takeover {
            true => ("reserve in killed", 1),
            false => ("reserve in next", 2),
        };
        assert_eq!(response[0], first);
        let again = lambda.start_process().await?;
        assert_eq!(again.invoke(order(None)).await?.json()?, response);
        let [reserve, charge, ship] = effects(&[killed, next, again]);
        assert_eq!([reserve.0, charge.0, ship.0], [reserved, 1, 1]);
        assert_eq!(reserve.1.len(), 1, "a provider sees one token");
    }
    Ok(())
}
