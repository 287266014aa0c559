//! Parses a text into a checked tree.
//!
//! It is the parser of the reference implementation, jmespath.py: each operator binds as strongly as there, and a projection ends where
//! it ends there. So a key has the same value in both. `tests/tests/lambda/properties/selection.rs` compares the values with those of the crate
//! `jmespath`, on expressions that both projects read alike.

use crate::tokens::{Kind, MAX_BYTES, Token, check_limits, tokenize};
use crate::{Ast, Comparator, Function, Literal, Name, Part, SyntaxError};

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
/// As [`parse`], and for a literal that is refused.
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

/// How strongly an operator binds, as in the reference.
mod power {
    pub(super) const PIPE: u8 = 1;
    pub(super) const OR: u8 = 2;
    pub(super) const AND: u8 = 3;
    pub(super) const COMPARE: u8 = 5;
    pub(super) const FLATTEN: u8 = 9;
    /// An operator below this ends a projection.
    pub(super) const IN_PROJECTION: u8 = 10;
    pub(super) const STAR: u8 = 20;
    pub(super) const FILTER: u8 = 21;
    pub(super) const DOT: u8 = 40;
    pub(super) const NOT: u8 = 45;
    pub(super) const BRACE: u8 = 50;
    pub(super) const BRACKET: u8 = 55;
    pub(super) const CALL: u8 = 60;

