//! Both clients send the same requests to the same endpoints, repeat the same sends, and end with the same errors.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_config::retry::RetryConfig;
use aws_sdk_dynamodb::config::endpoint::{Endpoint, EndpointFuture, Params, ResolveEndpoint};
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_smithy_async::time::TimeSource;
use aws_types::sdk_config::Builder;
use idempotency_core::protocol::condition::{Condition, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{Change, Store, StoreReply, Write};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::{DynamoDbStore, LeanClient};
use idempotency_testkit::store::StoreExt;
use serde_json::json;

use super::script::{Reply, SentRequest, Wire};
use super::{Kind, columns, rows, said, said_in_full};

const ARN: &str = "arn:aws:dynamodb:eu-west-1:111122223333:table/payments";

fn credentials() -> Credentials {
    Credentials::new("access", "secret", None, None, "test")
}

fn of_account() -> Credentials {
    let account = Credentials::builder().account_id("444455556666");
    let account = account.provider_name("test").access_key_id("access");
    account.secret_access_key("secret").build()
}

fn of_session() -> Credentials {
    let token = Some("t0ken/+=".to_owned());
    Credentials::new("access", "secret", token, None, "test")
}

/// Returns what a client sends for each kind of request, or the error of the first one.
async fn sent(
    kind: Kind,
    configure: &dyn Fn(Builder) -> Builder,
    credentials: Credentials,
    table: &str,
) -> Result<Vec<SentRequest>, String> {
    let wire = Wire::default();
    let store = kind.with_config(&configure(wire.config(credentials)).build());
    let store = store.table(table).build().unwrap();
    let warm = store.warm_up(false).await;
    warm.map_err(|error| format!("{:?}: {error}", error.kind()))?;
    let id = RecordId::new("charge#\"é\n");
    let owner = OwnerToken::from_bytes([7; 16]);
    let steps = [("b\"é.", "\"\u{0}\""), ("a", "1")];
    let steps = steps.map(|(name, result)| (name.to_owned(), Data::new(result)));
    let record = Record {
        expiration: Field::Value(EpochSeconds::new(-1)),
        in_progress_expiration: Field::Value(EpochMillis::new(i64::MAX)),
        status: Field::Value(Status::InProgress),
        data: Field::Value(Data::new("\"\\u0000 \u{1F980} </script>\"")),
        owner: Field::Value(owner.clone()),
        steps: Field::Value(steps.into_iter().collect()),
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
    store
        .write(&id, Write::Put(record.clone()), &claimable)
        .await;
    store
        .write(&id, Write::Update(change.clone()), &held_by(&owner))
        .await;
    store.write(&id, step, &held_by(&owner)).await;
    store.write(&id, Write::Delete, &held_by(&owner)).await;
    store.get(&id).await;
    Ok(wire.take())
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
        let date = |sent: &SentRequest| sent.header("x-amz-date").len();
        assert_eq!(date(lean), date(sdk));
    }
    Ok(lean[0].uri.clone())
}

#[tokio::test]
async fn an_endpoint_follows_region_partition_and_settings() {
    for row in rows(include_str!("endpoints.txt")) {
        let [region, setting, uri] = columns(row);
        let configure = |it: Builder| match (it.region(Region::new(region)), setting) {
            (it, "") => it,
            (it, "fips") => it.use_fips(true),
            (it, "dual stack") => it.use_dual_stack(true),
            (it, url) => it.endpoint_url(url),
        };
        for credentials in [credentials, of_session] {
            let sent = compare(&configure, credentials, "payments").await;
            assert_eq!(sent.as_deref(), Ok(uri));
        }
    }
}

#[tokio::test]
async fn an_endpoint_follows_the_account_of_the_credentials_and_of_the_table() {
    use aws_types::endpoint_config::AccountIdEndpointMode::{Disabled, Preferred};
    let (own, plain): (fn() -> _, fn() -> _) = (of_account, credentials);
    for (credentials, table, mode, host) in [
        (own, "payments", Preferred, "444455556666.ddb"),
        (own, ARN, Preferred, "111122223333.ddb"),
        (plain, ARN, Preferred, "111122223333.ddb"),
        (own, ARN, Disabled, "dynamodb"),
    ] {
        let mode = |it: Builder| it.account_id_endpoint_mode(mode.clone());
        let sent = compare(&mode, credentials, table).await;
        assert_eq!(sent, Ok(format!("https://{host}.eu-west-1.amazonaws.com/")));
    }
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
    let wire = Wire::default();
    let config = aws_sdk_dynamodb::config::Builder::from(&wire.config(credentials()).build());
    let config = config.endpoint_resolver(WithHeader).build();
    let client = LeanClient::new(aws_sdk_dynamodb::Client::from_conf(config));
    let store = DynamoDbStore::builder().table("payments");
    let store = store.lean_client(client).build().unwrap();
    let error = store.warm_up(false).await.unwrap_err();
    let why = error.source().unwrap().to_string();
    assert!(why.contains("use the SDK's client"), "{why}");
    assert!(wire.take().is_empty());
}

#[tokio::test]
async fn a_request_names_this_crate_and_the_application() {
    let wire = Wire::default();
    let name = aws_config::AppName::new("shop").unwrap();
    let config = wire.config(credentials()).app_name(name).build();
    let store = Kind::Lean.store(&config);
    store.warm_up(false).await.unwrap();
    let sent = wire.take();
    let agent = sent[0].header("user-agent");
    assert!(agent.starts_with("idempotency-dynamodb/"), "{agent}");
    assert!(agent.ends_with(" app/shop"), "{agent}");
}

// Both clients repeat the same sends, and end with the same errors.

/// Returns how a claim ends whose first send gets this reply, and the dates of its sends.
async fn claimed(kind: Kind, reply: Reply) -> (String, Vec<String>) {
    ended(kind, RequestKind::Put, vec![reply]).await
}

/// A kind of request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    Put,
    Update,
    Delete,
    Get,
}

