//! A client as its user sees it: what it sends, what it notes, how long it waits, what it returns.

use std::collections::{HashMap, VecDeque};
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_credential_types::provider::future::ProvideCredentials as Provided;
use aws_sdk_dynamodb::config::endpoint::{Endpoint, EndpointFuture, Params, ResolveEndpoint};
use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::retry::{ReconnectMode, RetryConfig};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    AppName, AsyncSleep, BehaviorVersion, Builder, Credentials, HttpClient, IdentityCache,
    ProvideCredentials, Region, RuntimeComponents, Sleep,
};
use aws_sdk_dynamodb::error::{ConnectorError, ProvideErrorMetadata as _};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::endpoint::EndpointAuthScheme;
use aws_smithy_types::retry::RetrySpec;

use super::*;
use crate::send::SendResult;

const PUT: &str = "DynamoDB_20120810.PutItem";
const GET: &str = "DynamoDB_20120810.GetItem";
const THROTTLED: &str = r#"{"__type":"com.amazonaws#ThrottlingException","message":"later"}"#;

/// What happens to one send.
#[derive(Clone, Debug)]
enum Act {
    /// A response of DynamoDB.
    Reply(u16, &'static str),
    /// The same with one more header.
    With(u16, &'static str, (&'static str, &'static str)),
    /// A response whose body breaks off.
    Broken,
    /// The connection is refused.
    Refused,
    /// No response arrives.
    Silence,
}

/// Acts as its script says, and keeps the requests and the sleeps. Sleeps end at once.
#[derive(Clone, Debug, Default)]
struct Script {
    acts: Arc<Mutex<VecDeque<Act>>>,
    sent: Arc<Mutex<Vec<HttpRequest>>>,
    sleeps: Arc<Mutex<Vec<Duration>>>,
    /// How many connections were closed.
    poisoned: Arc<AtomicUsize>,
}

impl HttpConnector for Script {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connection = request.extension::<CaptureSmithyConnection>().unwrap();
        let poisoned = Arc::clone(&self.poisoned);
        connection.set_connection_retriever(move || {
            let poisoned = Arc::clone(&poisoned);
            let connection = ConnectionMetadata::builder().proxied(false);
            let poison = move || {
                poisoned.fetch_add(1, Ordering::Relaxed);
            };
            Some(connection.poison_fn(poison).build())
        });
        self.sent.lock().unwrap().push(request);
        let (status, body, header) = match self.acts.lock().unwrap().pop_front().unwrap() {
            Act::Reply(status, body) => (status, SdkBody::from(body), None),
            Act::With(status, body, header) => (status, SdkBody::from(body), Some(header)),
            Act::Broken => (200, SdkBody::taken(), None),
            Act::Refused => {
                let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                return HttpConnectorFuture::ready(Err(ConnectorError::io(error.into())));
            }
            Act::Silence => return HttpConnectorFuture::new(std::future::pending()),
        };
        let mut response = HttpResponse::new(status.try_into().unwrap(), body);
        let headers = response.headers_mut();
        headers.insert("x-amzn-requestid", "1");
        headers.insert("content-type", "application/x-amz-json-1.0");
        if let Some((name, value)) = header {
            headers.insert(name, value);
        }
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl HttpClient for Script {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl AsyncSleep for Script {
    fn sleep(&self, duration: Duration) -> Sleep {
        self.sleeps.lock().unwrap().push(duration);
        Sleep::new(ready(()))
    }
}

/// Returns the settings of a retry whose pauses are not random: 100 ms, 200 ms and so on, up to 1 s. Three sends.
fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(100))
        .with_max_backoff(Duration::from_secs(1))
        .with_use_static_exponential_base(true)
}

/// Returns a client with changed settings. Without a change it has no timeout.
fn table_with(
    acts: impl IntoIterator<Item = Act>,
    change: impl Fn(Builder) -> Builder,
) -> (TableClient, Script) {
    let script = Script {
        acts: Arc::new(Mutex::new(acts.into_iter().collect())),
        ..Script::default()
    };
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-west-1"))
        .retry_config(retries())
        .timeout_config(TimeoutConfig::disabled())
        .sleep_impl(script.clone())
        .credentials_provider(Credentials::new("access", "s3cr3t", None, None, "test"))
        .http_client(script.clone());
    let sdk = Client::from_conf(change(config).build());
    let table = TableClient::new(sdk, "orders", RetryQuota::default(), "shop/1.0");
    (table, script)
}

fn table(acts: impl IntoIterator<Item = Act>) -> (TableClient, Script) {
    table_with(acts, |config| config)
}

impl Script {
    /// Returns the sleeps, without the time limit of loading credentials.
    fn millis(&self) -> Vec<u128> {
        let sleeps = self.sleeps.lock().unwrap();
        let millis = sleeps.iter().map(Duration::as_millis);
        millis.filter(|millis| *millis < 5_000).collect()
    }

    fn header(&self, send: usize, name: &str) -> String {
        let sent = self.sent.lock().unwrap();
        let header = sent[send].headers().get(name);
        header.unwrap_or_default().to_owned()
    }

    fn sends(&self) -> usize {
        self.sent.lock().unwrap().len()
    }
}

async fn put(table: &TableClient) -> Result<ItemReply, SdkError<ErrorMetadata>> {
    // tokio suspends a task that never waits after some time, and its sends would appear to time out.
    tokio::task::yield_now().await;
    table.send(PUT, b"{}".to_vec(), &()).await
}

/// Keeps the notes of the sends.
#[derive(Default)]
struct KeptNotes(Mutex<Vec<String>>);

impl SendNotes for KeptNotes {
    fn timeout(&self, own: Duration) -> Duration {
        own / 2
    }

    fn starts(&self, uri: &str) {
        self.0.lock().unwrap().push(uri.to_owned());
    }

    fn ends(&self, result: SendResult<'_>) {
        let notes = match result {
            SendResult::Response { status, code, .. } => format!("{status} {code:?}"),
            SendResult::NoResponse(_) => "no response".to_owned(),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(notes);
    }
}

#[tokio::test]
async fn a_send_that_was_throttled_is_repeated_and_each_one_is_noted() {
    let refused = r#"{"__type":"x#ConditionalCheckFailedException","Item":{"id":{"S":"o-1"}}}"#;
    let (table, script) = table([Act::Reply(400, THROTTLED), Act::Reply(400, refused)]);
    let notes = KeptNotes::default();
    let reply = table.send(PUT, b"{}".to_vec(), &notes).await.unwrap();
    let item = HashMap::from([("id".to_owned(), AttributeValue::S("o-1".to_owned()))]);
    assert_eq!(reply, ItemReply::ConditionFailed(Some(item)));
    let uri = "https://dynamodb.eu-west-1.amazonaws.com/";
    assert_eq!(
        *notes.0.lock().unwrap(),
        [
            uri,
            r#"400 Some("ThrottlingException")"#,
            uri,
            r#"400 Some("ConditionalCheckFailedException")"#
        ]
    );
    let id = script.header(0, "amz-sdk-invocation-id");
    assert_eq!(id.len(), 36);
    for send in 0..2 {
        assert_eq!(script.header(send, "x-amz-target"), PUT);
        // The sends of one call have one id, as those of the SDK.
        assert_eq!(script.header(send, "amz-sdk-invocation-id"), id);
        let agent = script.header(send, "user-agent");
        assert!(agent.starts_with("shop/1.0 lang/rust os/"), "{agent}");
        let authorization = script.header(send, "authorization");
        assert!(authorization.contains("/eu-west-1/dynamodb/aws4_request"));
        let sent = script.sent.lock().unwrap();
        assert_eq!(sent[send].body().bytes(), Some(&b"{}"[..]));
        assert_eq!(sent[send].method(), "POST");
    }
}

#[tokio::test]
async fn an_error_is_that_of_the_sdk_with_its_code() {
    let missing = r#"{"__type":"x#ResourceNotFoundException","message":"no such table"}"#;
    let (table, script) = table([Act::Reply(400, missing), Act::Reply(200, "{}")]);
    let error = put(&table).await.unwrap_err();
    assert_eq!(error.code(), Some("ResourceNotFoundException"));
    assert_eq!(error.message(), Some("no such table"));
    assert_eq!(put(&table).await.unwrap(), ItemReply::Success(None));
    assert_eq!(script.sends(), 2);
    let shown = format!("{table:?}");
    assert!(
        shown.contains("orders") && shown.contains("eu-west-1"),
        "{shown}"
    );
    assert!(!shown.contains("access"));
}

#[tokio::test]
async fn a_read_returns_the_item_and_a_write_the_one_that_it_replaced() {
    let both = r#"{"Item":{"read":{"BOOL":true}},"Attributes":{"old":{"BOOL":true}}}"#;
    for (target, name) in [(GET, "read"), (PUT, "old")] {
        let (table, _) = table([Act::Reply(200, both)]);
        let reply = table.send(target, b"{}".to_vec(), &()).await.unwrap();
        let ItemReply::Success(Some(item)) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(item.keys().collect::<Vec<_>>(), [name]);
    }
}

#[tokio::test]
async fn each_failure_is_noted_repeated_and_reported_as_its_row_says() {
    for (act, note, sends, kind) in [
        (Act::Refused, "no response", 3, "DispatchFailure"),
        (Act::Silence, "Timeout", 3, "TimeoutError"),
        (Act::Broken, "200 None", 3, "ResponseError"),
        (Act::Reply(200, "[]"), "200 None", 1, "ServiceError"),
        (Act::Reply(204, "{}"), "204 None", 1, "ServiceError"),
        (Act::Reply(503, "busy"), "503 None", 3, "ServiceError"),
        (Act::Reply(403, "{}"), "403 None", 1, "ServiceError"),
    ] {
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(3));
        let timeouts = timeouts.build();
        let (table, script) = table_with(vec![act.clone(); 3], |it| {
            it.timeout_config(timeouts.clone())
        });
        let notes = KeptNotes::default();
        tokio::task::yield_now().await;
        let error = table.send(PUT, b"{}".to_vec(), &notes).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(kind), "{act:?}: {error:?}");
        let noted = notes.0.into_inner().unwrap();
        let ends: Vec<_> = noted.iter().skip(1).step_by(2).collect();
        assert_eq!(ends, vec![note; sends], "{act:?}");
        assert_eq!(script.sends(), sends, "{act:?}");
        // The notes halve the timeout of a send. The pauses are between the sends.
        let timeouts = script
            .millis()
            .into_iter()
            .filter(|it| *it == 1_500)
            .count();
        assert_eq!(timeouts, sends, "{act:?}");
        let pauses = script.millis().into_iter().filter(|it| *it != 1_500);
        assert_eq!(
            pauses.collect::<Vec<_>>(),
            [100, 200][..sends - 1],
            "{act:?}"
        );
    }
}

#[tokio::test]
async fn the_timeout_of_a_call_ends_it_and_says_how_long_it_was() {
    let seconds = Duration::from_secs(4);
    let timeouts = TimeoutConfig::builder().operation_timeout(seconds);
    let timeouts = timeouts.disable_operation_attempt_timeout().build();
    let (table, script) = table_with([Act::Silence], |it| it.timeout_config(timeouts.clone()));
    let notes = KeptNotes::default();
    let error = table.send(PUT, b"{}".to_vec(), &notes).await.unwrap_err();
    assert!(matches!(error, SdkError::TimeoutError(_)), "{error:?}");
    assert!(
        format!("{error:?}").contains("timeout after 4s"),
        "{error:?}"
    );
    assert_eq!(notes.0.lock().unwrap()[1], "Timeout");
    // The first is that of the call of the SDK whose parts are taken.
    assert_eq!(script.millis(), [4_000; 2]);
}

#[tokio::test]
async fn without_a_timer_there_is_neither_a_timeout_nor_a_pause() {
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(3));
    let timeouts = timeouts.build();
    let acts = [Act::Reply(500, "{}"), Act::Reply(200, "{}")];
    let (table, script) = table_with(acts, |mut it| {
        it.set_sleep_impl(None);
        it.timeout_config(timeouts.clone())
            .identity_cache(IdentityCache::no_cache())
    });
    // The SDK may insist on a timer for its timeouts: then nothing is sent.
    if put(&table).await.is_ok() {
        assert_eq!(script.sends(), 2);
    }
    assert_eq!(script.millis(), []);
}

