//! `idempotency replay --invoke`, with a function as a real process: this test program, started again as [`the_function`].

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
use serde_json::Value;

use crate::records::{EARLY, KEY, LATE, text, with};
use crate::{Ran, on_table, run, run_on_table};

const ROLE: &str = "TESTS_ROLE";
/// A record of another operation.
const OTHER: &str = "shop.other#42b7b4f2921788ea14dac5566e6f06d0";
const ORDER: &str = r#"{"order_id":7,"card":"4242"}"#;

/// Charges an order: its first run finds no mark, and is declined.
#[idempotent(
    key = "order_id",
    key_required = "all",
    key_prefix = "shop.charge",
    on_error = "record",
    store_event = "all"
)]
async fn charge(order: LambdaEvent<Value>) -> Result<String, BoxError> {
    let mark = std::env::var("MARK")?;
    if !Path::new(&mark).exists() {
        std::fs::write(mark, "declined")?;
        return Err("declined: 4242".into());
    }
    Ok(format!("charged {}", order.payload["order_id"]))
}

/// Charges an order, and holds the key of a run without a result.
#[idempotent(
    key = "order_id",
    key_required = "all",
    key_prefix = "shop.held",
    on_timeout = "hold",
    store_event = "all"
)]
async fn held(order: LambdaEvent<Value>) -> Result<String, BoxError> {
    Ok(format!("charged {}", order.payload["order_id"]))
}

/// Serves events in a process that the local Lambda started. In the test run it does nothing.
#[test]
fn the_function() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = runtime.block_on(async {
        match role.as_str() {
            "held" => idempotency_lambda::run(held).await,
            _ => idempotency_lambda::run(charge).await,
        }
    });
    ended.unwrap();
}

/// A function and its table.
struct Shop {
    database: EmbeddedDynamoDb,
    lambda: LocalLambda,
    mark: std::path::PathBuf,
}

impl Shop {
    async fn start(role: &str, test: &str) -> Self {
        let database = EmbeddedDynamoDb::start().await.unwrap();
        let table = TableSpec::new("idempotency").encrypted();
        database.create_table(table).await.unwrap();
        let mark =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.{}", std::process::id()));
        let _ = std::fs::remove_file(&mark);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["invoke::the_function", "--exact", "--nocapture"]);
        let function = FunctionSpec::new("charge", command)
            .env(ROLE, role)
            .env("MARK", &mark)
            .envs(database.environment())
            .env("IDEMPOTENCY_TABLE", "idempotency");
        let lambda = LocalLambda::start(function).await.unwrap();
        Self {
            database,
            lambda,
            mark,
        }
    }

    async fn is_declined(&self) {
        let error = self.lambda.invoke(ORDER).await.unwrap_err();
        assert!(error.to_string().contains("declined"), "{error}");
    }

    async fn item(&self) -> HashMap<String, AttributeValue> {
        let mut items = self.database.items("idempotency").await.unwrap();
        assert_eq!(items.len(), 1);
        items.remove(0)
    }

    async fn key(&self) -> String {
        self.item().await["id"].as_s().unwrap().clone()
    }

    async fn replay(&self, key: &str, function: &str, more: &[&str]) -> Ran {
        let arguments = [&["replay", key, "--invoke", function], more].concat();
        let mut command = on_table(&self.database, &arguments);
        let endpoint = self.lambda.endpoint().await.unwrap();
        command.env("AWS_ENDPOINT_URL_LAMBDA", endpoint);
        run(command)
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.mark);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_of_a_failed_call_is_sent_to_its_function_again() {
    let shop = Shop::start("charge", "failed").await;
    shop.is_declined().await;
    let key = shop.key().await;

    shop.replay(&key, "charge", &[])
        .await
        .fails(4, "add `--yes`");

    let ran = shop
        .replay(&key, "charge:live", &["--yes", "--show-data"])
        .await;
    ran.exits(0);
    let expected = "invoked `charge:live`: status 200, version $LATEST\nresponse  \"charged 7\"\nrecord    completed: duplicates get its \
                    response\n";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (expected, ""));
    assert_eq!(shop.item().await["status"], text("COMPLETED"));

    // A completed call is not replayed, and its function is not invoked.
    let invocations = shop.lambda.processes().len();
    shop.replay(&key, "charge", &["--yes"])
        .await
        .fails(4, "is completed");
    assert_eq!(shop.lambda.processes().len(), invocations);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_function_has_an_exit_code_and_its_text_is_shown_only_on_request() {
    let shop = Shop::start("charge", "again").await;
    shop.is_declined().await;
    let key = shop.key().await;
    std::fs::remove_file(&shop.mark).unwrap();
    let ran = shop.replay(&key, "charge", &["--yes", "--json"]).await;
    ran.exits(6);
    let json = ran.json();
    assert_eq!(json["status"], 200);
    assert!(json["error_type"].is_string(), "{json}");
    assert_eq!(json.get("error_message"), None);
    assert_eq!(json["state"], "failed");
    assert!(!ran.stdout.contains("4242"), "{ran:?}");
    std::fs::remove_file(&shop.mark).unwrap();
    let ran = shop.replay(&key, "charge", &["--yes", "--show-data"]).await;
    ran.exits(6);
    ran.prints("declined: 4242");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_key_stays_held_until_it_is_resolved_and_then_its_event_runs() {
    let shop = Shop::start("held", "held").await;
    // The claim of a run that was killed.
    shop.lambda.invoke(ORDER).await.unwrap();
    let mut item = shop.item().await;
    let key = shop.key().await;
    item.remove("data");
    item.insert("status".to_owned(), text("INPROGRESS"));
    let lease = AttributeValue::N((EARLY * 1_000).to_string());
    item.insert("in_progress_expiration".to_owned(), lease);
    shop.database.put("idempotency", item).await.unwrap();

    let ran = shop.replay(&key, "charge", &["--yes"]).await;
    ran.exits(6);
    ran.prints("error     IdempotencyUnresolved: ");
    let decision = [
        "resolve",
        &key,
        "--rerun",
        "--by",
        "ana",
        "--reason",
        "no charge",
        "--yes",
    ];
    assert_eq!(run_on_table(&shop.database, &decision).code, Some(0));
    let ran = shop.replay(&key, "charge", &["--yes", "--show-data"]).await;
    ran.exits(0);
    ran.prints("charged 7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_not_there_or_not_reached_was_not_invoked() {
    let shop = Shop::start("charge", "elsewhere").await;
    shop.is_declined().await;
    let key = shop.key().await;
    let ran = shop.replay(&key, "refund", &["--yes"]).await;
    ran.exits(1);
    let expected = "the function `refund` was not invoked: Lambda responded with status 404, ResourceNotFoundException: ";
    ran.complains(expected);

    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let mut command = on_table(
        &shop.database,
        &["replay", &key, "--invoke", "charge", "--yes"],
    );
    command.env("AWS_ENDPOINT_URL_LAMBDA", format!("http://{address}"));
    run(command).fails(1, "the function `charge` was not invoked: ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_breaks_off_may_have_run() {
    let shop = Shop::start("charge", "broken").await;
    shop.is_declined().await;
    let key = shop.key().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        use std::io::Read as _;
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 64]).unwrap();
    });
    let mut command = on_table(
        &shop.database,
        &["replay", &key, "--invoke", "charge", "--yes"],
    );
    command.env("AWS_ENDPOINT_URL_LAMBDA", format!("http://{address}"));
    let ran = run(command);
    server.join().unwrap();
    ran.exits(1);
    ran.complains("and it may have run");
    assert!(!ran.stderr.contains("4242"), "{ran:?}");
}