/// Returns the reply to a request.
async fn replied(store: &DynamoDbStore, request: RequestKind) -> StoreReply {
    let (id, is_new) = (RecordId::new("charge#1"), Condition::NoRecord);
    match request {
        RequestKind::Put => {
            store
                .write(&id, Write::Put(Record::default()), &is_new)
                .await
        }
        RequestKind::Update => {
            store
                .write(&id, Write::Update(Change::default()), &is_new)
                .await
        }
        RequestKind::Delete => store.write(&id, Write::Delete, &is_new).await,
        RequestKind::Get => store.get(&id).await,
    }
}

/// Returns how a request with these replies ends, and the dates of its sends.
pub(crate) async fn ended(
    kind: Kind,
    request: RequestKind,
    replies: Vec<Reply>,
) -> (String, Vec<String>) {
    static CLIENTS: AtomicUsize = AtomicUsize::new(0);
    let wire = Wire::beginning_with(replies);
    // All SDK clients of a region share a retry quota, which one test would use up for the next.
    let region = format!("region-{}", CLIENTS.fetch_add(1, Ordering::Relaxed));
    let config = wire.quick_config(of_session());
    let config = config.region(Region::new(region.clone()));
    // Three attempts alone would be the SDK's default, which counts as not set.
    let retries = RetryConfig::standard().with_max_attempts(3);
    let retries = retries.with_initial_backoff(Duration::from_millis(1));
    let store = kind.store(&config.retry_config(retries).build());
    // tokio suspends a task that never waits after some time, and its sends would appear to time out.
    tokio::task::yield_now().await;
    let reply = replied(&store, request).await;
    if let StoreReply::Failed { error, .. } = &reply {
        let (mut texts, mut cause) = (String::new(), error.source());
        while let Some(error) = cause {
            texts += &format!("{error} {error:?}");
            cause = error.source();
        }
        let secret = texts.contains("t0ken") || texts.contains("s3cr3t");
        assert!(!secret, "{texts}");
    }
    let sent = wire.take();
    let dates = sent.iter().map(|sent| sent.header("x-amz-date").to_owned());
    let end = said_in_full(&reply).replace(&region, "region");
    (end, dates.collect())
}

/// Gives both clients the same reply to each send, and returns the end that both have, after as many sends.
async fn same_end(request: RequestKind, reply: Reply) -> String {
    same_sends(request, reply).await.0
}

