//! Each shape as real processes, with lost replies, throttling, kills and slow owners.

use std::process::Command;
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_testkit::lambda::{FunctionSpec, InvokeError, LocalLambda, Reply};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::function::{Card, Order, ROLE, SHAPES, Shape, fifo, kinesis};

struct Function {
    shape: Shape,
    database: EmbeddedDynamoDb,
    lambda: LocalLambda,
}

/// How a delivery ended, for the queue, the stream or the invoker.
#[derive(Debug, PartialEq, Eq)]
enum Delivery {
    /// The event is done.
    Done,
    /// It is delivered again: the function failed, or the record is in the partial batch response.
    Again,
}

use Delivery::{Again, Done};

impl Function {
    async fn start(shape: Shape) -> Result<Self, BoxError> {
        let database = EmbeddedDynamoDb::start().await?;
        database.create_table(TableSpec::new("idempotency")).await?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["the_function", "--exact", "--nocapture"]);
        let spec = FunctionSpec::new("charge", command)
            .env(ROLE, shape.name())
            .envs(database.environment())
            .env("IDEMPOTENCY_TABLE", "idempotency");
        let lambda = LocalLambda::start(spec).await?;
        Ok(Self {
            shape,
            database,
            lambda,
        })
    }

    fn event(&self, card: Card) -> String {
        self.shape.event(&order("o-1", card))
    }

    fn outcome(&self, reply: Result<Reply, InvokeError>) -> Delivery {
        match (self.shape, reply) {
            (Shape::Layer, Ok(_)) => Done,
            (Shape::Layer, Err(_)) => Again,
            (Shape::Http, Ok(reply)) => match status(&reply) {
                201 => Done,
                409 | 502 | 503 => Again,
                status => panic!("{status}: {}", reply.payload),
            },
            (_, Ok(reply)) => match failures(&reply) {
                failures if failures.is_empty() => Done,
                _ => Again,
            },
            (_, Err(error)) => panic!("the function failed: {error}"),
        }
    }

    async fn deliver(&self, card: Card) -> Delivery {
        self.outcome(self.lambda.invoke(self.event(card)).await)
    }

    /// Delivers until the event is done, as a queue does. The test cannot control the clock of a process.
    async fn deliver_until_done(&self) {
        while self.deliver(Card::Good).await == Again {}
    }

    /// Returns how often the handler ran for an order.
    fn effects(&self, order_id: &str) -> usize {
        let line = format!("effect {order_id}");
        let processes = self.lambda.processes();
        let logs = processes.iter().flat_map(|process| process.log());
        logs.filter(|logged| logged.text == line).count()
    }
}

fn order(order_id: &str, card: Card) -> Order {
    Order {
        order_id: order_id.to_owned(),
        card,
    }
}

/// Returns the identifiers in a partial batch response.
fn failures(reply: &Reply) -> Vec<String> {
    let response = reply.json().unwrap();
    let failures = response["batchItemFailures"].as_array().unwrap();
    let ids = failures.iter().map(|failure| &failure["itemIdentifier"]);
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

fn status(reply: &Reply) -> u64 {
    reply.json().unwrap()["statusCode"].as_u64().unwrap()
}

/// A card whose charge goes on until the listener's connection is dropped.
async fn slow() -> Result<(TcpListener, Card), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, Card::Slow(address)))
}

