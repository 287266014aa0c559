//! This project's texts for missing traits, which rustc shows: those of `#[diagnostic::on_unimplemented]`.

use std::fs;
use std::path::Path;

use crate::folder;

/// The texts as they are in the sources, with `{Self}` where rustc writes a type.
pub(crate) struct Texts(Vec<String>);

impl Texts {
    /// Reads the texts from the runtime's sources.
    pub(crate) fn of_the_runtime() -> Self {
        let mut texts = Vec::new();
        collect(&folder("../../idempotency-lambda/src"), &mut texts);
        assert!(!texts.is_empty(), "the sources have no texts for rustc");
        Self(texts)
    }

    /// Returns the text that rustc filled in, or `None` if the words are not from this project.
    pub(crate) fn find(&self, filled_in: &str) -> Option<&str> {
        let mut texts = self.0.iter().map(String::as_str);
        texts.find(|text| is_filled_in(text, filled_in))
    }
}

/// Adds the texts of all files in a folder.
fn collect(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, texts);
        } else {
            let source = fs::read_to_string(&path).unwrap();
            for attribute in source.split("#[diagnostic::on_unimplemented(").skip(1) {
                let (attribute, _) = attribute.split_once(")]\n").unwrap();
                texts.extend(attribute.lines().filter_map(text_of));
            }
        }
    }
}

/// Returns the text of a line such as `note = "..",`.
fn text_of(line: &str) -> Option<String> {
    let (_, literal) = line.split_once(" = ")?;
    serde_json::from_str(literal.trim_end_matches(',')).ok()
}

/// Returns true if `filled_in` is `text` with something in place of each `{Self}`.
fn is_filled_in(text: &str, filled_in: &str) -> bool {
    let mut parts = text.split("{Self}");
    let Some(mut rest) = parts.next().and_then(|first| filled_in.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn a_text_is_found_with_any_type_filled_in() {
    let texts = Texts(vec!["`{Self}` holds nothing".into(), "write `T`".into()]);
    assert_eq!(
        texts.find("`(A, B)` holds nothing"),
        Some("`{Self}` holds nothing")
    );
    assert_eq!(texts.find("write `T`"), Some("write `T`"));
    for other in ["write `T` here", "`A` holds", "holds nothing", ""] {
        assert_eq!(texts.find(other), None, "{other}");
    }
}
