//! Starts the embedded DynamoDB, the local Lambda and the functions' processes; sends events and collects observations.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Request, TableSpec};
use idempotency_testkit::lambda::{FunctionProcess, LocalLambda, LogLine, Pending};

use crate::expectation::Expectation;
use crate::functions::Role;
use crate::observation::{Action, Observation, TableRequest};
use crate::timeline::Timeline;

const TABLE: &str = "idempotency";

/// Everything that the steps use.
pub(crate) struct Harness {
    pub(crate) timeline: Timeline,
    pub(crate) db: EmbeddedDynamoDb,
    lambdas: Vec<LocalLambda>,
    /// The indexes of the requests to DynamoDB that were counted for an event already.
    accounted: BTreeSet<usize>,
    /// The owner tokens of the events whose handlers have begun.
    owners: Vec<String>,
    step: usize,
    pub(crate) tally: Tally,
}

/// The sums over all steps.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) events: usize,
    pub(crate) runs: usize,
    /// Runs whose process was killed: it wrote no metrics.
    pub(crate) killed: usize,
    pub(crate) charges: usize,
    pub(crate) payments: usize,
}

/// A process of a function.
pub(crate) struct Process {
    pub(crate) role: Role,
    pub(crate) handle: FunctionProcess,
}

/// An event that was sent and has no outcome yet.
pub(crate) struct InFlight {
    pub(crate) number: usize,
    pending: Pending,
    /// The owner token of its claim, once the handler has begun.
    owner: Option<String>,
    role: Role,
}

/// An event with its outcome.
pub(crate) struct Finished {
    pub(crate) number: usize,
    pub(crate) observed: Observation,
}

impl Harness {
    pub(crate) async fn build() -> Result<Self> {
        let db = EmbeddedDynamoDb::start().await?;
        db.create_table(TableSpec::new(TABLE)).await?;
        Ok(Self {
            timeline: Timeline::new(),
            db,
            lambdas: Vec::new(),
            accounted: BTreeSet::new(),
            owners: Vec::new(),
            step: 0,
            tally: Tally::default(),
        })
    }

    /// Starts two processes of a function and waits until they have connected to the table.
    pub(crate) async fn processes(&mut self, role: Role) -> Result<[Process; 2]> {
        let function = role.function()?;
        let function = function
            .env("IDEMPOTENCY_TABLE", TABLE)
            .envs(self.db.environment());
        let lambda = LocalLambda::start(function).await?;
        let first = lambda.start_process().await?;
        let second = lambda.start_process().await?;
        self.lambdas.push(lambda);
        for process in [&first, &second] {
            let ready = process.ready().await;
            ready.with_context(|| format!("the function `{}` did not start", role.name()))?;
        }
        // The requests of a start are not counted for an event.
        self.accounted.extend(0..self.db.requests().len());
        Ok([first, second].map(|handle| Process { role, handle }))
    }

    /// Begins a step.
    pub(crate) fn step(&mut self, title: &str, function: &str) -> Result<()> {
        self.step += 1;
        Ok(self.timeline.step(self.step, title, function)?)
    }

    /// Sends an event and returns at once. Its number is its request id, which the examples put into their responses.
    pub(crate) fn start(
        &mut self,
        process: &Process,
        event: String,
        deadline: Duration,
    ) -> InFlight {
        self.tally.events += 1;
        let number = self.tally.events;
        let invocation = process.handle.invoke(event);
        let invocation = invocation.request_id(number.to_string());
        InFlight {
            number,
            pending: invocation.deadline_in(deadline).start(),
            owner: None,
            role: process.role,
        }
    }

    /// Waits until the handler has begun to process an event.
    pub(crate) async fn wait_until_begun(
        &mut self,
        process: &Process,
        sent: &mut InFlight,
    ) -> Result<()> {
        let line = format!("{} request_id=\"{}\"", sent.role.first_line(), sent.number);
        tokio::select! {
            biased;
            line = process.handle.wait_for_line(&line) => line.map(drop)?,
            outcome = &mut sent.pending => {
                outcome?;
                bail!("event {} ended before its handler began", sent.number);
            }
        }
        let claim = self.unaccounted().pop();
        let owner = claim
            .and_then(|(_, claim)| Some(claim.body["Item"]["owner"]["S"].as_str()?.to_owned()));
        self.owners.extend(owner.clone());
        sent.owner = owner;
        Ok(())
    }

    /// Waits for the outcome of an event that was sent.
    pub(crate) async fn finish(&mut self, sent: InFlight) -> Finished {
        let outcome = sent.pending.await;
        let requests = self.requests_of(sent.owner);
        let observed = Observation::of(outcome, requests, sent.role.first_line());
        self.tally.runs += observed.runs;
        if observed.action == Action::Killed {
            self.tally.killed += observed.runs;
        }
        if matches!(sent.role, Role::Payment) {
            self.tally.payments += 1;
            self.tally.charges += observed.runs;
        }
        Finished {
            number: sent.number,
            observed,
        }
    }

    /// Sends an event and waits for its outcome.
    pub(crate) async fn send(&mut self, process: &Process, event: String) -> Finished {
        let sent = self.start(process, event, Duration::from_secs(30));
        self.finish(sent).await
    }

    /// Prints the observation of an event and compares it with the expectation.
    pub(crate) fn show(
        &self,
        what: &str,
        finished: &Finished,
        expected: &Expectation,
    ) -> Result<()> {
        let number = finished.number.to_string();
        self.timeline.event(&number, what, &finished.observed)?;
        self.check(what, finished, expected)
    }

    /// Compares the observation of an event with the expectation.
    pub(crate) fn check(
        &self,
        what: &str,
        finished: &Finished,
        expected: &Expectation,
    ) -> Result<()> {
        let place = format!("step {}, event {} ({what})", self.step, finished.number);
        Ok(expected.check(&place, &finished.observed)?)
    }

    /// Returns every line that the functions' processes wrote.
    pub(crate) fn log(&self) -> impl Iterator<Item = LogLine> {
        let processes = self.lambdas.iter().flat_map(LocalLambda::processes);
        processes.flat_map(|process| process.log())
    }

    /// Returns the requests of one event, those of each call together. The owner token in each request shows which call sent it.
    fn requests_of(&mut self, owner: Option<String>) -> Vec<TableRequest> {
        let mut requests = self.unaccounted();
        requests.retain(|(_, request)| {
            let body = request.body.to_string();
            match &owner {
                Some(owner) => body.contains(owner),
                None => !self.owners.iter().any(|owner| body.contains(owner)),
            }
        });
        self.owners.retain(|other| Some(other) != owner.as_ref());
        by_call(&mut requests);
        self.accounted
            .extend(requests.iter().map(|(index, _)| *index));
        requests
            .iter()
            .map(|(_, request)| TableRequest::from(request))
            .collect()
    }

    fn unaccounted(&self) -> Vec<(usize, Request)> {
        let requests = self.db.requests().into_iter().enumerate();
        requests
            .filter(|(index, _)| !self.accounted.contains(index))
            .collect()
    }
}

/// Puts the requests of each call together, in the order of the claims: the calls of a batch run at the same time.
fn by_call(requests: &mut [(usize, Request)]) {
    let owner = |request: &Request| {
        request.body["Item"]["owner"]["S"]
            .as_str()
            .map(str::to_owned)
    };
    let owners: Vec<String> = requests
        .iter()
        .filter_map(|(_, request)| owner(request))
        .collect();
    requests.sort_by_cached_key(|(_, request)| {
        let body = request.body.to_string();
        owners.iter().position(|owner| body.contains(owner))
    });
}
