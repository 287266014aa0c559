//! Parses a text into a checked tree.
//!
//! It is the parser of the reference implementation, jmespath.py: each operator binds as strongly as there, and a projection ends where
//! it ends there. So a key has the same value in both. `tests/tests/lambda/properties/selection.rs` compares the values with those of
//! the crate `jmespath`, on expressions that both projects parse alike.

use crate::ast::{Ast, Comparator, Part};
use crate::error::SyntaxError;
use crate::function::Function;
use crate::tokens::{Kind, Literal, MAX_BYTES, Token, check_limits, tokenize};

type Result<T> = std::result::Result<T, SyntaxError>;

/// Parses an expression and checks everything that can be checked without an event: the functions, the number of their
/// arguments, and slices.
///
/// # Errors
///
/// Returns a [`SyntaxError`] if the reference implementation would refuse the expression or could never evaluate it. Also if the
/// expression has more than 4096 bytes, 32 brackets inside one another, or 72 steps in a row (brackets and `*` count twice).
///
/// # Examples
///
/// ```
/// let error = idempotency_expression::parse("join(ids)").unwrap_err();
/// assert_eq!((error.offset, error.message.as_str()), (0, "`join` takes 2 arguments, not 1"));
/// ```
pub fn parse(text: &str) -> Result<Ast> {
    parse_with(text, (), &|literal| Some(literal.clone()))
}

/// Does what [`parse`] does, and makes values of the literals: `literal` returns `None` for one that it refuses. Each call has `note`.
///
/// # Errors
///
/// Returns the errors of [`parse`], and an error for a literal that is refused.
pub fn parse_with<L, R: Clone>(
    text: &str,
    note: R,
    literal: &dyn Fn(&Literal) -> Option<L>,
) -> Result<Ast<L, R>> {
    if text.len() > MAX_BYTES {
        let message = format!(
            "the expression has {} bytes; write at most {MAX_BYTES}",
            text.len()
        );
        return Err(SyntaxError::new(MAX_BYTES, message));
    }
    let tokens = tokenize(text)?;
    if tokens.is_empty() {
        return Err(SyntaxError::new(0, "the expression is empty"));
    }
    check_limits(&tokens)?;
    let mut parser = Parser {
        text,
        tokens: &tokens,
        at: 0,
        note,
        literal,
    };
    let tree = parser.expression(0)?;
    match parser.next() {
        None => Ok(tree),
        Some(_) => Err(parser.refused()),
    }
}

/// Returns how strongly an operator binds what is before it, as in the reference; 0 for what ends an expression.
fn power(symbol: &str) -> u8 {
    match symbol {
        "|" => 1,
        "||" => 2,
        "&&" => 3,
        "==" | "!=" | "<" | "<=" | ">" | ">=" => 5,
        "[]" => 9,
        "*" => 20,
        "[?" => 21,
        "." => 40,
        "!" => 45,
        "{" => 50,
        "[" => 55,
        "(" => 60,
        _ => 0,
    }
}

/// An operator of less power than this ends a projection.
const IN_PROJECTION: u8 = 10;

struct Parser<'a, L, R> {
    text: &'a str,
    tokens: &'a [Token],
    /// The index of the next token.
    at: usize,
    note: R,
    literal: &'a dyn Fn(&Literal) -> Option<L>,
}

impl<'a, L, R: Clone> Parser<'a, L, R> {
    fn next(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    /// Returns the symbol at this distance from the next token, or `""` for another token and at the end.
    fn symbol(&self, ahead: usize) -> &'static str {
        match self.tokens.get(self.at + ahead).map(|token| &token.kind) {
            Some(Kind::Symbol(symbol)) => symbol,
            _ => "",
        }
    }

    /// Returns the offset of the next token, or of the end.
    fn offset(&self) -> usize {
        self.next().map_or(self.text.len(), |token| token.offset)
    }

