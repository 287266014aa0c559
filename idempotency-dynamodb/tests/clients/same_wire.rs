//! Both clients send the same requests to the same endpoints, repeat the same sends, and end with the same errors.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_sdk_dynamodb::config::endpoint::{Endpoint, EndpointFuture, Params, ResolveEndpoint};
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_types::sdk_config::Builder;
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::{Condition, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{Change, SendLog, Store, StoreReply, StoreRequest, Write};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::{DynamoDbStore, LeanClient};

use super::{Kind, RecordedRequest, Recorder, Reply};

const ARN: &str = "arn:aws:dynamodb:eu-west-1:111122223333:table/payments";

fn credentials() -> Credentials {
    Credentials::new("access", "secret", None, None, "test")
}

fn of_account() -> Credentials {
    let credentials = Credentials::builder().access_key_id("access");
    let credentials = credentials
        .secret_access_key("secret")
        .account_id("444455556666");
    credentials.provider_name("test").build()
}

fn of_session() -> Credentials {
    Credentials::new(
        "access",
        "secret",
        Some("token/+=".to_owned()),
        None,
        "test",
    )
}

/// Returns what a client sends for each kind of request, or the error of the first one.
async fn sent(
    kind: Kind,
    configure: &dyn Fn(Builder) -> Builder,
    credentials: Credentials,
    table: &str,
) -> Result<Vec<RecordedRequest>, String> {
    let recorder = Recorder::default();
    let config: SdkConfig = configure(recorder.config(credentials)).build();
    let store = kind.store(&config, table).build().unwrap();
    let failed =
        |error: idempotency_core::store::StoreError| format!("{:?}: {error}", error.kind());
    store.warm_up().await.map_err(failed)?;
    let (id, owner) = (
        RecordId::new("charge#\"é\n"),
        OwnerToken::from_bytes([7; 16]),
    );
    let record = Record {
        expiration: Field::Value(EpochSeconds::new(-1)),
        in_progress_expiration: Field::Value(EpochMillis::new(i64::MAX)),
        status: Field::Value(Status::InProgress),
        data: Field::Value(Data::new("\"\\u0000 \u{1F980} </script>\"")),
        owner: Field::Value(owner.clone()),
        steps: Field::Value(
            [
                ("b\"é.".to_owned(), Data::new("\"\u{0}\"")),
                ("a".to_owned(), Data::new("1")),
            ]
            .into_iter()
            .collect(),
        ),
        ..Record::default()
    };
    let step = Write::Step {
        name: "größe.\"1\"".to_owned(),
        result: Data::new("[\"\u{1F980}\"]"),
    };
    let change = Change {
        set: Record {
            data: Field::Value(Data::new("\u{0}\u{1f}\u{7f}\u{2028}")),
            ..Record::default()
        },
        remove: vec![Attribute::Owner],
    };
    let claimable = claimable(EpochMillis::new(1_700_000_000_999), OnTimeout::Rerun);
    store.put(&id, &record, &claimable).await;
    store.update(&id, &change, &held_by(&owner)).await;
    let log = SendLog::new();
    store
        .send(StoreRequest::write(&id, &step, &held_by(&owner)), &log)
        .await;
    store.delete(&id, &held_by(&owner)).await;
    store.get(&id).await;
    Ok(recorder.take())
}

async fn compare(
    configure: &dyn Fn(Builder) -> Builder,
    credentials: fn() -> Credentials,
    table: &str,
) -> Result<String, String> {
    let sdk = sent(Kind::Sdk, configure, credentials(), table).await;
    let lean = sent(Kind::Lean, configure, credentials(), table).await;
    let (sdk, lean) = match (sdk, lean) {
        (Ok(sdk), Ok(lean)) => (sdk, lean),
        (Err(sdk), Err(lean)) => {
            assert_eq!(lean, sdk);
            return Err(lean);
        }
        (sdk, lean) => panic!("{sdk:?} by the SDK, {lean:?} by the lean client"),
    };
    assert_eq!(lean.len(), 6);
    for (lean, sdk) in lean.iter().zip(&sdk) {
        assert_eq!((&lean.method, &lean.uri), (&sdk.method, &sdk.uri));
        assert_eq!(lean.body, sdk.body);
        assert_eq!(lean.credential(), sdk.credential());
        for name in [
            "content-type",
            "x-amz-target",
            "x-amz-security-token",
            "host",
        ] {
            assert_eq!(lean.header(name), sdk.header(name), "{name}");
        }
        assert_eq!(
            lean.header("x-amz-date").len(),
            sdk.header("x-amz-date").len()
        );
    }
    Ok(lean[0].uri.clone())
}

#[tokio::test]
async fn an_endpoint_follows_region_partition_and_settings() {
    let region = |name: &'static str| move |it: Builder| it.region(Region::from_static(name));
    let url = |url: &'static str| move |it: Builder| it.endpoint_url(url);
    let configurations: [(&dyn Fn(Builder) -> Builder, &str); 9] = [
        (&|it| it, "https://dynamodb.eu-west-1.amazonaws.com/"),
        (
            &region("cn-north-1"),
            "https://dynamodb.cn-north-1.amazonaws.com.cn/",
        ),
        (
            &region("us-gov-west-1"),
            "https://dynamodb.us-gov-west-1.amazonaws.com/",
        ),
        // Signed for another region.
        (&region("local"), "http://localhost:8000/"),
        (
            &|it| it.region(Region::new("us-east-1")).use_fips(true),
            "https://dynamodb-fips.us-east-1.amazonaws.com/",
        ),
        (
            &|it| it.use_dual_stack(true),
            "https://dynamodb.eu-west-1.api.aws/",
        ),
        (&url("http://127.0.0.1:8000"), "http://127.0.0.1:8000/"),
        (
            &url("https://proxy.example:443/"),
            "https://proxy.example:443/",
        ),
        (
            &url("https://proxy.example/a%20b/../c"),
            "https://proxy.example/a%20b/../c/",
        ),
    ];
    for (configure, uri) in configurations {
        for credentials in [credentials, of_session] {
            let sent = compare(configure, credentials, "payments").await;
            assert_eq!(sent.as_deref(), Ok(uri));
        }
    }
}

#[tokio::test]
async fn an_endpoint_follows_the_account_of_the_credentials_and_of_the_table() {
    let same = |it: Builder| it;
    for (credentials, table, uri) in [
        (
            of_account as fn() -> Credentials,
            "payments",
            "https://444455556666.ddb.eu-west-1.amazonaws.com/",
        ),
        (
            of_account,
            ARN,
            "https://111122223333.ddb.eu-west-1.amazonaws.com/",
        ),
        (
            credentials,
            ARN,
            "https://111122223333.ddb.eu-west-1.amazonaws.com/",
        ),
    ] {
        let sent = compare(&same, credentials, table).await;
        assert_eq!(sent.as_deref(), Ok(uri));
    }
    use aws_types::endpoint_config::AccountIdEndpointMode;
    let disabled = |it: Builder| it.account_id_endpoint_mode(AccountIdEndpointMode::Disabled);
    let sent = compare(&disabled, of_account, ARN).await;
    assert_eq!(
        sent.as_deref(),
        Ok("https://dynamodb.eu-west-1.amazonaws.com/")
    );
}

#[tokio::test]
async fn an_impossible_endpoint_is_the_same_error() {
    let both = |it: Builder| it.use_fips(true).endpoint_url("http://127.0.0.1:8000");
    let error = compare(&both, credentials, "payments").await.unwrap_err();
    assert!(error.starts_with("Rejected: "), "{error}");
    let none = |it: Builder| it.endpoint_url("not a url");
    compare(&none, credentials, "payments").await.unwrap_err();
}

/// Resolves an endpoint that wants a header in every request.
#[derive(Debug)]
struct WithHeader;

impl ResolveEndpoint for WithHeader {
    fn resolve_endpoint<'a>(&'a self, _: &'a Params) -> EndpointFuture<'a> {
        let endpoint = Endpoint::builder()
            .url("https://host")
            .header("via", "proxy");
        EndpointFuture::ready(Ok(endpoint.build()))
    }
}

#[tokio::test]
async fn an_endpoint_with_headers_is_an_error_before_any_request() {
    let recorder = Recorder::default();
    let config = aws_sdk_dynamodb::config::Builder::from(&recorder.config(credentials()).build());
    let config = config.endpoint_resolver(WithHeader).build();
    let client = LeanClient::new(aws_sdk_dynamodb::Client::from_conf(config));
    let store = DynamoDbStore::builder().table("payments");
    let store = store.lean_client(client).build().unwrap();
    let error = store.warm_up().await.unwrap_err();
    assert!(
        error
            .source()
            .is_some_and(|it| it.to_string().contains("use the SDK's client"))
    );
    assert!(recorder.take().is_empty());
}

#[tokio::test]
async fn a_request_names_this_crate_and_the_application() {
    let recorder = Recorder::default();
    let name = aws_config::AppName::new("shop").unwrap();
    let config = recorder.config(credentials()).app_name(name).build();
    let store = Kind::Lean.store(&config, "payments").build().unwrap();
    store.warm_up().await.unwrap();
    let sent = recorder.take();
    let agent = sent[0].header("user-agent");
    assert!(agent.starts_with("idempotency-dynamodb/"), "{agent}");
    assert!(agent.ends_with(" app/shop"), "{agent}");
}

// Both clients repeat the same sends, and end with the same errors.

fn session_credentials() -> Credentials {
    Credentials::new("access", "secret", Some("t0ken".to_owned()), None, "test")
}

/// Returns how a claim with these replies ends, and the dates of its sends.
async fn claimed(kind: Kind, replies: Vec<Reply>) -> (String, Vec<String>) {
    ended(kind, RequestKind::Put, replies).await
}

/// A kind of request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    Put,
    Update,
    Delete,
    Get,
}

