//! Judges an expression for the caller of a request: what all clients have, or what changes in a retry, is no caller.
//!
//! `caller/values.txt` is the table of values. A value that is not in it is one that the program or its authorizer chose: it is accepted.

use std::collections::BTreeSet;

use crate::ast::Ast;
use crate::function::Function;
use crate::tokens::Literal;

/// The table: each line has a class, the paths of values with spaces between them, and what to say of them.
const TABLE: &str = include_str!("caller/values.txt");

/// What is known of an expression for the caller, or of the header that has the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerFaults {
    /// Why the value cannot be the caller: clients share it, or it changes while one client retries.
    pub refused: Option<String>,
    /// Why the value may not be the caller. Only the user can know.
    pub doubted: Option<String>,
    /// The headers that the expression reads, in lower case.
    pub headers: BTreeSet<String>,
}

/// Returns what is known of an expression for the caller of a request.
pub fn check_caller(expression: &Ast) -> CallerFaults {
    let event = BTreeSet::from([Path::new()]);
    let mut found = Found::default();
    selected(expression, &event, &mut found);
    let wrong = |path: &Path| refusal(path, &["changes", "key"]);
    let merged = found.merged.map(|(_, why)| why);
    let refused = found.paths.iter().find_map(wrong).or(merged);
    let same = || {
        same(expression, &event).map(|why| {
            format!(
                "{why}: clients that have the same caller get each other's responses; add what tells them apart, such as \
                 `requestContext.authorizer.jwt.claims.[iss, sub]`, or write `shared_by_all_callers`"
            )
        })
    };
    let doubted = |path: &Path| refusal(path, &["doubt"]);
    CallerFaults {
        refused: refused.or_else(same),
        doubted: found.paths.iter().find_map(doubted).or(found.unlike),
        headers: found.paths.iter().filter_map(header_in).collect(),
    }
}

/// Returns what is known of a header that has the caller of a request.
pub fn check_caller_header(name: &str) -> CallerFaults {
    let path = header_path(name);
    CallerFaults {
        refused: refusal(&path, &["changes", "key", "same"]),
        doubted: refusal(&path, &["doubt"]),
        headers: BTreeSet::from([name.to_ascii_lowercase()]),
    }
}

/// Returns what an expression for the key of any event should not have: what changes in each retry, and texts that are joined. Also if it is
/// the same for all events, unless it is the key of a lock.
pub fn advise_key(expression: &Ast, is_lock: bool) -> Option<String> {
    if !is_lock && is_constant(expression) {
        return Some(
            "it takes nothing from the payload, so that calls with other payloads get one response: write the name of a value, such \
             as `order_id`, without quotes"
                .to_owned(),
        );
    }
    let mut found = Found::default();
    selected(expression, &BTreeSet::from([Path::new()]), &mut found);
    let changes = |path: &Path| refusal(path, &["changes"]);
    let joined = found.merged.filter(|(joins, _)| *joins);
    let joined = joined.map(|(_, why)| why);
    found.paths.iter().find_map(changes).or(joined)
}

/// Returns true if an expression is a literal or a comparison, or has such parts alone.
fn is_constant(tree: &Ast) -> bool {
    match tree {
        Ast::Literal(_) | Ast::Not(_) | Ast::Compare { .. } => true,
        Ast::List(parts) => parts.iter().all(|part| is_constant(&part.value)),
        Ast::Hash(parts) => parts.iter().all(|(_, part)| is_constant(&part.value)),
        _ => false,
    }
}

/// The names from the event to a value.
type Path = Vec<String>;
type Paths = BTreeSet<Path>;

/// The most names of a path, and the most paths of a value, that are followed. Expressions of users have fewer.
const LONGEST: usize = 8;
const MOST: usize = 100;

/// What an expression takes from an event.
#[derive(Default)]
struct Found {
    /// The paths of values in the result.
    paths: Paths,
    /// Why two results can become one; true for a `join` of several values.
    merged: Option<(bool, String)>,
    /// Why one value can come from two sources.
    unlike: Option<String>,
}

