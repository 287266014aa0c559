//! The result of a run, as figures and as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::Plan;
use super::check::{check, disagreements, id};
use super::client::{Delivery, DeliveryResult};
use super::function::micros;
use super::run::Played;

/// The error types that mean that the store failed: ours, those of the library for Python, and those of an HTTP server.
const OF_THE_STORE: [&str; 5] = [
    "IdempotencyStoreFailed",
    "IdempotencyCompletionUnknown",
    "IdempotencyPersistenceLayerError",
    "500 not-confirmed",
    "503 unavailable",
];

/// The figures of one or more runs of one side.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of deliveries, without those made to overrun their deadline.
    pub deliveries: usize,
    /// The number of these deliveries that ended in an error of the store.
    pub store_errors: usize,
    /// The number of deliveries that received a response within the planned time.
    pub responses: usize,
    /// The number of keys whose callers received different responses.
    pub disagreements: usize,
    /// The number of transfers of money that were applied.
    pub transfers: usize,
    keys: usize,
    runs: usize,
    requests: usize,
    struck: usize,
    renewals: usize,
    troubles: BTreeMap<&'static str, usize>,
    overruns: usize,
    time: Duration,
    took: Duration,
    ended: BTreeMap<String, (usize, Duration)>,
    explained: Vec<String>,
}

impl Report {
    /// Returns the figures of a run of our function, and prints them.
    ///
    /// # Panics
    ///
    /// If a promise was broken.
    pub fn of_kept_promises(played: &Played, plan: &Plan) -> Self {
        let mut report = Self::default();
        report.add(played, plan.time);
        println!("{report}");
        assert_eq!(check(played, true), []);
        report
    }

    /// Adds the figures of a run.
    pub fn add(&mut self, played: &Played, planned: Duration) {
        let planned = planned.min(played.time);
        let until = played.began_us + u64::try_from(planned.as_micros()).unwrap_or(u64::MAX);
        for delivery in &played.deliveries {
            self.count(delivery, until);
            if is_of_the_store(delivery) && !delivery.overruns {
                self.explained.push(explain(delivery, played));
            }
        }
        self.disagreements += disagreements(played);
        let keys = played.deliveries.iter().map(|delivery| &delivery.key);
        self.keys += keys.collect::<BTreeSet<_>>().len();
        self.runs += played.runs.len();
        self.requests += played.received;
        self.struck += played.struck.len();
        self.renewals += played.renewals();
        for trouble in &played.troubles {
            *self.troubles.entry(trouble.name).or_default() += 1;
        }
        self.transfers += played.transfers();
        self.time += planned;
    }

    fn count(&mut self, delivery: &Delivery, until: u64) {
        let took = u64::try_from(delivery.took.as_micros()).unwrap_or(u64::MAX);
        let responded = matches!(delivery.ended, DeliveryResult::Response(_));
        if responded && delivery.began_us + took <= until {
            self.responses += 1;
        }
        if delivery.overruns {
            self.overruns += 1;
            return;
        }
        self.deliveries += 1;
        self.took += delivery.took;
        self.store_errors += usize::from(is_of_the_store(delivery));
        let name = match &delivery.ended {
            DeliveryResult::Response(_) => "a response",
            DeliveryResult::Killed => "killed",
            DeliveryResult::Error(name, _) => name,
        };
        let (count, all) = self.ended.entry(name.to_owned()).or_default();
        *count += 1;
        *all += delivery.took;
    }

    /// Returns the number of responses a second.
    pub fn throughput(&self) -> f64 {
        self.responses as f64 / self.time.as_secs_f64().max(f64::EPSILON)
    }

    /// Returns the share of deliveries that ended in an error of the store, in percent.
    pub fn error_share(&self) -> f64 {
        100.0 * self.store_errors as f64 / self.deliveries.max(1) as f64
    }

    /// Returns the number of requests to DynamoDB that got a fault.
    pub fn went_wrong(&self) -> usize {
        self.struck
    }

    /// Returns one text for each delivery that ended in an error of the store: its requests, faults and times.
    pub fn explained(&self) -> &[String] {
        &self.explained
    }
}

fn is_of_the_store(delivery: &Delivery) -> bool {
    matches!(&delivery.ended, DeliveryResult::Error(name, _) if OF_THE_STORE.contains(&name.as_str()))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {} keys, {} deliveries and {} that overran, {} runs, {} requests of which {} went wrong, {} renewals",
            self.keys,
            self.deliveries,
            self.overruns,
            self.runs,
            self.requests,
            self.struck,
            self.renewals
        )?;
        for (name, count) in &self.troubles {
            writeln!(f, "  {name}: {count} times")?;
        }
        if self.transfers > 0 {
            writeln!(f, "  {} transfers, and the books are exact", self.transfers)?;
        }
        writeln!(
            f,
            "  {:.1} responses a second, {:.0} ms a delivery, {:.2} % errors of the store, {} keys with different responses",
            self.throughput(),
            self.took.as_secs_f64() * 1_000.0 / self.deliveries.max(1) as f64,
            self.error_share(),
            self.disagreements
        )?;
        for (name, (count, took)) in &self.ended {
            let mean = took.as_secs_f64() * 1_000.0 / *count as f64;
            writeln!(f, "  {count:>6}  {name}, {mean:.0} ms")?;
        }
        Ok(())
    }
}

/// Describes the requests for the record of a delivery while it ran, with their faults.
fn explain(delivery: &Delivery, played: &Played) -> String {
    let id = id(&delivery.key);
    let ended_us = delivery.began_us + u64::try_from(delivery.took.as_micros()).unwrap_or_default();
    let mut text = match &delivery.ended {
        DeliveryResult::Error(name, message) => {
            format!("{} after {:?}: {message}\n", name, delivery.took)
        }
        _ => String::new(),
    };
    for request in &played.requests {
        let at_us = micros(request.at);
        let during = (delivery.began_us..=ended_us).contains(&at_us);
        if !during || request.key("id") != Some(&id) {
            continue;
        }
        let mut struck = played.struck.iter();
        let struck = struck.find(|struck| struck.at_us == at_us);
        let struck = struck.map_or("", |struck| struck.name);
        let owner = request.body["Item"]["owner"]["S"].as_str();
        let owner = owner.and_then(|owner| owner.get(..4)).unwrap_or("");
        let status = match (request.status, request.responded_at) {
            (Some(status), Some(at)) => {
                let later = micros(at).saturating_sub(at_us) / 1_000;
                format!("{status} after {later} ms")
            }
            _ => "-".to_owned(),
        };
        text += &format!(
            "    {:>6} ms  {} {owner} try {} -> {status} {struck}\n",
            (at_us - delivery.began_us) / 1_000,
            request.operation,
            request.attempt.unwrap_or_default(),
        );
    }
    text
}
