//! Metrics for CloudWatch, as processes write them.
//!
//! A line in the embedded metric format, checked against AWS's schema and the rules that the schema does not have.

mod function;

use std::sync::LazyLock;
use std::time::Duration;

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use futures_util::future::join_all;
use idempotency_lambda::{BoxError, InvocationLayer};
use idempotency_testkit::events;
use idempotency_testkit::lambda::{FunctionProcess, LocalLambda};
use idempotency_tests::process;
use serde_json::{Value, json};
use tower::ServiceBuilder;

const NAMESPACE: &str = "Tests/Shop";

pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    match role {
        "a wrong namespace" => idempotency_lambda::metrics::to_cloudwatch("Geschäft")?,
        "a wrong operation" => {
            idempotency_lambda::Operation::builder("shop::refund")
                .key("[id")
                .build()?;
        }
        "off" => {}
        _ => idempotency_lambda::metrics::to_cloudwatch(NAMESPACE)?,
    }
    match role {
        "plain" => lambda_runtime::run(lambda_runtime::service_fn(function::outer)).await,
        "batch" => {
            tracing_subscriber::fmt().with_ansi(false).init();
            lambda_runtime::run(lambda_runtime::service_fn(function::message)).await
        }
        "batch under run" => idempotency_lambda::run(function::message).await,
        "timeout" => {
            let service = ServiceBuilder::new()
                .timeout(Duration::from_millis(100))
                .layer(InvocationLayer::new())
                .service(lambda_runtime::service_fn(function::outer));
            lambda_runtime::run(service).await
        }
        "concurrent" => {
            idempotency_lambda::init().await?;
            lambda_runtime::run_concurrent(idempotency_lambda::service(function::outer)).await
        }
        _ => idempotency_lambda::run(function::outer).await,
    }
}

async fn start(role: &str) -> Result<(LocalLambda, FunctionProcess), BoxError> {
    let function = process::function(format!("metrics/{role}"))?
        .concurrency(function::TOGETHER)
        .env("IDEMPOTENCY_STORE", "memory");
    let lambda = LocalLambda::start(function).await?;
    let process = lambda.start_process().await?;
    Ok((lambda, process))
}

/// Returns the metrics that the process has written. Each is a whole line. Those of an invocation are there when it has ended.
fn lines(process: &FunctionProcess) -> Vec<Line> {
    let log = process.log().into_iter();
    log.filter(|line| line.text.contains("_aws"))
        .map(|line| {
            assert!(!line.text.contains("s3cr3t"), "{}", line.text);
            Line::read(&line.text)
        })
        .collect()
}

/// Returns the event of a job: what its handler does, and how often it calls the inner function.
fn job(id: usize, does: &str, inner: usize) -> String {
    json!({ "id": id, "do": does, "inner": inner }).to_string()
}

/// Returns the only one of these lines.
fn only(lines: Vec<Line>) -> Line {
    let [line] = &lines[..] else {
        panic!("{lines:#?}");
    };
    line.clone()
}

/// Sends one event and returns the metrics of its invocation.
async fn invoked(
    process: &FunctionProcess,
    request_id: &str,
    event: impl std::fmt::Display,
) -> Vec<Line> {
    // The test is about the metrics of the end, also of an error.
    let _ended = process.invoke(event).request_id(request_id).await;
    let lines = lines(process).into_iter();
    lines
        .filter(|line| line.request_id() == Some(request_id))
        .collect()
}

#[tokio::test]
async fn an_invocation_writes_one_line_for_each_operation() -> Result<(), BoxError> {
    let (_lambda, process) = start("run").await?;
    let lines = invoked(&process, "r-1", job(1, "work", 3)).await;
    let [inner, outer] = &lines[..] else {
        panic!("{lines:#?}");
    };
    assert_eq!(inner.operation(), "inner");
    assert_eq!(inner.counts(), [("Executed", 3)]);
    assert_eq!(inner.latencies(), (3, 3));
    assert_eq!(outer.operation(), "functions.metrics.function.outer");
    assert_eq!(outer.counts(), [("Executed", 1)]);
    let directive = &outer.0["_aws"]["CloudWatchMetrics"][0];
    assert_eq!(directive["Namespace"], NAMESPACE);
    assert_eq!(outer.0["Function"], "metrics");
    Ok(())
}

