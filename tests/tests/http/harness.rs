//! A process of a function with a table of its own.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::lambda::{FunctionProcess, FunctionSpec, InvokeError, LocalLambda};

use crate::source::{Received, Request, Source};

/// The variable with the role of a process.
pub(crate) const ROLE: &str = "TESTS_ROLE";

/// The functions, each with the sources whose events it takes.
pub(crate) const FUNCTIONS: [(&str, &[Source]); 8] = [
    ("router", &Source::ALL),
    ("service_fn", &Source::ALL),
    ("lambda_http", &Source::ALL),
    ("concurrent", &Source::ALL),
    ("v1", &[Source::ApiGatewayV1]),
    ("v2", &[Source::ApiGatewayV2]),
    ("alb", &[Source::Alb, Source::AlbMultiValue]),
    ("url", &[Source::FunctionUrl]),
];

/// A function of one role with a table of its own.
pub(crate) struct Harness {
    pub(crate) role: &'static str,
    pub(crate) database: EmbeddedDynamoDb,
    pub(crate) lambda: LocalLambda,
    pub(crate) process: FunctionProcess,
}

/// A claim as the table received it.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) id: String,
    pub(crate) lease_ends: u64,
}

impl Harness {
    pub(crate) async fn start(role: &'static str) -> Self {
        Self::start_with(role, &[]).await
    }

    pub(crate) async fn start_with(role: &'static str, variables: &[(&str, &str)]) -> Self {
        let database = EmbeddedDynamoDb::start().await.unwrap();
        let table = TableSpec::new("idempotency");
        database.create_table(table).await.unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["the_function", "--exact", "--nocapture"]);
        let mut function = FunctionSpec::new("shop", command)
            .env(ROLE, role)
            .env("IDEMPOTENCY_TABLE", "idempotency")
            .timeout(Duration::from_secs(900))
            .envs(database.environment())
            .envs(variables.iter().copied());
        if role == "concurrent" {
            function = function.concurrency(4);
        }
        let lambda = LocalLambda::start(function).await.unwrap();
        let process = lambda.start_process().await.unwrap();
        Self {
            role,
            database,
            lambda,
            process,
        }
    }

    /// Sends a request to the process. Returns what the client gets.
    pub(crate) async fn send(&self, source: Source, request: &Request) -> Received {
        match self.try_send(source, request).await {
            Ok(received) => received,
            Err(error) => panic!("{} {source:?} {request:?}: {error}", self.role),
        }
    }

    /// Sends a request to the process. Returns what the client gets, or the error of the function.
    pub(crate) async fn try_send(
        &self,
        source: Source,
        request: &Request,
    ) -> Result<Received, InvokeError> {
        let reply = self.process.invoke(request.event(source)).await?;
        Ok(Received::read(source, &reply.json().unwrap()))
    }

    /// Returns every claim that the table received.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let requests = self.database.requests().into_iter();
        let claims = requests.filter(|request| request.operation == "PutItem");
        claims
            .map(|request| Claim {
                id: request.key("id").unwrap().to_owned(),
                lease_ends: request.body["Item"]["in_progress_expiration"]["N"]
                    .as_str()
                    .unwrap()
                    .parse()
                    .unwrap(),
            })
            .collect()
    }
}

/// Returns the time in milliseconds since the epoch.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}