/// Returns the end that both clients have, and the number of sends.
async fn same_sends(request: RequestKind, reply: Reply) -> (String, usize) {
    let [sdk, lean] = Kind::ALL.map(|kind| ended(kind, request, vec![reply.clone(); 3]));
    let (sdk, lean) = (sdk.await, lean.await);
    let (of_lean, of_sdk) = ((&lean.0, lean.1.len()), (&sdk.0, sdk.1.len()));
    assert_eq!(of_lean, of_sdk, "{request:?} {reply:?}");
    (lean.0, lean.1.len())
}

#[tokio::test]
async fn every_error_response_is_repeated_as_often_and_ends_alike() {
    let written = rows(include_str!("replies.txt")).map(|row| {
        let (status, body) = row.split_once(' ').unwrap_or((row, ""));
        Reply::new(status.parse().unwrap(), body)
    });
    let named = |code, body: &str| Reply::new(400, body).with_header("x-amzn-errortype", code);
    let by_header = [
        named("ThrottlingException:http://a", "{}"),
        named("a#AccessDenied", r#"{"__type":"other"}"#),
    ];
    for reply in written.chain(by_header) {
        same_end(RequestKind::Put, reply).await;
    }
}

#[tokio::test]
async fn every_status_without_an_error_code_is_repeated_as_often_and_ends_alike() {
    for status in 300..600 {
        let end = same_end(RequestKind::Put, Reply::new(status, "{}")).await;
        // A proxy can have written it, after DynamoDB applied the write.
        assert!(end.contains(", maybe applied: "), "{status}: {end}");
    }
}

#[tokio::test]
async fn every_error_code_is_repeated_as_often_and_ends_alike_for_each_request() {
    use RequestKind::{Delete, Get, Put, Update};
    for request in [Put, Update, Delete, Get] {
        for code in rows(include_str!("codes.txt")) {
            // The lean client knows these codes for each request, the SDK's client only for writes.
            let of_writes = [
                "ConditionalCheckFailedException",
                "ReplicatedWriteConflictException",
            ];
            if matches!(request, Get) && of_writes.contains(&code) {
                continue;
            }
            for status in [400, 500] {
                let body = json!({ "message": "s3cr3t" });
                let reply = Reply::with_code(status, code, body);
                let (end, sends) = same_sends(request, reply).await;
                // The engine sends a completion again after what the clients send again.
                let passes = ["Throttled", "Unreachable", "Internal", "Conflict"];
                let passes = passes.iter().any(|kind| end.starts_with(kind));
                assert!(sends == 1 || status == 500 || passes, "{code}: {end}");
            }
        }
    }
}

#[tokio::test]
async fn only_a_success_of_dynamodb_is_one() {
    use RequestKind::{Delete, Get, Put, Update};
    for row in rows(include_str!("successes.txt")) {
        let [status, id, kind, body, of_write, of_read] = columns(row);
        let headers = [("x-amzn-requestid", id), ("content-type", kind)];
        let headers = headers.into_iter().filter(|(_, value)| !value.is_empty());
        let reply = Reply::Response(status.parse().unwrap(), headers.collect(), body.to_owned());
        for kind in Kind::ALL {
            for request in [Put, Update, Delete, Get] {
                let wire = Wire::new([reply.clone()]);
                let config = wire.quick_config(credentials()).build();
                let end = said(&replied(&kind.store(&config), request).await);
                let expected = match request {
                    Get => of_read,
                    Put | Update | Delete => of_write,
                };
                assert_eq!(end, expected, "{kind:?} {request:?}: {row}");
                wire.requests();
            }
        }
        same_end(Put, reply).await;
    }
}

/// The clock of a process.
#[derive(Clone, Debug)]
struct Clock(Arc<Mutex<SystemTime>>);

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

/// The time of DynamoDB, and its `date`.
const NOW: (u64, &str) = (1_795_331_218, "Sun, 22 Nov 2026 07:06:58 GMT");

/// Claims a key, then completes it while these replies come. Meanwhile the clock, which was wrong by this number of seconds, is set
/// right if `is_set`. Returns the end, and the time of each signature of the completion.
async fn completed(
    kind: Kind,
    wrong_by: i64,
    is_set: bool,
    replies: Vec<Reply>,
) -> (String, Vec<String>) {
    let dated = Reply::ok().with_header("date", NOW.1);
    let wire = Wire::new([dated].into_iter().chain(replies));
    let now = |wrong_by: i64| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.0.checked_add_signed(wrong_by).unwrap())
    };
    let clock = Clock(Arc::new(Mutex::new(now(wrong_by))));
    let config = wire.quick_config(credentials()).time_source(clock.clone());
    let store = kind.store(&config.build());
    replied(&store, RequestKind::Put).await;
    if is_set {
        *clock.0.lock().unwrap() = now(0);
    }
    wire.take();
    let end = said(&replied(&store, RequestKind::Update).await);
    let sent = wire.take();
    let dates = sent.iter().map(|sent| sent.header("x-amz-date").to_owned());
    (end, dates.collect())
}

