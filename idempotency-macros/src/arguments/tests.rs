//! Tests of the attribute's arguments.

use super::*;

/// Returns the names of the settings that could be read, and the errors.
fn read(arguments: &str) -> (Vec<String>, Vec<String>) {
    let arguments = Arguments::parse(arguments.parse().unwrap());
    (
        arguments
            .all
            .iter()
            .map(|setting| setting.name.to_string())
            .collect(),
        arguments.errors.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn no_arguments_are_no_settings_and_no_errors() {
    assert_eq!(read(""), (vec![], vec![]));
}

#[test]
fn a_comma_after_the_last_setting_is_accepted() {
    assert_eq!(
        read("key = \"a\", local_cache = 2,").0,
        ["key", "local_cache"]
    );
}

#[test]
fn a_comma_inside_a_closure_or_generics_does_not_end_the_setting() {
    let (names, errors) = read("on_replay = |r, _| r, payload = f::<A, B>(x), lease = \"1m\"");
    assert_eq!((names.len(), errors.len()), (3, 0), "{errors:?}");
}

#[test]
fn a_missing_comma_is_an_error_and_hides_no_setting() {
    let (names, errors) = read("key = \"a\" lease = \"1m\" local_cache = 3");
    assert_eq!(names, ["key", "lease", "local_cache"]);
    assert_eq!(
        errors,
        [
            "write a comma between the value of `key` and this setting",
            "write a comma between the value of `lease` and this setting"
        ]
    );
    // A value may have the name of a setting.
    let (names, errors) = read("payload = key, store = store");
    assert_eq!((names.len(), errors.len()), (2, 0), "{errors:?}");
    let (names, errors) = read("key = KEY key_prefix = \"p\"");
    assert_eq!((names.len(), errors.len()), (2, 1), "{errors:?}");
}

#[test]
fn a_setting_without_a_value_is_an_error_that_shows_an_example() {
    for arguments in [
        "key",
        "key, lease = \"1m\"",
        "key(\"a\")",
        "key =",
        "key = , lease = \"1m\"",
    ] {
        let (_, errors) = read(arguments);
        assert_eq!(
            errors,
            ["`key` needs a value: write `key = \"order_id\"`"],
            "{arguments}"
        );
    }
}

#[test]
fn the_configuration_page_names_every_setting_and_no_other() {
    let page = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/reference/configuration.md"
    ));
    // Each setting has a section of its name. The sections of HTTP and of batches are tables.
    let (sections, _) = page.split_once("\n## HTTP").unwrap();
    let headings = sections
        .lines()
        .filter_map(|line| line.strip_prefix("### "));
    let mut on_page: Vec<_> = headings
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect();
    let mut known: Vec<_> = SettingRow::of(Scope::Every).map(|row| row.name).collect();
    on_page.sort_unstable();
    known.sort_unstable();
    assert_eq!(on_page, known);
}

#[test]
fn each_setting_is_documented() {
    let documentation = include_str!("../idempotent.md");
    for SettingRow { name, .. } in SettingRow::of(Scope::Every) {
        let row = format!("\n| `{name}` | ");
        assert_eq!(documentation.matches(&row).count(), 1, "{name}");
    }
}

#[test]
fn a_shape_is_read_at_any_place_and_is_no_setting() {
    for arguments in [
        "http, key = \"a\"",
        "key = \"a\", http",
        "key = \"a\", http,",
    ] {
        let read = Arguments::parse(arguments.parse().unwrap());
        assert!(read.errors.is_empty(), "{arguments}");
        assert_eq!(read.all.len(), 1, "{arguments}");
        assert_eq!(read.shape.unwrap().shape, Shape::Http);
    }
}

#[test]
fn a_shape_that_is_written_twice_is_one_error() {
    let (names, errors) = read("http, http, key = \"a\"");
    assert_eq!(names, ["key"]);
    assert_eq!(errors, ["`http` is written twice: leave one out"]);
}

#[test]
fn a_shape_with_a_value_is_no_setting() {
    let (_, errors) = read("http = true");
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("unknown setting `http`"),
        "{errors:?}"
    );
}

#[test]
fn a_comma_is_missing_before_a_shape() {
    let (names, errors) = read("key = \"a\" http");
    assert_eq!(names, ["key"]);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("write a comma"), "{errors:?}");
}

#[test]
fn sharing_among_callers_needs_no_value() {
    for arguments in [
        "shared_by_all_callers",
        "shared_by_all_callers, http",
        "shared_by_all_callers = true",
    ] {
        let read = Arguments::parse(arguments.parse().unwrap());
        assert!(read.errors.is_empty(), "{arguments}");
        let value = quote::ToTokens::to_token_stream(&read.all[0].value);
        assert_eq!(value.to_string(), "true", "{arguments}");
    }
}
