//! Tests what `#[idempotent]` accepts, and its message for each mistake.
//!
//! | files | what is tested |
//! |---|---|
//! | `src/pass/*.rs` | the functions compile and run as part of this program, and the attribute adds no warning |
//! | `fail/*.cases` | the program does not compile; `fail/*.expected` has the messages and the places of its errors |
//!
//! Each case is a line of Rust. A line that is an attribute alone stands on the function behind the last `// on: `.
//!
//! Only the words of this project are compared: the messages of the macro, and the texts of `#[diagnostic::on_unimplemented]`.
//! The words of rustc may change with each release. They are left out: of an error in its words, the place and the code are compared.
//!
//! To write the `.expected` files after a change: `UI=overwrite cargo test -p idempotency-ui-tests`. Then read the difference.
//! To test with another compiler: `cargo +nightly test -p idempotency-ui-tests --target-dir target/nightly`.
#![allow(clippy::unwrap_used)]

mod compiler;
/// Functions that `#[idempotent]` accepts as they are.
pub mod pass {
    pub mod batches;
    pub mod call;
    pub mod constants;
    pub mod functions;
    pub mod handlers;
    pub mod http;
}
mod report;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use compiler::compile;
use report::{Texts, report};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the files in a folder that have this extension.
fn files(folder: &Path, extension: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|own| own == extension))
        .collect()
}

/// Returns the program of these cases, in which each case has its line and its columns.
fn program(cases: &str) -> String {
    let mut function = "";
    let lines = cases.lines().enumerate().map(|(at, line)| {
        function = line.strip_prefix("// on: ").unwrap_or(function);
        if line.starts_with("#[") && line.ends_with(']') {
            let named = function.replace("fn f(", &format!("fn on_line_{}(", at + 1));
            format!("{line} {named}\n")
        } else {
            format!("{line}\n")
        }
    });
    lines.collect::<String>() + "fn main() {}\n"
}

/// Compiles cases that must fail, and compares their errors with the expected ones.
fn check_failing(cases: &Path, texts: &Texts) -> Result<(), String> {
    let name = cases.file_name().unwrap().to_string_lossy();
    let source = fs::read_to_string(cases).unwrap();
    let program_name = format!("fail_{}", name.replace(".cases", ".rs"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program_name);
    fs::write(&path, program(&source)).unwrap();
    let compiled = compile(&path);
    if compiled.success {
        return Err(format!("{name} compiles, but must not"));
    }
    let found = report(&path, &source, &compiled.errors(), texts);
    let path = cases.with_extension("expected");
    if std::env::var_os("UI").is_some_and(|value| value == "overwrite") {
        fs::write(&path, &found).unwrap();
        return Ok(());
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "the errors of {name} are not the expected ones.\n\n--- expected\n{expected}\n--- found\n{found}"
    ))
}

#[test]
fn each_mistake_has_its_message_at_its_place() {
    let folder = folder("fail");
    let texts = Texts::of_the_runtime();
    let cases = files(&folder, "cases");
    let failures: Vec<_> = cases
        .iter()
        .filter_map(|case| check_failing(case, &texts).err())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let expected = files(&folder, "expected");
    let of_cases: BTreeSet<_> = cases
        .iter()
        .map(|case| case.with_extension("expected"))
        .collect();
    assert_eq!(
        expected, of_cases,
        "each `.cases` file has an `.expected` file, and each `.expected` file its cases"
    );
}

#[test]
fn a_case_that_compiles_is_a_failure() {
    let cases = Path::new(env!("CARGO_TARGET_TMPDIR")).join("right.cases");
    fs::write(&cases, "// on: fn f() {}\n#[inline]\n#[inline]\n").unwrap();
    let failure = check_failing(&cases, &Texts::of_the_runtime());
    assert_eq!(
        failure,
        Err("right.cases compiles, but must not".to_owned())
    );
}

#[test]
fn a_warning_of_the_compiler_is_found() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warned.rs");
    fs::write(&program, "fn main() { let unused = 1; }").unwrap();
    assert_eq!(compile(&program).warnings().len(), 1);
}

#[test]
fn the_attribute_adds_no_warning_to_a_program() {
    for case in files(&folder("src/pass"), "rs") {
        let name = case.file_name().unwrap();
        let compiled = compile(&case);
        assert!(compiled.success, "{}", compiled.rendered());
        // A newer compiler may have a new warning about the case itself. Only the attribute's warnings count.
        let plain = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(
            &plain,
            without_the_attribute(&fs::read_to_string(&case).unwrap()),
        )
        .unwrap();
        let without = compile(&plain).warnings();
        let added: Vec<_> = compiled
            .warnings()
            .into_iter()
            .filter(|warning| !without.iter().any(|other| other.is_like(warning)))
            .map(|warning| warning.rendered)
            .collect();
        assert!(added.is_empty(), "{}", added.join("\n"));
    }
}

#[test]
fn accepted_functions_can_be_called_and_sent() {
    pass::batches::main();
    pass::call::main();
    pass::constants::main();
    pass::functions::main();
    pass::handlers::main();
    pass::http::main();
}

/// Returns a program with spaces in place of each `#[idempotent(..)]`, so that the rest keeps its place.
fn without_the_attribute(source: &str) -> String {
    let mut rest = source;
    let mut plain = String::new();
    while let Some(start) = rest.find("#[idempotent") {
        let (before, attribute) = rest.split_at(start);
        let mut depth = 0;
        let end = attribute.find(|character| {
            depth += match character {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
            character == ']' && depth == 0
        });
        let (attribute, after) = attribute.split_at(end.unwrap() + 1);
        plain.push_str(before);
        plain.extend(attribute.chars().map(|c| if c == '\n' { c } else { ' ' }));
        rest = after;
    }
    plain + rest
}
