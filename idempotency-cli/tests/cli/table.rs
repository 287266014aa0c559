//! `idempotency table create` and `idempotency table check`.

use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use serde_json::Value;

use crate::{Ran, command, run, run_on_table};

/// Returns the result and the detail of one check.
fn result(ran: &Ran, check: &str) -> (String, String) {
    let json = ran.json();
    let findings = json["findings"].as_array().unwrap();
    let finding = findings
        .iter()
        .find(|finding| finding["check"] == check)
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&finding["result"]), text(&finding["detail"]))
}

fn passed(ran: &Ran, check: &str) -> bool {
    result(ran, check).0 == "ok"
}

#[tokio::test]
async fn a_table_that_was_created_passes_the_check_and_is_not_created_twice() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let created = run_on_table(&database, &["table", "create"]);
    created.exits(0);
    created.prints("partition key `id`, on demand, TTL on `expiration`");
    let ran = run_on_table(&database, &["table", "check", "--json"]);
    ran.exits(0);
    assert_eq!(ran.json()["ok"], true);
    for check in [
        "table",
        "keys",
        "billing",
        "ttl",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
    ] {
        assert!(passed(&ran, check), "{check}: {ran:?}");
    }
    assert!(
        database.items("idempotency").await.unwrap().is_empty(),
        "the check wrote something"
    );
    let again = run_on_table(&database, &["table", "create", "--json"]);
    again.exits(1);
    assert!(
        again.json()["error"]
            .as_str()
            .unwrap()
            .contains("the table `idempotency` exists already")
    );
}

#[tokio::test]
async fn a_table_with_a_sort_key_and_other_names_is_created_and_checked() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let on_shared = |action: &str| {
        let mut command = command(&["table", action, "--table", "shared", "--json"]);
        command
            .envs(database.environment())
            .env("IDEMPOTENCY_KEY_ATTR", "pk")
            .env("IDEMPOTENCY_SORT_KEY_ATTR", "sk")
            .env("IDEMPOTENCY_EXPIRY_ATTR", "ends");
        run(command)
    };
    let created = on_shared("create");
    assert_eq!(created.json()["sort_key"], "sk", "{created:?}");
    assert_eq!(created.json()["ttl"], "ends");
    let checked = on_shared("check");
    checked.exits(0);
    assert_eq!(
        result(&checked, "keys").1,
        "partition key `pk` (S), sort key `sk` (S)"
    );
    assert_eq!(result(&checked, "ttl").1, "on `ends`");
}

#[tokio::test]
async fn every_fault_of_a_table_is_reported() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let missing = run_on_table(&database, &["table", "check"]);
    missing.exits(1);
    missing.prints("create it with `idempotency table create`");

    let other = TableSpec::new("idempotency").partition_key("pk").ttl(None);
    database.create_table(other).await.unwrap();
    let ran = run_on_table(&database, &["table", "check", "--json"]);
    assert_eq!(
        (ran.code, &ran.json()["ok"]),
        (Some(1), &Value::Bool(false))
    );
    let (keys, detail) = result(&ran, "keys");
    assert_eq!(keys, "wrong");
    assert!(
        detail.contains("partition key `pk` (S), not partition key `id` (S)"),
        "{detail}"
    );
    assert_eq!(result(&ran, "ttl").0, "wrong");
    assert_eq!(result(&ran, "dynamodb:PutItem").0, "unknown");

    let database = EmbeddedDynamoDb::start().await.unwrap();
    let other = TableSpec::new("idempotency").ttl("in_progress_expiration");
    database.create_table(other).await.unwrap();
    let (ttl, detail) = result(
        &run_on_table(&database, &["table", "check", "--json"]),
        "ttl",
    );
    assert_eq!(ttl, "wrong");
    assert!(
        detail.contains("on `in_progress_expiration`, not on `expiration`"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_denied_action_is_reported_without_the_others() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database
        .create_table(TableSpec::new("idempotency"))
        .await
        .unwrap();
    database.inject(Fault::on("UpdateItem").respond_with(400, "AccessDeniedException"));
    let ran = run_on_table(&database, &["table", "check", "--json"]);
    ran.exits(1);
    assert_eq!(result(&ran, "dynamodb:UpdateItem").0, "wrong");
    assert!(passed(&ran, "dynamodb:DeleteItem"));
}
