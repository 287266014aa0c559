//! Functions with a known bug, all of which must be found, and safe ones, none of which may be accused.

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
use idempotency_testkit::retry_safety::FaultKind::{
    CrashAfter, CrashBefore, Outage, Partial, Refused, Takeover,
};
use idempotency_testkit::retry_safety::SafetyVerdict::{
    EffectLost, EffectTwice, Held, NotReached, ResponsesDiffer, Stuck, WrongKey,
};
use idempotency_testkit::retry_safety::{
    FaultKind, RetrySafety, SafetyVerdict, World, retry_safety,
};
use serde_json::{Value, json};

use crate::bank::{Bank, Marks, Outbox, charges, mails};
use crate::{operation, order};

pub(crate) fn accounts() -> TableSpec {
    TableSpec::new("accounts").without_ttl()
}

async fn open_account(world: World) {
    let put = world.dynamodb().put_item().table_name("accounts");
    let put = put
        .item("id", S("a-1".into()))
        .item("balance", N("500".into()));
    put.send().await.unwrap();
}

/// Checks what a handler does in this operation.
fn within(
    operation: impl Fn() -> OperationBuilder + Send + Sync + 'static,
    handler: impl AsyncFn(&World, &Value, Call) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    shown(retry_safety(
        order(),
        async move |world: World, event: Value| {
            let operation = operation().build()?;
            let run = async |call| handler(&world, &event, call).await;
            let outcome = operation.run(&event, Deadline::Inherited, run);
            Ok::<_, BoxError>(outcome.await?.into_response())
        },
    ))
}

/// Checks what a handler does in an operation of this name.
fn sold(
    name: &'static str,
    handler: impl AsyncFn(&World, &Value) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    within(
        move || operation(name),
        async move |world: &World, event: &Value, _| handler(world, event).await,
    )
}

/// Shows the effects of the fakes and of the table.
fn shown(check: RetrySafety<Value>) -> RetrySafety<Value> {
    let check = check.effect("charges", charges).effect("mails", mails);
    check.table(accounts()).prepare(open_account)
}

fn done() -> Result<Value, BoxError> {
    Ok(json!({ "done": true }))
}

/// Returns a number that no other run has.
fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

async fn put(world: &World, id: &str, name: &str, value: AttributeValue) -> Result<(), BoxError> {
    let put = world.dynamodb().put_item().table_name("accounts");
    let put = put.item("id", S(id.to_owned())).item(name, value);
    put.send().await?;
    Ok(())
}

async fn add(world: &World, name: &str, amount: u64) -> Result<(), BoxError> {
    let update = world.dynamodb().update_item().table_name("accounts");
    let update = update.key("id", S("a-1".into()));
    let update = update
        .update_expression("ADD #n :a")
        .expression_attribute_names("#n", name);
    let update = update.expression_attribute_values(":a", N(amount.to_string()));
    update.send().await?;
    Ok(())
}

