//! The function `iam_caller`: finds the caller that signed an HTTP request, in an event of API Gateway or a function URL.
//!
//! The ARN that AWS sends is not one client. All users of a Cognito identity pool share the ARN of the pool's role, and the ARN of a
//! role ends in the name of a session, which a service chooses anew with new credentials.

use idempotency_expression::Function;

use super::error::EvaluationError;
use super::functions::given;
use crate::key::Json;

/// Where an event has the caller that IAM authenticated: the paths of the Cognito identity and of the ARN. First those of payload format
/// 1.0, then those of format 2.0.
pub(super) const PATHS: [[&[&str]; 2]; 2] = [
    [
        &["requestContext", "identity", "cognitoIdentityId"],
        &["requestContext", "identity", "userArn"],
    ],
    [
        &[
            "requestContext",
            "authorizer",
            "iam",
            "cognitoIdentity",
            "identityId",
        ],
        &["requestContext", "authorizer", "iam", "userArn"],
    ],
];

/// The session of a role that Cognito assumes for each user of an identity pool.
const OF_COGNITO: &str = "CognitoIdentityCredentials";
/// Begins the names of the roles that IAM Identity Center makes. Many users share such a role, and the session is the user.
const OF_IDENTITY_CENTER: &str = "AWSReservedSSO_";

/// Returns the caller in an event, or `None` if IAM authenticated no caller, or one that cannot be told from others.
pub(super) fn caller(event: &Json) -> Result<Option<&str>, EvaluationError> {
    let Json::Object(_) = event else {
        let takes = "an event, which is an object";
        return Err(EvaluationError::argument(
            Function::IamCaller,
            takes,
            given(event),
        ));
    };
    let found = PATHS.into_iter().find_map(|[identity, arn]| {
        let of_arn = || text(event, arn).map(principal);
        text(event, identity).map(Some).or_else(of_arn)
    });
    Ok(found.flatten())
}

/// Returns the text at a path, if it is there and not empty.
fn text<'a>(event: &'a Json, path: &[&str]) -> Option<&'a str> {
    let value = path
        .iter()
        .try_fold(event, |value, name| value.member(name))?;
    match value {
        Json::Str(text) => text.as_str().filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// Returns the part of an ARN that is the same in all requests of one caller, and in those of no other.
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
            if session == OF_COGNITO {
                return None;
            }
            if role.starts_with(OF_IDENTITY_CENTER) {
                return Some(arn);
            }
            arn.strip_suffix(session)?.strip_suffix('/')
        }
        _ => None,
    }
}
