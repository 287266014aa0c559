//! The init phase of the process: when it ends, and the report of an error in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use idempotency_core::error::Error;
use lambda_runtime::Diagnostic;
use lambda_runtime_api_client::{PooledClient, build_request};
use tokio::runtime::Builder;

use crate::diagnostic::BoxError;

/// Time limit of the request to the Runtime API, which listens on the same host.
const TIMEOUT: Duration = Duration::from_secs(1);

/// True if the first invocation has come, or an error of the start was reported. A later error does not belong to the init phase.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Ends the init phase: an invocation is known.
pub(crate) fn end() {
    if !HAS_ENDED.load(Ordering::Relaxed) {
        HAS_ENDED.store(true, Ordering::Relaxed);
    }
}

/// Reports an error to the Runtime API, if the process is in Lambda's init phase, and returns it.
///
/// `main` then returns the error, and Lambda ends the process. The report waits for its reply, 1 s at most, because nothing can be sent
/// after the return of `main`. It is best effort, and it is made on a thread of its own, because the caller may be inside a runtime or not.
pub(crate) fn reported(error: Error) -> Error {
    // The client panics without an address, if Lambda did not start the process.
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none()
        || HAS_ENDED.swap(true, Ordering::Relaxed)
    {
        return error;
    }
    let sent = thread::scope(|scope| {
        let send = || -> Result<(), BoxError> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(post(&error))
        };
        scope.spawn(send).join()
    });
    match sent {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => {
            tracing::debug!("the error could not be reported to the Runtime API: {failure}");
        }
        Err(_) => tracing::debug!("the report to the Runtime API panicked"),
    }
    error
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
        .body(lambda_runtime_api_client::body::Body::from(
            serde_json::to_vec(&diagnostic)?,
        ))?;
    tokio::time::timeout(TIMEOUT, PooledClient::builder().build().call(request)).await??;
    Ok(())
}