    /// Skips this symbol, if it is next.
    fn take(&mut self, symbol: &str) -> bool {
        let taken = self.symbol(0) == symbol;
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(self.refused())
        }
    }

    /// Returns the error of the next token.
    fn refused(&self) -> SyntaxError {
        let message = match self.next().map(|token| &token.kind) {
            None => "the expression ends here, but is not complete".to_owned(),
            Some(Kind::Symbol(symbol)) => format!("`{symbol}` is not allowed here"),
            Some(Kind::Identifier(name)) => format!("`{name}` is not allowed here"),
            Some(Kind::Quoted(_)) => "a quoted name is not allowed here".to_owned(),
            Some(Kind::Literal(_)) => "a literal is not allowed here".to_owned(),
            Some(Kind::Number(_)) => {
                "a number can only be an index; write it between backticks".to_owned()
            }
        };
        SyntaxError::new(self.offset(), message)
    }

    /// Returns the error of the token that was just read.
    fn refused_before(&mut self) -> SyntaxError {
        self.at -= 1;
        self.refused()
    }

    /// Parses an expression until an operator that does not bind more strongly than `outer`.
    fn expression(&mut self, outer: u8) -> Result<Ast<L, R>> {
        let mut left = self.operand()?;
        while power(self.symbol(0)) > outer {
            left = self.operator(left)?;
        }
        Ok(left)
    }

    fn boxed(&mut self, outer: u8) -> Result<Box<Ast<L, R>>> {
        self.expression(outer).map(Box::new)
    }

    /// Parses what can begin an expression.
    fn operand(&mut self) -> Result<Ast<L, R>> {
        let Some(Token { kind, offset }) = self.next() else {
            return Err(self.refused());
        };
        self.at += 1;
        match kind {
            Kind::Literal(literal) => {
                let refused = "the literal is JSON that cannot be read";
                (self.literal)(literal)
                    .map(Ast::Literal)
                    .ok_or_else(|| SyntaxError::new(*offset, refused))
            }
            Kind::Identifier(name) => Ok(Ast::Field(name.as_str().into())),
            Kind::Quoted(_) if self.symbol(0) == "(" => Err(self.refused()),
            Kind::Quoted(name) => Ok(Ast::Field(name.clone())),
            Kind::Symbol("@") => Ok(Ast::Current),
            Kind::Symbol("!") => Ok(Ast::Not(self.boxed(power("!"))?)),
            Kind::Symbol("(") => {
                let inner = self.expression(0)?;
                self.expect(")")?;
                Ok(inner)
            }
            Kind::Symbol("{") => self.hash(),
            Kind::Symbol("*") => self.project(Ast::Values(Box::new(Ast::Current)), "*"),
            Kind::Symbol("[?") => self.filter(Ast::Current),
            Kind::Symbol("[]") => self.project(Ast::Flatten(Box::new(Ast::Current)), "[]"),
            Kind::Symbol("[") if self.begins_index() || self.begins_elements() => {
                self.bracket(Ast::Current)
            }
            Kind::Symbol("[") => self.list(),
            Kind::Symbol("&") => {
                let message = "`&` is only allowed before an argument that `map`, `sort_by`, `min_by` or `max_by` evaluates";
                Err(SyntaxError::new(*offset, message))
            }
            _ => Err(self.refused_before()),
        }
    }

    /// Parses the operator that comes next, on what is before it.
    fn operator(&mut self, left: Ast<L, R>) -> Result<Ast<L, R>> {
        let symbol = self.symbol(0);
        self.at += 1;
        let left = match symbol {
            "." if self.take("*") => return self.project(Ast::Values(Box::new(left)), "."),
            "[" => return self.bracket(left),
            "[?" => return self.filter(left),
            "(" => return self.call(left),
            "[]" => return self.project(Ast::Flatten(Box::new(left)), "[]"),
            _ => Box::new(left),
        };
        let comparator = match symbol {
            "." => return Ok(Ast::Chain(left, Box::new(self.after_dot(power("."))?))),
            "|" => return Ok(Ast::Chain(left, self.boxed(power(symbol))?)),
            "||" => return Ok(Ast::Or(left, self.boxed(power(symbol))?)),
            "&&" => return Ok(Ast::And(left, self.boxed(power(symbol))?)),
            "==" => Comparator::Equal,
            "!=" => Comparator::NotEqual,
            "<" => Comparator::Less,
            "<=" => Comparator::LessOrEqual,
            ">" => Comparator::Greater,
            ">=" => Comparator::GreaterOrEqual,
            _ => return Err(self.refused_before()),
        };
        let right = self.boxed(power(symbol))?;
        Ok(Ast::Compare {
            comparator,
            left,
            right,
        })
    }

    /// Parses what comes after a dot.
    fn after_dot(&mut self, outer: u8) -> Result<Ast<L, R>> {
        match self.next().map(|token| &token.kind) {
            Some(Kind::Identifier(_) | Kind::Quoted(_) | Kind::Symbol("*")) => {
                self.expression(outer)
            }
            // No operator after these belongs to a projection that is before the dot.
            Some(Kind::Symbol("[")) => {
                self.at += 1;
                self.list()
            }
            Some(Kind::Symbol("{")) => {
                self.at += 1;
                self.hash()
            }
            Some(Kind::Symbol("&")) => Err(SyntaxError::new(
                self.offset(),
                "`&` is not allowed after a dot",
            )),
            _ => Err(self.refused()),
        }
    }

    /// Parses the operators that a projection applies to each element, up to one that does not bind more strongly than `symbol`.
    fn each(&mut self, symbol: &str) -> Result<Box<Ast<L, R>>> {
        let outer = power(symbol);
        match self.symbol(0) {
            "[" | "[?" => self.boxed(outer),
            "." => {
                self.at += 1;
                self.after_dot(outer).map(Box::new)
            }
            next if power(next) < IN_PROJECTION => Ok(Box::new(Ast::Current)),
            _ => Err(self.refused()),
        }
    }

    fn project(&mut self, over: Ast<L, R>, symbol: &str) -> Result<Ast<L, R>> {
        Ok(Ast::Project {
            over: Box::new(over),
            condition: None,
            each: self.each(symbol)?,
        })
    }

    fn filter(&mut self, over: Ast<L, R>) -> Result<Ast<L, R>> {
        let condition = self.boxed(0)?;
        self.expect("]")?;
        Ok(Ast::Project {
            over: Box::new(over),
            condition: Some(condition),
            each: self.each("[?")?,
        })
    }

    /// Returns true if the bracket before is that of an index or a slice.
    fn begins_index(&self) -> bool {
        let next = self.next().map(|token| &token.kind);
        matches!(next, Some(Kind::Number(_) | Kind::Symbol(":")))
    }

    /// Returns true if the bracket before is that of `[*]`.
    fn begins_elements(&self) -> bool {
        self.symbol(0) == "*" && self.symbol(1) == "]"
    }

    /// Parses the rest of `[*]`, an index or a slice.
    fn bracket(&mut self, left: Ast<L, R>) -> Result<Ast<L, R>> {
        if !self.begins_index() {
            self.expect("*")?;
            self.expect("]")?;
            return self.project(left, "*");
        }
        let index = self.index()?;
        // A slice directly after an index is not a projection.
        let is_plain = matches!(index, Ast::Index(_)) || is_indexed(&left);
        let indexed = match (left, index) {
            (Ast::Current, index @ Ast::Index(_)) => index,
            (left, index) => Ast::Chain(Box::new(left), Box::new(index)),
        };
        if is_plain {
            return Ok(indexed);
        }
        self.project(indexed, "*")
    }

    /// Parses an index or a slice, and the bracket that closes it. Of numbers side by side in a slice, the last counts.
    fn index(&mut self) -> Result<Ast<L, R>> {
        if let (Some(Kind::Number(index)), false) =
            (self.next().map(|token| &token.kind), self.symbol(1) == ":")
        {
            self.at += 1;
            self.expect("]")?;
            return Ok(Ast::Index(*index));
        }
        let (mut parts, mut part, mut last) = ([None; 3], 0, self.offset());
        while !self.take("]") {
            match self.next().map(|token| &token.kind) {
                Some(Kind::Symbol(":")) if part < 2 => part += 1,
                Some(Kind::Number(number)) => (parts[part], last) = (Some(*number), self.offset()),
                _ => return Err(self.refused()),
            }
            self.at += 1;
        }
        let [start, stop, step] = parts;
        if step == Some(0) {
            return Err(SyntaxError::new(last, "the step of a slice cannot be 0"));
        }
        Ok(Ast::Slice {
            start,
            stop,
            step: step.unwrap_or(1),
        })
    }

    /// Parses the elements of a list, and the bracket that closes it.
    fn list(&mut self) -> Result<Ast<L, R>> {
        if self.symbol(0) == "]" {
            let message = "the list is empty; name what to select";
            return Err(SyntaxError::new(self.offset(), message));
        }
        let mut parts = vec![self.part()?];
        while !self.take("]") {
            if !self.take(",") {
                return Err(match self.next().map(|token| &token.kind) {
                    Some(Kind::Symbol(symbol)) if !matches!(*symbol, "@" | "&") => self.refused(),
                    None => self.refused(),
                    Some(_) => SyntaxError::new(self.offset(), "expected `,` or `]`"),
                });
            }
            parts.push(self.part()?);
        }
        Ok(Ast::List(parts))
    }

    /// Parses the members of a hash, and the brace that closes it. As in the reference, no comma is needed between members. Unlike
    /// there, two members cannot have one name: a key would lack a part.
    fn hash(&mut self) -> Result<Ast<L, R>> {
        let mut members = Vec::new();
        loop {
            let name = match self.next().map(|token| &token.kind) {
                Some(Kind::Identifier(name)) => name.as_str().into(),
                Some(Kind::Quoted(name)) => name.clone(),
                _ => return Err(self.refused()),
            };
            if members.iter().any(|(other, _)| *other == name) {
                let message = "this name is written twice: the first value would be lost";
                return Err(SyntaxError::new(self.offset(), message));
            }
            self.at += 1;
            self.expect(":")?;
            members.push((name, self.part()?));
            if !self.take(",") && self.take("}") {
                return Ok(Ast::Hash(members));
            }
        }
    }

    /// Parses a part of a multi-select.
    fn part(&mut self) -> Result<Part<L, R>> {
        let start = self.offset();
        let value = self.expression(0)?;
        let text = self.text.get(start..self.offset()).unwrap_or_default();
        Ok(Part {
            text: text.trim().into(),
            value,
        })
    }

    /// Parses the arguments of a call. As in the reference, no comma is needed between arguments.
    fn call(&mut self, called: Ast<L, R>) -> Result<Ast<L, R>> {
        let name = match &called {
            Ast::Field(name) => name.as_str(),
            _ => None,
        };
        let (Some(name), [.., before, bracket]) = (name, &self.tokens[..self.at]) else {
            return Err(self.refused_before());
        };
        let offset = match before.kind {
            Kind::Identifier(_) => before.offset,
            _ => bracket.offset,
        };
        let Some(function) = Function::from_name(name) else {
            return Err(SyntaxError::new(offset, Function::refuse_name(name)));
        };
        let (mut arguments, mut refused) = (Vec::new(), None);
        while !self.take(")") {
            let start = self.at;
            let is_reference = self.take("&");
            let argument = self.expression(0)?;
            let given = &self.tokens[start..self.at];
            let wrong = refuse_argument(function, offset, arguments.len(), is_reference, given);
            refused = refused.or(wrong);
            arguments.push(argument);
            self.take(",");
        }
        let count = function.refuse_count(arguments.len());
        let wrong = count.map(|message| SyntaxError::new(offset, message));
        match wrong.or(refused) {
            Some(error) => Err(error),
            None => Ok(Ast::Call {
                function,
                arguments,
                note: self.note.clone(),
            }),
        }
    }
}

