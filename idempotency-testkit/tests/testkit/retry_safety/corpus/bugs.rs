//! Functions with a bug.

use super::*;

/// Returns each function with a name of its bug and the verdict that finds it.
pub(super) fn bugs() -> Vec<(&'static str, SafetyVerdict, RetrySafety<Value>)> {
    vec![
        // What names the order lacks the user.
        (
            "token without the user",
            WrongKey,
            of("token", async |world, event, _| {
                world.fake::<Bank>().charge(Some(text(event, "order")));
                put(world, &id(event), "status", S("paid".into())).await?;
                done()
            }),
        ),
        (
            "item without the user",
            WrongKey,
            of("item", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                create(world, text(event, "order"), text(event, "user")).await?;
                done()
            }),
        ),
        (
            "booking without the user",
            WrongKey,
            of("booking", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                world.fake::<Ledger>().book(text(event, "order"), 100);
                done()
            }),
        ),
        (
            "inner operation without the user",
            WrongKey,
            of("outer", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                let inner = operation("inner").key("order").build()?;
                let mail = async || {
                    world.fake::<Ledger>().book(&id(event), 5);
                    done()
                };
                inner.run(event, Deadline::Inherited, mail).await?;
                done()
            }),
        ),
        (
            "mark without the user",
            WrongKey,
            of("mark", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                if world.fake::<Marks>().mark(text(event, "order")) {
                    world.fake::<Ledger>().book(&id(event), 5);
                }
                done()
            }),
        ),
        (
            "response of another user",
            WrongKey,
            of("leak", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                let (notes, name) = (world.fake::<Notes>(), text(event, "order"));
                let user = notes
                    .get(name)
                    .unwrap_or_else(|| text(event, "user").to_owned());
                notes.set(name, &user);
                Ok(json!({ "charged": user }))
            }),
        ),
        // What another event changes between the crash and the redelivery.
        (
            "guard that knows the last order",
            EffectTwice,
            of("last", async |world, event, _| {
                let (set, condition) = (
                    "last_order = :order",
                    "attribute_not_exists(last_order) OR last_order <> :order",
                );
                take_if(world, event, set, condition).await?;
                done()
            }),
        ),
        (
            "guard in a service that knows the last order",
            EffectTwice,
            of("last-note", async |world, event, _| {
                let mut notes = world.fake::<Notes>();
                if notes.get("last") != Some(id(event)) {
                    notes = world.fake::<Notes>();
                    notes.set("last", &id(event));
                    world.fake::<Outbox>().send();
                }
                done()
            }),
        ),
        (
            "guard that knows the highest number",
            EffectLost,
            of("highest", async |world, event, _| {
                let (set, condition) = (
                    "highest = :number",
                    "attribute_not_exists(highest) OR highest < :number",
                );
                world.fake::<Bank>().charge(Some(&id(event)));
                take_if(world, event, set, condition).await?;
                done()
            }),
        ),
        (
            "balance of a step that is put back",
            EffectLost,
            within(
                "step-balance",
                |it| it.steps(Steps::Keep),
                async |world, _, call| {
                    let balance = call.step("read", || number(world, "balance")).await?;
                    let rest = N((balance - 100).to_string());
                    call.step("write", || set(world, "balance", rest.clone()))
                        .await?;
                    done()
                },
            ),
        ),
        (
            "balance that is put back with its orders",
            EffectLost,
            of("put-back", async |world, event, _| {
                let known = attribute(world, "a-1", "orders").await?;
                let mut orders = known
                    .and_then(|known| known.as_ss().ok().cloned())
                    .unwrap_or_default();
                let balance = number(world, "balance").await?;
                if !orders.contains(&id(event)) {
                    orders.push(id(event));
                    let put = world.dynamodb().put_item().table_name("accounts");
                    let put = put
                        .item("id", S("a-1".into()))
                        .item("orders", AttributeValue::Ss(orders));
                    put.item("balance", N((balance - 100).to_string()))
                        .send()
                        .await?;
                }
                done()
            }),
        ),
        (
            "token of a count that others raise",
            EffectTwice,
            of("count", async |world, event, _| {
                let token = format!("{} {}", text(event, "user"), number(world, "orders").await?);
                world.fake::<Bank>().charge(Some(&token));
                if create(world, &id(event), "order").await? {
                    add(world, "orders", 1).await?;
                }
                done()
            }),
        ),
        (
            "token of the balance",
            EffectTwice,
            of("balance-token", async |world, event, _| {
                let balance = number(world, "balance").await?;
                world
                    .fake::<Bank>()
                    .charge(Some(&format!("{} {balance}", id(event))));
                if create(world, &id(event), "order").await? {
                    set(world, "balance", N((balance - 100).to_string())).await?;
                }
                done()
            }),
        ),
        (
            "slot that the next order takes",
            EffectLost,
            of("slot", async |world, event, _| {
                let notes = world.fake::<Notes>();
                if world.fake::<Marks>().mark(&id(event)) {
                    notes.set("pending", &id(event));
                }
                let pending = notes.get("pending").unwrap_or_default();
                world.fake::<Bank>().charge(Some(&pending));
                done()
            }),
        ),
        // What the day changes.
        (
            "token of the day",
            EffectTwice,
            of("day", async |world, event, _| {
                world
                    .fake::<Bank>()
                    .charge(Some(&format!("{} {}", id(event), day(world))));
                done()
            }),
        ),
        (
            "item of the day",
            EffectTwice,
            of("day-item", async |world, event, _| {
                let item = format!("{} {}", id(event), day(world));
                if create(world, &item, "order").await? {
                    add(world, "orders", 1).await?;
                }
                world.fake::<Bank>().charge(Some(&item));
                done()
            }),
        ),
        (
            "amount of the day",
            EffectTwice,
            of("day-amount", async |world, event, _| {
                let price = u64::try_from(day(world))? % 1_000;
                let ledger = world.fake::<Ledger>();
                ledger.book(&format!("debit {}", id(event)), price);
                ledger.book(&format!("credit {}", id(event)), price);
                done()
            }),
        ),
        (
            "step of the day",
            EffectTwice,
            within(
                "day-step",
                |it| it.steps(Steps::Keep),
                async |world, _, call| {
                    let name = format!("charge {}", day(world));
                    let charge = call.named_step(&name);
                    let token = charge.token();
                    charge
                        .run(|| async {
                            Ok::<_, BoxError>(world.fake::<Bank>().charge(Some(token.as_str())))
                        })
                        .await?;
                    put(world, "note", "at", N("1".into())).await?;
                    done()
                },
            ),
        ),
        // What is forgotten before the sender gives up.
        (
            "mark that is forgotten after ten minutes",
            EffectTwice,
            of("ten", async |world, event, _| {
                world.fake::<Reminders>().send(world.now().get());
                put(world, &id(event), "status", S("reminded".into())).await?;
                done()
            })
            .effect("reminders", async |world| {
                world.fake::<Reminders>().0.lock().unwrap().0
            }),
        ),
        (
            "steps that are forgotten before the sender gives up",
            EffectTwice,
            within(
                "forgotten",
                |it| {
                    it.steps(Steps::Keep)
                        .expires_after(Duration::from_secs(3_600))
                },
                async |world, event, call| {
                    call.step("mail", || async {
                        world.fake::<Outbox>().send();
                        Ok::<_, BoxError>(())
                    })
                    .await?;
                    put(world, &id(event), "status", S("mailed".into())).await?;
                    done()
                },
            )
            .retried_for(Duration::from_secs(7_000)),
        ),
        // Write order and errors.
        (
            "staged write beside a direct one",
            EffectTwice,
            of("beside", async |world, event, call| {
                let paid = Update::builder()
                    .table_name("accounts")
                    .key("id", S(id(event)));
                let paid = paid
                    .update_expression("SET paid = :a")
                    .expression_attribute_values(":a", N("100".into()));
                call.transaction().update(paid.build()?)?;
                add(world, "balance", 100).await?;
                done()
            }),
        ),
        (
            "staged write of the first run alone",
            EffectLost,
            of("first-staged", async |world, event, call| {
                world.fake::<Bank>().charge(Some(&id(event)));
                if call.which_run() == Run::First {
                    let add = Update::builder()
                        .table_name("accounts")
                        .key("id", S("a-1".into()));
                    let add = add
                        .update_expression("ADD balance :a")
                        .expression_attribute_values(":a", N("100".into()));
                    call.transaction().update(add.build()?)?;
                }
                done()
            }),
        ),
        (
            "step whose name changes",
            EffectTwice,
            within(
                "renamed",
                |it| it.steps(Steps::Keep),
                async |world, event, call| {
                    let name = format!("mail {}", world.delivery());
                    call.step(&name, || async {
                        world.fake::<Outbox>().send();
                        Ok::<_, BoxError>(())
                    })
                    .await?;
                    put(world, &id(event), "status", S("mailed".into())).await?;
                    done()
                },
            ),
        ),
        (
            "step with two effects",
            EffectTwice,
            within(
                "two-in-one",
                |it| it.steps(Steps::Keep),
                async |world, event, call| {
                    let both = || async {
                        world.fake::<Outbox>().send();
                        put(world, &id(event), "status", S("mailed".into())).await
                    };
                    call.step("both", both).await?;
                    done()
                },
            ),
        ),
        (
            "item that says done before its effect",
            EffectLost,
            of("done-first", async |world, event, _| {
                if create(world, &id(event), "order").await? {
                    world.fake::<Bank>().charge(Some(&id(event)));
                }
                done()
            }),
        ),
        (
            "item that says done after its effect",
            EffectTwice,
            of("done-last", async |world, event, _| {
                if attribute(world, &id(event), "by").await?.is_none() {
                    world.fake::<Outbox>().send();
                    create(world, &id(event), "order").await?;
                }
                done()
            }),
        ),
        (
            "failure that becomes a response",
            EffectLost,
            of("declined", async |world, event, _| {
                match put(world, &id(event), "status", S("paid".into())).await {
                    Ok(()) => done(),
                    Err(_) => Ok(json!({ "status": "declined" })),
                }
            }),
        ),
        (
            "compensation without a token",
            EffectTwice,
            of("compensation", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                if put(world, &id(event), "status", S("paid".into()))
                    .await
                    .is_err()
                {
                    world.fake::<Outbox>().send();
                    return Err("the charge was taken back".into());
                }
                done()
            }),
        ),
        (
            "outbox with a random id",
            EffectTwice,
            of("outbox", async |world, event, _| {
                put(world, &format!("mail {}", random()), "to", S(id(event))).await?;
                world.fake::<Bank>().charge(Some(&id(event)));
                done()
            }),
        ),
        (
            "number of the run in a list",
            EffectTwice,
            of("list", async |world, event, _| {
                let update = world
                    .dynamodb()
                    .update_item()
                    .table_name("accounts")
                    .key("id", S("a-1".into()));
                let update = update.update_expression(
                    "SET receipts = list_append(if_not_exists(receipts, :none), :line)",
                );
                let update =
                    update.expression_attribute_values(":none", AttributeValue::L(Vec::new()));
                update
                    .expression_attribute_values(":line", AttributeValue::L(vec![S(id(event))]))
                    .send()
                    .await?;
                done()
            }),
        ),
        (
            "lines of which some were charged",
            EffectTwice,
            of("lines", async |world, _, _| {
                for line in ["a", "b"] {
                    if !world.fake::<Marks>().has(line) {
                        world.fake::<Outbox>().send();
                    }
                }
                for line in ["a", "b"] {
                    world.fake::<Marks>().mark(line);
                }
                done()
            }),
        ),
        (
            "task without an await",
            EffectLost,
            of("task", async |world, event, _| {
                let (bank, token) = (world.fake::<Bank>(), id(event));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    bank.charge(Some(&token));
                });
                done()
            }),
        ),
        (
            "receipt with a random number",
            ResponsesDiffer,
            of("receipt", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                Ok(json!({ "receipt": random() }))
            }),
        ),
        (
            "response with the time of the run",
            ResponsesDiffer,
            of("time", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                Ok(json!({ "at": world.now().get() }))
            }),
        ),
        (
            "response with the request",
            ResponsesDiffer,
            of("request", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                Ok(json!({ "request": world.context().request_id }))
            }),
        ),
        (
            "balance of a service that is put back",
            EffectLost,
            of("put-back-note", async |world, event, _| {
                let (notes, marks) = (world.fake::<Notes>(), world.fake::<Marks>());
                let known = notes.get("orders").unwrap_or_default();
                if !known.contains(&id(event)) {
                    notes.set("orders", &format!("{known} {}", id(event)));
                }
                marks.mark(&id(event));
                done()
            })
            .effect("orders", async |world| {
                let orders = world.fake::<Notes>().get("orders").unwrap_or_default();
                orders.split_whitespace().count()
            }),
        ),
        (
            "refund of what a rerun finds",
            EffectTwice,
            of("refund", async |world, event, call| {
                if call.which_run() != Run::First {
                    world.fake::<Outbox>().send();
                }
                world.fake::<Bank>().charge(Some(&id(event)));
                done()
            }),
        ),
        (
            "amount of a static",
            EffectTwice,
            of("static-amount", async |world, event, _| {
                static PRICE: AtomicU64 = AtomicU64::new(1);
                let price = PRICE.fetch_add(1, Ordering::Relaxed);
                world.fake::<Ledger>().book(&id(event), price);
                done()
            }),
        ),
        (
            "token of each attempt",
            EffectTwice,
            of("attempt", async |world, event, _| {
                for attempt in 1..=2 {
                    let token = format!("{} {attempt}", id(event));
                    if send(world, "POST", "/charges", Some(&token), event)
                        .await
                        .is_ok()
                    {
                        return done();
                    }
                }
                Err("the bank does not respond".into())
            })
            .provider(provider()),
        ),
        (
            "charge that is given up",
            EffectLost,
            of("given-up", async |world, event, _| {
                let token = id(event);
                let charge = send(world, "POST", "/charges", Some(&token), event);
                match tokio::time::timeout(Duration::from_secs(2), charge).await {
                    Ok(Ok(_)) => done(),
                    _ => Ok(json!({ "status": "pending" })),
                }
            })
            .provider(provider()),
        ),
        (
            "order that is taken for one in progress",
            EffectLost,
            of("in-progress", async |world, event, _| {
                if !create(world, &format!("claim {}", id(event)), "run").await? {
                    return Ok(json!({ "status": "in progress" }));
                }
                world.fake::<Bank>().charge(Some(&id(event)));
                done()
            }),
        ),
        (
            "token of the provider without the user",
            WrongKey,
            of("provider-token", async |world, event, _| {
                let body = json!({ "amount": 100 });
                send(world, "POST", "/charges", Some(text(event, "order")), &body).await?;
                send(world, "PUT", &format!("/orders/{}", id(event)), None, &body).await?;
                done()
            })
            .provider(provider()),
        ),
        // With a fallback, of which each check says that it is one of the effects.
        (
            "second bank after any error of the first",
            EffectTwice,
            with_fallback("any", async |world, event| {
                let sent = send(world, "POST", "/first", Some(&id(event)), event).await;
                if sent.is_err() {
                    send(
                        world,
                        "POST",
                        "/second",
                        Some(&format!("second {}", id(event))),
                        event,
                    )
                    .await?;
                }
                done()
            }),
        ),
        // Keys.
        (
            "key without the user",
            WrongKey,
            within(
                "narrow",
                |it| it.key("order"),
                async |world, event, _| {
                    world.fake::<Bank>().charge(Some(&id(event)));
                    done()
                },
            ),
        ),
        (
            "key with the amount",
            WrongKey,
            within(
                "wide",
                |it| it.key("[user, order, amount]"),
                async |world, event, _| {
                    world.fake::<Bank>().charge(Some(&event.to_string()));
                    done()
                },
            ),
        ),
        (
            "amount that is not validated",
            WrongKey,
            within(
                "unvalidated",
                |it| it.validate("user"),
                async |world, event, _| {
                    world.fake::<Bank>().charge(Some(&id(event)));
                    done()
                },
            ),
        ),
    ]
}