#[tokio::test]
async fn dynamodb_can_ask_for_a_pause() {
    for (after, pauses) in [
        ("7", [7, 200]),
        ("2000", [1_000, 200]),
        ("soon", [100, 200]),
    ] {
        let asks = Act::With(400, THROTTLED, ("x-amz-retry-after", after));
        let (table, script) = table([asks, Act::Reply(400, THROTTLED), Act::Reply(200, "{}")]);
        put(&table).await.unwrap();
        assert_eq!(script.millis(), pauses, "{after}");
    }
}

#[tokio::test]
async fn a_connection_is_closed_after_a_temporary_fault_unless_the_settings_keep_it() {
    let (internal, throttled) = (Act::Reply(500, "{}"), Act::Reply(400, THROTTLED));
    let reuse = retries().with_reconnect_mode(ReconnectMode::ReuseAllConnections);
    let v2_1 = retries().with_retry_spec(RetrySpec::v2_1());
    for (act, settings, closed) in [
        (internal.clone(), retries(), 1),
        (throttled, retries(), 0),
        (internal.clone(), reuse, 0),
        (internal, v2_1, 0),
    ] {
        let acts = [act.clone(), Act::Reply(200, "{}")];
        let (table, script) = table_with(acts, |it| it.retry_config(settings.clone()));
        put(&table).await.unwrap();
        let poisoned = script.poisoned.load(Ordering::Relaxed);
        assert_eq!(poisoned, closed, "{act:?} {settings:?}");
    }
}

