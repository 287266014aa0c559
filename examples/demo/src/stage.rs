//! Starts the embedded DynamoDB and the processes of the functions, and sends events. Compares what is observed of each event (its
//! response, its log, its requests to DynamoDB) with `scenes.txt`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use idempotency_core::future::BoxFuture;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Request, TableSpec};
use idempotency_testkit::lambda::{FunctionProcess, FunctionSpec, InvokeError, LocalLambda, Reply};
use serde_json::Value;

use crate::server::Seen;

const TABLE: &str = "idempotency";
/// The header of a replay.
const REPLAYED: &str = "idempotent-replayed";
/// The deadline of an event whose scene does not depend on its deadline.
pub(crate) const LONG_DEADLINE: Duration = Duration::from_secs(30);

/// The database, the functions, the script, and what the scenes have observed so far.
pub(crate) struct Stage {
    pub(crate) db: EmbeddedDynamoDb,
    lambdas: Vec<LocalLambda>,
    script: std::str::Lines<'static>,
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

/// Both processes of a function.
pub(crate) type ProcessPair = [Process; 2];

/// An event that was sent.
pub(crate) struct Event {
    pub(crate) number: usize,
    pub(crate) pending: BoxFuture<'static, Result<Reply, InvokeError>>,
}

/// What was observed of one event.
struct Facts {
    /// The number of times that the handler began.
    runs: usize,
    action: &'static str,
    /// The part of the response that a customer would look for.
    summary: String,
    /// The response without the header of a replay.
    response: Value,
}

/// The requests of one call.
pub(crate) struct Call {
    /// The token of the call. It is in each of its requests.
    owner: String,
    /// The first characters of the key's digest.
    key: String,
    /// The requests in order, such as `Put Update`. One that did not succeed ends with `✗`.
    requests: String,
    /// When the claim's lease ends, in ms since the epoch.
    pub(crate) lease_ends: Option<u64>,
}

/// The type of the error of an event whose process was killed.
const EXITED: &str = "Runtime.ExitError";

type Outcome = Result<Reply, InvokeError>;

impl Stage {
    pub(crate) async fn build() -> Result<Self> {
        let db = EmbeddedDynamoDb::start().await?;
        db.create_table(TableSpec::new(TABLE)).await?;
        Ok(Self {
            db,
            lambdas: Vec::new(),
            script: include_str!("scenes.txt").lines(),
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
    ) -> Result<ProcessPair> {
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
    pub(crate) fn start(&mut self, process: &Process, event: &str, deadline: Duration) -> Event {
        self.events += 1;
        let number = self.events;
        let invocation = process.handle.invoke(event).request_id(number.to_string());
        let pending = invocation.deadline_in(deadline).start();
        Event { number, pending }
    }

    /// Waits until the handler has begun to process an event.
    pub(crate) async fn wait_until_begun(&self, process: &Process, sent: &mut Event) -> Result<()> {
        let line = format!("{} request_id=\"{}\"", process.first_line, sent.number);
        tokio::select! {
            biased;
            line = process.handle.wait_for_line(&line) => drop(line?),
            _ = &mut sent.pending => bail!("event {} ended before its handler began", sent.number),
        }
        Ok(())
    }

    /// Returns the calls since the last event that was shown.
    pub(crate) fn calls(&self) -> Vec<Call> {
        calls(&self.db.requests())
    }

    /// Sends an event, waits for its outcome and shows it.
    pub(crate) async fn send(&mut self, process: &Process, event: &str) -> Result<()> {
        let sent = self.start(process, event, LONG_DEADLINE);
        let outcome = sent.pending.await;
        let calls = self.calls();
        self.show(process, sent.number, outcome, &calls)
    }

    /// Prints the text before the event, clears the requests, and returns what was observed of the event.
    fn observe(&mut self, process: &Process, outcome: Outcome, calls: &[Call]) -> Result<Facts> {
        self.print_text("")?;
        self.db.clear_requests();
        let observed = Facts::new(outcome, calls, process.first_line);
        self.runs.push((process.function, observed.runs));
        Ok(observed)
    }

    /// Shows an event that is not a batch.
    pub(crate) fn show(
        &mut self,
        process: &Process,
        number: usize,
        outcome: Outcome,
        calls: &[Call],
    ) -> Result<()> {
        let seen = self.observe(process, outcome, calls)?;
        let (key, requests) = match calls {
            [] => ("-", "none"),
            [call, ..] => (&*call.key, &*call.requests),
        };
        self.row(
            &format!("{number:>2}"),
            [key, seen.action, requests, &seen.summary],
        )?;
        ensure!(
            seen.runs < 2 && calls.len() < 2,
            "a promise was not kept at event {number}: {} runs, {} calls",
            seen.runs,
            calls.len()
        );
        match seen.action {
            "ran" => drop(self.responses.insert(seen.summary, seen.response)),
            "stored response" | "cached response" => ensure!(
                self.responses.get(&seen.summary) == Some(&seen.response),
                "a promise was not kept at event {number}: it is not the first response"
            ),
            _ => {}
        }
        Ok(())
    }

    /// Shows a request to a server.
    pub(crate) fn show_request(&mut self, seen: &Seen) -> Result<()> {
        self.print_text("")?;
        self.events += 1;
        let runs = usize::from(seen.action.starts_with("ran"));
        self.runs.push(("server", runs));
        let columns = [&*seen.key, seen.action, &*seen.requests, &*seen.response];
        self.row(&format!("{:>2}", self.events), columns)
    }

    /// Sends a batch, waits for its outcome, and shows it with each of its records.
    pub(crate) async fn send_batch(&mut self, process: &Process, event: &str) -> Result<()> {
        let sent = self.start(process, event, LONG_DEADLINE);
        let outcome = sent.pending.await;
        let mut calls = self.calls();
        let seen = self.observe(process, outcome, &calls)?;
        let (number, runs, response) = (sent.number, seen.runs, seen.response);
        self.row(&format!("{number:>2}"), ["", "", "", &seen.summary])?;
        let (mut begun, mut is_returned) = (0, false);
        let returned = response["batchItemFailures"][0]["itemIdentifier"].as_str();
        let event: Value = serde_json::from_str(event)?;
        for record in event["Records"].as_array().into_iter().flatten() {
            let ids = [&record["messageId"], &record["kinesis"]["sequenceNumber"]];
            // Kinesis repeats a shard from the record that is named. In the scenes SQS repeats nothing.
            is_returned |= ids
                .iter()
                .any(|id| returned.is_some() && id.as_str() == returned);
            // The calls of a batch run at the same time: the key in the next line of the script says which one is shown.
            let key: String = self.next_line().chars().skip(35).take(8).collect();
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

    /// Prints the script up to the next event, or up to and including a line with `{}`, which gets the value.
    pub(crate) fn print_text(&mut self, value: &str) -> Result<()> {
        // An event begins with a small letter, and the title of a scene with a capital one.
        while !matches!(
            self.next_line().as_bytes(),
            [_, b'0'..=b'9', b' ', b'a'..=b'z', ..]
        ) {
            let line = self.script.next().context("the script has ended")?;
            println!("{}", line.replace("{}", value));
            if line.contains("{}") {
                break;
            }
        }
        Ok(())
    }

    fn next_line(&self) -> &'static str {
        self.script.clone().next().unwrap_or_default()
    }

    /// Prints a line of an event, or of a record of a batch, and compares it with the script.
    fn row(&mut self, number: &str, [key, action, requests, response]: [&str; 4]) -> Result<()> {
        let sent: String = self.next_line().chars().skip(3).take(31).collect();
        let columns = format!("{key:<8} {action:<15} {requests:<11} {response}");
        let line = format!("{number} {sent:<31} {columns}");
        println!("{line}");
        self.compare(&line, "")
    }

    /// Compares a line with the script, which has `{}` in the place of a value.
    fn compare(&mut self, line: &str, value: &str) -> Result<()> {
        let expected = self.next_line().replace("{}", value);
        self.script.next();
        compare(&expected, line)
    }

    /// Prints the summary. The functions' metrics are written to a file, if one is named.
    pub(crate) fn end(&mut self, metrics: Option<&str>, seconds: &str) -> Result<()> {
        let processes = self.lambdas.iter().flat_map(LocalLambda::processes);
        let lines = processes.flat_map(|process| process.log());
        let lines = lines.map(|line| line.text);
        let lines: Vec<String> = lines.filter(|text| text.contains("\"_aws\"")).collect();
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
        let outcomes = ["Executed", "Failed", "Replayed", "Refused"]
            .map(sum)
            .join(", ");
        let reasons = ["InProgress", "PayloadMismatch"].map(sum).join(", ");
        let all: usize = self.runs.iter().map(|(_, runs)| runs).sum();
        let payments = self.runs.iter().filter(|(name, _)| *name == "payment");
        let (events, charges) = (payments.clone().count(), payments.map(|(_, runs)| runs));
        let charges: usize = charges.sum();
        for line in [
            String::new(),
            format!(
                "Every promise was kept: {} events sent, {all} handler runs, {seconds} s.",
                self.events
            ),
            format!(
                "{charges} of {events} payment events reached the card gateway; without the attribute all of them would."
            ),
            format!("In CloudWatch: {outcomes} ({reasons})."),
        ] {
            self.compare(&line, seconds)?;
            println!("{line}");
        }
        println!("{}", self.next_line());
        Ok(())
    }
}

fn compare(expected: &str, observed: &str) -> Result<()> {
    ensure!(
        expected == observed,
        "a promise was not kept\n  expected  {expected}\n  observed  {observed}"
    );
    Ok(())
}

impl Facts {
    /// Derives what happened from the outcome of an event. The handler logs `first_line` each time it begins.
    fn new(outcome: Outcome, calls: &[Call], first_line: &str) -> Self {
        let log = outcome
            .as_ref()
            .map_or_else(|error| &error.log, |reply| &reply.log);
        let begins = log.iter().filter(|line| line.text.contains(first_line));
        let runs = begins.count();
        let reply = outcome.as_ref().ok();
        let mut response = reply
            .map(|reply| reply.json().unwrap_or_default())
            .unwrap_or_default();
        let is_replay = response["headers"][REPLAYED] == "true";
        for headers in ["headers", "multiValueHeaders"] {
            if let Some(Value::Object(headers)) = response.get_mut(headers) {
                headers.remove(REPLAYED);
            }
        }
        // Over HTTP, a refusal and a failure are responses too.
        let is_error = response["statusCode"].as_u64() >= Some(400);
        let action = match (&outcome, runs) {
            (Ok(_), 0) if is_error && !is_replay => "refused",
            (Ok(_), 0) if calls.is_empty() => "cached response",
            (Ok(_), 0) => "stored response",
            (Ok(_), _) if is_error => "ran, failed",
            (Ok(_), _) if calls.is_empty() => "ran unprotected",
            (Ok(_), _) => "ran",
            (Err(_), 0) => "refused",
            (Err(error), _) if error.error_type == EXITED => "ran, killed",
            (Err(_), _) => "ran, failed",
        };
        let summary = match &outcome {
            Ok(_) => summary(&response),
            Err(error) if error.error_type == EXITED => "none".to_owned(),
            Err(error) => error.error_type.clone(),
        };
        Self {
            runs,
            action,
            summary,
            response,
        }
    }
}

fn summary(response: &Value) -> String {
    if let Some(status) = response["statusCode"].as_u64() {
        let text = response["body"].as_str().unwrap_or_default();
        let body: Value = serde_json::from_str(text).unwrap_or_default();
        let mut fields = ["payment_id", "refund_id", "error"].iter();
        let field = fields.find_map(|field| body[field].as_str());
        // The type of a problem ends with its name.
        let problem = || body["type"].as_str()?.rsplit(':').next();
        return format!("{status} {}", field.or_else(problem).unwrap_or(text));
    }
    match response["batchItemFailures"].as_array().map(Vec::len) {
        Some(0) => "none to repeat".to_owned(),
        Some(failures) => format!("{failures} to repeat"),
        None => response["tracking"]
            .as_str()
            .unwrap_or("unknown form")
            .to_owned(),
    }
}

/// Puts the requests of each call together, in the order of the claims: the calls of a batch run at the same time.
fn calls(requests: &[Request]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for request in requests {
        let mark = if request.status == Some(200) {
            ""
        } else {
            "✗"
        };
        let name = request.operation.replace("Item", "") + mark;
        let body = request.body.to_string();
        if let Some(call) = calls.iter_mut().find(|call| body.contains(&call.owner)) {
            call.requests += &format!(" {name}");
            continue;
        }
        let item = &request.body["Item"];
        let lease_ends = item["in_progress_expiration"]["N"].as_str();
        // The digest follows the key prefix.
        let digest = request.key("id").and_then(|id| id.rsplit('#').next());
        calls.push(Call {
            owner: item["owner"]["S"].as_str().unwrap_or("no owner").to_owned(),
            key: digest.unwrap_or("-").chars().take(8).collect(),
            requests: name,
            lease_ends: lease_ends.and_then(|ms| ms.parse().ok()),
        });
    }
    calls
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
