//! The server of `examples/server`, in a process that is killed.

use idempotency_http::backend;
use idempotency_lambda::BoxError;
use idempotency_tests::process;
use idempotency_tests::server::{self, ServerProcess};
use idempotency_tests::valkey::Server;
use idempotency_valkey::ValkeyStore;

use super::store;

/// The variable with the URL of the records.
pub(super) const URL: &str = "VALKEY_URL";

/// Serves, if the test has started this process.
pub(super) fn serve() {
    let Ok(url) = std::env::var(URL) else { return };
    process::serve(2, async move {
        let backend = backend(ValkeyStore::builder(url).build()?);
        backend.warm_up().await?;
        server::serve(backend).await
    });
}

#[tokio::test]
async fn after_a_kill_a_client_gets_a_response_within_one_and_a_half_leases() -> Result<(), BoxError>
{
    let records = Server::start(&[])?;
    let server = ServerProcess::start([(URL.to_owned(), records.url())]).await?;
    server.is_killed_in_a_payment(store(&records.url())).await
}

#[tokio::test]
async fn after_a_freeze_a_client_gets_the_response_of_the_server_that_took_over()
-> Result<(), BoxError> {
    let records = Server::start(&[])?;
    let server = ServerProcess::start([(URL.to_owned(), records.url())]).await?;
    let records = store(&records.url());
    server.stands_still_in_a_payment(records).await
}
