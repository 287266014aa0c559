//! Functions with a known bug, all of which must be found, and safe ones, none of which may be accused.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex as StdMutex, OnceLock};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, PutRequest, TransactWriteItem, Update, WriteRequest,
};
use idempotency_lambda::{
    BoxError, Call, Deadline, KeyRequired, OnInProgress, OnStoreError, OnTimeout, OperationBuilder,
    Run,
};
use idempotency_testkit::dynamodb::TableSpec;
use idempotency_testkit::retry_safety::SafetyVerdict::{
    EffectLost, EffectTwice, Held, NotReached, ResponsesDiffer, Stuck, WrongKey,
};
use idempotency_testkit::retry_safety::{RetrySafety, Row, SafetyVerdict, World, retry_safety};
use serde_json::{Value, json};

use super::fault::{CRASH_AFTER, CRASH_BEFORE, OUTAGE, PARTIAL, REFUSED, TAKEOVER};
use super::{Bank, Marks, Outbox, charges, in_operation, mails, operation, order};

pub(crate) fn accounts() -> TableSpec {
    TableSpec::new("accounts").ttl(None)
}

pub(super) async fn open_account(world: World) {
    let put = world.dynamodb().put_item().table_name("accounts");
    let put = put.item("id", S("a-1".into()));
    let put = put.item("balance", N("500".into()));
    put.send().await.unwrap();
}

/// Checks what a handler does in this operation.
fn within(
    operation: impl Fn() -> OperationBuilder + Send + Sync + 'static,
    handler: impl AsyncFn(&World, &Value, Call) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    shown(in_operation(order(), operation, handler))
}

/// Checks what a handler does in an operation of this name.
fn named(
    name: &'static str,
    handler: impl AsyncFn(&World, &Value) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    within(
        move || operation(&name.replace([' ', ','], "-")),
        async move |world: &World, event: &Value, _| handler(world, event).await,
    )
}

/// Shows the effects of the fakes and of the table.
pub(super) fn shown(check: RetrySafety<Value>) -> RetrySafety<Value> {
    let check = check.effect("charges", charges).effect("mails", mails);
    check.table(accounts()).prepare(open_account)
}

pub(super) fn done() -> Result<Value, BoxError> {
    Ok(json!({ "done": true }))
}

/// Returns a number that no other run has.
pub(super) fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(super) async fn put(
    world: &World,
    id: &str,
    name: &str,
    value: AttributeValue,
) -> Result<(), BoxError> {
    let put = world.dynamodb().put_item().table_name("accounts");
    let put = put.item("id", S(id.to_owned())).item(name, value);
    put.send().await?;
    Ok(())
}

pub(crate) async fn add(world: &World, name: &str, amount: u64) -> Result<(), BoxError> {
    let update = world.dynamodb().update_item().table_name("accounts");
    let update = update.key("id", S("a-1".into()));
    let update = update.update_expression("ADD #n :a");
    let update = update.expression_attribute_names("#n", name);
    let update = update.expression_attribute_values(":a", N(amount.to_string()));
    update.send().await?;
    Ok(())
}

pub(super) async fn attribute(
    world: &World,
    id: &str,
    name: &str,
) -> Result<Option<AttributeValue>, BoxError> {
    let get = world.dynamodb().get_item().table_name("accounts");
    let get = get.key("id", S(id.to_owned())).consistent_read(true);
    let item = get.send().await?.item;
    Ok(item.and_then(|item| item.get(name).cloned()))
}

/// Writes two lines in one request. Returns how many were not processed, after so many more tries.
async fn put_lines(world: &World, tries: usize) -> Result<usize, BoxError> {
    let line = |id: &str| -> Result<_, BoxError> {
        let put = PutRequest::builder().item("id", S(id.to_owned())).build()?;
        Ok(WriteRequest::builder().put_request(put).build())
    };
    let mut left = vec![line("line 1")?, line("line 2")?];
    for _ in 0..=tries {
        let batch = world.dynamodb().batch_write_item();
        let reply = batch.request_items("accounts", left).send().await?;
        let unprocessed = reply.unprocessed_items.unwrap_or_default();
        left = unprocessed.into_values().flatten().collect();
        if left.is_empty() {
            break;
        }
    }
    Ok(left.len())
}

/// Sends a mail when it is dropped.
struct MailAtEnd<'a>(&'a World, bool);

impl Drop for MailAtEnd<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.fake::<Outbox>().send();
        }
    }
}

/// A function with a bug: its place in this file, the fault and the verdict of the case that finds it, and its check.
type Bug = (
    &'static Location<'static>,
    Option<&'static str>,
    SafetyVerdict,
    RetrySafety<Value>,
);

