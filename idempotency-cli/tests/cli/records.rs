//! `idempotency get`, with `--event` too, `replay` and `evict`.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use serde_json::json;

use crate::{Ran, command, on_table, run, run_on_table, start};

pub(crate) const KEY: &str = "shop#42b7b4f2921788ea14dac5566e6f06d0";
/// A key without a record.
pub(crate) const NO_RECORD: &str = "shop#00000000000000000000000000000000";
/// Times in the far past and in the far future, in seconds.
pub(crate) const EARLY: i64 = 1_600_000_000;
pub(crate) const LATE: i64 = 32_503_680_000;

pub(crate) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Starts a database with one record.
pub(crate) async fn with(status: &str, window: i64, lease: i64) -> EmbeddedDynamoDb {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database
        .create_table(TableSpec::new("idempotency"))
        .await
        .unwrap();
    let item = [
        ("id", text(KEY)),
        ("status", text(status)),
        ("expiration", number(window)),
        ("in_progress_expiration", number(lease * 1_000)),
        ("owner", text("0707")),
        ("operation", text("shop::charge")),
        ("data", text("{\"card\":\"4242\"}")),
    ];
    database.put("idempotency", item).await.unwrap();
    database
}

pub(crate) async fn records(database: &EmbeddedDynamoDb) -> usize {
    database.items("idempotency").await.unwrap().len()
}

#[tokio::test]
async fn get_shows_everything_except_the_response() {
    let database = with("COMPLETED", LATE, EARLY).await;
    let ran = run_on_table(&database, &["get", KEY]);
    ran.exits(0);
    for shown in [
        "completed: duplicates get its response",
        "3000-01-01T00:00:00Z, in ",
        "(32503680000 s)",
        "2020-09-13T12:26:40Z, ",
        "(1600000000000 ms)",
        "0707",
        "shop::charge",
        "15 bytes",
    ] {
        ran.prints(shown);
    }
    assert!(!ran.stdout.contains("4242"));
    assert!(!ran.stdout.contains("validation"));
    let ran = run_on_table(&database, &["get", KEY, "--json"]);
    let expected = json!({
        "found": true,
        "key": KEY,
        "state": "completed",
        "status": "COMPLETED",
        "expiration": LATE,
        "expiration_time": "3000-01-01T00:00:00Z",
        "in_progress_expiration": EARLY * 1_000,
        "in_progress_expiration_time": "2020-09-13T12:26:40Z",
        "owner": "0707",
        "operation": "shop::charge",
        "data_bytes": 15,
    });
    assert_eq!(ran.json(), expected);
    let ran = run_on_table(&database, &["get", KEY, "--json", "--show-data"]);
    assert_eq!(ran.json()["data"], "{\"card\":\"4242\"}");
}

#[tokio::test]
async fn a_missing_record_has_its_own_exit_code() {
    let database = with("COMPLETED", LATE, EARLY).await;
    for arguments in [["get", NO_RECORD], ["evict", NO_RECORD]] {
        let missing = format!("there is no record `{NO_RECORD}`");
        run_on_table(&database, &arguments).fails(3, &missing);
    }
    let ran = run_on_table(&database, &["get", NO_RECORD, "--json"]);
    assert_eq!(
        (ran.code, ran.json()),
        (Some(3), json!({ "found": false, "key": NO_RECORD }))
    );
}

#[tokio::test]
async fn evict_deletes_a_response_or_an_orphan_only_after_confirmation() {
    for status in ["COMPLETED", "INPROGRESS"] {
        let database = with(status, LATE, EARLY).await;
        run_on_table(&database, &["evict", KEY]).fails(4, "add `--yes`");
        assert_eq!(records(&database).await, 1);
        let ran = run_on_table(&database, &["evict", KEY, "--yes", "--json"]);
        assert_eq!(
            (ran.code, ran.json()),
            (Some(0), json!({ "evicted": true, "key": KEY }))
        );
        assert_eq!(records(&database).await, 0);
    }
}

#[tokio::test]
async fn evict_rejects_a_live_claim_without_force() {
    let database = with("INPROGRESS", LATE, LATE).await;
    run_on_table(&database, &["evict", KEY, "--yes"]).fails(4, "is a live claim");
    assert_eq!(records(&database).await, 1);
    run_on_table(&database, &["evict", KEY, "--yes", "--force"]).exits(0);
    assert_eq!(records(&database).await, 0);
}

