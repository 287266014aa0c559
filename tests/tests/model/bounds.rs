//! How large a scenario is explored: the calls, the clock, and how often each fault may strike.

use std::time::Duration;

use idempotency_core::protocol::policy::{OnError, OnInProgress, OnTimeout, Policy};

/// One delivery of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The hash of the validated payload, where it validates.
    pub(crate) payload: Option<&'static str>,
    pub(crate) on_in_progress: OnInProgress,
    pub(crate) on_timeout: OnTimeout,
    pub(crate) on_error: OnError,
    /// How its handler may end.
    pub(crate) endings: &'static [Ending],
    /// How many ticks its lease lasts.
    pub(crate) lease: u8,
    /// Whether its lease is its deadline; otherwise no deadline is known, and the lease counts from each claim.
    pub(crate) deadline: bool,
    /// Whether it runs in the one process that has a local cache.
    pub(crate) cached: bool,
    /// Whether it runs in the one process that takes several at a time, so that it meets the others there.
    pub(crate) in_one_process: bool,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Responds,
    /// With an answer that the store finds too large.
    RespondsTooLarge,
    /// With an answer that is not JSON.
    RespondsWithoutJson,
    /// With an answer that cannot be read back.
    RespondsUnreadably,
    /// With an answer that by policy is not stored.
    RespondsUnstored,
    /// With an error.
    Fails,
    /// Without a report: the handler panics.
    Panics,
}

/// A function in Python on the same key.
#[derive(Clone, Debug)]
pub(crate) struct Python {
    /// How many ticks its lease lasts.
    pub(crate) lease: u8,
    /// Whether its run may outlive its lease.
    pub(crate) outlives: bool,
}

/// How often each fault may strike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Sends whose reply is lost; each may be applied at any later time, or never.
    pub(crate) losses: u8,
    /// Requests that fail without a lost send: throttled, refused, or unreachable.
    pub(crate) failures: u8,
    /// Replies that reach a call later than the store gave them.
    pub(crate) delays: u8,
    /// Kills that are steps of their own. All others are there too: a call may stop moving anywhere.
    pub(crate) kills: u8,
    /// Evictions by an operator.
    pub(crate) evictions: u8,
}

/// One scenario.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) name: &'static str,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) python: Option<Python>,
    /// How many ticks the scenario lasts.
    pub(crate) ticks: u8,
    /// How long a tick is. One that is no whole second makes seconds and milliseconds disagree.
    pub(crate) tick_ms: i64,
    /// How many seconds an answer is kept.
    pub(crate) window_s: u64,
    /// By how many ticks a call's clock may be off.
    pub(crate) skews: &'static [i8],
    /// Whether the table's TTL deletes what has expired.
    pub(crate) ttl: bool,
    pub(crate) faults: Faults,
}

impl Delivery {
    /// One that validates nothing, rejects duplicates, and always answers.
    pub(crate) fn plain() -> Self {
        Self {
            payload: None,
            on_in_progress: OnInProgress::Reject,
            on_timeout: OnTimeout::Rerun,
            on_error: OnError::Release,
            endings: &[Ending::Responds],
            lease: 1,
            deadline: true,
            cached: false,
            in_one_process: false,
        }
    }

    pub(crate) fn of_payload(self, payload: &'static str) -> Self {
        Self {
            payload: Some(payload),
            ..self
        }
    }

    pub(crate) fn waiting(self) -> Self {
        Self {
            on_in_progress: OnInProgress::Wait,
            ..self
        }
    }

    pub(crate) fn holding(self) -> Self {
        Self {
            on_timeout: OnTimeout::Hold,
            ..self
        }
    }

    pub(crate) fn recording(self) -> Self {
        Self {
            on_error: OnError::Record,
            ..self
        }
    }

    pub(crate) fn ending(self, endings: &'static [Ending]) -> Self {
        Self { endings, ..self }
    }

    pub(crate) fn leased(self, lease: u8) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn without_deadline(self) -> Self {
        Self {
            deadline: false,
            ..self
        }
    }

    pub(crate) fn cached(self) -> Self {
        Self {
            cached: true,
            ..self
        }
    }

    pub(crate) fn in_one_process(self) -> Self {
        Self {
            in_one_process: true,
            ..self
        }
    }

    pub(crate) fn policy(&self, bounds: &Bounds) -> Policy {
        Policy {
            on_in_progress: self.on_in_progress,
            on_timeout: self.on_timeout,
            on_error: self.on_error,
            expires_after: Duration::from_secs(bounds.window_s),
            lease: bounds.duration(self.lease),
            ..Policy::default()
        }
    }
}

impl Ending {
    /// Whether the run reported that its key may run again. A panic reports nothing.
    pub(crate) fn frees(self) -> bool {
        matches!(self, Self::RespondsUnstored | Self::Fails)
    }
}

impl Bounds {
    /// A scenario without faults, in which no window ends.
    pub(crate) fn new(name: &'static str, deliveries: Vec<Delivery>) -> Self {
        Self {
            name,
            deliveries,
            python: None,
            ticks: 4,
            tick_ms: 1_000,
            window_s: 60,
            skews: &[0],
            ttl: false,
            faults: Faults::default(),
        }
    }

    pub(crate) fn duration(&self, ticks: u8) -> Duration {
        Duration::from_millis(u64::from(ticks) * self.tick_ms.unsigned_abs())
    }

    /// What is in it, as columns of a table.
    pub(crate) fn columns(&self) -> String {
        let of = |count: u8, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let off = (self.skews.len() > 1).then(|| format!("clocks {:?} off", self.skews));
        let faults = [
            of(self.faults.losses, "lost send"),
            of(self.faults.failures, "failure"),
            of(self.faults.delays, "late reply").map(|text| text.replace("replys", "replies")),
            of(self.faults.kills, "kill"),
            of(self.faults.evictions, "eviction"),
            off,
            self.ttl.then(|| "TTL".to_owned()),
        ];
        let faults: Vec<_> = faults.into_iter().flatten().collect();
        let python = self.python.as_ref().map_or("", |_| " + Python");
        format!(
            "{} | {}{python} | {} | {}",
            self.name,
            self.deliveries.len(),
            self.ticks,
            faults.join(", "),
        )
    }

    /// Whether every call holds: then `hold` promises.
    pub(crate) fn all_hold(&self) -> bool {
        self.python.is_none()
            && self
                .deliveries
                .iter()
                .all(|delivery| delivery.on_timeout == OnTimeout::Hold)
    }

    /// Whether a Python run may overwrite what is ours: then fewer promises bind.
    pub(crate) fn python_outlives(&self) -> bool {
        self.python.as_ref().is_some_and(|python| python.outlives)
    }
}
