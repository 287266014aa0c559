//! What is promised of an event, and the error that says what was seen instead.

use std::fmt;

use crate::seen::{Did, Seen};

/// What should become of an event.
#[derive(Clone, Debug)]
#[must_use = "keep it with `check`"]
pub(crate) struct Promise {
    did: Did,
    runs: usize,
    calls: &'static str,
    told: String,
    payload: Option<String>,
    key: Option<String>,
}

impl Promise {
    /// What the function does, with which requests to DynamoDB, and what it tells its caller.
    pub(crate) fn new(did: Did, calls: &'static str, told: impl Into<String>) -> Self {
        let idle = matches!(did, Did::Replayed | Did::Cached | Did::Refused);
        Self {
            did,
            runs: usize::from(!idle),
            calls,
            told: told.into(),
            payload: None,
            key: None,
        }
    }

    /// The answer of an earlier event, to the byte, without a run.
    pub(crate) fn replay(did: Did, calls: &'static str, first: &Seen) -> Self {
        Self {
            payload: first.payload.clone(),
            ..Self::new(did, calls, &first.told)
        }
    }

    /// Under the key of an earlier event.
    pub(crate) fn under_the_key_of(mut self, first: &Seen) -> Self {
        self.key = first.key().map(str::to_owned);
        self
    }

    /// With this many runs: for batches.
    pub(crate) fn runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }

    /// Compares it with what was seen.
    pub(crate) fn check(&self, place: &str, seen: &Seen) -> Result<(), BrokenPromise> {
        let same_answer = self.payload.is_none() || self.payload == seen.payload;
        let same_key = self.key.is_none() || self.key.as_deref() == seen.key();
        let kept = self.did == seen.did
            && self.runs == seen.runs
            && self.calls == seen.calls()
            && self.told == seen.told
            && same_answer
            && same_key;
        if kept {
            return Ok(());
        }
        Err(BrokenPromise {
            place: place.to_owned(),
            promised: describe(
                self.did,
                self.runs,
                self.key.as_deref(),
                self.calls,
                &self.told,
            ),
            seen: describe(seen.did, seen.runs, seen.key(), &seen.calls(), &seen.told),
            other_answer: !same_answer,
        })
    }
}

fn describe(did: Did, runs: usize, key: Option<&str>, calls: &str, told: &str) -> String {
    let key = key.unwrap_or("any or none");
    format!("{did} (runs: {runs}); key: {key}; DynamoDB: {calls}; answer: {told}")
}

/// Something else was seen than was promised.
#[derive(Debug)]
pub(crate) struct BrokenPromise {
    place: String,
    promised: String,
    seen: String,
    other_answer: bool,
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a promise is broken at {}", self.place)?;
        writeln!(f, "  promised  {}", self.promised)?;
        write!(f, "  seen      {}", self.seen)?;
        if self.other_answer {
            write!(f, " (not the bytes of the first answer)")?;
        }
        Ok(())
    }
}

impl std::error::Error for BrokenPromise {}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            runs: 0,
            did: Did::Cached,
            calls: Vec::new(),
            told: "201 pay-1".to_owned(),
            payload: Some("{}".to_owned()),
        }
    }

    #[test]
    fn what_was_promised_passes() {
        let promise = Promise::replay(Did::Cached, "none", &seen());
        promise.check("step 1", &seen()).unwrap();
    }

    #[test]
    fn a_broken_promise_names_the_place_and_both_sides() {
        let promise = Promise::replay(Did::Cached, "none", &seen());
        let charged_again = Seen {
            runs: 1,
            did: Did::Unprotected,
            told: "201 pay-2".to_owned(),
            ..seen()
        };
        let error = promise
            .check("step 2, event 4", &charged_again)
            .unwrap_err();
        let error = error.to_string();
        for part in [
            "step 2, event 4",
            "promised  cached answer (runs: 0)",
            "201 pay-1",
            "seen      ran unguarded (runs: 1)",
            "201 pay-2",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn each_part_of_a_promise_counts() {
        let promise = Promise::replay(Did::Cached, "none", &seen());
        let others = [
            Seen { runs: 1, ..seen() },
            Seen {
                did: Did::Refused,
                ..seen()
            },
            Seen {
                told: "201 pay-9".to_owned(),
                ..seen()
            },
            Seen {
                payload: Some("{ }".to_owned()),
                ..seen()
            },
        ];
        for other in others {
            promise.check("step 1", &other).unwrap_err();
        }
        let with_calls = Promise::replay(Did::Cached, "Put✗", &seen());
        with_calls.check("step 1", &seen()).unwrap_err();
    }
}