/// Returns the paths that `tree` selects from values at the paths `base`. Adds the paths of values in the result to `found`.
fn selected(tree: &Ast, base: &Paths, found: &mut Found) -> Paths {
    let paths = match tree {
        Ast::Field(name) => match name.as_str() {
            Some(name) => base.iter().map(|path| member(path, name)).collect(),
            None => Paths::new(),
        },
        Ast::Chain(left, right)
        | Ast::Project {
            over: left,
            each: right,
            ..
        } => {
            let left = inner(left, base, found);
            return selected(right, &left, found);
        }
        Ast::List(parts) => return all(parts.iter().map(|part| &part.value), base, found),
        // Which member is taken from it later is not followed, so all of them are found here.
        Ast::Hash(parts) => {
            all(parts.iter().map(|(_, part)| &part.value), base, found);
            return Paths::new();
        }
        Ast::Or(left, right) => {
            let (left, right) = (selected(left, base, found), selected(right, base, found));
            if let (Some(one), Some(other)) = (left.first(), right.first())
                && kind(one) != kind(other)
            {
                found.unlike.get_or_insert(format!(
                    "takes the caller from `{}` or from `{}`: a value of one can be a value of the other, or be written by a \
                     client; let the authorizer set one value, or write an operation for each",
                    one.join("."),
                    other.join(".")
                ));
            }
            return left.into_iter().chain(right).collect();
        }
        Ast::And(left, right) => return all([&**left, &**right], base, found),
        Ast::Flatten(over) if is_list(over) => {
            let why = "`[]` joins the lists, so that two callers can become one: write the list without `[]`";
            found.merged.get_or_insert((false, why.to_owned()));
            inner(over, base, found)
        }
        Ast::Values(over) | Ast::Flatten(over) => inner(over, base, found),
        Ast::Call {
            function,
            arguments,
            ..
        } => match function {
            Function::IamCaller => Paths::from([vec!["iam_caller(@)".to_owned()]]),
            Function::Header => match &arguments[..] {
                [_, Ast::Literal(Literal::Raw(name))] => Paths::from([header_path(name)]),
                _ => return all(arguments, base, found),
            },
            function => {
                let joins = matches!(&arguments[..], [_, Ast::List(parts)] if parts.len() > 1);
                let merged = || merges(*function).map(|why| (joins, why));
                found.merged = found.merged.take().or_else(merged);
                return all(arguments, base, found);
            }
        },
        Ast::Current | Ast::Index(_) | Ast::Slice { .. } => base.clone(),
        Ast::Literal(_) | Ast::Not(_) | Ast::Compare { .. } => Paths::new(),
    };
    found.paths.extend(paths.iter().take(MOST).cloned());
    paths.into_iter().take(MOST).collect()
}

/// Returns the paths of an inner expression: its value is not the result, because another expression selects from it.
fn inner(tree: &Ast, base: &Paths, found: &mut Found) -> Paths {
    let mut passed = Found::default();
    let paths = selected(tree, base, &mut passed);
    // A hash inside selects what it names, also if a member of it is taken later.
    found.paths.extend(passed.paths.difference(&paths).cloned());
    found.merged = found.merged.take().or(passed.merged);
    found.unlike = found.unlike.take().or(passed.unlike);
    paths
}

/// Returns true if the value is a list of parts, `[a, b]`.
fn is_list(tree: &Ast) -> bool {
    match tree {
        Ast::List(_) => true,
        Ast::Chain(_, last) => is_list(last),
        _ => false,
    }
}

fn all<'a>(trees: impl IntoIterator<Item = &'a Ast>, base: &Paths, found: &mut Found) -> Paths {
    let trees = trees.into_iter();
    trees.flat_map(|tree| selected(tree, base, found)).collect()
}

/// Returns why the result of a function is equal for values that differ, or `None` if it keeps them apart.
fn merges(function: Function) -> Option<String> {
    match function {
        Function::Map
        | Function::Merge
        | Function::NotNull
        | Function::PowertoolsBase64
        | Function::PowertoolsBase64Gzip
        | Function::PowertoolsJson
        | Function::ToArray
        | Function::ToString
        | Function::Values => None,
        Function::Join => Some(
            "`join` makes one text of several, and of others the same text (`a|b` with `c`, and `a` with `b|c`): write the values as a \
             list, `[a, b]`"
                .to_owned(),
        ),
        lossy => Some(format!(
            "`{lossy}` returns one value for several, so that two callers can become one: write the value itself"
        )),
    }
}

