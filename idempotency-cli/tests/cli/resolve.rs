//! `idempotency resolve`.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::Fault;
use serde_json::{Value, json};

use crate::{EARLY, KEY, LATE, NO_RECORD, Ran, Table, finish, start, text};

/// Returns the line that decides about the key.
fn decide(more: &str) -> String {
    format!("resolve $KEY --by ana@example.com --reason 'pay-17 is paid' {more}")
}

/// The two decisions.
const ENDINGS: [&str; 2] = ["--completed 1 --yes", "--rerun --yes"];

/// Returns the only item as DynamoDB JSON, and takes the time out of its trace.
async fn stored(table: &Table) -> Value {
    let attributes = table.item().await.into_iter().map(|(name, value)| {
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
    let table = Table::held().await;
    let response = r#"{"paid":true}"#;
    let ran = table.run(&decide(&format!("--completed {response} --yes")));
    ran.exits(0)
        .prints("duplicates get the response until 3000-01-01T00:00:00Z");
    // Of `{"paid":true}`.
    let digest = "a2af987a163f4f45e9a349097cfa9df8f7b71f7982edd1627e18ae14ef28fa2f";
    let expected = json!({
        "id": { "S": KEY },
        "status": { "S": "COMPLETED" },
        "expiration": { "N": LATE.to_string() },
        "in_progress_expiration": { "N": (EARLY * 1_000).to_string() },
        "data": { "S": response },
        "operation": { "S": "shop::charge" },
        "decision": { "at": null, "by": "ana@example.com", "decided": "completed", "reason": "pay-17 is paid", "response_sha256": digest },
    });
    assert_eq!(stored(&table).await, expected);
    let shown = table.run("get $KEY").prints(": pay-17 is paid\n");
    shown.prints("completed by ana@example.com, 2");
    let shown = table.run("get $KEY --json").json(0);
    assert_eq!(shown["decision"]["decided"], "completed");
    assert_eq!(shown["decision"]["by"], "ana@example.com");
    assert_eq!(shown["state"], "completed");
    // Python completes its record without a fence, and a run's response is not replaced.
    let overwritten = AttributeValue::S("2".to_owned());
    table.set("data", overwritten).await;
    let completed = Table::with("COMPLETED", LATE, EARLY).await;
    for table in [table, completed] {
        let before = stored(&table).await;
        for more in ["--completed 1 --yes", "--rerun --force --yes"] {
            let ran = table.run(&decide(more));
            ran.fails(4, "is completed, and not known to be by a decision");
        }
        assert_eq!(stored(&table).await, before);
    }
}

#[tokio::test]
async fn a_wrong_decision_is_replaced_with_a_trace() {
    let table = Table::held().await;
    let wrong = decide(r#"--completed '{"not":"a text"}' --yes"#);
    table.run(&wrong).exits(0);
    table.run(&decide("--completed '\"paid\"' --yes")).exits(0);
    let item = stored(&table).await;
    assert_eq!(item["data"]["S"], "\"paid\"");
    assert_eq!(item["decision"]["replaced"][0]["decided"], "completed");
    let shown = table.run("get $KEY");
    shown.prints("; it replaces completed by ana@example.com, 2");
    let shown = table.run("get $KEY --json").json(0);
    assert_eq!(shown["decision"]["replaced"][0]["by"], "ana@example.com");
    // It had no effect after all.
    table.run(&decide("--rerun --yes")).exits(0);
    let item = stored(&table).await;
    assert_eq!(item["status"]["S"], "INPROGRESS");
    assert_eq!(item["failure"]["S"], "ResolvedByOperator");
    assert_eq!(item.get("data"), None);
    let replaced = item["decision"]["replaced"].as_array().unwrap().len();
    assert_eq!(replaced, 2);
    let again = table.run(&decide("--rerun --yes"));
    again.fails(4, "is free already");
}

#[tokio::test]
async fn of_two_operators_the_second_does_not_overwrite_the_decision_of_the_first() {
    for ending in ENDINGS {
        let table = Table::held().await;
        table.run(&decide("--completed 1 --yes")).exits(0);
        let shown = table.item().await;
        table.run(&decide("--completed 2 --yes")).exits(0);
        let (decided, before) = (table.item().await, stored(&table).await);
        table.put("idempotency", shown).await.unwrap();
        let held = table.inject(Fault::on("UpdateItem").hold());
        let second = start(table.command(&decide(ending)));
        held.reached().await;
        // A command in between could take longer than the time limit of the request that is held.
        table.put("idempotency", decided).await.unwrap();
        held.release().await;
        let second = Ran::from(second.wait_with_output().unwrap());
        second.fails(4, "changed after it was shown and was not resolved");
        assert_eq!(stored(&table).await, before);
    }
}

#[tokio::test]
async fn recorded_steps_are_shown_and_kept_for_a_rerun_also_beside_a_response() {
    let table = Table::held().await;
    let steps = [("charge", text("\"s3cr3t\"")), ("reserve", text("7"))];
    let steps = steps.map(|(name, result)| (name.to_owned(), result));
    table.set("steps", AttributeValue::M(steps.into())).await;

    let shown = table.run("get $KEY").hides("s3cr3t");
    shown.prints("charge (8 bytes), reserve (1 bytes)");
    let json = table.run("get $KEY --json").json(0);
    assert_eq!(json["steps"][0], json!({ "name": "charge", "bytes": 8 }));

    for more in ["--rerun --yes", "--completed 1 --yes", "--rerun --yes"] {
        table.run(&decide(more)).exits(0);
        assert_eq!(stored(&table).await["steps"], json!({ "M": 2 }));
    }
}

#[tokio::test]
async fn a_held_key_is_freed_with_a_trace() {
    let table = Table::held().await;
    let mut reported = table.run(&decide("--rerun --yes --json")).json(0);
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
    assert_eq!(stored(&table).await, expected);
    let again = table.run(&decide("--rerun --yes"));
    again.fails(4, "is free already");
    // Before a call runs, the operator can still find that the effect happened.
    table.run(&decide("--completed 1 --yes")).exits(0);
    assert_eq!(stored(&table).await["status"]["S"], "COMPLETED");
}

#[tokio::test]
async fn a_decision_needs_a_name_and_a_confirmation() {
    let table = Table::held().await;
    let before = stored(&table).await;
    let nameless = "resolve $KEY --yes --rerun --by ' ' --reason paid";
    table.run(nameless).exits(2);
    table.run(&decide("--rerun")).fails(4, "add `--yes`");
    assert_eq!(stored(&table).await, before);
}

#[tokio::test]
async fn a_response_comes_from_the_command_line_a_file_or_the_input_and_no_error_shows_it() {
    let file = std::env::temp_dir().join(format!("resolve-{}.json", std::process::id()));
    std::fs::write(&file, "\n{\"from\": \"a file\"}\n").unwrap();
    let complete = |response: &str| decide(&format!("--completed '{response}' --yes"));
    let named = complete(&format!("@{}", file.display()));
    for (line, input, stored_text) in [
        (&complete("-17"), "", "-17"),
        (&named, "", "{\"from\": \"a file\"}"),
        (&complete("-"), "[1, 2]\n", "[1, 2]"),
    ] {
        let table = Table::held().await;
        finish(table.command(line), input).exits(0);
        assert_eq!(stored(&table).await["data"]["S"], stored_text);
    }
    std::fs::remove_file(&file).unwrap();
    let table = Table::held().await;
    for wrong in [&complete("{\"card\": s3cr3t}"), &named] {
        table.run(wrong).exits(2).hides("s3cr3t");
    }
}

#[tokio::test]
async fn a_live_claim_is_resolved_only_with_force() {
    let table = Table::with("INPROGRESS", LATE, LATE).await;
    let ran = table.run(&decide("--rerun --yes"));
    ran.fails(4, "has a lease that still runs");
    table.run(&decide("--rerun --yes --force")).exits(0);
    let lease = &stored(&table).await["in_progress_expiration"]["N"];
    let lease: i64 = lease.as_str().unwrap().parse().unwrap();
    assert!(lease < LATE * 1_000, "the lease has ended: {lease}");
}

#[tokio::test]
async fn a_record_with_another_owner_than_the_option_names_is_refused() {
    let table = Table::held().await;
    let other = table.run(&decide("--rerun --yes --owner 0808"));
    other.fails(4, "has another owner");
    table.run(&decide("--rerun --yes --owner 0707")).exits(0);
}

#[tokio::test]
async fn a_window_can_be_set_and_must_be_set_if_it_has_expired() {
    let table = Table::with("INPROGRESS", EARLY, EARLY).await;
    let without = table.run(&decide("--completed 1 --yes"));
    without.fails(2, "--expires-after");
    let with = decide("--completed 1 --yes --expires-after 36h --json");
    let reported = table.run(&with).json(0);
    let seconds = reported["at"].as_i64().unwrap() / 1_000 + 36 * 3_600;
    assert_eq!(reported["expiration"], seconds);
    let stored = stored(&table).await;
    assert_eq!(stored["expiration"]["N"], seconds.to_string());
}

#[tokio::test]
async fn a_record_that_changed_after_it_was_shown_is_not_resolved() {
    for ending in ENDINGS {
        let table = Table::held().await;
        let held = table.inject(Fault::on("UpdateItem").hold());
        let child = start(table.command(&decide(ending)));
        held.reached().await;
        table.take_over().await;
        let before = stored(&table).await;
        held.release().await;
        let ran = Ran::from(child.wait_with_output().unwrap());
        ran.fails(4, "changed after it was shown and was not resolved");
        assert_eq!(stored(&table).await, before);
    }
}

#[tokio::test]
async fn a_decision_whose_reply_was_lost_succeeds() {
    for ending in ENDINGS {
        let table = Table::held().await;
        table.inject(Fault::on("UpdateItem").drop_reply());
        table.run(&decide(ending)).exits(0);
        assert!(stored(&table).await["decision"].is_object());
    }
}

#[tokio::test]
async fn a_key_without_a_record_cannot_be_resolved_and_gets_none() {
    let table = Table::held().await;
    let line = decide("--rerun --yes").replace("$KEY", NO_RECORD);
    table.run(&line).exits(3);
    assert_eq!(table.record_count().await, 1);
}

#[tokio::test]
async fn a_large_response_is_stored_in_the_form_of_large_responses() {
    let table = Table::held().await;
    let response = format!("\"{}\"", "x".repeat(40_000));
    let command = table.command(&decide("--completed - --yes"));
    finish(command, response.as_str()).exits(0);
    assert!(table.item().await.contains_key("data_zstd"));
    let shown = table.run("get $KEY --json --show-data").json(0);
    assert_eq!(shown["data"], response.as_str());
}
