//! Starts the embedded DynamoDB and the functions' processes, sends events, and compares what each did with `steps.txt`.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::lambda::{FunctionProcess, FunctionSpec, LocalLambda, Pending};
use serde_json::Value;

use crate::observed::{Observed, calls};

const TABLE: &str = "idempotency";
/// The deadline of the events that need none.
pub(crate) const LONG: Duration = Duration::from_secs(30);
const PLAIN: &str = "";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";

/// Everything that the steps use.
pub(crate) struct Stage {
    pub(crate) db: EmbeddedDynamoDb,
    lambdas: Vec<LocalLambda>,
    script: std::str::Lines<'static>,
    /// The owner token of the call that is in progress while another event is sent.
    in_progress: Option<String>,
    /// The first response with each summary. A replay has the same bytes.
    responses: HashMap<String, Value>,
    events: usize,
    /// The function of each event with an outcome, and the runs of its handler.
    runs: Vec<(&'static str, usize)>,
}

/// A process of a function. Its handler logs the line each time it begins.
pub(crate) struct Process {
    pub(crate) handle: FunctionProcess,
    function: &'static str,
    first_line: &'static str,
}

/// An event that was sent and has no outcome yet.
pub(crate) struct InFlight<'a> {
    number: usize,
    process: &'a Process,
    pending: Pending,
    /// The owner token of its claim, if its handler has begun.
    owner: Option<String>,
}

impl Stage {
    pub(crate) async fn build() -> Result<Self> {
        let db = EmbeddedDynamoDb::start().await?;
        db.create_table(TableSpec::new(TABLE)).await?;
        Ok(Self {
            db,
            lambdas: Vec::new(),
            script: include_str!("steps.txt").lines(),
            in_progress: None,
            responses: HashMap::new(),
            events: 0,
            runs: Vec::new(),
        })
    }

    /// Starts two processes of a function and waits until they have connected to the table.
    pub(crate) async fn processes(
        &mut self,
        function: &'static str,
        first_line: &'static str,
    ) -> Result<[Process; 2]> {
        // The link survives a rebuild during the run; the path does not.
        let link = Path::new("/proc/self/exe");
        let program = match link.exists() {
            true => link.to_owned(),
            false => std::env::current_exe().context("this program's path was not found")?,
        };
        let spec = FunctionSpec::new(function, Command::new(program))
            .env(crate::FUNCTION, function)
            .env("IDEMPOTENCY_TABLE", TABLE)
            .envs(self.db.environment());
        let lambda = LocalLambda::start(spec).await?;
        let handles = [lambda.start_process().await?, lambda.start_process().await?];
        self.lambdas.push(lambda);
        for handle in &handles {
            let ready = handle.ready().await;
            ready.with_context(|| format!("the function `{function}` did not start"))?;
        }
        // The requests of a start are not counted for an event.
        self.db.clear_requests();
        Ok(handles.map(|handle| Process {
            handle,
            function,
            first_line,
        }))
    }

