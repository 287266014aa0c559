//! What an error of the SDK means, and what to do about it.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::OnceLock;

use aws_sdk_dynamodb::error::{ConnectorError, ProvideErrorMetadata, SdkError};
use idempotency_core::store::{StoreError, StoreErrorKind};

use crate::size;

/// How much of the service's own message is repeated, in characters.
const QUOTED: usize = 400;

/// The table that errors speak of.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) table: String,
    pub(crate) region: String,
    /// The name of the sort key, where the table has one.
    pub(crate) sort_key: Option<String>,
    /// The name of the partition key.
    pub(crate) key: String,
    /// Where requests are sent, as `https://host`: known once the first one leaves.
    pub(crate) endpoint: OnceLock<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamoDB table `{}` in {}", self.table, self.region)?;
        match self.configured_endpoint() {
            Some(endpoint) => write!(f, " at {endpoint}"),
            None => Ok(()),
        }
    }
}

/// Whether this is an endpoint of AWS's own.
fn is_of_aws(endpoint: &str) -> bool {
    [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"]
        .iter()
        .any(|domain| endpoint.ends_with(domain))
}

impl Place {
    /// Returns the endpoint that was configured in place of the region's own, which may be why something fails.
    pub(crate) fn configured_endpoint(&self) -> Option<&str> {
        let endpoint = self.endpoint.get()?;
        (!is_of_aws(endpoint)).then_some(endpoint)
    }

    /// Notes where a request is sent.
    pub(crate) fn sends_to(&self, uri: &str) {
        self.endpoint.get_or_init(|| origin(uri));
    }

    /// What a failed call means. `action` is the IAM action; `sent` is whether anything left this process.
    ///
    /// The raw response is dropped: its `Debug` shows bodies, and in them answers. What caused the failure stays as
    /// the source.
    pub(crate) fn error<E>(&self, action: &str, error: SdkError<E>, sent: bool) -> StoreError
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let status = error
            .raw_response()
            .map(|response| response.status().as_u16());
        let meta = error.meta();
        let (kind, message) = match &error {
            SdkError::ServiceError(_) | SdkError::ResponseError(_) => self.answered(
                action,
                status.unwrap_or_default(),
                meta.code(),
                meta.message(),
            ),
            _ if !sent => self.unsent(action, &error),
            SdkError::DispatchFailure(failure) => {
                let connector = failure.as_connector_error();
                self.unanswered(connector.is_some_and(never_connected), failure.is_timeout())
            }
            SdkError::TimeoutError(_) => self.unanswered(false, true),
            _ => self.unanswered(false, false),
        };
        let made = StoreError::new(kind, message);
        match error.into_source() {
            Ok(source) => made.with_source(source),
            Err(_) => made,
        }
    }

    /// Returns what an error response to one send means.
    pub(crate) fn answer(
        &self,
        action: &str,
        status: u16,
        code: Option<&str>,
        message: Option<&str>,
    ) -> StoreError {
        let (kind, message) = self.answered(action, status, code, message);
        StoreError::new(kind, message)
    }

    /// Returns what it means that one send got no response.
    pub(crate) fn unreachable(&self, never_connected: bool, timeout: bool) -> StoreError {
        let (kind, message) = self.unanswered(never_connected, timeout);
        StoreError::new(kind, message)
    }

    /// A record that is too large to be sent.
    pub(crate) fn too_large(&self, bytes: usize) -> StoreError {
        let (largest, remedy) = (size::LARGEST, TOO_LARGE);
        StoreError::new(
            StoreErrorKind::TooLarge,
            format!("the record has {bytes} bytes and {self} takes {largest}: {remedy}"),
        )
    }

    /// The service answered, with an error or with something unreadable.
    fn answered(
        &self,
        action: &str,
        status: u16,
        code: Option<&str>,
        message: Option<&str>,
    ) -> (StoreErrorKind, String) {
        use StoreErrorKind as Kind;
        let quoted: String = message
            .unwrap_or("no message")
            .chars()
            .take(QUOTED)
            .collect();
        let short = code.unwrap_or("no code");
        match code.unwrap_or_default() {
            "ResourceNotFoundException" | "TableNotFoundException" => (
                Kind::TableMissing,
                format!("there is no {self}: create it, or set IDEMPOTENCY_TABLE"),
            ),
            "AccessDeniedException" | "AccessDenied" | "KMSAccessDeniedException" => (
                Kind::AccessDenied,
                format!(
                    "{action} is denied on {self}: allow the function's role dynamodb:GetItem, dynamodb:PutItem, \
                     dynamodb:UpdateItem and dynamodb:DeleteItem on it ({quoted})"
                ),
            ),
            "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "InvalidSignatureException"
            | "IncompleteSignatureException"
            | "SignatureDoesNotMatch"
            | "MissingAuthenticationTokenException"
            | "MissingAuthenticationToken"
            | "ExpiredTokenException"
            | "ExpiredToken" => (
                Kind::Credentials,
                format!(
                    "the credentials for {self} were not accepted: renew them, and check the clock ({quoted})"
                ),
            ),
            "ThrottlingException"
            | "Throttling"
            | "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded" => (
                Kind::Throttled,
                format!(
                    "{self} asks for fewer requests ({short}): raise its capacity, or bill it on demand"
                ),
            ),
            "TransactionConflictException" | "ReplicatedWriteConflictException" => (
                Kind::Throttled,
                format!("another writer holds the record in {self} ({short}): try again later"),
            ),
            "ItemCollectionSizeLimitExceededException" => (Kind::TooLarge, self.refused_size()),
            "ValidationException" if quoted.contains("maximum allowed size") => {
                (Kind::TooLarge, self.refused_size())
            }
            "ValidationException" if speaks_of_keys(&quoted) => (
                Kind::WrongSchema,
                format!(
                    "the keys of {self} are not {}: create it with these, or set IDEMPOTENCY_KEY_ATTR and \
                     IDEMPOTENCY_SORT_KEY_ATTR to its own ({quoted})",
                    self.keys()
                ),
            ),
            _ if status >= 500 => (
                Kind::Internal,
                format!("{self} failed with status {status} ({short}): try again later"),
            ),
            "" => (
                Kind::Internal,
                format!(
                    "what answered for {self} with status {status} did not speak as DynamoDB: check the endpoint and \
                     proxies, or try again later"
                ),
            ),
            _ => (
                Kind::Rejected,
                format!("{action} was refused by {self}: {short}: {quoted}"),
            ),
        }
    }

    /// The request left and nothing readable came back, or it could not leave.
    fn unanswered(&self, never_connected: bool, timeout: bool) -> (StoreErrorKind, String) {
        let what = match (never_connected, timeout) {
            (true, _) => "no connection to",
            (false, true) => "no answer in time from",
            (false, false) => "the connection broke before an answer from",
        };
        let at = match self.endpoint.get() {
            Some(endpoint) if is_of_aws(endpoint) => format!(" at {endpoint}"),
            _ => String::new(),
        };
        let message = format!(
            "{what} {self}{at}: check the endpoint (AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL and `endpoint_url` set \
             another one); a function in a VPC needs a route to DynamoDB, such as a gateway endpoint"
        );
        (StoreErrorKind::Unreachable, message)
    }

    /// Nothing was sent: the request could not be made or signed.
    fn unsent<E: StdError + 'static>(
        &self,
        action: &str,
        error: &SdkError<E>,
    ) -> (StoreErrorKind, String) {
        let texts: Vec<_> = chain(error)
            .map(|error| error.to_string().to_lowercase())
            .collect();
        let credentials =
            |text: &String| text.contains("credential") || text.contains("identity resolver");
        if texts.iter().any(credentials) || matches!(error, SdkError::TimeoutError(_)) {
            let message = format!(
                "there are no credentials for {self}: give the function a role, or set AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY"
            );
            return (StoreErrorKind::Credentials, message);
        }
        let message = format!(
            "{action} to {self} could not be prepared: check the client's region and endpoint"
        );
        (StoreErrorKind::Rejected, message)
    }

    fn refused_size(&self) -> String {
        format!("the record is larger than {self} takes: {TOO_LARGE}")
    }

    fn keys(&self) -> String {
        match &self.sort_key {
            None => format!("the partition key `{}` of type S alone", self.key),
            Some(sort_key) => {
                format!(
                    "the partition key `{}` and the sort key `{sort_key}`, both of type S",
                    self.key
                )
            }
        }
    }
}

