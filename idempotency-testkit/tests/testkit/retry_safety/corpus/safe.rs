//! Safe functions that look like those with a bug.

use super::*;

/// Returns each function with its name.
pub(super) fn safe() -> Vec<(&'static str, RetrySafety<Value>)> {
    vec![
        (
            "second bank after a refusal of the first",
            with_fallback("refusal", async |world, event| {
                let sent = send(world, "POST", "/first", Some(&id(event)), event).await;
                match sent {
                    Err(error) if error.to_string().contains("503") => {
                        send(
                            world,
                            "POST",
                            "/second",
                            Some(&format!("second {}", id(event))),
                            event,
                        )
                        .await?;
                    }
                    other => drop(other?),
                }
                done()
            }),
        ),
        (
            "mail that waits in an outbox",
            of("safe-outbox", async |world, event, _| {
                let sent = send(world, "POST", "/mails", Some(&id(event)), event).await;
                match sent {
                    Err(error) if error.to_string().contains("503") => {
                        let put = world.dynamodb().put_item().table_name("outbox");
                        put.item("id", S(id(event))).send().await?;
                    }
                    other => drop(other?),
                }
                done()
            })
            .provider(provider())
            .table(TableSpec::new("outbox"))
            .one_of(["POST /mails", "outbox"]),
        ),
        (
            "lock of the account that ends by itself",
            of("safe-lock", async |world, event, _| {
                let now = world.now().get() / 1_000;
                let lock = world.dynamodb().put_item().table_name("locks");
                let lock = lock
                    .item("id", S("a-1".into()))
                    .item("holder", S(id(event)))
                    .item("until", N((now + 40).to_string()));
                let lock = lock
                    .condition_expression("attribute_not_exists(id) OR #u < :now OR holder = :me");
                let lock = lock.expression_attribute_names("#u", "until");
                let lock = lock
                    .expression_attribute_values(":now", N(now.to_string()))
                    .expression_attribute_values(":me", S(id(event)));
                lock.send().await?;
                world.fake::<Bank>().charge(Some(&id(event)));
                let free = world.dynamodb().delete_item().table_name("locks");
                free.key("id", S("a-1".into())).send().await?;
                done()
            })
            .table(TableSpec::new("locks")),
        ),
        (
            "card that is declined",
            of("safe-declined", async |world, event, _| {
                put(world, &id(event), "status", S("declined".into())).await?;
                Err("the card was declined".into())
            })
            .fails(),
        ),
        (
            "requests that the provider recognises",
            of("safe-provider", async |world, event, _| {
                let body = json!({ "amount": 100 });
                send(world, "POST", "/charges", Some(&id(event)), &body).await?;
                send(world, "PUT", &format!("/orders/{}", id(event)), None, &body).await?;
                done()
            })
            .provider(provider()),
        ),
        (
            "token with the user",
            of("safe-token", async |world, event, _| {
                let charge = world.fake::<Bank>().charge(Some(&id(event)));
                put(world, &id(event), "status", S("paid".into())).await?;
                Ok(json!({ "charge": charge, "user": text(event, "user") }))
            }),
        ),
        (
            "orders that the account knows",
            of("safe-orders", async |world, event, _| {
                let (set, condition) = ("orders.#o = :order", "attribute_not_exists(orders.#o)");
                let update = world
                    .dynamodb()
                    .update_item()
                    .table_name("accounts")
                    .key("id", S("a-1".into()));
                let orders = update
                    .clone()
                    .update_expression("SET orders = if_not_exists(orders, :none)");
                orders
                    .expression_attribute_values(":none", AttributeValue::M(Default::default()))
                    .send()
                    .await?;
                let update = update
                    .update_expression(format!("SET balance = balance - :a, {set}"))
                    .condition_expression(condition);
                let update = update
                    .expression_attribute_names("#o", id(event))
                    .expression_attribute_values(":order", S(id(event)));
                let update = update.expression_attribute_values(":a", N("100".into()));
                match update.send().await.map_err(aws_sdk_dynamodb::Error::from) {
                    Ok(_) | Err(aws_sdk_dynamodb::Error::ConditionalCheckFailedException(_)) => {
                        done()
                    }
                    Err(error) => Err(error.into()),
                }
            }),
        ),
        (
            "versioned balance",
            of("safe-version", async |world, event, _| {
                loop {
                    // Read first: if it is the same at the write, nothing was changed since.
                    let version = number(world, "version").await?;
                    let balance = number(world, "balance").await?;
                    let known = attribute(world, "a-1", "orders").await?;
                    let mut orders = known
                        .and_then(|known| known.as_ss().ok().cloned())
                        .unwrap_or_default();
                    if orders.contains(&id(event)) {
                        return done();
                    }
                    orders.push(id(event));
                    let put = world.dynamodb().put_item().table_name("accounts");
                    let put = put
                        .item("id", S("a-1".into()))
                        .item("orders", AttributeValue::Ss(orders));
                    let put = put
                        .item("balance", N((balance - 100).to_string()))
                        .item("version", N((version + 1).to_string()));
                    let put =
                        put.condition_expression("attribute_not_exists(version) OR version = :v");
                    let put = put.expression_attribute_values(":v", N(version.to_string()));
                    match put.send().await.map_err(aws_sdk_dynamodb::Error::from) {
                        Ok(_) => return done(),
                        Err(aws_sdk_dynamodb::Error::ConditionalCheckFailedException(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }),
        ),
        (
            "staged percentage of the balance",
            of("safe-percent", async |world, _, call| {
                let balance = number(world, "balance").await?;
                let rest = Update::builder()
                    .table_name("accounts")
                    .key("id", S("a-1".into()));
                let rest = rest
                    .update_expression("SET balance = :new")
                    .condition_expression("balance = :old");
                let rest = rest.expression_attribute_values(":old", N(balance.to_string()));
                let rest =
                    rest.expression_attribute_values(":new", N((balance * 9 / 10).to_string()));
                call.transaction().update(rest.build()?)?;
                done()
            }),
        ),
        (
            "customer that both orders share",
            of("safe-customer", async |world, event, _| {
                create(world, "customer", "shop").await?;
                world.fake::<Bank>().charge(Some(&id(event)));
                put(world, &id(event), "customer", S("customer".into())).await?;
                done()
            }),
        ),
        (
            "step with its token",
            within(
                "safe-step",
                |it| it.steps(Steps::Keep),
                async |world, event, call| {
                    let charge = call.named_step("charge");
                    let token = charge.token();
                    charge
                        .run(|| async {
                            Ok::<_, BoxError>(world.fake::<Bank>().charge(Some(token.as_str())))
                        })
                        .await?;
                    put(world, &id(event), "status", S("paid".into())).await?;
                    done()
                },
            ),
        ),
        (
            "report of the day",
            of("safe-report", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                put(
                    world,
                    &format!("report {}", id(event)),
                    "day",
                    N(day(world).to_string()),
                )
                .await?;
                done()
            }),
        ),
        (
            "mark that is kept longer than the retries",
            within("safe-mark", long, async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                put(
                    world,
                    &id(event),
                    "until",
                    N((world.now().get() / 1_000 + 200_000).to_string()),
                )
                .await?;
                done()
            })
            .retried_for(A_DAY),
        ),
        (
            "two writes that a rerun repeats",
            of("safe-puts", async |world, event, _| {
                put(world, &id(event), "status", S("open".into())).await?;
                put(world, &id(event), "status", S("paid".into())).await?;
                done()
            }),
        ),
        (
            "last order that nothing decides by",
            of("safe-last", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                set(world, "last_order", S(id(event))).await?;
                done()
            }),
        ),
        (
            "amount that both set",
            of("safe-set", async |world, event, _| {
                world.fake::<Bank>().charge(Some(&id(event)));
                set(world, "last_amount", N(event["amount"].to_string())).await?;
                done()
            }),
        ),
    ]
}