#[tokio::test]
async fn a_record_that_changed_after_it_was_shown_is_not_evicted() {
    let database = with("COMPLETED", LATE, EARLY).await;
    let held = database.inject(Fault::on("DeleteItem").hold());
    let child = start(on_table(&database, &["evict", KEY, "--yes"]));
    held.reached().await;
    let item = [
        ("id", text(KEY)),
        ("status", text("INPROGRESS")),
        ("expiration", number(LATE)),
        ("in_progress_expiration", number(LATE * 1_000)),
        ("owner", text("0808")),
    ];
    database.put("idempotency", item).await.unwrap();
    held.release().await;
    Ran::from(child.wait_with_output().unwrap()).fails(4, "changed after it was shown");
    assert_eq!(records(&database).await, 1);
}

#[tokio::test]
async fn an_eviction_whose_reply_was_lost_succeeds() {
    let database = with("COMPLETED", LATE, EARLY).await;
    database.inject(Fault::on("DeleteItem").drop_reply());
    run_on_table(&database, &["evict", KEY, "--yes"]).exits(0);
    assert_eq!(records(&database).await, 0);
}

#[tokio::test]
async fn a_composite_key_needs_the_value_of_its_partition_key() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableSpec::new("shared")
        .partition_key("pk")
        .with_sort_key("sk");
    database.create_table(table).await.unwrap();
    let item = [
        ("pk", text("idempotency#shop")),
        ("sk", text(KEY)),
        ("state", text("COMPLETED")),
    ];
    database.put("shared", item).await.unwrap();
    let get = |function: Option<&str>| {
        let mut command = command(&["get", KEY, "--table", "shared", "--json"]);
        command
            .envs(database.environment())
            .env("IDEMPOTENCY_KEY_ATTR", "pk")
            .env("IDEMPOTENCY_SORT_KEY_ATTR", "sk")
            .env("IDEMPOTENCY_STATUS_ATTR", "state");
        command.envs(function.map(|name| ("AWS_LAMBDA_FUNCTION_NAME", name)));
        run(command)
    };
    assert_eq!(get(Some("shop")).json()["status"], "COMPLETED");
    assert_eq!(get(Some("other")).code, Some(3));
    let unknown = get(None);
    unknown.exits(2);
    let error = unknown.json()["error"].to_string();
    assert!(error.contains("IDEMPOTENCY_STATIC_PK_VALUE"), "{error}");
}

#[tokio::test]
async fn a_missing_table_is_a_failure_and_not_a_missing_record() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    run_on_table(&database, &["get", KEY]).fails(1, "there is no DynamoDB table `idempotency`");
}

#[tokio::test]
async fn a_text_that_can_be_no_key_is_refused_and_not_called_a_missing_record() {
    let database = with("COMPLETED", LATE, EARLY).await;
    let digest = "42b7b4f2921788ea14dac5566e6f06d0";
    for (key, remedy) in [
        (format!("{KEY}\nvalidation  {digest}"), "line break"),
        (digest.to_owned(), "write the whole key"),
        (format!("#{digest}"), "write the whole key"),
        ("shop#42b7".to_owned(), "32, 40, 56, 64, 96 or 128"),
        (format!("{KEY}0"), "32, 40, 56, 64, 96 or 128"),
        (KEY.to_uppercase(), "lower-case"),
        (
            format!("{KEY}#{}.0003", "0".repeat(64)),
            "give the key of its record",
        ),
    ] {
        let decide = ["--rerun", "--by", "a", "--reason", "b", "--yes"];
        for arguments in [
            vec!["get", &key, "--json"],
            vec!["evict", &key, "--yes"],
            vec!["replay", &key],
            [&["resolve", key.as_str()][..], &decide].concat(),
        ] {
            let ran = run_on_table(&database, &arguments);
            assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
            assert!(ran.stderr.contains(remedy), "{remedy}: {ran:?}");
        }
    }
    // A table can have records of Powertools for TypeScript, whose digests are base64.
    run_on_table(&database, &["get", "shop#hWAM/qKPJg9u2jTBUH5bRA=="]).exits(3);
    assert_eq!(records(&database).await, 1);
}

/// Ten years and a minute, in seconds: longer than a claim under `hold` is kept after its lease.
const HELD: i64 = 315_360_060;