/// Returns how a request with these replies ends, and the dates of its sends.
pub(crate) async fn ended(
    kind: Kind,
    request: RequestKind,
    replies: Vec<Reply>,
) -> (String, Vec<String>) {
    static CLIENTS: AtomicUsize = AtomicUsize::new(0);
    let recorder = Recorder::replying(replies);
    // Pauses take real time here, so they are short.
    let retries = RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(std::time::Duration::from_millis(1));
    let config = recorder.config(session_credentials()).retry_config(retries);
    let config = config.sleep_impl(aws_sdk_dynamodb::config::SharedAsyncSleep::new(Sleeps));
    // All SDK clients of a region share a retry quota, which one test would use up for the next.
    let region = format!("region-{}", CLIENTS.fetch_add(1, Ordering::Relaxed));
    let config = config.region(Region::new(region.clone())).build();
    let store = kind.store(&config, "payments").build().unwrap();
    let (id, is_new) = (RecordId::new("charge#1"), Condition::NoRecord);
    let reply = match request {
        RequestKind::Put => store.put(&id, &Record::default(), &is_new).await,
        RequestKind::Update => store.update(&id, &Change::default(), &is_new).await,
        RequestKind::Delete => store.delete(&id, &is_new).await,
        RequestKind::Get => store.get(&id).await,
    };
    let end = match reply {
        StoreReply::Failed {
            maybe_applied,
            error,
        } => {
            let mut texts = String::new();
            let mut source = error.source();
            while let Some(cause) = source {
                texts.push_str(&format!("{cause} {cause:?}"));
                source = cause.source();
            }
            assert!(
                !texts.contains("t0ken") && !texts.contains("s3cr3t"),
                "{texts}"
            );
            format!("{maybe_applied} {:?} {error}", error.kind())
        }
        other => format!("{other:?}"),
    };
    let sent = recorder.take();
    let dates = sent.iter().map(|sent| sent.header("x-amz-date").to_owned());
    (end.replace(&region, "region"), dates.collect())
}

