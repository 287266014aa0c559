//! Classifies the errors of the SDK, and says what to do about each.

mod credentials;

use std::error::Error as StdError;

use aws_sdk_dynamodb::error::{BuildError, ConnectorError, ProvideErrorMetadata, SdkError};
use dynamodb_lean_client::sdk::{
    TRANSACTION_IN_PROGRESS, cause, chain, is_about_size, is_throttled, never_connected, quoted,
};
use idempotency_core::store::{StoreError, StoreErrorKind};

use crate::client::{self, environment};
use crate::limits::{LARGEST_ITEM, LARGEST_RESPONSE};
use crate::request::{QUERY, SCAN, TRANSACT, iam_action};
use crate::table::{TableRef, is_of_aws, origin};

impl TableRef {
    /// Returns the error of a request that the SDK's types refuse. Nothing was sent.
    pub(crate) fn not_built(&self, error: BuildError) -> StoreError {
        let text = format!("the request to {self} cannot be made");
        StoreError::new(StoreErrorKind::Rejected, text).with_source(error)
    }

    /// Returns the error of a failed call with this target. `sent` is true if a request was sent.
    ///
    /// Its source is the [`cause`], without what the response says.
    pub(crate) fn error_of_call<E>(
        &self,
        target: &str,
        error: SdkError<E>,
        sent: bool,
    ) -> StoreError
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let status = error
            .raw_response()
            .map(|response| response.status().as_u16());
        let meta = error.meta();
        let made = match &error {
            SdkError::ServiceError(_) | SdkError::ResponseError(_) => self.error_of_response(
                target,
                status.unwrap_or_default(),
                meta.code(),
                meta.message(),
            ),
            _ if !sent => self.error_before_send(target, &error),
            SdkError::DispatchFailure(failure) => {
                self.error_without_response(failure.as_connector_error(), failure.is_timeout())
            }
            SdkError::TimeoutError(_) => self.error_without_response(None, true),
            _ => self.error_without_response(None, false),
        };
        match cause(error) {
            Some(source) => made.with_source(source),
            None => made,
        }
    }

    /// Returns the error of a record that is too large to be sent.
    ///
    /// `split` is true if a large response could have been split.
    pub(crate) fn too_large(&self, bytes: usize, split: bool) -> StoreError {
        let (largest, remedy) = (LARGEST_ITEM, TOO_LARGE);
        let more = ", or set IDEMPOTENCY_LARGE_RESPONSES=split";
        let more = if split { "" } else { more };
        StoreError::new(
            StoreErrorKind::TooLarge,
            format!(
                "the record has {bytes} bytes and {self} accepts at most {largest}: {remedy}{more}"
            ),
        )
    }

    /// Returns the error of a result of a step that is larger than the record can be.
    pub(crate) fn step_too_large(&self, bytes: usize) -> StoreError {
        let largest = LARGEST_ITEM;
        StoreError::new(
            StoreErrorKind::TooLarge,
            format!(
                "the result of the step has {bytes} bytes and {self} accepts at most {largest} in a record: return less from the \
                 step, or a reference to where its result is stored"
            ),
        )
    }

    /// Returns the error of a response that is longer than any that is stored.
    pub(crate) fn too_long(&self, bytes: usize) -> StoreError {
        StoreError::new(
            StoreErrorKind::TooLarge,
            format!(
                "the response has {bytes} bytes and {self} stores at most {}: {TOO_LARGE}",
                LARGEST_RESPONSE
            ),
        )
    }

    /// Returns the error of a read whose reply is a failed condition. A read has no condition.
    pub(crate) fn read_refused(&self) -> StoreError {
        let text = format!(
            "{self} gave a reply to a read that only a write can have: check the endpoint and the proxies before it"
        );
        StoreError::new(StoreErrorKind::Rejected, text)
    }

    /// Returns the error of a listing that finds an item without the attribute that has the record id.
    pub(crate) fn item_without_id(&self, name: &str) -> StoreError {
        let text = format!(
            "{self} has an item without a text in the attribute `{name}`, so its keys are not {}: set IDEMPOTENCY_KEY_ATTR and \
             IDEMPOTENCY_SORT_KEY_ATTR to its own",
            self.keys()
        );
        StoreError::new(StoreErrorKind::WrongSchema, text)
    }

    /// Returns the error of a response whose pieces could not be written.
    pub(crate) fn no_pieces(&self, cause: StoreError) -> StoreError {
        let text = format!(
            "the response does not fit one item, and its pieces could not be written: {cause}"
        );
        StoreError::new(StoreErrorKind::TooLarge, text).with_source(cause)
    }

    /// Returns the error of an error response, or of one that could not be read.
    pub(crate) fn error_of_response(
        &self,
        target: &str,
        status: u16,
        code: Option<&str>,
        message: Option<&str>,
    ) -> StoreError {
        use StoreErrorKind as Kind;
        let short = code.unwrap_or("no code");
        let quoted = quoted(message);
        if is_about_kms(short, message.unwrap_or_default()) {
            let text = format!(
                "the KMS key of {self}{} cannot be used ({short}: {quoted}): allow the function's role kms:Decrypt on the key, \
                 in a policy of the role or of the key, and check that the key is enabled and is not to be deleted",
                if target == TRANSACT {
                    ", or of another table of the transaction,"
                } else {
                    ""
                }
            );
            return StoreError::new(Kind::AccessDenied, text);
        }
        if target == TRANSACT
            && let Some((kind, text)) = self.classify_transaction(short, &quoted)
        {
            return StoreError::new(kind, text);
        }
        let action = iam_action(target);
        let message = message.unwrap_or_default();
        let (kind, text) = match code.unwrap_or_default() {
            "ResourceNotFoundException" | "TableNotFoundException" => (
                Kind::TableMissing,
                format!("there is no {self}: create it, or set IDEMPOTENCY_TABLE"),
            ),
            "AccessDeniedException" | "AccessDenied" if [SCAN, QUERY].contains(&target) => (
                Kind::AccessDenied,
                format!(
                    "{action} is denied on {self}: allow the credentials of this command {action} on it ({quoted})"
                ),
            ),
            "AccessDeniedException" | "AccessDenied" => (
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
            | "IncompleteSignature"
            | "SignatureDoesNotMatch"
            | "MissingAuthenticationTokenException"
            | "MissingAuthenticationToken"
            | "ExpiredTokenException"
            | "ExpiredToken"
            | "AuthFailure"
            | "RequestExpired"
            | "RequestTimeTooSkewed" => (
                Kind::Credentials,
                format!(
                    "the credentials for {self} were not accepted: renew them, and check the clock ({quoted})"
                ),
            ),
            code if is_throttled(code) || code == KMS_THROTTLED => (
                Kind::Throttled,
                format!(
                    "{self} throttles requests ({short}): raise its capacity, or use on-demand billing"
                ),
            ),
            "RequestTimeout" | "RequestTimeoutException" => (
                Kind::Unreachable,
                format!("{self} did not get the whole request in time ({short}): try again later"),
            ),
            "TransactionConflictException" => (
                Kind::Conflict,
                format!(
                    "a transaction with the record in {self} is in progress ({short}): try again later"
                ),
            ),
            "ReplicatedWriteConflictException" => (
                Kind::Throttled,
                format!(
                    "another write to the record in {self} is in progress ({short}): try again later"
                ),
            ),
            "ItemCollectionSizeLimitExceededException" => {
                (Kind::TooLarge, self.too_large_for_service())
            }
            "ValidationException" if is_about_size(message) => {
                (Kind::TooLarge, self.too_large_for_service())
            }
            "ValidationException" if is_about_keys(message) => (
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
                    "a response with status {status} for {self} is not from DynamoDB: check the endpoint and \
                     proxies, or try again later"
                ),
            ),
            _ => (
                Kind::Rejected,
                format!("{action} was rejected by {self}: {short}: {quoted}"),
            ),
        };
        StoreError::new(kind, text)
    }

    /// Classifies an error response to a transaction, if it has another meaning there: the table can be one of a staged write.
    fn classify_transaction(&self, code: &str, quoted: &str) -> Option<(StoreErrorKind, String)> {
        use StoreErrorKind as Kind;
        Some(match code {
            "ResourceNotFoundException" | "TableNotFoundException" => (
                Kind::TableMissing,
                format!("a table of the transaction with {self} does not exist ({quoted})"),
            ),
            "AccessDeniedException" | "AccessDenied" => (
                Kind::AccessDenied,
                format!(
                    "a write of the transaction with {self} is denied: allow the function's role dynamodb:PutItem, \
                     dynamodb:UpdateItem, dynamodb:DeleteItem and dynamodb:ConditionCheckItem, as it stages them, on each table \
                     of the transaction ({quoted})"
                ),
            ),
            TRANSACTION_IN_PROGRESS => (
                Kind::Conflict,
                format!("an earlier send of the transaction with {self} is in progress ({code})"),
            ),
            "ValidationException" | "IdempotentParameterMismatchException" => (
                Kind::Rejected,
                format!("DynamoDB does not accept the transaction with {self}: {code}: {quoted}"),
            ),
            _ => return None,
        })
    }

    /// Returns the error of a transaction that was cancelled and can be sent again.
    pub(crate) fn cancelled(&self, kind: StoreErrorKind, code: &str) -> StoreError {
        let why = match kind {
            StoreErrorKind::Conflict => {
                "met another transaction with one of its items, for as long as there was time"
            }
            StoreErrorKind::Throttled => "was throttled: raise the capacity of its tables",
            _ => "was cancelled",
        };
        StoreError::new(kind, format!("the transaction with {self} {why} ({code})"))
    }

    /// Returns the error of a record for which a transaction was cancelled, because it is too large.
    pub(crate) fn record_too_large(&self) -> StoreError {
        StoreError::new(StoreErrorKind::TooLarge, self.too_large_for_service())
    }

    /// Returns the error of a transaction with a staged write of the record's own item.
    pub(crate) fn own_item(&self, index: usize) -> StoreError {
        StoreError::new(
            StoreErrorKind::Rejected,
            format!(
                "the staged write {} is of the record of its own call in {self}: keep business items apart from the records",
                index + 1
            ),
        )
    }

    /// Returns the error of a send without a readable response, or of one that could not connect. `error` is that of the connection.
    pub(crate) fn error_without_response(
        &self,
        error: Option<&ConnectorError>,
        timeout: bool,
    ) -> StoreError {
        let endpoint = self.endpoint.get().map_or("", String::as_str);
        let at = if is_of_aws(endpoint) {
            format!(" at {endpoint}")
        } else {
            String::new()
        };
        if let Some(why) = error.and_then(distrust) {
            let message = format!("no connection to {self}{at}: {why}");
            return StoreError::new(StoreErrorKind::Certificate, message);
        }
        let what = match (error.is_some_and(never_connected), timeout) {
            (true, _) => "no connection to",
            (false, true) => "no response in time from",
            (false, false) => "the connection broke before a response from",
        };
        let message = format!("{what} {self}{at}: {}", self.network_advice());
        StoreError::new(StoreErrorKind::Unreachable, message)
    }

    /// Returns what to check if no response comes.
    pub(crate) fn network_advice(&self) -> String {
        let endpoint = self.endpoint.get().map_or("", String::as_str);
        match environment::proxy(endpoint) {
            Some(proxy) => format!(
                "it goes through the proxy {}: check that the proxy runs and reaches DynamoDB (HTTPS_PROXY, HTTP_PROXY and \
                 ALL_PROXY name it), or except the endpoint with NO_PROXY",
                origin(&proxy)
            ),
            None => "check the endpoint (AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL and `endpoint_url` set another one); a \
                     function in a VPC needs a route to DynamoDB, such as a gateway endpoint"
                .to_owned(),
        }
    }

    /// Returns the error of a request that was not sent, because it could not be built or signed. A timeout is one of loading credentials.
    fn error_before_send<E: StdError + 'static>(
        &self,
        target: &str,
        error: &SdkError<E>,
    ) -> StoreError {
        let texts: Vec<_> = chain(error)
            .map(|error| error.to_string().to_lowercase())
            .collect();
        let credentials =
            |text: &String| text.contains("credential") || text.contains("identity resolver");
        let (kind, text) = if texts.iter().any(credentials)
            || matches!(error, SdkError::TimeoutError(_))
        {
            let timed_out = matches!(error, SdkError::TimeoutError(_));
            let text = self.no_credentials(error, environment::profile().as_deref(), timed_out);
            (StoreErrorKind::Credentials, text)
        } else if texts.iter().any(|text| text.contains("http client")) {
            let text = format!(
                "the client for {self} has no HTTP client: enable the feature `rustls-ring` or `rustls-aws-lc` of this \
                 framework, or set a client that has one"
            );
            (StoreErrorKind::Rejected, text)
        } else {
            let action = iam_action(target);
            let text = format!(
                "{action} to {self} could not be prepared: check the client's region and endpoint"
            );
            (StoreErrorKind::Rejected, text)
        };
        StoreError::new(kind, text)
    }

    fn too_large_for_service(&self) -> String {
        format!("the record is larger than {self} accepts: {TOO_LARGE}")
    }
}