#[tokio::test]
async fn every_end_of_a_call_counts_once_and_its_details_too() -> Result<(), BoxError> {
    let (_lambda, process) = start("run").await?;
    let [one, other] = [r#"{"id":1,"note":"a"}"#, r#"{"id":1,"note":"b"}"#];
    let replayed = &[("Replayed", 1), ("ReplayedFromStore", 1)];
    let mismatch = &[("PayloadMismatch", 1), ("Refused", 1)];
    let no_key = &[("KeyMissing", 1), ("Refused", 1)];
    for (n, (event, counts, latencies)) in [
        (one, &[("Executed", 1)][..], (1, 1)),
        (one, replayed, (1, 0)),
        (other, mismatch, (1, 0)),
        (r#"{"note":"no id"}"#, no_key, (0, 0)),
        (r#"{"id":2,"do":"fail"}"#, &[("Failed", 1)], (1, 1)),
        (r#"{"id":3,"do":"panic"}"#, &[("Failed", 1)], (1, 1)),
    ]
    .into_iter()
    .enumerate()
    {
        let line = only(invoked(&process, &format!("end-{n}-"), event).await);
        assert_eq!(line.counts(), counts, "{event}");
        assert_eq!(line.latencies(), latencies, "{event}");
    }
    let lines = invoked(&process, "abandon-", job(4, "abandon", 0)).await;
    assert_eq!(lines[0].counts(), [("Abandoned", 1)], "{lines:#?}");
    Ok(())
}

#[tokio::test]
async fn invocations_at_a_time_in_one_process_have_their_own_lines() -> Result<(), BoxError> {
    let (_lambda, process) = start("concurrent").await?;
    let replies = (0..function::TOGETHER).map(|id| {
        let invocation = process.invoke(job(id, "meet", 2));
        invocation.request_id(format!("r-{id}-")).start()
    });
    for reply in join_all(replies).await {
        reply?;
    }
    let lines = lines(&process);
    assert_eq!(lines.len(), 2 * function::TOGETHER);
    for id in 0..function::TOGETHER {
        let id = format!("r-{id}-");
        let own = lines.iter().filter(|line| line.request_id() == Some(&id));
        let own: Vec<_> = own.map(|line| (line.operation(), line.counts())).collect();
        let expected = [
            ("inner", vec![("Executed", 2)]),
            ("functions.metrics.function.outer", vec![("Executed", 1)]),
        ];
        assert_eq!(own, expected, "{id}");
    }
    Ok(())
}

#[tokio::test]
async fn a_task_that_outlives_its_invocation_writes_its_own_line_with_the_request_id()
-> Result<(), BoxError> {
    let (_lambda, process) = start("run").await?;
    only(invoked(&process, "first", job(1, "leave a task", 0)).await);
    only(invoked(&process, "second", job(2, "wait for the task", 0)).await);
    let lines = lines(&process).into_iter();
    let of_the_task = only(lines.filter(|line| line.operation() == "inner").collect());
    assert_eq!(of_the_task.request_id(), Some("first"));
    Ok(())
}

#[tokio::test]
async fn unprotected_runs_and_the_circuit_have_metrics() -> Result<(), BoxError> {
    let (_lambda, process) = start("run").await?;
    let lines = invoked(&process, "r-1", job(1, "call a throttled store", 0)).await;
    let lines = lines.into_iter();
    let line = only(
        lines
            .filter(|line| line.operation() == "throttled")
            .collect(),
    );
    let count = |name| {
        let counts = line.counts();
        let found = counts.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, n)| *n)
    };
    assert_eq!(count("Unprotected"), function::THROTTLED, "{line:?}");
    // Five failures open it. Most of the other calls come within the first second.
    assert!(count("CircuitOpened") >= 1, "{line:?}");
    assert!(count("CircuitOpen") >= 1, "{line:?}");
    assert_eq!(count("StoreFailed") + count("CircuitClosed"), 0, "{line:?}");
    Ok(())
}

#[tokio::test]
async fn a_call_without_a_scope_around_it_writes_its_own_line() -> Result<(), BoxError> {
    let (_lambda, process) = start("plain").await?;
    process.invoke(job(1, "work", 0)).await?;
    let line = only(lines(&process));
    assert_eq!(
        (line.request_id(), line.counts()),
        (None, vec![("Executed", 1)])
    );
    Ok(())
}

#[tokio::test]
async fn a_batch_writes_one_line_whether_or_not_the_function_starts_with_run()
-> Result<(), BoxError> {
    let event = events::sqs("numbers")
        .json(&1)
        .json(&2)
        .records([events::AwsRecord::new("s3cr3t")]);
    for role in ["batch", "batch under run"] {
        let (_lambda, process) = start(role).await?;
        let line = only(invoked(&process, "r-1", &event).await);
        let counts = [("Executed", 2), ("Refused", 1), ("Undecodable", 1)];
        assert_eq!(line.counts(), counts, "{role}");
        assert_eq!(line.latencies().1, 2, "{role}");
    }
    Ok(())
}

#[tokio::test]
async fn records_that_a_batch_returns_without_a_run_are_counted_with_a_warning()
-> Result<(), BoxError> {
    let (_lambda, process) = start("batch").await?;
    let event = events::sqs("numbers").json(&1).json(&2);
    let invocation = process.invoke(event).deadline(1_700_000_000_000);
    invocation.enforce_deadline(false).await?;
    assert_eq!(only(lines(&process)).counts(), [("Unprocessed", 2)]);
    let warning = "no record can start: the time that is left is not longer than the reserve";
    process.wait_for_line(warning).await?;
    Ok(())
}

#[tokio::test]
async fn an_invocation_whose_future_is_dropped_by_a_timeout_has_its_metrics() -> Result<(), BoxError>
{
    let (_lambda, process) = start("timeout").await?;
    let line = only(invoked(&process, "r-1", job(1, "hang", 0)).await);
    assert_eq!(line.counts(), [("Abandoned", 1)]);
    assert_eq!(line.request_id(), Some("r-1"));
    Ok(())
}

#[tokio::test]
async fn an_error_of_main_reaches_lambda_under_its_own_name() -> Result<(), BoxError> {
    let namespace = "the namespace of the metrics is `Geschäft`";
    for (role, text) in [
        ("a wrong namespace", namespace),
        ("a wrong operation", "shop::refund"),
    ] {
        let (_lambda, process) = start(role).await?;
        let error = process.ready().await.unwrap_err();
        assert_eq!(error.error_type, "IdempotencyConfiguration", "{role}");
        assert!(error.to_string().contains(text), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn an_error_after_the_first_event_is_that_of_its_invocation_and_the_process_goes_on()
-> Result<(), BoxError> {
    let (_lambda, process) = start("run").await?;
    let event = job(1, "build a wrong operation", 0);
    let error = process.invoke(event).await.unwrap_err();
    assert!(error.to_string().contains("shop::refund"), "{error}");
    assert_eq!(process.invoke(job(2, "work", 0)).await?.json()?, 2);
    Ok(())
}

#[tokio::test]
async fn metrics_that_are_not_switched_on_write_nothing() -> Result<(), BoxError> {
    let (_lambda, process) = start("off").await?;
    assert_eq!(process.invoke(job(1, "work", 0)).await?.json()?, 1);
    assert_eq!(lines(&process).len(), 0);
    Ok(())
}

/// The schema. Its `$id`s are those of draft 6 and before, and it names no draft.
static SCHEMA: LazyLock<(Schemas, SchemaIndex)> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("emf-schema.json")).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.set_default_draft(Draft::V4);
    compiler.add_resource("emf.json", schema).unwrap();
    let index = compiler.compile("emf.json", &mut schemas).unwrap();
    (schemas, index)
});

/// A line that is valid.
#[derive(Clone, Debug)]
struct Line(Value);

impl Line {
    /// Reads a line.
    ///
    /// # Panics
    ///
    /// If it is not one whole JSON document, or not in the format.
    fn read(text: &str) -> Self {
        let line =
            Self(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")));
        if let Err(fault) = check(&line.0) {
            panic!("{fault}: {text}");
        }
        assert!(text.len() < 256 * 1024, "a log event has at most 256 KB");
        line
    }

    fn operation(&self) -> &str {
        self.0["Operation"].as_str().unwrap()
    }

    fn request_id(&self) -> Option<&str> {
        self.0["RequestId"].as_str()
    }

    /// Returns the counts, in the order of their names.
    fn counts(&self) -> Vec<(&str, u64)> {
        let metrics = self.0.as_object().unwrap().iter();
        metrics
            .filter_map(|(name, value)| Some((name.as_str(), value.as_u64()?)))
            .collect()
    }

    /// Returns the number of values of each latency: of the store and of the handler.
    fn latencies(&self) -> (usize, usize) {
        let values = |latency: &str| self.0[latency].as_array().map_or(0, Vec::len);
        (values("StoreLatency"), values("HandlerLatency"))
    }
}

/// Checks a document against the schema, and against the text of the specification: each reference has a target of the right
/// type, at most 100 metrics and 100 values.
fn check(document: &Value) -> Result<(), String> {
    let (schemas, schema) = &*SCHEMA;
    schemas
        .validate(document, *schema)
        .map_err(|error| error.to_string())?;
    for directive in document["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
        for set in directive["Dimensions"].as_array().unwrap() {
            for name in set.as_array().unwrap() {
                let value = &document[name.as_str().unwrap()];
                let value = value.as_str().unwrap_or_default();
                if value.trim().is_empty() || value.len() > 1024 || !value.is_ascii() {
                    return Err(format!("the dimension {name} is `{value}`"));
                }
            }
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        if metrics.is_empty() || metrics.len() > 100 {
            return Err(format!("{} metrics", metrics.len()));
        }
        for metric in metrics {
            let value = &document[metric["Name"].as_str().unwrap()];
            let is_list = value.as_array().is_some_and(|values| {
                (1..=100).contains(&values.len()) && values.iter().all(Value::is_number)
            });
            if !value.is_number() && !is_list {
                return Err(format!("{metric} has the value {value}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_document_outside_the_format_is_found() {
    let good = serde_json::json!({
        "_aws": { "Timestamp": 1, "CloudWatchMetrics": [{
            "Namespace": "Shop", "Dimensions": [["Function"]], "Metrics": [{ "Name": "Executed", "Unit": "Count" }]
        }] },
        "Function": "f",
        "Executed": [1],
    });
    assert_eq!(check(&good), Ok(()));
    let changes: [(&str, Value); 6] = [
        ("/_aws/Timestamp", "now".into()),
        ("/_aws/CloudWatchMetrics/0/Namespace", "".into()),
        ("/_aws/CloudWatchMetrics/0/Metrics/0/Unit", "Times".into()),
        ("/_aws/CloudWatchMetrics/0/Metrics", Value::Array(vec![])),
        ("/Function", "é".into()),
        ("/Executed", vec![1; 101].into()),
    ];
    for (place, value) in changes {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        assert!(check(&bad).is_err(), "{place}");
    }
}