/// Returns scheme, host and port of an address: neither its path nor credentials that it may hold.
fn origin(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("https", uri));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// What to do about a large record.
const TOO_LARGE: &str = "answer with less, or with a reference to where the whole is stored";

/// Whether a validation message is about the table's keys. DynamoDB has no code of its own for that.
fn speaks_of_keys(message: &str) -> bool {
    [
        "does not match the schema",
        "Missing the key",
        "One of the required keys was not given a value",
        "Type mismatch for key",
        "number of conditions on the keys",
        "Cannot update attribute",
    ]
    .iter()
    .any(|part| message.contains(part))
}

/// Whether a send failed before there was a connection to send on. `false` where that is not certain.
pub(crate) fn never_connected(error: &ConnectorError) -> bool {
    let mut chain = chain(error);
    // Where the HTTP client says at which stage it failed, that decides, whatever lies below.
    if let Some(error) = chain
        .clone()
        .find_map(|error| error.downcast_ref::<hyper_util::client::legacy::Error>())
    {
        return error.is_connect();
    }
    chain.any(|error| {
        let refused = |error: &io::Error| {
            use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
            matches!(
                error.kind(),
                ConnectionRefused | HostUnreachable | NetworkUnreachable
            )
        };
        error.downcast_ref().is_some_and(refused)
    })
}

