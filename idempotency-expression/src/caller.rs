//! Values that IAM authenticated and that are not one client: an expression for the caller of a request must not select them.

use std::collections::BTreeSet;

use crate::{Ast, Function};

/// The members of a `requestContext` that name a session: after `identity` in payload format 1.0, after `iam` in format 2.0.
const SESSION_MEMBERS: [(&str, &str); 8] = [
    ("identity", "userArn"),
    ("identity", "user"),
    ("identity", "caller"),
    ("identity", "accessKey"),
    ("iam", "userArn"),
    ("iam", "userId"),
    ("iam", "callerId"),
    ("iam", "accessKey"),
];

/// Returns the error of an expression for the caller that selects the ARN, the id or the access key of a request that was signed with
/// IAM. `None` if it selects none of them.
pub fn refuse_caller<L, R>(expression: &Ast<L, R>) -> Option<String> {
    let mut found = BTreeSet::new();
    selected(expression, &BTreeSet::from([Vec::new()]), &mut found);
    found.iter().find_map(|path| {
        let (place, name) = match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["requestContext", place @ "identity", name] | ["authorizer", place @ "iam", name] => {
                (place, name)
            }
            [.., "requestContext", place @ "identity"] | [.., "authorizer", place @ "iam"] => {
                return Some(format!("`{place}` holds the ids of one session: write `iam_caller(@)`"));
            }
            _ => return None,
        };
        SESSION_MEMBERS.contains(&(place, name)).then(|| {
            format!(
                "`{place}.{name}` is not one client: all users of a Cognito identity pool share it, and with a role it changes \
                 with each session: write `iam_caller(@)`"
            )
        })
    })
}

/// The ends of paths: at most three names each.
type Paths = BTreeSet<Vec<String>>;

/// Returns the paths that `tree` selects from values at the paths `base`. Adds the paths of values in the result to `found`.
fn selected<L, R>(tree: &Ast<L, R>, base: &Paths, found: &mut Paths) -> Paths {
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
        Ast::Or(left, right) | Ast::And(left, right) => {
            return all([&**left, &**right], base, found);
        }
        Ast::Values(over) | Ast::Flatten(over) => inner(over, base, found),
        Ast::Call { function, .. } if *function == Function::IamCaller => Paths::new(),
        Ast::Call { arguments, .. } => return all(arguments, base, found),
        Ast::Current | Ast::Index(_) | Ast::Slice { .. } => base.clone(),
        Ast::Literal(_) | Ast::Not(_) | Ast::Compare { .. } => Paths::new(),
    };
    found.extend(paths.iter().cloned());
    paths
}

/// Returns the paths of an inner expression: its value is not the result, because another expression selects from it.
fn inner<L, R>(tree: &Ast<L, R>, base: &Paths, found: &mut Paths) -> Paths {
    let mut passed = Paths::new();
    let paths = selected(tree, base, &mut passed);
    // A hash inside selects what it names, also if a member of it is taken later.
    found.extend(passed.difference(&paths).cloned());
    paths
}

fn all<'a, L: 'a, R: 'a>(
    trees: impl IntoIterator<Item = &'a Ast<L, R>>,
    base: &Paths,
    found: &mut Paths,
) -> Paths {
    let trees = trees.into_iter();
    trees.flat_map(|tree| selected(tree, base, found)).collect()
}

fn member(path: &[String], name: &str) -> Vec<String> {
    let last = path.iter().skip(path.len().saturating_sub(2)).cloned();
    last.chain([name.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn refused(text: &str) -> Option<String> {
        refuse_caller(&parse(text).unwrap())
    }

    #[test]
    fn each_value_of_a_session_is_found_wherever_it_is_written() {
        for (place, name) in SESSION_MEMBERS {
            let within = match place {
                "iam" => "requestContext.authorizer",
                _ => "requestContext",
            };
            for expression in [
                format!("{within}.{place}.{name}"),
                format!("a.sub || {within}.{place} . {name}"),
                format!("[{within}.{place}.[other, {name}], b]"),
                format!("{{u: {within}.\"{place}\".\"{name}\"}}"),
                format!("[{{u: {within}.{place}.{name}}}][0].u"),
                format!("{within}.{place}.{{a: accountId, u: to_string({name})}}"),
                format!("({within} | {place}).[accountId || {name}] | [0]"),
            ] {
                let error = refused(&expression).unwrap();
                assert!(error.contains(&format!("`{place}.{name}`")), "{expression}");
            }
        }
        for whole in [
            "requestContext.identity",
            "[requestContext.authorizer.iam, b]",
        ] {
            let error = refused(whole).unwrap();
            assert!(error.contains("holds the ids of one session"), "{whole}");
        }
        for expression in [
            "requestContext.authorizer.lambda.identity.user",
            "[iam_caller(@), header(@, 'x-user')]",
            "requestContext.identity.cognitoIdentityId",
            "requestContext.authorizer.iam.cognitoIdentity.identityId",
            "requestContext.identity.apiKeyId",
            "detail.userIdentity.userArn",
            "header(@, 'x-amzn-oidc-identity')",
            "identity.username",
        ] {
            assert_eq!(refused(expression), None, "{expression}");
        }
    }
}
