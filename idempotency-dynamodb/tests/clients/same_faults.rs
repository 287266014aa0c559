//! Both clients end alike on a real connection that fails: responses that are cut, slow or wrong, and connections that are closed.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    AsyncSleep, BehaviorVersion, Region, SharedAsyncSleep, SharedCredentialsProvider, Sleep,
    StalledStreamProtectionConfig,
};
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{Store, Write};
use idempotency_dynamodb::DynamoDbStore;
use idempotency_testkit::store::StoreExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::script::credentials;
use super::{Kind, read_request, rows, said_in_full};

/// The timeout of a send.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest pause between two sends.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// What the server does with one request.
#[derive(Clone, Debug)]
enum Act {
    /// Writes this, and waits for the next request on the connection.
    Responds(Vec<u8>),
    /// Writes this, and closes the connection.
    Closes(Vec<u8>),
    /// Writes this, and nothing more until the client gives the send up.
    Stalls(Vec<u8>),
    /// Closes the connection before it has read the request to its end.
    HangsUp,
}

/// Returns a whole response with a content length.
fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n");
    (head + body).into_bytes()
}

/// The headers of each response of DynamoDB.
const OF_DYNAMODB: &str = "x-amzn-requestid: 1\r\ncontent-type: application/x-amz-json-1.0\r\n";

fn success() -> Vec<u8> {
    response("200 OK", OF_DYNAMODB, "{}")
}

fn condition_failed() -> Vec<u8> {
    let body =
        r#"{"__type":"a#ConditionalCheckFailedException","Item":{"status":{"S":"COMPLETED"}}}"#;
    response("400 Bad Request", "", body)
}

/// A server that acts as its script says, and then responds with success.
struct Server {
    endpoint: String,
    script: Mutex<std::vec::IntoIter<Act>>,
    connections: AtomicUsize,
    requests: AtomicUsize,
    /// Ends the timeout of a send that the server does not respond to.
    stalled: Arc<Notify>,
}

impl Server {
    async fn start(script: Vec<Act>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            script: Mutex::new(script.into_iter()),
            connections: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            stalled: Arc::default(),
        });
        let accepting = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let server = Arc::clone(&accepting);
                tokio::spawn(async move {
                    // The client may close the connection at any time.
                    let _ = server.serve(BufReader::new(connection)).await;
                });
            }
        });
        server
    }

    async fn serve(&self, mut connection: BufReader<TcpStream>) -> io::Result<()> {
        loop {
            // The first byte of a request, or the end of the connection.
            if connection.fill_buf().await?.is_empty() {
                return Ok(());
            }
            self.requests.fetch_add(1, Ordering::SeqCst);
            let act = self.script.lock().unwrap().next();
            let act = act.unwrap_or_else(|| Act::Responds(success()));
            if let Act::HangsUp = act {
                return Ok(());
            }
            read_request(&mut connection).await?;
            match act {
                Act::Responds(bytes) => connection.write_all(&bytes).await?,
                Act::Closes(bytes) => return connection.write_all(&bytes).await,
                Act::Stalls(bytes) => {
                    connection.write_all(&bytes).await?;
                    self.stalled.notify_one();
                    // The client closes the connection when it gives up.
                    let _ = connection.read_u8().await?;
                }
                Act::HangsUp => {}
            }
        }
    }
}

/// Returns the configuration of a client that sends at most three times.
fn config(endpoint: &str, stalled: &Arc<Notify>) -> SdkConfig {
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(SEND_TIMEOUT);
    let retries = RetryConfig::standard().with_max_attempts(3);
    let retries = retries.with_initial_backoff(Duration::from_millis(1));
    // All SDK clients of a region share a retry quota, which one test would use up for the next.
    let region = endpoint.replace(':', "-").replace('/', "");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(region))
        .credentials_provider(SharedCredentialsProvider::new(credentials()))
        .retry_config(retries.with_max_backoff(LONGEST_PAUSE))
        .timeout_config(timeouts.build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .sleep_impl(SharedAsyncSleep::new(Sleeps(Arc::clone(stalled))))
        .http_client(idempotency_dynamodb::http_client())
        .endpoint_url(endpoint)
        .build()
}

/// Ends pauses at once, and timeouts when the server says that it stalls.
#[derive(Clone, Debug)]
struct Sleeps(Arc<Notify>);

