//! The bounds of a scenario: its calls, its clock, and how often each fault may occur.

use std::str::FromStr;
use std::time::Duration;

use idempotency_core::protocol::Commits;
use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Policy, Steps,
};
use idempotency_testkit::history::{Promise, Promises, Reported, Terms};

/// One delivery of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The validation digest; `None` if the call does not validate.
    pub(crate) payload: Option<&'static str>,
    /// Its policy, without the times.
    policy: Policy,
    /// The possible endings of its handler.
    pub(crate) endings: Vec<Ending>,
    /// The length of its lease, in ticks.
    pub(crate) lease: u8,
    /// True if the lease ends at the deadline. Otherwise no deadline is known, and the lease starts at each claim.
    pub(crate) deadline: bool,
    /// The window that its handler asks for, in seconds.
    pub(crate) asked_s: Option<u64>,
    /// How long the run renews its lease, in ticks, if it does.
    pub(crate) renews_at_most: Option<u8>,
    /// True if the undo of a step can fail or panic.
    pub(crate) undo_fails: bool,
    /// True if it runs in the process that has a local cache.
    pub(crate) cached: bool,
    /// True if it runs in the process that takes several events at a time, with single flight.
    pub(crate) in_one_process: bool,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Responds,
    /// With a response that is too large for the store.
    RespondsTooLarge,
    /// With a response that is not JSON.
    RespondsWithoutJson,
    /// With a response that cannot be read back.
    RespondsUnreadably,
    /// With a response that `store_when` does not store.
    RespondsUnstored,
    /// With staged writes, which must be applied together with the completion.
    Stages,
    /// With staged writes, and a response that is too large for the store.
    StagesTooLarge,
    /// With a transaction of its own, which commits together with the completion, and once.
    Commits,
    /// With an error.
    Fails,
    /// With an error that a layer made up, such as that of a timeout. It reports no result.
    FailsUnreported,
    /// With a panic, which reports no result.
    Panics,
    /// With a final response, after its steps are undone.
    Undoes,
}

/// A function in Python that uses the same key.
#[derive(Clone, Debug)]
pub(crate) struct Python {
    /// The length of its lease, in ticks.
    pub(crate) lease: u8,
    /// True if its run may outlive its lease.
    pub(crate) outlives: bool,
}

/// How often each fault may occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Sends whose reply is lost. Each may be applied at any later time, or never.
    pub(crate) lost_replies: u8,
    /// Requests that certainly were not applied: throttled, refused, or unreachable.
    pub(crate) failures: u8,
    /// Writes that meet the transaction of another program. They are not applied.
    pub(crate) conflicts: u8,
    /// Replies that reach the call after a delay.
    pub(crate) delays: u8,
    /// Kills as steps of their own. Kills without a step are always included: any call may stop at any point.
    pub(crate) kills: u8,
    /// Evictions by an operator.
    pub(crate) evictions: u8,
    /// Decisions of an operator about a claim whose lease has expired.
    pub(crate) decisions: u8,
    /// Changes of the business data by other programs, after which the condition of the staged writes holds, or holds no more.
    pub(crate) changes: u8,
}

/// One scenario.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) name: &'static str,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) python: Option<Python>,
    /// The length of the scenario, in ticks.
    pub(crate) ticks: u8,
    /// The length of a tick, in milliseconds. If it is not a whole second, seconds and milliseconds disagree.
    pub(crate) tick_ms: i64,
    /// How long a response is kept, in seconds.
    pub(crate) window_s: u64,
    /// The possible clock errors of a call, in ticks.
    pub(crate) skews: &'static [i8],
    /// How many earlier states of the record an eventual read may return.
    pub(crate) stale: u8,
    /// True if the table's TTL deletes expired records.
    pub(crate) ttl: bool,
    /// The number of steps of each call that has steps.
    pub(crate) steps: u8,
    /// True if the store recognises a repeated send of a transaction by its token. Otherwise it forgets each token at once.
    pub(crate) tokens: bool,
    pub(crate) faults: Faults,
}

