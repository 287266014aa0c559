//! What an operator meets in a terminal: options in any place, colours, a closed pipe, Ctrl-C.

use std::io::{BufRead as _, BufReader, Read as _};

use idempotency_testkit::dynamodb::Fault;

use crate::list::with_held;
use crate::{EARLY, LATE, NO_RECORD, Ran, Table, command, finish, run, start};

#[tokio::test]
async fn global_options_stand_before_or_after_the_command() {
    let table = Table::with("COMPLETED", LATE, EARLY).await;
    for line in [
        "--json --table idempotency get $KEY",
        "--table idempotency get --json $KEY",
        "--table idempotency get --json $KEY --table idempotency",
        "get $KEY --table idempotency --json",
    ] {
        let mut command = command(line);
        command.envs(table.environment());
        assert_eq!(finish(command, "").json(0)["state"], "completed", "{line}");
    }
    for line in [
        "table template --format json --table shop",
        "--table shop table template --format json",
    ] {
        let resources = &run(line).json(0)["Resources"]["IdempotencyTable"];
        assert_eq!(resources["Properties"]["TableName"], "shop");
    }
    let of_the_function = run("--json --table shop key").json(2)["error"].to_string();
    assert!(
        of_the_function.contains("reads no table"),
        "{of_the_function}"
    );
    for line in [
        "table template --format sam --json",
        "completions bash --json",
        "man x --json",
    ] {
        run(line).exits(2).prints("leave out `--json`");
    }
    run("get $KEY --region eu-west-1").fails(2, "tip: set AWS_REGION instead");
}

#[tokio::test]
async fn an_error_names_the_sources_of_its_settings_but_no_secret() {
    let table = Table::held().await;
    let endpoint = table.endpoint();
    let mut command = table.command(&format!("get {NO_RECORD} --table idempotency"));
    command
        .env_remove("AWS_ENDPOINT_URL_DYNAMODB")
        .env(
            "AWS_ENDPOINT_URL",
            endpoint.replace("://", "://ana:s3cr3t@"),
        )
        .env_remove("AWS_REGION")
        .env("AWS_DEFAULT_REGION", "eu-west-1")
        .env("AWS_PROFILE", "shop");
    let ran = finish(command, "").exits(3).hides("s3cr3t");
    ran.complains("table        `idempotency` (--table)\n")
        .complains("region       eu-west-1 (AWS_DEFAULT_REGION)\n")
        .complains("profile      `shop` (AWS_PROFILE), but credentials from AWS_ACCESS_KEY_ID\n")
        .complains(&format!("endpoint     {endpoint} (AWS_ENDPOINT_URL)\n"));
}

#[tokio::test]
async fn an_error_claims_no_source_that_it_does_not_know() {
    let table = Table::held().await;
    let config = concat!(env!("CARGO_TARGET_TMPDIR"), "/sources.config");
    let profile =
        "[default]\nregion = eu-west-1\naws_access_key_id = A\naws_secret_access_key = B\n";
    std::fs::write(config, profile).unwrap();
    let mut command = table.command(&format!("get {NO_RECORD}"));
    command
        .env("AWS_CONFIG_FILE", config)
        .env_remove("AWS_REGION")
        .env_remove("AWS_SECRET_ACCESS_KEY");
    let ran = finish(command, "").exits(3);
    ran.complains("\nregion       eu-west-1 (the profile or the machine)\n")
        .complains("\nprofile      `default` or none (no AWS_PROFILE)\n");
}

