//! Canonical JSON: it reads back as itself, ignores order and spaces, keeps every digit, and equals a slow reference.
//!
//! Tokens: another record id or name has another token. The same two have the same token in every run.

use std::sync::Arc;

use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::engine::{Backend, Codec, Errors};
use idempotency_core::error::Error;
use idempotency_core::example::ready;
use idempotency_core::key::{HashAlgorithm, Json, is_absent_key};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::store::MemoryStore;
use idempotency_testkit::{ManualClock, SeededRandom};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::cases;
use super::strategies::{plain_tree, tree};

/// More than any text here needs.
const MEMORY: usize = 64 * 1024 * 1024;

/// Checks that the digests which are made while a text is written are those of its canonical text.
pub(crate) fn check_digests(text: &str) -> Result<(), TestCaseError> {
    let json = Json::parse(text);
    for hash in [
        HashAlgorithm::Md5,
        HashAlgorithm::Sha256,
        HashAlgorithm::Sha512,
    ] {
        // With much memory the digest is made without a tree, with little memory from a tree.
        for memory in [MEMORY, 39 * text.len() + 4_096] {
            let found = hash.hex_of_json(text, memory);
            match &json {
                Ok(json) => {
                    let whole = hash.hex(&json.to_canonical());
                    prop_assert_eq!(hash.hex_of(json), whole.clone());
                    prop_assert_eq!(found, Some(whole));
                }
                Err(_) => prop_assert_eq!(found, None),
            }
        }
    }
    let settings = Settings {
        key_required: Some(KeyRequired::No),
        key_prefix: Some("shop".into()),
        ..Settings::default()
    };
    let operation = CompiledOperation::new("charge", &settings, &Variables::default()).unwrap();
    if let (Ok(json), Ok(identity)) = (&json, operation.identify(text, None)) {
        let key = HashAlgorithm::Md5.hex(&json.to_canonical());
        let expected = (!is_absent_key(json)).then(|| format!("shop#{key}"));
        prop_assert_eq!(identity.key().map(|id| id.as_str().to_owned()), expected);
    } else {
        prop_assert!(json.is_err());
    }
    Ok(())
}

fn canonical(text: &str) -> String {
    Json::parse(text).unwrap().to_canonical()
}

/// Returns the canonical text, in code that is simple enough to check by reading.
fn reference(value: &Value) -> String {
    match value {
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(reference).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.chars().map(u32::from).collect::<Vec<_>>());
            let members: Vec<_> = members
                .into_iter()
                .map(|(name, value)| format!("{}: {}", escaped(name), reference(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::String(text) => escaped(text),
        plain => plain.to_string(),
    }
}

fn escaped(text: &str) -> String {
    let mut out = "\"".to_owned();
    for unit in text.encode_utf16() {
        out += &match unit {
            0x08 => "\\b".to_owned(),
            0x09 => "\\t".to_owned(),
            0x0a => "\\n".to_owned(),
            0x0c => "\\f".to_owned(),
            0x0d => "\\r".to_owned(),
            0x22 => "\\\"".to_owned(),
            0x5c => "\\\\".to_owned(),
            0x20..=0x7e => char::from_u32(unit.into()).unwrap().to_string(),
            _ => format!("\\u{unit:04x}"),
        };
    }
    out + "\""
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn canonical_text_equals_that_of_a_slow_reference(tree in plain_tree(), seed: u64) {
        let text = tree.text(seed);
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(canonical(&text), reference(&value));
    }

    #[test]
    fn canonical_text_reads_back_as_itself(tree in tree(), seed: u64) {
        let once = canonical(&tree.text(seed));
        prop_assert!(once.is_ascii());
        prop_assert_eq!(canonical(&once), once);
    }

    #[test]
    fn a_digest_is_that_of_the_canonical_text_with_members_of_one_name(
        members in vec(("[a-c]", tree()), 0..30),
        seed: u64,
    ) {
        let members = members.iter().map(|(name, tree)| format!("\"{name}\": {}", tree.text(seed)));
        check_digests(&format!("{{{}}}", members.collect::<Vec<_>>().join(",")))?;
    }

    #[test]
    fn the_order_of_members_and_spaces_do_not_change_the_canonical_text(tree in tree(), one: u64, other: u64) {
        prop_assert_eq!(canonical(&tree.text(one)), canonical(&tree.text(other)));
    }

    #[test]
    fn different_integers_have_different_canonical_texts(
        one in "-?(0|[1-9][0-9]{0,80})",
        position in any::<prop::sample::Index>(),
    ) {
        // Similar numbers: one digit changed, one digit more, the other sign, the same number as a float.
        let mut digits = one.clone().into_bytes();
        let at = position.index(digits.len());
        if digits[at] != b'-' {
            digits[at] = b'1' + (digits[at] - b'0') % 9;
        }
        let changed = String::from_utf8(digits).unwrap();
        let negated = one.strip_prefix('-').map_or_else(|| format!("-{one}"), str::to_owned);
        for other in [changed, format!("{one}0"), negated, format!("{one}.0")] {
            let zeros = ["0", "-0", "00", "-00"];
            if other == one || zeros.contains(&other.as_str()) {
                continue;
            }
            prop_assert_ne!(canonical(&one), canonical(&other), "{} and {}", one, other);
        }
    }

    #[test]
    fn a_number_with_a_fraction_keeps_its_digits_in_one_form(
        sign in "-?",
        digits in "[1-9][0-9]{0,40}",
        exponent in prop_oneof![-30..30_i64, any::<i32>().prop_map(i64::from)],
    ) {
        let (first, others) = digits.split_at(1);
        let one = canonical(&format!("{sign}{first}.{others}0E{exponent}"));
        let behind = exponent - i64::try_from(others.len()).unwrap();
        prop_assert_eq!(&canonical(&format!("{sign}{digits}e{behind}")), &one);
        prop_assert_eq!(&canonical(&one), &one);
        let mantissa = one.split('e').next().unwrap().replace(['-', '.'], "");
        prop_assert_eq!(mantissa.trim_matches('0'), digits.trim_end_matches('0'));
    }

    #[test]
    fn a_float_keeps_its_value(
        // At powers of two the distance to the next float changes.
        float in prop_oneof![
            any::<f64>(),
            (0..2_047_u64, 0..3_u64).prop_map(|(exponent, digits)| f64::from_bits(exponent << 52 | digits)),
        ],
    ) {
        prop_assert_eq!(canonical(&format!("{float:e}")).parse(), Ok(float));
    }

    #[test]
    fn any_integer_of_128_bits_keeps_its_digits(integer: i128) {
        prop_assert_eq!(canonical(&integer.to_string()), integer.to_string());
    }
}

/// What a token depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    prefix: String,
    tenant: Option<String>,
    key: String,
    name: String,
}

/// Short texts of few letters, so that two of them often differ only in where one part ends.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a1.]{0,3}", 1 => "\\PC{0,8}"]
}

