//! `idempotency key --jsonl`: one result for each line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use idempotency_core::key::{HashAlgorithm, Json};

use crate::{Ran, command, finish, start};

/// Returns the results, one per line. They are ASCII, so lone surrogates are escaped and our JSON reader accepts them.
fn results(ran: &Ran) -> Vec<Json> {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.is_ascii());
    let lines = ran.stdout.lines();
    lines.map(|line| Json::parse(line).unwrap()).collect()
}

fn text<'a>(json: &'a Json, name: &str) -> &'a str {
    json.member(name).and_then(Json::as_str).unwrap_or_default()
}

fn json_text(text: &str) -> String {
    Json::Str(text.into()).to_canonical()
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
    let line = |vector: &Json| {
        let event = vector.member("event").unwrap().to_canonical();
        let expression = json_text(text(vector, "expression"));
        let validate = json_text(text(vector, "validation_expression"));
        format!("{{\"event\": {event}, \"expression\": {expression}, \"validate\": {validate}}}\n")
    };
    for hash in [HashAlgorithm::Md5, HashAlgorithm::Sha256] {
        let (prefix, name) = (text(&file, "prefix"), hash.name());
        let mut key = command(&format!("key --jsonl --prefix {prefix} --hash {name}"));
        key.env("IDEMPOTENCY_PYTHON_NUMBERS", "true");
        let lines: String = vectors.iter().map(line).collect();
        let results = results(&finish(key, lines));
        assert_eq!(results.len(), vectors.len());
        for (vector, result) in vectors.iter().zip(&results) {
            let id = text(vector, "id");
            match text(vector, "outcome") {
                "error" => assert!(result.member("error").is_some(), "{id}"),
                "skipped_no_key" => {
                    assert_eq!(result.member("no_key"), Some(&Json::Bool(true)), "{id}")
                }
                _ => {
                    let key = format!("{prefix}#{}", text(vector, name));
                    assert_eq!(text(result, "key"), key, "{id}");
                    assert_eq!(result.member("text"), vector.member("serialized"), "{id}");
                    if hash == HashAlgorithm::Md5 {
                        let expected = text(vector, "validation_hash");
                        assert_eq!(text(result, "validation"), expected, "{id}");
                    }
                }
            }
        }
    }
}

#[test]
fn options_are_the_defaults_for_the_settings_of_a_line() {
    let input = r#"{"event": "{\"a\": 1, \"b\": 2}"}
{"event": "{\"a\": 1, \"b\": 2}", "expression": "", "validate": ""}
{"event": "{\"a\": 1, \"b\": 2}", "prefix": "q", "hash": "SHA256"}
{"event": "{\"a\": 1, \"b\": 2}", "expression": null, "id": 7}"#;
    let ran = finish(command("key --jsonl -e a -p p --validate b"), input);
    let (md5, sha256) = (HashAlgorithm::Md5, HashAlgorithm::Sha256);
    let (one, two) = ("1".to_owned(), Some("2"));
    let whole = r#"{"a": 1, "b": 2}"#.to_owned();
    for (result, (prefix, hash, key, validation)) in results(&ran).iter().zip([
        ("p", md5, &one, two),
        ("p", md5, &whole, None),
        ("q", sha256, &one, two),
        ("p", md5, &one, two),
    ]) {
        assert_eq!(text(result, "key"), format!("{prefix}#{}", hash.hex(key)));
        assert_eq!(text(result, "text"), key);
        let validation = validation.map_or(Json::Null, |text| Json::Str(hash.hex(text).into()));
        assert_eq!(result.member("validation"), Some(&validation));
    }
    assert_eq!(ran.stdout.lines().count(), 4);
}

#[test]
fn half_surrogate_pairs_in_the_event_are_kept_whether_escaped_or_not() {
    let input = [r#"{"event": "\"\\ud83d\""}"#, r#"{"event": "\"\ud83d\""}"#].join("\n");
    let results = results(&finish(command("key --jsonl"), input));
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(text(&result, "text"), r#""\ud83d""#);
    }
}

#[test]
fn every_bad_line_has_an_error_at_its_position() {
    let rows = include_str!("bad_lines.txt").lines().skip(1);
    let rows = rows.map(|row| row.split_once(" | ").unwrap());
    let mut bad: Vec<_> = rows
        .map(|(line, message)| (line.as_bytes().to_vec(), message))
        .collect();
    let nested = [b"{\"event\": \"".as_slice(), &[b'['; 100_000], b"\"}"].concat();
    bad.extend([
        (b" \t\r".to_vec(), "the line is empty"),
        (b"{\"event\": \"\xff\"}".to_vec(), "not UTF-8 at byte 11"),
        (vec![0xff, 0xfe, 0x00], "not UTF-8 at byte 0"),
        (nested, "`event`: invalid JSON"),
        (vec![b'['; 1 << 20], "invalid JSON"),
    ]);
    for (name, part, times, message) in [
        (
            "expression",
            "(",
            100_000,
            "`expression` has more than 4096 bytes",
        ),
        ("expression", "a.", 2_000, "`expression`: "),
        ("expression", "[", 4_000, "`expression`: "),
        ("validate", "!", 4_000, "`validate`: "),
        ("prefix", "p", 100_000, "`prefix` has more than 4096 bytes"),
        ("prefix", "p", 513, "write at most 512"),
    ] {
        let value = json_text(&part.repeat(times));
        let line = format!("{{\"event\": \"1\", \"{name}\": {value}}}");
        bad.push((line.into_bytes(), message));
    }
    let too_long = "the line has more than 16777216 bytes";
    bad.push((vec![b'x'; (16 << 20) + 1], too_long));
    // The last line may have no newline.
    let lines: Vec<_> = bad
        .iter()
        .map(|(line, _)| [line, b"\n{\"event\": \"1\"}".as_slice()].concat())
        .collect();
    let results = results(&finish(command("key --jsonl"), lines.join(&b'\n')));
    assert_eq!(results.len(), 2 * bad.len());
    for (pair, (_, message)) in results.chunks(2).zip(&bad) {
        let error = text(&pair[0], "error");
        assert!(error.contains(message), "{error} does not say: {message}");
        assert_eq!(text(&pair[1], "text"), "1", "after: {message}");
    }
}

#[test]
fn each_result_is_printed_before_the_next_line_is_read() {
    let mut child = start(command("key --jsonl"));
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for number in 0..3 {
        writeln!(stdin, "{{\"event\": \"{number}\"}}").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let result = Json::parse(&line).unwrap();
        assert_eq!(text(&result, "text"), number.to_string());
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_closed_output_ends_the_command_without_an_error_text() {
    let mut child = start(command("key --jsonl"));
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // A process that another test starts can have the pipe open for a moment, so the first result may still be accepted.
    let mut write = || stdin.write_all(b"{\"event\": \"1\"}\n").is_ok();
    assert!(!(0..1_000_000).all(|_| write()));
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
}

#[test]
fn empty_input_has_empty_output() {
    assert_eq!(finish(command("key --jsonl"), "").stdout, "");
}