impl AsyncSleep for Sleeps {
    fn sleep(&self, duration: Duration) -> Sleep {
        let stalled = Arc::clone(&self.0);
        Sleep::new(async move {
            if duration == SEND_TIMEOUT {
                stalled.notified().await;
            } else if duration > LONGEST_PAUSE {
                // The timeout of a connection, which is there at once on loopback.
                std::future::pending().await
            }
        })
    }
}

/// What a script led to.
#[derive(Debug, PartialEq)]
struct End {
    claim: String,
    sends: usize,
    connections: usize,
}

async fn claimed(store: &DynamoDbStore) -> String {
    let (id, record) = (RecordId::new("a#1"), Record::default());
    said_in_full(
        &store
            .write(&id, Write::Put(record), &Condition::NoRecord)
            .await,
    )
}

/// Returns how a claim ends. `warm` calls the server once before it, so that the claim meets an open connection.
async fn end(kind: Kind, script: Vec<Act>, warm: bool) -> End {
    let server = Server::start(script).await;
    let store = kind.store(&config(&server.endpoint, &server.stalled));
    if warm {
        store.warm_up(false).await.unwrap();
    }
    let claim = claimed(&store).await;
    End {
        // The port differs.
        claim: claim.replace(server.endpoint.rsplit(':').next().unwrap(), "port"),
        sends: server.requests.load(Ordering::SeqCst),
        connections: server.connections.load(Ordering::SeqCst),
    }
}

/// Plays a script to both clients, and returns the end that both have.
async fn same(name: &str, script: &[Act], warm: bool) -> End {
    let sdk = end(Kind::Sdk, script.to_vec(), warm).await;
    let lean = end(Kind::Lean, script.to_vec(), warm).await;
    assert_eq!(lean, sdk, "{name}");
    lean
}

/// Asserts that a claim whose three sends all meet this act may have been applied.
async fn assert_maybe_applied(name: &str, act: &Act) {
    let end = same(name, &vec![act.clone(); 3], false).await;
    assert!(end.claim.contains(", maybe applied: "), "{name}: {end:?}");
    assert_eq!(end.sends, 3, "{name}");
}

#[tokio::test]
async fn a_response_that_is_cut_at_any_byte_ends_alike() {
    for whole in [success(), condition_failed()] {
        for length in 0..whole.len() {
            let cut = Act::Closes(whole[..length].to_vec());
            let name = format!("cut after {length} bytes");
            let once = same(&name, std::slice::from_ref(&cut), false).await;
            assert!(once.claim.starts_with("Applied "), "{name}: {once:?}");
            assert!(once.claim.contains("maybe_again: true"), "{name}: {once:?}");
            assert_eq!(once.sends, 2, "{name}");
            assert_maybe_applied(&name, &cut).await;
        }
    }
}

#[tokio::test]
async fn a_response_that_stalls_at_any_byte_ends_alike() {
    let whole = condition_failed();
    for length in 0..whole.len() {
        let stalls = Act::Stalls(whole[..length].to_vec());
        assert_maybe_applied(&format!("stalls after {length} bytes"), &stalls).await;
    }
}

