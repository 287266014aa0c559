//! `idempotency resolve`.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault};
use serde_json::{Value, json};

use crate::records::{EARLY, KEY, LATE, NO_RECORD, number, records, text, with};
use crate::{Ran, on_table, run_on, run_on_table, start};

const WHO: [&str; 4] = ["--by", "ana@example.com", "--reason", "pay-17 is paid"];

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["resolve", KEY][..], &WHO, more].concat()
}

/// Starts a database with a claim whose lease ended long ago.
async fn held() -> EmbeddedDynamoDb {
    let database = with("INPROGRESS", LATE, EARLY).await;
    let mut item = only_item(&database).await;
    item.remove("data");
    database.put("idempotency", item).await.unwrap();
    database
}

type Item = std::collections::HashMap<String, AttributeValue>;

async fn only_item(database: &EmbeddedDynamoDb) -> Item {
    let mut items = database.items("idempotency").await.unwrap();
    assert_eq!(items.len(), 1);
    items.remove(0)
}

/// Returns the only item as DynamoDB JSON, and takes the time out of its trace.
async fn stored(database: &EmbeddedDynamoDb) -> Value {
    let item = only_item(database).await;
    let attributes = item.into_iter().map(|(name, value)| {
        let value = match value {
            AttributeValue::S(text) if name == "decision" => {
                let mut trace: Value = serde_json::from_str(&text).unwrap();
                let at = trace["at"].take().as_i64().unwrap();
                assert!(at > EARLY * 1_000, "{at}");
                trace
            }
            AttributeValue::S(text) => json!({ "S": text }),
            AttributeValue::N(number) => json!({ "N": number }),
            AttributeValue::M(steps) => json!({ "M": steps.len() }),
            other => panic!("{other:?} is never written"),
        };
        (name, value)
    });
    attributes.collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn a_held_key_is_completed_with_a_response_and_a_trace() {
    let database = held().await;
    let response = r#"{"paid":true}"#;
    let ran = run_on_table(&database, &arguments(&["--completed", response, "--yes"]));
    ran.exits(0);
    ran.prints("duplicates get the response until 3000-01-01T00:00:00Z");
    let expected = json!({
        "id": { "S": KEY },
        "status": { "S": "COMPLETED" },
        "expiration": { "N": LATE.to_string() },
        "in_progress_expiration": { "N": (EARLY * 1_000).to_string() },
        "data": { "S": response },
        "operation": { "S": "shop::charge" },
        "decision": { "at": null, "by": "ana@example.com", "decided": "completed", "reason": "pay-17 is paid" },
    });
    assert_eq!(stored(&database).await, expected);
    let shown = run_on_table(&database, &["get", KEY]);
    shown.prints("completed by ana@example.com, 2");
    shown.prints(": pay-17 is paid\n");
    let shown = run_on_table(&database, &["get", KEY, "--json"]).json();
    assert_eq!(shown["decision"]["decided"], "completed");
    assert_eq!(shown["decision"]["by"], "ana@example.com");
    assert_eq!(shown["state"], "completed");
    // There is nothing left to decide.
    for more in [
        ["--completed", "1", "--yes"],
        ["--rerun", "--force", "--yes"],
    ] {
        run_on_table(&database, &arguments(&more)).fails(4, "is completed");
    }
    assert_eq!(stored(&database).await, expected);
}

#[tokio::test]
async fn recorded_steps_are_shown_and_kept_for_a_rerun_and_deleted_with_a_response() {
    let database = held().await;
    let mut item = only_item(&database).await;
    let result = |text: &str| AttributeValue::S(text.to_owned());
    let steps = [("charge", result("\"s3cr3t\"")), ("reserve", result("7"))];
    let steps = steps.map(|(name, result)| (name.to_owned(), result));
    item.insert("steps".to_owned(), AttributeValue::M(steps.into()));
    database.put("idempotency", item).await.unwrap();

    let shown = run_on_table(&database, &["get", KEY]);
    shown.prints("charge (8 bytes), reserve (1 bytes)");
    assert!(!shown.stdout.contains("s3cr3t"), "{shown:?}");
    let json = run_on_table(&database, &["get", KEY, "--json"]).json();
    assert_eq!(json["steps"][0], json!({ "name": "charge", "bytes": 8 }));

    run_on_table(&database, &arguments(&["--rerun", "--yes"])).exits(0);
    assert_eq!(stored(&database).await["steps"], json!({ "M": 2 }));
    run_on_table(&database, &arguments(&["--completed", "1", "--yes"])).exits(0);
    assert_eq!(stored(&database).await.get("steps"), None);
}

#[tokio::test]
async fn a_held_key_is_freed_with_a_trace() {
    let database = held().await;
    let ran = run_on_table(&database, &arguments(&["--rerun", "--yes", "--json"]));
    ran.exits(0);
    let mut reported = ran.json();
    assert!(reported["at"].take().as_i64().unwrap() > EARLY * 1_000);
    let expected = json!({
        "resolved": "rerun", "key": KEY, "by": "ana@example.com", "reason": "pay-17 is paid", "at": null,
    });
    assert_eq!(reported, expected);
    let expected = json!({
        "id": { "S": KEY },
        "status": { "S": "INPROGRESS" },
        "expiration": { "N": LATE.to_string() },
        "in_progress_expiration": { "N": (EARLY * 1_000).to_string() },
        "failure": { "S": "ResolvedByOperator" },
        "operation": { "S": "shop::charge" },
        "decision": { "at": null, "by": "ana@example.com", "decided": "rerun", "reason": "pay-17 is paid" },
    });
    assert_eq!(stored(&database).await, expected);
    run_on_table(&database, &arguments(&["--rerun", "--yes"])).fails(4, "is free already");
    // Before a call runs, the operator can still find that the effect happened.
    run_on_table(&database, &arguments(&["--completed", "1", "--yes"])).exits(0);
    assert_eq!(
        stored(&database).await["status"],
        json!({ "S": "COMPLETED" })
    );
}

#[tokio::test]
async fn a_decision_needs_an_ending_a_name_a_reason_and_a_confirmation() {
    let database = held().await;
    let before = stored(&database).await;
    let by = ["--by", "ana"];
    let why = ["--reason", "paid"];
    for wrong in [
        [&["resolve", KEY, "--yes"][..], &by, &why].concat(),
        [&["resolve", KEY, "--yes", "--rerun"][..], &by].concat(),
        [&["resolve", KEY, "--yes", "--rerun"][..], &why].concat(),
        arguments(&["--rerun", "--completed", "1", "--yes"]),
        arguments(&["--rerun", "--expires-after", "1h", "--yes"]),
        arguments(&["--completed", "1", "--expires-after", "soon", "--yes"]),
        [&["resolve", KEY, "--yes", "--rerun", "--by", " "][..], &why].concat(),
    ] {
        let ran = run_on_table(&database, &wrong);
        assert_eq!(ran.code, Some(2), "{wrong:?}: {ran:?}");
    }
    run_on_table(&database, &arguments(&["--rerun"])).fails(4, "add `--yes`");
    assert_eq!(stored(&database).await, before);
}

#[tokio::test]
async fn a_response_comes_from_the_command_line_a_file_or_the_input_and_no_error_shows_it() {
    let file = std::env::temp_dir().join(format!("resolve-{}.json", std::process::id()));
    std::fs::write(&file, "\n{\"from\": \"a file\"}\n").unwrap();
    let named = format!("@{}", file.display());
    for (given, input, stored_text) in [
        ("-17", "", "-17"),
        (named.as_str(), "", "{\"from\": \"a file\"}"),
        ("-", "[1, 2]\n", "[1, 2]"),
    ] {
        let database = held().await;
        let command = on_table(&database, &arguments(&["--completed", given, "--yes"]));
        let ran = run_on(command, input.as_bytes().to_vec());
        assert_eq!(ran.code, Some(0), "{given}: {ran:?}");
        assert_eq!(stored(&database).await["data"], json!({ "S": stored_text }));
    }
    std::fs::remove_file(&file).unwrap();
    let database = held().await;
    for wrong in ["{\"card\": s3cr3t}", named.as_str()] {
        let ran = run_on_table(&database, &arguments(&["--completed", wrong, "--yes"]));
        ran.exits(2);
        assert!(!ran.stderr.contains("s3cr3t"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_live_claim_is_resolved_only_with_force() {
    let database = with("INPROGRESS", LATE, LATE).await;
    run_on_table(&database, &arguments(&["--rerun", "--yes"])).fails(4, "is a live claim");
    run_on_table(&database, &arguments(&["--rerun", "--yes", "--force"])).exits(0);
    let lease = &stored(&database).await["in_progress_expiration"]["N"];
    let lease: i64 = lease.as_str().unwrap().parse().unwrap();
    assert!(lease < LATE * 1_000, "the lease has ended: {lease}");
}

#[tokio::test]
async fn another_owner_than_the_one_that_was_looked_at_is_refused() {
    let database = held().await;
    run_on_table(
        &database,
        &arguments(&["--rerun", "--yes", "--owner", "0808"]),
    )
    .fails(4, "has another owner");
    run_on_table(
        &database,
        &arguments(&["--rerun", "--yes", "--owner", "0707"]),
    )
    .exits(0);
}

#[tokio::test]
async fn a_window_is_set_and_one_that_has_expired_must_be() {
    let database = with("INPROGRESS", EARLY, EARLY).await;
    run_on_table(&database, &arguments(&["--completed", "1", "--yes"])).fails(2, "--expires-after");
    let more = ["--completed", "1", "--yes", "--expires-after", "36h"];
    let ran = run_on_table(&database, &[&arguments(&more)[..], &["--json"]].concat());
    ran.exits(0);
    let reported = ran.json();
    let seconds = reported["at"].as_i64().unwrap() / 1_000 + 36 * 3_600;
    assert_eq!(reported["expiration"], seconds);
    assert_eq!(
        stored(&database).await["expiration"],
        json!({ "N": seconds.to_string() })
    );
}

#[tokio::test]
async fn a_record_that_changed_after_it_was_shown_is_not_resolved() {
    for more in [&["--completed", "1", "--yes"][..], &["--rerun", "--yes"]] {
        let database = held().await;
        let held = database.inject(Fault::on("UpdateItem").hold());
        let child = start(on_table(&database, &arguments(more)));
        held.reached().await;
        let taken_over = [
            ("id", text(KEY)),
            ("status", text("INPROGRESS")),
            ("expiration", number(LATE)),
            ("in_progress_expiration", number(LATE * 1_000)),
            ("owner", text("0808")),
        ];
        database.put("idempotency", taken_over).await.unwrap();
        let before = stored(&database).await;
        held.release().await;
        Ran::from(child.wait_with_output().unwrap())
            .fails(4, "changed after it was shown and was not resolved");
        assert_eq!(stored(&database).await, before);
    }
}

#[tokio::test]
async fn a_decision_whose_reply_was_lost_succeeds() {
    for more in [&["--completed", "1", "--yes"][..], &["--rerun", "--yes"]] {
        let database = held().await;
        database.inject(Fault::on("UpdateItem").drop_reply());
        run_on_table(&database, &arguments(more)).exits(0);
        assert!(stored(&database).await["decision"].is_object());
    }
}

#[tokio::test]
async fn a_key_without_a_record_cannot_be_resolved_and_gets_none() {
    let database = held().await;
    let wrong = [&["resolve", NO_RECORD, "--rerun", "--yes"][..], &WHO].concat();
    run_on_table(&database, &wrong).exits(3);
    assert_eq!(records(&database).await, 1);
}

#[tokio::test]
async fn a_large_response_is_stored_in_the_form_of_large_responses() {
    let database = held().await;
    let response = format!("\"{}\"", "x".repeat(40_000));
    let command = on_table(&database, &arguments(&["--completed", "-", "--yes"]));
    run_on(command, response.clone().into_bytes()).exits(0);
    assert!(only_item(&database).await.contains_key("data_zstd"));
    let shown = run_on_table(&database, &["get", KEY, "--json", "--show-data"]);
    assert_eq!(shown.json()["data"], response.as_str());
}
