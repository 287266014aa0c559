//! The functions of expressions, and their parameters.

use std::fmt;

use crate::{Ast, Literal, Name};

/// A function that an expression can call.
///
/// # Examples
///
/// ```
/// use idempotency_expression::Function;
///
/// assert_eq!(Function::from_name("sort_by"), Some(Function::SortBy));
/// assert_eq!(Function::PowertoolsJson.to_string(), "powertools_json");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Function {
    Abs,
    Avg,
    Ceil,
    Contains,
    EndsWith,
    Floor,
    Header,
    IamCaller,
    Join,
    Keys,
    Length,
    Map,
    Max,
    MaxBy,
    Merge,
    Min,
    MinBy,
    NotNull,
    PowertoolsBase64,
    PowertoolsBase64Gzip,
    PowertoolsJson,
    Reverse,
    Sort,
    SortBy,
    StartsWith,
    Sum,
    ToArray,
    ToNumber,
    ToString,
    Type,
    Values,
}

/// The kind of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Value,
    Expression,
    /// The event of an HTTP request.
    Event,
    /// The name of a header, as a text in single quotes.
    HeaderName,
}

use Takes::{Event, Expression, HeaderName, Value};

struct Signature {
    function: Function,
    name: &'static str,
    parameters: &'static [Takes],
    /// True if the last parameter can be repeated.
    variadic: bool,
}

const fn row(function: Function, name: &'static str, parameters: &'static [Takes]) -> Signature {
    Signature {
        function,
        name,
        parameters,
        variadic: false,
    }
}

/// All functions, in the order of the enum.
const TABLE: [Signature; 31] = [
    row(Function::Abs, "abs", &[Value]),
    row(Function::Avg, "avg", &[Value]),
    row(Function::Ceil, "ceil", &[Value]),
    row(Function::Contains, "contains", &[Value, Value]),
    row(Function::EndsWith, "ends_with", &[Value, Value]),
    row(Function::Floor, "floor", &[Value]),
    row(Function::Header, "header", &[Event, HeaderName]),
    row(Function::IamCaller, "iam_caller", &[Event]),
    row(Function::Join, "join", &[Value, Value]),
    row(Function::Keys, "keys", &[Value]),
    row(Function::Length, "length", &[Value]),
    row(Function::Map, "map", &[Expression, Value]),
    row(Function::Max, "max", &[Value]),
    row(Function::MaxBy, "max_by", &[Value, Expression]),
    Signature {
        function: Function::Merge,
        name: "merge",
        parameters: &[Value],
        variadic: true,
    },
    row(Function::Min, "min", &[Value]),
    row(Function::MinBy, "min_by", &[Value, Expression]),
    Signature {
        function: Function::NotNull,
        name: "not_null",
        parameters: &[Value],
        variadic: true,
    },
    row(Function::PowertoolsBase64, "powertools_base64", &[Value]),
    row(
        Function::PowertoolsBase64Gzip,
        "powertools_base64_gzip",
        &[Value],
    ),
    row(Function::PowertoolsJson, "powertools_json", &[Value]),
    row(Function::Reverse, "reverse", &[Value]),
    row(Function::Sort, "sort", &[Value]),
    row(Function::SortBy, "sort_by", &[Value, Expression]),
    row(Function::StartsWith, "starts_with", &[Value, Value]),
    row(Function::Sum, "sum", &[Value]),
    row(Function::ToArray, "to_array", &[Value]),
    row(Function::ToNumber, "to_number", &[Value]),
    row(Function::ToString, "to_string", &[Value]),
    row(Function::Type, "type", &[Value]),
    row(Function::Values, "values", &[Value]),
];

impl Function {
    fn signature(self) -> &'static Signature {
        &TABLE[self as usize]
    }

    /// Returns the function with this name, or `None`. Names are case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE
            .iter()
            .find(|signature| signature.name == name)
            .map(|signature| signature.function)
    }

    /// Returns the name in expressions, such as `max_by`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.signature().name
    }

    /// Returns true if the parameter at this index takes `&expression`, as the second one of `max_by(items, &price)` does. Such a
    /// parameter takes nothing else. The first index is 0.
    #[must_use]
    pub fn takes_expression(self, parameter: usize) -> bool {
        self.signature().parameters.get(parameter) == Some(&Expression)
    }

    /// Returns the error of a value as this argument, as far as the expression alone shows it.
    pub(crate) fn refuse_value(self, parameter: usize, value: &Ast) -> Option<String> {
        match (self.signature().parameters.get(parameter)?, value) {
            (Event, Ast::Literal(_)) => Some(format!(
                "argument {} of `{self}` is the event: write `@`",
                parameter + 1
            )),
            (HeaderName, Ast::Literal(Literal::Raw(name))) if is_token(name) => None,
            (HeaderName, Ast::Literal(Literal::Raw(_))) => Some(
                "this is not the name of a header: write letters, digits and `-` only".to_owned(),
            ),
            (HeaderName, Ast::Field(Name::Plain(name))) if is_token(name) => Some(format!(
                "`{self}` takes the name of a header as text: write it in single quotes, `{self}(@, '{name}')`"
            )),
            (HeaderName, _) => Some(format!(
                "`{self}` takes the name of a header as text in single quotes, as in `{self}(@, 'Idempotency-Key')`"
            )),
            _ => None,
        }
    }

    /// Returns the error of a call with this number of arguments.
    pub(crate) fn refuse_count(self, given: usize) -> Option<String> {
        let Signature {
            name,
            parameters,
            variadic,
            ..
        } = self.signature();
        let takes = parameters.len();
        if given == takes || (*variadic && given > takes) {
            return None;
        }
        let at_least = if *variadic { "at least " } else { "" };
        let plural = if takes == 1 { "" } else { "s" };
        Some(format!(
            "`{name}` takes {at_least}{takes} argument{plural}, not {given}"
        ))
    }

    /// Returns the error of a name that is not a function.
    pub(crate) fn refuse_name(name: &str) -> String {
        let nearest = TABLE
            .iter()
            .map(|row| (distance(name, row.name), row.name))
            .min();
        match nearest {
            Some((distance, nearest)) if distance <= (nearest.len() / 3).max(1) => {
                format!("unknown function `{name}`; did you mean `{nearest}`?")
            }
            _ => {
                let names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
                format!(
                    "unknown function `{name}`; the functions are {}",
                    names.join(", ")
                )
            }
        }
    }
}

/// Returns true if HTTP allows the name for a header (a `token` of RFC 9110).
fn is_token(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

/// Returns how many letters must be added, removed or replaced to get from one name to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.function as usize, at);
            assert_eq!(Function::from_name(row.name), Some(row.function));
        }
    }

    #[test]
    fn a_misspelt_name_leads_to_the_most_similar_function() {
        assert_eq!(
            Function::refuse_name("lenght"),
            "unknown function `lenght`; did you mean `length`?"
        );
        assert_eq!(
            Function::refuse_name("powertool_json"),
            "unknown function `powertool_json`; did you mean `powertools_json`?"
        );
        assert!(Function::refuse_name("nope").contains("the functions are abs, avg"));
    }
}