async fn attribute(
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

/// A function with a bug: its name, where it is found, and what is found.
struct Bug(
    &'static str,
    Option<FaultKind>,
    SafetyVerdict,
    RetrySafety<Value>,
);

fn bugs_beside_the_call() -> Vec<Bug> {
    vec![
        Bug(
            "effect before the claim",
            None,
            EffectTwice,
            shown(retry_safety(order(), async |world: World, event: Value| {
                world.fake::<Bank>().charge(None);
                crate::protected("before", &event, async || done()).await
            })),
        ),
        Bug(
            "effect of each replay",
            None,
            EffectTwice,
            shown(retry_safety(order(), async |world: World, event: Value| {
                let response: Value = crate::protected("after", &event, async || done()).await?;
                world.fake::<Outbox>().send();
                Ok::<_, BoxError>(response)
            })),
        ),
        Bug(
            "effect after the completion",
            Some(CrashAfter),
            EffectLost,
            shown(retry_safety(order(), async |world: World, event: Value| {
                let operation = operation("executed").build()?;
                let outcome = operation
                    .run(&event, Deadline::Inherited, async || done())
                    .await?;
                if !outcome.is_replayed() {
                    world.fake::<Outbox>().send();
                }
                Ok::<_, BoxError>(outcome.into_response())
            })),
        ),
        Bug(
            "destructor after the completion",
            Some(CrashAfter),
            EffectLost,
            shown(retry_safety(order(), async |world: World, event: Value| {
                let operation = operation("destructor").build()?;
                let mut mail = MailAtEnd(&world, false);
                let outcome = operation
                    .run(&event, Deadline::Inherited, async || done())
                    .await?;
                mail.1 = !outcome.is_replayed();
                Ok::<_, BoxError>(outcome.into_response())
            })),
        ),
        Bug(
            "response with a part of the delivery",
            None,
            ResponsesDiffer,
            shown(retry_safety(order(), async |world: World, event: Value| {
                let charge =
                    async || Ok(json!({ "charge": world.fake::<Bank>().charge(Some("o-1")) }));
                let mut response: Value = crate::protected("part", &event, charge).await?;
                response["request"] = json!(world.context().request_id);
                Ok::<_, BoxError>(response)
            })),
        ),
        Bug(
            "no claim at all",
            None,
            EffectTwice,
            shown(retry_safety(order(), async |world: World, _: Value| {
                world.fake::<Bank>().charge(None);
                done()
            })),
        ),
    ]
}

fn bugs_of_effects() -> Vec<Bug> {
    vec![
        Bug(
            "mark, then charge",
            Some(CrashAfter),
            EffectLost,
            sold("mark-charge", async |world: &World, _: &Value| {
                if world.fake::<Marks>().mark("o-1") {
                    world.fake::<Bank>().charge(None);
                }
                done()
            }),
        ),
        Bug(
            "charge, then mark",
            Some(CrashAfter),
            EffectTwice,
            sold("charge-mark", async |world: &World, _: &Value| {
                let marks = world.fake::<Marks>();
                if !marks.has("o-1") {
                    world.fake::<Bank>().charge(None);
                    marks.mark("o-1");
                }
                done()
            }),
        ),
        Bug(
            "charge without a token",
            Some(CrashAfter),
            EffectTwice,
            sold("plain", async |world: &World, _: &Value| {
                world.fake::<Bank>().charge(None);
                done()
            }),
        ),
        Bug(
            "slow charge without a token",
            Some(Takeover),
            EffectTwice,
            sold("slow", async |world: &World, _: &Value| {
                world.fake::<Bank>().charge_slowly(None).await;
                done()
            }),
        ),
        Bug(
            "token of the delivery",
            Some(CrashAfter),
            EffectTwice,
            sold("delivery", async |world: &World, _: &Value| {
                world
                    .fake::<Bank>()
                    .charge(Some(&world.context().request_id));
                done()
            }),
        ),
        Bug(
            "of two effects one without a token",
            Some(CrashAfter),
            EffectTwice,
            sold("two", async |world: &World, _: &Value| {
                world.fake::<Bank>().charge(Some("o-1"));
                world.fake::<Outbox>().send();
                done()
            }),
        ),
        Bug(
            "two effects at once",
            Some(Refused),
            EffectTwice,
            sold("join", async |world: &World, _: &Value| {
                let bank = world.fake::<Bank>();
                let charge = async { Ok::<_, BoxError>(bank.charge_slowly(None).await) };
                tokio::try_join!(charge, put(world, "note", "at", N("1".into())))?;
                done()
            }),
        ),
        Bug(
            "charge again after a timeout",
            Some(Takeover),
            EffectTwice,
            sold("timeout", async |world: &World, _: &Value| {
                let bank = world.fake::<Bank>();
                let charge =
                    tokio::time::timeout(Duration::from_millis(30), bank.charge_slowly(None));
                if charge.await.is_err() {
                    bank.charge(None);
                }
                done()
            }),
        ),
        Bug(
            "task that is not awaited",
            Some(CrashAfter),
            EffectLost,
            sold("spawned", async |world: &World, _: &Value| {
                let (bank, outbox) = (world.fake::<Bank>(), world.fake::<Outbox>());
                tokio::spawn(async move {
                    // A rerun mails too: with a token it would be safe, if it were awaited.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    if bank.charge(Some("mail")) == 1 {
                        drop(outbox);
                    }
                });
                done()
            }),
        ),
        Bug(
            "charge in the first run alone",
            Some(CrashAfter),
            EffectLost,
            within(
                || operation("first"),
                async |world: &World, _: &Value, call: Call| {
                    if call.which_run() == Run::First {
                        world.fake::<Bank>().charge(None);
                    }
                    done()
                },
            ),
        ),
        Bug(
            "refusal of its own reruns",
            Some(CrashAfter),
            Stuck,
            sold("stuck", async |world: &World, _: &Value| {
                if !world.fake::<Marks>().mark("started") {
                    return Err("the order is being processed".into());
                }
                world.fake::<Bank>().charge(Some("o-1"));
                done()
            }),
        ),
        Bug(
            "unprotected run while the store fails",
            Some(Outage),
            EffectTwice,
            within(
                || operation("unprotected").on_store_error(OnStoreError::RunUnprotected),
                async |world: &World, _: &Value, _| {
                    world.fake::<Bank>().charge(None);
                    done()
                },
            ),
        ),
        Bug(
            "receipt of the run",
            Some(CrashBefore),
            ResponsesDiffer,
            sold("receipt", async |world: &World, _: &Value| {
                world.fake::<Bank>().charge(Some("o-1"));
                Ok(json!({ "receipt": random() }))
            }),
        ),
        Bug(
            "response that is not stored",
            None,
            EffectTwice,
            within(
                || operation("not-stored").store_when("status == `done`"),
                async |world: &World, _: &Value, _| {
                    let charge = world.fake::<Bank>().charge(None);
                    Ok(json!({ "status": "accepted", "charge": charge }))
                },
            ),
        ),
        Bug(
            "error after the effect",
            None,
            EffectTwice,
            sold("error", async |world: &World, _: &Value| {
                world.fake::<Bank>().charge(None);
                Err("the receipt could not be written".into())
            })
            .fails(),
        ),
    ]
}

