//! The functions of HTTP events of API Gateway, a load balancer or a function URL: `header` finds a header, and `iam_caller` the caller
//! that signed the request.
//!
//! The ARN that AWS sends is not one client. All users of a Cognito identity pool share the ARN of the pool's role, and the ARN of a
//! role ends in the name of a session, which a service chooses anew with new credentials.

use idempotency_expression::Function;

use super::error::{EvaluationError, Result};
use super::evaluate::Walk;
use crate::key::{Json, Text};

/// What both functions take.
const EVENT: &str = "an event, which is an object";

/// The members with the headers. The first has all values of each header (payload format 1.0, and load balancers with
/// multi-value headers enabled); the second has one text for each.
pub(super) const PLACES: [&str; 2] = ["multiValueHeaders", "headers"];

/// Separates several values, as in payload format 2.0.
const SEPARATOR: u8 = b',';

/// Returns the value of a header in an event, or null if the event has no such header or only empty values of it.
///
/// The case of names does not matter. Members whose names differ only in case are joined in the order of their names, so
/// that the value does not depend on the order of members in the text.
pub(super) fn header(walk: &mut Walk<'_>, event: &Json, name: &Json) -> Result<Json> {
    let Json::Str(name) = name else {
        return Err(EvaluationError::argument(
            Function::Header,
            "the name of a header",
            name,
        ));
    };
    let Json::Object(_) = event else {
        return Err(EvaluationError::argument(Function::Header, EVENT, event));
    };
    for place in PLACES {
        let members = match event.member(place) {
            None | Some(Json::Null) => continue,
            Some(Json::Object(members)) => members,
            Some(other) => {
                return Err(EvaluationError::argument(
                    Function::Header,
                    "an event whose headers are an object",
                    other,
                ));
            }
        };
        walk.work(members.len())?;
        let mut found = Vec::new();
        for (own, value) in members.iter() {
            if own.as_bytes().eq_ignore_ascii_case(name.as_bytes()) {
                walk.work(name.as_bytes().len())?;
                walk.budget.push(&mut found, (own, value))?;
            }
        }
        // A sort compares each name about as often as the list can be halved.
        let halvings = (usize::BITS - found.len().leading_zeros()) as usize;
        walk.work(found.len() * halvings * name.as_bytes().len())?;
        found.sort_unstable_by_key(|(own, _)| *own);
        let mut values = Vec::new();
        for (_, value) in found {
            let several = match value {
                Json::Array(several) => several.as_slice(),
                one => std::slice::from_ref(one),
            };
            walk.work(several.len())?;
            for value in several {
                if let Some(bytes) = bytes_of(value)? {
                    walk.budget.push(&mut values, bytes)?;
                }
            }
        }
        if !values.iter().all(|value| is_empty(value)) {
            let texts: usize = values.iter().map(|value| value.len()).sum();
            let length = texts + (values.len() - 1);
            walk.work(length)?;
            walk.budget.allocate(length)?;
            let joined = values.join(&SEPARATOR);
            return Ok(Json::Str(Text::from_trusted(joined)));
        }
    }
    Ok(Json::Null)
}

/// Returns true if a value has only separators and blanks: payload format 2.0 sends two empty values as `,`.
fn is_empty(value: &[u8]) -> bool {
    value
        .iter()
        .all(|byte| matches!(*byte, SEPARATOR | b' ' | b'\t'))
}

/// Returns the bytes of one value; `None` for null.
fn bytes_of(value: &Json) -> Result<Option<&[u8]>> {
    match value {
        Json::Null => Ok(None),
        Json::Str(text) => Ok(Some(text.as_bytes())),
        other => Err(EvaluationError::argument(
            Function::Header,
            "headers whose values are strings",
            other,
        )),
    }
}

/// Where an event has the caller that IAM authenticated: the paths of the Cognito identity and of the ARN. First those of payload format
/// 1.0, then those of format 2.0.
pub(super) const PATHS: [[&str; 2]; 2] = [
    [
        "requestContext.identity.cognitoIdentityId",
        "requestContext.identity.userArn",
    ],
    [
        "requestContext.authorizer.iam.cognitoIdentity.identityId",
        "requestContext.authorizer.iam.userArn",
    ],
];

/// The session of a role that Cognito assumes for each user of an identity pool.
const COGNITO_SESSION: &str = "CognitoIdentityCredentials";
/// The beginning of the names of the roles that IAM Identity Center makes. Many users share such a role, and the session is the user.
const IDENTITY_CENTER_ROLE: &str = "AWSReservedSSO_";

/// Returns the caller in an event, or `None` if IAM authenticated no caller, or if the ARN does not identify one.
pub(super) fn caller(event: &Json) -> Result<Option<&str>> {
    let Json::Object(_) = event else {
        return Err(EvaluationError::argument(Function::IamCaller, EVENT, event));
    };
    let found = PATHS.into_iter().find_map(|[identity, arn]| {
        let of_arn = || text(event, arn).map(principal);
        text(event, identity).map(Some).or_else(of_arn)
    });
    Ok(found.flatten())
}

/// Returns the text at a path, if it is there and not empty.
fn text<'a>(event: &'a Json, path: &str) -> Option<&'a str> {
    let mut names = path.split('.');
    let value = names.try_fold(event, |value, name| value.member(name))?;
    match value {
        Json::Str(text) => text.as_str().filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// Returns the part of an ARN that is the same in all requests of one caller and differs between callers.
///
/// | ARN | caller |
/// |---|---|
/// | IAM user, root of an account, federated user | the ARN |
/// | role | the ARN without the session: account and role |
/// | role of IAM Identity Center | the ARN: the session is the user |
/// | role of a Cognito identity pool, anything else | none |
fn principal(arn: &str) -> Option<&str> {
    let mut parts = arn.splitn(6, ':');
    let mut part = || parts.next();
    let (scheme, partition, service) = (part()?, part()?, part()?);
    let (region, account, resource) = (part()?, part()?, part()?);
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    if scheme != "arn" || partition.is_empty() || !region.is_empty() || !is_account {
        return None;
    }
    if (service, resource) == ("iam", "root") {
        return Some(arn);
    }
    let (kind, name) = resource.split_once('/')?;
    match (service, kind) {
        ("iam", "user") | ("sts", "federated-user") => (!name.is_empty()).then_some(arn),
        ("sts", "assumed-role") => {
            let (role, session) = name.split_once('/')?;
            if role.is_empty() || session.is_empty() || session.contains('/') {
                return None;
            }
            if session == COGNITO_SESSION {
                return None;
            }
            if role.starts_with(IDENTITY_CENTER_ROLE) {
                return Some(arn);
            }
            arn.strip_suffix(session)?.strip_suffix('/')
        }
        _ => None,
    }
}
