//! Functions in processes of their own that reach the database through TLS, with both clients of the store.
//!
//! `server.pem` is a self-signed certificate for `localhost`; `server.key` is its key. The key protects nothing. `other.pem`
//! has another key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::lambda::LocalLambda;
use idempotency_tests::process::{self, TABLE};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The values of `IDEMPOTENCY_CLIENT`.
const CLIENTS: [&str; 2] = ["sdk", "lean"];

#[idempotent(key = "order_id", key_prefix = "tls.charge")]
async fn charge(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    println!("charging the card");
    Ok(json!({ "charged": event.payload["amount"], "by": std::process::id() }))
}

pub(crate) async fn serve() -> Result<(), BoxError> {
    idempotency_lambda::run(charge).await
}

/// A server that ends TLS in front of a database.
struct Front {
    endpoint: String,
    /// The number of connections whose handshake was completed.
    connections: Arc<AtomicUsize>,
}

impl Front {
    async fn start(database: &EmbeddedDynamoDb) -> Result<Self, BoxError> {
        let certificate = CertificateDer::from_pem_slice(include_bytes!("server.pem"))?;
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("server.key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let behind = database.endpoint().strip_prefix("http://");
        let behind = behind.ok_or("the database has no TLS")?.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("https://localhost:{}", listener.local_addr()?.port());
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                let accepted = Arc::clone(&accepted);
                tokio::spawn(async move {
                    // A client that does not trust the certificate ends the handshake.
                    let Ok(mut client) = acceptor.accept(client).await else {
                        return;
                    };
                    accepted.fetch_add(1, Ordering::Relaxed);
                    let mut database = TcpStream::connect(behind).await.unwrap();
                    let _ends = tokio::io::copy_bidirectional(&mut client, &mut database).await;
                });
            }
        });
        Ok(Self {
            endpoint,
            connections,
        })
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Starts the function with this client. Each of these variables names a file in this folder, whose certificates are trusted.
async fn start(
    client: &str,
    trusted: &[(&str, &str)],
) -> Result<(EmbeddedDynamoDb, Front, LocalLambda), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new(TABLE)).await?;
    let front = Front::start(&database).await?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/functions/tls/");
    let trusted = trusted.iter();
    let trusted = trusted.map(|(name, file)| (*name, folder.to_owned() + file));
    let function = process::function("tls/charge")?
        .envs(database.environment())
        .env("AWS_ENDPOINT_URL_DYNAMODB", &front.endpoint)
        .envs(trusted)
        .env("IDEMPOTENCY_CLIENT", client)
        .env("IDEMPOTENCY_TABLE", TABLE);
    let lambda = LocalLambda::start(function).await?;
    Ok((database, front, lambda))
}

fn order() -> String {
    json!({ "order_id": "o-1", "amount": 4200 }).to_string()
}

#[tokio::test]
async fn a_duplicate_in_another_process_gets_the_first_response_through_tls() -> Result<(), BoxError>
{
    for client in CLIENTS {
        let (database, front, lambda) = start(client, &[("SSL_CERT_FILE", "server.pem")]).await?;
        let first = lambda.start_process().await?;
        let response = first.invoke(order()).await?.json()?;
        assert_eq!(response["charged"], 4200, "{client}");
        assert_eq!(
            front.connections(),
            1,
            "{client}: the connection of the warm-up serves the call too"
        );
        let again = lambda.start_process().await?;
        assert_eq!(again.invoke(order()).await?.json()?, response, "{client}");
        assert_eq!(front.connections(), 2, "{client}");
        let is_lean = client == "lean";
        let requests = database.requests();
        let writes = requests.iter();
        let writes = writes.filter(|request| request.operation != "GetItem");
        // The lean client does not say which attempt a request is.
        let leans: Vec<_> = writes.map(|write| write.attempt.is_none()).collect();
        assert_eq!(leans, [is_lean; 3], "{client}");
    }
    Ok(())
}

#[tokio::test]
async fn the_authorities_of_aws_ca_bundle_replace_those_of_the_system() -> Result<(), BoxError> {
    for client in CLIENTS {
        let trusted = [
            ("SSL_CERT_FILE", "other.pem"),
            ("AWS_CA_BUNDLE", "server.pem"),
        ];
        let (_database, front, lambda) = start(client, &trusted).await?;
        assert_eq!(
            lambda.invoke(order()).await?.json()?["charged"],
            4200,
            "{client}"
        );
        assert_eq!(front.connections(), 1, "{client}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_trusted_fails_the_start_and_gets_no_request()
-> Result<(), BoxError> {
    let untrusted = "or of a proxy before it, is not trusted (";
    let of_system = "name a file with its authority in AWS_CA_BUNDLE";
    let of_bundle = "other.pem` (AWS_CA_BUNDLE) are trusted: add the one that issued it";
    let none = "there are no certificate authorities here: install them";
    for client in CLIENTS {
        for (variable, file, remedy) in [
            ("SSL_CERT_FILE", "other.pem", of_system),
            ("AWS_CA_BUNDLE", "other.pem", of_bundle),
            ("SSL_CERT_FILE", "mod.rs", none),
        ] {
            let (database, front, lambda) = start(client, &[(variable, file)]).await?;
            let error = lambda.invoke(order()).await.unwrap_err();
            assert_eq!(error.error_type, "IdempotencyConfiguration", "{client}");
            let text = error.to_string();
            assert!(
                text.contains(untrusted) && text.contains(remedy),
                "{client}: {text}"
            );
            assert_eq!(front.connections(), 0, "{client}");
            // Only the test itself has asked the database, for its table.
            for request in database.requests() {
                assert_eq!(request.operation, "CreateTable", "{client}");
            }
        }
    }
    Ok(())
}
