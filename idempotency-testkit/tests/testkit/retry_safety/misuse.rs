//! What a check reports: why it cannot prove anything, what it does not look at, and that an unsafe function fails its test.

use aws_sdk_dynamodb::types::AttributeValue::S;
use idempotency_lambda::BoxError;
use idempotency_testkit::retry_safety::{RetrySafety, World, retry_safety};
use serde_json::{Value, json};

use super::known::accounts;
use super::{charges, order, protected};

/// Checks that a check fails, and that its report says why.
async fn assert_fails(check: RetrySafety<Value>, why: &str) {
    let report = check.run().await;
    let failure = report.failure().unwrap_or_default();
    assert!(failure.contains(why), "{failure}");
    assert!(!report.is_safe());
}

#[tokio::test]
async fn a_check_that_sees_no_effect_fails_unless_it_says_that_there_is_none() {
    let check = || {
        retry_safety(order(), async |_: World, event: Value| {
            protected("misuse.nothing", &event, async || {
                Ok(json!({ "paid": true }))
            })
            .await
        })
    };
    let unseen = check().effect("charges", charges);
    assert_fails(unseen, "had no effect that can be seen").await;
    check().without_effect().run().await.assert_safe();
}

#[tokio::test]
async fn a_function_that_fails_without_a_fault_is_shown_with_its_error() {
    let check = retry_safety(order(), async |_: World, _: Value| {
        Err::<(), BoxError>("the table `orders` does not exist".into())
    });
    let check = check.effect("charges", charges);
    assert_fails(check, "the table `orders` does not exist").await;
}

#[tokio::test]
async fn a_function_that_fails_without_a_fault_is_shown_with_the_causes_of_its_error() {
    let check = retry_safety(order(), async |world: World, _: Value| {
        let update = world.dynamodb().update_item().table_name("accounts");
        let update = update.key("id", S("a-1".into()));
        let update = update.update_expression("SET status = :s");
        let update = update.expression_attribute_values(":s", S("paid".into()));
        update.send().await?;
        Ok::<_, BoxError>(())
    });
    assert_fails(check.table(accounts()), "reserved keyword: status").await;
}

#[tokio::test]
async fn an_effect_that_the_function_does_not_have_cannot_be_ignored() {
    let check = retry_safety(order(), async |world: World, _: Value| {
        world.fake::<super::Bank>().charge(Some("o-1"));
        Ok::<_, BoxError>(())
    });
    let check = check.effect("charges", charges).ignore_effect("charge");
    assert_fails(check, "no effect `charge`").await;
}

#[tokio::test]
async fn one_effect_of_several_must_be_there_without_a_fault() {
    let check = retry_safety(order(), async |world: World, _: Value| {
        world.fake::<super::Bank>().charge(Some("o-1"));
        Ok::<_, BoxError>(())
    });
    let check = check
        .effect("charges", charges)
        .one_of(["charge", "POST /charges"]);
    assert_fails(check, "had no effect of `.one_of").await;
}

#[tokio::test]
async fn what_is_not_looked_at_is_named_in_a_report() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("misuse.unseen", &event, async || {
            let get = world.dynamodb().get_item().table_name("accounts");
            get.key("id", S("a-1".into())).send().await?;
            let run = S(world.context().request_id);
            super::known::put(&world, "last", "run", run).await?;
            Ok(json!({ "charge": world.fake::<super::Bank>().charge(Some("o-1")) }))
        })
        .await
    })
    .table(accounts())
    .effect("charges", charges)
    .one_of(["charges", "POST /mistyped"])
    .run()
    .await;
    assert!(report.is_safe(), "{report}");
    let text = report.to_string();
    for unseen in [
        "a delivery after the window",
        "`GetItem accounts` with an earlier state",
        "`accounts.run`, as it differs between two runs",
        "with `.another(..)`",
        "with `.changed(..)`",
        "with `.delivered_as(..)`",
        "the process id, a `static`, the environment, the real clock",
        "`POST /mistyped` of `.one_of(..)`: no case had this effect",
    ] {
        assert!(text.contains(unseen), "{text}");
    }
}

#[tokio::test]
async fn a_check_whose_effect_panics_fails() {
    let check = retry_safety(order(), async |_: World, _: Value| Ok::<_, BoxError>(1))
        .effect("charges", async |_| -> usize { panic!("no such fake") });
    assert_fails(check, "an effect panicked").await;
}

#[tokio::test]
#[should_panic(expected = "the function is not proven safe to retry")]
async fn an_unsafe_function_fails_its_test() {
    let check = retry_safety(order(), async |world: World, _: Value| {
        world.fake::<super::Bank>().charge(None);
        Ok::<_, BoxError>(1)
    });
    let report = check.effect("charges", charges).run().await;
    report.assert_safe();
}
