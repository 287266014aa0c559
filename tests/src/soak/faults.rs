//! Injects random faults into requests to DynamoDB, by default into one in ten.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault};

use super::function::micros;
use super::lock;
use crate::{Proxy, WireFault};

/// A fault that was injected, for reports.
#[derive(Clone, Debug)]
pub(super) struct InjectedFault {
    pub(super) at_us: u64,
    pub(super) name: &'static str,
}

/// All injected faults, in the order in which their requests arrived.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Vec<InjectedFault>>>);

impl Faults {
    /// Starts to inject faults into `per_mille` of 1,000 requests. The choice depends on the seed, the key, the operation and
    /// the number of the request, so it does not change with the requests for other keys.
    pub(super) fn strike(&self, database: &EmbeddedDynamoDb, seed: u64, per_mille: u64) {
        let struck = Arc::clone(&self.0);
        let mut seen: HashMap<(String, String), u64> = HashMap::new();
        database.inject_chosen(move |request| {
            let id = request.key("id").unwrap_or_default().to_owned();
            let number = seen
                .entry((id.clone(), request.operation.clone()))
                .or_default();
            *number += 1;
            let mut chance = Chance::of(seed, (id, &request.operation, *number));
            let (name, fault) = chance.per_mille(per_mille).then(|| choose(&mut chance))?;
            lock(&struck).push(InjectedFault {
                at_us: micros(request.at),
                name,
            });
            Some(fault)
        });
    }

    /// As [`strike`](Self::strike), for the connections to a server.
    pub(super) fn strike_wire(&self, proxy: &Proxy, seed: u64, per_mille: u64) {
        let struck = self.clone();
        let mut chance = Chance::of(seed, "wire");
        proxy.choose(move |_| {
            let (name, fault) = chance
                .per_mille(per_mille)
                .then(|| choose_wire(&mut chance))?;
            struck.note(name);
            Some(fault)
        });
    }

    /// Notes one that happens now.
    pub(super) fn note(&self, name: &'static str) {
        let at_us = micros(SystemTime::now());
        lock(&self.0).push(InjectedFault { at_us, name });
    }

    pub(super) fn all(&self) -> Vec<InjectedFault> {
        lock(&self.0).clone()
    }
}

/// Chooses a fault. Of ten, three throttle, two fail, three close the connection and two delay.
fn choose(chance: &mut Chance) -> (&'static str, Fault) {
    let fault = Fault::on_any();
    match chance.below(20) {
        0..=5 => ("throttled", fault.throttle()),
        6..=7 => ("failed", fault.respond_with(500, "InternalServerError")),
        8..=9 => (
            "failed although applied",
            fault.internal_error_although_applied(),
        ),
        10..=12 => ("request lost", fault.drop_request()),
        13..=15 => ("reply lost", fault.drop_reply()),
        late => {
            let fault = fault.release_after(chance.spread(20, 3_000));
            match late {
                16 => ("late", fault.hold()),
                17..=18 => ("late reply", fault.hold_reply()),
                _ => ("lost and applied later", fault.late_arrival()),
            }
        }
    }
}

/// Chooses a fault of a connection. Of ten, seven lose something, and three delay it.
fn choose_wire(chance: &mut Chance) -> (&'static str, WireFault) {
    match chance.below(20) {
        0..=2 => ("request lost", WireFault::LoseRequest),
        3..=5 => ("request cut", WireFault::CutRequest),
        6..=9 => ("reply lost", WireFault::LoseReply),
        10..=13 => ("reply cut", WireFault::CutReply),
        late => {
            let time = chance.spread(20, 3_000);
            match late {
                14..=15 => ("late", WireFault::Delay(time)),
                16..=17 => ("late reply", WireFault::DelayReply(time)),
                _ => ("lost and applied later", WireFault::Late(time)),
            }
        }
    }
}

/// Random choices that depend only on a seed and a purpose, not on earlier choices.
#[derive(Clone, Debug)]
pub(super) struct Chance(fastrand::Rng);

impl Chance {
    /// Returns the source for one purpose, such as one key, under a seed.
    pub(super) fn of(seed: u64, purpose: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, purpose).hash(&mut hasher);
        Self(fastrand::Rng::with_seed(hasher.finish()))
    }

    /// Waits about this long.
    pub(super) async fn pause(&mut self, about: Duration) {
        let about = u64::try_from(about.as_millis()).unwrap_or(u64::MAX);
        tokio::time::sleep(Duration::from_millis(about / 2 + self.below(about))).await;
    }

    /// Returns a number below `end`, or 0 if that is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end.max(1))
    }

    /// Returns true in `cases` of 1,000 calls, on average.
    pub(super) fn per_mille(&mut self, cases: u64) -> bool {
        self.below(1_000) < cases
    }

    /// Returns a time between the two bounds, both in milliseconds. The logarithm of the time is uniform, so short times
    /// are as frequent as long ones.
    pub(super) fn spread(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        let share = self.below(1_000) as f64 / 1_000.0;
        let ratio = to_ms as f64 / from_ms as f64;
        Duration::from_secs_f64(from_ms as f64 * ratio.powf(share) / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_times_stay_between_their_bounds() {
        let mut chance = Chance::of(1, "times");
        for _ in 0..1_000 {
            let time = chance.spread(20, 3_000);
            assert!(time >= Duration::from_millis(20) && time <= Duration::from_secs(3));
        }
    }
}
