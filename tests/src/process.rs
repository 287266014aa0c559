//! Functions as real processes under the local Lambda: the test program, started again in a role.
//!
//! A role is the name of a suite, `/`, and which of its functions the process is. The program has one test with the name
//! `the_function`. It looks for a [`role`] and serves events. In the test run it does nothing.

use std::collections::HashMap;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::lambda::{FunctionSpec, InvokeError, LocalLambda, Reply};

use crate::has_sdk_client;

/// The variable with the role of a process.
const ROLE: &str = "TESTS_ROLE";

/// The name of the table.
pub const TABLE: &str = "idempotency";

/// Returns the suite and the function that this process serves, or `None` in the test run.
pub fn role() -> Option<(String, String)> {
    let role = std::env::var(ROLE).ok()?;
    let (suite, function) = role.split_once('/')?;
    Some((suite.to_owned(), function.to_owned()))
}

/// Serves events until the process is ended. An error ends it.
///
/// # Panics
///
/// If there is no runtime.
pub fn serve(threads: usize, function: impl Future<Output = Result<(), BoxError>>) {
    // The test harness may have begun a line.
    println!();
    let mut runtime = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(threads).enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(function),
        Err(error) => panic!("{error}"),
    };
    if let Err(error) = ended {
        eprintln!("Error: {error:?}");
        std::process::exit(1);
    }
}

/// Returns the command that starts this program as a function.
///
/// # Errors
///
/// If the path of this program is not known.
pub fn command() -> Result<Command, BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["the_function", "--exact", "--nocapture"]);
    Ok(command)
}

/// Returns the command that starts this program as a server beside Lambda. Its suite is `server`.
///
/// # Errors
///
/// If the path of this program is not known.
pub fn server() -> Result<Command, BoxError> {
    let mut command = command()?;
    command.env(ROLE, "server/");
    Ok(command)
}

/// Returns the function of a role, without a store. Its name is that of the suite.
///
/// # Errors
///
/// If the path of this program is not known.
pub fn function(role: impl Into<String>) -> Result<FunctionSpec, BoxError> {
    Ok(function_by(command()?, role))
}

/// As [`function`], for a process that is started by this command.
pub fn function_by(command: Command, role: impl Into<String>) -> FunctionSpec {
    let role = role.into();
    let suite = role.split('/').next().unwrap_or(&role).to_owned();
    let function = FunctionSpec::new(suite, command).env(ROLE, role);
    if has_sdk_client() {
        function.env("IDEMPOTENCY_CLIENT", "sdk")
    } else {
        function
    }
}

/// Starts the function of a role with a table of its own.
///
/// # Errors
///
/// If the database or the Lambda does not start.
pub async fn start(role: impl Into<String>) -> Result<(EmbeddedDynamoDb, LocalLambda), BoxError> {
    start_with(role, |function| function).await
}

/// As [`start`], with further settings of the function.
///
/// # Errors
///
/// If the database or the Lambda does not start.
pub async fn start_with(
    role: impl Into<String>,
    settings: impl FnOnce(FunctionSpec) -> FunctionSpec,
) -> Result<(EmbeddedDynamoDb, LocalLambda), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new(TABLE)).await?;
    let function = function(role)?
        .envs(database.environment())
        .env("IDEMPOTENCY_TABLE", TABLE);
    let lambda = LocalLambda::start(settings(function)).await?;
    Ok((database, lambda))
}

/// Returns the name under which Lambda got the error of an invocation, or `a response`.
pub fn error_type(result: Result<Reply, InvokeError>) -> String {
    match result {
        Ok(_) => "a response".to_owned(),
        Err(error) => error.error_type,
    }
}

/// Ends the lease of each claim in the table, so that no test waits for it. No test can change the clock of a process.
///
/// # Errors
///
/// If the table cannot be read or written.
pub async fn end_leases(database: &EmbeddedDynamoDb) -> Result<(), BoxError> {
    let in_progress = |item: &&HashMap<String, AttributeValue>| {
        let status = item.get("status").and_then(|status| status.as_s().ok());
        status.is_some_and(|status| status == "INPROGRESS")
    };
    for item in database.items(TABLE).await?.iter().filter(in_progress) {
        let ended = AttributeValue::N("1".to_owned());
        let update = database.client().update_item().table_name(TABLE);
        update
            .key("id", item["id"].clone())
            .update_expression("SET in_progress_expiration = :ended")
            .expression_attribute_values(":ended", ended)
            .send()
            .await?;
    }
    Ok(())
}

/// A claim as the table received it.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id of the record.
    pub id: String,
    /// In milliseconds since the epoch.
    pub lease_ends: u64,
}

/// Returns every claim that the table received.
pub fn claims(database: &EmbeddedDynamoDb) -> Vec<Claim> {
    let requests = database.requests().into_iter();
    let claims = requests.filter(|request| request.operation == "PutItem");
    let claims = claims.map(|request| {
        let lease_ends = request.body["Item"]["in_progress_expiration"]["N"].as_str();
        let lease_ends = lease_ends.and_then(|text| text.parse().ok());
        Claim {
            id: request.key("id").unwrap_or_default().to_owned(),
            lease_ends: lease_ends.unwrap_or_default(),
        }
    });
    claims.collect()
}

/// Returns the time in milliseconds since the epoch.
pub fn now() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or_default()
}
