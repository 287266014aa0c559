//! One client: it delivers the event of a key, with duplicates, until it receives a response.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use idempotency_lambda::BoxError;

use super::faults::Chance;
use super::function::{Event, micros};
use super::lock;
use super::processes::Processes;

/// How often a client delivers one event before it gives up.
const TRIES: u32 = 12;

/// The number of the next delivery.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// The deadline of a delivery after the faults have ended.
const SWEEP: Duration = Duration::from_secs(10);

/// The result of one delivery.
#[derive(Clone, Debug)]
pub(super) enum DeliveryResult {
    /// The caller received this response.
    Response(String),
    /// The caller received an error: its type and its text.
    Error(String, String),
    /// The process was killed.
    Killed,
}

/// One delivery to one process.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) key: String,
    pub(super) request_id: String,
    /// In microseconds since the epoch.
    pub(super) began_us: u64,
    pub(super) took: Duration,
    /// True if the handler was made to take longer than the deadline, or the lease of a server.
    pub(super) overruns: bool,
    pub(super) ended: DeliveryResult,
}

/// Makes the deliveries of the clients, and records them.
#[derive(Clone)]
pub(super) struct Invoker {
    pub(super) processes: Arc<Processes>,
    pub(super) deliveries: Arc<Mutex<Vec<Delivery>>>,
    pub(super) deadlines: Vec<Duration>,
    pub(super) overruns: u64,
    pub(super) server: bool,
}

impl Invoker {
    /// Delivers one key as clients do: again after an error, sometimes several times at once, sometimes once more later.
    pub(super) async fn serve(&self, seed: u64, key: u64) -> Result<(), BoxError> {
        let mut chance = Chance::of(seed, ("key", key));
        let event = Event::new(format!("k{key}"), 2 + chance.below(20));
        let deadline = self.deadline(&mut chance);
        let duplicates = chance.below(3);
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..=duplicates {
            let (invoker, event) = (self.clone(), event.clone());
            let chance = Chance::of(seed, ("client", key, number));
            clients.spawn(async move { invoker.client(event, deadline, chance).await });
        }
        while let Some(client) = clients.join_next().await {
            client??;
        }
        if chance.per_mille(500) {
            let replay = Chance::of(seed, ("later", key));
            self.client(event, deadline, replay).await?;
        }
        Ok(())
    }

    fn deadline(&self, chance: &mut Chance) -> Duration {
        let chosen = chance.below(self.deadlines.len() as u64);
        let chosen = usize::try_from(chosen).unwrap_or_default();
        self.deadlines.get(chosen).copied().unwrap_or(SWEEP)
    }

    async fn client(
        &self,
        event: Event,
        deadline: Duration,
        mut chance: Chance,
    ) -> Result<(), BoxError> {
        tokio::time::sleep(Duration::from_millis(chance.below(60))).await;
        for number in 0..TRIES {
            let overruns = chance.per_mille(self.overruns);
            // On Lambda a handler overruns its deadline, on a server the lease without renewals.
            let (deadline, extra_ms) = match (overruns, self.server) {
                (false, _) => (deadline, 0),
                (true, false) => (Duration::from_millis(400), 600),
                (true, true) => (deadline, 4_000),
            };
            let event = Event {
                fails: chance.per_mille(15),
                extra_ms,
                ..event.clone()
            };
            if let DeliveryResult::Response(_) = self.deliver(&event, deadline, overruns).await? {
                return Ok(());
            }
            let pause = 50_u64 << number.min(5);
            tokio::time::sleep(Duration::from_millis(pause / 2 + chance.below(pause))).await;
        }
        Ok(())
    }

    /// Delivers the key until it gets a response, or until the given time. The faults have ended by then, so it should get
    /// one as soon as the last lease has expired.
    pub(super) async fn sweep(
        &self,
        key: &str,
        until: Instant,
    ) -> Result<DeliveryResult, BoxError> {
        let event = Event::new(key, 1);
        loop {
            let ended = self.deliver(&event, SWEEP, false).await?;
            if matches!(ended, DeliveryResult::Response(_)) || Instant::now() > until {
                return Ok(ended);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Delivers one event.
    async fn deliver(
        &self,
        event: &Event,
        deadline: Duration,
        overruns: bool,
    ) -> Result<DeliveryResult, BoxError> {
        let process = self.processes.take().await;
        let (began, began_us) = (Instant::now(), micros(SystemTime::now()));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("delivery-{number}");
        let environment = &process.environment;
        let ended = environment
            .deliver(event, &request_id, deadline, overruns)
            .await?;
        let took = began.elapsed();
        self.processes.done(process);
        let delivery = Delivery {
            key: event.key.clone(),
            request_id,
            began_us,
            took,
            overruns,
            ended: ended.clone(),
        };
        lock(&self.deliveries).push(delivery);
        Ok(ended)
    }
}
