//! The cases: the events of each, and what both hosts answer.

use serde_json::Value;

pub(crate) enum Program {
    /// This program, as a function.
    This,
    /// The program of an example.
    Example(&'static str),
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Each event with its answer: the number of the first event that got this response, or the type of the error.
    pub(crate) events: Vec<(String, &'static str)>,
    /// The number of records after the last event, without pieces of long responses.
    pub(crate) records: usize,
}

/// Returns the name of an answer: the number of its response among those seen, or the type of an error.
pub(crate) fn named(answer: &str, seen: &mut Vec<Value>) -> String {
    // The emulator answers so. Lambda itself, and the local Lambda, send an error of this type.
    if answer.starts_with("Task timed out after") {
        return "Sandbox.Timedout".to_owned();
    }
    let Ok(mut response) = serde_json::from_str::<Value>(answer) else {
        return "no JSON".to_owned();
    };
    if let Some(error) = response.get("errorType").and_then(Value::as_str) {
        return error.to_owned();
    }
    let headers = response.get_mut("headers").and_then(Value::as_object_mut);
    let mark = headers.and_then(|headers| headers.remove("idempotent-replayed"));
    let number = seen.iter().position(|other| *other == response);
    let number = number.unwrap_or_else(|| {
        seen.push(response);
        seen.len() - 1
    });
    let replayed = if mark.is_some() { ", replayed" } else { "" };
    format!("response {}{replayed}", number + 1)
}

fn order(id: &str, amount: u32, what: &str) -> String {
    serde_json::json!({ "order_id": id, "amount": amount, "do": what }).to_string()
}

/// Returns a case of the function of this program: events for the order `a`, and what they get.
fn case(name: &'static str, records: usize, events: [(u32, &str, &'static str); 2]) -> Case {
    let events = events.map(|(amount, what, answer)| (order("a", amount, what), answer));
    Case {
        name,
        program: Program::This,
        variables: &[],
        events: events.to_vec(),
        records,
    }
}

/// Returns the case of an example: its event twice.
fn example(name: &'static str, event: &str, second: &'static str, records: usize) -> Case {
    Case {
        name,
        program: Program::Example(name),
        variables: &[],
        events: vec![(event.to_owned(), "response 1"), (event.to_owned(), second)],
        records,
    }
}

/// Returns every case.
pub(crate) fn all() -> Vec<Case> {
    let panicked = "&alloc::boxed::Box<dyn core::any::Any + core::marker::Send>";
    let refused = "IdempotencyConfiguration";
    vec![
        case(
            "a duplicate",
            1,
            [(1, "", "response 1"), (1, "", "response 1")],
        ),
        case(
            "another amount",
            1,
            [(1, "", "response 1"), (2, "", "IdempotencyPayloadMismatch")],
        ),
        case(
            "a kill at the timeout",
            1,
            [(1, "hang", "Sandbox.Timedout"), (1, "", "response 1")],
        ),
        // Its lease goes on to its deadline.
        case(
            "an exit in a run",
            1,
            [
                (1, "exit", "Runtime.ExitError"),
                (1, "", "IdempotencyAlreadyInProgress"),
            ],
        ),
        case(
            "a panic",
            1,
            [(1, "panic", panicked), (1, "", "response 1")],
        ),
        case("an error", 1, [(1, "fail", "Error"), (1, "", "response 1")]),
        case(
            "a response of 1 MB",
            1,
            [(1, "long", "response 1"), (1, "", "response 1")],
        ),
        case(
            "a response of 7 MB",
            1,
            [
                (1, "large", "Function.ResponseSizeTooLarge"),
                (1, "", "IdempotencyResponseUnavailable"),
            ],
        ),
        Case {
            variables: &[("IDEMPOTENCY_LEASE", "soon")],
            ..case(
                "a start that fails",
                0,
                [(1, "", refused), (1, "", refused)],
            )
        },
        Case {
            events: vec![
                ("{}".to_owned(), "IdempotencyInvalidPayload"),
                (order("a", 1, ""), "response 1"),
                (order("b", 1, ""), "response 2"),
            ],
            ..case("an event without a key", 2, [(1, "", ""); 2])
        },
        example(
            "payment",
            include_str!("../../../examples/events/payment.json"),
            "response 1, replayed",
            1,
        ),
        example(
            "http-api",
            include_str!("../../../examples/events/http.json"),
            "response 1, replayed",
            1,
        ),
        example(
            "orders",
            include_str!("../../../examples/events/orders.json"),
            "response 1",
            2,
        ),
        example(
            "ledger",
            include_str!("../../../examples/events/ledger.json"),
            "response 1",
            4,
        ),
        example(
            "shipping",
            include_str!("../../../examples/events/shipping.json"),
            "response 1",
            1,
        ),
    ]
}
