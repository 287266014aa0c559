//! The adapter to the `jmespath` crate: builds the text that the crate parses, and maps the crate's offsets back to ours.
//!
//! The crate reads literals with `serde_json`, which loses digits, and numbers into 32 bits. Its grammar also differs from that of
//! the reference implementation in a few places. So it parses a text of our own, in which the number of a token stands for each
//! literal and quoted name.

use jmespath::ast::Ast as Parsed;

use crate::SyntaxError;
use crate::tokens::{Kind, Token};

/// An expression in the form that the crate parses.
pub(crate) struct Adapter {
    tokens: Vec<Token>,
    /// The text that the crate parses.
    pub(crate) text: String,
    /// The offset in `text` of each token, and the token's index.
    starts: Vec<(usize, usize)>,
    /// The expression as it was written.
    source: String,
}

/// The index of a text that was inserted and belongs to no token.
const MARK: usize = usize::MAX;

/// The kind of an open bracket.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Call,
    /// Parentheses around an expression.
    Group,
    Hash,
    List,
    /// `[1]`, `[1:2]` or `[*]`, with the number of colons so far.
    Index(u8),
    Other,
}

impl Adapter {
    /// Builds the text for the crate.
    ///
    /// # Errors
    ///
    /// Returns the error of a form that the crate would accept or read differently, but the reference refuses.
    pub(crate) fn new(tokens: Vec<Token>, source: &str) -> Result<Self, SyntaxError> {
        let mut adapter = Self {
            tokens,
            text: String::new(),
            starts: Vec::new(),
            source: source.to_owned(),
        };
        let mut open = Vec::new();
        for at in 0..adapter.tokens.len() {
            adapter.refuse(at, open.last().copied())?;
            adapter.pass(at, &mut open);
        }
        Ok(adapter)
    }

    /// Returns the index of the token at this offset of `text`, or of the last token before it.
    pub(crate) fn index_at(&self, text_offset: usize) -> Option<usize> {
        let after = self
            .starts
            .partition_point(|&(start, _)| start <= text_offset);
        after.checked_sub(1).map(|entry| self.starts[entry].1)
    }

    /// Returns the token at this offset of `text`, or the last one before it.
    pub(crate) fn token_at(&self, text_offset: usize) -> Option<&Token> {
        self.tokens.get(self.index_at(text_offset)?)
    }

    /// Returns true if this symbol is at this offset of `text`.
    pub(crate) fn is(&self, text_offset: usize, symbol: &str) -> bool {
        self.token_at(text_offset)
            .is_some_and(|token| token.is(symbol))
    }

    /// Returns true if the mark that parentheses leave is at this offset of `text`.
    pub(crate) fn is_mark(&self, text_offset: usize) -> bool {
        self.index_at(text_offset) == Some(MARK)
    }

    /// Returns true for an index expression, as the reference calls it, in parentheses.
    pub(crate) fn is_index_in_parentheses(&self, parsed: &Parsed) -> bool {
        let Parsed::Subexpr { offset, lhs, .. } = parsed else {
            return false;
        };
        self.is_mark(*offset) && (self.is_index(lhs) || self.is_index_in_parentheses(lhs))
    }