    /// Sends an event. Its number is its request id, which the examples put into their responses.
    pub(crate) fn start<'a>(
        &mut self,
        process: &'a Process,
        event: &str,
        deadline: Duration,
    ) -> InFlight<'a> {
        self.events += 1;
        let number = self.events;
        let invocation = process.handle.invoke(event).request_id(number.to_string());
        let pending = invocation.deadline_in(deadline).start();
        InFlight {
            number,
            process,
            pending,
            owner: None,
        }
    }

    /// Waits until the handler has begun to process an event.
    pub(crate) async fn wait_until_begun(&mut self, sent: &mut InFlight<'_>) -> Result<()> {
        let Process {
            handle, first_line, ..
        } = sent.process;
        let line = format!("{first_line} request_id=\"{}\"", sent.number);
        tokio::select! {
            biased;
            line = handle.wait_for_line(&line) => drop(line?),
            outcome = &mut sent.pending => {
                outcome?;
                bail!("event {} ended before its handler began", sent.number);
            }
        }
        sent.owner = calls(&self.db.requests()).pop().map(|claim| claim.owner);
        self.in_progress = sent.owner.clone();
        Ok(())
    }

    /// Waits for the outcome of an event.
    pub(crate) async fn finish(&mut self, sent: InFlight<'_>) -> Observed {
        let outcome = sent.pending.await;
        let mut calls = calls(&self.db.requests());
        if let Some(owner) = sent.owner {
            calls.retain(|call| call.owner == owner);
            self.in_progress = None;
        }
        calls.retain(|call| Some(&call.owner) != self.in_progress.as_ref());
        if self.in_progress.is_none() {
            self.db.clear_requests();
        }
        let observed = Observed::new(sent.number, outcome, calls, sent.process.first_line);
        self.runs.push((sent.process.function, observed.runs));
        observed
    }

    /// Sends an event, waits for its outcome and shows it.
    pub(crate) async fn send(&mut self, process: &Process, event: &str) -> Result<()> {
        let sent = self.start(process, event, LONG);
        let observed = self.finish(sent).await;
        self.show(&observed)
    }

    /// Shows an event that is not a batch.
    pub(crate) fn show(&mut self, observed: &Observed) -> Result<()> {
        self.text("")?;
        let Observed {
            number,
            runs,
            action,
            summary,
            response,
            calls,
        } = observed;
        let key = calls.first().map_or("-", |call| &call.key);
        let requests: Vec<&str> = calls.iter().map(|call| &*call.requests).collect();
        let requests = if calls.is_empty() {
            "none"
        } else {
            &requests.join(" ")
        };
        self.row(&format!("{number:>2}"), [key, action, requests, summary])?;
        ensure!(
            *runs < 2,
            "a promise was not kept at event {number}: {runs} runs"
        );
        match *action {
            "ran" => drop(self.responses.insert(summary.clone(), response.clone())),
            "stored response" | "cached response" => ensure!(
                self.responses.get(summary) == Some(response),
                "a promise was not kept at event {number}: it is not the first response"
            ),
            _ => {}
        }
        Ok(())
    }

    /// Sends a batch, waits for its outcome, and shows it with each of its records.
    pub(crate) async fn send_batch(&mut self, process: &Process, event: &str) -> Result<()> {
        let sent = self.start(process, event, LONG);
        let Observed {
            number,
            runs,
            summary,
            response,
            mut calls,
            ..
        } = self.finish(sent).await;
        self.text("")?;
        self.row(&format!("{number:>2}"), ["", "", "", &summary])?;
        let (mut begun, mut is_returned) = (0, false);
        let returned = response["batchItemFailures"][0]["itemIdentifier"].as_str();
        let event: Value = serde_json::from_str(event)?;
        for record in event["Records"].as_array().into_iter().flatten() {
            let ids = [&record["messageId"], &record["kinesis"]["sequenceNumber"]];
            // A shard is repeated from the record that is named.
            is_returned |= ids
                .iter()
                .any(|id| returned.is_some() && id.as_str() == returned);
            let key: String = self.expected().chars().skip(35).take(8).collect();
            let of_key = calls.iter().position(|call| call.key == key);
            let call = of_key.map(|at| calls.remove(at));
            let requests = call.as_ref().map_or("none", |call| &call.requests);
            let action = match requests {
                "Put✗" => "stored response",
                "Put Delete" => "ran, failed",
                "none" if is_returned => "not started",
                "none" => "same batch",
                _ => "ran",
            };
            begun += usize::from(action.starts_with("ran"));
            let response = match action {
                _ if is_returned => "to repeat",
                "ran" => "done",
                _ => "done before",
            };
            let key = call.as_ref().map_or("-", |call| &call.key);
            self.row("  ", [key, action, requests, response])?;
        }
        ensure!(
            calls.is_empty() && runs == begun,
            "a promise was not kept at event {number}: {runs} runs, {} more calls",
            calls.len()
        );
        Ok(())
    }

    /// Prints the script up to the next event, with a value in the place of `{}`.
    pub(crate) fn text(&mut self, value: &str) -> Result<()> {
        while !matches!(self.expected().as_bytes(), [_, b'0'..=b'9', ..]) {
            let line = self.script.next().context("the script has ended")?;
            let colour = match line.as_bytes() {
                [b' ', ..] => DIM,
                [b'0'..=b'9', ..] => BOLD,
                _ => PLAIN,
            };
            print(colour, &line.replace("{}", value))?;
            if line.contains("{}") {
                break;
            }
        }
        Ok(())
    }

    fn expected(&self) -> &'static str {
        self.script.clone().next().unwrap_or_default()
    }

    /// Prints a line of an event, or of a record of a batch, and compares it with the script.
    fn row(&mut self, number: &str, [key, action, requests, response]: [&str; 4]) -> Result<()> {
        let sent: String = self.expected().chars().skip(3).take(31).collect();
        let colour = match action {
            "ran" => "\x1b[32m",
            "stored response" | "cached response" | "same batch" => "\x1b[36m",
            "refused" | "not started" => "\x1b[33m",
            "" => PLAIN,
            _ => "\x1b[31m",
        };
        let columns = format!("{key:<8} {action:<15} {requests:<11} {response}");
        let line = format!("{number} {sent:<31} {columns}");
        print(colour, &line)?;
        self.compare(&line, "")
    }

    /// Compares a line with the script, which has `{}` in the place of a value.
    fn compare(&mut self, line: &str, value: &str) -> Result<()> {
        let expected = self.expected().replace("{}", value);
        self.script.next();
        compare(&expected, line)
    }

    /// Prints the summary. The functions' metrics are written to a file, if one is named.
    pub(crate) fn end(&mut self, metrics: Option<&str>, seconds: &str) -> Result<()> {
        let processes = self.lambdas.iter().flat_map(LocalLambda::processes);
        let log = processes.flat_map(|process| process.log());
        let lines = log
            .map(|line| line.text)
            .filter(|text| text.contains("\"_aws\""));
        let lines: Vec<String> = lines.collect();
        if let Some(file) = metrics {
            let written = std::fs::write(file, lines.join("\n") + "\n");
            written.with_context(|| format!("{file} was not written"))?;
        }
        let values = lines.iter().map(|line| serde_json::from_str(line));
        let values: Vec<Value> = values.collect::<Result<_, _>>()?;
        let sum = |name: &str| {
            let counts = values.iter().filter_map(|values| values[name].as_u64());
            format!("{name} {}", counts.sum::<u64>())
        };
        let names = ["Executed", "Failed", "Replayed", "Refused"]
            .map(sum)
            .join(", ");
        let reasons = ["InProgress", "PayloadMismatch"].map(sum).join(", ");
        let payments = self
            .runs
            .iter()
            .filter(|(function, _)| *function == "payment");
        let (events, charges) = payments.fold((0, 0), |(events, charges), (_, runs)| {
            (events + 1, charges + runs)
        });
        let all: usize = self.runs.iter().map(|(_, runs)| runs).sum();
        let kept = format!(
            "{} events sent, {all} handler runs, {seconds} s.",
            self.events
        );
        let card = format!("{charges} of {events} payment events reached the card gateway");
        let lines = [
            (PLAIN, String::new()),
            (BOLD, format!("Every promise was kept: {kept}")),
            (PLAIN, card + "; without the attribute all of them would."),
            (PLAIN, format!("In CloudWatch: {names} ({reasons}).")),
        ];
        for (_, line) in &lines {
            self.compare(line, seconds)?;
        }
        for (colour, line) in &lines {
            print(colour, line)?;
        }
        print(PLAIN, self.expected())
    }
}

/// Prints a line, with colours on a terminal.
fn print(colour: &str, line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if colour == PLAIN || unwanted || !out.is_terminal() {
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{colour}{line}\x1b[0m")?;
    }
    Ok(out.flush()?)
}

fn compare(expected: &str, observed: &str) -> Result<()> {
    ensure!(
        expected == observed,
        "a promise was not kept\n  expected  {expected}\n  observed  {observed}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_that_is_not_in_the_script_is_an_error_that_shows_both() {
        super::compare(" 4 ran  201 pay-1", " 4 ran  201 pay-1").unwrap();
        let error = super::compare(" 4 refused", " 4 ran  201 pay-4").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("expected   4 refused\n")
                && error.contains("observed   4 ran  201 pay-4"),
            "{error}"
        );
    }
}
