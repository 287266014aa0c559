//! Checks of the settings of `#[idempotent(http, ..)]`.

use idempotency_expression::Scope;
use syn::{Error, Expr, ExprLit, Lit};

use crate::arguments::{Arguments, Shape, names};

/// Returns the errors of settings that do not fit the function's shape, and of a missing or doubtful caller.
pub(super) fn wrong_settings(arguments: &Arguments) -> Vec<Error> {
    let http = arguments.shape.as_ref();
    let Some(http) = http.filter(|written| written.shape == Shape::Http) else {
        return arguments.refused(names(Scope::Http), |name| {
            format!("`{name}` is a setting of handlers of HTTP events: write `#[idempotent(http, {name} = ..)]`")
        });
    };
    let named = |name: &str| arguments.named(name);
    let mut errors = arguments.refused(["payload", "context"], |name| {
        format!("leave `{name}` out: with `http` the event is the request and has the context")
    });
    errors.extend(arguments.refused(["on_replay"], |name| {
        format!("leave `{name}` out: with `http` a replayed response has the header `idempotent-replayed`")
    }));
    if named("key").is_some() {
        errors.extend(arguments.refused(["key_header"], |_| {
            "the key is either in a header or in the event: leave `key_header` or `key` out"
                .to_owned()
        }));
    }
    if named("fingerprint_rfc8785").is_some() {
        errors.extend(arguments.refused(["validate", "fingerprint_also"], |name| {
            format!(
                "`fingerprint_rfc8785` says what is compared, and `{name}` too: leave one of them out"
            )
        }));
    } else if named("validate").is_some() {
        errors.extend(arguments.refused(["fingerprint_also"], |_| {
            "`fingerprint_also` adds to method, path, query and body, and `validate` replaces query and body: write both parts as a \
             list in `validate`, and leave `fingerprint_also` out"
                .to_owned()
        }));
    }
    let shared = named("shared_by_all_callers").filter(|shared| !is_false(&shared.value));
    errors.extend(match (named("caller"), shared) {
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

/// Returns true if a setting was written, but its value could not be read.
fn is_unread(arguments: &Arguments, name: &str) -> bool {
    arguments.names(name) && arguments.named(name).is_none()
}

fn is_false(value: &Expr) -> bool {
    matches!(value, Expr::Lit(ExprLit { lit: Lit::Bool(literal), .. }) if !literal.value)
}