#[tokio::test]
async fn a_wrong_response_ends_alike() {
    // What is wrong must be all that is wrong.
    let head = format!("200 OK\r\n{OF_DYNAMODB}");
    let escaped = |text: &str| {
        let text = text.replace(r"\r\n", "\r\n");
        text.replace("200 OK\r\n", &head).into_bytes()
    };
    let closes = rows(include_str!("responses.txt")).map(|row| {
        let (name, text) = row.split_once(" => ").unwrap();
        (name, Act::Closes(escaped(text)))
    });
    let ok = |headers: &str, body: &str| {
        Act::Responds(response(
            "200 OK",
            &(headers.to_owned() + OF_DYNAMODB),
            body,
        ))
    };
    let no_end = escaped("HTTP/1.1 200 OK\r\n\r\n{}");
    let no_text = [
        &escaped("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")[..],
        b"\xff\xfe",
    ]
    .concat();
    let header = [
        &escaped("HTTP/1.1 200 OK\r\n")[..],
        b"x-amzn-errortype: \xff\xfe\r\ncontent-length: 2\r\n\r\n{}",
    ]
    .concat();
    let html = Act::Responds(response("200 OK", "content-type: text/html\r\n", "{}"));
    let elsewhere = "location: http://127.0.0.1:1/\r\n";
    let redirection = response("307 Temporary Redirect", elsewhere, "");
    let long = "x".repeat(2_000_000);
    let long_body = format!("{{\"pad\":\"{long}\"}}");
    let long_header = format!("pad: {}\r\n", &long[..20_000]);
    let endless = format!("HTTP/1.1 200 OK\r\npad: {}", &long[..1_000_000]);
    let page = response("503 Busy", "", &long);
    let two = [success(), success()].concat();
    let tls = vec![0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0];
    let others = [
        ("no length and no end", Act::Stalls(no_end)),
        ("the first bytes of TLS", Act::Closes(tls)),
        ("a header that is no text", Act::Closes(header)),
        ("a redirection", Act::Closes(redirection)),
        ("a wrong checksum", ok("x-amz-crc32: 1\r\n", "{}")),
        ("gzip that is none", ok("content-encoding: gzip\r\n", "{}")),
        ("a web page", html),
        ("a mark before the JSON", ok("", "\u{feff}{}")),
        ("white space around the JSON", ok("", " \r\n{ }\n")),
        ("two values", ok("", "{}{}")),
        ("a body that is no text", Act::Responds(no_text)),
        ("a response of 2 MB", ok("", &long_body)),
        ("an error page of 2 MB", Act::Responds(page)),
        ("a header of 20 KB", ok(&long_header, "{}")),
        ("a head without an end", Act::Closes(endless.into_bytes())),
        ("two responses", Act::Responds(two)),
        ("a last response", ok("connection: close\r\n", "{}")),
        ("a refusal, and no more", Act::Closes(condition_failed())),
        ("the connection closes within the request", Act::HangsUp),
    ];
    for (name, act) in closes.chain(others) {
        for warm in [false, true] {
            let mut script = vec![act.clone(); 3];
            if warm {
                script.insert(0, Act::Responds(success()));
            }
            same(name, &script, warm).await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_while_it_was_idle_is_replaced() {
    // As after a freeze of the function: the server closed the connection, and the next call finds it in the pool.
    let script = [Act::Responds(success()), Act::HangsUp];
    let end = same("closed when the next request comes", &script, true).await;
    assert!(end.claim.starts_with("Applied "), "{end:?}");
    assert!(end.claim.contains("maybe_again: true"), "{end:?}");
    assert_maybe_applied("closed within the request", &Act::HangsUp).await;
    // Here the client may see it before or after it sends.
    for kind in Kind::ALL {
        let end = self::end(kind, vec![Act::Closes(success())], true).await;
        assert!(end.claim.starts_with("Applied "), "{kind:?}: {end:?}");
        assert_eq!(end.connections, 2, "{kind:?}");
    }
}

#[tokio::test]
async fn a_connection_is_closed_after_an_internal_error_and_kept_after_a_refusal() {
    let responds = |status, body| Act::Responds(response(status, "", body));
    let internal = responds("500 Internal Server Error", "{}");
    let throttled = responds("400 Bad Request", r#"{"__type":"ThrottlingException"}"#);
    for (name, first, warm, sends, connections) in [
        ("after an internal error", vec![internal], false, 2, 2),
        ("after throttling", vec![throttled], false, 2, 1),
        ("after a warm-up", vec![], true, 2, 1),
    ] {
        let end = same(name, &first, warm).await;
        assert!(end.claim.starts_with("Applied "), "{name}: {end:?}");
        let counts = (end.sends, end.connections);
        assert_eq!(counts, (sends, connections), "{name}");
    }
}

#[tokio::test]
async fn a_write_that_cannot_connect_is_not_applied_and_its_error_names_the_endpoint() {
    // A port that is closed, and one that does not speak TLS.
    for scheme in ["http", "https"] {
        for kind in Kind::ALL {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let endpoint = format!("{scheme}://{}", listener.local_addr().unwrap());
            if scheme == "http" {
                drop(listener);
            } else {
                tokio::spawn(async move { while listener.accept().await.is_ok() {} });
            }
            let store = kind.store(&config(&endpoint, &Arc::default()));
            let claim = claimed(&store).await;
            let begin = "Unreachable: no connection to DynamoDB table `payments` in ";
            assert!(claim.starts_with(begin), "{kind:?}: {claim}");
            let named = format!(" at {endpoint}: check the endpoint");
            assert!(claim.contains(&named), "{kind:?}: {claim}");
        }
    }
}
