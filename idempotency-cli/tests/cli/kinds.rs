//! Another kind of store than DynamoDB: `shelf`, a store in a file, which the list has under a hidden feature.

use std::path::PathBuf;
use std::process::Command;

use idempotency_lambda::{BoxError, Context, LambdaEvent, idempotent};
use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
use serde_json::{Value, json};

use crate::{EARLY, KEY, LATE, Ran, Table, command, finish};

/// The variable that names the file of the store.
const SHELF: &str = "TESTS_SHELF_FILE";
/// The variable that makes a test a function: how it starts.
const START: &str = "TESTS_START";

#[idempotent(
    key = "order_id",
    key_required = "all",
    key_prefix = "shop",
    store_event = "all"
)]
async fn charge(order: LambdaEvent<Value>) -> Result<String, BoxError> {
    Ok(format!("charged {}", order.payload["order_id"]))
}

/// Starts as a function does. In the test run it does nothing.
#[tokio::test]
async fn the_function() {
    match std::env::var(START).as_deref() {
        Ok("run") => idempotency_lambda::run(charge).await.unwrap(),
        Ok(_) => {
            idempotency_lambda::init().await.unwrap();
            let event = LambdaEvent::new(json!({ "order_id": 7 }), Context::default());
            assert_eq!(charge(event).await.unwrap(), "charged 7");
        }
        Err(_) => {}
    }
}

/// Returns this program as a function with the store.
fn function(start: &str, file: &PathBuf) -> Command {
    let mut function = Command::new(std::env::current_exe().unwrap());
    function.args(["kinds::the_function", "--exact", "--nocapture"]);
    function.env(START, start).env("IDEMPOTENCY_STORE", "shelf");
    function.env(SHELF, file);
    function
}

/// Returns a path where no file is.
fn file(name: &str) -> PathBuf {
    let name = format!("shelf.{name}.{}", std::process::id());
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&file);
    file
}

