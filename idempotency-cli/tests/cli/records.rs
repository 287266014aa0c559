//! `idempotency get`, `get --event`, `replay` and `evict`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::{Fault, TableSpec};
use serde_json::json;

use crate::{EARLY, KEY, LATE, NO_RECORD, Ran, Table, command, finish, start, text};

#[tokio::test]
async fn the_command_has_the_credentials_of_a_profile_and_names_one_that_has_none() {
    let table = Table::held().await;
    let config = std::env::temp_dir().join(format!("profiles-{}", std::process::id()));
    let process = r#"echo '{"Version":1,"AccessKeyId":"a","SecretAccessKey":"s"}'"#;
    std::fs::write(
        &config,
        format!("[profile p]\ncredential_process = {process}\n"),
    )
    .unwrap();
    let run = |profile: &str| {
        let mut command = table.command("get $KEY");
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", &config)
            .env("AWS_PROFILE", profile);
        finish(command, "")
    };
    run("p").exits(0);
    run("nope").fails(1, "the profile `nope` (AWS_PROFILE)");
    std::fs::remove_file(config).unwrap();
}

#[tokio::test]
async fn a_missing_record_has_its_own_exit_code() {
    let table = Table::held().await;
    let missing = format!("there is no record `{NO_RECORD}`");
    for verb in ["get", "evict", "replay"] {
        table.run(&format!("{verb} {NO_RECORD}")).fails(3, &missing);
    }
    let found = table.run(&format!("get {NO_RECORD} --json")).json(3);
    assert_eq!(found, json!({ "found": false, "key": NO_RECORD }));
    // A missing table is a failure, and not a missing record.
    let no_table = Table::new(None).await.run("get $KEY");
    no_table.fails(1, "there is no DynamoDB table `idempotency`");
}

#[tokio::test]
async fn evict_deletes_a_completed_record_or_an_expired_claim_only_after_confirmation() {
    for status in ["COMPLETED", "INPROGRESS"] {
        let table = Table::with(status, LATE, EARLY).await;
        table.run("evict $KEY").fails(4, "add `--yes`");
        assert_eq!(table.record_count().await, 1);
        let evicted = table.run("evict $KEY --yes --json").json(0);
        assert_eq!(evicted, json!({ "evicted": true, "key": KEY }));
        assert_eq!(table.record_count().await, 0);
    }
}

#[tokio::test]
async fn evict_rejects_a_live_claim_without_force() {
    let table = Table::with("INPROGRESS", LATE, LATE).await;
    table.run("evict $KEY --yes").fails(4, "is a live claim");
    assert_eq!(table.record_count().await, 1);
    table.run("evict $KEY --yes --force").exits(0);
    assert_eq!(table.record_count().await, 0);
}

#[tokio::test]
async fn a_record_that_changed_after_it_was_shown_is_not_evicted() {
    let table = Table::with("COMPLETED", LATE, EARLY).await;
    let held = table.inject(Fault::on("DeleteItem").hold());
    let child = start(table.command("evict $KEY --yes"));
    held.reached().await;
    table.take_over().await;
    held.release().await;
    Ran::from(child.wait_with_output().unwrap()).fails(4, "changed after it was shown");
    assert_eq!(table.record_count().await, 1);
}

#[tokio::test]
async fn an_eviction_whose_reply_was_lost_succeeds() {
    let table = Table::with("COMPLETED", LATE, EARLY).await;
    table.inject(Fault::on("DeleteItem").drop_reply());
    table.run("evict $KEY --yes").exits(0);
    assert_eq!(table.record_count().await, 0);
}

#[tokio::test]
async fn a_composite_key_needs_the_value_of_its_partition_key() {
    let spec = TableSpec::new("shared").partition_key("pk");
    let table = Table::new(spec.with_sort_key("sk")).await;
    let item = [
        ("pk", text("idempotency#shop")),
        ("sk", text(KEY)),
        ("state", text("COMPLETED")),
    ];
    table.put("shared", item).await.unwrap();
    let get = |function: Option<&str>| {
        let mut command = command("get $KEY --table shared --json");
        command
            .envs(table.environment())
            .env("IDEMPOTENCY_KEY_ATTR", "pk")
            .env("IDEMPOTENCY_SORT_KEY_ATTR", "sk")
            .env("IDEMPOTENCY_STATUS_ATTR", "state");
        command.envs(function.map(|name| ("AWS_LAMBDA_FUNCTION_NAME", name)));
        finish(command, "")
    };
    assert_eq!(get(Some("shop")).json(0)["status"], "COMPLETED");
    get(Some("other")).exits(3);
    let error = get(None).json(2)["error"].to_string();
    assert!(error.contains("IDEMPOTENCY_STATIC_PK_VALUE"), "{error}");
}