#[tokio::test]
async fn a_signature_that_was_refused_for_its_time_is_made_again_and_no_other_server_sets_the_clock()
 {
    let refused = || {
        let signature = json!({ "message": "Signature not yet current" });
        let reply = Reply::with_code(400, "InvalidSignatureException", signature);
        reply.with_header("date", NOW.1)
    };
    let page = || Reply::page(503, "busy").with_header("date", "Sun, 22 Nov 2020 07:06:58 GMT");
    let minutes = 60;
    let (right, early, late) = ("20261122T070658Z", "20261122T064658Z", "20261122T072658Z");
    for (wrong_by, is_set, replies, end, dates) in [
        // The correction of a wrong clock stays.
        (
            20 * minutes,
            false,
            vec![Reply::ok()],
            "applied",
            vec![right],
        ),
        // The clock was set, and the correction is wrong.
        (
            20 * minutes,
            true,
            vec![refused(), Reply::ok()],
            "applied",
            vec![early, right],
        ),
        (
            -20 * minutes,
            true,
            vec![refused(), Reply::ok()],
            "applied",
            vec![late, right],
        ),
        // The time of the signature is right, so something else is wrong.
        (
            20 * minutes,
            false,
            vec![refused()],
            "Credentials",
            vec![right],
        ),
        (0, false, vec![refused()], "Credentials", vec![right]),
        (
            0,
            false,
            vec![page(), Reply::ok()],
            "applied, maybe applied",
            vec![right; 2],
        ),
        (
            20 * minutes,
            false,
            vec![page(), page(), Reply::ok()],
            "applied, maybe applied",
            vec![right; 3],
        ),
    ] {
        for kind in Kind::ALL {
            let replies = replies.clone();
            let completed = completed(kind, wrong_by, is_set, replies.clone()).await;
            let expected = (
                end.to_owned(),
                dates.iter().map(ToString::to_string).collect(),
            );
            assert_eq!(
                completed, expected,
                "{kind:?} {wrong_by} {is_set} {replies:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_claim_after_a_failed_send_or_with_a_refused_signature_ends_as_its_row_says() {
    let signature = |message: &str| {
        json!({ "__type": "a#InvalidSignatureException", "message": message }).to_string()
    };
    let date = "Sun, 22 Nov 2020 07:06:58 GMT";
    let expired = Reply::new(400, signature("Signature expired")).with_header("date", date);
    let refused = Reply::new(400, signature("no"));
    let internal = Reply::new(500, "{}");
    let [once, again] = ["maybe_again: false }", "maybe_again: true }"];
    for (reply, begin, end, days) in [
        // It is repeated with the clock of DynamoDB.
        (expired, "Applied ", once, &[false, true][..]),
        (internal, "Applied ", again, &[false; 2]),
        // The clock is right, so it is not repeated.
        (refused, "Credentials: ", "", &[false]),
    ] {
        for kind in Kind::ALL {
            let (claim, dates) = claimed(kind, reply.clone()).await;
            let as_expected = claim.starts_with(begin) && claim.ends_with(end);
            assert!(as_expected, "{reply:?}: {claim}");
            let of_2020 = dates.iter().map(|date| date.starts_with("20201122T07"));
            assert_eq!(of_2020.collect::<Vec<_>>(), days, "{reply:?}: {dates:?}");
        }
    }
}