impl Delivery {
    /// Returns the delivery with these words. Each ending is one that its handler can have.
    fn of(words: &'static str) -> Self {
        let mut it = Self {
            payload: None,
            policy: Policy::default(),
            endings: Vec::new(),
            lease: 1,
            deadline: true,
            asked_s: None,
            renews_at_most: None,
            undo_fails: false,
            cached: false,
            in_one_process: false,
        };
        let policy = &mut it.policy;
        for word in words.split(' ') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "payload" => it.payload = Some(value),
                "lease" => it.lease = number(value),
                "no-deadline" => it.deadline = false,
                "asks" => it.asked_s = Some(number(value)),
                "renews" => (it.deadline, it.renews_at_most) = (false, Some(u8::MAX)),
                "renews-at-most" => {
                    (it.deadline, it.renews_at_most) = (false, Some(number(value)));
                }
                "undo-fails" => it.undo_fails = true,
                "cached" => it.cached = true,
                "near" => it.in_one_process = true,
                "reads-first" => policy.lookup = Lookup::ReadFirst,
                "waits" => policy.on_in_progress = OnInProgress::Wait,
                "holds" => policy.on_timeout = OnTimeout::Hold,
                "records" => policy.on_error = OnError::Record,
                "unprotected" => policy.on_store_error = OnStoreError::RunUnprotected,
                "breaker" => policy.circuit_breaker = true,
                "keeps-steps" => policy.steps = Steps::Keep,
                "forgets-steps" => policy.steps = Steps::Forget,
                ending => it.endings.push(Ending::of(ending)),
            }
        }
        assert!(!it.endings.is_empty(), "`{words}` has no ending");
        it
    }

    pub(crate) fn holds(&self) -> bool {
        self.policy.on_timeout == OnTimeout::Hold
    }

    pub(crate) fn may_run_unprotected(&self) -> bool {
        self.policy.on_store_error == OnStoreError::RunUnprotected
    }

    pub(crate) fn has_steps(&self) -> bool {
        self.policy.steps != Steps::Off
    }

    pub(crate) fn keeps_steps(&self) -> bool {
        self.policy.steps == Steps::Keep
    }

    pub(crate) fn policy(&self, bounds: &Bounds) -> Policy {
        let mut policy = self.policy.clone();
        policy.expires_after = Duration::from_secs(bounds.window_s);
        policy
    }
}

impl Ending {
    fn of(word: &str) -> Self {
        match word {
            "responds" => Self::Responds,
            "too-large" => Self::RespondsTooLarge,
            "not-json" => Self::RespondsWithoutJson,
            "unreadable" => Self::RespondsUnreadably,
            "unstored" => Self::RespondsUnstored,
            "stages" => Self::Stages,
            "stages-too-large" => Self::StagesTooLarge,
            "commits" => Self::Commits,
            "fails" => Self::Fails,
            "unreported" => Self::FailsUnreported,
            "panics" => Self::Panics,
            "undoes" => Self::Undoes,
            _ => panic!("`{word}` is no word of a call"),
        }
    }

    /// Returns true if a handler can end so before it has passed all its steps.
    pub(crate) fn is_early(self) -> bool {
        matches!(
            self,
            Self::Fails | Self::FailsUnreported | Self::Panics | Self::Undoes
        )
    }

    /// Returns what the run reports, apart from a response, if each step that ran is recorded or not.
    pub(crate) fn report(self, recorded: bool) -> Option<Reported> {
        match self {
            Self::Fails if recorded => Some(Reported::Failed),
            Self::RespondsUnstored => Some(Reported::NotStored),
            Self::Stages | Self::StagesTooLarge | Self::Commits => Some(Reported::Staged),
            Self::Undoes => Some(Reported::Undoes),
            _ => None,
        }
    }

    /// Returns true if the handler staged writes, or wrote into a transaction of its own.
    pub(crate) fn stages(self) -> bool {
        self.writes().is_some()
    }

    /// Returns how often the transaction of its writes can commit, if it has any.
    pub(crate) fn writes(self) -> Option<Commits> {
        match self {
            Self::Stages | Self::StagesTooLarge => Some(Commits::Again),
            Self::Commits => Some(Commits::Once),
            _ => None,
        }
    }
}

