//! Each shape as real processes: a matrix of shapes and faults, and what needs several events at a time.

use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault};
use idempotency_testkit::lambda::{InvokeError, LocalLambda, Reply};
use idempotency_tests::process::{end_leases, start};
use tokio::net::TcpListener;

use super::function::{Card, Order, SHAPES, Shape};

struct Function {
    shape: Shape,
    database: EmbeddedDynamoDb,
    lambda: LocalLambda,
}

/// How a delivery ended, for the queue, the stream or the invoker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// The event is done.
    Done,
    /// It is delivered again: the function failed, or the record is in the partial batch response.
    Again,
}

use Delivery::{Again, Done};

impl Function {
    async fn start(shape: Shape) -> Result<Self, BoxError> {
        let (database, lambda) = start(shape.role()).await?;
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
            (Shape::Attribute | Shape::Layer, Ok(_)) => Done,
            (Shape::Attribute | Shape::Layer, Err(error)) => match error.error_type.as_str() {
                "IdempotencyAlreadyInProgress" | "IdempotencyStoreFailed" => Again,
                "CardDeclined" | "Error" => Again,
                _ => panic!("{error}"),
            },
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
        self.deliver_order("o-1", card).await
    }

    async fn deliver_order(&self, order_id: &str, card: Card) -> Delivery {
        let event = self.shape.event(&order(order_id, card));
        self.outcome(self.lambda.invoke(event).await)
    }

    /// Returns how many records have a stored response.
    async fn completed(&self) -> Result<usize, BoxError> {
        let items = self.database.items("idempotency").await?;
        let completed = items.iter().filter(|item| item.contains_key("data"));
        Ok(completed.count())
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

/// Returns a listener, and a card whose charge goes on until the listener's connection is dropped.
async fn slow() -> Result<(TcpListener, Card), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, Card::Slow(address)))
}

/// What happens to the first delivery of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Ends(Delivery),
    /// The card is declined, and the order delivered again.
    IsDeclined,
    /// The process is killed in the handler.
    DiesInTheHandler,
    /// The process is killed while the table holds its request.
    DiesAtTheRequest,
}

use First::{DiesAtTheRequest, DiesInTheHandler, Ends, IsDeclined};

/// A fault, the end of the first delivery, and how often the handler has run: in the first delivery, and in all of them.
type Row = (Option<Fault>, First, [usize; 2]);

fn rows() -> Vec<Row> {
    let (claim, completion) = (|| Fault::on("PutItem"), || Fault::on("UpdateItem"));
    let lost = [claim().drop_reply(), completion().drop_reply()];
    let throttled = [claim(), completion()].map(|fault| fault.times(2).throttle());
    let applied = [claim(), completion()].map(|fault| fault.internal_error_although_applied());
    let passed = [lost, throttled, applied].into_iter().flatten();
    let passed = passed.map(|fault| (Some(fault), Ends(Done), [1, 1]));
    let others = [
        (
            Some(claim().always().respond_with(400, "AccessDeniedException")),
            Ends(Again),
            [0, 1],
        ),
        (None, IsDeclined, [1, 2]),
        (None, DiesInTheHandler, [1, 2]),
        // What the table holds is applied after the process was killed.
        (Some(claim().hold()), DiesAtTheRequest, [0, 1]),
        (Some(completion().hold()), DiesAtTheRequest, [1, 1]),
        (Some(completion().hold_reply()), DiesAtTheRequest, [1, 1]),
    ];
    passed.chain(others).collect()
}

/// Delivers one order for each row until it is done, and then once more.
async fn every_fault(shape: Shape) -> Result<(), BoxError> {
    let function = Function::start(shape).await?;
    for (number, (fault, first, effects)) in rows().into_iter().enumerate() {
        let name = format!("{shape:?}, {fault:?}, {first:?}");
        let fault = fault.map(|fault| function.database.inject(fault));
        let id = &*format!("order-{number}");
        let deliver = |card| function.deliver_order(id, card);
        match first {
            Ends(expected) => assert_eq!(deliver(Card::Good).await, expected, "{name}"),
            IsDeclined => assert_eq!(deliver(Card::Declined).await, Again, "{name}"),
            DiesInTheHandler | DiesAtTheRequest => {
                let (listener, slow) = slow().await?;
                let card = if fault.is_some() { Card::Good } else { slow };
                let killed = function.lambda.start_process().await?;
                let pending = killed
                    .invoke(shape.event(&order(id, card)))
                    .deadline_in(Duration::from_secs(3))
                    .start();
                let _charging = match &fault {
                    None => Some(listener.accept().await?),
                    Some(held) => {
                        held.reached().await;
                        None
                    }
                };
                killed.kill().await;
                assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
                if let Some(held) = &fault {
                    held.release().await;
                }
            }
        }
        if let Some(fault) = fault {
            assert!(fault.applied_count() > 0, "{name}");
        }
        assert_eq!(function.effects(id), effects[0], "{name}");
        function.database.clear_faults();
        if first == DiesInTheHandler {
            // While the lease of the killed run lasts, a record of a stream waits, and any other event is delivered again.
            let expected = if shape.waits() { Done } else { Again };
            assert_eq!(deliver(Card::Good).await, expected, "{name}");
        }
        end_leases(&function.database).await?;
        assert_eq!(deliver(Card::Good).await, Done, "{name}");
        assert_eq!(deliver(Card::Declined).await, Done, "{name}: a replay");
        assert_eq!(function.effects(id), effects[1], "{name}");
    }
    Ok(())
}