/// A clock that stands still.
#[derive(Clone, Debug)]
struct Clock(SystemTime);

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        self.0
    }
}

#[tokio::test]
async fn a_wrong_clock_is_corrected_unless_the_settings_forbid_it() {
    let refused = r#"{"__type":"x#InvalidSignatureException"}"#;
    let date = ("date", "Sun, 22 Nov 2026 07:06:58 GMT");
    let clock = Clock(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_331_218 - 3_600));
    for (disabled, dates) in [
        (None, vec!["20261122T060658Z", "20261122T070658Z"]),
        (Some(false), vec!["20261122T060658Z", "20261122T070658Z"]),
        (Some(true), vec!["20261122T060658Z"]),
    ] {
        let acts = [Act::With(400, refused, date), Act::Reply(200, "{}")];
        let (table, script) = table_with(acts, |it| {
            let it = it.time_source(clock.clone());
            it.disable_clock_skew_correction(disabled)
        });
        assert_eq!(put(&table).await.is_ok(), dates.len() == 2);
        let sent: Vec<_> = (0..script.sends())
            .map(|send| script.header(send, "x-amz-date"))
            .collect();
        assert_eq!(sent, dates, "{disabled:?}");
    }
}

#[tokio::test]
async fn a_request_has_the_session_token_and_names_the_application() {
    let token = Some("t0ken".to_owned());
    let credentials = Credentials::new("access", "s3cr3t", token, None, "test");
    let (table, script) = table_with([Act::Reply(200, "{}")], |it| {
        let it = it.credentials_provider(credentials.clone());
        it.app_name(AppName::new("checkout").unwrap())
    });
    put(&table).await.unwrap();
    assert_eq!(script.header(0, "x-amz-security-token"), "t0ken");
    assert_eq!(
        script.header(0, "content-type"),
        "application/x-amz-json-1.0"
    );
    let agent = script.header(0, "user-agent");
    assert!(agent.ends_with(" app/checkout"), "{agent}");
}