#[tokio::test]
async fn a_text_that_cannot_be_a_key_is_refused_and_not_reported_as_a_missing_record() {
    let table = Table::with("COMPLETED", LATE, EARLY).await;
    let (_, digest) = KEY.split_once('#').unwrap();
    let piece = format!("{KEY}#{}.0003", "0".repeat(64));
    for (key, remedy) in [
        (format!("{KEY}\nvalidation  {digest}"), "line break"),
        (digest.to_owned(), "write the whole key"),
        (format!("#{digest}"), "write the whole key"),
        ("shop#42b7".to_owned(), "32, 40, 56, 64, 96 or 128"),
        (format!("{KEY}0"), "32, 40, 56, 64, 96 or 128"),
        (KEY.to_uppercase(), "lower-case"),
        (piece, "give the key of its record"),
    ] {
        for line in [
            "get KEY --json",
            "evict KEY --yes",
            "replay KEY",
            "resolve KEY --rerun --by a --reason b --yes",
        ] {
            let line = line.replace("KEY", &format!("'{key}'"));
            table.run(&line).fails(2, remedy);
        }
    }
    // A table can have records of Powertools for TypeScript, whose digests are base64.
    table.run("get shop#hWAM/qKPJg9u2jTBUH5bRA==").exits(3);
    assert_eq!(table.record_count().await, 1);
}

/// Ten years and a minute, in seconds: a claim under `hold` is kept for at least ten years after its lease.
const HELD: i64 = 315_360_060;

#[tokio::test]
async fn the_state_says_whether_a_claim_is_held_failed_or_freed() {
    let freed = "an operator decided that its run had no effect";
    for (window, failure, state, said) in [
        (EARLY + HELD, None, "held", "held: "),
        (LATE, None, "held", "held: "),
        (EARLY + 3_600, None, "lease_over", "its lease has expired"),
        (LATE, Some("Declined"), "failed", "its run failed"),
        (LATE, Some("ResolvedByOperator"), "freed", freed),
    ] {
        let table = Table::with("INPROGRESS", window, EARLY).await;
        table.set("failure", failure.map(text)).await;
        assert_eq!(table.run("get $KEY --json").json(0)["state"], state);
        table.run("get $KEY").prints(said);
    }
}