/// Returns why the value of `tree` is the same for all clients, or `None` if it may tell them apart. `base` has the paths of the
/// values that it is evaluated on.
fn same(tree: &Ast, base: &Paths) -> Option<String> {
    let every = |trees: &mut dyn Iterator<Item = &Ast>| {
        let why: Option<Vec<_>> = trees.map(|tree| same(tree, base)).collect();
        why?.into_iter().next()
    };
    match tree {
        Ast::Literal(_) => Some("a literal is the same for all clients".to_owned()),
        Ast::Not(_) | Ast::Compare { .. } => {
            Some("a comparison is `true` or `false` for all clients".to_owned())
        }
        Ast::List(parts) => every(&mut parts.iter().map(|part| &part.value)),
        Ast::Hash(parts) => every(&mut parts.iter().map(|(_, part)| &part.value)),
        Ast::Or(left, right) => same(left, base).or_else(|| same(right, base)),
        Ast::And(_, right) => same(right, base),
        Ast::Chain(left, right)
        | Ast::Project {
            over: left,
            each: right,
            ..
        } => {
            let paths = selected(left, base, &mut Found::default());
            if paths.is_empty() {
                return same(left, base);
            }
            same(right, &paths)
        }
        Ast::Values(over) | Ast::Flatten(over) => same(over, base),
        Ast::Call {
            function: Function::NotNull,
            arguments,
            ..
        } => arguments.iter().find_map(|argument| same(argument, base)),
        Ast::Call {
            function: Function::ToString | Function::ToArray | Function::PowertoolsJson,
            arguments,
            ..
        } => every(&mut arguments.iter()),
        _ => {
            let paths = selected(tree, base, &mut Found::default());
            let why: Option<Vec<_>> = paths.iter().map(|path| refusal(path, &["same"])).collect();
            why?.into_iter().next()
        }
    }
}

/// Returns what the table says of the value at a path, if it has one of these classes.
fn refusal(path: &Path, classes: &[&str]) -> Option<String> {
    let written = normal(path);
    let within = |known: &str| {
        known == written
            || known
                .strip_suffix('*')
                .is_some_and(|of| written.starts_with(of))
    };
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let mut columns = row.splitn(3, " | ");
        let (class, paths) = (columns.next()?, columns.next()?);
        if classes.contains(&class) && paths.split(' ').any(within) {
            return Some(format!("`{written}` {}", columns.next()?));
        }
    }
    None
}

/// Returns a path as the table writes it: the claims of both kinds of API have one name, and so have certificates.
fn normal(path: &Path) -> String {
    let names: Vec<_> = path.iter().map(String::as_str).collect();
    let (place, rest) = match &names[..] {
        [] => ("@", &[][..]),
        ["requestContext", "authorizer", "jwt", "claims", rest @ ..]
        | ["requestContext", "authorizer", "claims", rest @ ..] => ("claims", rest),
        [
            "requestContext",
            "authentication" | "identity",
            "clientCert",
            rest @ ..,
        ] => ("clientCert", rest),
        ["requestContext", "authorizer", "iam", rest @ ..] => ("iam", rest),
        ["requestContext", "identity", rest @ ..] => ("identity", rest),
        ["headers" | "multiValueHeaders", rest @ ..] => ("headers", rest),
        [first, rest @ ..] => (*first, rest),
    };
    let mut written = place.to_owned();
    for name in rest {
        written.push('.');
        written.push_str(name);
    }
    if place == "headers" {
        written.make_ascii_lowercase();
    }
    written
}

/// Returns what two alternatives must have in common so that one is not the other's: their place and their name.
fn kind(path: &Path) -> (String, Option<&String>) {
    let place = normal(path);
    let place = place.split('.').next().unwrap_or_default().to_owned();
    (place, path.last())
}

fn header_path(name: &str) -> Path {
    vec!["headers".to_owned(), name.to_ascii_lowercase()]
}

/// Returns the header that a path names.
fn header_in(path: &Path) -> Option<String> {
    match &path[..] {
        [place, name, ..] if place == "headers" || place == "multiValueHeaders" => {
            Some(name.to_ascii_lowercase())
        }
        _ => None,
    }
}

fn member(path: &Path, name: &str) -> Path {
    let names = path.iter().cloned().chain([name.to_owned()]);
    names.take(LONGEST).collect()
}

#[cfg(test)]
mod tests;
