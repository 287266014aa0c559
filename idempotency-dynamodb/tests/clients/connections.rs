//! The real HTTP client: how many connections it opens, and which failed connections certainly did not carry a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{Change, Store, Write};
use idempotency_dynamodb::DynamoDbStore;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::KIND;
use crate::script::credentials;
use crate::{read_request, said};

/// Returns a listener, and its host and port.
async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    (listener, host)
}

/// Returns a store at this endpoint that sends once, without a timeout.
fn store(endpoint: String) -> DynamoDbStore {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(credentials())
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .endpoint_url(endpoint)
        .http_client(idempotency_dynamodb::http_client())
        .build();
    let client = Client::from_conf(config);
    KIND.with_client(client).build().unwrap()
}

/// Returns how a claim at this endpoint fails.
async fn claimed(endpoint: String) -> String {
    let (id, record) = (RecordId::new("a#1"), Record::default());
    said(
        &store(endpoint)
            .put(&id, &record, &Condition::NoRecord)
            .await,
    )
}

#[tokio::test]
async fn a_write_to_a_closed_port_is_not_applied_and_the_error_names_the_endpoint() {
    let (listener, host) = listener().await;
    drop(listener);
    let endpoint = format!("http://{host}");
    assert_eq!(claimed(endpoint.clone()).await, "Unreachable");
    let text = store(endpoint.clone()).warm_up().await.unwrap_err();
    let text = text.to_string();
    let named = format!("in eu-west-1 at {endpoint}: check the endpoint");
    assert!(text.contains(&named), "{text}");
}

#[tokio::test]
async fn a_write_with_a_failed_tls_handshake_is_not_applied() {
    let (listener, host) = listener().await;
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    assert_eq!(claimed(format!("https://{host}")).await, "Unreachable");
}

#[tokio::test]
async fn a_write_whose_connection_was_closed_after_the_request_may_have_been_applied() {
    let (listener, host) = listener().await;
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            // The first byte of the request proves that it was sent.
            connection.read_u8().await.unwrap();
        }
    });
    let outcome = claimed(format!("http://{host}")).await;
    assert_eq!(outcome, "Unreachable, maybe applied");
}

/// Returns a store on a server that responds to each request with this status, and the number of its connections.
async fn served(status: &'static str) -> (DynamoDbStore, Arc<AtomicUsize>) {
    let (listener, host) = listener().await;
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(respond(connection, status));
        }
    });
    (store(format!("http://{host}")), connections)
}

#[tokio::test]
async fn a_warm_up_opens_the_only_connection_of_all_calls() {
    let (store, connections) = served("200 OK").await;
    store.warm_up().await.unwrap();
    let id = RecordId::new("a#1");
    for write in [
        Write::Put(Record::default()),
        Write::Update(Change::default()),
        Write::Delete,
    ] {
        let written = store.write(&id, write, &Condition::NoRecord).await;
        assert_eq!(said(&written), "applied");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_is_closed_after_an_internal_error_and_kept_after_a_refusal() {
    for (status, opened) in [("500 Internal Server Error", 2), ("400 Bad Request", 1)] {
        let (store, connections) = served(status).await;
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