#[tokio::test]
async fn colours_are_for_a_terminal_unless_an_option_or_a_variable_says_otherwise() {
    let table = Table::with("COMPLETED", LATE, EARLY).await;
    let colored = |line: &str, variables: &[&str]| {
        let mut command = table.command(line);
        command.envs(variables.iter().map(|name| (name, "1")));
        let ran = finish(command, "");
        format!("{}{}", ran.stdout, ran.stderr).contains('\u{1b}')
    };
    for (line, variables, expected) in [
        ("get $KEY", [].as_slice(), false),
        ("get $KEY --color always", &[], true),
        ("get $KEY --color always", &["NO_COLOR"], true),
        ("get $KEY --color always --json", &[], false),
        ("get $KEY", &["CLICOLOR_FORCE"], true),
        ("get $KEY", &["CLICOLOR_FORCE", "NO_COLOR"], false),
        ("get $KEY --color never", &["CLICOLOR_FORCE"], false),
        ("--color always get --help", &[], true),
        ("get --help", &[], false),
        ("get --color always", &[], true),
        ("get", &[], false),
    ] {
        assert_eq!(colored(line, variables), expected, "{line} {variables:?}");
    }
}

#[test]
fn shells_and_man_know_every_command() {
    let commands = [
        "key", "get", "replay", "resolve", "list", "evict", "table", "cost", "plan",
    ];
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let ran = run(&format!("completions {shell}"))
            .exits(0)
            .prints("read-units");
        // It is refused.
        let script = ran.hides("endpoint-url").stdout;
        assert!(commands.iter().all(|it| script.contains(it)), "{shell}");
    }
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/man");
    run(&format!("man {folder}")).exits(0);
    for name in commands.into_iter().chain(["table-check"]) {
        let page = std::fs::read_to_string(format!("{folder}/idempotency-{name}.1")).unwrap();
        let version = concat!("\"idempotency ", env!("CARGO_PKG_VERSION"), "\"");
        assert!(
            page.contains("Examples:") && page.contains(version),
            "{page}"
        );
    }
    run(&format!("man {folder}/idempotency.1/x")).fails(1, "cannot be written");
}

#[cfg(unix)]
#[tokio::test]
async fn a_listing_prints_what_it_finds_and_where_to_go_on_when_it_is_interrupted() {
    let table = with_held(50, false).await;
    for line in ["list --held --yes", "list --held --yes --json"] {
        // Each attempt of the second page.
        let held = table.inject(Fault::on("Scan").nth(2).always().hold());
        let mut child = start(table.command(line));
        held.reached().await;
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        if !line.ends_with("--json") {
            output.read_line(&mut first).unwrap();
            assert!(first.starts_with("shop.charge#"), "{first}");
        }
        let id = child.id().to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args(["-INT", &id]).status().unwrap().success());
        let ran = Ran::from(child.wait_with_output().unwrap());
        output.read_to_string(&mut first).unwrap();
        held.release().await;
        table.clear_faults();
        let (_, after) = ran.stderr.split_once("--after='").unwrap();
        let after = after.split('\'').next().unwrap().to_owned();
        ran.fails(
            130,
            ": interrupted, not the whole table: go on with `--after='",
        );
        let rest = table.run(&format!("{line} --after {after}")).exits(0);
        let keys =
            first.matches("shop.charge#").count() + rest.stdout.matches("shop.charge#").count();
        // The object has the key to go on after, too.
        assert_eq!(keys, 50 + usize::from(line.ends_with("--json")), "{line}");
    }
}

/// A file that takes no byte.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_page_that_cannot_be_printed_is_listed_again() {
    let table = with_held(50, false).await;
    let mut command = table.command("list --held --yes");
    let full = std::fs::File::options().write(true).open("/dev/full");
    command
        .stdout(full.unwrap())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.fails(1, "the output cannot be written")
        .complains(": not the whole table: list it again\n");
}

#[tokio::test]
async fn a_reader_that_ends_early_stops_a_listing_without_an_error() {
    let table = with_held(50, false).await;
    let mut child = start(table.command("list --held --yes"));
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.exits(1).hides("error").hides("panicked").hides("go on");
    let requests = table
        .requests()
        .iter()
        .filter(|it| it.operation == "Scan" && it.attempt == Some(1))
        .count();
    assert_eq!(requests, 1, "the rest is not read");
}
