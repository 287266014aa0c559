//! The digest of the tape is that of the tree.

use super::*;
use crate::key::canonical::{CANONICAL, PYTHON_CANONICAL};
use crate::key::{Json, is_absent_key};

const LIMIT: usize = 64 * 1024 * 1024;

/// Checks that the digest is that of the tree, and returns true if the tape made it.
fn is_taken(text: &str) -> bool {
    let tree = Json::parse(text).unwrap();
    for (hash, layout) in [
        (HashAlgorithm::Md5, CANONICAL),
        (HashAlgorithm::Sha512, PYTHON_CANONICAL),
    ] {
        if let Some(digest) = digest(text.as_bytes(), hash, layout, LIMIT) {
            assert_eq!(digest, hash.hex(&tree.to_text(layout)), "{text}");
            assert!(!is_absent_key(&tree), "{text}");
        } else {
            return false;
        }
    }
    true
}

#[test]
fn each_form_of_value_is_written_as_in_the_tree() {
    for text in [
        "0",
        "-0",
        "42",
        "-1",
        "18446744073709551616",
        "0.5",
        "-0.0",
        "1e3",
        "1E-7",
        "1e400",
        "12345678901234567.89",
        "true",
        "false",
        "NaN",
        "Infinity",
        "-Infinity",
        r#""a""#,
        r#""é😀 ~""#,
        r#""\u00e9\ud83d\ude00\ud800 \n\/\"\\""#,
        "[1]",
        "[[[]], {}]",
        "[1, 2.50, \"x\", null, {\"a\": [true]}]",
        r#" { "b" : 1 , "a" : { "z" : [ ] , "y" : { } } } "#,
        r#"{"a": "\u0041"}"#,
        "\"\u{7f}\"",
    ] {
        assert!(is_taken(text), "{text}");
    }
}

#[test]
fn of_members_with_one_name_the_last_counts() {
    for text in [
        r#"{"z": 0, "a": 1, "a": 2}"#,
        r#"{"z": 0, "b": 1, "a": 2, "b": 3, "a": [4], "c": 5}"#,
        r#"{"z": 0, "a": {"x": 1}, "a": {"y": {"z": 1, "z": 2}}}"#,
    ] {
        assert!(is_taken(text), "{text}");
    }
    for members in [FEW - 1, FEW, FEW + 1, 100] {
        let names = (0..members).map(|number| format!("\"{}\": {number}", number * 7 % 40));
        let text = format!("{{\"z\": 0, {}}}", names.collect::<Vec<_>>().join(","));
        assert!(is_taken(&text), "{text}");
        let sorted =
            (0..members).map(|number| format!("\"{number:03}\": [{{\"b\": 1, \"a\": 2}}]"));
        let text = format!("{{{}}}", sorted.collect::<Vec<_>>().join(","));
        assert!(is_taken(&text), "{text}");
    }
}

#[test]
fn the_tree_decides_where_there_may_be_no_key() {
    for text in [
        "null",
        r#""""#,
        "[]",
        "{}",
        "[null]",
        r#"{"a": null}"#,
        "[null, null]",
        r#"{"a": 1, "a": null}"#,
        r#"{"a": null, "b": null}"#,
        r#"{"\u0061": 1}"#,
        r#"{"a": 1, "a": 2}"#,
    ] {
        assert!(!is_taken(text), "{text}");
    }
    for text in [
        "[null, 1]",
        r#"{"b": 1, "a": null}"#,
        r#"{"b": null, "b": 1, "a": null}"#,
        "[[null]]",
        r#"{"a": {}}"#,
    ] {
        assert!(is_taken(text), "{text}");
    }
}

#[test]
fn a_text_that_is_not_json_or_could_need_too_much_memory_is_left_to_the_tree() {
    for text in [
        "",
        "[1,]",
        "{\"a\" 1}",
        "[1] 2",
        "\u{feff}1",
        "\"\\x\"",
        "[01]",
        "nul",
        &"[".repeat(200),
    ] {
        assert_eq!(
            digest(text.as_bytes(), HashAlgorithm::Md5, CANONICAL, LIMIT),
            None,
            "{text}"
        );
    }
    let text = format!("[{}]", vec!["0"; 100].join(","));
    assert!(
        digest(
            text.as_bytes(),
            HashAlgorithm::Md5,
            CANONICAL,
            TREE_BYTES * text.len()
        )
        .is_some()
    );
    assert_eq!(
        digest(
            text.as_bytes(),
            HashAlgorithm::Md5,
            CANONICAL,
            TREE_BYTES * text.len() - 1
        ),
        None
    );
}

#[test]
fn a_tree_takes_less_memory_than_the_limit_of_the_tape() {
    for (piece, count) in [
        ("0", 9),
        ("0", 17),
        ("0", 1025),
        ("[]", 1025),
        ("[0]", 1025),
        ("{}", 1025),
        ("\"\"", 1025),
        ("\"a\"", 1025),
        ("{\"\":0}", 1025),
        ("[[[0]]]", 1025),
        ("1e1", 1025),
        ("12345678901234567890", 1025),
    ] {
        let text = format!("[{}]", vec![piece; count].join(","));
        let mut budget = Budget::new(TREE_BYTES * text.len());
        assert!(
            Json::parse_within(text.as_bytes(), &mut budget).is_ok(),
            "{piece}"
        );
    }
}
