//! The list of kinds.

use super::super::*;
use crate::process::tests::only;

#[test]
fn an_unknown_store_or_client_is_refused_with_the_known_names() {
    for (name, value, remedy) in [
        (
            STORE,
            "redis",
            "write one of `dynamodb`, `postgres`, `valkey`, `memory`",
        ),
        #[cfg(feature = "dynamodb")]
        ("IDEMPOTENCY_CLIENT", "fast", "write one of `lean`, `sdk`"),
    ] {
        let error = check(&only(name, value)).unwrap_err().to_string();
        let start = format!("{name} is `{value}`: {remedy}");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn a_store_whose_feature_is_off_is_refused_with_the_name_of_the_feature() {
    let linked: Vec<_> = kinds::<dyn Store>().map(|kind| kind.name).collect();
    for name in OF_FEATURES {
        let error = kind::<dyn Store>(&only(STORE, name)).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        let names_it = text.contains(&format!("without the feature `{name}`"));
        assert_eq!(names_it, !linked.contains(&name), "{text}");
    }
}

#[cfg(feature = "dynamodb")]
#[test]
fn the_variables_of_a_table_are_known_without_the_feature_too() {
    assert_eq!(
        TABLE_VARIABLES,
        idempotency_dynamodb::TableConfig::VARIABLES
    );
}

#[test]
fn a_variable_of_the_table_is_never_reported_as_misspelt() {
    let table = TABLE_VARIABLES
        .iter()
        .map(|name| ((*name).to_owned(), "x".to_owned()));
    let of_stores: Vec<_> = variables().collect();
    assert_eq!(Variables::from_iter(table).unknown(&of_stores), []);
}
