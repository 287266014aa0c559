//! Where the story is played: DynamoDB, Lambda, the functions' processes, and an eye on all of them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Request, TableSpec};
use idempotency_testkit::lambda::{Environment, LocalLambda, Pending};

use crate::functions::Role;
use crate::promise::Promise;
use crate::seen::{Call, Seen};
use crate::timeline::Timeline;

const TABLE: &str = "idempotency";

/// Everything there is.
pub(crate) struct Stage {
    pub(crate) timeline: Timeline,
    pub(crate) db: EmbeddedDynamoDb,
    lambdas: Vec<LocalLambda>,
    /// Which requests to DynamoDB were laid to an event's account.
    accounted: BTreeSet<usize>,
    /// The claims' owners of the events whose handlers have begun.
    owners: Vec<String>,
    step: usize,
    pub(crate) tally: Tally,
}

/// What the whole run amounts to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) events: usize,
    pub(crate) runs: usize,
    pub(crate) charges: usize,
    pub(crate) payments: usize,
}

/// A process of a function.
pub(crate) struct Process {
    pub(crate) role: Role,
    pub(crate) environment: Environment,
}

/// An event on its way.
pub(crate) struct InFlight {
    pub(crate) number: usize,
    pending: Pending,
    /// Its claim's owner, once the handler has begun.
    owner: Option<String>,
    role: Role,
}

/// An event that was answered, or never will be.
pub(crate) struct Arrived {
    pub(crate) number: usize,
    pub(crate) seen: Seen,
}

impl Stage {
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
        let first = lambda.environment().await?;
        let second = lambda.environment().await?;
        self.lambdas.push(lambda);
        for environment in [&first, &second] {
            let ready = environment.ready().await;
            ready.with_context(|| format!("the function `{}` did not start", role.name()))?;
        }
        // What a start costs is not the cost of an event.
        self.accounted.extend(0..self.db.requests().len());
        Ok([first, second].map(|environment| Process { role, environment }))
    }

    /// Begins a step.
    pub(crate) fn step(&mut self, title: &str, function: &str) -> Result<()> {
        self.step += 1;
        Ok(self.timeline.step(self.step, title, function)?)
    }

    /// Sends an event and goes on. Its number is its request id, which the examples put into their answers.
    pub(crate) fn start(
        &mut self,
        process: &Process,
        event: String,
        deadline: Duration,
    ) -> InFlight {
        self.tally.events += 1;
        let number = self.tally.events;
        let invocation = process.environment.invoke(event);
        let invocation = invocation.request_id(number.to_string());
        InFlight {
            number,
            pending: invocation.deadline_in(deadline).start(),
            owner: None,
            role: process.role,
        }
    }

    /// Waits until the handler has begun with an event.
    pub(crate) async fn begun(&mut self, process: &Process, sent: &mut InFlight) -> Result<()> {
        let line = format!("{} request_id=\"{}\"", sent.role.first_line(), sent.number);
        tokio::select! {
            biased;
            line = process.environment.wait_for_line(&line) => line.map(drop)?,
            outcome = &mut sent.pending => {
                outcome?;
                bail!("event {} was answered before its handler began", sent.number);
            }
        }
        let claim = self.unaccounted().pop();
        let owner = claim
            .and_then(|(_, claim)| Some(claim.body["Item"]["owner"]["S"].as_str()?.to_owned()));
        self.owners.extend(owner.clone());
        sent.owner = owner;
        Ok(())
    }

    /// Waits for the end of an event that was sent.
    pub(crate) async fn finish(&mut self, sent: InFlight) -> Arrived {
        let outcome = sent.pending.await;
        let calls = self.calls_of(sent.owner);
        let seen = Seen::read(outcome, calls, sent.role.first_line());
        self.tally.runs += seen.runs;
        if matches!(sent.role, Role::Payment) {
            self.tally.payments += 1;
            self.tally.charges += seen.runs;
        }
        Arrived {
            number: sent.number,
            seen,
        }
    }

    /// Sends an event and waits for its end.
    pub(crate) async fn send(&mut self, process: &Process, event: String) -> Arrived {
        let sent = self.start(process, event, Duration::from_secs(30));
        self.finish(sent).await
    }

    /// Prints what became of an event and holds it against the promise.
    pub(crate) fn show(&self, what: &str, arrived: &Arrived, promise: &Promise) -> Result<()> {
        let number = arrived.number.to_string();
        self.timeline.event(&number, what, &arrived.seen)?;
        self.check(what, arrived, promise)
    }

    /// Holds what became of an event against the promise.
    pub(crate) fn check(&self, what: &str, arrived: &Arrived, promise: &Promise) -> Result<()> {
        let place = format!("step {}, event {} ({what})", self.step, arrived.number);
        Ok(promise.check(&place, &arrived.seen)?)
    }

    /// The requests of one event, told apart from those of another in flight by the owner's token in them.
    fn calls_of(&mut self, owner: Option<String>) -> Vec<Call> {
        let mut requests = self.unaccounted();
        requests.retain(|(_, request)| {
            let body = request.body.to_string();
            match &owner {
                Some(owner) => body.contains(owner),
                None => !self.owners.iter().any(|owner| body.contains(owner)),
            }
        });
        self.owners.retain(|other| Some(other) != owner.as_ref());
        self.accounted
            .extend(requests.iter().map(|(index, _)| *index));
        requests
            .iter()
            .map(|(_, request)| Call::from(request))
            .collect()
    }

    fn unaccounted(&self) -> Vec<(usize, Request)> {
        let requests = self.db.requests().into_iter().enumerate();
        requests
            .filter(|(index, _)| !self.accounted.contains(index))
            .collect()
    }
}