/// Returns credentials with a new session token each time.
#[derive(Debug, Default)]
struct Rotated(AtomicUsize);

impl ProvideCredentials for Rotated {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        let token = format!("t{}", self.0.fetch_add(1, Ordering::Relaxed));
        let credentials = Credentials::new("access", "s3cr3t", Some(token), None, "test");
        Provided::ready(Ok(credentials))
    }
}

#[tokio::test]
async fn a_route_is_made_again_when_the_credentials_have_changed() {
    for (cache, tokens, routes) in [
        (IdentityCache::lazy().build(), ["t0", "t0"], 1),
        (IdentityCache::no_cache(), ["t0", "t1"], 2),
    ] {
        let endpoint = OwnEndpoint::default();
        let (table, script) = table_with([Act::Reply(200, "{}"), Act::Reply(200, "{}")], |it| {
            it.credentials_provider(Rotated::default())
                .identity_cache(cache.clone())
                .endpoint_resolver(endpoint.clone())
        });
        for (send, token) in tokens.into_iter().enumerate() {
            put(&table).await.unwrap();
            assert_eq!(script.header(send, "x-amz-security-token"), token);
        }
        assert_eq!(endpoint.resolved.load(Ordering::Relaxed), routes);
    }
}

/// Resolves an endpoint with or without a header. It has two schemes, and the second one is that of DynamoDB.
#[derive(Clone, Debug, Default)]
struct OwnEndpoint {
    has_header: bool,
    resolved: Arc<AtomicUsize>,
}

