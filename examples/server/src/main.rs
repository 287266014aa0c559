//! Starts the server at the address in `LISTEN`, and ends it at a SIGTERM or Ctrl-C. Records are in the server that `VALKEY_URL` names,
//! otherwise in memory: then a second server does not know them.

use std::net::SocketAddr;
use std::process::ExitCode;

use axum::BoxError;
use idempotency_http::{MemoryStore, backend};
use idempotency_valkey::ValkeyStore;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    let logs = tracing_subscriber::fmt().with_ansi(false);
    logs.with_writer(std::io::stderr).init();
    match start().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the server, and serves until the process should end.
async fn start() -> Result<(), BoxError> {
    let backend = match std::env::var("VALKEY_URL") {
        Ok(url) => backend(ValkeyStore::builder(url).build()?),
        Err(_) => backend(MemoryStore::new()),
    };
    // A server without its store does not start.
    backend.warm_up().await?;
    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    explain(listener.local_addr()?, &backend.store().name());
    server::serve(listener, backend, server::stop_signal()).await
}

/// Prints what to try.
fn explain(address: SocketAddr, store: &str) {
    println!(
        r#"Listening on {address}, with records in {store}. In another terminal:

pay() {{
    curl -i {address}/payments -H "Idempotency-Key: $1" -H 'Authorization: Bearer token-of-ann' \
        -H "Gateway-Seconds: ${{3:-0}}" --json '{{"order_id":"o-1","amount":'$2'}}'
}}
pay key-1 4200        # 201
pay key-1 4200        # the same, with idempotent-replayed
pay key-1 9900        # 422
pay key-2 4200 60 &   # takes longer than a lease
pay key-2 4200        # 409 with retry-after
kill %1               # the client goes away, and the handler runs on
pay key-2 4200        # a minute later: its response

Ctrl-C ends the server when its requests have ended.
"#
    );
}