    fn is_index(&self, parsed: &Parsed) -> bool {
        match parsed {
            Parsed::Index { .. } => true,
            Parsed::Subexpr { offset, lhs, rhs } if self.is(*offset, "[") => match &**rhs {
                Parsed::Index { .. } => true,
                // A slice continues an index only if its elements are not used further.
                Parsed::Projection { rhs: each, .. } => {
                    matches!(**each, Parsed::Identity { .. })
                        && (self.is_index(lhs) || self.is_index_in_parentheses(lhs))
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the token with this index.
    pub(crate) fn token(&self, index: usize) -> Option<&Token> {
        self.tokens.get(index)
    }

    /// Returns the token that the crate refused at this offset, or `None` at the end. At a mark it is the parenthesis after it.
    pub(crate) fn refused(&self, text_offset: usize) -> Option<&Token> {
        let after = self
            .starts
            .partition_point(|&(start, _)| start < text_offset);
        self.starts[after..]
            .iter()
            .find_map(|&(_, index)| self.tokens.get(index))
    }

    /// Maps an offset in `text` to an offset in the expression.
    pub(crate) fn offset(&self, text_offset: usize) -> usize {
        self.refused(text_offset)
            .map_or(self.source.len(), |token| token.offset)
    }

    /// Returns the texts of a list's elements as they were written. The list's bracket is at this offset of `text`.
    pub(crate) fn elements(&self, text_offset: usize) -> Vec<String> {
        self.between_commas(text_offset, false)
    }

    /// Returns the texts of a hash's values as they were written. The hash's brace is at this offset of `text`.
    pub(crate) fn members(&self, text_offset: usize) -> Vec<String> {
        self.between_commas(text_offset, true)
    }

    fn between_commas(&self, text_offset: usize, named: bool) -> Vec<String> {
        let mut texts = Vec::new();
        let Some(first) = self.index_at(text_offset).and_then(|at| at.checked_add(1)) else {
            return texts;
        };
        let mut depth = 0_usize;
        let mut start = None;
        for (at, token) in self.tokens.iter().enumerate().skip(first) {
            let Kind::Symbol(symbol) = token.kind else {
                // The reference needs no comma before the next member.
                if named && depth == 0 && self.symbol(Some(at + 1)) == ":" {
                    self.push_text(&mut texts, start.take(), token.offset);
                } else if !named {
                    start.get_or_insert(token.offset);
                }
                continue;
            };
            match symbol {
                ":" if named && depth == 0 => {
                    start = self.tokens.get(at + 1).map(|token| token.offset);
                    continue;
                }
                "," if depth == 0 => {
                    self.push_text(&mut texts, start.take(), token.offset);
                    continue;
                }
                "]" | "}" if depth == 0 => {
                    self.push_text(&mut texts, start.take(), token.offset);
                    break;
                }
                "]" | "}" | ")" => depth = depth.saturating_sub(1),
                "[" | "[?" | "{" | "(" => depth += 1,
                _ => {}
            }
            if !named {
                start.get_or_insert(token.offset);
            }
        }
        texts
    }

    fn push_text(&self, texts: &mut Vec<String>, start: Option<usize>, end: usize) {
        if let Some(text) = start.and_then(|start| self.source.get(start..end)) {
            texts.push(text.trim().to_owned());
        }
    }

    fn symbol(&self, at: Option<usize>) -> &'static str {
        match at
            .and_then(|at| self.tokens.get(at))
            .map(|token| &token.kind)
        {
            Some(Kind::Symbol(symbol)) => symbol,
            _ => "",
        }
    }

    fn is_operand(&self, at: usize) -> bool {
        !matches!(
            self.tokens.get(at).map(|token| &token.kind),
            None | Some(Kind::Symbol(_))
        )
    }

    /// Returns the error of a token that the crate would accept or read differently, but the reference refuses.
    fn refuse(&self, at: usize, open: Option<Open>) -> Result<(), SyntaxError> {
        let (token, previous) = (&self.tokens[at], self.symbol(at.checked_sub(1)));
        let refuse = |message: &str| Err(SyntaxError::new(token.offset, message));
        if token.is("&") && previous == "." {
            return refuse("`&` is not allowed after a dot");
        }
        if open == Some(Open::List) && at > 0 {
            if token.is("]") && previous == "[" {
                return refuse("the list is empty; name what to select");
            }
            let begins = self.is_operand(at) || token.is("@") || token.is("&");
            let ended =
                self.is_operand(at - 1) || matches!(previous, "]" | ")" | "}" | "@" | "*" | "[]");
            if begins && ended {
                return refuse("expected `,` or `]`");
            }
        }
        if open == Some(Open::Index(2)) && token.kind == Kind::Number(0) && !self.is_replaced(at) {
            return refuse("the step of a slice cannot be 0");
        }
        Ok(())
    }

    /// Returns true if another number follows: of numbers side by side in a slice, the reference uses the last.
    fn is_replaced(&self, at: usize) -> bool {
        matches!(
            self.tokens.get(at + 1),
            Some(Token {
                kind: Kind::Number(_),
                ..
            })
        )
    }

    /// Appends a token to the text for the crate.
    fn pass(&mut self, at: usize, open: &mut Vec<Open>) {
        let previous = self.symbol(at.checked_sub(1));
        let next = self.symbol(Some(at + 1));
        let inside = open.last().copied();
        match (&self.tokens[at].kind, inside) {
            (Kind::Symbol("("), _) => {
                let call = at > 0 && matches!(self.tokens[at - 1].kind, Kind::Identifier(_));
                open.push(if call { Open::Call } else { Open::Group });
            }
            (Kind::Symbol("{"), _) => open.push(Open::Hash),
            (Kind::Symbol("[?"), _) => open.push(Open::Other),
            (Kind::Symbol("["), _) => {
                let number = matches!(
                    self.tokens.get(at + 1),
                    Some(Token {
                        kind: Kind::Number(_),
                        ..
                    })
                );
                let wildcard = next == "*" && self.symbol(Some(at + 2)) == "]";
                open.push(if number || wildcard || next == ":" {
                    Open::Index(0)
                } else {
                    Open::List
                });
            }
            (Kind::Symbol("]" | ")" | "}"), _) => {
                // The crate's tree has no parentheses, but their end matters. `| @` changes no value and marks the end, except
                // after the name of a function, as in `(length)(a)`.
                let group = open.pop() == Some(Open::Group);
                if group && next != "(" {
                    self.starts.push((self.text.len(), MARK));
                    self.text.push_str("| @ ");
                }
            }
            // The reference allows a comma at the end of a call.
            (Kind::Symbol(","), Some(Open::Call))
                if next == ")" && previous != "(" && previous != "," =>
            {
                return;
            }
            (Kind::Symbol(":"), Some(Open::Index(colons))) => {
                open.pop();
                open.push(Open::Index(colons.saturating_add(1)));
            }
            (Kind::Number(_), Some(Open::Index(colons))) if colons > 0 && self.is_replaced(at) => {
                return;
            }
            // The reference needs no comma between the members of a hash.
            (Kind::Identifier(_) | Kind::Quoted(_), Some(Open::Hash))
                if next == ":" && previous != "{" && previous != "," =>
            {
                self.text.push_str(", ");
            }
            _ => {}
        }
        self.starts.push((self.text.len(), at));
        match &self.tokens[at].kind {
            Kind::Identifier(name) => self.text.push_str(name),
            Kind::Quoted(_) => self.text.push_str(&format!("\"{at}\"")),
            Kind::Literal(_) => self.text.push_str(&format!("'{at}'")),
            Kind::Number(number) => self.text.push_str(&number.to_string()),
            Kind::Symbol(symbol) => self.text.push_str(symbol),
        }
        self.text.push(' ');
    }
}
