//! What a function did with an event, seen from outside: its response, its log and the requests to DynamoDB.

use idempotency_testkit::dynamodb::Request;
use idempotency_testkit::lambda::{InvokeError, Reply};
use serde_json::Value;

/// The header of a replay.
const REPLAYED: &str = "idempotent-replayed";

/// What was observed of one event.
pub(crate) struct Observed {
    pub(crate) number: usize,
    /// The number of times that the handler began.
    pub(crate) runs: usize,
    pub(crate) action: &'static str,
    /// The part of the response that a customer would look for.
    pub(crate) summary: String,
    /// The response without the header of a replay.
    pub(crate) response: Value,
    pub(crate) calls: Vec<Call>,
}

impl Observed {
    /// Derives what happened from the outcome of an event. The handler logs `first_line` each time it begins.
    pub(crate) fn new(
        number: usize,
        outcome: Result<Reply, InvokeError>,
        calls: Vec<Call>,
        first_line: &str,
    ) -> Self {
        let log = outcome
            .as_ref()
            .map_or_else(InvokeError::log, |reply| &reply.log);
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
            (Err(InvokeError::Function { .. }), _) => "ran, failed",
            (Err(_), _) => "ran, killed",
        };
        let summary = match &outcome {
            Ok(_) => summary(&response),
            Err(InvokeError::Exited { .. }) => "none".to_owned(),
            Err(error) => error.error_type().to_owned(),
        };
        Self {
            number,
            runs,
            action,
            summary,
            response,
            calls,
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

/// The requests of one call.
pub(crate) struct Call {
    /// The token of the call. It is in each of its requests.
    pub(crate) owner: String,
    /// The first characters of the key's digest.
    pub(crate) key: String,
    /// The requests in order, such as `Put Update`. A write whose condition failed is marked.
    pub(crate) requests: String,
    /// When the claim's lease ends, in ms since the epoch.
    pub(crate) lease_ends: Option<u64>,
}

/// Puts the requests of each call together, in the order of the claims: the calls of a batch run at the same time.
pub(crate) fn calls(requests: &[Request]) -> Vec<Call> {
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
