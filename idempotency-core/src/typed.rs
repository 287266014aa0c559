//! Reads a typed value from JSON text. Its error names the place of the fault and never quotes the text.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

/// Reads a value from JSON text.
///
/// # Errors
///
/// If the text is not JSON or does not fit the type. The error has the path of the field, line and column, never a part of the
/// text.
///
/// # Examples
///
/// ```
/// use idempotency_core::typed::read;
/// assert_eq!(read("[1, 2]"), Ok(vec![1, 2]));
/// let error = read::<Vec<u8>>(r#"[1, "4242 4242"]"#).unwrap_err();
/// assert_eq!(error.to_string(), "does not fit its type at `[1]` (line 1, column 15)");
/// ```
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|error| {
        // The path costs memory for each name, so it is looked for only after a failure.
        let deserializer = &mut serde_json::Deserializer::from_str(text);
        let path = match serde_path_to_error::deserialize::<_, T>(deserializer) {
            Err(error) => place(error.path()),
            Ok(_) => String::new(),
        };
        ReadError {
            path,
            ..ReadError::from(error)
        }
    })
}

/// The error of a text that does not fit its type. It says where the fault is and never quotes the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    what: &'static str,
    /// The name of a field that the text does not have.
    missing: Option<String>,
    /// The path of the field. Empty if it is the whole value, or not known.
    path: String,
    line: usize,
    column: usize,
}

impl ReadError {
    /// Writes the missing field and the path, if they are known.
    fn write_field(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.missing {
            write!(f, " (no field `{field}`)")?;
        }
        if !self.path.is_empty() {
            write!(f, " at `{}`", self.path)?;
        }
        Ok(())
    }

    /// Displays the place alone: the field, line and column.
    pub(crate) fn place(&self) -> impl fmt::Display + '_ {
        struct Place<'a>(&'a ReadError);

        impl fmt::Display for Place<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write_field(f)?;
                write!(f, ", line {}, column {}", self.0.line, self.0.column)
            }
        }

        Place(self)
    }
}

/// Without a path: only [`read`] finds it.
impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        Self {
            what: match error.classify() {
                Category::Data => "does not fit its type",
                Category::Eof => "ends too early",
                Category::Syntax | Category::Io => "is not JSON",
            },
            missing: missing_field(&error.to_string()).map(str::to_owned),
            path: String::new(),
            line: error.line(),
            column: error.column(),
        }
    }
}

/// Writes what is wrong and where, for a sentence whose subject is the text: "the event does not fit its type ..".
impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        self.write_field(f)?;
        write!(f, " (line {}, column {})", self.line, self.column)
    }
}

impl std::error::Error for ReadError {}

/// Returns the name of the missing field. It is a name of the type, the only part of serde's messages that is never a part of
/// the text.
fn missing_field(message: &str) -> Option<&str> {
    message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.split('`').next())
}

/// Returns the path with only names that look like fields. Any other name comes from the text and is written as `?`.
fn place(path: &Path) -> String {
    let mut place = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => place += &format!("[{index}]"),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                let known = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && name
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
                if !place.is_empty() {
                    place.push('.');
                }
                place += if known { name } else { "?" };
            }
            Segment::Unknown => place.push('?'),
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    struct Receipt {
        #[allow(dead_code)]
        lines: Vec<Line>,
    }

    #[derive(Debug, Deserialize)]
    struct Line {
        #[allow(dead_code)]
        price: u8,
    }

    fn error_of(text: &str) -> String {
        read::<Receipt>(text).unwrap_err().to_string()
    }

    #[test]
    fn the_path_of_the_field_is_named_and_its_value_is_not() {
        let error = error_of(r#"{"lines": [{"price": 1}, {"price": "s3cr3t"}]}"#);
        assert_eq!(
            error,
            "does not fit its type at `lines[1].price` (line 1, column 43)"
        );
    }

    #[test]
    fn a_missing_field_is_named_with_the_value_that_lacks_it() {
        let error = error_of(r#"{"lines": [{"cost": 1}]}"#);
        assert!(
            error.starts_with("does not fit its type (no field `price`) at `lines[0]`"),
            "{error}"
        );
    }

    #[test]
    fn a_name_from_the_text_is_not_quoted() {
        let error = read::<BTreeMap<String, u8>>(r#"{"4242-4242": "x"}"#).unwrap_err();
        assert!(error.to_string().contains("at `?` ("), "{error}");
        assert_eq!(error.place().to_string(), " at `?`, line 1, column 17");
    }

    #[test]
    fn a_text_that_is_not_json_has_a_place_too() {
        assert_eq!(error_of("{"), "ends too early at `?` (line 1, column 1)");
        assert!(
            error_of("{]").starts_with("is not JSON"),
            "{}",
            error_of("{]")
        );
    }
}
