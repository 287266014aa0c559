//! What goes wrong with requests to DynamoDB: one in ten, by chance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault};

use super::chance::Chance;
use super::function::micros;

/// A fault that struck a request, for reports.
#[derive(Clone, Debug)]
pub(super) struct Struck {
    pub(super) at_us: u64,
    pub(super) name: &'static str,
}

/// All that struck, by the arrival of the request.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Vec<Struck>>>);

impl Faults {
    /// Puts the faults in force: `per_mille` of all requests, the same ones under the same seed for each key and
    /// operation, whatever happens to other keys.
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
            let struck = &mut struck.lock().unwrap_or_else(PoisonError::into_inner);
            struck.push(Struck {
                at_us: micros(request.at),
                name,
            });
            Some(fault)
        });
    }

    pub(super) fn all(&self) -> Vec<Struck> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Three of ten are throttled, two fail, three are lost, two are late.
fn choose(chance: &mut Chance) -> (&'static str, Fault) {
    let fault = Fault::on_any();
    match chance.below(20) {
        0..=5 => ("throttled", fault.throttle()),
        6..=7 => ("failed", fault.internal_error()),
        8..=9 => (
            "failed although applied",
            fault.internal_error_although_applied(),
        ),
        10..=12 => ("request lost", fault.drop_request()),
        13..=15 => ("reply lost", fault.drop_reply()),
        16 => ("late", fault.delay(chance.spread(20, 3_000))),
        17..=18 => ("late reply", fault.delay_reply(chance.spread(20, 3_000))),
        _ => (
            "lost and applied later",
            fault.arrive_after(chance.spread(20, 3_000)),
        ),
    }
}
