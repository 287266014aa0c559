//! `idempotency key --jsonl`: one result for each line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use idempotency_core::key::{HashAlgorithm, Json};
use serde_json::{Value, json};

use crate::{Ran, command, run_on, start};

fn jsonl(options: &[&str], input: impl Into<Vec<u8>>) -> Ran {
    run_on(
        command(&[&["key", "--jsonl"], options].concat()),
        input.into(),
    )
}

/// Returns the results, one per line. They are ASCII, so lone surrogates are escaped and our JSON reader accepts them.
fn results(ran: &Ran) -> Vec<Json> {
    ran.exits(0);
    assert!(ran.stdout.is_ascii());
    ran.stdout
        .lines()
        .map(|line| Json::parse(line).unwrap())
        .collect()
}

fn text<'a>(json: &'a Json, name: &str) -> &'a str {
    json.member(name).and_then(Json::as_str).unwrap_or_default()
}

fn json_text(text: &str) -> String {
    Json::Str(text.into()).to_canonical()
}

/// Returns one line with these members, whose values are JSON text.
fn line(members: &[(&str, String)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(name, value)| format!("\"{name}\": {value}"))
        .collect();
    format!("{{{}}}\n", members.join(", "))
}

fn vectors() -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/python_keys.json");
    Json::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_python_vector_has_its_key_text_and_validation() {
    let file = vectors();
    let Some(Json::Array(vectors)) = file.member("vectors") else {
        panic!("no vectors")
    };
    assert_eq!(vectors.len(), 187);
    for hash in [HashAlgorithm::Md5, HashAlgorithm::Sha256] {
        let lines: String = vectors
            .iter()
            .map(|vector| {
                line(&[
                    ("event", vector.member("event").unwrap().to_canonical()),
                    ("expression", json_text(text(vector, "expression"))),
                    ("validate", json_text(text(vector, "validation_expression"))),
                ])
            })
            .collect();
        let prefix = text(&file, "prefix");
        let options = ["--prefix", prefix, "--hash", hash.name()];
        let mut key = command(&[&["key", "--jsonl"], &options[..]].concat());
        key.env("IDEMPOTENCY_PYTHON_NUMBERS", "true");
        let ran = run_on(key, lines.into());
        let results = results(&ran);
        assert_eq!(results.len(), vectors.len());
        for (vector, result) in vectors.iter().zip(&results) {
            let id = text(vector, "id");
            match text(vector, "outcome") {
                "error" => assert!(result.member("error").is_some(), "{id}"),
                "skipped_no_key" => {
                    assert_eq!(result.member("no_key"), Some(&Json::Bool(true)), "{id}")
                }
                _ => {
                    let digest = text(vector, hash.name());
                    assert_eq!(text(result, "key"), format!("{prefix}#{digest}"), "{id}");
                    assert_eq!(result.member("text"), vector.member("serialized"), "{id}");
                    if hash == HashAlgorithm::Md5 {
                        assert_eq!(
                            text(result, "validation"),
                            text(vector, "validation_hash"),
                            "{id}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn options_are_the_defaults_for_the_settings_of_a_line() {
    let event = json_text(r#"{"a": 1, "b": 2}"#);
    let input = [
        line(&[("event", event.clone())]),
        line(&[
            ("event", event.clone()),
            ("expression", "\"\"".to_owned()),
            ("validate", "\"\"".to_owned()),
        ]),
        line(&[
            ("event", event.clone()),
            ("prefix", "\"q\"".to_owned()),
            ("hash", "\"SHA256\"".to_owned()),
        ]),
        line(&[
            ("event", event),
            ("expression", "null".to_owned()),
            ("id", "7".to_owned()),
        ]),
    ];
    let ran = jsonl(&["-e", "a", "-p", "p", "--validate", "b"], input.concat());
    let results = results(&ran);
    let md5 = |text: &str| HashAlgorithm::Md5.hex(text);
    let sha256 = |text: &str| HashAlgorithm::Sha256.hex(text);
    let expected = |key: String, text: &str, validation: Value| {
        let json = json!({ "key": key, "text": text, "validation": validation });
        Json::parse(&json.to_string()).unwrap()
    };
    assert_eq!(
        results[0],
        expected(format!("p#{}", md5("1")), "1", md5("2").into())
    );
    let whole = r#"{"a": 1, "b": 2}"#;
    assert_eq!(
        results[1],
        expected(format!("p#{}", md5(whole)), whole, Value::Null)
    );
    assert_eq!(
        results[2],
        expected(format!("q#{}", sha256("1")), "1", sha256("2").into())
    );
    assert_eq!(results[3], results[0]);
}

#[test]
fn half_surrogate_pairs_in_the_event_are_kept_whether_escaped_or_not() {
    let input = [r#"{"event": "\"\\ud83d\""}"#, r#"{"event": "\"\ud83d\""}"#].join("\n");
    let ran = jsonl(&[], input);
    let texts: Vec<_> = results(&ran)
        .iter()
        .map(|result| text(result, "text").to_owned())
        .collect();
    assert_eq!(texts, [r#""\ud83d""#; 2]);
}

#[test]
fn every_bad_line_has_an_error_at_its_position() {
    let good = br#"{"event": "1"}"#.to_vec();
    let long = |name: &str, value: &str| {
        line(&[("event", "\"1\"".to_owned()), (name, json_text(value))]).into_bytes()
    };
    let bad: Vec<(Vec<u8>, &str)> = vec![
        (b"{".to_vec(), "invalid JSON"),
        (b"".to_vec(), "the line is empty"),
        (b" \t\r".to_vec(), "the line is empty"),
        (
            b"[1]".to_vec(),
            "the line is not an object but of type array",
        ),
        (b"{}".to_vec(), "`event` is missing"),
        (br#"{"event": null}"#.to_vec(), "`event` is of type null"),
        (
            br#"{"event": {"a": 1}}"#.to_vec(),
            "`event` is of type object",
        ),
        (br#"{"event": "{"}"#.to_vec(), "`event`: invalid JSON"),
        (
            br#"{"event": "1", "hash": "md6"}"#.to_vec(),
            "`hash`: unknown hash algorithm",
        ),
        (
            br#"{"event": "1", "hash": 5}"#.to_vec(),
            "`hash` is of type number",
        ),
        (
            br#"{"event": "1", "prefix": "\ud800"}"#.to_vec(),
            "half of a surrogate pair",
        ),
        (
            br#"{"event": "1", "prefix": "a#tenant=b"}"#.to_vec(),
            "leave out `#tenant=`",
        ),
        (
            br#"{"event": "1", "expression": "a.[b"}"#.to_vec(),
            "`expression`: invalid JMESPath",
        ),
        (
            br#"{"event": "1", "expression": "keys(@)"}"#.to_vec(),
            "`keys` takes an object",
        ),
        (
            br#"{"event": "1", "validate": "nope(@)"}"#.to_vec(),
            "`validate`: invalid JMESPath",
        ),
        (b"{\"event\": \"\xff\"}".to_vec(), "not UTF-8 at byte 11"),
        (vec![0xff, 0xfe, 0x00], "not UTF-8 at byte 0"),
        (
            [b"{\"event\": \"".as_slice(), &[b'['; 100_000], b"\"}"].concat(),
            "`event`: invalid JSON",
        ),
        (vec![b'['; 1 << 20], "invalid JSON"),
        (
            long("expression", &"(".repeat(100_000)),
            "`expression` has more than 4096 bytes",
        ),
        (long("expression", &"a.".repeat(2_000)), "`expression`: "),
        (long("expression", &"[".repeat(4_000)), "`expression`: "),
        (long("validate", &"!".repeat(4_000)), "`validate`: "),
        (
            long("prefix", &"p".repeat(100_000)),
            "`prefix` has more than 4096 bytes",
        ),
        (long("prefix", &"p".repeat(513)), "write at most 512 bytes"),
        (
            vec![b'x'; (16 << 20) + 1],
            "the line has more than 16777216 bytes",
        ),
    ];
    let mut input = Vec::new();
    for (line, _) in &bad {
        input.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        input.push(b'\n');
        input.extend_from_slice(&good);
        input.push(b'\n');
    }
    // The last line may have no newline.
    input.pop();
    let ran = jsonl(&[], input);
    let results = results(&ran);
    assert_eq!(results.len(), 2 * bad.len());
    for (pair, (_, message)) in results.chunks(2).zip(&bad) {
        let error = text(&pair[0], "error");
        assert!(error.contains(message), "{error} does not say: {message}");
        assert_eq!(text(&pair[1], "text"), "1", "after: {message}");
    }
}

#[test]
fn each_result_is_printed_before_the_next_line_is_read() {
    let mut child = start(command(&["key", "--jsonl"]));
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for number in 0..3 {
        writeln!(stdin, "{{\"event\": \"{number}\"}}").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(
            text(&Json::parse(&line).unwrap(), "text"),
            number.to_string()
        );
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_closed_output_ends_the_command_without_an_error_text() {
    let mut child = start(command(&["key", "--jsonl"]));
    drop(child.stdout.take());
    // The first result is written to the closed pipe.
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"{\"event\": \"1\"}\n")
        .unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
}

#[test]
fn empty_input_has_empty_output() {
    assert_eq!(jsonl(&[], "").stdout, "");
}
