//! Checks of the settings of `#[idempotent(http, ..)]`.

use syn::{Error, Expr, ExprLit, Lit};

use crate::arguments::{Arguments, Setting, Shape, of_http};

/// Returns the errors of settings that do not fit the function's shape, and of a missing or doubtful caller.
pub(super) fn wrong_settings(arguments: &Arguments) -> Vec<Error> {
    let http = arguments.shape.as_ref();
    let Some(http) = http.filter(|shaped| shaped.shape == Shape::Http) else {
        return of_another_shape(arguments);
    };
    let event = "with `http` the event is the request and has the context";
    let not_here = [
        ("payload", event),
        ("context", event),
        (
            "on_replay",
            "with `http` a replayed response has the header `idempotent-replayed`",
        ),
    ];
    let mut errors: Vec<_> = not_here
        .into_iter()
        .filter_map(|(name, why)| {
            let setting = named(arguments, name)?;
            let message = format!("leave `{name}` out: {why}");
            Some(Error::new(setting.name.span(), message))
        })
        .collect();
    if let (Some(_), Some(header)) = (named(arguments, "key"), named(arguments, "key_header")) {
        errors.push(Error::new(
            header.name.span(),
            "the key is either in a header or in the event: leave `key_header` or `key` out",
        ));
    }
    if let (Some(_), Some(also)) = (
        named(arguments, "validate"),
        named(arguments, "fingerprint_also"),
    ) {
        errors.push(Error::new(
            also.name.span(),
            "`fingerprint_also` adds to method, path, query and body, and `validate` replaces query and body: write both parts as a \
             list in `validate`, and leave `fingerprint_also` out",
        ));
    }
    let shared =
        named(arguments, "shared_by_all_callers").filter(|shared| !is_false(&shared.value));
    let caller = named(arguments, "caller");
    errors.extend(match (caller, shared) {
        (Some(_), Some(shared)) => Some(Error::new(
            shared.name.span(),
            "with a `caller` each caller has its own keys: leave `caller` or `shared_by_all_callers` out",
        )),
        // A value that cannot be read has an error of its own, and one mistake is one error.
        (None, None) if !arguments.names("caller") && !is_unread(arguments, "shared_by_all_callers") => {
            Some(Error::new(
                http.word.span(),
                "say who the caller is, or a client that sends the key of another client gets its response: write \
                 `caller = \"requestContext.authorizer.jwt.claims.[iss, sub]\"` (an expression over the event that a client cannot \
                 choose) or `caller = \"iam_caller(@)\"`, or `shared_by_all_callers` if all clients may see each other's responses",
            ))
        }
        _ => None,
    });
    errors
}

/// Returns the errors of settings of HTTP on a function that is no handler of HTTP events.
fn of_another_shape(arguments: &Arguments) -> Vec<Error> {
    let of_http = of_http().filter_map(|name| named(arguments, name));
    of_http
        .map(|setting| {
            let name = &setting.name;
            Error::new(
                name.span(),
                format!("`{name}` is a setting of handlers of HTTP events: write `#[idempotent(http, {name} = ..)]`"),
            )
        })
        .collect()
}

fn named<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a Setting> {
    arguments.all.iter().find(|setting| setting.name == name)
}

/// Returns true if a setting was written, but its value could not be read.
fn is_unread(arguments: &Arguments, name: &str) -> bool {
    arguments.names(name) && named(arguments, name).is_none()
}

fn is_false(value: &Expr) -> bool {
    matches!(value, Expr::Lit(ExprLit { lit: Lit::Bool(literal), .. }) if !literal.value)
}
