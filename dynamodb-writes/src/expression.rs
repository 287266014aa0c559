//! The expressions of the user: texts, names and values, checked before ours are added.
//!
//! Our placeholders begin with `#idem_` and `:idem_`, and the user's cannot. So neither side can refer to a placeholder of the
//! other by accident.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::error::InvalidExpression;
use crate::item::Item;

/// The start of our placeholders, after their `#` or `:`.
const OURS: &str = "idem_";

/// The longest expression, in bytes.
const LONGEST: usize = 4096;

/// The texts and placeholders that the user gave.
#[derive(Clone, Default)]
pub(crate) struct UserExpressions {
    pub(crate) update: Option<String>,
    pub(crate) condition: Option<String>,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

/// Writes the methods of a builder that take the user's condition, names and values. The fields lead from the builder to its
/// [`UserExpressions`].
macro_rules! user_expressions {
    ($($field:tt).+; $(#[$condition:meta])+) => {
        $(#[$condition])+
        pub fn condition(mut self, condition: impl Into<String>) -> Self {
            self.$($field).+.condition = Some(condition.into());
            self
        }

        /// Defines a placeholder of an attribute name, such as `#status`.
        pub fn name(mut self, placeholder: impl Into<String>, attribute: impl Into<String>) -> Self {
            self.$($field).+.names.insert(placeholder.into(), attribute.into());
            self
        }

        /// Defines a placeholder of a value, such as `:amount`.
        pub fn value(mut self, placeholder: impl Into<String>, value: AttributeValue) -> Self {
            self.$($field).+.values.insert(placeholder.into(), value);
            self
        }
    };
}
pub(crate) use user_expressions;

/// Expressions that were checked, to which ours can be added.
#[derive(Clone)]
pub(crate) struct Expressions {
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
    ) -> Result<Expressions, InvalidExpression> {
        let mut used = UsedPlaceholders::default();
        let mut clauses = Clauses::default();
        if let Some(text) = &self.update {
            let tokens = tokens("update expression", text)?;
            clauses = Clauses::split(text, &tokens)?;
            used.note(&tokens);
            for attribute in attributes(&tokens) {
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
                let tokens = tokens("condition", text)?;
                used.note(&tokens);
                Some(in_parentheses(text, &tokens)?)
            }
            None => None,
        };
        used.agree("#", &used.names, self.names.keys())?;
        used.agree(":", &used.values, self.values.keys())?;
        Ok(Expressions {
            clauses,
            condition,
            names: self.names,
            values: self.values,
        })
    }
}

impl Expressions {
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
}

/// Collects the attributes of a key.
pub(crate) fn key<N: Into<String>>(
    attributes: impl IntoIterator<Item = (N, AttributeValue)>,
) -> Item {
    let attributes = attributes.into_iter();
    attributes
        .map(|(name, value)| (name.into(), value))
        .collect()
}

/// Checks that no attribute of the key is one that only this library may write: writing it would change the key, and so write another item.
pub(crate) fn check_key(
    key: &Item,
    is_ours: impl Fn(&str) -> bool,
) -> Result<(), InvalidExpression> {
    match key.keys().find(|name| is_ours(name)) {
        Some(name) => Err(InvalidExpression::new(format!(
            "the key has the attribute `{name}`, which only this library may write: choose another name for its attributes"
        ))),
        None => Ok(()),
    }
}

/// Returns the error of a write that the SDK's builder refuses.
pub(crate) fn not_built(error: aws_sdk_dynamodb::error::BuildError) -> InvalidExpression {
    InvalidExpression::new(format!("the write could not be built: {error}"))
}

/// Checks that a whole expression of so many bytes, ours included, is not longer than DynamoDB accepts.
pub(crate) fn check_length(what: &str, bytes: usize) -> Result<(), InvalidExpression> {
    if bytes > LONGEST {
        return Err(InvalidExpression::new(format!(
            "the {what} has {bytes} bytes with the part that this library adds, and DynamoDB accepts at most {LONGEST}: shorten it"
        )));
    }
    Ok(())
}

/// The placeholders that texts use.
#[derive(Default)]
struct UsedPlaceholders {
    names: BTreeSet<String>,
    values: BTreeSet<String>,
}

impl UsedPlaceholders {
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
                Some(name) if is_placeholder(name) => {
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

// Splits an expression into tokens, as far as its placeholders, clauses and parentheses need it.

/// A token of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A keyword, a function, an attribute name without a placeholder, or an index.
    Word(&'a str),
    /// A placeholder of a name, with its `#`.
    Name(&'a str),
    /// A placeholder of a value, with its `:`.
    Value(&'a str),
    /// Punctuation.
    Mark(char),
}

/// Returns the tokens of an expression, each with its offset in bytes.
fn tokens<'a>(what: &str, text: &'a str) -> Result<Vec<(usize, Token<'a>)>, InvalidExpression> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let length = match first {
            '#' | ':' => 1 + word_length(&rest[1..]),
            _ if is_word(first) => word_length(rest),
            '(' | ')' | '[' | ']' | ',' | '.' | '=' | '<' | '>' | '+' | '-' => 1,
            _ => {
                let text =
                    format!("the {what} has a character at byte {at} that no expression can have");
                return Err(InvalidExpression::new(text));
            }
        };
        let (token, after) = rest.split_at(length);
        tokens.push((
            at,
            match first {
                '#' | ':' if length == 1 => {
                    let text = format!("the {what} has a placeholder without a name at byte {at}");
                    return Err(InvalidExpression::new(text));
                }
                '#' => Token::Name(token),
                ':' => Token::Value(token),
                _ if is_word(first) => Token::Word(token),
                mark => Token::Mark(mark),
            },
        ));
        rest = after;
    }
}

/// Returns the error of an expression with a parenthesis that has no partner.
fn unmatched(what: &str) -> InvalidExpression {
    InvalidExpression::new(format!("the parentheses of the {what} do not match"))
}

/// Returns true if placeholders can have this name after their `#` or `:`.
fn is_placeholder(name: &str) -> bool {
    !name.is_empty() && word_length(name) == name.len()
}

fn word_length(text: &str) -> usize {
    text.find(|character| !is_word(character))
        .unwrap_or(text.len())
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

// The clauses of an update expression: those of the user, and ours added to them.

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
    fn split(text: &str, tokens: &[(usize, Token<'_>)]) -> Result<Self, InvalidExpression> {
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

/// Returns where each clause starts, as the index of its keyword's token. The keywords are reserved words: an attribute
/// name without a placeholder cannot be one of them, except as a part of a path behind a dot. A keyword in parentheses, or behind an
/// operator or a comma, starts no clause and is refused, as DynamoDB would refuse it.
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

/// Returns true if this token is a part of a path behind a dot, or an index of a list.
fn is_nested(tokens: &[(usize, Token<'_>)], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| tokens.get(before));
    match (before, &tokens[index].1) {
        (Some((_, Token::Mark('.'))), _) => true,
        (Some((_, Token::Mark('['))), Token::Word(word)) => word.parse::<u64>().is_ok(),
        _ => false,
    }
}

/// Iterates over the first parts of all paths of an update expression: top-level attributes, as words or as placeholders.
fn attributes<'t, 'a>(tokens: &'t [(usize, Token<'a>)]) -> impl Iterator<Item = Token<'a>> + 't {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks an update expression and a condition. `defined` has placeholders, such as `#a=units :n`.
    fn check<'a>(
        update: impl Into<Option<&'a str>>,
        condition: impl Into<Option<&'a str>>,
        defined: &str,
    ) -> Result<Expressions, InvalidExpression> {
        let mut user = UserExpressions {
            update: update.into().map(str::to_owned),
            condition: condition.into().map(str::to_owned),
            ..UserExpressions::default()
        };
        for placeholder in defined.split_whitespace() {
            match placeholder.split_once('=') {
                Some((name, of)) => drop(user.names.insert(name.to_owned(), of.to_owned())),
                None => {
                    let value = AttributeValue::S("secret".to_owned());
                    user.values.insert(placeholder.to_owned(), value);
                }
            }
        }
        user.check(|name| name == "ours" || name == "7")
    }

    fn merged(text: &str) -> Result<String, InvalidExpression> {
        let mut checked = check(text, None, ":n")?;
        checked.clauses.add(Clause::Set, "x = :x");
        checked.clauses.add(Clause::Remove, "y");
        Ok(checked.clauses.to_string())
    }

    #[track_caller]
    fn is_refused<T>(checked: Result<T, InvalidExpression>, says: &str) {
        let error = checked.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }

    #[test]
    fn our_actions_are_added_to_the_clauses_of_the_user() {
        let two = "REMOVE b\nSET a = if_not_exists(a, :n), c.set = :n";
        let of_two = "SET a = if_not_exists(a, :n), c.set = :n, x = :x REMOVE b, y";
        let of_all = "SET x = :x REMOVE y ADD l[0].m :n DELETE tags :n";
        let cases = [
            ("ADD units :n", "SET x = :x REMOVE y ADD units :n"),
            ("set a = a + :n", "SET a = a + :n, x = :x REMOVE y"),
            (two, of_two),
            ("DELETE tags :n Add l[0].m :n", of_all),
        ];
        for (text, expected) in cases {
            assert_eq!(merged(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_update_expression_that_cannot_be_split_is_refused() {
        for (text, expected) in [
            ("", "must begin with"),
            ("units :n", "must begin with"),
            ("SET REMOVE a", "SET clause without an action"),
            ("SET a = :n SET b = :n", "two SET clauses"),
            ("SET a = 'b' + :n", "character at byte 8"),
            ("SET a = : + :n", "placeholder without a name at byte 8"),
            ("SET ä = :n", "character at byte 4"),
        ] {
            is_refused(merged(text), expected);
        }
    }

    #[test]
    fn a_keyword_where_an_operand_must_be_starts_no_clause() {
        for (text, word, at) in [
            ("SET a = if_not_exists(add, :n)", "add", 22),
            ("SET a = list_append(:n, Remove)", "Remove", 24),
            ("SET a = set", "set", 8),
            ("SET a = :n + delete", "delete", 13),
            ("SET a = :n - ADD + b", "ADD", 13),
            ("SET a = :n, remove = :n", "remove", 12),
            ("REMOVE a, delete", "delete", 10),
            ("SET a = if_not_exists(b, :n ADD c :n", "ADD", 28),
        ] {
            let place = format!("keyword `{word}` at byte {at}, where");
            is_refused(merged(text), &place);
            let hint = format!("such as `#{}`", word.to_ascii_lowercase());
            is_refused(merged(text), &hint);
        }
        for text in ["SET a = if_not_exists(b, :n", "SET a = b) ADD c :n"] {
            is_refused(merged(text), "parentheses of the update");
        }
        // Behind a complete action, and as a part of a path.
        for text in [
            "SET a = if_not_exists(b, :n) REMOVE c[0] ADD d :n",
            "SET a.add = if_not_exists(b.remove, :n)",
        ] {
            assert!(merged(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn the_update_expression_leaves_our_attributes_alone() {
        for text in [
            "SET ours = :n",
            "SET a = :n REMOVE ours",
            "ADD ours[0].b :n",
        ] {
            is_refused(merged(text), "the attribute `ours`");
        }
        is_refused(check("REMOVE #o", None, "#o=ours"), "the attribute `ours`");
        // A member of another attribute may have the name, and a condition may read ours.
        assert!(merged("SET a.ours = :n").is_ok());
        is_refused(
            check("REMOVE a[#o]", None, "#o=ours"),
            "the attribute `ours`",
        );
        assert!(check("REMOVE a[7]", "attribute_exists(ours)", "").is_ok());
    }

    #[test]
    fn placeholders_are_used_and_defined_and_not_ours() {
        let update = "SET #a = :n";
        for (update, condition, defined, says) in [
            (update, "a", "", "`#a` is used and not defined; nothing"),
            (update, "a", "#a=units", "`:n` is used and not defined;"),
            (update, "a", "#a=units :n :m", "`:m` is defined and not"),
            (update, "a", "#a=units :n m", "must be `:`"),
            ("REMOVE a", "a = :idem_k0", "", "reserved"),
            (update, "a", "#a=units #idem_p=a :n", "reserved"),
        ] {
            is_refused(check(update, condition, defined), says);
        }
    }

    #[test]
    fn a_condition_is_in_one_pair_of_parentheses_and_cannot_leave_it() {
        let cases = [
            ("a = b", "(a = b)"),
            ("(a = b)", "(a = b)"),
            ("(a) AND (b)", "((a) AND (b))"),
            (" size(a) <= b ", "(size(a) <= b)"),
            ("(a = b OR size(c) > d)", "(a = b OR size(c) > d)"),
        ];
        for (text, expected) in cases {
            let checked = check(None, text, "").unwrap();
            assert_eq!(checked.condition.as_deref(), Some(expected));
        }
        for (text, says) in [
            ("a) OR (b", "do not match"),
            ("(a", "do not match"),
            ("a)", "do not match"),
            ("", "the condition is empty"),
            (" ", "the condition is empty"),
        ] {
            is_refused(check(None, text, ""), says);
        }
    }

    #[test]
    fn an_expression_can_have_4096_bytes() {
        assert!(check_length("condition", 4_096).is_ok());
        assert!(check_length("condition", 4_097).is_err());
    }
}