impl ResolveEndpoint for OwnEndpoint {
    fn resolve_endpoint<'a>(&'a self, _: &'a Params) -> EndpointFuture<'a> {
        self.resolved.fetch_add(1, Ordering::Relaxed);
        let scheme = |name: &'static str, region: &str| {
            let scheme = EndpointAuthScheme::with_capacity(name, 1);
            scheme.put("signingRegion", region.to_owned())
        };
        let endpoint = Endpoint::builder()
            .url("https://host")
            .auth_scheme(scheme("sigv4a", "all-1"))
            .auth_scheme(scheme("sigv4", "eu-north-1"));
        let endpoint = if self.has_header {
            endpoint.header("via", "proxy")
        } else {
            endpoint
        };
        EndpointFuture::ready(Ok(endpoint.build()))
    }
}

#[test]
fn a_send_without_notes_has_the_timeout_of_the_client() {
    let own = Duration::from_secs(7);
    assert_eq!(().timeout(own), own);
}

#[tokio::test]
async fn an_endpoint_with_headers_is_an_error_before_any_request() {
    let (table, script) = table_with([Act::Reply(200, "{}")], |it| {
        it.endpoint_resolver(OwnEndpoint::default())
    });
    put(&table).await.unwrap();
    assert_eq!(script.sent.lock().unwrap()[0].uri(), "https://host/");
    let signature = script.header(0, "authorization");
    assert!(signature.contains("/eu-north-1/dynamodb/"), "{signature}");

    let endpoint = OwnEndpoint {
        has_header: true,
        ..OwnEndpoint::default()
    };
    let (table, script) = table_with([], |it| it.endpoint_resolver(endpoint.clone()));
    let notes = KeptNotes::default();
    let error = table.send(PUT, b"{}".to_vec(), &notes).await.unwrap_err();
    assert!(
        matches!(error, SdkError::ConstructionFailure(_)),
        "{error:?}"
    );
    assert!(
        format!("{error:?}").contains("use the SDK's client"),
        "{error:?}"
    );
    assert_eq!(*notes.0.lock().unwrap(), ["Unsent"]);
    assert_eq!(script.sends(), 0);
}
