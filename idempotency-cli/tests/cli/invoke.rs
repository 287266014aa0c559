//! `idempotency replay --invoke`, with a function as a real process: this test program, started again as [`the_function`].

use std::path::Path;
use std::process::Command;

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use idempotency_testkit::dynamodb::{Fault, TableSpec};
use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
use serde_json::{Value, json};

use crate::{EARLY, LATE, Ran, Table, finish, number, text};

/// The variable with the path of the mark that the function leaves in its first run.
const MARK: &str = "TESTS_MARK";
/// The id of a record of another operation.
const OTHER: &str = "shop.other#42b7b4f2921788ea14dac5566e6f06d0";
const ORDER: &str = r#"{"order_id":7,"card":"4242"}"#;

/// Charges an order: a run that finds no mark is declined.
#[idempotent(
    key = "order_id",
    key_required = "all",
    key_prefix = "shop.charge",
    on_error = "record",
    on_timeout = "hold",
    store_event = "all"
)]
async fn charge(order: LambdaEvent<Value>) -> Result<String, BoxError> {
    let mark = std::env::var(MARK)?;
    if !Path::new(&mark).exists() {
        std::fs::write(mark, "declined")?;
        return Err("declined: 4242".into());
    }
    Ok(format!("charged {}", order.payload["order_id"]))
}

/// Serves events in a process that the local Lambda started. In the test run it does nothing.
#[test]
fn the_function() {
    if std::env::var(MARK).is_err() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = runtime.block_on(idempotency_lambda::run(charge));
    ended.unwrap();
}

/// A function and its table.
struct Shop {
    table: Table,
    lambda: LocalLambda,
    mark: std::path::PathBuf,
}