#[tokio::test]
async fn lost_replies_and_throttling_cause_no_second_effect() -> Result<(), BoxError> {
    for shape in SHAPES {
        for operation in ["PutItem", "UpdateItem"] {
            for fault in [
                Fault::on(operation).drop_reply(),
                Fault::on(operation).times(2).throttle(),
                Fault::on(operation).internal_error_although_applied(),
            ] {
                let function = Function::start(shape).await?;
                let name = format!("{shape:?}, {operation}, {fault:?}");
                let injected = function.database.inject(fault);
                assert_eq!(function.deliver(Card::Good).await, Done, "{name}");
                assert!(injected.applied_count() > 0, "{name}");
                assert_eq!(function.deliver(Card::Good).await, Done, "{name}");
                assert_eq!(function.effects("o-1"), 1, "{name}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_table_that_cannot_be_reached_returns_the_event_without_an_effect() -> Result<(), BoxError>
{
    for shape in SHAPES {
        let function = Function::start(shape).await?;
        let denied = function
            .database
            .inject(Fault::on("PutItem").always().access_denied());
        assert_eq!(function.deliver(Card::Good).await, Again, "{shape:?}");
        assert_eq!(function.effects("o-1"), 0, "{shape:?}");
        drop(denied);
    }
    Ok(())
}

#[tokio::test]
async fn a_failure_frees_the_key_and_the_next_delivery_runs() -> Result<(), BoxError> {
    for shape in SHAPES {
        let function = Function::start(shape).await?;
        assert_eq!(function.deliver(Card::Declined).await, Again, "{shape:?}");
        assert_eq!(function.deliver(Card::Good).await, Done, "{shape:?}");
        assert_eq!(function.deliver(Card::Declined).await, Done, "{shape:?}");
        assert_eq!(function.effects("o-1"), 2, "{shape:?}");
    }
    Ok(())
}

#[tokio::test]
async fn after_a_kill_in_the_handler_a_later_delivery_runs_again_once() -> Result<(), BoxError> {
    for shape in SHAPES {
        let function = Function::start(shape).await?;
        let (listener, card) = slow().await?;
        let killed = function.lambda.start_process().await?;
        let pending = killed
            .invoke(function.event(card))
            .deadline_in(Duration::from_secs(3))
            .start();
        let connection = listener.accept().await?;
        killed.kill().await;
        assert!(matches!(pending.await, Err(InvokeError::Exited { .. })));
        drop(connection);
        // While the lease of the killed run lasts, a record of a stream waits, and any other event is delivered again.
        let first = if shape.waits() { Done } else { Again };
        assert_eq!(function.deliver(Card::Good).await, first, "{shape:?}");
        function.deliver_until_done().await;
        assert_eq!(function.deliver(Card::Good).await, Done, "{shape:?}");
        assert_eq!(function.effects("o-1"), 2, "{shape:?}");
    }
    Ok(())
}

#[tokio::test]
async fn after_a_kill_behind_the_completion_a_later_delivery_replays() -> Result<(), BoxError> {
    for shape in SHAPES {
        let function = Function::start(shape).await?;
        let held = function
            .database
            .inject(Fault::on("UpdateItem").hold_reply());
        let killed = function.lambda.start_process().await?;
        let pending = killed.invoke(function.event(Card::Good)).start();
        held.reached().await;
        killed.kill().await;
        assert!(matches!(pending.await, Err(InvokeError::Exited { .. })));
        assert_eq!(function.deliver(Card::Good).await, Done, "{shape:?}");
        assert_eq!(function.effects("o-1"), 1, "{shape:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_duplicate_of_a_call_in_progress_is_delivered_again_and_then_replayed()
-> Result<(), BoxError> {
    for shape in SHAPES {
        let function = Function::start(shape).await?;
        let (listener, card) = slow().await?;
        let first = function.lambda.start_process().await?;
        let pending = first.invoke(function.event(card)).start();
        let connection = listener.accept().await?;
        let duplicate = function.lambda.invoke(function.event(Card::Good));
        // A record of a stream waits until little of this time is left.
        let reply = duplicate.deadline_in(Duration::from_secs(3)).await;
        assert_eq!(function.outcome(reply), Again, "{shape:?}");
        drop(connection);
        assert_eq!(function.outcome(pending.await), Done, "{shape:?}");
        assert_eq!(function.deliver(Card::Good).await, Done, "{shape:?}");
        assert_eq!(function.effects("o-1"), 1, "{shape:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_slow_owner_does_not_overwrite_the_call_that_took_over() -> Result<(), BoxError> {
    for shape in SHAPES {
        let function = Function::start(shape).await?;
        let (listener, card) = slow().await?;
        let late = function.lambda.start_process().await?;
        let pending = late
            .invoke(function.event(card))
            .deadline_in(Duration::from_secs(3))
            .enforce_deadline(false)
            .start();
        let connection = listener.accept().await?;
        function.deliver_until_done().await;
        let stored = function.database.items("idempotency").await?;
        drop(connection);
        // The late owner gets the response of the call that took over.
        assert_eq!(function.outcome(pending.await), Done, "{shape:?}");
        assert_eq!(
            function.database.items("idempotency").await?,
            stored,
            "{shape:?}"
        );
        assert_eq!(function.effects("o-1"), 2, "{shape:?}");
    }
    Ok(())
}

/// Delivers three orders of one group or shard, kills the process in the second, and delivers all again.
#[tokio::test]
async fn after_a_kill_in_the_middle_of_a_batch_only_what_was_not_done_runs() -> Result<(), BoxError>
{
    for shape in [Shape::Fifo, Shape::Kinesis] {
        let function = Function::start(shape).await?;
        let (listener, card) = slow().await?;
        let event = |card: Card| -> String {
            let orders = [
                order("o-1", Card::Good),
                order("o-2", card),
                order("o-3", Card::Good),
            ];
            match shape {
                Shape::Fifo => fifo(orders).into(),
                _ => kinesis(orders).into(),
            }
        };
        let killed = function.lambda.start_process().await?;
        let pending = killed
            .invoke(event(card))
            .deadline_in(Duration::from_secs(3))
            .start();
        let connection = listener.accept().await?;
        killed.kill().await;
        assert!(matches!(pending.await, Err(InvokeError::Exited { .. })));
        drop(connection);
        // While the lease of the second lasts, a record of a stream waits for it, and those after it wait too.
        // In a queue, it and what follows are returned, and nothing runs.
        if !shape.waits() {
            let ids = fifo(["o-1", "o-2", "o-3"].map(|id| order(id, Card::Good))).ids();
            let reply = function.lambda.invoke(event(Card::Good)).await?;
            assert_eq!(failures(&reply), ids[1..], "{shape:?}");
            assert_eq!(function.effects("o-3"), 0, "{shape:?}");
            loop {
                let reply = function.lambda.invoke(event(Card::Good)).await?;
                match failures(&reply) {
                    failures if failures.is_empty() => break,
                    failures => assert_eq!(failures, ids[1..], "{shape:?}"),
                }
            }
        }
        let reply = function.lambda.invoke(event(Card::Good)).await?;
        assert_eq!(failures(&reply), [""; 0], "{shape:?}");
        let effects = ["o-1", "o-2", "o-3"].map(|id| function.effects(id));
        assert_eq!(effects, [1, 2, 1], "{shape:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_record_without_its_key_or_with_another_body_does_not_stop_other_groups()
-> Result<(), BoxError> {
    use idempotency_testkit::events::{self, AwsRecord};
    let function = Function::start(Shape::Fifo).await?;
    let good = |id: &str, group: &str| AwsRecord::json(&order(id, Card::Good)).group(group);
    let batch = events::sqs("orders.fifo")
        .record(AwsRecord::text("no order").group("a"))
        .record(good("o-1", "a"))
        .record(AwsRecord::json(&json!({ "card": "Good" })).group("b"))
        .record(good("o-2", "c"))
        .record(AwsRecord::json(&order("o-3", Card::Declined)).group("c"))
        .record(good("o-4", "c"))
        .record(good("o-2", "d"));
    let ids = batch.ids();
    let reply = function.lambda.invoke(batch).await?;
    assert_eq!(
        failures(&reply),
        [0, 1, 2, 4, 5].map(|index: usize| ids[index].clone())
    );
    let effects = ["o-1", "o-2", "o-3", "o-4"].map(|id| function.effects(id));
    assert_eq!(effects, [0, 1, 1, 0]);
    let response: Value = reply.json()?;
    assert_eq!(response.as_object().unwrap().len(), 1, "{response}");
    Ok(())
}