/// Each shape is a test of its own, so that the processes run side by side.
macro_rules! every_fault_of {
    ($($test:ident: $shape:ident;)+) => {
        $(
            #[tokio::test]
            async fn $test() -> Result<(), BoxError> {
                every_fault(Shape::$shape).await
            }
        )+
    };
}

every_fault_of! {
    an_annotated_function_has_one_effect_under_each_fault: Attribute;
    a_function_in_the_layer_has_one_effect_under_each_fault: Layer;
    a_router_has_one_effect_under_each_fault: Http;
    a_function_of_a_queue_has_one_effect_under_each_fault: Queue;
    a_function_of_a_fifo_queue_has_one_effect_under_each_fault: Fifo;
    a_function_of_a_stream_has_one_effect_under_each_fault: Kinesis;
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
        let pending = late.invoke(function.event(card));
        let pending = pending.deadline_in(Duration::from_secs(3));
        let pending = pending.enforce_deadline(false).start();
        let connection = listener.accept().await?;
        end_leases(&function.database).await?;
        assert_eq!(function.deliver(Card::Good).await, Done, "{shape:?}");
        let stored = function.database.items("idempotency").await?;
        drop(connection);
        // The late owner gets the response of the call that took over.
        assert_eq!(function.outcome(pending.await), Done, "{shape:?}");
        let left = function.database.items("idempotency").await?;
        assert_eq!(left, stored, "{shape:?}");
        assert_eq!(function.effects("o-1"), 2, "{shape:?}");
    }
    Ok(())
}

/// Delivers three orders of one queue, group or shard, ends the process in the second, and delivers all again.
#[tokio::test]
async fn after_a_process_ends_in_the_middle_of_a_batch_only_what_was_not_done_runs()
-> Result<(), BoxError> {
    for (shape, is_killed) in [
        (Shape::Queue, true),
        (Shape::Queue, false),
        (Shape::Fifo, true),
        (Shape::Kinesis, true),
    ] {
        let function = Function::start(shape).await?;
        let (listener, card) = slow().await?;
        let event = |card: Card| {
            let [first, last] = ["o-1", "o-3"].map(|id| order(id, Card::Good));
            shape.batch([first, order("o-2", card), last])
        };
        let first = function.lambda.start_process().await?;
        let pending = first.invoke(event(card).to_string());
        let pending = pending.deadline_in(Duration::from_secs(3)).start();
        let _charging = listener.accept().await?;
        if is_killed {
            // A standard queue runs all three at a time: the first and the last are completed before the kill.
            while shape == Shape::Queue && function.completed().await? < 2 {
                tokio::task::yield_now().await;
            }
            first.kill().await;
        }
        let ends = ["Sandbox.Timedout", "Runtime.ExitError"];
        let error = pending.await.unwrap_err();
        assert_eq!(error.error_type, ends[usize::from(is_killed)]);
        let again = async || {
            let reply = function.lambda.invoke(event(Card::Good)).await?;
            Ok::<_, BoxError>(failures(&reply))
        };
        // While the lease of the second lasts, a record of a stream waits for it, and those after it wait too.
        // In a queue, it and what follows in its group are returned, and nothing runs.
        if is_killed && !shape.waits() {
            let ids = event(Card::Good).ids();
            let last = if shape == Shape::Queue { 2 } else { 3 };
            assert_eq!(again().await?, ids[1..last], "{shape:?}");
            assert_eq!(function.effects("o-3"), 3 - last, "{shape:?}");
            end_leases(&function.database).await?;
        }
        assert_eq!(again().await?, [""; 0], "{shape:?}");
        let effects = ["o-1", "o-2", "o-3"].map(|id| function.effects(id));
        assert_eq!(effects, [1, 2, 1], "{shape:?}");
    }
    Ok(())
}