/// An error and what caused it, outermost first.
fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> + Clone {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        (*error).source()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            table: "payments".to_owned(),
            region: "eu-west-1".to_owned(),
            sort_key: None,
            key: "id".to_owned(),
            endpoint: OnceLock::new(),
        }
    }

    #[test]
    fn an_endpoint_is_named_without_its_path_and_without_credentials() {
        for (uri, named) in [
            ("http://localhost:8000/", "http://localhost:8000"),
            ("https://user:word@proxy.local/a?b", "https://proxy.local"),
        ] {
            let place = place();
            place.sends_to(uri);
            assert!(
                place
                    .to_string()
                    .ends_with(&format!("in eu-west-1 at {named}"))
            );
        }
    }

    #[test]
    fn an_endpoint_of_awss_own_is_named_where_it_gave_no_response() {
        let place = place();
        place.sends_to("https://dynamodb.eu-west-1.amazonaws.com/");
        assert!(!place.to_string().contains("amazonaws"));
        let (_, text) = place.unanswered(true, false);
        assert!(
            text.contains("in eu-west-1 at https://dynamodb.eu-west-1.amazonaws.com: check"),
            "{text}"
        );
    }

    fn answered(code: &str, message: &str) -> (StoreErrorKind, String) {
        place().answered("dynamodb:PutItem", 400, Some(code), Some(message))
    }

    #[test]
    fn a_validation_of_size_and_one_of_keys_are_told_apart_from_the_rest() {
        let size = "Item size has exceeded the maximum allowed size";
        assert_eq!(
            answered("ValidationException", size).0,
            StoreErrorKind::TooLarge
        );
        let size = "Item size to update has exceeded the maximum allowed size";
        assert_eq!(
            answered("ValidationException", size).0,
            StoreErrorKind::TooLarge
        );
        for keys in [
            "The provided key element does not match the schema",
            "One or more parameter values were invalid: Missing the key pk in the item",
            "One or more parameter values were invalid: Type mismatch for key id expected: N actual: S",
            "The number of conditions on the keys is invalid",
        ] {
            let (kind, text) = answered("ValidationException", keys);
            assert_eq!(kind, StoreErrorKind::WrongSchema);
            assert!(text.starts_with(
                "the keys of DynamoDB table `payments` in eu-west-1 are not the partition key `id` of type S alone: "
            ));
        }
        let (kind, text) = answered("ValidationException", "Invalid ConditionExpression: x");
        assert_eq!(kind, StoreErrorKind::Rejected);
        assert_eq!(
            text,
            "dynamodb:PutItem was refused by DynamoDB table `payments` in eu-west-1: \
             ValidationException: Invalid ConditionExpression: x"
        );
    }

    #[test]
    fn a_composite_key_is_named_whole() {
        let place = Place {
            sort_key: Some("sk".to_owned()),
            ..place()
        };
        assert_eq!(
            place.keys(),
            "the partition key `id` and the sort key `sk`, both of type S"
        );
    }

    #[test]
    fn each_code_has_its_kind() {
        use StoreErrorKind as Kind;
        for (code, kind) in [
            ("ResourceNotFoundException", Kind::TableMissing),
            ("AccessDeniedException", Kind::AccessDenied),
            ("UnrecognizedClientException", Kind::Credentials),
            ("ExpiredTokenException", Kind::Credentials),
            ("ThrottlingException", Kind::Throttled),
            ("ProvisionedThroughputExceededException", Kind::Throttled),
            ("RequestLimitExceeded", Kind::Throttled),
            ("TransactionConflictException", Kind::Throttled),
            ("ItemCollectionSizeLimitExceededException", Kind::TooLarge),
            ("SerializationException", Kind::Rejected),
        ] {
            assert_eq!(answered(code, "m").0, kind, "{code}");
        }
        let unavailable =
            place().answered("dynamodb:PutItem", 503, Some("ServiceUnavailable"), None);
        assert_eq!(unavailable.0, Kind::Internal);
        assert_eq!(
            place().answered("dynamodb:PutItem", 502, None, None).0,
            Kind::Internal
        );
    }

    #[test]
    fn a_refused_connection_is_certain_and_a_reset_one_is_not() {
        let of = |kind: io::ErrorKind| ConnectorError::io(Box::new(io::Error::from(kind)));
        assert!(never_connected(&of(io::ErrorKind::ConnectionRefused)));
        assert!(!never_connected(&of(io::ErrorKind::ConnectionReset)));
        assert!(!never_connected(&of(io::ErrorKind::TimedOut)));
    }
}