/// What to do about a record that is too large.
const TOO_LARGE: &str =
    "return a smaller response, or a reference to where the whole response is stored";

/// The error code of a service whose requests to KMS are throttled.
const KMS_THROTTLED: &str = "KMSThrottlingException";

/// Returns true if an error is about the key of KMS that encrypts the table. DynamoDB reports most of them as a denied access.
fn is_about_kms(code: &str, message: &str) -> bool {
    let denied = ["AccessDeniedException", "AccessDenied"].contains(&code);
    let named = ["kms:", "KMS key", "Key Management Service"];
    match code.strip_prefix("KMS") {
        Some(_) => code != KMS_THROTTLED,
        None => denied && named.iter().any(|name| message.contains(name)),
    }
}

/// What an HTTP client with rustls says of a certificate that it does not trust.
const UNTRUSTED: &str = "invalid peer certificate: ";

/// Returns why the error of a connection is due to a certificate, and what to do. `None` if it has another cause.
fn distrust(error: &ConnectorError) -> Option<String> {
    chain(error).find_map(|error| {
        let text = error.to_string();
        if text.starts_with(environment::BUNDLE) {
            return Some(text);
        }
        let (_, why) = text.split_once(UNTRUSTED)?;
        let remedy = client::authorities();
        Some(format!(
            "the certificate of the endpoint, or of a proxy before it, is not trusted ({why}): {remedy}"
        ))
    })
}