fn source() -> impl Strategy<Value = Source> {
    let parts = ("[a1.]{1,3}", prop::option::of(text()), text(), text());
    parts.prop_map(|(prefix, tenant, key, name)| Source {
        prefix,
        tenant,
        key,
        name,
    })
}

/// Returns the token that a handler gets in a run on an empty store, and the id of its record.
fn token(source: &Source, seed: u64) -> (String, String) {
    let settings = Settings {
        key_prefix: Some(source.prefix.clone().into()),
        ..Settings::default()
    };
    let operation =
        CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    let backend = Backend::new(
        Arc::new(MemoryStore::new()),
        Arc::new(ManualClock::at(1_700_000_000_000)),
        Arc::new(SeededRandom::new(seed)),
    );
    let payload = [&source.key, "key"];
    let identity = operation
        .identify_value(&payload, source.tenant.as_deref())
        .unwrap();
    let run = operation.run(
        &backend,
        &identity,
        None,
        Codec::json(),
        Errors::new(|error| error),
        async |call| Ok::<_, Error>(call.token(&source.name).to_string()),
    );
    let token = ready(run).unwrap().into_response();
    (token, identity.key().unwrap().as_str().to_owned())
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn two_tokens_are_equal_only_if_id_and_name_are(one in source(), other in source(), seeds in any::<(u64, u64)>()) {
        let (first, first_id) = token(&one, seeds.0);
        let (second, second_id) = token(&other, seeds.1);
        let same = first_id == second_id && one.name == other.name;
        prop_assert_eq!(first == second, same, "{:?} and {:?}", one, other);
    }

    #[test]
    fn each_part_makes_another_token(source in source(), more in "[a1.]{1,3}", seeds in any::<(u64, u64)>()) {
        let (first, _) = token(&source, seeds.0);
        prop_assert_eq!(&token(&source, seeds.1).0, &first);
        let tenant = format!("{}{more}", source.tenant.as_deref().unwrap_or_default());
        for other in [
            Source { prefix: format!("{}{more}", source.prefix), ..source.clone() },
            Source { tenant: Some(tenant), ..source.clone() },
            Source { key: format!("{}{more}", source.key), ..source.clone() },
            Source { name: format!("{}{more}", source.name), ..source.clone() },
        ] {
            prop_assert_ne!(&token(&other, seeds.1).0, &first, "{:?}", other);
        }
        let longer = Source { key: format!("{}{more}", source.key), ..source.clone() };
        let moved = Source { name: format!("{more}{}", source.name), ..source };
        prop_assert_ne!(token(&longer, seeds.0).0, token(&moved, seeds.0).0);
    }
}
