//! The history of each key: what callers, handlers and the database saw.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::{
    self, Basis, Bond, Broken, CallNumber, Given, HistoryEvent, Promise, Promises, Refused,
    Reported, Terms, What,
};
use serde_json::Value;

use super::client::{Delivery, DeliveryResult};
use super::database::{Applied, Claim};
use super::function::{KEY_PREFIX, RunStart};
use super::run::Played;

/// Returns each promise that was broken, with its key. With `claims`, it also checks that each run has a claim. That needs the owner
/// attribute, which only our records have.
pub fn check(played: &Played, claims: bool) -> Vec<(String, Broken)> {
    let promises = Promises::all()
        .without(Promise::SecondRunUnderHold, true)
        .without(Promise::StepTwiceUnderHold, true)
        .without(Promise::RunWithoutClaim, !claims);
    broken(played, promises)
}

/// Returns the number of keys with more than one response, in the run and the sweep.
pub(super) fn disagreements(played: &Played) -> usize {
    broken(played, Promises::none().with(Promise::OneResponse)).len()
}

fn broken(played: &Played, promises: Promises) -> Vec<(String, Broken)> {
    let mut keys: BTreeMap<&String, Key<'_>> = BTreeMap::new();
    for delivery in played.deliveries.iter().chain(&played.swept) {
        let key = keys.entry(&delivery.key).or_default();
        key.deliveries.push(delivery);
    }
    for run in &played.runs {
        if let Some(key) = keys.get_mut(&run.key) {
            key.runs.push(run);
        }
    }
    let mut writes: BTreeMap<&str, Vec<&Applied>> = BTreeMap::new();
    for write in &played.writes {
        writes.entry(&write.id).or_default().push(write);
    }
    for transfer in &played.transfers {
        if let Some(key) = keys.get_mut(&transfer.key) {
            key.transfers.push(&transfer.run);
        }
    }
    let broken = keys.into_iter().flat_map(|(name, mut key)| {
        let said = key.runs.iter().find_map(|run| run.id.clone());
        let id = said.unwrap_or_else(|| id(name));
        key.writes = writes.remove(id.as_str()).unwrap_or_default();
        key.is_stuck = played.stuck.contains(name);
        key.frozen = &played.frozen;
        let broken = history::check(&key.events(), promises).into_iter();
        broken.map(|broken| (name.clone(), broken))
    });
    broken.collect()
}

/// What was seen of a key.
#[derive(Default)]
struct Key<'a> {
    deliveries: Vec<&'a Delivery>,
    runs: Vec<&'a RunStart>,
    /// The writes that were applied.
    writes: Vec<&'a Applied>,
    /// The runs whose transfers were applied.
    transfers: Vec<&'a str>,
    is_stuck: bool,
    /// When a process was frozen.
    frozen: &'a [RangeInclusive<u64>],
}

