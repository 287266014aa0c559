//! The server of `examples/server` over a table, in a process that is killed, or that gets a SIGTERM.

use std::sync::Arc;

use idempotency_dynamodb::{DynamoDbStore, LeanClient, TableConfig};
use idempotency_http::{MemoryStore, backend};
use idempotency_lambda::BoxError;
use idempotency_postgres::PostgresStore;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_tests::process::TABLE;
use idempotency_tests::server::{self, NextServer, ServerProcess, is_replay};
use idempotency_valkey::ValkeyStore;
use tokio::io::AsyncReadExt;

pub(crate) async fn serve() -> Result<(), BoxError> {
    let client = LeanClient::from_env().await?;
    let store = DynamoDbStore::builder().table(TABLE).lean_client(client);
    server::serve(backend(store.build()?)).await
}

async fn start() -> Result<(EmbeddedDynamoDb, ServerProcess, Arc<DynamoDbStore>), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new(TABLE)).await?;
    let server = ServerProcess::start(database.environment()).await?;
    let store = DynamoDbStore::builder()
        .table(TABLE)
        .client(database.client());
    Ok((database, server, Arc::new(store.build()?)))
}

#[tokio::test]
async fn after_a_kill_a_client_gets_a_response_within_one_and_a_half_leases() -> Result<(), BoxError>
{
    let (_database, server, records) = start().await?;
    server.is_killed_in_a_payment(records).await
}

#[tokio::test]
async fn after_a_freeze_a_client_gets_the_response_of_the_server_that_took_over()
-> Result<(), BoxError> {
    let (_database, server, records) = start().await?;
    server.stands_still_in_a_payment(records).await
}

#[tokio::test]
async fn a_server_that_gets_a_sigterm_ends_each_request_also_without_its_client()
-> Result<(), BoxError> {
    let (database, mut server, records) = start().await?;
    // Neither request ends before the server stops.
    let completions = database.inject(Fault::on("UpdateItem").always().hold());
    let (mut client, _) = server.pay("k-1", 0).await?;
    let (gone, _) = server.pay("k-2", 0).await?;
    completions.reached().await;
    drop(gone);
    server.terminate()?;
    server.line("stopping").await?;
    database.clear_faults();
    completions.release().await;
    let mut response = String::new();
    client.read_to_string(&mut response).await?;
    assert!(response.starts_with("HTTP/1.1 201 Created"), "{response}");
    assert!(server.ends_well().await?);

    let next = NextServer::start(records)?;
    for key in ["k-1", "k-2"] {
        assert!(is_replay(&next.pay(key).await?), "{key}");
    }
    Ok(())
}

/// The code of a store as the page writes it, without blanks. It is compiled, and not run.
macro_rules! code {
    ($($code:tt)+) => {{
        let _compiled = async || {
            let _store = $($code)+;
            Ok::<_, BoxError>(())
        };
        let mut code = stringify!($($code)+).to_owned();
        code.retain(|letter| !letter.is_whitespace());
        code
    }};
}

#[test]
fn the_guide_of_servers_builds_each_store_as_the_crates_do() {
    let mut page = include_str!("../../../docs/guide/servers.md").to_owned();
    page.retain(|letter| !letter.is_whitespace());
    let url = "postgres://localhost/shop";
    for code in [
        code!(ValkeyStore::builder("rediss://cache.example.com:6379").build()?),
        code!(PostgresStore::builder().url(url).connections(8).build()?),
        code!(
            DynamoDbStore::builder()
                .table("idempotency")
                .lean_client(LeanClient::from_env().await?)
                .build()?
        ),
        code!(
            TableConfig::from_variables(&std::env::vars().collect())?
                .connect()
                .await?
        ),
        code!(MemoryStore::new()),
    ] {
        assert!(page.contains(&code), "{code}");
    }
}
