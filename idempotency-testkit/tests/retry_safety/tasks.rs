//! Spawned tasks, timers, and the end of a process.

use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::retry_safety::{FaultKind, SafetyVerdict, World, retry_safety};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::bank::{Bank, Outbox, charges, mails};
use crate::{assert_found, order, protected};

#[tokio::test]
async fn an_effect_in_a_task_that_is_not_awaited_is_lost_with_its_process() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tasks.spawned", &event, async || {
            let outbox = world.fake::<Outbox>();
            tokio::spawn(async move {
                sleep(Duration::from_millis(5)).await;
                outbox.send();
            });
            Ok(json!({ "mailed": true }))
        })
        .await
    })
    .effect("mails", mails)
    .run()
    .await;
    let lost = report.with(SafetyVerdict::EffectLost);
    let lost: Vec<_> = lost.iter().map(|row| row.case()).collect();
    assert_eq!(
        lost,
        [
            "2 UpdateItem idempotency, crash after",
            "3 the response, crash after"
        ]
    );
    // Both processes of a takeover spawn the task.
    assert_found(
        &report,
        "UpdateItem idempotency",
        FaultKind::Takeover,
        SafetyVerdict::EffectTwice,
    );
}

#[tokio::test]
async fn an_effect_in_a_task_that_is_awaited_is_safe() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tasks.awaited", &event, async || {
            let bank = world.fake::<Bank>();
            let charge = tokio::spawn(async move { bank.charge(Some("order")).await });
            Ok(json!({ "charge": charge.await? }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    report.assert_safe();
}

#[tokio::test]
async fn a_crash_ends_the_tasks_of_its_process() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tasks.killed", &event, async || {
            let bank = world.fake::<Bank>();
            // If it outlived a crash, it would charge under the token of its own delivery.
            let token = format!("delivery {}", world.delivery());
            let charge = tokio::spawn(async move {
                sleep(Duration::from_secs(5)).await;
                bank.charge_now(Some(&token));
            });
            charge.await?;
            Ok(json!({ "paid": true }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    let crash = report.rows().iter().find(|row| {
        row.point == "await 1 after PutItem idempotency"
            && row.fault == Some(FaultKind::CrashBefore)
    });
    assert_eq!(
        crash.map(|row| row.verdict),
        Some(SafetyVerdict::Ok),
        "{report}"
    );
}

#[tokio::test]
async fn timers_take_no_time_and_fire_in_their_order() {
    let started = std::time::Instant::now();
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tasks.timers", &event, async || {
            let slow = sleep(Duration::from_secs(20));
            let ended = timeout(Duration::from_secs(10), slow).await;
            assert!(ended.is_err(), "the shorter timer fires first");
            let before = world.now();
            sleep(Duration::from_secs(5)).await;
            assert!(world.now() >= before.plus(Duration::from_secs(5)));
            world.fake::<Bank>().charge(Some("order")).await;
            Ok(json!({ "paid": true }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    report.assert_safe();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "the timers are virtual"
    );
}

#[tokio::test]
async fn a_function_that_outlives_its_invocation_is_killed_at_the_deadline() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tasks.deadline", &event, async || {
            world.fake::<Bank>().charge_now(Some("order"));
            if world.delivery() == 1 {
                sleep(Duration::from_secs(3_600)).await;
            }
            Ok::<_, BoxError>(json!({ "paid": true }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    let failure = report.failure().unwrap_or_default();
    assert!(failure.contains("ended with: its time ended"), "{failure}");
}