impl Bounds {
    /// Returns the scenario of a row. Without words it has no faults, and no window ends.
    pub(crate) fn of(title: &'static str, calls: &'static str, words: &str) -> Self {
        let mut it = Self {
            name: title,
            deliveries: calls.split(", ").map(Delivery::of).collect(),
            python: None,
            ticks: 4,
            tick_ms: 1_000,
            window_s: 60,
            skews: &[0],
            stale: 0,
            ttl: false,
            steps: 1,
            tokens: false,
            faults: Faults::default(),
        };
        for word in words.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "ticks" => it.ticks = number(value),
                "tick-ms" => it.tick_ms = number(value),
                "window" => it.window_s = number(value),
                "ahead" => it.skews = &[0, 1],
                "off" => it.skews = &[-1, 0, 1],
                "stale" => it.stale = number(value),
                "ttl" => it.ttl = true,
                "steps" => it.steps = number(value),
                "tokens" => it.tokens = true,
                "python" | "late-python" => {
                    let (lease, outlives) = (number(value), name == "late-python");
                    it.python = Some(Python { lease, outlives });
                }
                "lost" => it.faults.lost_replies = number(value),
                "failures" => it.faults.failures = number(value),
                "conflicts" => it.faults.conflicts = number(value),
                "delays" => it.faults.delays = number(value),
                "kills" => it.faults.kills = number(value),
                "evictions" => it.faults.evictions = number(value),
                "decisions" => it.faults.decisions = number(value),
                "changes" => it.faults.changes = number(value),
                _ => panic!("`{word}` is no bound of a scenario"),
            }
        }
        it
    }

    pub(crate) fn duration(&self, ticks: u8) -> Duration {
        Duration::from_millis(u64::from(ticks) * self.tick_ms.unsigned_abs())
    }

    /// Returns the bounds as columns of a Markdown table.
    pub(crate) fn columns(&self) -> String {
        let of = |count: u8, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let off = (self.skews.len() > 1).then(|| format!("clocks {:?} off", self.skews));
        let faults = [
            of(self.faults.lost_replies, "lost send"),
            of(self.faults.failures, "failure"),
            of(self.faults.conflicts, "conflict"),
            of(self.faults.delays, "late reply").map(|text| text.replace("replys", "replies")),
            of(self.faults.kills, "kill"),
            of(self.faults.evictions, "eviction"),
            of(self.faults.decisions, "decision"),
            of(self.faults.changes, "change of data").map(|text| text.replace("datas", "data")),
            off,
            of(self.stale, "stale state"),
            self.ttl.then(|| "TTL".to_owned()),
            self.tokens.then(|| "tokens recognised".to_owned()),
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

    /// Returns the promises that apply.
    pub(crate) fn promises(&self) -> Promises {
        let outlives = self.python.as_ref().is_some_and(|python| python.outlives);
        let all =
            |it: fn(&Delivery) -> bool| self.python.is_none() && self.deliveries.iter().all(it);
        let all_hold = all(Delivery::holds);
        Promises::all()
            .without(Promise::OneResponse, outlives)
            .without(Promise::SecondRunUnderHold, !all_hold)
            .without(
                Promise::StepTwiceUnderHold,
                !all_hold || !all(Delivery::keeps_steps),
            )
    }

    /// Returns what a history must know of a delivery.
    pub(crate) fn terms(&self, delivery: &Delivery) -> Terms {
        Terms {
            payload: delivery.payload.map(|payload| payload.as_bytes()[0].into()),
            holds: delivery.holds(),
            steps: delivery.policy.steps,
            lease: Some(self.duration(delivery.lease)),
            // A window that is longer than that of the operation is refused.
            window: Some(Duration::from_secs(
                delivery.asked_s.unwrap_or(self.window_s).min(self.window_s),
            )),
            ..Terms::default()
        }
    }
}

fn number<T: FromStr>(text: &str) -> T {
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("`{text}` is no number of this bound"))
}
