//! `idempotency get --event` and `idempotency replay`.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;

use crate::records::{EARLY, KEY, LATE, NO_RECORD, text, with};
use crate::run_on_table;

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
    assert!(
        ran.stdout.contains(&format!("event        {EVENT}\n")),
        "{ran:?}"
    );
    let json = shown(&["get", KEY, "--event", "--json"]).json();
    assert_eq!(json["event"], EVENT);
    assert_eq!(json["event_is_whole"], true);
}

#[tokio::test]
async fn a_part_of_an_event_is_marked_as_such() {
    let database = keeping(Some(text("{\"selected\":[7,\"\u{9b}2J\"]}"))).await;
    let ran = run_on_table(&database, &["get", KEY, "--event"]);
    // A character that controls the terminal is not shown.
    let line = "event part   [7,\" 2J\"]\n";
    assert!(ran.stdout.contains(line), "{ran:?}");
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
    let ran = run_on_table(&database, &["replay", KEY]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("keeps no event"), "{ran:?}");
    assert_eq!(
        run_on_table(&database, &["get", KEY, "--event"]).code,
        Some(0)
    );
    assert_eq!(
        run_on_table(&database, &["replay", NO_RECORD]).code,
        Some(3)
    );
    let database = keeping(Some(AttributeValue::Bool(true))).await;
    let ran = run_on_table(&database, &["replay", KEY]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr
            .contains("cannot be read: it was not written by this framework"),
        "{ran:?}"
    );
}
