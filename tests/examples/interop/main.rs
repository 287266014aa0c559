//! A function in Rust and one in Python on one table. `tests/scripts/python-interop.sh` starts it.
//!
//! This program starts a DynamoDB, runs the Rust function itself, and starts a Python process for the other one
//! (`tests/interop/handler.py`). It controls both handlers, so that no case waits for time to pass.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod cases;
mod python;
mod rust;
mod settings;
mod steps;
mod takeover;

use idempotency_lambda::OperationBuilder;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_tests::End;
use python::Python;
use rust::Rust;
use serde_json::{Value, json};

/// The database and the Python process that all cases share.
pub(crate) struct Harness {
    pub(crate) database: EmbeddedDynamoDb,
    pub(crate) python: Python,
    orders: usize,
}

impl Harness {
    async fn start() -> Self {
        let database = EmbeddedDynamoDb::start().await.unwrap();
        let composite = TableSpec::new("composite").partition_key("pk");
        for table in [
            TableSpec::new("idempotency"),
            composite.with_sort_key("sk"),
            TableSpec::new("renamed").partition_key("key").ttl("ttl"),
        ] {
            database.create_table(table).await.unwrap();
        }
        Self {
            python: Python::start(&database),
            database,
            orders: 0,
        }
    }

    /// Returns the Rust function on the table `idempotency`.
    pub(crate) fn rust(&self, operation: OperationBuilder) -> Rust {
        Rust::start(&self.database, operation)
    }

    /// Returns a new order.
    pub(crate) fn order(&mut self) -> Value {
        self.orders += 1;
        json!({ "user_id": "u-1", "order_id": format!("o-{}", self.orders), "amount": 42 })
    }
}

/// Returns the end of a Rust call whose handler failed.
pub(crate) fn declined() -> End<Value> {
    End::Failed("declined".to_owned())
}

macro_rules! play {
    ($harness:ident: $($title:literal => $case:path,)+) => {
        $(
            println!("{}", $title);
            $case(&mut $harness).await;
        )+
    };
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut harness = Harness::start().await;
    play! { harness:
        "Python first, then Rust: the same response" => cases::python_first,
        "Rust first, then Python: the same response" => cases::rust_first,
        "an annotated handler shares its key too" => cases::annotated,
        "both claim at once: one runs, first Rust, then Python" => cases::both_at_once,
        "both call at once, in any order: one runs" => cases::race,
        "a changed amount is refused by both" => cases::changed_amount,
        "a changed amount is refused by both, also while the first call runs" => cases::changed_amount_in_progress,
        "in progress in Python: Rust refuses" => cases::in_progress_in_python,
        "in progress in Python: Rust waits for the response" => cases::rust_waits_for_python,
        "in progress in Rust: Python refuses" => cases::in_progress_in_rust,
        "a Python claim without a deadline: in progress until its window ends" => cases::python_without_a_deadline,
        "killed in Python: Rust takes over" => takeover::rust_takes_over_from_python,
        "killed in Rust: Python takes over" => takeover::python_takes_over_from_rust,
        "held by Rust: Python takes over, as documented" => takeover::python_takes_over_what_rust_holds,
        "a late Rust run gets Python's response" => takeover::a_late_rust_run_changes_nothing,
        "a late Python run overwrites or deletes Rust's response, as documented" => takeover::a_late_python_run_overwrites,
        "failed in Rust and recorded: Python runs" => takeover::python_takes_over_a_failure_of_rust,
        "failed in one: the other runs" => takeover::each_runs_after_a_failure_of_the_other,
        "steps in Rust: Python ignores them, and its claim deletes them" => steps::python_takes_over_steps,
        "steps of a failed Rust run: Python runs from the beginning" => steps::python_after_kept_steps,
        "killed in Python: Rust with steps takes over" => steps::rust_with_steps_takes_over,
        "composite keys" => settings::composite_keys,
        "names of attributes" => settings::renamed_attributes,
        "another digest" => settings::another_digest,
        "falsy responses: Rust replays them, Python replays None" => settings::falsy_responses,
        "a response too large for Rust to store: Python replays None" => settings::large_response,
        "a compressed or split response: Rust replays it, Python fails" => settings::large_forms,
        "a Python response that is not JSON: Rust reports a corrupt record" => settings::not_json,
    }
}
