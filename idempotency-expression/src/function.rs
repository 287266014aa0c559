//! The functions of expressions, and their parameters.

use std::fmt;

use crate::tokens::{Kind, Literal};

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

/// Writes the enum of the functions and the table of their signatures, in one order.
macro_rules! functions {
    ($($function:ident $name:literal ($($parameter:ident),+) $($variadic:literal)?;)+) => {
        /// A function that an expression can call.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum Function {
            $($function),+
        }

        const TABLE: &[Signature] = &[$(Signature {
            function: Function::$function,
            name: $name,
            parameters: &[$($parameter),+],
            variadic: !concat!($($variadic)?).is_empty(),
        }),+];
    };
}

functions! {
    Abs "abs" (Value);
    Avg "avg" (Value);
    Ceil "ceil" (Value);
    Contains "contains" (Value, Value);
    EndsWith "ends_with" (Value, Value);
    Floor "floor" (Value);
    Header "header" (Event, HeaderName);
    IamCaller "iam_caller" (Event);
    Join "join" (Value, Value);
    Keys "keys" (Value);
    Length "length" (Value);
    Map "map" (Expression, Value);
    Max "max" (Value);
    MaxBy "max_by" (Value, Expression);
    Merge "merge" (Value) "or more";
    Min "min" (Value);
    MinBy "min_by" (Value, Expression);
    NotNull "not_null" (Value) "or more";
    PowertoolsBase64 "powertools_base64" (Value);
    PowertoolsBase64Gzip "powertools_base64_gzip" (Value);
    PowertoolsJson "powertools_json" (Value);
    Reverse "reverse" (Value);
    Sort "sort" (Value);
    SortBy "sort_by" (Value, Expression);
    StartsWith "starts_with" (Value, Value);
    Sum "sum" (Value);
    ToArray "to_array" (Value);
    ToNumber "to_number" (Value);
    ToString "to_string" (Value);
    Type "type" (Value);
    Values "values" (Value);
}

impl Function {
    fn signature(self) -> &'static Signature {
        &TABLE[self as usize]
    }

    /// Returns the function with this name, or `None`. Names are case-sensitive.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE
            .iter()
            .find(|signature| signature.name == name)
            .map(|signature| signature.function)
    }

    /// Returns the name in expressions, such as `max_by`.
    pub fn name(self) -> &'static str {
        self.signature().name
    }

    /// Returns true if the parameter at this index takes `&expression`, as the second one of `max_by(items, &price)` does. Such a
    /// parameter takes nothing else. The first index is 0.
    pub fn takes_expression(self, parameter: usize) -> bool {
        self.signature().parameters.get(parameter) == Some(&Expression)
    }

    /// Returns the error of a value for this parameter, if the expression alone shows it. `only` is the token of a value of one token.
    pub(crate) fn refuse_value(self, parameter: usize, only: Option<&Kind>) -> Option<String> {
        match (self.signature().parameters.get(parameter)?, only) {
            (Event, Some(Kind::Literal(_))) => Some(format!(
                "argument {} of `{self}` is the event: write `@`",
                parameter + 1
            )),
            (HeaderName, Some(Kind::Literal(Literal::Raw(name)))) => (!is_token(name)).then(|| {
                "this is not the name of a header: write letters, digits and `-` only".to_owned()
            }),
            (HeaderName, only) => {
                let name = match only {
                    Some(Kind::Identifier(name)) => Some(name.as_str()),
                    Some(Kind::Quoted(name)) => name.as_str(),
                    _ => None,
                };
                Some(match name.filter(|name| is_token(name)) {
                    Some(name) => format!(
                        "`{self}` takes the name of a header as text: write it in single quotes, `{self}(@, '{name}')`"
                    ),
                    None => format!(
                        "`{self}` takes the name of a header as text in single quotes, as in `{self}(@, 'Idempotency-Key')`"
                    ),
                })
            }
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
pub fn is_token(name: &str) -> bool {
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