    /// Returns the power of a symbol on what is before it, or 0 if it ends an expression.
    pub(super) fn of(symbol: &str) -> u8 {
        match symbol {
            "|" => PIPE,
            "||" => OR,
            "&&" => AND,
            "==" | "!=" | "<" | "<=" | ">" | ">=" => COMPARE,
            "[]" => FLATTEN,
            "*" => STAR,
            "[?" => FILTER,
            "." => DOT,
            "!" => NOT,
            "{" => BRACE,
            "[" => BRACKET,
            "(" => CALL,
            _ => 0,
        }
    }
}

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

    /// Parses an expression until an operator that does not bind more strongly than `outer`.
    fn expression(&mut self, outer: u8) -> Result<Ast<L, R>> {
        let mut left = self.operand()?;
        while power::of(self.symbol(0)) > outer {
            left = self.operator(left)?;
        }
        Ok(left)
    }

    /// Parses what can begin an expression.
    fn operand(&mut self) -> Result<Ast<L, R>> {
        let Some(token) = self.next() else {
            return Err(self.refused());
        };
        match &token.kind {
            Kind::Literal(literal) => {
                self.at += 1;
                let refused = "the literal is JSON that cannot be read";
                (self.literal)(literal)
                    .map(Ast::Literal)
                    .ok_or_else(|| SyntaxError::new(token.offset, refused))
            }
            Kind::Identifier(name) => {
                self.at += 1;
                Ok(Ast::Field(Name::from(name.as_str())))
            }
            Kind::Quoted(name) => {
                self.at += 1;
                if self.symbol(0) == "(" {
                    return Err(self.refused());
                }
                Ok(Ast::Field(name.clone()))
            }
            Kind::Number(_) => Err(self.refused()),
            Kind::Symbol(symbol) => self.prefix(symbol),
        }
    }

    /// Parses an expression that begins with this symbol.
    fn prefix(&mut self, symbol: &'static str) -> Result<Ast<L, R>> {
        match symbol {
            "@" => {
                self.at += 1;
                Ok(Ast::Current)
            }
            "!" => {
                self.at += 1;
                Ok(Ast::Not(Box::new(self.expression(power::NOT)?)))
            }
            "(" => {
                self.at += 1;
                let inner = self.expression(0)?;
                self.expect(")")?;
                Ok(inner)
            }
            "{" => {
                self.at += 1;
                self.hash()
            }
            "*" => self.values(Ast::Current, power::STAR),
            "[?" => self.filter(Ast::Current),
            "[]" => self.flatten(Ast::Current),
            "[" if self.begins_index() || self.begins_elements() => self.bracket(Ast::Current),
            "[" => {
                self.at += 1;
                self.list()
            }
            "&" => {
                let message = "`&` is only allowed before an argument that `map`, `sort_by`, `min_by` or `max_by` evaluates";
                Err(SyntaxError::new(self.offset(), message))
            }
            _ => Err(self.refused()),
        }
    }

    /// Parses the operator that comes next, on what is before it.
    fn operator(&mut self, left: Ast<L, R>) -> Result<Ast<L, R>> {
        match self.symbol(0) {
            "." if self.symbol(1) == "*" => {
                self.at += 1;
                self.values(left, power::DOT)
            }
            "." => {
                self.at += 1;
                Ok(chain(left, self.after_dot(power::DOT)?))
            }
            "[" => self.bracket(left),
            "[]" => self.flatten(left),
            "[?" => self.filter(left),
            "(" => self.call(left),
            "|" | "||" | "&&" => self.logic(left),
            _ => self.compare(left),
        }
    }

    fn logic(&mut self, left: Ast<L, R>) -> Result<Ast<L, R>> {
        let symbol = self.symbol(0);
        self.at += 1;
        let right = Box::new(self.expression(power::of(symbol))?);
        let left = Box::new(left);
        Ok(match symbol {
            "|" => Ast::Chain(left, right),
            "||" => Ast::Or(left, right),
            _ => Ast::And(left, right),
        })
    }

    fn compare(&mut self, left: Ast<L, R>) -> Result<Ast<L, R>> {
        let comparator = match self.symbol(0) {
            "==" => Comparator::Equal,
            "!=" => Comparator::NotEqual,
            "<" => Comparator::Less,
            "<=" => Comparator::LessOrEqual,
            ">" => Comparator::Greater,
            ">=" => Comparator::GreaterOrEqual,
            _ => return Err(self.refused()),
        };
        self.at += 1;
        Ok(Ast::Compare {
            comparator,
            left: Box::new(left),
            right: Box::new(self.expression(power::COMPARE)?),
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

    /// Parses the operators that a projection applies to each element.
    fn each(&mut self, outer: u8) -> Result<Box<Ast<L, R>>> {
        let each = match self.symbol(0) {
            "." => {
                self.at += 1;
                self.after_dot(outer)?
            }
            "[" | "[?" => self.expression(outer)?,
            symbol if power::of(symbol) < power::IN_PROJECTION => Ast::Current,
            _ => return Err(self.refused()),
        };
        Ok(Box::new(each))
    }

    fn project(&mut self, over: Ast<L, R>, outer: u8) -> Result<Ast<L, R>> {
        Ok(Ast::Project {
            over: Box::new(over),
            condition: None,
            each: self.each(outer)?,
        })
    }

    fn values(&mut self, over: Ast<L, R>, outer: u8) -> Result<Ast<L, R>> {
        self.at += 1;
        self.project(Ast::Values(Box::new(over)), outer)
    }

    fn flatten(&mut self, over: Ast<L, R>) -> Result<Ast<L, R>> {
        self.at += 1;
        self.project(Ast::Flatten(Box::new(over)), power::FLATTEN)
    }

    fn filter(&mut self, over: Ast<L, R>) -> Result<Ast<L, R>> {
        self.at += 1;
        let condition = self.expression(0)?;
        self.expect("]")?;
        Ok(Ast::Project {
            over: Box::new(over),
            condition: Some(Box::new(condition)),
            each: self.each(power::FILTER)?,
        })
    }

    /// Returns true if the bracket that comes next is that of an index or a slice.
    fn begins_index(&self) -> bool {
        let after = self.tokens.get(self.at + 1).map(|token| &token.kind);
        matches!(after, Some(Kind::Number(_) | Kind::Symbol(":")))
    }

    /// Returns true if `[*]` comes next.
    fn begins_elements(&self) -> bool {
        self.symbol(1) == "*" && self.symbol(2) == "]"
    }

    /// Parses `[*]`, an index or a slice.
    fn bracket(&mut self, left: Ast<L, R>) -> Result<Ast<L, R>> {
        let is_index = self.begins_index();
        self.at += 1;
        if !is_index {
            self.expect("*")?;
            self.expect("]")?;
            return self.project(left, power::STAR);
        }
        let index = self.index()?;
        // A slice directly after an index is not a projection.
        let is_plain = matches!(index, Ast::Index(_)) || is_indexed(&left);
        let indexed = match (left, index) {
            (Ast::Current, index @ Ast::Index(_)) => index,
            (left, index) => chain(left, index),
        };
        if is_plain {
            return Ok(indexed);
        }
        self.project(indexed, power::STAR)
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
                let is_value = self.next().is_some_and(|token| match token.kind {
                    Kind::Symbol(symbol) => symbol == "@" || symbol == "&",
                    _ => true,
                });
                return Err(if is_value {
                    SyntaxError::new(self.offset(), "expected `,` or `]`")
                } else {
                    self.refused()
                });
            }
            parts.push(self.part()?);
        }
        Ok(Ast::List(parts))
    }

    /// Parses the members of a hash, and the brace that closes it. As in the reference, no comma is needed between members.
    fn hash(&mut self) -> Result<Ast<L, R>> {
        let mut members = Vec::new();
        loop {
            let name = match self.next().map(|token| &token.kind) {
                Some(Kind::Identifier(name)) => Name::from(name.as_str()),
                Some(Kind::Quoted(name)) => name.clone(),
                _ => return Err(self.refused()),
            };
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
            Ast::Field(name) => name.as_str().ok_or_else(|| self.refused())?,
            _ => return Err(self.refused()),
        };
        let before = &self.tokens[self.at.saturating_sub(1)];
        let offset = match before.kind {
            Kind::Identifier(_) => before.offset,
            _ => self.offset(),
        };
        let Some(function) = Function::from_name(name) else {
            return Err(SyntaxError::new(offset, Function::refuse_name(name)));
        };
        self.at += 1;
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
        match count
            .map(|message| SyntaxError::new(offset, message))
            .or(refused)
        {
            Some(error) => Err(error),
            None => Ok(Ast::Call {
                function,
                arguments,
                note: self.note.clone(),
            }),
        }
    }
}

