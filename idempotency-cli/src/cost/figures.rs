//! The figures of the tables as one JSON object, for programs.

use idempotency_core::key::Json;
use idempotency_core::protocol::policy::Lookup;

use super::capacity::{Path, Prices, RecordSize};
use super::{CALLS, LOOKUPS, lookup_name};
use crate::json::{object, text};

/// Returns the figures of these sizes of responses. `duplicates` are shares in percent.
pub(super) fn figures(
    responses: &[usize],
    lookup: Lookup,
    duplicates: &[f64],
    prices: Option<Prices>,
) -> Json {
    let responses = responses.iter().map(|bytes| {
        let size = RecordSize::of_response(*bytes);
        let paths = Path::ALL.into_iter();
        let paths = paths.map(|path| of_path(path, lookup, size, prices));
        let shares = prices.map(|prices| {
            let averages = duplicates
                .iter()
                .flat_map(|percent| LOOKUPS.map(|lookup| of_share(*percent, lookup, size, prices)));
            Json::Array(averages.collect())
        });
        let pays_above = prices.map(|prices| match prices.read_first_pays_above(size) {
            Some(share) => Json::Float((share * 100.0).into()),
            None => Json::Null,
        });
        object([
            ("bytes", Some(count(*bytes))),
            ("paths", Some(Json::Array(paths.collect()))),
            ("duplicates", shares),
            ("read_first_pays_above_percent", pays_above),
        ])
    });
    object([
        ("lookup", Some(text(lookup_name(lookup)))),
        (
            "money_is_for_calls",
            prices.map(|_| Json::Float(CALLS.into())),
        ),
        ("responses", Some(Json::Array(responses.collect()))),
    ])
}

fn of_path(path: Path, lookup: Lookup, size: RecordSize, prices: Option<Prices>) -> Json {
    let capacity = path.capacity(lookup, size);
    let requests = path.requests(lookup).into_iter().map(request);
    let money = prices.map(|prices| Json::Float((CALLS * prices.of(capacity)).into()));
    object([
        ("path", Some(text(name(path)))),
        ("requests", Some(Json::Array(requests.collect()))),
        ("write_units", Some(Json::Float(capacity.write.into()))),
        ("read_units", Some(Json::Float(capacity.read.into()))),
        ("money", money),
    ])
}

/// Returns a request of [`Path::requests`]. `!` marks one that is refused.
fn request(request: &str) -> Json {
    let refused = request.strip_suffix('!');
    object([
        ("action", Some(text(refused.unwrap_or(request)))),
        ("refused", Some(Json::Bool(refused.is_some()))),
    ])
}

fn of_share(percent: f64, lookup: Lookup, size: RecordSize, prices: Prices) -> Json {
    let money = CALLS * prices.average(lookup, size, percent / 100.0);
    object([
        ("percent", Some(Json::Float(percent.into()))),
        ("lookup", Some(text(lookup_name(lookup)))),
        ("money", Some(Json::Float(money.into()))),
    ])
}

/// Returns the name of a path, which stays the same in every release.
fn name(path: Path) -> &'static str {
    match path {
        Path::FirstRun => "first_run",
        Path::Duplicate => "duplicate",
        Path::InProgress => "in_progress",
        Path::Waited => "waited",
        Path::Released => "released",
        Path::Recorded => "recorded",
        Path::WarmUp => "warm_up",
    }
}

fn count(count: usize) -> Json {
    crate::json::number(i64::try_from(count).unwrap_or(i64::MAX))
}
