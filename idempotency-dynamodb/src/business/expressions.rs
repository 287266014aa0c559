//! The expressions of the user: texts, names and values, checked before ours are added.
//!
//! Our placeholders begin with `#idem_` and `:idem_`, and the user's cannot. So neither side can refer to a placeholder of the
//! other by accident.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;

use super::InvalidExpression;
use super::clauses::{self, Clauses};
use super::tokens::{self, Token, unmatched};

/// The start of our placeholders, after their `#` or `:`.
const OURS: &str = "idem_";

/// The longest expression, in bytes.
const LONGEST: usize = 4096;

/// The texts and placeholders that the user gave. `Debug` shows no values.
#[derive(Clone, Default)]
pub(crate) struct UserExpressions {
    pub(crate) update: Option<String>,
    pub(crate) condition: Option<String>,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl fmt::Debug for UserExpressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserExpressions")
            .field("names", &self.names.keys().collect::<BTreeSet<_>>())
            .field("values", &self.values.keys().collect::<BTreeSet<_>>())
            .finish_non_exhaustive()
    }
}

/// Expressions that were checked, to which ours can be added.
#[derive(Clone)]
pub(crate) struct Checked {
    pub(crate) clauses: Clauses,
    /// In parentheses, so that `AND` can be added.
    pub(crate) condition: Option<String>,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl UserExpressions {
    /// Checks the texts, and that each placeholder is both used and defined. `is_ours` is true for the attributes that the
    /// update expression must leave alone.
    pub(crate) fn check(
        self,
        is_ours: impl Fn(&str) -> bool,
    ) -> Result<Checked, InvalidExpression> {
        let mut used = Used::default();
        let mut clauses = Clauses::default();
        if let Some(text) = &self.update {
            let tokens = tokens::split("update expression", text)?;
            clauses = Clauses::split(text, &tokens)?;
            used.note(&tokens);
            for attribute in clauses::attributes(&tokens) {
                let name = match attribute {
                    Token::Name(placeholder) => self.names.get(placeholder).map(String::as_str),
                    Token::Word(name) => Some(name),
                    _ => None,
                };
                if let Some(name) = name.filter(|name| is_ours(name)) {
                    return Err(InvalidExpression::new(format!(
                        "the update expression uses the attribute `{name}`, which only this library may write"
                    )));
                }
            }
        }
        let condition = match &self.condition {
            Some(text) => {
                let tokens = tokens::split("condition", text)?;
                used.note(&tokens);
                Some(in_parentheses(text, &tokens)?)
            }
            None => None,
        };
        used.agree("#", &used.names, self.names.keys())?;
        used.agree(":", &used.values, self.values.keys())?;
        Ok(Checked {
            clauses,
            condition,
            names: self.names,
            values: self.values,
        })
    }
}

impl Checked {
    /// Defines one of our names, and returns its placeholder.
    pub(crate) fn name(&mut self, short: &str, attribute: &str) -> String {
        let placeholder = format!("#{OURS}{short}");
        self.names.insert(placeholder.clone(), attribute.to_owned());
        placeholder
    }

    /// Defines one of our values, and returns its placeholder.
    pub(crate) fn value(&mut self, short: &str, value: AttributeValue) -> String {
        let placeholder = format!(":{OURS}{short}");
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// Returns the names. `None` if there are none: DynamoDB rejects an empty map.
    pub(crate) fn take_names(&mut self) -> Option<HashMap<String, String>> {
        Some(std::mem::take(&mut self.names)).filter(|names| !names.is_empty())
    }

    /// Returns the values. `None` if there are none: DynamoDB rejects an empty map.
    pub(crate) fn take_values(&mut self) -> Option<HashMap<String, AttributeValue>> {
        Some(std::mem::take(&mut self.values)).filter(|values| !values.is_empty())
    }
}

/// Checks that a whole expression, ours included, is not longer than DynamoDB accepts.
pub(crate) fn check_length(what: &str, text: &str) -> Result<(), InvalidExpression> {
    if text.len() > LONGEST {
        return Err(InvalidExpression::new(format!(
            "the {what} has {} bytes with the part that this library adds, and DynamoDB accepts at most {LONGEST}: shorten it",
            text.len()
        )));
    }
    Ok(())
}

/// The placeholders that texts use.
#[derive(Default)]
struct Used {
    names: BTreeSet<String>,
    values: BTreeSet<String>,
}

impl Used {
    fn note(&mut self, tokens: &[(usize, Token<'_>)]) {
        for (_, token) in tokens {
            match token {
                Token::Name(name) => self.names.insert((*name).to_owned()),
                Token::Value(value) => self.values.insert((*value).to_owned()),
                _ => continue,
            };
        }
    }

    fn agree<'a>(
        &self,
        sigil: &str,
        used: &BTreeSet<String>,
        defined: impl Iterator<Item = &'a String>,
    ) -> Result<(), InvalidExpression> {
        let defined: BTreeSet<_> = defined.cloned().collect();
        for placeholder in defined.union(used) {
            let name = placeholder.strip_prefix(sigil);
            let problem = match name {
                Some(name) if name.starts_with(OURS) => {
                    format!("begins with `{sigil}{OURS}`, which is reserved: rename it")
                }
                Some(name) if tokens::is_placeholder(name) => {
                    match (defined.contains(placeholder), used.contains(placeholder)) {
                        (false, _) => "is used and not defined".to_owned(),
                        (_, false) => "is defined and not used".to_owned(),
                        _ => continue,
                    }
                }
                _ => format!("must be `{sigil}`, then letters, digits or underscores"),
            };
            return Err(InvalidExpression::new(format!(
                "the placeholder `{placeholder}` {problem}"
            )));
        }
        Ok(())
    }
}

/// Returns the condition in one pair of parentheses. DynamoDB refuses a second pair around the first. Parentheses that do not
/// match could put our part of the condition into another group, so they are refused.
fn in_parentheses(text: &str, tokens: &[(usize, Token<'_>)]) -> Result<String, InvalidExpression> {
    if tokens.is_empty() {
        return Err(InvalidExpression::new("the condition is empty"));
    }
    let mut depth = 0_usize;
    let mut first_group_ends = None;
    for (index, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => {
                let outside = depth.checked_sub(1);
                depth = outside.ok_or_else(|| unmatched("condition"))?;
                if depth == 0 && first_group_ends.is_none() {
                    first_group_ends = Some(index);
                }
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(unmatched("condition"));
    }
    let begins = tokens.first().map(|(_, token)| *token) == Some(Token::Mark('('));
    let whole = begins && first_group_ends == Some(tokens.len() - 1);
    let text = text.trim();
    Ok(if whole {
        text.to_owned()
    } else {
        format!("({text})")
    })
}

#[cfg(test)]
mod tests;