/// Gives both clients the same reply to each send, and returns the end that both have, after as many sends.
async fn same_end(request: RequestKind, reply: Reply) -> String {
    let [sdk, lean] = Kind::ALL.map(|kind| ended(kind, request, vec![reply.clone(); 3]));
    let (sdk, lean) = (sdk.await, lean.await);
    assert_eq!(lean.0, sdk.0, "{request:?} {reply:?}");
    assert_eq!(
        lean.1.len(),
        sdk.1.len(),
        "{request:?} {reply:?}: {}",
        sdk.0
    );
    lean.0
}

#[derive(Debug)]
struct Sleeps;

impl aws_sdk_dynamodb::config::AsyncSleep for Sleeps {
    fn sleep(&self, duration: std::time::Duration) -> aws_sdk_dynamodb::config::Sleep {
        aws_sdk_dynamodb::config::Sleep::new(tokio::time::sleep(duration))
    }
}

/// Returns a reply with an error code.
fn error(status: u16, body: &str) -> Reply {
    (status, Vec::new(), body.to_owned())
}

/// Replies by their status and body.
const REPLIES: &str = r#"
400 {"__type":"a#ThrottlingException","message":"s"}
400 {"__type":"a#ReplicatedWriteConflictException","message":"s"}
400 {"__type":"a#TransactionConflictException","message":"s"}
400 {"__type":"a#ConditionalCheckFailedException","message":"s"}
400 {"__type":"a#ConditionalCheckFailedException","Item":{"status":{"S":"COMPLETED"},"data":{"M":{"a":{"N":"1"}}}}}
400 {"__type":"a#ConditionalCheckFailedException","Item":{"s3cr3t":7}}
400 {"__type":"a#ValidationException","message":"Item size has exceeded the maximum allowed size"}
400 {"__type":"ResourceNotFoundException"}
400 {"code":"AccessDeniedException","Message":"no"}
403 {"__type":"a#UnrecognizedClientException","message":"no"}
408 {"__type":"RequestTimeoutException"}
400 {}
400
400 <html>s3cr3t
404 {"message":7}
413 {"__type":"RequestEntityTooLarge"}
429 {"message":"s"}
500 {"__type":"a#InternalServerError","message":"s"}
500 s3cr3t
501 {}
502 <html>
503 {"__type":"a#ServiceUnavailable"}
504
200 s3cr3t
200
200 {"Attributes":{"status":{"S":"INPROGRESS"}}}
200 {"Attributes":{"s3cr3t":7}}
204
301
"#;