#[tokio::test]
async fn a_part_of_an_event_and_a_live_claim_are_refused_before_anything_is_sent() {
    for (lease, stored, why) in [
        (
            EARLY,
            r#"{"selected":{"order_id":7}}"#,
            "keeps a part of its event",
        ),
        (LATE, r#"{"all":{"order_id":7}}"#, "is a live claim"),
    ] {
        let database = with("INPROGRESS", LATE, lease).await;
        let mut item = database.items("idempotency").await.unwrap().remove(0);
        item.insert("event".to_owned(), text(stored));
        database.put("idempotency", item).await.unwrap();
        let mut command = on_table(&database, &["replay", KEY, "--invoke", "charge", "--yes"]);
        // No Lambda is there.
        command.env("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:1");
        run(command).fails(4, why);
    }
}

#[tokio::test]
async fn the_function_of_a_local_table_is_not_invoked_on_aws() {
    let database = with("INPROGRESS", LATE, EARLY).await;
    let mut item = database.items("idempotency").await.unwrap().remove(0);
    item.insert("event".to_owned(), text("{\"all\":{}}"));
    database.put("idempotency", item).await.unwrap();
    run_on_table(&database, &["replay", KEY, "--invoke", "charge", "--yes"])
        .fails(2, "set AWS_ENDPOINT_URL_LAMBDA");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_leaves_the_record_as_it_was_causes_a_warning() {
    let shop = Shop::start("held", "other").await;
    // The event of another key: the operation of the record is not the one of the function.
    let database = with("INPROGRESS", LATE, EARLY).await;
    let mut item = database.items("idempotency").await.unwrap().remove(0);
    item.insert("event".to_owned(), text(&format!("{{\"all\":{ORDER}}}")));
    item.insert("id".to_owned(), text(OTHER));
    shop.database.put("idempotency", item).await.unwrap();
    let ran = shop.replay(OTHER, "charge", &["--yes"]).await;
    ran.exits(0);
    ran.prints("bytes; --show-data shows them");
    ran.complains("did not change");
}
