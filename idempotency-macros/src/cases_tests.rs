//! Reads files of cases, in which each case is a line of Rust: `#[idempotent(..)]`, and its function. A line that is an attribute
//! alone stands on the function behind the last `// on: `. Lines with an indent are what the test expects of the case before them.
//! `tests/ui/fail` has the cases that do not compile in the same form.

use crate::arguments::Arguments;
use crate::parse::Function;
use crate::validate::{ValidatedFn, validate};

pub(crate) struct Case<'t> {
    /// The attribute, and the function if it is written beside it. It names the case in a panic.
    pub(crate) line: &'t str,
    pub(crate) arguments: &'t str,
    pub(crate) item: &'t str,
    pub(crate) expected: Vec<&'t str>,
}

pub(crate) fn cases(text: &str) -> Vec<Case<'_>> {
    let mut function = "";
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in text.lines() {
        let attribute = line.strip_prefix("#[idempotent(");
        if let Some((arguments, item)) = attribute.and_then(|rest| rest.split_once(")]")) {
            cases.push(Case {
                line,
                arguments,
                item: if item.is_empty() { function } else { item },
                expected: Vec::new(),
            });
        } else if let Some(expected) = line.strip_prefix("    ") {
            cases.last_mut().unwrap().expected.push(expected);
        } else {
            function = line.strip_prefix("// on: ").unwrap_or(function);
        }
    }
    assert!(!cases.is_empty());
    cases
}

/// Returns the function and the result of its validation, or the texts of the errors.
pub(crate) fn validated(
    arguments: &str,
    item: &str,
) -> Result<(Function, ValidatedFn), Vec<String>> {
    let function: Function = syn::parse_str(item).unwrap();
    match validate(&function, Arguments::parse(arguments.parse().unwrap())) {
        Ok(validated) => Ok((function, validated)),
        Err(error) => Err(error.into_iter().map(|error| error.to_string()).collect()),
    }
}
