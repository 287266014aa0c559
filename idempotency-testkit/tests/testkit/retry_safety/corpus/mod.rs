//! Functions with a planted bug, and safe ones, each checked as the guide says: with the order of another user on the same account, and
//! with a changed amount. The other files have the bugs that need no such event.

mod bugs;
mod safe;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::{BoxError, Call, Deadline, OperationBuilder, Run, Steps};
use idempotency_testkit::dynamodb::TableSpec;
use idempotency_testkit::retry_safety::SafetyVerdict::{
    EffectLost, EffectTwice, ResponsesDiffer, WrongKey,
};
use idempotency_testkit::retry_safety::{Mutex, RetrySafety, SafetyVerdict, World};
use serde_json::{Value, json};

use super::http::{provider, send};
use super::known::{accounts, add, attribute, done, open_account, put, random};
use super::{Bank, Marks, Outbox, charges, in_operation, mails, operation};

/// What was booked, by token.
#[derive(Default)]
struct Ledger(Mutex<BTreeMap<String, u64>>);

impl Ledger {
    /// Books an amount, unless the token was used before.
    fn book(&self, token: &str, amount: u64) {
        let mut booked = self.0.lock().unwrap();
        booked.entry(token.to_owned()).or_insert(amount);
    }
}

/// A service outside of AWS that keeps texts.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

impl Notes {
    fn get(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap().get(name).cloned()
    }

    fn set(&self, name: &str, text: &str) {
        let mut notes = self.0.lock().unwrap();
        notes.insert(name.to_owned(), text.to_owned());
    }
}

/// A service that does not send a second reminder within ten minutes: how many it sent, and the time of the last one.
#[derive(Default)]
struct Reminders(Mutex<(usize, Option<i64>)>);

impl Reminders {
    fn send(&self, now: i64) {
        let mut reminders = self.0.lock().unwrap();
        if reminders.1.is_none_or(|last| now > last + 600_000) {
            *reminders = (reminders.0 + 1, Some(now));
        }
    }
}

/// Returns the event of an order. Both users have an order `o-1`, and pay from the account `a-1`.
fn order_of(user: &str, number: u64, amount: u64) -> Value {
    json!({ "user": user, "order": "o-1", "number": number, "amount": amount })
}

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap_or_default()
}

/// Returns what names the order among those of all users.
fn id(event: &Value) -> String {
    format!("{}/{}", text(event, "user"), text(event, "order"))
}

fn day(world: &World) -> i64 {
    world.now().get() / 86_400_000
}

/// A function whose key is right.
fn within(
    name: &'static str,
    settings: fn(OperationBuilder) -> OperationBuilder,
    handler: impl AsyncFn(&World, &Value, Call) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    // The other tests of this program have operations of these names too.
    let path = format!("corpus.{name}");
    let operation = move || settings(operation(&path).key("[user, order]"));
    shown(in_operation(order_of("u-1", 1, 100), operation, handler))
}

fn of(
    name: &'static str,
    handler: impl AsyncFn(&World, &Value, Call) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    within(name, |operation| operation, handler)
}

fn shown(check: RetrySafety<Value>) -> RetrySafety<Value> {
    let booked = async |world: World| {
        let booked = world.fake::<Ledger>().0.lock().unwrap().clone();
        booked.into_values().sum::<u64>()
    };
    let check = check.effect("charges", charges).effect("mails", mails);
    let check = check.effect("booked", booked);
    let check = check.table(accounts()).prepare(open_account);
    check
        .another(order_of("u-2", 2, 100))
        .changed(order_of("u-1", 1, 999))
}

/// A function that pays at one of two banks.
fn with_fallback(
    name: &'static str,
    pay: impl AsyncFn(&World, &Value) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    let check = of(name, async move |world, event, _| pay(world, event).await);
    let check = check.provider(provider());
    check.one_of(["POST /first", "POST /second"])
}

/// Takes the amount of the event from the account, unless this condition, of `:order` and `:number`, does not hold.
async fn take_if(
    world: &World,
    event: &Value,
    set: &str,
    condition: &str,
) -> Result<bool, BoxError> {
    let update = world.dynamodb().update_item().table_name("accounts");
    let update = update.key("id", S("a-1".into()));
    let update = update.update_expression(format!("SET balance = balance - :a, {set}"));
    let update = update.condition_expression(condition);
    let update = update.expression_attribute_values(":a", N(event["amount"].to_string()));
    let (used, mut values) = (format!("{set}{condition}"), Vec::new());
    values.push((":order", S(id(event))));
    values.push((":number", N(event["number"].to_string())));
    let values = values.into_iter().filter(|(name, _)| used.contains(name));
    let update = values.fold(update, |update, (name, value)| {
        update.expression_attribute_values(name, value)
    });
    match update.send().await.map_err(aws_sdk_dynamodb::Error::from) {
        Ok(_) => Ok(true),
        Err(aws_sdk_dynamodb::Error::ConditionalCheckFailedException(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads a number of the account.
async fn number(world: &World, name: &str) -> Result<i64, BoxError> {
    let number = attribute(world, "a-1", name).await?;
    let number = number.as_ref().and_then(|number| number.as_n().ok());
    Ok(number
        .map(|number| number.parse())
        .transpose()?
        .unwrap_or_default())
}

async fn set(world: &World, name: &str, value: AttributeValue) -> Result<(), BoxError> {
    let update = world.dynamodb().update_item().table_name("accounts");
    let update = update.key("id", S("a-1".into()));
    let update = update.update_expression("SET #n = :v");
    let update = update.expression_attribute_names("#n", name);
    update
        .expression_attribute_values(":v", value)
        .send()
        .await?;
    Ok(())
}

/// Writes an item unless it is there. Returns true if it was not.
async fn create(world: &World, item: &str, by: &str) -> Result<bool, BoxError> {
    let put = world.dynamodb().put_item().table_name("accounts");
    let put = put
        .item("id", S(item.to_owned()))
        .item("by", S(by.to_owned()));
    let put = put.condition_expression("attribute_not_exists(id)");
    match put.send().await.map_err(aws_sdk_dynamodb::Error::from) {
        Ok(_) => Ok(true),
        Err(aws_sdk_dynamodb::Error::ConditionalCheckFailedException(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

const A_DAY: Duration = Duration::from_secs(86_400);

fn long(operation: OperationBuilder) -> OperationBuilder {
    operation.expires_after(2 * A_DAY)
}

#[tokio::test]
async fn each_bug_is_found() {
    let mut missed = String::new();
    for (name, verdict, check) in bugs::bugs() {
        let report = check.run().await;
        if !report.rows().iter().any(|row| row.verdict == verdict) {
            missed = format!("{missed}\n{name}: {verdict}\n{report}");
        }
    }
    assert!(missed.is_empty(), "not found:\n{missed}");
}

#[tokio::test]
async fn no_safe_function_is_accused() {
    let mut accused = String::new();
    for (name, check) in safe::safe() {
        let report = check.run().await;
        if !report.is_safe() {
            accused = format!("{accused}\n{name}\n{report}");
        }
    }
    assert!(accused.is_empty(), "accused:\n{accused}");
}
