//! Where an HTTP event of API Gateway, a load balancer or a function URL has its headers and its caller: what the functions `header` and
//! `iam_caller` mean.
//!
//! The ARN that AWS sends is not one client. All users of a Cognito identity pool share the ARN of the pool's role, and the ARN of a
//! role ends in the name of a session, which a service chooses anew with new credentials.

/// The members with the headers. The first has all values of each header (payload format 1.0, and load balancers with
/// multi-value headers enabled); the second has one text for each.
pub const HEADER_PLACES: [&str; 2] = ["multiValueHeaders", "headers"];

/// Where an event has the caller that IAM authenticated: the paths of the Cognito identity and of the ARN. First those of payload format
/// 1.0, then those of format 2.0.
pub const IAM_PATHS: [[&str; 2]; 2] = [
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

/// Returns the part of an ARN that is the same in all requests of one caller and differs between callers.
///
/// | ARN | caller |
/// |---|---|
/// | IAM user, root of an account, federated user | the ARN |
/// | role | the ARN without the session: account and role |
/// | role of IAM Identity Center | the ARN: the session is the user |
/// | role of a Cognito identity pool, anything else | none |
pub fn iam_principal(arn: &str) -> Option<&str> {
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
