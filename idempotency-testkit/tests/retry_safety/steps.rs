//! Orders of two steps whose effects are at a provider over HTTP.

use idempotency_lambda::{BoxError, Call, Deadline, Outcome, Steps};
use idempotency_testkit::retry_safety::{
    FaultKind, Provider, SafetyReport, SafetyVerdict, World, retry_safety,
};
use serde_json::{Value, json};

use crate::http::send;
use crate::{assert_found, operation};

fn provider() -> Provider {
    Provider::new(|request| (201, json!({ "number": request.number }))).honours("idempotency-key")
}

/// Places an order: a reservation, then a charge. Each is a step, with or without a token.
async fn place(world: World, event: Value, with_tokens: bool) -> Result<Value, BoxError> {
    let operation = operation("steps.order").steps(Steps::Keep).build()?;
    let world = &world;
    let handler = async |call: Call| {
        let mut done = Vec::new();
        for name in ["reserve", "charge"] {
            let step = call.named_step(name);
            let token = with_tokens.then(|| step.token().to_string());
            let path = format!("/{name}");
            let effect =
                || async { send(world, "POST", &path, token.as_deref(), &json!(name)).await };
            let result: Value = step.run(effect).await?;
            done.push(result);
        }
        Ok::<_, BoxError>(json!(done))
    };
    let placed = operation.run(&event, Deadline::Inherited, handler);
    Ok(Outcome::into_response(placed.await?))
}

const TWICE: SafetyVerdict = SafetyVerdict::EffectTwice;

async fn played(with_tokens: bool) -> SafetyReport {
    let order = async move |world: World, event: Value| place(world, event, with_tokens).await;
    let check = retry_safety(crate::order(), order).provider(provider());
    check.run().await
}

#[tokio::test]
async fn steps_with_tokens_are_safe_at_every_point() {
    let report = played(true).await;
    report.assert_safe();
}

#[tokio::test]
async fn without_a_token_a_step_repeats_only_what_was_not_recorded() {
    let report = played(false).await;
    for name in ["POST /reserve", "POST /charge"] {
        assert_found(&report, name, FaultKind::CrashAfter, TWICE);
    }
    // At most one effect is repeated: a run goes on after the last recorded step.
    for row in report.unsafe_rows() {
        assert_eq!(row.findings.len(), 1, "{report}");
    }
}
