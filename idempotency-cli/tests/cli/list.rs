//! `idempotency list --held`.

use idempotency_testkit::dynamodb::{Fault, TableSpec};
use serde_json::{Value, json};

use crate::{EARLY, LATE, Ran, Table, finish, number, text};

/// Returns the id of a record with this number.
fn id(number: usize) -> String {
    format!("shop.charge#{number:032}")
}

/// Returns a table with a composite key or without, with `count` held claims beside records that are not held.
pub(crate) async fn with_held(count: usize, is_composite: bool) -> Table {
    let spec = TableSpec::new("idempotency");
    let (spec, partitions) = match is_composite {
        true => (spec.with_sort_key("sk"), vec!["idempotency#shop", "other"]),
        false => (spec, vec![""]),
    };
    let table = Table::new(spec).await;
    let (early, late) = (EARLY * 1_000, LATE * 1_000);
    let others = [
        ("COMPLETED", early, None),
        ("INPROGRESS", late, None),
        ("INPROGRESS", early, Some("Declined")),
    ];
    let held = std::iter::repeat_n(("INPROGRESS", early, None), count);
    for (number_of, (status, lease, failure)) in held.chain(others).enumerate() {
        for partition in &partitions {
            let key = match is_composite {
                true => vec![("id", text(partition)), ("sk", text(&id(number_of)))],
                false => vec![("id", text(&id(number_of)))],
            };
            let more = [
                ("status", text(status)),
                ("expiration", number(LATE)),
                ("in_progress_expiration", number(lease)),
                ("operation", text("shop::charge")),
                ("data", text(&"x".repeat(40_000))),
            ];
            let failure = failure.map(|failure| ("failure", text(failure)));
            let item = key.into_iter().chain(more).chain(failure);
            table.put("idempotency", item).await.unwrap();
        }
    }
    table
}

fn list(table: &Table, is_composite: bool, more: &str) -> Ran {
    let mut command = table.command(&format!("list --held --yes {more}"));
    if is_composite {
        command
            .env("IDEMPOTENCY_SORT_KEY_ATTR", "sk")
            .env("IDEMPOTENCY_STATIC_PK_VALUE", "idempotency#shop");
    }
    finish(command, "")
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
        let table = with_held(2, is_composite).await;
        let found = list(&table, is_composite, "--json").json(0);
        assert_eq!(keys(&found), [id(0), id(1)]);
        let first = &found["keys"][0];
        assert_eq!(first["state"], "held");
        assert_eq!(first["operation"], "shop::charge");
        assert_eq!(first["in_progress_expiration_time"], "2020-09-13T12:26:40Z");
        assert_eq!(found["after"], json!(null));
        let ran = list(&table, is_composite, "").complains("read units");
        let lines: Vec<_> = ran.stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{ran:?}");
        assert!(lines.iter().all(|line| line.starts_with("shop.charge#")));
    }
}

#[tokio::test]
async fn a_listing_stops_at_its_read_units_and_goes_on_after_the_last_item() {
    for is_composite in [false, true] {
        // 53 items of 40 KB: a page of DynamoDB has at most 1 MB.
        let table = with_held(50, is_composite).await;
        let (mut found, mut runs) = (Vec::new(), 0);
        let mut more = "--json --read-units 1".to_owned();
        loop {
            let page = list(&table, is_composite, &more).json(0);
            found.extend(keys(&page));
            runs += 1;
            let Some(next) = page["after"].as_str() else {
                break;
            };
            more = format!("--json --read-units 1 --after {next}");
        }
        found.sort();
        assert_eq!(found, (0..50).map(id).collect::<Vec<_>>());
        assert!(runs > 1, "one run reads a part of the table");
    }
}

#[tokio::test]
async fn a_listing_that_fails_prints_what_it_found_with_its_error_in_one_object() {
    let table = with_held(50, false).await;
    for (failing, keys_are_found) in [(1, false), (2, true)] {
        let fault = Fault::on("Scan").nth(failing).always();
        table.inject(fault.respond_with(400, "AccessDeniedException"));
        let ran = list(&table, false, "--json").hides("error:");
        let found = ran.json(1);
        let error = found["error"].as_str().unwrap();
        assert!(error.contains("is denied"), "{error}");
        assert_ne!(keys(&found).is_empty(), keys_are_found, "{found}");
        assert_eq!(found["after"].is_string(), keys_are_found, "{found}");
        ran.complains(": not the whole table: ");
        table.clear_faults();
    }
}

#[tokio::test]
async fn a_listing_of_a_table_whose_key_has_another_name_fails() {
    // One page, and several.
    for count in [1, 50] {
        let spec = TableSpec::new("idempotency").partition_key("pk");
        let table = Table::new(spec).await;
        for number_of in 0..count {
            let item = [
                ("pk", text(&id(number_of))),
                ("status", text("INPROGRESS")),
                ("expiration", number(LATE)),
                ("in_progress_expiration", number(EARLY * 1_000)),
                ("data", text(&"x".repeat(40_000))),
            ];
            table.put("idempotency", item).await.unwrap();
        }
        list(&table, false, "")
            .fails(1, "the attribute `id`")
            .complains("set IDEMPOTENCY_KEY_ATTR")
            .hides("the end of the table");
        let mut named = table.command("list --held --yes --json --read-units 1000");
        named.env("IDEMPOTENCY_KEY_ATTR", "pk");
        assert_eq!(keys(&finish(named, "").json(0)).len(), count);
    }
}

#[tokio::test]
async fn the_cost_is_shown_and_confirmed_before_anything_is_read() {
    let ran = with_held(1, false).await.run("list --held").exits(4);
    let ran = ran.complains("read units").complains("4 items");
    assert_eq!(ran.complains("add `--yes`").stdout, "");
}

#[tokio::test]
async fn a_claim_without_a_lease_is_listed_and_its_state_is_not_that_of_a_call_that_runs() {
    for lease in [None, Some(text("soon"))] {
        let table = Table::held().await;
        table.set("in_progress_expiration", lease).await;
        let listed = list(&table, false, "--json").json(0);
        assert_eq!(listed["keys"][0]["state"], "no_lease", "{listed}");
        list(&table, false, "").prints("no_lease  no lease  shop::charge");
        table
            .run("get $KEY")
            .exits(0)
            .prints("a claim without a lease");
        table
            .run("evict $KEY --yes")
            .fails(4, "is a claim without a lease");
        table.run("evict $KEY --yes --force").exits(0);
    }
}