/// Returns true if a validation message is about the keys of the table. DynamoDB has no separate code for that.
fn is_about_keys(message: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::table;

    #[test]
    fn an_aws_endpoint_is_named_only_if_it_gave_no_response() {
        let table = table();
        table.note_endpoint("https://dynamodb.eu-west-1.amazonaws.com/");
        assert!(!table.to_string().contains("amazonaws"));
        let text = table.error_without_response(None, false).to_string();
        let named = "in eu-west-1 at https://dynamodb.eu-west-1.amazonaws.com: check";
        assert!(text.contains(named), "{text}");
    }

    #[test]
    fn an_error_about_the_keys_names_the_configured_ones() {
        let keys = "One or more parameter values were invalid: Missing the key pk in the item";
        let of_both = "partition key `id` and the sort key `sk`, both of type S: ";
        for (sort_key, named) in [
            (None, "partition key `id` of type S only: "),
            (Some("sk".to_owned()), of_both),
        ] {
            let table = TableRef {
                sort_key,
                ..table()
            };
            let error = table.error_of_response("t", 400, Some("ValidationException"), Some(keys));
            let start = "the keys of DynamoDB table `payments` in eu-west-1 are not the ";
            let text = error.to_string();
            assert!(text.starts_with(&format!("{start}{named}")), "{text}");
        }
    }

    #[test]
    fn an_error_of_a_transaction_is_not_blamed_on_the_table_of_the_records() {
        let keys =
            Some("One or more parameter values were invalid: Missing the key pk in the item");
        for code in [
            "ValidationException",
            "IdempotentParameterMismatchException",
        ] {
            let error = table().error_of_response(TRANSACT, 400, Some(code), keys);
            assert_eq!(error.kind(), StoreErrorKind::Rejected);
            let start = "DynamoDB does not accept the transaction with DynamoDB table `payments` ";
            assert!(error.to_string().starts_with(start), "{error}");
        }
        for (kind, why) in [
            (StoreErrorKind::Conflict, "met another transaction"),
            (
                StoreErrorKind::Throttled,
                "was throttled: raise the capacity",
            ),
            (StoreErrorKind::Rejected, "was cancelled (code)"),
        ] {
            let error = table().cancelled(kind, "code");
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(why), "{error}");
        }
        let error = table().record_too_large().to_string();
        assert!(error.ends_with(TOO_LARGE), "{error}");
    }

    #[test]
    fn each_code_and_message_has_its_kind() {
        let put = |status: &str, code: &str, message: &str| {
            let code = Some(code).filter(|code| !code.is_empty());
            let (target, status) = ("DynamoDB_20120810.PutItem", status.parse().unwrap());
            table().error_of_response(target, status, code, Some(message))
        };
        let rows = include_str!("kinds.txt").lines();
        for row in rows.skip(1) {
            let (response, kind) = row.split_once(" => ").unwrap();
            let mut parts = response.splitn(3, ' ');
            let [status, code, message] = std::array::from_fn(|_| parts.next().unwrap());
            let error = put(status, code, message);
            assert_eq!(format!("{:?}", error.kind()), kind, "{row}");
        }
        let denied =
            "User: arn:aws:iam::1:role/f is not authorized to perform: kms:Decrypt on resource: k";
        for (code, message) in [
            ("AccessDeniedException", denied),
            ("AccessDeniedException", "KMS key access denied"),
            ("KMSNotFoundException", "m"),
            ("KMSInvalidState", "m"),
        ] {
            let text = put("400", code, message).to_string();
            let begin = format!(
                "the KMS key of DynamoDB table `payments` in eu-west-1 cannot be used ({code}: "
            );
            assert!(text.starts_with(&begin), "{text}");
            assert!(
                text.contains("allow the function's role kms:Decrypt on the key"),
                "{text}"
            );
        }
        let of_table =
            "User: a is not authorized to perform: dynamodb:PutItem on resource: table/KMS";
        let text = put("400", "AccessDeniedException", of_table).to_string();
        assert!(text.starts_with("dynamodb:PutItem is denied on"), "{text}");
        for (target, action) in [(SCAN, "dynamodb:Scan"), (QUERY, "dynamodb:Query")] {
            let code = Some("AccessDeniedException");
            let error = table().error_of_response(target, 400, code, Some("m"));
            let text = format!(
                "{action} is denied on DynamoDB table `payments` in eu-west-1: allow the credentials of this command {action} on it ("
            );
            assert!(error.to_string().starts_with(&text), "{error}");
        }
        let invalid = "Invalid ConditionExpression: x";
        let error = put("400", "ValidationException", invalid);
        assert_eq!(
            error.to_string(),
            "dynamodb:PutItem was rejected by DynamoDB table `payments` in eu-west-1: \
             ValidationException: Invalid ConditionExpression"
        );
    }
}
