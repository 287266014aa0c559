//! The real HTTP client: how many connections it opens, and which failed connections certainly did not carry a write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{Change, Store, StoreErrorKind, StoreReply};
use idempotency_dynamodb::DynamoDbStore;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::KIND;

/// Returns a store at this endpoint that sends once, without a timeout.
fn store(endpoint: String) -> DynamoDbStore {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .endpoint_url(endpoint)
        .http_client(idempotency_dynamodb::http_client())
        .build();
    let client = Client::from_conf(config);
    KIND.with_client(client, "payments").build().unwrap()
}

/// Returns how a claim at this endpoint fails.
async fn claimed(endpoint: String) -> (bool, StoreErrorKind) {
    match store(endpoint)
        .put(
            &RecordId::new("a#1"),
            &Record::default(),
            &Condition::NoRecord,
        )
        .await
    {
        StoreReply::Failed {
            maybe_applied,
            error,
        } => (maybe_applied, error.kind()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_write_to_a_closed_port_is_not_applied() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(
        claimed(endpoint).await,
        (false, StoreErrorKind::Unreachable)
    );
}

#[tokio::test]
async fn an_error_names_an_endpoint_that_refuses_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = store(endpoint.clone()).warm_up().await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("in eu-west-1 at {endpoint}: check the endpoint")),
        "{text}"
    );
}

#[tokio::test]
async fn a_write_with_a_failed_tls_handshake_is_not_applied() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    assert_eq!(
        claimed(endpoint).await,
        (false, StoreErrorKind::Unreachable)
    );
}

#[tokio::test]
async fn a_write_whose_connection_was_closed_after_the_request_may_have_been_applied() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            // The first byte of the request proves that it was sent.
            connection.read_u8().await.unwrap();
        }
    });
    assert_eq!(claimed(endpoint).await, (true, StoreErrorKind::Unreachable));
}

#[tokio::test]
async fn a_warm_up_opens_the_only_connection_of_all_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(respond(connection, "200 OK"));
        }
    });
    let store = store(endpoint);
    store.warm_up().await.unwrap();
    let id = RecordId::new("a#1");
    for write in [
        store
            .put(&id, &Record::default(), &Condition::NoRecord)
            .await,
        store
            .update(&id, &Change::default(), &Condition::NoRecord)
            .await,
        store.delete(&id, &Condition::NoRecord).await,
    ] {
        assert!(matches!(write, StoreReply::Applied { .. }), "{write:?}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_is_closed_after_an_internal_error_and_kept_after_a_refusal() {
    for (status, opened) in [("500 Internal Server Error", 2), ("400 Bad Request", 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(respond(connection, status));
            }
        });
        let store = store(endpoint);
        for _ in 0..2 {
            store.warm_up().await.unwrap_err();
        }
        assert_eq!(connections.load(Ordering::SeqCst), opened, "{status}");
    }
}

/// Responds to every request on a connection with this status and an empty object.
async fn respond(connection: TcpStream, status: &'static str) {
    let mut connection = BufReader::new(connection);
    while !connection.fill_buf().await.unwrap().is_empty() {
        read_request(&mut connection).await.unwrap();
        let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
        connection.write_all(reply.as_bytes()).await.unwrap();
    }
}

/// Reads a request to its end.
pub(crate) async fn read_request(connection: &mut BufReader<TcpStream>) -> io::Result<()> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        connection.read_line(&mut line).await?;
        if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            connection.read_exact(&mut vec![0; length]).await?;
            return Ok(());
        }
    }
}
