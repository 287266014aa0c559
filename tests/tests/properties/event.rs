//! Events: each gives a key of fixed length or an error, the same each time.

use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::key::Json;
use idempotency_core::operation::CompiledOperation;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::cases;
use crate::strategies::{quoted, tree};

/// `{prefix}#{32 hex digits}`.
const KEY_BYTES: usize = "shop".len() + 1 + 32;

fn operation(key: Option<&str>) -> CompiledOperation {
    let settings = Settings {
        key: key.map(|key| key.to_owned().into()),
        validate: Some("@".into()),
        key_required: Some(KeyRequired::No),
        key_prefix: Some("shop".into()),
        ..Settings::default()
    };
    CompiledOperation::new("charge", &settings, &Variables::default()).unwrap()
}

fn operations() -> Vec<CompiledOperation> {
    [
        None,
        Some("a"),
        Some("[a, b.c, *]"),
        Some("powertools_json(body).[a, b]"),
        Some("powertools_json(powertools_base64(body))"),
        Some("powertools_json(powertools_base64_gzip(body))"),
        Some("body[?a > `0`].b[] | sort(@)"),
        Some("to_string(@)"),
    ]
    .map(operation)
    .into()
}

/// Checks that an event causes no panic, gives the same identity twice, and gives a key of fixed length.
fn check(event: &str) -> Result<(), TestCaseError> {
    for operation in operations() {
        match (
            operation.identify(event, None),
            operation.identify(event, None),
        ) {
            (Ok(one), Ok(two)) => {
                prop_assert_eq!(&one, &two);
                if let Some(key) = one.key() {
                    prop_assert_eq!(key.as_str().len(), KEY_BYTES);
                    prop_assert_eq!(one.validation().map(str::len), Some(32));
                }
            }
            (Err(one), Err(two)) => {
                prop_assert_eq!(one.to_string(), two.to_string());
                prop_assert!(one.to_string().len() < 500);
            }
            (one, two) => prop_assert!(false, "{:?} and then {:?}", one, two),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn any_bytes_give_a_key_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        check(&text)?;
        check(&format!("{{\"body\":{}}}", quoted(&text)))?;
    }

    #[test]
    fn anything_that_looks_like_json_gives_a_key_or_an_error(
        pieces in vec("[\\[\\]{},:\"\\\\]|null|true|-?[0-9.eE+-]{1,5}|\\\\u[0-9a-f]{0,4}|\"a\"|\"body\"| ", 0..40),
    ) {
        check(&pieces.concat())?;
    }

    #[test]
    fn any_json_gives_a_key_or_an_error(tree in tree(), seed: u64) {
        let text = tree.text(seed);
        check(&text)?;
        check(&format!("{{\"a\":{text},\"body\":{}}}", quoted(&text)))?;
    }

    #[test]
    fn the_order_of_members_and_spaces_change_neither_key_nor_validation(tree in tree(), one: u64, other: u64) {
        let operation = operation(None);
        let identity = |seed| operation.identify(&tree.text(seed), None).unwrap();
        prop_assert_eq!(identity(one), identity(other));
    }

    #[test]
    fn a_truncated_or_damaged_event_gives_a_key_or_an_error(
        tree in tree(),
        seed: u64,
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = tree.text(seed).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check(&String::from_utf8_lossy(&bytes))?;
        check(&String::from_utf8_lossy(&bytes[..at]))?;
    }
}

#[test]
fn deep_and_huge_events_do_not_overflow_the_stack() {
    for event in [
        "[".repeat(1_000_000),
        "{\"a\":".repeat(1_000_000),
        format!("{}{}", "[".repeat(128), "]".repeat(128)),
        format!("{}{}", "[".repeat(129), "]".repeat(129)),
        "9".repeat(1_000_000),
        format!("0.{}", "9".repeat(100_000)),
        format!("\"{}\"", "\\u0000".repeat(100_000)),
        format!("[{}0]", "0,".repeat(20_000)),
    ] {
        check(&event).unwrap();
    }
    assert!(Json::parse(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_ok());
    assert!(Json::parse(&format!("{}{}", "[".repeat(129), "]".repeat(129))).is_err());
}
