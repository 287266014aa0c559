//! The report to Lambda of a start that failed, so that the invoker gets the reason and not only an exit status.

use std::time::Duration;

use idempotency_core::error::Error;
use lambda_runtime::Diagnostic;
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{PooledClient, build_request};

use crate::BoxError;

/// Time limit of the request to the Runtime API, which listens on the same host.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Reports an error of the init phase to the Runtime API (best effort: the process ends with the error in any case).
pub(crate) async fn report(error: &Error) {
    // The client panics without an address, if Lambda did not start the process.
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some()
        && let Err(failure) = post(error).await
    {
        tracing::debug!("the error could not be reported to the Runtime API: {failure}");
    }
}

/// Sends the request of <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html#runtimes-api-initerror>.
async fn post(error: &Error) -> Result<(), BoxError> {
    let name = error.kind().name();
    let diagnostic = Diagnostic {
        error_type: name.to_owned(),
        error_message: error.to_string(),
    };
    let request = build_request()
        .method("POST")
        .uri("/2018-06-01/runtime/init/error")
        .header("lambda-runtime-function-error-type", name)
        .body(Body::from(serde_json::to_vec(&diagnostic)?))?;
    tokio::time::timeout(TIMEOUT, PooledClient::builder().build().call(request)).await??;
    Ok(())
}