fn bugs_in_tables() -> Vec<Bug> {
    vec![
        Bug(
            "update that adds",
            Some(CrashAfter),
            EffectTwice,
            sold("add", async |world: &World, _: &Value| {
                add(world, "balance", 100).await?;
                done()
            }),
        ),
        Bug(
            "balance that is read and put back",
            Some(CrashAfter),
            EffectTwice,
            sold("rmw", async |world: &World, _: &Value| {
                let balance = attribute(world, "a-1", "balance")
                    .await?
                    .ok_or("no balance")?;
                let balance: i64 = balance.as_n().map_err(|_| "no number")?.parse()?;
                put(world, "a-1", "balance", N((balance - 100).to_string())).await?;
                done()
            }),
        ),
        Bug(
            "item with a random id",
            Some(CrashAfter),
            EffectTwice,
            sold("random-id", async |world: &World, _: &Value| {
                put(
                    world,
                    &format!("booking {}", random()),
                    "amount",
                    N("1".into()),
                )
                .await?;
                world.fake::<Bank>().charge(Some("o-1"));
                done()
            }),
        ),
        Bug(
            "order that stays pending",
            Some(CrashAfter),
            EffectLost,
            sold("pending", async |world: &World, _: &Value| {
                if attribute(world, "o-1", "status").await?.is_none() {
                    put(world, "o-1", "status", S("pending".into())).await?;
                    put(world, "o-1", "status", S("paid".into())).await?;
                }
                done()
            }),
        ),
        Bug(
            "error that is ignored",
            Some(Refused),
            EffectLost,
            sold("ignored", async |world: &World, _: &Value| {
                let _ = put(world, "o-1", "status", S("paid".into())).await;
                done()
            }),
        ),
        Bug(
            "items that were not processed",
            Some(Partial),
            EffectLost,
            sold("unprocessed", async |world: &World, _: &Value| {
                put_lines(world, 0).await?;
                done()
            }),
        ),
        Bug(
            "receipt of a late owner",
            Some(Takeover),
            ResponsesDiffer,
            sold("late", async |world: &World, _: &Value| {
                let receipt = format!("receipt {}", world.context().request_id);
                put(world, "o-1", "receipt", S(receipt.clone())).await?;
                Ok(json!({ "receipt": receipt }))
            }),
        ),
        Bug(
            "count of attempts",
            Some(CrashAfter),
            EffectTwice,
            with_attempts("accused"),
        ),
    ]
}

