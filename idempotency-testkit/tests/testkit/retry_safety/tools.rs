//! The tools against effects that happen twice: what each fault does to each of them. The guide publishes this table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::Update;
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::dynamodb::once::{self, Once};
use idempotency_lambda::{BoxError, Call, Steps};
use idempotency_testkit::retry_safety::{RetrySafety, Row, SafetyReport, SafetyVerdict, World};
use serde_json::{Value, json};

use super::http::{provider, send};
use super::known::{accounts, add};
use super::{in_operation, operation, order};

/// The page with the table.
const PAGE: &str = include_str!("../../../../docs/guide/effects.md");

/// Checks a tool in a handler under the operation of this name.
fn tool(
    name: &'static str,
    steps: Steps,
    handler: impl AsyncFn(&World, &Value, Call) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    in_operation(order(), move || operation(name).steps(steps), handler).table(accounts())
}

fn booked() -> Result<Value, BoxError> {
    Ok(json!({ "booked": true }))
}

/// The stored response, and an update that adds.
fn stored_response() -> RetrySafety<Value> {
    tool("tools.response", Steps::Off, async |world, _, _| {
        add(world, "units", 5).await?;
        booked()
    })
}

/// A request with a token to a service that honours it.
fn token() -> RetrySafety<Value> {
    let check = tool("tools.token", Steps::Off, async |world, event, call| {
        let token = call.token("charge");
        let (token, amount) = (Some(token.as_str()), &event["amount"]);
        send(world, "POST", "/charges", token, amount).await
    });
    check.provider(provider())
}

/// An update that adds, in the transaction of the call.
fn transaction() -> RetrySafety<Value> {
    tool("tools.transaction", Steps::Off, async |_, _, call| {
        let add = Update::builder().table_name("accounts");
        let add = add.key("id", S("a-1".into()));
        let add = add.update_expression("ADD units :n");
        let add = add.expression_attribute_values(":n", N("5".into()));
        call.transaction().update(add.build()?)?;
        booked()
    })
}

/// A step with an update that adds, and a later step.
fn step() -> RetrySafety<Value> {
    tool("tools.step", Steps::Keep, async |world, _, call| {
        call.step("book", || add(world, "units", 5)).await?;
        call.step("confirm", || async { booked() }).await
    })
}

/// A step with a request, which has the token of the step.
fn step_with_token() -> RetrySafety<Value> {
    let check = tool(
        "tools.step-token",
        Steps::Keep,
        async |world, event, call| {
            let charge = call.named_step("charge");
            let token = charge.token();
            let (token, amount) = (Some(token.as_str()), &event["amount"]);
            let request = || send(world, "POST", "/charges", token, amount);
            charge.run(request).await
        },
    );
    check.provider(provider())
}

/// A counter that knows the keys of its updates.
fn counter() -> RetrySafety<Value> {
    tool("tools.counter", Steps::Off, async |world, event, _| {
        let once = Once::new(once::plan(1.0, Duration::from_secs(3600)))?;
        let account = [("id", S("a-1".into()))];
        let count = once.update("accounts", account, event["order_id"].to_string());
        let count = count.expression("ADD units :n").value(":n", N("5".into()));
        let _ = count.send(&world.dynamodb()).await?;
        booked()
    })
}

/// Returns the worst verdict of each fault, over the points with these numbers.
fn worst(
    report: &SafetyReport,
    points: RangeInclusive<usize>,
) -> BTreeMap<&'static str, SafetyVerdict> {
    assert_eq!(report.failure(), None);
    let mut worst = BTreeMap::new();
    for row in report.rows() {
        let Some(fault) = row.fault else {
            assert_eq!(row.verdict, SafetyVerdict::Ok, "{report}");
            continue;
        };
        if points.contains(&row.number) {
            let known = worst.entry(fault).or_insert(row.verdict);
            *known = (*known).max(row.verdict);
        }
    }
    worst
}

/// The rows of the page, in the order of a report.
const FAULTS: [&str; 9] = [
    "crash before",
    "crash after",
    "crash, late",
    "refused",
    "outage",
    "lost reply",
    "no reply",
    "duplicate",
    "takeover",
];

fn cell(verdict: SafetyVerdict) -> &'static str {
    match verdict {
        SafetyVerdict::Ok => "once",
        SafetyVerdict::EffectTwice => "**twice**",
        SafetyVerdict::EffectLost => "**lost**",
        other => panic!("the page has no word for {other}"),
    }
}

#[tokio::test]
async fn the_guide_says_what_each_fault_does_to_each_tool() {
    let with_step = step().run().await;
    let is_record = |row: &&Row| row.point == "UpdateItem idempotency";
    let record = with_step.rows().iter().find(is_record).unwrap().number;
    let mut columns = Vec::new();
    for (name, check) in [
        ("stored response alone", stored_response()),
        ("transaction", transaction()),
        ("step with its token", step_with_token()),
        ("token of the call", token()),
        ("counter", counter()),
    ] {
        columns.push((name, worst(&check.run().await, 0..=usize::MAX)));
    }
    let before = ("step, until it is recorded", worst(&with_step, 0..=record));
    let after = worst(&with_step, record + 1..=usize::MAX);
    columns.splice(2..2, [before, ("step, afterwards", after)]);
    let mut table = String::from("| fault |");
    for (name, _) in &columns {
        write!(table, " {name} |").unwrap();
    }
    write!(table, "\n|---|{}\n", "---|".repeat(columns.len())).unwrap();
    assert!(columns[0].1.keys().all(|fault| FAULTS.contains(fault)));
    for fault in FAULTS {
        write!(table, "| {fault} |").unwrap();
        for (_, worst) in &columns {
            write!(table, " {} |", cell(worst[fault])).unwrap();
        }
        table.push('\n');
    }
    assert!(
        PAGE.contains(&table),
        "docs/guide/effects.md does not have this table:\n{table}"
    );
}