/// Returns true if the tree ends with an index, or with a slice after one.
fn is_indexed<L, R>(tree: &Ast<L, R>) -> bool {
    match tree {
        Ast::Index(_) => true,
        Ast::Chain(_, last) => matches!(**last, Ast::Index(_) | Ast::Slice { .. }),
        _ => false,
    }
}

/// Returns the error of an argument of these tokens that the function does not take in this place. `offset` is that of the name.
fn refuse_argument(
    function: Function,
    offset: usize,
    at: usize,
    is_reference: bool,
    given: &[Token],
) -> Option<SyntaxError> {
    match (is_reference, function.takes_expression(at)) {
        (true, true) => None,
        (true, false) => {
            let message = format!("`{function}` takes a value here; remove the `&`");
            Some(SyntaxError::new(given[0].offset, message))
        }
        (false, true) => {
            let message = format!(
                "argument {} of `{function}` must be an expression; write `&` before it",
                at + 1
            );
            Some(SyntaxError::new(offset, message))
        }
        (false, false) => {
            let kinds = given.iter().map(|token| &token.kind);
            let mut bare = kinds.filter(|kind| !matches!(kind, Kind::Symbol("(" | ")")));
            let only = bare.next().filter(|_| bare.next().is_none());
            let message = function.refuse_value(at, only)?;
            Some(SyntaxError::new(offset, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_text_that_was_written() {
        for (text, expected) in [
            ("[ a.b , c[0] ,d]", "a.b; c[0]; d"),
            (
                r#"[join(',', [a, b]), {x: y, z: @}, (c | d), [[e]], 'f,]', g[-1], @, "h,i", `1`]"#,
                r#"join(',', [a, b]); {x: y, z: @}; (c | d); [[e]]; 'f,]'; g[-1]; @; "h,i"; `1`"#,
            ),
            ("{a: b.c, \"d\": [e, {f: g}]}", "b.c; [e, {f: g}]"),
            // The reference needs no comma between members.
            ("{a: b c: !d e: *.f}", "b; !d; *.f"),
            ("[a, b ]", "a; b"),
        ] {
            let parts: Vec<Part> = match parse(text).unwrap() {
                Ast::List(parts) => parts,
                Ast::Hash(members) => members.into_iter().map(|(_, part)| part).collect(),
                other => panic!("{text} is not a multi-select: {other:?}"),
            };
            let texts: Vec<_> = parts.iter().map(|part| &*part.text).collect();
            assert_eq!(texts.join("; "), expected);
        }
    }

    #[test]
    fn a_projection_ends_where_it_ends_in_the_reference() {
        let lines = "
            a.*.b.c        == (a.*.b).c
            a[*].{b: c}.d  == (a[*].{b: c}).d
            !a[*].{b: c}.d == (!a[*].{b: c}).d
            !a[*].{b: c}.d != !(a[*].{b: c}.d)
            *.b.c          != (*.b).c
            a[0:2].b       != (a[0:2]).b
            a[0][0:2].b    == (a[0][0:2]).b
            a[0][0:2][1:].b == (a[0][0:2][1:]).b";
        for line in lines.lines().skip(1) {
            let is_same = line.contains(" == ");
            let (one, other) = line.split_once(if is_same { "==" } else { "!=" }).unwrap();
            assert_eq!(parse(one) == parse(other), is_same, "{line}");
            assert!(parse(one).is_ok() && parse(other).is_ok(), "{line}");
        }
    }

    #[test]
    fn an_expression_is_accepted_or_refused_at_its_place() {
        let rows = include_str!("parse/checked.txt").lines();
        for row in rows.filter(|row| !row.starts_with('#')) {
            let (text, expected) = row.split_once(" => ").unwrap();
            let found = match parse(text) {
                Ok(_) => "accepted".to_owned(),
                Err(error) => format!("{}: {}", error.offset, error.message),
            };
            assert_eq!(found, expected, "{text}");
        }
        let empty = SyntaxError::new(0, "the expression is empty");
        assert_eq!((parse(""), parse("  ")), (Err(empty.clone()), Err(empty)));
    }

    #[test]
    fn too_deep_an_expression_is_refused_and_does_not_overflow_the_stack() {
        let small = std::thread::Builder::new().stack_size(512 * 1024);
        let checked = small.spawn(|| {
            for part in [
                "(", "!", "[", "{a:", "&", "a.", "a|", "a||", "[*]", "[]", "*.", "a[?", "abs(",
                "a==", "[0]", "[0:1]", "a.*.",
            ] {
                assert!(parse(&part.repeat(4096 / part.len())).is_err(), "{part}");
                for count in 1..200 {
                    // Complete or not, it must return.
                    let _ = parse(&format!("{}a", part.repeat(count)));
                    let _ = parse(&format!("a{}", part.repeat(count)));
                }
            }
            let nested = |depth| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
            assert!(parse(&nested(32)).is_ok());
            assert!(parse(&nested(33)).is_err());
            assert!(parse(&vec!["a"; 73].join(".")).is_ok());
            assert!(parse(&vec!["a"; 65].join("[*].")).is_err());
            assert!(parse(&vec!["a"; 73].join("||")).is_ok());
            assert!(parse(&vec!["a"; 18].join("[*].")).is_ok());
            assert!(parse(&format!("[{}]", vec!["a.b.c"; 300].join(","))).is_ok());
        });
        checked.unwrap().join().unwrap();
    }
}