trait Finds {
    /// Expects that the check finds a bug.
    fn finds(self, fault: impl Into<Option<&'static str>>, verdict: SafetyVerdict) -> Bug;
}

impl Finds for RetrySafety<Value> {
    #[track_caller]
    fn finds(self, fault: impl Into<Option<&'static str>>, verdict: SafetyVerdict) -> Bug {
        (Location::caller(), fault.into(), verdict, self)
    }
}

#[tokio::test]
async fn each_bug_beside_the_call_is_found() {
    assert_all_found(vec![
        // Effect before the claim.
        shown(retry_safety(order(), async |world: World, event: Value| {
            world.fake::<Bank>().charge(None);
            super::protected("before", &event, async || done()).await
        }))
        .finds(None, EffectTwice),
        // Effect of each replay.
        shown(retry_safety(order(), async |world: World, event: Value| {
            let response: Value = super::protected("after", &event, async || done()).await?;
            world.fake::<Outbox>().send();
            Ok::<_, BoxError>(response)
        }))
        .finds(None, EffectTwice),
        // Effect after the completion.
        shown(retry_safety(order(), async |world: World, event: Value| {
            let operation = operation("executed").build()?;
            let call = operation.run(&event, Deadline::Inherited, async || done());
            let outcome = call.await?;
            if !outcome.is_replayed() {
                world.fake::<Outbox>().send();
            }
            Ok::<_, BoxError>(outcome.into_response())
        }))
        .finds(CRASH_AFTER, EffectLost),
        // Destructor after the completion.
        shown(retry_safety(order(), async |world: World, event: Value| {
            let operation = operation("destructor").build()?;
            let mut mail = MailAtEnd(&world, false);
            let call = operation.run(&event, Deadline::Inherited, async || done());
            let outcome = call.await?;
            mail.1 = !outcome.is_replayed();
            Ok::<_, BoxError>(outcome.into_response())
        }))
        .finds(CRASH_AFTER, EffectLost),
        // Response with a part of the delivery.
        shown(retry_safety(order(), async |world: World, event: Value| {
            let charge = async || Ok(json!({ "charge": world.fake::<Bank>().charge(Some("o-1")) }));
            let mut response: Value = super::protected("part", &event, charge).await?;
            response["request"] = json!(world.context().request_id);
            Ok::<_, BoxError>(response)
        }))
        .finds(None, ResponsesDiffer),
        // No claim at all.
        shown(retry_safety(order(), async |world: World, _: Value| {
            world.fake::<Bank>().charge(None);
            done()
        }))
        .finds(None, EffectTwice),
    ])
    .await;
}

#[tokio::test]
async fn each_bug_of_effects_is_found() {
    assert_all_found(vec![
        named("mark, then charge", async |world, _| {
            if world.fake::<Marks>().mark("o-1") {
                world.fake::<Bank>().charge(None);
            }
            done()
        })
        .finds(CRASH_AFTER, EffectLost),
        named("charge, then mark", async |world, _| {
            let marks = world.fake::<Marks>();
            if !marks.has("o-1") {
                world.fake::<Bank>().charge(None);
                marks.mark("o-1");
            }
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("charge without a token", async |world, _| {
            world.fake::<Bank>().charge(None);
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("slow charge without a token", async |world, _| {
            world.fake::<Bank>().charge_slowly(None).await;
            done()
        })
        .finds(TAKEOVER, EffectTwice),
        named("token of the delivery", async |world, _| {
            let delivery = world.context().request_id;
            world.fake::<Bank>().charge(Some(&delivery));
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("of two effects one without a token", async |world, _| {
            world.fake::<Bank>().charge(Some("o-1"));
            world.fake::<Outbox>().send();
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("two effects at once", async |world, _| {
            let bank = world.fake::<Bank>();
            let charge = async { Ok::<_, BoxError>(bank.charge_slowly(None).await) };
            tokio::try_join!(charge, put(world, "note", "at", N("1".into())))?;
            done()
        })
        .finds(REFUSED, EffectTwice),
        named("charge again after a timeout", async |world, _| {
            let bank = world.fake::<Bank>();
            let charge = tokio::time::timeout(Duration::from_millis(30), bank.charge_slowly(None));
            if charge.await.is_err() {
                bank.charge(None);
            }
            done()
        })
        .finds(TAKEOVER, EffectTwice),
        named("task that is not awaited", async |world, _| {
            let bank = world.fake::<Bank>();
            tokio::spawn(async move {
                // With its token the charge would be safe, if it were awaited.
                tokio::time::sleep(Duration::from_millis(5)).await;
                bank.charge(Some("mail"));
            });
            done()
        })
        .finds(CRASH_AFTER, EffectLost),
        // Charge in the first run alone.
        within(
            || operation("first"),
            async |world, _, call| {
                if call.which_run() == Run::First {
                    world.fake::<Bank>().charge(None);
                }
                done()
            },
        )
        .finds(CRASH_AFTER, EffectLost),
        named("refusal of its own reruns", async |world, _| {
            if !world.fake::<Marks>().mark("started") {
                return Err("the order is being processed".into());
            }
            world.fake::<Bank>().charge(Some("o-1"));
            done()
        })
        .finds(CRASH_AFTER, Stuck),
        // Unprotected run while the store fails.
        within(
            || operation("unprotected").on_store_error(OnStoreError::RunUnprotected),
            async |world, _, _| {
                world.fake::<Bank>().charge(None);
                done()
            },
        )
        .finds(OUTAGE, EffectTwice),
        named("receipt of the run", async |world, _| {
            world.fake::<Bank>().charge(Some("o-1"));
            Ok(json!({ "receipt": random() }))
        })
        .finds(CRASH_BEFORE, ResponsesDiffer),
        // Response that is not stored.
        within(
            || operation("not-stored").store_when("status == `done`"),
            async |world, _, _| {
                let charge = world.fake::<Bank>().charge(None);
                Ok(json!({ "status": "accepted", "charge": charge }))
            },
        )
        .finds(None, EffectTwice),
        named("error after the effect", async |world, _| {
            world.fake::<Bank>().charge(None);
            Err("the receipt could not be written".into())
        })
        .fails()
        .finds(None, EffectTwice),
    ])
    .await;
}

#[tokio::test]
async fn each_bug_in_tables_is_found() {
    assert_all_found(vec![
        named("update that adds", async |world, _| {
            add(world, "balance", 100).await?;
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("balance that is read and put back", async |world, _| {
            let balance = attribute(world, "a-1", "balance").await?;
            let balance = balance.ok_or("no balance")?;
            let balance: i64 = balance.as_n().map_err(|_| "no number")?.parse()?;
            put(world, "a-1", "balance", N((balance - 100).to_string())).await?;
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("item with a random id", async |world, _| {
            let booking = format!("booking {}", random());
            put(world, &booking, "amount", N("1".into())).await?;
            world.fake::<Bank>().charge(Some("o-1"));
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("order that stays pending", async |world, _| {
            if attribute(world, "o-1", "status").await?.is_none() {
                put(world, "o-1", "status", S("pending".into())).await?;
                put(world, "o-1", "status", S("paid".into())).await?;
            }
            done()
        })
        .finds(CRASH_AFTER, EffectLost),
        named("error that is ignored", async |world, _| {
            let _ = put(world, "o-1", "status", S("paid".into())).await;
            done()
        })
        .finds(REFUSED, EffectLost),
        named("items that were not processed", async |world, _| {
            put_lines(world, 0).await?;
            done()
        })
        .finds(PARTIAL, EffectLost),
        named("receipt of a late owner", async |world, _| {
            let receipt = format!("receipt {}", world.context().request_id);
            put(world, "o-1", "receipt", S(receipt.clone())).await?;
            Ok(json!({ "receipt": receipt }))
        })
        .finds(TAKEOVER, ResponsesDiffer),
        // Count of attempts.
        with_attempts("accused").finds(CRASH_AFTER, EffectTwice),
    ])
    .await;
}

/// Counts its runs, and charges with a token.
fn with_attempts(name: &'static str) -> RetrySafety<Value> {
    named(name, async |world, _| {
        add(world, "attempts", 1).await?;
        world.fake::<Bank>().charge(Some("o-1"));
        done()
    })
}

/// Charges under a token of user, order and amount.
fn of_user(operation: fn() -> OperationBuilder) -> RetrySafety<Value> {
    let user =
        |user: &str, amount: u64| json!({ "user_id": user, "order_id": "o-1", "amount": amount });
    let event = user("u-1", 100);
    let check = in_operation(event, operation, async |world, event, _| {
        let charge = world.fake::<Bank>().charge(Some(&event.to_string()));
        Ok(json!({ "charge": charge }))
    });
    let check = check.effect("charges", charges);
    check.another(user("u-2", 100)).changed(user("u-1", 999))
}

fn charged_within(operation: fn() -> OperationBuilder) -> RetrySafety<Value> {
    within(operation, async |world, _, _| {
        world.fake::<Bank>().charge(None);
        done()
    })
}

#[tokio::test]
async fn each_bug_of_keys_and_windows_is_found() {
    let short = || operation("short").expires_after(Duration::from_secs(3_600));
    assert_all_found(vec![
        // Key without the user.
        of_user(|| operation("narrow")).finds(None, WrongKey),
        // Key of what most events lack.
        of_user(|| {
            let partial = operation("partial").key("[customer_id, order_id]");
            partial.key_required(KeyRequired::Any)
        })
        .finds(None, WrongKey),
        // Key without validation.
        of_user(|| {
            let unchecked = operation("unchecked").key("[user_id, order_id]");
            unchecked.validate("user_id")
        })
        .finds(None, WrongKey),
        // Key with the amount.
        of_user(|| operation("wide").key("[user_id, order_id, amount]")).finds(None, WrongKey),
        // Key of the delivery.
        charged_within(|| operation("sent-at").key("[order_id, sent_at]"))
            .delivered_as(|mut event, delivery| {
                event["sent_at"] = delivery.into();
                event
            })
            .finds(None, EffectTwice),
        // Window that is shorter than the retries.
        charged_within(short)
            .retried_for(Duration::from_secs(86_400))
            .finds(None, EffectTwice),
    ])
    .await;
}

/// Reads the price list if it is not cached. Returns true if it was not cached.
async fn price(world: &World, prices: &StdMutex<Option<u64>>) -> Result<bool, BoxError> {
    let was_cold = prices.lock().unwrap().is_none();
    if was_cold {
        attribute(world, "a-1", "balance").await?;
        *prices.lock().unwrap() = Some(1);
    }
    Ok(was_cold)
}

/// Checks a function with a cache that each scenario empties. `has_token` says whether a cold (true) or warm run charges with a token.
fn with_emptied_cache(
    name: &'static str,
    prices: &'static StdMutex<Option<u64>>,
    has_token: fn(bool) -> bool,
) -> RetrySafety<Value> {
    let check = named(name, async move |world, _| {
        let is_cold = price(world, prices).await?;
        world
            .fake::<Bank>()
            .charge(has_token(is_cold).then_some("o-1"));
        done()
    });
    check.prepare(async |_| *prices.lock().unwrap() = None)
}

#[tokio::test]
async fn each_bug_of_caches_is_found() {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    static FOREVER: OnceLock<u64> = OnceLock::new();
    static ONCE: OnceLock<u64> = OnceLock::new();
    static COLD: StdMutex<Option<u64>> = StdMutex::new(None);
    static WARM: StdMutex<Option<u64>> = StdMutex::new(None);
    assert_all_found(vec![
        named("order that a static knows", async |world, _| {
            if !KNOWN.swap(true, Ordering::AcqRel) {
                world.fake::<Bank>().charge(None);
            }
            done()
        })
        .finds(CRASH_BEFORE, EffectLost),
        named("charge behind a cached price", async |world, _| {
            if FOREVER.get().is_none() {
                attribute(world, "a-1", "balance").await?;
                let _ = FOREVER.set(1);
            }
            world.fake::<Bank>().charge(None);
            done()
        })
        .finds(CRASH_AFTER, EffectTwice),
        named("token behind a cache that stays", async |world, _| {
            if ONCE.get().is_none() {
                attribute(world, "a-1", "balance").await?;
                let _ = ONCE.set(1);
            }
            world.fake::<Bank>().charge(Some("o-1"));
            done()
        })
        .finds(CRASH_BEFORE, NotReached),
        // Charge without a token in a cold run.
        with_emptied_cache("cold", &COLD, |is_cold| !is_cold).finds(CRASH_AFTER, EffectTwice),
        // Charge without a token in a warm run.
        with_emptied_cache("warm", &WARM, |is_cold| is_cold).finds(CRASH_AFTER, EffectTwice),
        // Fake with another mutex.
        retry_safety(order(), async |world: World, event: Value| {
            super::protected("other-mutex", &event, async || {
                world.fake::<AtomicUsize>().store(1, Ordering::Release);
                done()
            })
            .await
        })
        .effect("stores", async |world| {
            world.fake::<AtomicUsize>().load(Ordering::Acquire)
        })
        .finds(None, NotReached),
    ])
    .await;
}

async fn assert_all_found(bugs: Vec<Bug>) {
    for (at, fault, verdict, check) in bugs {
        let report = check.run().await;
        assert_eq!(report.failure(), None, "{at}");
        let is_found = |row: &Row| row.verdict == verdict && row.fault == fault;
        assert!(report.rows().iter().any(is_found), "{at}\n{report}");
        assert_eq!(report.unsafe_rows()[0].verdict, verdict, "{at}\n{report}");
    }
}

async fn book_in_one_transaction(world: &World) -> Result<(), BoxError> {
    let booking = Put::builder().table_name("accounts");
    let booking = booking.item("id", S("booking o-1".into()));
    let booking = booking.condition_expression("attribute_not_exists(id)");
    let booking = booking.build()?;
    let balance = Update::builder().table_name("accounts");
    let balance = balance.key("id", S("a-1".into()));
    let balance = balance.update_expression("ADD balance :a");
    let balance = balance.expression_attribute_values(":a", N("5".into()));
    let balance = balance.build()?;
    let both = world.dynamodb().transact_write_items();
    let both = both
        .transact_items(TransactWriteItem::builder().put(booking).build())
        .transact_items(TransactWriteItem::builder().update(balance).build());
    let sent = both.send().await.map_err(aws_sdk_dynamodb::Error::from);
    match sent {
        // Cancelled: another run has booked.
        Ok(_) | Err(aws_sdk_dynamodb::Error::TransactionCanceledException(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn no_safe_function_is_accused() {
    static EMPTIED: StdMutex<Option<u64>> = StdMutex::new(None);
    let whole = || {
        let operation = operation("whole").key("[user_id, order_id]");
        operation.key_required(KeyRequired::All)
    };
    let long = || operation("long").expires_after(Duration::from_secs(90_000));
    let safe = [
        ("charge with a token", named("token", async |world, _| {
            Ok(json!({ "charge": world.fake::<Bank>().charge(Some("o-1")) }))
        })),
        ("slow charge that a duplicate waits for", within(
            || operation("wait").on_in_progress(OnInProgress::Wait),
            async |world, _, call| {
                let token = call.token("charge");
                Ok(json!({ "charge": world.fake::<Bank>().charge_slowly(Some(token.as_str())).await }))
            },
        )),
        ("task that is awaited", named("awaited", async |world, _| {
            let bank = world.fake::<Bank>();
            let charge = tokio::spawn(async move { bank.charge_slowly(Some("o-1")).await });
            Ok(json!({ "charge": charge.await? }))
        })),
        ("timers in virtual time", named("timers", async |world, _| {
            let slow = tokio::time::sleep(Duration::from_secs(20));
            assert!(tokio::time::timeout(Duration::from_secs(10), slow).await.is_err());
            let before = world.now();
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(world.now() >= before.plus(Duration::from_secs(5)));
            Ok(json!({ "charge": world.fake::<Bank>().charge(Some("o-1")) }))
        })),
        ("put of the same item", named("put", async |world, event| {
            put(world, "booking o-1", "amount", N(event["amount"].to_string())).await?;
            // It differs between runs, and does no harm.
            put(world, "last run", "by", S(world.context().request_id)).await?;
            done()
        })),
        ("transaction with a condition", named("condition", async |world, _| {
            book_in_one_transaction(world).await?;
            done()
        })),
        ("order that a rerun takes further", named("further", async |world, _| {
            if attribute(world, "o-1", "status").await?.is_none() {
                put(world, "o-1", "status", S("pending".into())).await?;
            }
            put(world, "o-1", "status", S("paid".into())).await?;
            done()
        })),
        ("items that are sent again", named("again", async |world, _| {
            match put_lines(world, 3).await? {
                0 => done(),
                left => Err(format!("{left} lines were not processed").into()),
            }
        })),
        ("count of attempts that the check ignores", with_attempts("ignored-attempts").ignore_effect("accounts.attempts")),
        ("receipt that the check ignores", named("ignored-receipt", async |world, _| {
            Ok(json!({ "receipt": random(), "charge": world.fake::<Bank>().charge(Some("o-1")) }))
        }).ignore("/receipt")),
        ("key of user and order", of_user(whole)),
        ("window that is longer than the retries", within(long, async |world, _, _| {
            world.fake::<Bank>().charge(Some("o-1"));
            done()
        }).retried_for(Duration::from_secs(86_400))),
        ("charge with a token, cold and warm", with_emptied_cache("cold-and-warm", &EMPTIED, |_| true)),
        ("charge under hold", charged_within(|| operation("hold").on_timeout(OnTimeout::Hold))),
    ];
    for (name, check) in safe {
        let report = check.run().await;
        assert!(report.is_safe(), "{name}\n{report}");
        let is_held = report.rows().iter().any(|row| row.verdict == Held);
        assert_eq!(is_held, name == "charge under hold", "{report}");
    }
}