impl Key<'_> {
    /// Returns the events. A call is a delivery. No order is known in which processes and database did all of it, so the events stand
    /// in one that breaks no promise by itself: calls, runs, completions, responses.
    fn events(&self) -> Vec<HistoryEvent> {
        let mut numbers = Numbers(BTreeMap::new());
        let mut events = Vec::new();
        let mut see = |by, at_us: u64, what| {
            let at = millis(at_us);
            events.push(HistoryEvent { by, at, what });
        };
        for delivery in &self.deliveries {
            let by = numbers.of(&delivery.request_id);
            see(by, delivery.began_us, What::Called(Terms::default()));
        }
        for run in &self.runs {
            let by = numbers.of(&run.request_id);
            numbers.0.insert(run.run.clone(), by);
        }
        for (run, lease_end_us) in self.runs.iter().zip(self.leases()) {
            let basis = lease_end_us.map_or(Basis::Nothing, |end| Basis::Claim(millis(end)));
            let first = false;
            see(
                numbers.of(&run.run),
                run.at_us,
                What::RunBegan { basis, first },
            );
        }
        let responses = self.writes.iter().flat_map(|it| &it.responses);
        let mut stored: Vec<_> = responses.filter_map(|it| made(it)).collect();
        stored.sort();
        stored.dedup();
        let mut transfers = self.transfers.clone();
        for (run, moves) in stored {
            let by = numbers.of(&run);
            let transfer = transfers.iter().position(|it| *it == run);
            if moves {
                see(by, 0, What::RunReported(Reported::Staged));
                transfer.map(|it| transfers.remove(it));
            }
            let completed = What::Completed {
                expires: None,
                staged: moves && transfer.is_some(),
                // Claims are not in the history.
                restores: true,
            };
            see(by, 0, completed);
        }
        // Those without a response that says so.
        for run in transfers {
            see(numbers.of(run), 0, What::StagedAlone);
        }
        for delivery in &self.deliveries {
            if let DeliveryResult::Response(response) = &delivery.ended {
                // Text that is not a response of the function counts as a different response.
                let run = made(response).map_or_else(|| response.clone(), |(run, _)| run);
                let given = Given {
                    of: numbers.of(&run),
                    bond: Bond::Stored,
                    expires: None,
                };
                let by = numbers.of(&delivery.request_id);
                see(by, delivery.began_us, What::Responded(given));
            }
        }
        if self.is_stuck {
            see(0, 0, What::Calmed);
            see(0, 0, What::Refused(Refused::of(None)));
        }
        events
    }

    /// Returns the end of the lease of each run's claim: one of its own that was applied after the delivery and before the run
    /// started, and had not expired then. If that is not possible for each run, an expired one counts too.
    ///
    /// A server is frozen for longer than its lease, also between its last look at the clock and the start of its handler. So a lease lasts
    /// until the run if a process was frozen since the claim.
    fn leases(&self) -> Vec<Option<u64>> {
        let mut owners: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
        for (owner, claim) in self.writes.iter().filter_map(|it| it.claim.as_ref()) {
            owners.entry(owner).or_default().push(claim);
        }
        let owners: Vec<_> = owners.values().collect();
        let fitting = |run: &&RunStart, owner: usize, expired: bool| {
            let mut deliveries = self.deliveries.iter();
            let delivery = deliveries.find(|it| it.request_id == run.request_id)?;
            // To the millisecond: a claim on Valkey is dated by its lease.
            let between = delivery.began_us / 1_000 * 1_000..=run.at_us;
            let claims = owners[owner].iter();
            let claims = claims.filter(|claim| between.contains(&claim.at_us));
            let claim = claims.max_by_key(|claim| claim.lease_end_us)?;
            let end = claim.lease_end_us;
            if end > run.at_us || !expired {
                return (end > run.at_us).then_some(end);
            }
            let was_frozen =
                |it: &RangeInclusive<u64>| *it.start() <= run.at_us && *it.end() >= claim.at_us;
            Some(if self.frozen.iter().any(was_frozen) {
                run.at_us
            } else {
                end
            })
        };
        let matching = |expired| {
            let fits = |run, owner: &usize| fitting(run, *owner, expired).is_some();
            let runs = self.runs.iter();
            let all = runs.map(|run| (0..owners.len()).filter(|it| fits(run, it)).collect());
            matched(&all.collect::<Vec<Vec<_>>>(), owners.len())
        };
        let mut owner_of = matching(false);
        if owner_of.contains(&None) {
            owner_of = matching(true);
        }
        let runs = self.runs.iter().zip(owner_of);
        runs.map(|(run, owner)| fitting(run, owner?, true))
            .collect()
    }
}

/// The numbers of calls: of deliveries, of their runs, and of texts that no run made.
struct Numbers(BTreeMap<String, CallNumber>);

impl Numbers {
    fn of(&mut self, name: &str) -> CallNumber {
        let next = CallNumber::try_from(self.0.len()).unwrap_or(CallNumber::MAX);
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

fn millis(micros: u64) -> EpochMillis {
    EpochMillis::new(i64::try_from(micros / 1_000).unwrap_or(i64::MAX))
}

/// Returns the run that made a response, with true if it moved money. An HTTP response is stored with its response as the body.
fn made(response: &str) -> Option<(String, bool)> {
    let mut response: Value = serde_json::from_str(response).ok()?;
    if let Some(body) = response.get("body").and_then(Value::as_str) {
        response = serde_json::from_str(body).ok()?;
    }
    let moves = response["moves"].as_bool().unwrap_or(false);
    Some((response.get("run")?.as_str()?.to_owned(), moves))
}

/// Returns the record id of a key.
pub(super) fn id(key: &str) -> String {
    use idempotency_lambda::HashAlgorithm;
    let digest = HashAlgorithm::Md5.hex(&format!("\"{key}\""));
    format!("{KEY_PREFIX}#{digest}")
}

/// Returns a different fitting owner for each run, for as many runs as possible (bipartite matching).
fn matched(fitting: &[Vec<usize>], owners: usize) -> Vec<Option<usize>> {
    let mut run_of = vec![None; owners];
    for run in 0..fitting.len() {
        assign(run, fitting, &mut run_of, &mut vec![false; owners]);
    }
    let owner_of = |run| run_of.iter().position(|of| *of == Some(run));
    (0..fitting.len()).map(owner_of).collect()
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
        assert_eq!(matched(&[vec![0, 1], vec![0]], 2), [Some(1), Some(0)]);
        assert_eq!(matched(&[vec![0], vec![0]], 1), [Some(0), None]);
        assert_eq!(matched(&[vec![]], 1), [None]);
    }

    #[test]
    fn ids_are_those_of_the_function() {
        // md5 of `"k0"`, quotes included.
        assert_eq!(id("k0"), "soak#f436f0bdf84b340f4a1f7fd19b988f97");
    }
}
