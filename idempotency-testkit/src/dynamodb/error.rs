//! Errors of the embedded DynamoDB.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error as StdError;
use std::io;

/// Why the embedded DynamoDB could not do what the test asked for.
///
/// # Examples
///
/// ```no_run
/// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_testkit::dynamodb::DatabaseError;
/// let refused = db.items("payments").await;
/// assert!(matches!(refused, Err(DatabaseError::Refused { operation: "Scan", .. })), "no such table");
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// No thread or port is available.
    #[error("the embedded DynamoDB could not start: check the limits on open files and threads")]
    Start(#[source] io::Error),

    /// The requested port is not available.
    #[error(
        "the embedded DynamoDB could not listen on port {port}: choose another one, or 0 for an unused one"
    )]
    #[non_exhaustive]
    Port {
        /// The requested port; 0 means any.
        port: u16,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// The database did not open.
    #[error("the embedded database could not be opened: {0}")]
    Open(String),

    /// The database rejected the request of a helper.
    #[error(
        "{operation} on table `{table}` failed: {reason}; create the table first, and set every key attribute"
    )]
    #[non_exhaustive]
    Refused {
        /// The API operation.
        operation: &'static str,
        /// The table.
        table: String,
        /// The code and message of the database.
        reason: String,
    },

    /// The thread of the server has ended.
    #[error("the embedded DynamoDB has stopped: keep the value alive while it is used")]
    Stopped,
}

impl DatabaseError {
    /// Classifies an error of the SDK.
    pub(super) fn refused<E>(operation: &'static str, table: &str, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        // Code and message only: the SDK's full context would print the raw response, which contains the item.
        let reason = match &error {
            SdkError::ServiceError(context) => {
                let code = context.err().code().unwrap_or("unknown error");
                let message = context.err().message().unwrap_or("no message");
                format!("{code}: {message}")
            }
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => {
                "the database did not respond".to_owned()
            }
            SdkError::ConstructionFailure(_) => "the request could not be built".to_owned(),
            _ => "the response of the database could not be read".to_owned(),
        };
        Self::Refused {
            operation,
            table: table.to_owned(),
            reason,
        }
    }
}
