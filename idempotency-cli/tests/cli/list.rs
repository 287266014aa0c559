//! `idempotency list --held`.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use serde_json::{Value, json};

use crate::records::{EARLY, LATE, number, text};
use crate::{Ran, on_table, run, run_on_table};

/// Returns the id of a record with this number.
fn id(number: usize) -> String {
    format!("shop.charge#{number:032}")
}

/// Starts a table with a composite key or without, and puts `count` held claims into it, beside records that are not held.
async fn with_held(count: usize, is_composite: bool) -> EmbeddedDynamoDb {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableSpec::new("idempotency");
    let table = if is_composite {
        table.with_sort_key("sk")
    } else {
        table
    };
    database.create_table(table).await.unwrap();
    let late = LATE * 1_000;
    let early = EARLY * 1_000;
    let others = [
        ("COMPLETED", early, None),
        ("INPROGRESS", late, None),
        ("INPROGRESS", early, Some("Declined")),
    ];
    let held = std::iter::repeat_n(("INPROGRESS", early, None), count);
    for (number_of, (status, lease, failure)) in held.chain(others).enumerate() {
        let own = |name: &str| {
            let item: Vec<(&str, AttributeValue)> = if is_composite {
                vec![("id", text(name)), ("sk", text(&id(number_of)))]
            } else {
                vec![("id", text(&id(number_of)))]
            };
            let more = [
                ("status", text(status)),
                ("expiration", number(LATE)),
                ("in_progress_expiration", number(lease)),
                ("operation", text("shop::charge")),
                ("data", text(&"x".repeat(40_000))),
            ];
            let failure = failure.map(|failure| ("failure", text(failure)));
            item.into_iter().chain(more).chain(failure)
        };
        database
            .put("idempotency", own("idempotency#shop"))
            .await
            .unwrap();
        if is_composite {
            database
                .put("idempotency", own("idempotency#other"))
                .await
                .unwrap();
        }
    }
    database
}

fn list(database: &EmbeddedDynamoDb, is_composite: bool, more: &[&str]) -> Ran {
    let mut command = on_table(database, &[&["list", "--held", "--yes"], more].concat());
    if is_composite {
        command
            .env("IDEMPOTENCY_SORT_KEY_ATTR", "sk")
            .env("IDEMPOTENCY_STATIC_PK_VALUE", "idempotency#shop");
    }
    run(command)
}

/// Returns the ids of the keys in the output, in the order of their names.
fn keys(found: &Value) -> Vec<String> {
    let keys = found["keys"].as_array().unwrap().iter();
    let mut keys: Vec<_> = keys
        .map(|key| key["key"].as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn held_keys_are_found_and_nothing_else() {
    for is_composite in [false, true] {
        let database = with_held(2, is_composite).await;
        let ran = list(&database, is_composite, &["--json"]);
        ran.exits(0);
        let found = ran.json();
        assert_eq!(keys(&found), [id(0), id(1)]);
        let first = &found["keys"][0];
        assert_eq!(first["state"], "held");
        assert_eq!(first["operation"], "shop::charge");
        assert_eq!(first["in_progress_expiration_time"], "2020-09-13T12:26:40Z");
        assert_eq!(found["after"], json!(null));
        let ran = list(&database, is_composite, &[]);
        let lines: Vec<_> = ran.stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{ran:?}");
        assert!(lines.iter().all(|line| line.starts_with("shop.charge#")));
        ran.complains("read units");
    }
}

#[tokio::test]
async fn a_scan_ends_at_its_bound_and_goes_on_where_it_ended() {
    for is_composite in [false, true] {
        // 53 items of 40 KB: a page of DynamoDB has at most 1 MB.
        let database = with_held(50, is_composite).await;
        let (mut found, mut runs) = (Vec::new(), 0);
        let mut after: Option<String> = None;
        loop {
            let mut more = vec!["--json", "--read-units", "1"];
            if let Some(after) = &after {
                more.extend(["--after", after]);
            }
            let page = list(&database, is_composite, &more).json();
            found.extend(keys(&page));
            runs += 1;
            match page["after"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => break,
            }
        }
        found.sort();
        assert_eq!(found, (0..50).map(id).collect::<Vec<_>>());
        assert!(runs > 1, "one run reads a part of the table");
    }
}

#[tokio::test]
async fn the_cost_is_shown_and_confirmed_before_anything_is_read() {
    let database = with_held(1, false).await;
    let ran = run_on_table(&database, &["list", "--held"]);
    ran.exits(4);
    assert_eq!(ran.stdout, "");
    for shown in ["read units", "4 items", "add `--yes`"] {
        ran.complains(shown);
    }
    run_on_table(&database, &["list", "--yes"]).exits(2);
}
