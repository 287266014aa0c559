//! The recorded situations, with what Python did in each.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

const SCENARIOS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/vectors/python_scenarios.json"
));

/// An item in DynamoDB's JSON.
pub(crate) type Item = BTreeMap<String, Value>;

/// The table's name in the scenarios.
pub(crate) const TABLE: &str = "TABLE";

#[derive(Deserialize)]
struct File {
    scenarios: Vec<Scenario>,
}

/// One situation.
#[derive(Deserialize)]
pub(crate) struct Scenario {
    pub(crate) id: String,
    pub(crate) mode: Mode,
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) response_hook: Option<Hook>,
    pub(crate) condition_check_returns_item: bool,
    pub(crate) existing_item: Option<Item>,
    pub(crate) steps: Vec<Step>,
    pub(crate) results: Vec<Outcome>,
}

/// The kind of function that was decorated.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Handler,
    Function,
}

/// The settings of the operation. An unknown setting is an error, because the test must not ignore one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) event_key: Option<String>,
    pub(crate) validation: Option<String>,
    #[serde(default)]
    pub(crate) use_local_cache: bool,
    pub(crate) expires_after_seconds: Option<u64>,
}

/// The settings of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) sort_key: Option<String>,
}

/// What the hook does to a replayed response.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hook {
    AddField,
    Wrap,
}

/// One call.
#[derive(Deserialize)]
pub(crate) struct Step {
    pub(crate) event: Value,
    pub(crate) at_ms: i64,
    pub(crate) remaining_ms: Option<i64>,
    pub(crate) inject: Vec<Injection>,
    pub(crate) handler: Handler,
}

/// A fault.
#[derive(Deserialize)]
pub(crate) struct Injection {
    pub(crate) op: String,
    pub(crate) error: String,
    pub(crate) times: Option<usize>,
}

/// What the handler does.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Handler {
    Return(Value),
    Raise(String),
    ReturnStringOfLength(usize),
}

/// What Python did.
#[derive(Deserialize)]
pub(crate) struct Outcome {
    #[serde(default, deserialize_with = "present")]
    pub(crate) returned: Option<Value>,
    pub(crate) error: Option<Exception>,
    pub(crate) function_executions: usize,
    pub(crate) warnings: Vec<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) items_after: Vec<Item>,
}

/// An exception of Python's.
#[derive(Deserialize)]
pub(crate) struct Exception {
    pub(crate) class: String,
}

/// A request.
#[derive(Deserialize)]
pub(crate) struct Call {
    pub(crate) op: String,
    pub(crate) params: Value,
}

/// Distinguishes a `null` from a missing value.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Returns all situations.
pub(crate) fn all() -> Vec<Scenario> {
    serde_json::from_str::<File>(SCENARIOS).unwrap().scenarios
}
