//! What every schedule has: its faults, a network, three processes, and rounds of deliveries of one key.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::time::Clock;
use idempotency_lambda::Backend;
use idempotency_testkit::SeededRandom;
use idempotency_tests::{START, unless_it_panics};

use super::executor::{Dice, SkewedClock, Task, Time, run};
use super::network::Network;
use super::recorder::Recorder;

/// How often each fault occurs, in percent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) throttled: u64,
    pub(crate) slow: u64,
    /// How often the store never replies.
    pub(crate) hangs: u64,
    pub(crate) crash: u64,
    pub(crate) handler_fails: u64,
    /// How often the handler panics. A panic reports nothing.
    pub(crate) handler_panics: u64,
    /// The largest error of a clock, in milliseconds.
    pub(crate) skew: u64,
    /// How often a process stands still, in percent: for less than ten seconds, and half of the time with its monotonic clock.
    pub(crate) pauses: u64,
    /// How often the wall clock of a run is set back, in percent.
    pub(crate) set_back: u64,
    /// True if no process has a monotonic clock.
    pub(crate) wall_only: bool,
    pub(crate) hold: bool,
    /// True if calls read the record before they claim.
    pub(crate) read_first: bool,
    /// True if calls run unprotected when the store fails.
    pub(crate) unprotected: bool,
    /// True if calls ask the circuit breaker.
    pub(crate) breaker: bool,
    /// True if no deadline is known, and runs renew their leases.
    pub(crate) renew: bool,
    /// True if the handler has steps.
    pub(crate) steps: bool,
    /// How often the handler writes into an open transaction, instead of staging writes.
    pub(crate) opens: u64,
    /// True if the store does not check the conditions of completions, releases and steps.
    pub(crate) unfenced: bool,
    /// True if the store confirms the results of steps, and does not record them.
    pub(crate) drops_steps: bool,
    /// The same for claims.
    pub(crate) drops_claims: bool,
}

impl Faults {
    /// Returns the faults of a mix: words for faults, and for settings of the operation.
    pub(crate) fn of(mix: &str) -> Self {
        let mut faults = Self::default();
        for word in mix.split(' ') {
            match word {
                "calm" => {}
                "network" => {
                    (faults.lost, faults.throttled, faults.slow, faults.hangs) = (12, 5, 10, 2)
                }
                "crashes" => (faults.crash, faults.handler_fails, faults.slow) = (2, 10, 5),
                "everything" => {
                    (faults.lost, faults.throttled, faults.slow, faults.hangs) = (12, 5, 15, 1);
                    (faults.crash, faults.handler_fails, faults.handler_panics) = (1, 10, 5);
                    faults.skew = 300;
                }
                // The store throttles most requests.
                "outage" => faults.throttled = 85,
                "pauses" => faults.pauses = 1,
                "set_back" => faults.set_back = 50,
                "wall_only" => faults.wall_only = true,
                "hold" => faults.hold = true,
                "read_first" => faults.read_first = true,
                "unprotected" => faults.unprotected = true,
                "breaker" => faults.breaker = true,
                "renew" => faults.renew = true,
                "steps" => faults.steps = true,
                "opens" => faults.opens = 50,
                "drops_claims" => faults.drops_claims = true,
                "drops_steps" => faults.drops_steps = true,
                "unfenced" => faults.unfenced = true,
                _ => panic!("no mix has the word {word}"),
            }
        }
        faults
    }
}

/// The network of a schedule, and what its choices and its time come from.
pub(crate) struct World {
    seed: u64,
    pub(crate) dice: Dice,
    pub(crate) time: Time,
    pub(crate) network: Arc<Network>,
    pub(crate) recorder: Recorder,
}

/// One process.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) backend: Backend,
    pub(crate) clock: SkewedClock,
    pub(crate) dice: Dice,
    pub(crate) recorder: Recorder,
}