#[tokio::test]
async fn the_state_says_whether_a_claim_is_held_failed_or_freed() {
    for (window, failure, state, said) in [
        (EARLY + HELD, None, "held", "held: "),
        (LATE, None, "held", "held: "),
        (EARLY + 3_600, None, "lease_over", "its lease has expired"),
        (LATE, Some("Declined"), "failed", "its run failed"),
        (
            LATE,
            Some("ResolvedByOperator"),
            "freed",
            "an operator decided that its run had no effect",
        ),
    ] {
        let database = with("INPROGRESS", window, EARLY).await;
        let mut item = database.items("idempotency").await.unwrap().remove(0);
        item.extend(failure.map(|failure| ("failure".to_owned(), text(failure))));
        database.put("idempotency", item).await.unwrap();
        let json = run_on_table(&database, &["get", KEY, "--json"]).json();
        assert_eq!(json["state"], state);
        let shown = run_on_table(&database, &["get", KEY]).stdout;
        assert!(shown.contains(said), "{shown}");
    }
}

#[tokio::test]
async fn what_is_asked_shows_table_region_account_and_endpoint() {
    let database = with("INPROGRESS", LATE, EARLY).await;
    let mut item = database.items("idempotency").await.unwrap().remove(0);
    item.insert("event".to_owned(), text("{\"all\":{}}"));
    database.put("idempotency", item).await.unwrap();
    let endpoint = &database.environment()[0].1;
    for arguments in [
        &["evict", KEY][..],
        &["resolve", KEY, "--rerun", "--by", "a", "--reason", "b"],
        &["replay", KEY, "--invoke", "charge"],
        &["list", "--held"],
    ] {
        let mut command = on_table(&database, arguments);
        command.env("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:1");
        let ran = run(command);
        ran.exits(4);
        for shown in ["`idempotency`", "eu-central-1", "account 0000", endpoint] {
            assert!(ran.stderr.contains(shown), "{shown}: {ran:?}");
        }
        let of_lambda = ran.stderr.contains("http://127.0.0.1:1");
        assert_eq!(of_lambda, arguments[0] == "replay", "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

const EVENT: &str = r#"{"order_id": 7, "card": "4242"}"#;

fn stored() -> Option<AttributeValue> {
    Some(text(&format!("{{\"all\":{EVENT}}}")))
}

async fn keeping(event: Option<AttributeValue>) -> EmbeddedDynamoDb {
    let database = with("INPROGRESS", LATE, EARLY).await;
    let mut item = database.items("idempotency").await.unwrap().remove(0);
    item.remove("data");
    item.extend(event.map(|event| ("event".to_owned(), event)));
    database.put("idempotency", item).await.unwrap();
    database
}

#[tokio::test]
async fn the_event_is_shown_only_on_request() {
    let database = keeping(stored()).await;
    let shown = |arguments: &[&str]| run_on_table(&database, arguments);
    for arguments in [&["get", KEY][..], &["get", KEY, "--json"]] {
        let ran = shown(arguments);
        assert!(!ran.stdout.contains("4242"), "{ran:?}");
    }
    let ran = shown(&["get", KEY, "--event"]);
    ran.prints(&format!("event        {EVENT}\n"));
    let json = shown(&["get", KEY, "--event", "--json"]).json();
    assert_eq!(json["event"], EVENT);
    assert_eq!(json["event_is_whole"], true);
}

#[tokio::test]
async fn a_part_of_an_event_is_marked_as_such() {
    let database = keeping(Some(text("{\"selected\":[7,\"\u{9b}2J\"]}"))).await;
    let ran = run_on_table(&database, &["get", KEY, "--event"]);
    // A character that controls the terminal is not shown.
    ran.prints("event part   [7,\" 2J\"]\n");
    for arguments in [
        &["get", KEY, "--event", "--json"][..],
        &["replay", KEY, "--json"],
    ] {
        let ran = run_on_table(&database, arguments);
        assert_eq!(ran.json()["event_is_whole"], false);
    }
}

#[tokio::test]
async fn replay_prints_the_event_alone() {
    let database = keeping(stored()).await;
    let ran = run_on_table(&database, &["replay", KEY]);
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{EVENT}\n")));
    let ran = run_on_table(&database, &["replay", KEY, "--json"]);
    assert_eq!(ran.json()["event"], EVENT);
}

#[tokio::test]
async fn a_record_without_an_event_and_a_missing_record_are_failures() {
    let database = keeping(None).await;
    run_on_table(&database, &["replay", KEY]).fails(1, "keeps no event");
    run_on_table(&database, &["get", KEY, "--event"]).exits(0);
    run_on_table(&database, &["replay", NO_RECORD]).exits(3);
    let database = keeping(Some(AttributeValue::Bool(true))).await;
    run_on_table(&database, &["replay", KEY])
        .fails(1, "cannot be read: it was not written by this framework");
}