/// Runs the command on the store.
fn on_shelf(line: &str, file: &PathBuf) -> Ran {
    let mut command = command(line);
    command.env("IDEMPOTENCY_STORE", "shelf").env(SHELF, file);
    finish(command, "")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_finds_what_a_function_has_stored_in_a_store_of_another_kind() {
    for start in ["init", "run"] {
        let file = file(start);
        if start == "init" {
            assert!(function(start, &file).status().unwrap().success());
        } else {
            let function = FunctionSpec::new("charge", function(start, &file));
            let lambda = LocalLambda::start(function).await.unwrap();
            lambda.invoke(r#"{"order_id":7}"#).await.unwrap();
        }
        let stored: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let key = stored["id"].as_str().unwrap();
        let on_key = |line: &str| on_shelf(&line.replace("KEY", key), &file);
        let get = on_key("get KEY --json --show-data --event").json(0);
        assert_eq!(
            (&get["state"], &get["data"]),
            (&json!("completed"), &json!("\"charged 7\""))
        );
        assert_eq!(get["event"], r#"{"order_id":7}"#);
        on_key("evict KEY --yes").exits(0);
        let place = format!("\nstore        shelf `{}`\n", file.display());
        on_key("get KEY").fails(3, &place);
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn held_keys_of_a_store_of_another_kind_are_listed_and_resolved() {
    let file = file("held");
    let claim = |id: &str, lease: i64| {
        let claim = json!({
            "id": id, "status": "INPROGRESS", "owner": "0707", "operation": "shop::charge",
            "expiration": LATE, "in_progress_expiration": lease * 1_000,
        });
        format!("{claim}\n")
    };
    let claims = claim(KEY, EARLY) + &claim("shop#live", LATE);
    std::fs::write(&file, claims).unwrap();

    let name = format!("shelf `{}`", file.display());
    let ran = on_shelf("list --held", &file).exits(4);
    ran.complains(&name).complains("10000 records");
    let listed =
        on_shelf("list --held --yes --json", &file).complains("read 2 items: the end of the store");
    let listed = listed.json(0);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["keys"][0]["key"], &listed["keys"][0]["state"]),
        (&json!(KEY), &json!("held"))
    );
    assert_eq!(listed.get("read_units"), None);

    let decide = "resolve $KEY --completed 8 --by ana --reason paid";
    on_shelf(decide, &file)
        .fails(4, &name)
        .complains("no response of `shop` among 1000 items");
    on_shelf(&format!("{decide} --yes"), &file).exits(0);
    on_shelf("get $KEY --json --show-data", &file).prints(r#""data": "8""#);
    on_shelf("list --held --yes", &file)
        .exits(0)
        .complains("read 2 items");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn an_event_of_another_store_is_sent_only_to_an_endpoint_that_is_set() {
    let file = file("invoked");
    let claim = json!({
        "id": KEY, "status": "INPROGRESS", "owner": "0707", "operation": "shop::charge", "expiration": LATE,
        "in_progress_expiration": EARLY * 1_000, "event": r#"{"all":{}}"#,
    });
    std::fs::write(&file, format!("{claim}\n")).unwrap();
    let replay = |endpoint: Option<&str>| {
        let mut command = command("replay $KEY --invoke charge --yes");
        command.env("IDEMPOTENCY_STORE", "shelf").env(SHELF, &file);
        command.env("AWS_REGION", "eu-west-1");
        command
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "s");
        command.envs(endpoint.map(|endpoint| ("AWS_ENDPOINT_URL_LAMBDA", endpoint)));
        finish(command, "")
    };
    replay(None)
        .fails(2, &format!("the records are in shelf `{}`", file.display()))
        .complains("would be invoked at https://lambda.eu-west-1.amazonaws.com; set AWS_ENDPOINT_URL_LAMBDA");
    // Here it is set, and no Lambda is there.
    replay(Some("http://127.0.0.1:1")).fails(1, "the function `charge` was not invoked: ");
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn a_command_says_which_kinds_of_stores_it_is_about() {
    let file = file("other");
    for line in ["table check", "table create"] {
        on_shelf(line, &file).fails(2, "is about a table of DynamoDB or PostgreSQL");
    }
    on_shelf("expire", &file)
        .fails(2, "DynamoDB (by its TTL, see `idempotency table check`) and Valkey delete expired records by themselves");
    for line in [
        "cost",
        "plan --rate 1/h --lifetime 1h",
        "table template --format sam",
    ] {
        on_shelf(line, &file)
            .exits(0)
            .complains("about DynamoDB alone, and IDEMPOTENCY_STORE is `shelf`");
    }
    let with = |kind: &str| {
        let mut command = command("get $KEY");
        command.env("IDEMPOTENCY_STORE", kind);
        command.env("IDEMPOTENCY_TABLE", "idempotency");
        finish(command, "")
    };
    with("memory").fails(2, "its records are in the process of the function");
    // It opens in a test alone.
    with("shelf").fails(2, "is for the tests of this crate alone");
    with("redis").fails(
        2,
        "IDEMPOTENCY_STORE is `redis`: write one of `dynamodb`, `postgres`, `valkey`, `memory`",
    );
    // A table is one of DynamoDB.
    let table = Table::held().await;
    let mut command = table.command("get $KEY --table idempotency");
    command.env("IDEMPOTENCY_STORE", "memory");
    finish(command, "").exits(0);
}

#[test]
fn a_kind_adds_at_most_ten_lines_outside_of_its_own_code() {
    let files = [
        include_str!("../../Cargo.toml"),
        include_str!("../../../Cargo.toml"),
        include_str!("../../../idempotency-lambda/Cargo.toml"),
        include_str!("../../../idempotency-lambda/src/stores/mod.rs"),
        include_str!("../../../idempotency-lambda/src/stores/tests/mod.rs"),
    ];
    let lines = files.iter().flat_map(|file| file.lines());
    let of_shelf = lines.filter(|line| line.contains("shelf")).count();
    // Also a member of the workspace with its version, and its optional dependency.
    assert!((1..=7).contains(&of_shelf), "{of_shelf}");
}

#[test]
fn the_documentation_has_each_feature_but_that_of_the_tests() {
    let manifest = include_str!("../../../idempotency-lambda/Cargo.toml");
    let section = |name: &str| {
        let (_, section) = manifest.split_once(&format!("[{name}]\n")).unwrap();
        section.split("\n[").next().unwrap()
    };
    let documented = section("package.metadata.docs.rs");
    let features = section("features").lines().skip(1);
    let features = features.filter_map(|line| line.split_once(" = ["));
    for (name, _) in features {
        let is_documented = documented.contains(&format!("\"{name}\""));
        assert_eq!(is_documented, !name.starts_with("__"), "{name}");
    }
    assert!(!documented.contains("all-features"), "{documented}");
}