impl Shop {
    /// Starts a shop that declines its first order.
    async fn start(test: &str) -> Self {
        let table = Table::new(TableSpec::new("idempotency").encrypted()).await;
        let mark =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.{}", std::process::id()));
        let _ = std::fs::remove_file(&mark);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["invoke::the_function", "--exact", "--nocapture"]);
        let function = FunctionSpec::new("charge", command)
            .env(MARK, &mark)
            .envs(table.environment())
            .env("IDEMPOTENCY_TABLE", "idempotency");
        let lambda = LocalLambda::start(function).await.unwrap();
        Self {
            table,
            lambda,
            mark,
        }
    }

    /// Starts a shop whose only call was declined.
    async fn declined(test: &str) -> Self {
        let shop = Self::start(test).await;
        let error = shop.lambda.invoke(ORDER).await.unwrap_err();
        assert!(error.to_string().contains("declined"), "{error}");
        shop
    }

    /// Replays the event of the only record.
    async fn replay(&self, more: &str) -> Ran {
        let endpoint = self.lambda.endpoint().await.unwrap();
        self.replay_at(&endpoint, more).await
    }

    async fn replay_at(&self, endpoint: &str, more: &str) -> Ran {
        let item = self.table.item().await;
        let key = item["id"].as_s().unwrap();
        let line = format!("replay {key} --invoke {more}");
        let mut command = self.table.command(&line);
        command.env("AWS_ENDPOINT_URL_LAMBDA", endpoint);
        tokio::task::spawn_blocking(|| finish(command, ""))
            .await
            .unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.mark);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_of_a_failed_call_is_sent_to_its_function_again() {
    let shop = Shop::declined("failed").await;
    shop.replay("charge").await.fails(4, "add `--yes`");

    let ran = shop.replay("charge:live --yes --show-data").await.exits(0);
    let expected = "invoked `charge:live`: status 200, version $LATEST\nresponse  \"charged 7\"\nrecord    completed: duplicates get its \
                    response\n";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (expected, ""));
    assert_eq!(shop.table.item().await["status"], text("COMPLETED"));

    // A completed call is not replayed, and its function is not invoked.
    let invocations = shop.lambda.processes().len();
    shop.replay("charge --yes").await.fails(4, "is completed");
    assert_eq!(shop.lambda.processes().len(), invocations);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_function_has_an_exit_code_and_its_text_is_shown_only_on_request() {
    let shop = Shop::declined("again").await;
    std::fs::remove_file(&shop.mark).unwrap();
    let ran = shop.replay("charge --yes --json").await.hides("4242");
    let json = ran.json(6);
    assert_eq!(json["status"], 200);
    assert!(json["error_type"].is_string(), "{json}");
    assert_eq!(json.get("error_message"), None);
    assert_eq!(json["state"], "failed");
    std::fs::remove_file(&shop.mark).unwrap();
    let ran = shop.replay("charge --yes --show-data").await;
    ran.exits(6).prints("declined: 4242");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_changed_after_it_was_shown_is_not_replayed() {
    let shop = Shop::declined("changed").await;
    let invocations = shop.lambda.processes().len();
    // After the record and its event, the command reads the record again.
    let held = shop.table.inject(Fault::on("GetItem").nth(3).hold());
    let change = async {
        held.reached().await;
        let lease = number(LATE * 1_000);
        shop.table.set("in_progress_expiration", lease).await;
        held.release().await;
    };
    let (ran, ()) = tokio::join!(shop.replay("charge --yes"), change);
    ran.fails(4, "changed after it was shown and was not replayed");
    assert_eq!(shop.lambda.processes().len(), invocations);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_key_stays_held_until_it_is_resolved_and_then_its_event_runs() {
    let shop = Shop::start("held").await;
    std::fs::write(&shop.mark, "").unwrap();
    // Turns the completed record into the claim of a run that was killed.
    shop.lambda.invoke(ORDER).await.unwrap();
    let ended = number(EARLY * 1_000);
    shop.table.set("in_progress_expiration", ended).await;
    shop.table.set("data", None).await;
    shop.table.set("status", text("INPROGRESS")).await;

    let ran = shop.replay("charge --yes").await.exits(6);
    ran.prints("error     IdempotencyUnresolved: ");
    let key = shop.table.item().await["id"].as_s().unwrap().clone();
    let decision = format!("resolve {key} --rerun --by ana --reason 'no charge' --yes");
    shop.table.run(&decision).exits(0);
    let ran = shop.replay("charge --yes --show-data --json").await;
    let expected = json!({
        "invoked": "charge",
        "key": key,
        "status": 200,
        "version": "$LATEST",
        "response_bytes": 11,
        "response": "\"charged 7\"",
        "state": "completed",
    });
    assert_eq!(ran.json(0), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_not_there_or_not_reached_was_not_invoked() {
    let shop = Shop::declined("elsewhere").await;
    let expected = "the function `refund` was not invoked: the response has the status 404, ResourceNotFoundException: ";
    shop.replay("refund --yes").await.fails(1, expected);

    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let ran = shop.replay_at(&endpoint, "charge --yes").await;
    ran.fails(1, "the function `charge` was not invoked: ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_may_have_run_unless_lambda_itself_refuses_it() {
    let shop = Shop::declined("broken").await;
    for (response, expected) in [
        ("", "and it may have run"),
        // Of a proxy that waited for Lambda.
        ("408 Request Timeout\r\n", "and it may have run"),
        (
            "429 Too Many Requests\r\nx-amzn-errortype: TooManyRequestsException\r\n",
            "was not invoked",
        ),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 64]).unwrap();
            if !response.is_empty() {
                let text = format!("HTTP/1.1 {response}content-length: 0\r\n\r\n");
                stream.write_all(text.as_bytes()).unwrap();
                // The rest of the request.
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let ran = shop.replay_at(&endpoint, "charge --yes").await;
        server.join().unwrap();
        ran.fails(1, expected).hides("4242");
    }
}

#[tokio::test]
async fn a_part_of_an_event_and_a_live_claim_are_refused_before_anything_is_sent() {
    let part = r#"{"selected":{"order_id":7}}"#;
    let whole = r#"{"all":{"order_id":7}}"#;
    for (lease, stored, why) in [
        (EARLY, part, "keeps a part of its event"),
        (LATE, whole, "is a live claim"),
    ] {
        let table = Table::with("INPROGRESS", LATE, lease).await;
        table.set("event", text(stored)).await;
        let mut command = table.command("replay $KEY --invoke charge --yes");
        // No Lambda is there.
        command.env("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:1");
        finish(command, "").fails(4, why);
    }
}

#[tokio::test]
async fn the_function_of_a_local_table_is_not_invoked_on_aws() {
    let table = Table::held().await;
    table.set("event", text("{\"all\":{}}")).await;
    let ran = table.run("replay $KEY --invoke charge --yes");
    ran.fails(2, "set AWS_ENDPOINT_URL_LAMBDA");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_leaves_the_record_as_it_was_causes_a_warning() {
    let shop = Shop::start("other").await;
    std::fs::write(&shop.mark, "").unwrap();
    // The event of another key: the operation of the record is not the one of the function.
    let mut item = Table::held().await.item().await;
    let event = format!("{{\"all\":{ORDER}}}");
    item.extend(
        [("event", &*event), ("id", OTHER)].map(|(name, value)| (name.into(), text(value))),
    );
    shop.table.put("idempotency", item).await.unwrap();
    let endpoint = shop.lambda.endpoint().await.unwrap();
    let ran = shop.replay_at(&endpoint, "charge --yes").await;
    ran.exits(0)
        .prints("bytes; --show-data shows them")
        .complains("did not change");
}
