//! Compares the promises with what callers, handlers and the database saw.

use std::collections::{BTreeMap, BTreeSet};

use idempotency_testkit::dynamodb::Request;
use serde_json::Value;

use super::client::{Delivery, DeliveryResult};
use super::function::{KEY_PREFIX, RunStart, micros};
use super::run::History;

/// A promise that did not hold for a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The key.
    pub key: String,
    /// The promise.
    pub promise: Promise,
    /// How many responses, completions or runs break it.
    pub times: usize,
}

/// What the soak promises of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Its callers receive one response.
    OneResponse,
    /// Completions with one response are applied to it.
    OneCompletion,
    /// A response that a caller receives was stored.
    StoredResponses,
    /// A run starts with a claim of its own. The claim was applied during the run's delivery, and its lease has not expired.
    ClaimedRuns,
    /// It gets a response after all leases have expired and the faults have ended.
    NeverStuck,
}

/// Returns each promise that was broken. With `claims`, it also checks that each run has a claim. That needs the owner
/// attribute, which only our records have.
pub fn check(history: &History, claims: bool) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut find = |key: &str, promise, times| {
        let key = key.to_owned();
        broken.push(Broken {
            key,
            promise,
            times,
        });
    };
    for key in &history.stuck {
        find(key, Promise::NeverStuck, 1);
    }
    let stored = stored(&history.requests);
    for (key, given) in given(history) {
        if given.len() > 1 {
            find(key, Promise::OneResponse, given.len());
        }
        let none = BTreeSet::new();
        let stored = stored.get(&id(key)).unwrap_or(&none);
        let lost = given.difference(stored).count();
        if lost > 0 {
            find(key, Promise::StoredResponses, lost);
        }
        if stored.len() > 1 {
            find(key, Promise::OneCompletion, stored.len());
        }
    }
    if claims {
        for (key, runs) in runs_without_claims(history) {
            find(key, Promise::ClaimedRuns, runs);
        }
    }
    broken
}

/// Returns the number of keys with more than one response, in the run and the sweep.
pub(super) fn disagreements(history: &History) -> usize {
    let given = given(history);
    given.values().filter(|given| given.len() > 1).count()
}

fn all(history: &History) -> impl Iterator<Item = &Delivery> {
    history.deliveries.iter().chain(&history.swept)
}

/// Returns the `run` of each response that callers received, by key.
fn given(history: &History) -> BTreeMap<&str, BTreeSet<String>> {
    let mut given: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for delivery in all(history) {
        let of_key = given.entry(&delivery.key).or_default();
        if let DeliveryResult::Response(response) = &delivery.ended {
            // Text that is not a response of the function counts as a different response.
            of_key.insert(run_of(response).unwrap_or_else(|| response.clone()));
        }
    }
    given
}

/// Returns the `run` of each response that was stored, by record id.
fn stored(requests: &[Request]) -> BTreeMap<String, BTreeSet<String>> {
    let mut stored: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for request in requests.iter().filter(|request| applied(request)) {
        let Some(id) = request.key("id") else {
            continue;
        };
        for part in ["ExpressionAttributeValues", "Item"] {
            let values = request.body.get(part).and_then(Value::as_object);
            let values = values.into_iter().flatten();
            let runs = values.filter_map(|(_, value)| run_of(value["S"].as_str()?));
            stored.entry(id.to_owned()).or_default().extend(runs);
        }
    }
    stored
}

fn applied(request: &Request) -> bool {
    request.status == Some(200)
}

fn run_of(response: &str) -> Option<String> {
    let response: Value = serde_json::from_str(response).ok()?;
    Some(response.get("run")?.as_str()?.to_owned())
}

/// Returns the record id of a key.
pub(super) fn id(key: &str) -> String {
    use idempotency_lambda::HashAlgorithm;
    let digest = HashAlgorithm::Md5.hex(&format!("\"{key}\""));
    format!("{KEY_PREFIX}#{digest}")
}

/// A claim that was applied.
struct Claim {
    at_us: u64,
    lease_end_us: u64,
}

/// Returns the keys with runs without a claim of their own, and how many. The claim must have been applied after the delivery and before
/// the run started.
fn runs_without_claims(history: &History) -> Vec<(&str, usize)> {
    let delivered: BTreeMap<&str, &Delivery> = all(history)
        .map(|delivery| (delivery.request_id.as_str(), delivery))
        .collect();
    let mut claims: BTreeMap<&str, BTreeMap<&str, Vec<Claim>>> = BTreeMap::new();
    for request in history.requests.iter().filter(|request| applied(request)) {
        if let Some((id, owner, claim)) = claim(request) {
            let owners = claims.entry(id).or_default();
            owners.entry(owner).or_default().push(claim);
        }
    }
    let mut runs: BTreeMap<&str, Vec<&RunStart>> = BTreeMap::new();
    for run in &history.runs {
        runs.entry(&run.key).or_default().push(run);
    }
    let mut broken = Vec::new();
    for (key, runs) in runs {
        let owners = claims.get(id(key).as_str()).into_iter();
        let owners: Vec<_> = owners.flat_map(BTreeMap::values).collect();
        let fitting = runs.iter().map(|run| {
            let from = delivered[run.request_id.as_str()].began_us;
            let fits = |claim: &Claim| {
                (from..=run.at_us).contains(&claim.at_us) && claim.lease_end_us > run.at_us
            };
            let owns = |owner: &usize| owners[*owner].iter().any(fits);
            (0..owners.len()).filter(owns).collect()
        });
        let fitting: Vec<Vec<usize>> = fitting.collect();
        let without = runs.len() - matched(&fitting, owners.len());
        if without > 0 {
            broken.push((key, without));
        }
    }
    broken
}

fn claim(request: &Request) -> Option<(&str, &str, Claim)> {
    let item = request.body.get("Item")?;
    if item["status"]["S"] != "INPROGRESS" {
        return None;
    }
    let lease_end_ms: u64 = item["in_progress_expiration"]["N"].as_str()?.parse().ok()?;
    let claim = Claim {
        at_us: micros(request.responded_at?),
        lease_end_us: lease_end_ms * 1_000,
    };
    Some((request.key("id")?, item["owner"]["S"].as_str()?, claim))
}

/// Returns how many runs can be matched with a different fitting owner each (bipartite matching).
fn matched(fitting: &[Vec<usize>], owners: usize) -> usize {
    let mut run_of = vec![None; owners];
    (0..fitting.len())
        .filter(|run| assign(*run, fitting, &mut run_of, &mut vec![false; owners]))
        .count()
}

fn assign(
    run: usize,
    fitting: &[Vec<usize>],
    run_of: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for &owner in &fitting[run] {
        if std::mem::replace(&mut tried[owner], true) {
            continue;
        }
        let free = match run_of[owner] {
            None => true,
            Some(other) => assign(other, fitting, run_of, tried),
        };
        if free {
            run_of[owner] = Some(run);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_needs_an_owner_of_its_own() {
        assert_eq!(matched(&[vec![0, 1], vec![0]], 2), 2);
        assert_eq!(matched(&[vec![0], vec![0]], 1), 1);
        assert_eq!(matched(&[vec![]], 1), 0);
    }

    #[test]
    fn ids_are_those_of_the_function() {
        // md5 of `"k0"`, quotes included.
        assert_eq!(id("k0"), "soak#f436f0bdf84b340f4a1f7fd19b988f97");
    }
}