fn chain<L, R>(left: Ast<L, R>, right: Ast<L, R>) -> Ast<L, R> {
    Ast::Chain(Box::new(left), Box::new(right))
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
    use crate::Literal;

    fn field(name: &str) -> Ast {
        Ast::Field(Name::from(name))
    }

    fn chain(left: Ast, right: Ast) -> Ast {
        Ast::Chain(Box::new(left), Box::new(right))
    }

    fn project(over: Ast, each: Ast) -> Ast {
        Ast::Project {
            over: Box::new(over),
            condition: None,
            each: Box::new(each),
        }
    }

    fn part(text: &str, value: Ast) -> Part {
        Part {
            text: text.into(),
            value,
        }
    }

    #[test]
    fn parts_have_the_text_that_was_written() {
        let texts = [
            ("[ a.b , c[0] ,d]", "a.b; c[0]; d"),
            (
                r#"[join(',', [a, b]), {x: y, z: @}, (c | d), [[e]], 'f,]', g[-1], @, "h,i", `1`]"#,
                r#"join(',', [a, b]); {x: y, z: @}; (c | d); [[e]]; 'f,]'; g[-1]; @; "h,i"; `1`"#,
            ),
            ("{a: b.c, \"d\": [e, {f: g}]}", "b.c; [e, {f: g}]"),
            // The reference needs no comma between members.
            ("{a: b c: !d e: *.f}", "b; !d; *.f"),
            ("body.[a, b ]", "a; b"),
        ];
        for (text, expected) in texts {
            let parts: Vec<Part> = match parse(text).unwrap() {
                Ast::List(parts) => parts,
                Ast::Hash(members) => members.into_iter().map(|(_, part)| part).collect(),
                Ast::Chain(_, list) => match *list {
                    Ast::List(parts) => parts,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?} is not a multi-select"),
            };
            let texts: Vec<_> = parts.iter().map(|part| &*part.text).collect();
            assert_eq!(texts.join("; "), expected);
        }
    }

    /// Checks lines of `expression => accepted` or `expression => place: message`.
    fn check(lines: &str) {
        for line in lines.lines().filter(|line| line.contains(" => ")) {
            let (text, expected) = line.trim().split_once(" => ").unwrap();
            let found = match parse(text) {
                Ok(_) => "accepted".to_owned(),
                Err(error) => format!("{}: {}", error.offset, error.message),
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn names_and_literals_keep_their_text() {
        let json = "`12345678901234567890`";
        let literal = Ast::Literal(Literal::Json(json.trim_matches('`').into()));
        let raw = Ast::Literal(Literal::Raw("raw".into()));
        let members = vec![
            (Name::from("a b"), part(json, literal)),
            (Name::from("c"), part("'raw'", raw)),
        ];
        let text = format!(r#"{{"a b": {json}, c: 'raw'}}"#);
        assert_eq!(parse(&text), Ok(Ast::Hash(members)));
        let lone = Name([0xED, 0xA0, 0xBD].into());
        assert_eq!(parse(r#""\ud83d""#), Ok(Ast::Field(lone)));
    }

    #[test]
    fn calls_have_their_function() {
        let call = Ast::Call {
            function: Function::SortBy,
            arguments: vec![Ast::Current, field("n")],
            note: (),
        };
        assert_eq!(parse("sort_by(@, &n)"), Ok(call));
    }

    #[test]
    fn the_arguments_of_header_are_checked() {
        let by_example = "0: `header` takes the name of a header as text in single quotes, as in `header(@, 'Idempotency-Key')`";
        check(
            &r#"
            header(@, 'Idempotency-Key') => accepted
            header(event, ('x_1')) => accepted
            [header(@, 'a'), b] => accepted
            header(@, `1`) => EXAMPLE
            header(@, a.b) => EXAMPLE
            header(@, name) => 0: `header` takes the name of a header as text: write it in single quotes, `header(@, 'name')`
            header(@, "x-y") => 0: `header` takes the name of a header as text: write it in single quotes, `header(@, 'x-y')`
            header(@, '') => 0: this is not the name of a header: write letters, digits and `-` only
            header(@, 'Idempotency Key') => 0: this is not the name of a header: write letters, digits and `-` only
            header('Idempotency-Key', 'a') => 0: argument 1 of `header` is the event: write `@`
            header('Idempotency-Key') => 0: `header` takes 2 arguments, not 1
            headr(@, 'a') => 0: unknown function `headr`; did you mean `header`?
            "#
            .replace("EXAMPLE", by_example),
        );
    }

    #[test]
    fn what_the_reference_accepts_is_accepted_and_what_it_refuses_is_refused_at_its_place() {
        check(
            r#"
            length(a,) => accepted
            not_null(a b) => accepted
            {a: b c: d} => accepted
            a[-0] => accepted
            a[99999999999] => accepted
            a[:0 1] => accepted
            `foo` => accepted
            `` => accepted
            (length)(a) => accepted
            body. => 5: the expression ends here, but is not complete
            [a b] => 3: expected `,` or `]`
            [ ] => 2: the list is empty; name what to select
            [a,] => 3: `]` is not allowed here
            a.&b => 2: `&` is not allowed after a dot
            a[::0] => 4: the step of a slice cannot be 0
            a[::0].b => 4: the step of a slice cannot be 0
            a b => 2: `b` is not allowed here
            "length"(a) => 8: `(` is not allowed here
            &a => 0: `&` is only allowed before an argument that `map`, `sort_by`, `min_by` or `max_by` evaluates
            length(&a) => 7: `length` takes a value here; remove the `&`
            a ? b => 2: unexpected character '?'; put names with other characters than letters, digits and underscores in double quotes
            nums[?a > 1] => 10: a number can only be an index; write it between backticks
            map(a, b) => 0: argument 1 of `map` must be an expression; write `&` before it
            not_null() => 0: `not_null` takes at least 1 argument, not 0
            "#,
        );
        for empty in ["", "  "] {
            assert_eq!(
                parse(empty),
                Err(SyntaxError::new(0, "the expression is empty"))
            );
        }
    }

    #[test]
    fn a_slice_after_an_index_is_not_a_projection() {
        let slice = Ast::Slice {
            start: Some(0),
            stop: Some(2),
            step: 1,
        };
        let indexed = chain(field("a"), Ast::Index(0));
        assert_eq!(
            parse("a[0][0:2]"),
            Ok(chain(indexed.clone(), slice.clone()))
        );
        assert_eq!(
            parse("a[0][0:2].b"),
            Ok(chain(chain(indexed, slice.clone()), field("b")))
        );
        assert_eq!(
            parse("a[0:2].b"),
            Ok(project(chain(field("a"), slice), field("b")))
        );
    }

    #[test]
    fn a_projection_of_values_after_a_dot_ends_at_the_next_dot() {
        let values = |name| Ast::Values(Box::new(field(name)));
        assert_eq!(
            parse("a.*.b.c"),
            Ok(chain(project(values("a"), field("b")), field("c")))
        );
        assert_eq!(
            parse("*.b.c"),
            Ok(project(
                Ast::Values(Box::new(Ast::Current)),
                chain(field("b"), field("c"))
            ))
        );
    }

    #[test]
    fn a_projection_ends_after_braces() {
        let hash = Ast::Hash(vec![(Name::from("b"), part("c", field("c")))]);
        assert_eq!(
            parse("a[*].{b: c}.d"),
            Ok(chain(project(field("a"), hash), field("d")))
        );
        assert_eq!(parse("!a[*].{b: c}.d"), parse("(!a[*].{b: c}).d"));
        assert_ne!(parse("!a[*].{b: c}.d"), parse("!(a[*].{b: c}.d)"));
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
        });
        checked.unwrap().join().unwrap();
    }

    #[test]
    fn a_long_list_of_short_paths_is_accepted() {
        let text = format!("[{}]", vec!["a.b.c"; 300].join(","));
        assert!(parse(&text).is_ok());
    }
}