#[tokio::test]
async fn a_question_shows_table_region_account_and_endpoint() {
    let table = Table::held().await;
    table.set("event", text("{\"all\":{}}")).await;
    let endpoint = table.endpoint();
    for line in [
        "evict $KEY",
        "resolve $KEY --rerun --by a --reason b",
        "replay $KEY --invoke charge",
        "list --held",
    ] {
        let mut command = table.command(line);
        command.env("AWS_ENDPOINT_URL_LAMBDA", "http://ana:s3cr3t@127.0.0.1:1");
        let mut ran = finish(command, "").exits(4).hides("s3cr3t");
        for shown in [
            "table        `idempotency` (IDEMPOTENCY_TABLE)\n",
            "region       eu-central-1 (AWS_REGION)\n",
            "account      0000",
            endpoint,
        ] {
            ran = ran.complains(shown);
        }
        let of_lambda = ran.stderr.contains("http://127.0.0.1:1");
        assert_eq!(of_lambda, line.starts_with("replay"), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

const EVENT: &str = r#"{"order_id": 7, "card": "4242"}"#;

async fn with_event(event: &str) -> Table {
    let table = Table::held().await;
    table.set("event", text(event)).await;
    table
}

#[tokio::test]
async fn the_event_is_shown_only_on_request() {
    let table = with_event(&format!("{{\"all\":{EVENT}}}")).await;
    for line in ["get $KEY", "get $KEY --json"] {
        table.run(line).exits(0).hides("4242");
    }
    let shown = format!("event        {EVENT}\n");
    table.run("get $KEY --event").prints(&shown);
    let ran = table.run("replay $KEY");
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{EVENT}\n")));
    for line in ["get $KEY --event --json", "replay $KEY --json"] {
        let json = table.run(line).json(0);
        assert_eq!(json["event"], EVENT);
        assert_eq!(json["event_is_whole"], true);
    }
}

#[tokio::test]
async fn a_part_of_an_event_is_marked_as_such() {
    let table = with_event("{\"selected\":[7,\"\u{9b}2J\"]}").await;
    // A character that controls the terminal is shown as an escape.
    let shown = table.run("get $KEY --event");
    shown.prints("event part   [7,\"\\u009b2J\"]\n");
    for line in ["get $KEY --event --json", "replay $KEY --json"] {
        assert_eq!(table.run(line).json(0)["event_is_whole"], false);
    }
}

#[tokio::test]
async fn a_record_without_an_event_that_can_be_read_is_a_failure() {
    let table = Table::held().await;
    table.run("replay $KEY").fails(1, "keeps no event");
    table.run("get $KEY --event").exits(0);
    table.set("event", AttributeValue::Bool(true)).await;
    let unreadable = "cannot be read: it was not written by this framework";
    table.run("replay $KEY").fails(1, unreadable);
}

/// Characters that a terminal does not show: they move the cursor, forge a line, or reverse the order of letters.
const HIDDEN: &str = "\u{1b}[2J\u{9b}\u{7f}\r\n\t\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{e0041}";

#[tokio::test]
async fn no_attribute_of_a_record_reaches_the_terminal_with_hidden_characters() {
    let table = Table::held().await;
    let forged = format!("a{HIDDEN}\nwindow ends  never");
    let json = |value: &str| serde_json::to_string(&json!({ "b": value })).unwrap();
    let trace = json!({ "at": 1, "by": forged, "decided": "rerun", "reason": forged });
    let steps = [(forged.clone(), text(&json(&forged)))].into();
    for (name, value) in [
        ("owner", text(&forged)),
        ("validation", text(&forged)),
        ("operation", text(&forged)),
        ("decision", text(&trace.to_string())),
        ("steps", AttributeValue::M(steps)),
        ("event", text(&format!("{{\"all\":{}}}", json(&forged)))),
        ("data", text(&json(&forged))),
    ] {
        table.set(name, value).await;
    }
    let ask = "--by a --reason b";
    for (status, failure) in [
        ("INPROGRESS", None),
        ("COMPLETED", Some(&forged)),
        (&*forged, None),
    ] {
        table.set("status", text(status)).await;
        table
            .set("failure", failure.map(|failure| text(failure)))
            .await;
        for line in [
            "get $KEY --show-data --event",
            "list --held --yes",
            "evict $KEY",
            "replay $KEY",
            "replay $KEY --invoke charge",
            &format!("resolve $KEY --rerun {ask}"),
            &format!("resolve $KEY --completed 1 --owner 1 {ask}"),
        ] {
            let mut command = table.command(&format!("{line} --color always"));
            command.env("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:1");
            let ran = finish(command, "");
            let shown = format!("{}{}", ran.stdout, ran.stderr);
            let styles = [
                "\u{1b}[0m",
                "\u{1b}[1m",
                "\u{1b}[31m",
                "\u{1b}[32m",
                "\u{1b}[33m",
            ];
            let shown = styles
                .iter()
                .fold(shown, |shown, style| shown.replace(style, ""));
            let raw = |each: char| HIDDEN.contains(each) && !"[2J\n".contains(each);
            assert!(!shown.contains(raw), "{line}: {shown:?}");
            let forged = shown
                .lines()
                .filter(|line| line.starts_with("window ends  never"));
            assert_eq!(forged.count(), 0, "{line}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_key_with_hidden_characters_is_listed_with_escapes_and_refused_with_them() {
    let table = Table::held().await;
    table.set("id", text(&format!("it's\u{202e}{KEY}"))).await;
    let listed = table.run("list --held --yes --read-units 0").exits(0);
    listed.hides("\u{202e}").prints("it's\\u202eshop#");
    let refused = command(&format!("get '\u{1b}[2J{KEY}'"));
    finish(refused, "")
        .fails(2, "another hidden character")
        .hides("\u{1b}");
}

#[test]
fn a_key_is_refused_with_what_stood_before_it_where_it_was_copied() {
    for before in [" ", "\u{a0}", "key          "] {
        let copied = command(&format!("get '{before}{KEY}'"));
        finish(copied, "").fails(2, "it has blanks before the key");
    }
}

/// Starts a server that responds to each request as DynamoDB does, with this date and item. Returns its address.
fn dynamodb_at(date: &'static str, item: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while stream.read_line(&mut line).unwrap() > 2 {
                let header = std::mem::take(&mut line).to_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let body = format!("{{\"Item\":{item}}}");
            let response = format!(
                "HTTP/1.1 200 OK\r\ndate: {date}\r\nx-amzn-requestid: r-1\r\ncontent-type: application/x-amz-json-1.0\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.get_mut().write_all(response.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn a_lease_is_judged_by_the_clock_of_dynamodb_and_not_by_a_wrong_one_of_this_machine() {
    // The date of DynamoDB, and when the lease of a claim ends: in 2090, and in 2020.
    for (date, lease, state, evicts, differs) in [
        (
            "Fri, 01 Jan 2100 00:00:00 GMT",
            "3786912000000",
            "held",
            0,
            "behind DynamoDB's",
        ),
        (
            "Sat, 01 Jan 2000 00:00:00 GMT",
            "1577836800000",
            "live",
            4,
            "ahead of DynamoDB's",
        ),
    ] {
        let claim = format!(
            r#"{{"id":{{"S":"{KEY}"}},"status":{{"S":"INPROGRESS"}},"owner":{{"S":"0707"}},
            "in_progress_expiration":{{"N":"{lease}"}},"expiration":{{"N":"32503680000"}}}}"#
        );
        let address = dynamodb_at(date, claim);
        let run = |line: &str| {
            let mut command = command(line);
            command
                .env("AWS_ENDPOINT_URL", &address)
                .env("AWS_REGION", "eu-central-1");
            command
                .env("AWS_ACCESS_KEY_ID", "k")
                .env("AWS_SECRET_ACCESS_KEY", "s");
            command.env("IDEMPOTENCY_TABLE", "idempotency");
            finish(command, "")
        };
        let shown = run("get $KEY --json");
        assert_eq!(shown.json(0)["state"], state, "{shown:?}");
        assert_eq!(shown.stderr.matches(differs).count(), 1, "{shown:?}");
        run("evict $KEY --yes").exits(evicts);
    }
}
