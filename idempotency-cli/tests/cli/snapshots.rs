//! What each command prints, word for word: a file in `snapshots` has lines of a shell, and after each what it prints.
//!
//! `SNAPSHOTS=write cargo test -p idempotency-cli snapshots` writes the files anew.

use std::process::Command;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::TableSpec;

use crate::{EARLY, KEY, LATE, Table, command, finish, number, text};

/// A part of a stored response. A line without `--show-data` must not print it, also when the files are written anew.
const PAYLOAD: &str = "4242";

/// Runs the lines of a file that begin with `$ `, and checks that the file has what they print. What goes to standard error stands
/// after `! `, and an exit code other than 0 in brackets.
#[track_caller]
pub(crate) fn check(name: &str, command: impl Fn(&str) -> Command, hidden: &[(&str, &str)]) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli");
    let path = format!("{folder}/snapshots/{name}.txt");
    let expected = std::fs::read_to_string(&path).unwrap();
    let mut found = String::new();
    for line in expected.lines().filter(|line| line.starts_with("$ ")) {
        let (input, words) = match line.split_once(" | ") {
            Some((echo, words)) => (echo.trim_start_matches("$ echo ").trim_matches('\''), words),
            None => ("", &line[2..]),
        };
        let (variables, words) = words.split_once("idempotency ").unwrap();
        let mut command = command(words);
        let variables = variables.split_whitespace();
        command.envs(variables.map(|variable| variable.split_once('=').unwrap()));
        command.env("COLUMNS", "80").current_dir(folder);
        let ran = finish(command, input);
        let errors = ran.stderr.lines().map(|line| format!("! {line}\n"));
        let mut printed = stable(&(ran.stdout + &errors.collect::<String>()));
        for (value, name) in hidden {
            printed = printed.replace(value, name);
        }
        let is_hidden = line.contains("--show-data") || !printed.contains(PAYLOAD);
        assert!(is_hidden, "{line}: the payload is shown\n{printed}");
        let code = ran.code.filter(|code| *code != 0);
        let code = code.map(|code| format!("[{code}]\n")).unwrap_or_default();
        found += &format!("{line}\n{printed}{code}\n");
    }
    if std::env::var("SNAPSHOTS").as_deref() == Ok("write") {
        std::fs::write(path, found).unwrap();
        return;
    }
    let pairs = found.lines().zip(expected.lines());
    let same = pairs.take_while(|(found, expected)| found == expected);
    let others: Vec<_> = found.lines().skip(same.count()).take(5).collect();
    let others = others.join("\n");
    assert!(found == expected, "{path}: it prints\n{others}");
}

/// Replaces what is another text each time: the distance of a time, the time of the test, a key of KMS. Shows styles as `\e`.
fn stable(output: &str) -> String {
    let is_distance = |word: &str| {
        let unit = word.trim_start_matches(|each: char| each.is_ascii_digit());
        unit != word && unit.chars().all(char::is_alphabetic) && !unit.is_empty()
    };
    let is_now = |word: &str| match word.len() {
        13 => word.starts_with('1') && word != "1600000000000",
        20 | 24 => word.ends_with('Z') && !["2020", "3000"].contains(&&word[..4]),
        _ => false,
    };
    let (mut words, mut after_time) = (Vec::<String>::new(), false);
    for word in output.replace('\u{1b}', "\\e").split(' ') {
        let bare = word.trim_matches(|each: char| !each.is_ascii_alphanumeric());
        if after_time && is_distance(bare) {
            let end = word.trim_start_matches(bare);
            match words.last_mut() {
                Some(last) if last == ".." => last.push_str(end),
                _ => words.push(format!("..{end}")),
            }
            continue;
        }
        after_time = bare.ends_with('Z') || (after_time && word == "in");
        words.push(match word.split_once(":key/") {
            // The embedded database chooses it.
            Some((of, key)) => format!("{of}:key/KEY{}", &key[36..]),
            None if is_now(bare) => word.replace(bare, "NOW"),
            None => word.to_owned(),
        });
    }
    words.join(" ")
}

/// Writes a record with more attributes than its status and its times.
async fn put(
    table: &Table,
    id: &str,
    status: &str,
    lease: Option<i64>,
    more: &[(&str, AttributeValue)],
) {
    let item = [
        ("id", text(id)),
        ("status", text(status)),
        ("expiration", number(LATE)),
        ("owner", text("0707")),
        ("operation", text("shop::charge")),
    ];
    let lease = lease.map(|lease| ("in_progress_expiration", number(lease * 1_000)));
    let item = item.into_iter().chain(lease).chain(more.iter().cloned());
    table.put("idempotency", item).await.unwrap();
}

/// Returns a table with a record in each state that an operator meets: their keys have a digit of their own.
async fn shop() -> Table {
    let table = Table::new(TableSpec::new("idempotency")).await;
    let data = text(&format!("{{\"card\":\"{PAYLOAD}\"}}"));
    put(&table, KEY, "COMPLETED", Some(EARLY), &[("data", data)]).await;
    let steps = [("charge", text("\"pay-17\"")), ("reserve", text("7"))];
    let steps = steps.map(|(name, result)| (name.to_owned(), result));
    let held = [
        ("steps", AttributeValue::M(steps.into())),
        ("event", text("{\"all\":{\"order_id\":7}}")),
    ];
    let failure = [("failure", text("Declined"))];
    for (digit, lease, more) in [
        ("1", Some(EARLY), held.as_slice()),
        ("2", Some(LATE), &[]),
        ("3", None, &[]),
        ("4", Some(EARLY), &failure),
        ("5", Some(EARLY), &[]),
    ] {
        let id = format!("shop#{}", digit.repeat(32));
        put(&table, &id, "INPROGRESS", lease, more).await;
    }
    table
}

#[test]
fn help() {
    check("help", command, &[]);
}

#[test]
fn keys_costs_and_plans() {
    check("computed", command, &[]);
}

#[tokio::test]
async fn records() {
    for name in ["records", "colours"] {
        let table = shop().await;
        let hidden = [(table.endpoint(), "ENDPOINT")];
        check(name, |line| table.command(line), &hidden);
    }
}

#[tokio::test]
async fn tables() {
    let table = Table::new(None).await;
    let hidden = [(table.endpoint(), "ENDPOINT")];
    check("tables", |line| table.command(line), &hidden);
    assert_eq!(table.record_count().await, 0, "the check wrote something");
}