#[tokio::test]
async fn every_error_response_is_repeated_as_often_and_ends_alike() {
    let written = REPLIES.trim().lines().map(|row| {
        let (status, body) = row.split_once(' ').unwrap_or((row, ""));
        error(status.parse().unwrap(), body)
    });
    let named = |code, body| (400, vec![("x-amzn-errortype", code)], body);
    let by_header = [
        named("ThrottlingException:http://a", "{}".to_owned()),
        named("a#AccessDenied", r#"{"__type":"other"}"#.to_owned()),
    ];
    for reply in written.chain(by_header) {
        same_end(RequestKind::Put, reply).await;
    }
}

#[tokio::test]
async fn every_status_without_an_error_code_is_repeated_as_often_and_ends_alike() {
    for status in 300..600 {
        let end = same_end(RequestKind::Put, error(status, "{}")).await;
        // A proxy can have written it, after DynamoDB applied the write.
        assert!(end.starts_with("true "), "{status}: {end}");
    }
}

/// The error codes of DynamoDB for requests to items, of all services, and of services whose errors the SDK repeats. From the
/// API reference of DynamoDB, its `CommonErrors`, and the SDK's lists.
const CODES: &[&str] = &[
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "BandwidthLimitExceeded",
    "ConditionalCheckFailedException",
    "DuplicateItemException",
    "EC2ThrottledException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IdempotentParameterMismatchException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InternalFailure",
    "InternalServerError",
    "InvalidAction",
    "InvalidClientTokenId",
    "InvalidEndpointException",
    "InvalidSignatureException",
    "ItemCollectionSizeLimitExceededException",
    "KMSAccessDeniedException",
    "KMSDisabledException",
    "KMSInvalidStateException",
    "LimitExceededException",
    "MalformedQueryString",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "PolicyNotFoundException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestEntityTooLarge",
    "RequestExpired",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestTimeout",
    "RequestTimeoutException",
    "RequestTimeTooSkewed",
    "ResourceInUseException",
    "ResourceNotFoundException",
    "SerializationException",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "SlowDown",
    "TableNotFoundException",
    "Throttling",
    "ThrottledException",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionCanceledException",
    "TransactionConflictException",
    "TransactionInProgressException",
    "UnknownOperationException",
    "UnrecognizedClientException",
    "ValidationException",
    "a code that is not known",
];

#[tokio::test]
async fn every_error_code_is_repeated_as_often_and_ends_alike_for_each_request() {
    for request in [
        RequestKind::Put,
        RequestKind::Update,
        RequestKind::Delete,
        RequestKind::Get,
    ] {
        for code in CODES {
            // The lean client knows them for each request, the SDK's for writes alone.
            let of_writes = [
                "ConditionalCheckFailedException",
                "ReplicatedWriteConflictException",
            ];
            if matches!(request, RequestKind::Get) && of_writes.contains(code) {
                continue;
            }
            let body = format!(
                r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"s3cr3t"}}"#
            );
            for status in [400, 500] {
                same_end(request, error(status, &body)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_send_refused_for_a_wrong_clock_is_repeated_with_the_clock_of_dynamodb() {
    let refused = (
        400,
        vec![("date", "Sun, 22 Nov 2020 07:06:58 GMT")],
        r#"{"__type":"a#InvalidSignatureException","message":"Signature expired"}"#.to_owned(),
    );
    for kind in Kind::ALL {
        let (end, dates) = claimed(kind, vec![refused.clone()]).await;
        assert!(end.starts_with("Applied "), "{end}");
        assert!(end.ends_with("maybe_again: false }"), "{end}");
        assert_eq!(dates.len(), 2);
        assert!(!dates[0].starts_with("20201122T07"), "{dates:?}");
        assert!(dates[1].starts_with("20201122T07"), "{dates:?}");
    }
}

#[tokio::test]
async fn a_claim_that_is_applied_after_a_failed_send_may_be_applied_again() {
    for kind in Kind::ALL {
        let (end, sends) = claimed(kind, vec![error(500, "{}")]).await;
        assert!(end.starts_with("Applied "), "{end}");
        assert!(end.ends_with("maybe_again: true }"), "{end}");
        assert_eq!(sends.len(), 2);
    }
}

#[tokio::test]
async fn a_refused_signature_with_the_right_clock_is_not_repeated() {
    let body = r#"{"__type":"a#InvalidSignatureException","message":"no"}"#;
    for kind in Kind::ALL {
        let (end, dates) = claimed(kind, vec![error(400, body)]).await;
        assert!(end.starts_with("false Credentials "), "{end}");
        assert_eq!(dates.len(), 1);
    }
}
