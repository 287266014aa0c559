//! The circuit breaker: when a process stops asking a store that fails, and when it tries again.
//!
//! It is a pure machine: the engine keeps one for each backend, and hands it the time and the results. It only decides if a call may
//! ask the store. If it may not, the [`policy`](super::policy) of the call decides what it does.

use std::time::Duration;

use crate::time::EpochMillis;

/// The number of failed requests in a row that open the circuit.
const OPENS_AFTER: u8 = 5;
/// How long a count of failures lasts. A process may be frozen between two events, and a failure of an hour ago says nothing.
const COUNTS_FOR: Duration = Duration::from_secs(60);
/// How long the circuit is open first. The time doubles each time that the store still fails afterwards.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long the circuit is open at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The circuit breaker of one store in one process.
///
/// Five failed requests in a row open the circuit for 1 s. A failure later than 60 s after the first of a count begins a new count. After
/// the pause one call may ask the store, as a probe. If its request fails, the circuit is open for twice the time, at most 30 s. Any reply
/// closes it.
///
/// It uses no timer: each call compares the current time. So after a freeze, or after a restore from a snapshot, the next call is the
/// probe if the pause has expired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Breaker {
    state: State,
}

/// Whether a call may ask the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// It may.
    Admitted,
    /// It may not: the circuit is open.
    Open {
        /// Until when the circuit is open.
        until: EpochMillis,
    },
}

/// The state of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Circuit {
    /// Every call asks the store.
    Closed,
    /// No call asks the store.
    Open,
    /// One call asks the store, as a probe.
    HalfOpen,
}

/// What a result says of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreHealth {
    /// The store replied.
    Replied,
    /// The store did not reply, or failed in a way that may pass.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// So many requests in a row have failed, the first of them at `first`.
    Closed {
        failures: u8,
        first: EpochMillis,
    },
    Open(Pause),
    /// A call asks the store. If it has no result by the end, it was dropped or frozen, and another call may ask.
    HalfOpen(Pause),
}

/// A time in which calls are not admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pause {
    since: EpochMillis,
    until: EpochMillis,
    /// How long the circuit is, or was, open.
    length: Duration,
}

impl Default for State {
    fn default() -> Self {
        Self::Closed {
            failures: 0,
            first: EpochMillis::new(0),
        }
    }
}

impl Pause {
    fn open(now: EpochMillis, length: Duration) -> Self {
        Self {
            since: now,
            until: now.plus(length),
            length,
        }
    }

    /// Returns true if the pause lasts. A clock that was set back ends it: otherwise the circuit could stay open for hours.
    fn lasts(&self, now: EpochMillis) -> bool {
        self.since <= now && now <= self.until
    }
}

impl Breaker {
    /// Returns whether a call may ask the store now. If the circuit was open long enough, the call becomes the probe.
    ///
    /// `at_most` is how long the call's requests may take. For this time no other call becomes a probe.
    pub fn admit(&mut self, now: EpochMillis, at_most: Duration) -> Admission {
        let pause = match &self.state {
            State::Closed { .. } => return Admission::Admitted,
            State::Open(pause) | State::HalfOpen(pause) => pause,
        };
        if pause.lasts(now) {
            return Admission::Open { until: pause.until };
        }
        self.state = State::HalfOpen(Pause {
            since: now,
            until: now.plus(at_most),
            length: pause.length,
        });
        Admission::Admitted
    }

    /// Takes the result of a request. Returns true if it opens or closes the circuit.
    pub fn take(&mut self, now: EpochMillis, health: StoreHealth) -> bool {
        match health {
            StoreHealth::Replied => self.replied(),
            StoreHealth::Failed => self.failed(now),
        }
    }

    /// Takes a reply of the store. Returns true if it closes the circuit.
    fn replied(&mut self) -> bool {
        let was_closed = self.circuit() == Circuit::Closed;
        self.state = State::default();
        !was_closed
    }

    /// Takes a failure of the store. Returns true if it opens the circuit.
    fn failed(&mut self, now: EpochMillis) -> bool {
        let length = match &mut self.state {
            State::Closed { failures, first } => {
                if *failures == 0 || *first > now || first.until(now) > COUNTS_FOR {
                    (*failures, *first) = (0, now);
                }
                *failures += 1;
                if *failures < OPENS_AFTER {
                    return false;
                }
                FIRST_PAUSE
            }
            // A call that was admitted before the circuit opened.
            State::Open(_) => return false,
            State::HalfOpen(pause) => pause.length.saturating_mul(2).min(LONGEST_PAUSE),
        };
        self.state = State::Open(Pause::open(now, length));
        true
    }

    /// Returns the state of the circuit. An open circuit stays open until a call asks to be admitted.
    pub fn circuit(&self) -> Circuit {
        match self.state {
            State::Closed { .. } => Circuit::Closed,
            State::Open(_) => Circuit::Open,
            State::HalfOpen(_) => Circuit::HalfOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::NOW;
    use super::super::tests::script::{millis, play, time};
    use super::*;
    use crate::example::shared::check_rows;

    #[test]
    fn the_circuit_opens_after_failures_in_a_row_and_a_probe_may_close_it() {
        check_rows(include_str!("tests/breaker.txt"), |script| {
            let (mut breaker, mut now) = (Breaker::default(), NOW);
            play(script, |input| {
                let result = match input {
                    "asks" => match breaker.admit(now, Duration::from_secs(3)) {
                        Admission::Admitted => return "admitted".to_owned(),
                        Admission::Open { until } => {
                            return format!("open until {}", millis(until));
                        }
                    },
                    "fails" => breaker.take(now, StoreHealth::Failed).then_some("opens"),
                    "replies" => {
                        let closes = breaker.take(now, StoreHealth::Replied);
                        assert_eq!(breaker, Breaker::default());
                        closes.then_some("closes")
                    }
                    "circuit?" => None,
                    at => {
                        now = time(at.trim_start_matches('@'));
                        None
                    }
                };
                result.map_or_else(|| format!("{:?}", breaker.circuit()), str::to_owned)
            })
        });
    }
}
