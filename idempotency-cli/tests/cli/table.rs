//! `idempotency table create` and `idempotency table check`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use idempotency_testkit::dynamodb::{Fault, TableSpec};

use crate::{Ran, Table, command, finish};

/// Checks the result of one check, and that its detail has this text.
#[track_caller]
fn finds(ran: &Ran, check: &str, result: &str, text: &str) {
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let mut findings = json["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["check"] == check).unwrap();
    assert_eq!(finding["result"], result, "{finding}");
    let detail = finding["detail"].as_str().unwrap();
    assert!(detail.contains(text), "{text}: {finding}");
}

#[tokio::test]
async fn a_table_with_a_sort_key_and_other_names_is_created_and_checked() {
    let table = Table::new(None).await;
    let on_shared = |action: &str| {
        let mut command = command(&format!("table {action} --table shared --json"));
        command
            .envs(table.environment())
            .env("IDEMPOTENCY_KEY_ATTR", "pk")
            .env("IDEMPOTENCY_SORT_KEY_ATTR", "sk")
            .env("IDEMPOTENCY_EXPIRY_ATTR", "ends");
        finish(command, "").exits(0)
    };
    let created = on_shared("create").json(0);
    assert_eq!(created["sort_key"], "sk", "{created}");
    assert_eq!(created["ttl"], "ends");
    let checked = on_shared("check");
    let keys = "partition key `pk` (S), sort key `sk` (S)";
    finds(&checked, "keys", "ok", keys);
    finds(&checked, "ttl", "ok", "on `ends`");
}

#[tokio::test]
async fn every_fault_of_a_table_is_reported() {
    let missing = Table::new(None).await.run("table check").exits(1);
    missing.prints("create it with `idempotency table create`");

    let other = TableSpec::new("idempotency").partition_key("pk").ttl(None);
    let ran = Table::new(other).await.run("table check --json");
    assert_eq!(ran.json(1)["ok"], false);
    let keys = "partition key `pk` (S), not partition key `id` (S)";
    finds(&ran, "keys", "wrong", keys);
    finds(&ran, "ttl", "wrong", "");
    finds(&ran, "dynamodb:PutItem", "unknown", "");

    let other = TableSpec::new("idempotency").ttl("in_progress_expiration");
    let ran = Table::new(other).await.run("table check --json");
    let ttl = "on `in_progress_expiration`, not on `expiration`";
    finds(&ran, "ttl", "wrong", ttl);
}

#[tokio::test]
async fn a_denied_action_is_reported_without_the_others() {
    let table = Table::new(TableSpec::new("idempotency")).await;
    table.inject(Fault::on("UpdateItem").respond_with(400, "AccessDeniedException"));
    let ran = table.run("table check --prefix pay --json").exits(1);
    finds(&ran, "dynamodb:UpdateItem", "wrong", "");
    let tried = "allowed for these credentials on `pay#table-check`";
    finds(&ran, "dynamodb:GetItem", "ok", tried);
    finds(&ran, "dynamodb:DeleteItem", "ok", tried);
    assert_eq!(table.record_count().await, 0, "the check wrote something");
}

#[tokio::test]
async fn a_policy_that_only_reads_the_id_of_a_start_is_not_called_wrong() {
    let denied = |table: &Table, action| {
        table.inject(Fault::on(action).respond_with(400, "AccessDeniedException"));
    };
    let table = Table::new(TableSpec::new("idempotency")).await;
    denied(&table, "PutItem");
    let ran = table.run("table check --json").exits(0);
    let says = "denied on `#warm-up`, which a function only reads: add `--prefix PREFIX`";
    finds(&ran, "dynamodb:PutItem", "unknown", says);
    finds(&ran, "dynamodb:GetItem", "ok", "on `#warm-up`");

    // Credentials that cannot read it are no such policy.
    denied(&table, "GetItem");
    denied(&table, "PutItem");
    let ran = table.run("table check --json").exits(1);
    finds(&ran, "dynamodb:PutItem", "wrong", "");

    // All ids of a table with a sort key have one partition key.
    let spec = TableSpec::new("idempotency").with_sort_key("sk");
    let shared = Table::new(spec).await;
    denied(&shared, "PutItem");
    let mut check = shared.command("table check --json");
    check.env("IDEMPOTENCY_SORT_KEY_ATTR", "sk");
    let ran = finish(check, "").exits(1);
    finds(&ran, "dynamodb:PutItem", "wrong", "");
}

/// Starts a server that responds to each request with 200, these headers and an empty object. Returns its address.
fn server(headers: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = BufReader::new(connection.unwrap());
            let mut line = String::new();
            while connection.read_line(&mut line).unwrap_or(0) > 2 {
                line.clear();
            }
            // Its body is not read. The client may have closed the connection.
            let reply = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\n\r\n{{}}");
            let _ = connection.get_mut().write_all(reply.as_bytes());
            let _ = connection.fill_buf();
        }
    });
    address
}

#[tokio::test]
async fn a_server_that_is_not_dynamodb_passes_no_check() {
    let table = Table::new(TableSpec::new("idempotency")).await;
    let gateway = "x-amzn-requestid: 1\r\ncontent-type: application/json\r\n";
    let without_a_table = "x-amzn-requestid: 1\r\ncontent-type: application/x-amz-json-1.0\r\n";
    for headers in ["", gateway, without_a_table] {
        let mut check = table.command("table check");
        check.env("AWS_ENDPOINT_URL_DYNAMODB", server(headers));
        let ran = finish(check, "");
        ran.fails(1, "is not from DynamoDB: check the endpoint and proxies");
    }
}