/// Counts its runs, and charges with a token.
fn with_attempts(name: &'static str) -> RetrySafety<Value> {
    sold(name, async |world: &World, _: &Value| {
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
    let check = retry_safety(event, async move |world: World, event: Value| {
        let operation = operation().build()?;
        let outcome = operation.run(&event, Deadline::Inherited, async || {
            let charge = world.fake::<Bank>().charge(Some(&event.to_string()));
            Ok::<_, BoxError>(json!({ "charge": charge }))
        });
        Ok::<_, BoxError>(outcome.await?.into_response())
    });
    let check = check.effect("charges", charges);
    check.another(user("u-2", 100)).changed(user("u-1", 999))
}

fn charged_within(operation: fn() -> OperationBuilder) -> RetrySafety<Value> {
    within(operation, async |world: &World, _: &Value, _| {
        world.fake::<Bank>().charge(None);
        done()
    })
}

fn bugs_of_keys_and_windows() -> Vec<Bug> {
    let short = || operation("short").expires_after(Duration::from_secs(3_600));
    vec![
        Bug(
            "key without the user",
            None,
            WrongKey,
            of_user(|| operation("narrow")),
        ),
        Bug(
            "key of what most events lack",
            None,
            WrongKey,
            of_user(|| {
                let partial = operation("partial").key("[customer_id, order_id]");
                partial.key_required(KeyRequired::Any)
            }),
        ),
        Bug(
            "key without validation",
            None,
            WrongKey,
            of_user(|| {
                operation("unchecked")
                    .key("[user_id, order_id]")
                    .validate("user_id")
            }),
        ),
        Bug(
            "key with the amount",
            None,
            WrongKey,
            of_user(|| operation("wide").key("[user_id, order_id, amount]")),
        ),
        Bug(
            "key of the delivery",
            None,
            EffectTwice,
            charged_within(|| operation("sent-at").key("[order_id, sent_at]")).delivered_as(
                |mut event, delivery| {
                    event["sent_at"] = delivery.into();
                    event
                },
            ),
        ),
        Bug(
            "window that is shorter than the retries",
            None,
            EffectTwice,
            charged_within(short).retried_for(Duration::from_secs(86_400)),
        ),
    ]
}

/// Reads a price list when it is cold.
async fn price(world: &World, prices: &StdMutex<Option<u64>>) -> Result<bool, BoxError> {
    let was_cold = prices.lock().unwrap().is_none();
    if was_cold {
        attribute(world, "a-1", "balance").await?;
        *prices.lock().unwrap() = Some(1);
    }
    Ok(was_cold)
}

/// A cache that each scenario empties, and a charge with a token if `charge` says so of a cold and of a warm run.
fn emptied(
    name: &'static str,
    prices: &'static StdMutex<Option<u64>>,
    charge: fn(bool) -> bool,
) -> RetrySafety<Value> {
    let check = sold(name, async move |world: &World, _: &Value| {
        let is_cold = price(world, prices).await?;
        world
            .fake::<Bank>()
            .charge(charge(is_cold).then_some("o-1"));
        done()
    });
    check.prepare(async |_| *prices.lock().unwrap() = None)
}

fn bugs_of_caches() -> Vec<Bug> {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    static FOREVER: OnceLock<u64> = OnceLock::new();
    static ONCE: OnceLock<u64> = OnceLock::new();
    static COLD: StdMutex<Option<u64>> = StdMutex::new(None);
    static WARM: StdMutex<Option<u64>> = StdMutex::new(None);
    vec![
        Bug(
            "order that a static knows",
            Some(CrashBefore),
            EffectLost,
            sold("static", async |world: &World, _: &Value| {
                if !KNOWN.swap(true, Ordering::AcqRel) {
                    world.fake::<Bank>().charge(None);
                }
                done()
            }),
        ),
        Bug(
            "charge behind a cached price",
            Some(CrashAfter),
            EffectTwice,
            sold("forever", async |world: &World, _: &Value| {
                if FOREVER.get().is_none() {
                    attribute(world, "a-1", "balance").await?;
                    let _ = FOREVER.set(1);
                }
                world.fake::<Bank>().charge(None);
                done()
            }),
        ),
        Bug(
            "charge with a token behind a cache that stays",
            Some(CrashBefore),
            NotReached,
            sold("stays", async |world: &World, _: &Value| {
                if ONCE.get().is_none() {
                    attribute(world, "a-1", "balance").await?;
                    let _ = ONCE.set(1);
                }
                world.fake::<Bank>().charge(Some("o-1"));
                done()
            }),
        ),
        Bug(
            "charge without a token in a cold run",
            Some(CrashAfter),
            EffectTwice,
            emptied("cold", &COLD, |is_cold| !is_cold),
        ),
        Bug(
            "charge without a token in a warm run",
            Some(CrashAfter),
            EffectTwice,
            emptied("warm", &WARM, |is_cold| is_cold),
        ),
        Bug(
            "fake with another mutex",
            None,
            NotReached,
            retry_safety(order(), async |world: World, event: Value| {
                crate::protected("other-mutex", &event, async || {
                    world.fake::<AtomicUsize>().store(1, Ordering::Release);
                    done()
                })
                .await
            })
            .effect("stores", async |world| {
                world.fake::<AtomicUsize>().load(Ordering::Acquire)
            }),
        ),
    ]
}

async fn assert_all_found(bugs: Vec<Bug>) {
    for Bug(name, fault, verdict, check) in bugs {
        let report = check.run().await;
        let mut rows = report.with(verdict).into_iter();
        assert_eq!(report.failure(), None, "{name}");
        assert!(rows.any(|row| row.fault == fault), "{name}\n{report}");
        assert_eq!(report.unsafe_rows()[0].verdict, verdict, "{name}\n{report}");
    }
}

#[tokio::test]
async fn each_bug_beside_the_call_is_found() {
    assert_all_found(bugs_beside_the_call()).await;
}

#[tokio::test]
async fn each_bug_of_effects_is_found() {
    assert_all_found(bugs_of_effects()).await;
}

#[tokio::test]
async fn each_bug_in_tables_is_found() {
    assert_all_found(bugs_in_tables()).await;
}

#[tokio::test]
async fn each_bug_of_keys_and_windows_is_found() {
    assert_all_found(bugs_of_keys_and_windows()).await;
}

#[tokio::test]
async fn each_bug_of_caches_is_found() {
    assert_all_found(bugs_of_caches()).await;
}

async fn book_in_one_transaction(world: &World) -> Result<(), BoxError> {
    let booking = Put::builder()
        .table_name("accounts")
        .item("id", S("booking o-1".into()));
    let booking = booking
        .condition_expression("attribute_not_exists(id)")
        .build()?;
    let balance = Update::builder()
        .table_name("accounts")
        .key("id", S("a-1".into()));
    let balance = balance.update_expression("ADD balance :a");
    let balance = balance
        .expression_attribute_values(":a", N("5".into()))
        .build()?;
    let both = world
        .dynamodb()
        .transact_write_items()
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
        ("charge with a token", sold("token", async |world: &World, _: &Value| {
            Ok(json!({ "charge": world.fake::<Bank>().charge(Some("o-1")) }))
        })),
        ("slow charge that a duplicate waits for", within(
            || operation("wait").on_in_progress(OnInProgress::Wait),
            async |world: &World, _: &Value, call: Call| {
                let token = call.token("charge");
                Ok(json!({ "charge": world.fake::<Bank>().charge_slowly(Some(token.as_str())).await }))
            },
        )),
        ("task that is awaited", sold("awaited", async |world: &World, _: &Value| {
            let bank = world.fake::<Bank>();
            let charge = tokio::spawn(async move { bank.charge_slowly(Some("o-1")).await });
            Ok(json!({ "charge": charge.await? }))
        })),
        ("timers of half a minute", sold("timers", async |world: &World, _: &Value| {
            let slow = tokio::time::sleep(Duration::from_secs(20));
            assert!(tokio::time::timeout(Duration::from_secs(10), slow).await.is_err());
            let before = world.now();
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(world.now() >= before.plus(Duration::from_secs(5)));
            Ok(json!({ "charge": world.fake::<Bank>().charge(Some("o-1")) }))
        })),
        ("put of the same item", sold("put", async |world: &World, event: &Value| {
            put(world, "booking o-1", "amount", N(event["amount"].to_string())).await?;
            // It differs between runs, and does no harm.
            put(world, "last run", "by", S(world.context().request_id)).await?;
            done()
        })),
        ("transaction with a condition", sold("condition", async |world: &World, _: &Value| {
            book_in_one_transaction(world).await?;
            done()
        })),
        ("order that a rerun takes further", sold("further", async |world: &World, _: &Value| {
            if attribute(world, "o-1", "status").await?.is_none() {
                put(world, "o-1", "status", S("pending".into())).await?;
            }
            put(world, "o-1", "status", S("paid".into())).await?;
            done()
        })),
        ("items that are sent again", sold("again", async |world: &World, _: &Value| {
            match put_lines(world, 3).await? {
                0 => done(),
                left => Err(format!("{left} lines were not processed").into()),
            }
        })),
        ("count of attempts that the check ignores", with_attempts("ignored-attempts").ignore_effect("accounts.attempts")),
        ("receipt that the check ignores", sold("ignored-receipt", async |world: &World, _: &Value| {
            Ok(json!({ "receipt": random(), "charge": world.fake::<Bank>().charge(Some("o-1")) }))
        }).ignore("/receipt")),
        ("key of user and order", of_user(whole)),
        ("window that is longer than the retries", within(long, async |world: &World, _: &Value, _| {
            world.fake::<Bank>().charge(Some("o-1"));
            done()
        }).retried_for(Duration::from_secs(86_400))),
        ("charge with a token, cold and warm", emptied("cold-and-warm", &EMPTIED, |_| true)),
        ("charge under hold", charged_within(|| operation("hold").on_timeout(OnTimeout::Hold))),
    ];
    for (name, check) in safe {
        let report = check.run().await;
        assert!(report.is_safe(), "{name}\n{report}");
        assert_eq!(
            report.with(Held).is_empty(),
            name != "charge under hold",
            "{report}"
        );
    }
}