impl World {
    pub(crate) fn new(seed: u64, faults: &Faults) -> Self {
        let (dice, time) = (Dice::new(seed), Time::starting_at(START));
        let recorder = Recorder::default();
        let network_dice = Dice::new(seed ^ 0x5eed);
        let network = Network::new(network_dice, time.clone(), faults.clone(), recorder.clone());
        Self {
            seed,
            dice,
            time,
            network,
            recorder,
        }
    }

    fn process(&self, number: u64, faults: &Faults) -> Process {
        let skew = i64::try_from(self.dice.below(2 * faults.skew + 1)).unwrap();
        let clock = SkewedClock {
            time: self.time.clone(),
            skew: skew - i64::try_from(faults.skew).unwrap(),
            has_monotonic: !faults.wall_only,
            moved: Arc::default(),
        };
        let random = SeededRandom::new(self.seed.wrapping_mul(31).wrapping_add(number + 1));
        let store = self.network.clone();
        Process {
            backend: Backend::new(store, Arc::new(clock.clone()), Arc::new(random)),
            clock,
            dice: self.dice.clone(),
            recorder: self.recorder.clone(),
        }
    }

    /// Plays three rounds of at most `most` deliveries, each to a random process: `deliver` makes the delivery of a number. `between`
    /// runs after each poll, and `died` after the death of a delivery. Returns the first process, and the number of deliveries.
    pub(crate) fn play(
        &self,
        faults: &Faults,
        most: u64,
        deliver: impl Fn(usize, Process) -> Task,
        between: impl Fn(),
        died: impl Fn(usize),
    ) -> (Process, usize) {
        let processes: Vec<_> = (0..3).map(|number| self.process(number, faults)).collect();
        let mut calls = 0;
        for _round in 0..3 {
            let deliveries = 1 + self.dice.below(most);
            let (mut tasks, mut clocks) = (Vec::new(), BTreeMap::new());
            for _ in 0..deliveries {
                calls += 1;
                let process = usize::try_from(self.dice.below(3)).unwrap();
                let process = &processes[process];
                let task = deliver(calls, process.clone());
                let task = self.recorder.polls(calls, process.clock.clone(), task);
                tasks.push((calls, task));
                clocks.insert(calls, process.clock.clone());
            }
            run(&mut tasks, &self.dice, &self.time, |call| {
                self.network.deliver_sometimes();
                between();
                if faults.pauses > 0 && self.dice.percent(faults.pauses) {
                    let pause = i64::try_from(self.dice.below(10_000)).unwrap();
                    // A run cannot know its time if both of its clocks are wrong.
                    let sleeps = faults.set_back == 0 && self.dice.percent(50);
                    clocks[&call].pause(pause, sleeps);
                    self.recorder.count("paused");
                }
                let dies = self.dice.percent(faults.crash) && self.dice.percent(30);
                if dies {
                    died(call);
                }
                dies
            });
            // Lambda retries at once, or after the deadline of the first delivery.
            let pause = self.dice.below(2 * 3_000);
            self.time.advance(i64::try_from(pause).unwrap());
        }
        (processes[0].clone(), calls)
    }
}

impl Process {
    /// Sleeps in `chance` of 100 calls, for less than `most` milliseconds.
    pub(crate) async fn sleep_sometimes(&self, chance: u64, most: u64) {
        if self.dice.percent(chance) {
            let pause = Duration::from_millis(self.dice.below(most));
            self.clock.sleep(pause).await;
        }
    }

    /// Panics on purpose in `chance` of 100 calls.
    pub(crate) fn panic_sometimes(&self, chance: u64) {
        if self.dice.percent(chance) {
            // Does not call the panic hook, which would print each panic.
            resume_unwind(Box::new(OnPurpose));
        }
    }
}

/// The payload of a deliberate panic.
struct OnPurpose;

/// Returns the output of a call, or `None` if it panics on purpose.
pub(crate) async fn unless_on_purpose<T>(call: impl Future<Output = T>) -> Option<T> {
    match unless_it_panics(call).await {
        Ok(output) => Some(output),
        Err(panic) if panic.is::<OnPurpose>() => None,
        Err(panic) => resume_unwind(panic),
    }
}
