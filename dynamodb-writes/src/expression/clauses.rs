//! The clauses of an update expression: those of the user, and ours added to them.

use std::fmt;

use super::tokens::{Token, unmatched};
use crate::error::InvalidExpression;

/// A clause of an update expression. DynamoDB accepts each of them once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Set,
    Remove,
    Add,
    Delete,
}

impl Clause {
    const ALL: [Self; 4] = [Self::Set, Self::Remove, Self::Add, Self::Delete];

    fn keyword(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Remove => "REMOVE",
            Self::Add => "ADD",
            Self::Delete => "DELETE",
        }
    }

    fn of(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|clause| word.eq_ignore_ascii_case(clause.keyword()))
    }
}

/// The clauses of one update expression, each with its actions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clauses([String; 4]);

impl Clauses {
    /// Splits the user's update expression.
    pub(super) fn split(
        text: &str,
        tokens: &[(usize, Token<'_>)],
    ) -> Result<Self, InvalidExpression> {
        let mut clauses = Self::default();
        let starts = starts(tokens)?;
        if starts.first().is_none_or(|(token, _)| *token != 0) {
            return Err(InvalidExpression::new(
                "the update expression must begin with SET, REMOVE, ADD or DELETE",
            ));
        }
        for (index, (token, clause)) in starts.iter().enumerate() {
            let from = tokens[*token].0 + clause.keyword().len();
            let to = starts.get(index + 1);
            let to = to.map_or(text.len(), |(token, _)| tokens[*token].0);
            let (body, keyword) = (text[from..to].trim(), clause.keyword());
            if body.is_empty() {
                return Err(InvalidExpression::new(format!(
                    "the update expression has a {keyword} clause without an action: complete it, or use a placeholder for an \
                     attribute whose name is a keyword"
                )));
            }
            if !clauses.of(*clause).is_empty() {
                let text = format!(
                    "the update expression has two {keyword} clauses: join them by a comma"
                );
                return Err(InvalidExpression::new(text));
            }
            clauses.add(*clause, body);
        }
        Ok(clauses)
    }

    /// Adds an action to a clause.
    pub(crate) fn add(&mut self, clause: Clause, action: impl AsRef<str>) {
        let body = &mut self.0[clause as usize];
        if !body.is_empty() {
            body.push_str(", ");
        }
        body.push_str(action.as_ref());
    }

    fn of(&self, clause: Clause) -> &str {
        &self.0[clause as usize]
    }
}

impl fmt::Display for Clauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for clause in Clause::ALL {
            let body = self.of(clause);
            if !body.is_empty() {
                write!(f, "{separator}{} {body}", clause.keyword())?;
                separator = " ";
            }
        }
        Ok(())
    }
}

/// Returns where each clause starts, as the index of its keyword's token. The keywords are reserved words: no attribute name
/// without a placeholder is equal, except as a part of a path behind a dot. A keyword in parentheses, or behind an operator or a
/// comma, starts no clause and is refused, as DynamoDB would refuse it.
fn starts(tokens: &[(usize, Token<'_>)]) -> Result<Vec<(usize, Clause)>, InvalidExpression> {
    let mut starts = Vec::new();
    let mut depth = 0_usize;
    for (index, (at, token)) in tokens.iter().enumerate() {
        let word = match token {
            Token::Word(word) if !is_nested(tokens, index) => word,
            Token::Mark('(') => {
                depth += 1;
                continue;
            }
            Token::Mark(')') => {
                let outside = depth.checked_sub(1);
                depth = outside.ok_or_else(|| unmatched("update expression"))?;
                continue;
            }
            _ => continue,
        };
        let Some(clause) = Clause::of(word) else {
            continue;
        };
        let before = index.checked_sub(1).map(|before| tokens[before].1);
        let is_operand = matches!(before, Some(Token::Mark(mark)) if mark != ')' && mark != ']');
        if depth > 0 || is_operand {
            return Err(InvalidExpression::new(format!(
                "the update expression has the keyword `{word}` at byte {at}, where an attribute or a value must be: for an \
                 attribute of this name, use a placeholder such as `#{}`",
                word.to_ascii_lowercase()
            )));
        }
        starts.push((index, clause));
    }
    match depth {
        0 => Ok(starts),
        _ => Err(unmatched("update expression")),
    }
}

/// Returns true if this token is a part of a path behind a dot.
fn is_nested(tokens: &[(usize, Token<'_>)], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| tokens.get(before));
    before.is_some_and(|(_, token)| *token == Token::Mark('.'))
}

/// Iterates over the first parts of all paths of an update expression: top-level attributes, as words or as placeholders.
pub(super) fn attributes<'t, 'a>(
    tokens: &'t [(usize, Token<'a>)],
) -> impl Iterator<Item = Token<'a>> + 't {
    let parts = tokens.iter().enumerate();
    parts.filter_map(|(index, (_, token))| {
        let followed_by =
            |mark| matches!(tokens.get(index + 1), Some((_, Token::Mark(found))) if *found == mark);
        match token {
            _ if is_nested(tokens, index) => None,
            Token::Name(_) => Some(*token),
            Token::Word(word) if Clause::of(word).is_none() && !followed_by('(') => Some(*token),
            _ => None,
        }
    })
}
