use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error as StdError;
use std::io;

/// Why the embedded DynamoDB could not do what the test asked for.
///
/// ```no_run
/// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_testkit::dynamodb::Error;
/// let refused = db.items("payments").await;
/// assert!(matches!(refused, Err(Error::Refused { operation: "Scan", .. })), "there is no such table");
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No port or no thread could be had.
    #[error("the embedded DynamoDB could not start: check the limits on open files and threads")]
    Start(#[source] io::Error),

    /// The port asked for could not be had.
    #[error(
        "the embedded DynamoDB could not listen on port {port}: choose another, or 0 for an unused one"
    )]
    #[non_exhaustive]
    Port {
        /// The port; 0 stood for any.
        port: u16,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },

    /// The database itself did not open.
    #[error("the embedded database could not be opened: {0}")]
    Open(String),

    /// The database refused a helper's request.
    #[error(
        "{operation} on table `{table}` failed: {reason}; create the table first, once, and give every key attribute"
    )]
    #[non_exhaustive]
    Refused {
        /// The API operation.
        operation: &'static str,
        /// The table.
        table: String,
        /// What the database said.
        reason: String,
    },

    /// The server's thread is gone.
    #[error("the embedded DynamoDB has stopped: keep it alive for as long as it is used")]
    Stopped,
}

impl Error {
    pub(super) fn refused<E>(operation: &'static str, table: &str, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        // Code and message alone: the SDK's full context would print the raw reply, and with it the item.
        let reason = match &error {
            SdkError::ServiceError(context) => {
                let code = context.err().code().unwrap_or("unknown error");
                let message = context.err().message().unwrap_or("no message");
                format!("{code}: {message}")
            }
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => {
                "the database did not answer".to_owned()
            }
            SdkError::ConstructionFailure(_) => "the request could not be built".to_owned(),
            _ => "the database's answer could not be read".to_owned(),
        };
        Self::Refused {
            operation,
            table: table.to_owned(),
            reason,
        }
    }
}
